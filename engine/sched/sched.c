#include "engine/sched/sched.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/sched/prefix.h"

int sched_init(struct sched *s, const struct sched_opts *o) {
    if (o->batch_tok_max < 1 || o->running_max < 1 || o->waiting_max < 0 || o->chunk_max < 0 ||
        o->running_max > o->batch_tok_max || o->n_group < 1 || o->n_group > KVGROUP_MAX) {
        return err_set(
            ERR_RANGE,
            "scheduler: %d tokens a step, %d running (at most as many), %d waiting, chunk %d, "
            "%d groups",
            o->batch_tok_max, o->running_max, o->waiting_max, o->chunk_max, o->n_group);
    }
    *s = (struct sched){.opts = *o};
    for (int32_t g = 0; g < o->n_group; g++) {
        int rc = kvpool_init(&s->pool[g], o->group[g].n_blocks, o->block_tok, o->salt);
        if (rc) {
            sched_fini(s);
            return rc;
        }
    }
    int64_t p = (int64_t)sizeof *s->running;
    s->running = mem_array(MEM_SCHED, o->running_max, p);
    s->waiting = mem_array(MEM_SCHED, (int64_t)o->waiting_max + o->running_max, p);
    s->done = mem_array(MEM_SCHED, (int64_t)o->waiting_max + 2 * (int64_t)o->running_max, p);
    if (!s->running || !s->waiting || !s->done) {
        sched_fini(s);
        return ERR_NOMEM;
    }
    return 0;
}

void sched_fini(struct sched *s) {
    for (int32_t g = 0; g < KVGROUP_MAX; g++) {
        kvpool_fini(&s->pool[g]);
    }
    mem_free(s->running);
    mem_free(s->waiting);
    mem_free(s->done);
    *s = (struct sched){0};
}

int plan_init(struct plan *p, int32_t running_max) {
    struct plan_item *item = mem_array(MEM_SCHED, running_max, (int64_t)sizeof *item);
    if (!item) {
        return ERR_NOMEM;
    }
    *p = (struct plan){.item = item};
    return 0;
}

void plan_fini(struct plan *p) {
    mem_free(p->item);
    *p = (struct plan){0};
}

static int32_t blocks_for(const struct sched *s, int32_t n_tok) {
    return (int32_t)i64_div_up(n_tok, s->opts.block_tok);
}

static bool goes_before(const struct seq *a, const struct seq *b) {
    return a->priority != b->priority ? a->priority > b->priority : a->order < b->order;
}

static void queue_insert(struct sched *s, struct seq *q) {
    int32_t i = s->n_waiting++;
    for (; i > 0 && goes_before(q, s->waiting[i - 1]); i--) {
        s->waiting[i] = s->waiting[i - 1];
    }
    s->waiting[i] = q;
    q->state = SEQ_WAITING;
}

static void list_remove(struct seq **list, int32_t *n, int32_t i) {
    memmove(list + i, list + i + 1, (size_t)(*n - i - 1) * sizeof *list);
    (*n)--;
}

static int32_t chunk_most(const struct sched_opts *o) {
    return o->chunk_max > 0 ? i32_min(o->chunk_max, o->batch_tok_max) : o->batch_tok_max;
}

int32_t sched_blocks_needed(const struct sched_opts *o, int32_t g, int32_t n_tok) {
    int32_t all = (int32_t)i64_div_up(n_tok, o->block_tok);
    int64_t span = (int64_t)o->group[g].window - 1 + chunk_most(o); /* seen by a chunk's rows */
    return o->group[g].window == 0 ? all
                                   : (int32_t)i64_min(all, i64_div_up(span, o->block_tok) + 1);
}

int sched_check_fits(const struct sched_opts *o, int32_t n_prompt, bool generates) {
    for (int32_t g = 0; g < o->n_group; g++) {
        int32_t need = sched_blocks_needed(o, g, n_prompt + (generates ? 1 : 0));
        if (need > o->group[g].n_blocks) {
            return err_set(
                ERR_LIMIT,
                "prompt of %d tokens needs %d cache blocks of %d tokens, the pool has %d", n_prompt,
                need, o->block_tok, o->group[g].n_blocks);
        }
    }
    return 0;
}

int sched_submit(struct sched *s, struct seq *q, int64_t now_ns) {
    int rc = sched_check_fits(&s->opts, q->n_prompt, !q->score);
    if (rc) {
        return rc;
    }
    if (s->n_waiting >= s->opts.waiting_max) {
        return err_set(ERR_BUSY, "%d requests are waiting already", s->n_waiting);
    }
    q->order = s->n_submitted++;
    q->arrive_ns = now_ns;
    queue_insert(s, q);
    return 0;
}

void sched_flush(struct sched *s) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        kvpool_flush(&s->pool[g]);
    }
}

static void give_blocks(struct sched *s, struct seq *q) {
    prefix_drop(s, q);
    q->n_computed = 0;
}

static void finish(struct sched *s, struct seq *q, enum finish why) {
    give_blocks(s, q);
    q->state = SEQ_FINISHED;
    q->finish = why;
    s->done[s->n_done++] = q;
}

bool sched_abort(struct sched *s, uint64_t id) {
    for (int32_t i = 0; i < s->n_running; i++) {
        struct seq *q = s->running[i];
        if (q->id == id) {
            list_remove(s->running, &s->n_running, i);
            finish(s, q, FINISH_ABORT);
            return true;
        }
    }
    for (int32_t i = 0; i < s->n_waiting; i++) {
        struct seq *q = s->waiting[i];
        if (q->id == id) {
            list_remove(s->waiting, &s->n_waiting, i);
            finish(s, q, FINISH_ABORT);
            return true;
        }
    }
    return false;
}

/* Preempts the last of the running order that the plan does not hold yet. out: NULL when none */
static struct seq *preempt_last(struct sched *s, struct plan *p, const struct seq *keep) {
    for (int32_t i = s->n_running - 1; i >= 0; i--) {
        struct seq *q = s->running[i];
        bool planned = q == keep;
        for (int32_t j = 0; j < p->n_item && !planned; j++) {
            planned = p->item[j].seq == q;
        }
        if (planned) {
            continue;
        }
        list_remove(s->running, &s->n_running, i);
        give_blocks(s, q);
        q->n_preempt++;
        queue_insert(s, q);
        p->n_preempted++;
        s->n_preempted++;
        return q;
    }
    return NULL;
}

/* Takes what group g lacks for n_tok tokens. out: false, nothing taken, when the pool lacks it */
static bool take_upto(struct sched *s, struct seq *q, int32_t g, int32_t n_tok) {
    struct kvheld *held = &q->held[g];
    int32_t more = i32_max(blocks_for(s, n_tok) - held->n, 0);
    if (kvpool_take(&s->pool[g], more, held->id + held->n) != 0) {
        return false;
    }
    held->n += more;
    return true;
}

/* Makes sure that q holds blocks for n_tok tokens. out: false when q itself had to give way */
static bool ensure_blocks(struct sched *s, struct plan *p, struct seq *q, int32_t n_tok) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        while (!take_upto(s, q, g, n_tok)) {
            if (!preempt_last(s, p, q)) {
                return false;
            }
        }
    }
    return true;
}

static void add_item(struct plan *p, struct seq *q, int32_t n) {
    p->item[p->n_item++] =
        (struct plan_item){.seq = q,
                           .start = q->n_computed,
                           .n = n,
                           .sample = q->n_computed + n == q->n_known && !q->score,
                           .cow_src = {-1, -1},
                           .cow_dst = {-1, -1}};
    p->n_tok += n;
}

static int32_t chunk_of(const struct sched *s, const struct plan *p, const struct seq *q) {
    int32_t n = i32_min(q->n_known - q->n_computed, s->opts.batch_tok_max - p->n_tok);
    return s->opts.chunk_max > 0 ? i32_min(n, s->opts.chunk_max) : n;
}

/* Plans running sequences of one kind: those one token behind (decode), or the others. */
static void plan_running(struct sched *s, struct plan *p, bool decode) {
    for (int32_t i = 0; i < s->n_running;) {
        struct seq *q = s->running[i];
        int32_t n = chunk_of(s, p, q);
        if ((q->n_known - q->n_computed == 1) != decode || n < 1) {
            i++;
            continue;
        }
        if (ensure_blocks(s, p, q, q->n_computed + n)) {
            add_item(p, q, n);
            /* why: a preempted sequence behind i is gone from the list, one before i cannot be,
             * since those are planned or of the other kind; find our place again */
            for (i = 0; s->running[i] != q; i++) {
            }
            i++;
            continue;
        }
        for (i = 0; s->running[i] != q; i++) {
        }
        list_remove(s->running, &s->n_running, i);
        if (p->n_item == 0 && s->n_running == 0) {
            finish(s, q, FINISH_LENGTH); /* alone, and the whole pool is its own */
        } else {
            give_blocks(s, q);
            q->n_preempt++;
            queue_insert(s, q);
            p->n_preempted++;
            s->n_preempted++;
        }
    }
}

/* What the first waiting sequence needs beside its shared blocks: a full group the blocks of all
 * known tokens, so that a prompt that was begun can end; a windowed one those of the first chunk.
 */
static bool take_admission(struct sched *s, struct seq *q, int32_t n) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        int32_t upto = s->opts.group[g].window == 0 ? q->n_known : q->n_computed + n;
        if (!take_upto(s, q, g, upto)) {
            return false;
        }
    }
    return true;
}

/* Tries to admit the first waiting sequence. out: false when it must wait on */
static bool admit(struct sched *s, struct plan *p) {
    struct seq *q = s->waiting[0];
    struct prefix_copy copy;
    q->n_computed = prefix_share(s, q, &copy);
    int32_t computed = q->n_computed;
    int32_t n = chunk_of(s, p, q);
    if (!take_admission(s, q, n)) {
        give_blocks(s, q);
        return false;
    }
    if (q->n_preempt == 0) {
        q->n_cached = computed;
        s->n_hit_tok += computed;
        s->n_query_tok += q->n_prompt;
    }
    list_remove(s->waiting, &s->n_waiting, 0);
    s->running[s->n_running++] = q;
    q->state = SEQ_RUNNING;
    add_item(p, q, n);
    memcpy(p->item[p->n_item - 1].cow_src, copy.src, sizeof copy.src);
    memcpy(p->item[p->n_item - 1].cow_dst, copy.dst, sizeof copy.dst);
    p->n_admitted++;
    return true;
}

void sched_plan(struct sched *s, struct plan *p) {
    p->n_item = p->n_tok = p->n_decode = p->n_preempted = p->n_admitted = 0;
    plan_running(s, p, true);
    p->n_decode = p->n_item;
    plan_running(s, p, false);
    while (p->n_preempted == 0 && s->n_waiting > 0 && s->n_running < s->opts.running_max &&
           p->n_tok < s->opts.batch_tok_max && admit(s, p)) {
    }
    s->n_step++;
}

static void publish_full(struct sched *s, struct seq *q) {
    int32_t P = s->opts.block_tok;
    if (s->opts.no_prefix_cache) {
        return;
    }
    for (; (q->n_published + 1) * P <= q->n_computed; q->n_published++) {
        int32_t i = q->n_published;
        struct hash128 parent = q->chain;
        for (int32_t g = 0; g < s->opts.n_group; g++) {
            q->chain =
                kvpool_publish(&s->pool[g], q->held[g].id[i], parent, q->tok + (int64_t)i * P);
        }
    }
}

/* Gives back the blocks that have left the window of the next row. */
static void slide(struct sched *s, struct seq *q) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        struct kvheld *held = &q->held[g];
        int32_t first = prefix_first_seen(s, g, q->n_computed);
        for (; held->first < first; held->first++) {
            kvpool_release(&s->pool[g], held->id + held->first, 1);
            held->id[held->first] = -1;
        }
    }
}

static enum finish verdict(const struct seq *q, int32_t token) {
    for (int32_t i = 0; i < q->n_stop && !q->ignore_stop; i++) {
        if (q->stop[i] == token) {
            return FINISH_STOP;
        }
    }
    return q->n_known == q->cap ? FINISH_LENGTH : FINISH_NONE;
}

void sched_commit(struct sched *s, const struct plan *p, const int32_t *tokens) {
    for (int32_t i = 0; i < p->n_item; i++) {
        const struct plan_item *it = &p->item[i];
        struct seq *q = it->seq;
        enum finish f = FINISH_NONE;
        if (q->state != SEQ_RUNNING) {
            continue;
        }
        q->n_computed += it->n;
        publish_full(s, q);
        slide(s, q);
        if (it->sample && q->n_known < q->cap) {
            q->tok[q->n_known++] = tokens[i];
            f = verdict(q, tokens[i]);
        } else if (q->n_computed == q->n_known) {
            f = q->score ? FINISH_SCORED : FINISH_LENGTH;
        }
        if (f != FINISH_NONE) {
            int32_t j = 0;
            while (s->running[j] != q) {
                j++;
            }
            list_remove(s->running, &s->n_running, j);
            finish(s, q, f);
        }
    }
}

struct seq *sched_pop_done(struct sched *s) {
    if (s->n_done == 0) {
        return NULL;
    }
    struct seq *q = s->done[0];
    list_remove(s->done, &s->n_done, 0);
    return q;
}

/* Law of one sequence: a waiting one holds nothing; a running one holds all blocks from the first
 * that its next row sees up to its computed tokens, and no earlier one. */
static int check_seq(const struct sched *s, const struct seq *q, bool running) {
    bool ok = running == (q->state == SEQ_RUNNING) && q->n_computed <= q->n_known &&
              q->n_known <= q->cap && q->n_group == s->opts.n_group;
    int32_t n = 0;
    for (int32_t g = 0; g < s->opts.n_group && ok; g++) {
        const struct kvheld *held = &q->held[g];
        n = held->n;
        ok = running ? (int64_t)n * s->opts.block_tok >= q->n_computed &&
                           held->first == prefix_first_seen(s, g, q->n_computed)
                     : n == 0 && held->first == 0;
    }
    return ok ? 0
              : err_set(ERR_INTERNAL, "sequence %llu: state %d, %d of %d tokens, %d blocks",
                        (unsigned long long)q->id, (int)q->state, q->n_computed, q->n_known, n);
}

/* Reference counts of group g are exactly the sequences' holdings. */
static int check_group(const struct sched *s, int32_t g) {
    const struct kvpool *p = &s->pool[g];
    int rc = kvpool_check(p);
    int32_t *n_held = rc ? NULL : mem_array(MEM_SCHED, p->n_blocks, (int64_t)sizeof *n_held);
    if (!n_held) {
        return rc ? rc : ERR_NOMEM;
    }
    for (int32_t i = 0; i < s->n_running; i++) {
        const struct kvheld *held = &s->running[i]->held[g];
        for (int32_t j = held->first; j < held->n; j++) {
            n_held[held->id[j]]++;
        }
    }
    for (int32_t i = 0; i < p->n_blocks && !rc; i++) {
        if (n_held[i] != p->block[i].ref) {
            rc = err_set(ERR_INTERNAL, "group %d, block %d: %d references, held by %d sequences", g,
                         i, p->block[i].ref, n_held[i]);
        }
    }
    mem_free(n_held);
    return rc;
}

int sched_check(const struct sched *s) {
    int rc = 0;
    for (int32_t i = 0; i < s->n_running + s->n_waiting && !rc; i++) {
        bool running = i < s->n_running;
        rc = check_seq(s, running ? s->running[i] : s->waiting[i - s->n_running], running);
    }
    for (int32_t g = 0; g < s->opts.n_group && !rc; g++) {
        rc = check_group(s, g);
    }
    return rc;
}
