#include "engine/sched/sched.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

int sched_init(struct sched *s, const struct sched_opts *o) {
    if (o->batch_tok_max < 1 || o->running_max < 1 || o->waiting_max < 0 || o->chunk_max < 0 ||
        o->running_max > o->batch_tok_max) {
        return err_set(
            ERR_RANGE,
            "scheduler: %d tokens a step, %d running (at most as many), %d waiting, chunk %d",
            o->batch_tok_max, o->running_max, o->waiting_max, o->chunk_max);
    }
    *s = (struct sched){.opts = *o};
    int rc = kvpool_init(&s->pool, o->n_blocks, o->block_tok, o->salt);
    if (rc) {
        return rc;
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
    kvpool_fini(&s->pool);
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

int sched_submit(struct sched *s, struct seq *q, int64_t now_ns) {
    int32_t need = blocks_for(s, q->n_prompt + (q->score ? 0 : 1));
    if (need > s->opts.n_blocks) {
        return err_set(ERR_LIMIT,
                       "prompt of %d tokens needs %d cache blocks of %d tokens, the pool has %d",
                       q->n_prompt, need, s->opts.block_tok, s->opts.n_blocks);
    }
    if (s->n_waiting >= s->opts.waiting_max) {
        return err_set(ERR_BUSY, "%d requests are waiting already", s->n_waiting);
    }
    q->order = s->n_submitted++;
    q->arrive_ns = now_ns;
    queue_insert(s, q);
    return 0;
}

static void give_blocks(struct sched *s, struct seq *q) {
    kvpool_release(&s->pool, q->block, q->n_block);
    q->n_block = 0;
    q->n_published = 0;
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

/* Makes sure that q holds blocks for n_tok tokens. out: false when q itself had to give way */
static bool ensure_blocks(struct sched *s, struct plan *p, struct seq *q, int32_t n_tok) {
    int32_t more = blocks_for(s, n_tok) - q->n_block;
    while (more > 0 && kvpool_take(&s->pool, more, q->block + q->n_block) != 0) {
        if (!preempt_last(s, p, q)) {
            return false;
        }
    }
    q->n_block += i32_max(more, 0);
    return true;
}

static void add_item(struct plan *p, struct seq *q, int32_t n) {
    p->item[p->n_item++] =
        (struct plan_item){.seq = q,
                           .start = q->n_computed,
                           .n = n,
                           .sample = q->n_computed + n == q->n_known && !q->score,
                           .cow_src = -1,
                           .cow_dst = -1};
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

/* Shares the cached blocks of q's known tokens. out: tokens found */
static int32_t share_prefix(struct sched *s, struct seq *q) {
    int32_t P = s->opts.block_tok;
    int32_t n_full = q->n_known / P;
    q->chain = s->pool.root;
    q->n_published = 0;
    if (s->opts.no_prefix_cache || q->score) {
        return 0;
    }
    for (int32_t i = 0; i < n_full; i++) {
        struct hash128 h;
        int32_t id = kvpool_find(&s->pool, q->chain, q->tok + (int64_t)i * P, &h);
        if (id < 0) {
            break;
        }
        kvpool_share(&s->pool, id);
        q->block[q->n_block++] = id;
        q->chain = h;
        q->n_published++;
    }
    return q->n_published * P;
}

/* Gives the last shared block back, so that its tokens are computed again. */
static void drop_last(struct sched *s, struct seq *q) {
    int32_t last = q->block[q->n_block - 1];
    q->chain = s->pool.block[last].parent;
    q->n_published--;
    q->n_block--;
    kvpool_release(&s->pool, &last, 1);
}

/* A hit of every known token: the last one is computed again, into a private copy of its block
 * (law 4, and copy on write); without a block for the copy, the whole block is computed again.
 * out: computed tokens; src and dst of the copy, -1 when there is none */
static int32_t keep_one(struct sched *s, struct seq *q, int32_t *src, int32_t *dst) {
    int32_t copy = -1;
    *src = q->block[q->n_block - 1];
    if (kvpool_take(&s->pool, 1, &copy) != 0) {
        drop_last(s, q);
        *src = -1;
        return q->n_known - s->opts.block_tok;
    }
    /* why: the source may be evicted and written later in this very plan; copies are executed in
     * plan order ahead of all writes, so its content is still there */
    drop_last(s, q);
    q->block[q->n_block++] = copy;
    *dst = copy;
    return q->n_known - 1;
}

/* Tries to admit the first waiting sequence. out: false when it must wait on */
static bool admit(struct sched *s, struct plan *p) {
    struct seq *q = s->waiting[0];
    int32_t src = -1;
    int32_t dst = -1;
    int32_t computed = share_prefix(s, q);
    if (computed == q->n_known) {
        computed = keep_one(s, q, &src, &dst);
    }
    int32_t want = blocks_for(s, q->n_known) - q->n_block;
    if (kvpool_take(&s->pool, want, q->block + q->n_block) != 0) {
        give_blocks(s, q);
        return false;
    }
    q->n_block += want;
    q->n_computed = computed;
    if (q->n_preempt == 0) {
        q->n_cached = computed;
        s->pool.n_hit_tok += computed;
        s->pool.n_query_tok += q->n_prompt;
    }
    list_remove(s->waiting, &s->n_waiting, 0);
    s->running[s->n_running++] = q;
    q->state = SEQ_RUNNING;
    add_item(p, q, chunk_of(s, p, q));
    p->item[p->n_item - 1].cow_src = src;
    p->item[p->n_item - 1].cow_dst = dst;
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
        q->chain = kvpool_publish(&s->pool, q->block[i], q->chain, q->tok + (int64_t)i * P);
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

int sched_check(const struct sched *s) {
    int rc = kvpool_check(&s->pool);
    if (rc) {
        return rc;
    }
    int32_t *held = mem_array(MEM_SCHED, s->opts.n_blocks, (int64_t)sizeof *held);
    if (!held) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < s->n_running + s->n_waiting; i++) {
        const struct seq *q = i < s->n_running ? s->running[i] : s->waiting[i - s->n_running];
        if ((i < s->n_running) != (q->state == SEQ_RUNNING) ||
            (q->state == SEQ_WAITING && q->n_block > 0) || q->n_computed > q->n_known ||
            q->n_known > q->cap || (int64_t)q->n_block * s->opts.block_tok < q->n_computed) {
            rc = err_set(ERR_INTERNAL, "sequence %llu: state %d, %d of %d tokens, %d blocks",
                         (unsigned long long)q->id, (int)q->state, q->n_computed, q->n_known,
                         q->n_block);
        }
        for (int32_t j = 0; j < q->n_block; j++) {
            held[q->block[j]]++;
        }
    }
    for (int32_t i = 0; i < s->opts.n_blocks && !rc; i++) {
        if (held[i] != s->pool.block[i].ref) {
            rc = err_set(ERR_INTERNAL, "block %d: %d references, held by %d sequences", i,
                         s->pool.block[i].ref, held[i]);
        }
    }
    mem_free(held);
    return rc;
}
