/* engine_step is the whole machine on one page: take commands, plan, build, forward, sample,
 * commit, emit. Everything else here is the two rings at its sides.
 *
 * Laws:
 *  1. The owner's thread alone touches scheduler, pool, backend and sampler.
 *  2. Commands come in through a ring filled under a lock; events leave through a ring without one.
 *  3. A step allocates nothing; a request's memory is made by engine_submit.
 *  4. A request ends with exactly one END event. */
#include "engine/run/engine.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/ring.h"
#include "engine/run/engine_opts.h"
#include "engine/run/forward.h"
#include "engine/run/fused.h"
#include "engine/sched/batch.h"
#include "engine/sched/sched.h"
#include "kernels/backend.h"

enum {
    OUT_ROWS = 64, /* rows of logits at once */
    ABORTS_MAX = 4096
};

/* The engine's part of a request, kept behind seq->user. */
struct job {
    struct seq *seq; /* own */
    struct sampling sampling;
    engine_row_fn row;
    void *row_ctx; /* ref */
    int64_t first_run_ns;
    int32_t n_token; /* TOKEN events so far */
    int32_t min_new; /* no stop token among the first of them */
    bool logprob;    /* the probability of the token is wanted */
    int failed;      /* 0, or why it must end */
};

struct command {
    struct job *job; /* submit; NULL: abort */
    uint64_t id;     /* abort */
};

struct engine {
    const struct weights *w;       /* ref */
    const struct backend_ops *ops; /* ref */
    struct backend *be;            /* own */
    struct engine_opts opts;       /* defaults filled in */
    struct kvmem kv;
    struct forward fw; /* empty when the backend fuses the decoder */
    struct fused fused;
    struct sched sched;
    struct plan plan;
    struct batch_set batch;
    struct kv_groups groups; /* of the model's layers */
    int32_t n_blocks[MODEL_KV_GROUPS];
    struct sampler sampler;
    int32_t out_max;       /* rows of logits at once */
    int32_t *picked;       /* own, [running_max] sampled tokens by plan item */
    float *picked_logprob; /* own, [running_max] */
    int32_t *row_pick;     /* own, [out_max] */
    int64_t n_generated;   /* TOKEN events so far */
    struct ring commands;
    struct ring events;
    pthread_mutex_t submit_lock; /* producers of commands */
    pthread_mutex_t stats_lock;
    struct engine_stats stats; /* under stats_lock */
    _Atomic uint64_t n_id;
    _Atomic int32_t n_live; /* requests without END */
    _Atomic bool dead;      /* a step failed */
    char text[128];
};

static int open_backend(struct engine *e) {
    const struct model_cfg *c = &e->w->cfg;
    int32_t k_max = i32_max(i32_max(c->hidden, c->ffn), c->n_head * c->head_dim);
    k_max = i32_max(k_max, c->expert_ffn);
    struct backend_opts bo = {.n_threads = e->opts.n_threads,
                              .n_tok_max = i32_max(e->opts.batch_tok_max, OUT_ROWS),
                              .k_max = k_max,
                              .ctx_max = e->opts.ctx_max,
                              .n_head_max = c->n_head,
                              .variant = e->opts.variant};
    int rc = backend_find(e->opts.backend, &e->ops);
    return rc ? rc : e->ops->open(&bo, &e->be);
}

/* The scales of a static cache; other types have none. */
static void set_kv_scales(struct engine *e) {
    for (int32_t i = 0; i < e->kv.n_layer && e->opts.kv_type == DTYPE_F8_E4M3; i++) {
        e->kv.layer[i].k_scale = e->w->layer[i].k_scale;
        e->kv.layer[i].v_scale = e->w->layer[i].v_scale;
    }
}

/* The backend's own decoder where it has one for this model, else the single ops. */
static int open_decoder(struct engine *e) {
    const struct engine_opts *o = &e->opts;
    struct fused_max max = {.tok = o->batch_tok_max,
                            .seq = o->running_max,
                            .out = i32_max(OUT_ROWS, o->running_max),
                            .host_rows = OUT_ROWS,
                            .ctx = o->ctx_max};
    int rc = fused_init(&e->fused, e->ops, e->be, e->w, &e->kv, &max);
    e->out_max = e->fused.dev ? max.out : i32_min(OUT_ROWS, o->batch_tok_max);
    return rc || e->fused.dev ? rc
                              : forward_init(&e->fw, e->ops, e->be, e->w, o->batch_tok_max,
                                             e->out_max, o->ctx_max);
}

static int open_parts(struct engine *e) {
    const struct engine_opts *o = &e->opts;
    struct sched_opts so = {.n_group = e->groups.n,
                            .block_tok = o->block_tok,
                            .batch_tok_max = o->batch_tok_max,
                            .running_max = o->running_max,
                            .waiting_max = o->waiting_max,
                            .chunk_max = o->chunk_max,
                            .no_prefix_cache = o->no_prefix_cache,
                            .salt = o->salt};
    int64_t n = o->running_max;
    for (int32_t g = 0; g < e->groups.n; g++) {
        so.group[g] =
            (struct sched_group){.n_blocks = e->n_blocks[g], .window = e->groups.window[g]};
    }
    int rc = sched_init(&e->sched, &so);
    rc = rc ? rc : plan_init(&e->plan, o->running_max);
    rc = rc ? rc
            : batch_init(&e->batch, e->groups.n, o->batch_tok_max, o->running_max,
                         (int32_t)i64_div_up(o->ctx_max, o->block_tok));
    rc = rc ? rc : open_backend(e);
    rc = rc ? rc
            : kvmem_init(&e->kv, e->ops, e->be, &e->w->cfg, o->kv_type, e->n_blocks, o->block_tok);
    set_kv_scales(e);
    rc = rc ? rc : open_decoder(e);
    rc = rc ? rc : sampler_init(&e->sampler, e->w->cfg.vocab);
    rc = rc ? rc
            : ring_init(&e->commands, MEM_RUN, o->waiting_max + ABORTS_MAX,
                        (int32_t)sizeof(struct command));
    rc = rc ? rc
            : ring_init(&e->events, MEM_RUN, 4 * (o->running_max + o->waiting_max),
                        (int32_t)sizeof(struct event));
    if (rc) {
        return rc;
    }
    e->picked = mem_array(MEM_RUN, n, (int64_t)sizeof *e->picked);
    e->picked_logprob = mem_array(MEM_RUN, n, (int64_t)sizeof *e->picked_logprob);
    e->row_pick = mem_array(MEM_RUN, e->out_max, (int64_t)sizeof *e->row_pick);
    return e->picked && e->picked_logprob && e->row_pick ? 0 : ERR_NOMEM;
}

static void update_stats(struct engine *e) {
    pthread_mutex_lock(&e->stats_lock);
    struct engine_stats *s = &e->stats;
    s->n_running = e->sched.n_running;
    s->n_waiting = e->sched.n_waiting;
    s->n_blocks = s->n_blocks_active = s->n_blocks_cached = 0;
    s->n_evicted = 0;
    for (int32_t g = 0; g < e->groups.n; g++) {
        const struct kvpool *p = &e->sched.pool[g];
        s->n_blocks += p->n_blocks;
        s->n_blocks_active += p->n_active;
        s->n_blocks_cached += p->n_cached;
        s->n_evicted += p->n_evicted;
    }
    s->n_step = e->sched.n_step;
    s->n_tok_computed += e->plan.n_tok;
    s->n_tok_generated = e->n_generated;
    s->n_preempted = e->sched.n_preempted;
    s->n_prefix_hit_tok = e->sched.n_hit_tok;
    s->n_prefix_query_tok = e->sched.n_query_tok;
    s->batch_tok_last = e->plan.n_tok;
    s->kv_bytes = e->kv.bytes;
    s->kv_bytes_per_token = model_cfg_kv_bytes_per_token(&e->w->cfg, e->opts.kv_type);
    s->workspace_bytes = e->fw.bytes;
    s->ctx_max = e->opts.ctx_max;
    s->events_max = e->events.cap;
    pthread_mutex_unlock(&e->stats_lock);
}

int engine_open(const struct weights *w, const struct engine_opts *opts, struct engine **out) {
    struct engine *e = mem_calloc(MEM_RUN, (int64_t)sizeof *e);
    if (!e) {
        return ERR_NOMEM;
    }
    e->w = w;
    e->opts = opts ? *opts : (struct engine_opts){0};
    pthread_mutex_init(&e->submit_lock, NULL);
    pthread_mutex_init(&e->stats_lock, NULL);
    model_cfg_kv_groups(&w->cfg, &e->groups);
    int rc = engine_opts_fill(&w->cfg, &e->groups, &e->opts, e->n_blocks);
    rc = rc ? rc : open_parts(e);
    if (rc) {
        engine_close(e);
        return rc;
    }
    snprintf(e->text, sizeof e->text, "%s: %s", e->ops->name, e->ops->describe(e->be));
    update_stats(e);
    *out = e;
    return 0;
}

static void job_destroy(struct job *j) {
    if (j) {
        seq_destroy(j->seq);
        mem_free(j);
    }
}

static void drop_requests(struct engine *e) {
    struct command c;
    for (int32_t i = 0; i < e->sched.n_running; i++) {
        job_destroy(e->sched.running[i]->user);
    }
    for (int32_t i = 0; i < e->sched.n_waiting; i++) {
        job_destroy(e->sched.waiting[i]->user);
    }
    while (e->commands.items && ring_pop(&e->commands, &c)) {
        job_destroy(c.job);
    }
}

void engine_close(struct engine *e) {
    if (!e) {
        return;
    }
    drop_requests(e);
    mem_free(e->picked);
    mem_free(e->picked_logprob);
    mem_free(e->row_pick);
    ring_fini(&e->commands);
    ring_fini(&e->events);
    sampler_fini(&e->sampler);
    if (e->be) {
        fused_fini(&e->fused, e->ops, e->be);
        forward_fini(&e->fw);
        kvmem_fini(&e->kv);
        e->ops->close(e->be);
    }
    batch_fini(&e->batch);
    plan_fini(&e->plan);
    sched_fini(&e->sched);
    pthread_mutex_destroy(&e->submit_lock);
    pthread_mutex_destroy(&e->stats_lock);
    mem_free(e);
}

static int check_request(const struct engine *e, const struct engine_request *r) {
    const struct engine_opts *o = &e->opts;
    if (atomic_load(&e->dead)) {
        return err_set(ERR_DEVICE, "the engine has failed in an earlier step");
    }
    if (r->n_ids < 1 || r->max_new < 0 || r->min_new < 0 || r->n_stop < 0 ||
        r->n_stop > SEQ_STOP_MAX) {
        return err_set(ERR_RANGE, "request with %d prompt tokens, %d new tokens, %d stop tokens",
                       r->n_ids, r->max_new, r->n_stop);
    }
    if (r->n_ids > o->ctx_max || (!r->score && r->n_ids == o->ctx_max)) {
        return err_set(ERR_LIMIT, "prompt of %d tokens, the context holds %d%s", r->n_ids,
                       o->ctx_max, r->score ? "" : " with at least one new token");
    }
    int rc = sched_check_fits(&e->sched.opts, r->n_ids, !r->score);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < r->n_ids; i++) {
        if (r->ids[i] < 0 || r->ids[i] >= e->w->cfg.vocab) {
            return err_set(ERR_RANGE, "token %d of the prompt is %d, the vocabulary has 0..%d", i,
                           r->ids[i], e->w->cfg.vocab - 1);
        }
    }
    return sampling_check(&r->sampling);
}

static void copy_stops(const struct engine *e, const struct engine_request *r, struct seq *q) {
    const struct model_cfg *c = &e->w->cfg;
    q->ignore_stop = r->ignore_stop;
    q->n_stop = r->stop ? r->n_stop : c->n_eos;
    memcpy(q->stop, r->stop ? r->stop : c->eos, (size_t)q->n_stop * sizeof *q->stop);
}

static int job_create(struct engine *e, const struct engine_request *r, struct job **out) {
    struct job *j = mem_calloc(MEM_RUN, (int64_t)sizeof *j);
    if (!j) {
        return ERR_NOMEM;
    }
    int32_t max_new = r->score ? 0 : i32_min(r->max_new, e->opts.ctx_max - r->n_ids);
    int rc = seq_create(r->ids, r->n_ids, max_new, e->opts.block_tok, e->groups.n, &j->seq);
    if (rc) {
        mem_free(j);
        return rc;
    }
    j->sampling = r->sampling;
    j->row = r->row;
    j->row_ctx = r->row_ctx;
    j->min_new = r->min_new;
    j->logprob = r->logprob || e->opts.logprobs;
    j->first_run_ns = -1;
    j->seq->user = j;
    j->seq->score = r->score;
    j->seq->score_from = r->score_from;
    j->seq->priority = r->priority;
    copy_stops(e, r, j->seq);
    *out = j;
    return 0;
}

static int push_command(struct engine *e, const struct command *c) {
    pthread_mutex_lock(&e->submit_lock);
    bool ok = ring_push(&e->commands, c);
    pthread_mutex_unlock(&e->submit_lock);
    return ok ? 0 : err_set(ERR_BUSY, "the engine's queue of commands is full");
}

int engine_submit(struct engine *e, const struct engine_request *r, uint64_t *id) {
    struct job *j = NULL;
    int rc = check_request(e, r);
    if (rc) {
        return rc;
    }
    if (atomic_fetch_add(&e->n_live, 1) >= e->opts.waiting_max) {
        atomic_fetch_sub(&e->n_live, 1);
        return err_set(ERR_BUSY, "%d requests are in flight already", e->opts.waiting_max);
    }
    rc = job_create(e, r, &j);
    if (!rc) {
        uint64_t new_id = atomic_fetch_add(&e->n_id, 1) + 1;
        j->seq->id = new_id;
        rc = push_command(e, &(struct command){.job = j});
        if (!rc) {
            *id = new_id;
            return 0;
        }
        job_destroy(j);
    }
    atomic_fetch_sub(&e->n_live, 1);
    return rc;
}

int engine_abort(struct engine *e, uint64_t id) {
    return push_command(e, &(struct command){.id = id});
}

/* Room for what one step can emit: a token and an end for each running, an end for each abort. */
static bool events_have_room(const struct engine *e) {
    return ring_count(&e->events) + 2 * e->opts.running_max + e->opts.waiting_max <= e->events.cap;
}

static void take_commands(struct engine *e, int64_t now_ns) {
    struct command c;
    while (ring_pop(&e->commands, &c)) {
        if (!c.job) {
            sched_abort(&e->sched, c.id);
        } else if (sched_submit(&e->sched, c.job->seq, now_ns) != 0) {
            c.job->failed = ERR_INTERNAL; /* engine_submit has checked all of this */
            c.job->seq->finish = FINISH_ERROR;
            e->sched.done[e->sched.n_done++] = c.job->seq;
        }
    }
}

static void emit_end(struct engine *e, struct seq *q, int64_t now_ns) {
    struct job *j = q->user;
    struct event ev = {.id = q->id,
                       .t_ns = now_ns,
                       .kind = EVENT_END,
                       .token = -1,
                       .index = j->n_token,
                       .logprob = NAN,
                       .finish = j->failed ? FINISH_ERROR : (int32_t)q->finish,
                       .n_prompt = q->n_prompt,
                       .n_cached = q->n_cached,
                       .n_preempt = q->n_preempt,
                       .first_run_ns = j->first_run_ns};
    ring_push(&e->events, &ev);
    atomic_fetch_sub(&e->n_live, 1);
    job_destroy(j);
}

static void emit_events(struct engine *e, int64_t now_ns) {
    for (int32_t i = 0; i < e->plan.n_item; i++) {
        const struct plan_item *it = &e->plan.item[i];
        struct job *j = it->seq->user;
        if (!it->sample || j->failed || it->start + it->n >= it->seq->cap) {
            continue;
        }
        struct event ev = {.id = it->seq->id,
                           .t_ns = now_ns,
                           .kind = EVENT_TOKEN,
                           .token = e->picked[i],
                           .index = j->n_token++,
                           .logprob = e->picked_logprob[i]};
        ring_push(&e->events, &ev);
        e->n_generated++;
    }
    for (struct seq *q = sched_pop_done(&e->sched); q; q = sched_pop_done(&e->sched)) {
        emit_end(e, q, now_ns);
    }
}

/* Does the choice of the next token look at more than its row? */
static bool is_adjusted(const struct job *j) {
    return sampling_penalizes(&j->sampling) || j->n_token < j->min_new;
}

/* The row after penalties, and without stop tokens where it is too early for them. */
static const float *adjust(struct engine *e, const struct job *j, const float *logits) {
    const struct seq *q = j->seq;
    bool early = j->n_token < j->min_new && !q->ignore_stop;
    return sampler_adjust(&e->sampler, logits, &j->sampling, q->tok + q->n_prompt,
                          q->n_known - q->n_prompt, q->stop, early ? q->n_stop : 0);
}

/* Uses one row of logits: the request's row function, then the sampler. */
static void use_row(struct engine *e, int32_t item, int32_t pos, const float *logits) {
    const struct plan_item *it = &e->plan.item[item];
    struct job *j = it->seq->user;
    int rc = j->failed;
    if (!rc && j->row) {
        rc = j->row(j->row_ctx, pos, logits, e->w->cfg.vocab);
    }
    if (!rc && it->sample) {
        const float *x = is_adjusted(j) ? adjust(e, j, logits) : logits;
        rc = sampler_pick(&e->sampler, x, &j->sampling, pos + 1, &e->picked[item]);
        e->picked_logprob[item] = NAN;
        if (!rc && j->logprob) {
            e->picked_logprob[item] = (float)((double)logits[e->picked[item]] -
                                              sampler_logsumexp(logits, e->w->cfg.vocab));
        }
    }
    j->failed = rc;
}

/* Does the item want its row's largest logit and no more? */
static bool wants_pick_alone(const struct engine *e, int32_t item) {
    const struct plan_item *it = &e->plan.item[item];
    const struct job *j = it->seq->user;
    return it->sample && !j->row && j->sampling.temperature == 0 && !j->logprob && !is_adjusted(j);
}

static int32_t item_of(const struct batch *b, int32_t t, int32_t item) {
    while (t >= b->seq_start[item + 1]) {
        item++;
    }
    return item;
}

/* Uses the largest logit of a row as the backend found it. */
static void use_pick(struct engine *e, int32_t item, int32_t token) {
    struct job *j = e->plan.item[item].seq->user;
    if (!j->failed && token < 0) {
        j->failed = err_set(ERR_NUMERIC, "no logit is a number");
    }
    e->picked[item] = token;
    e->picked_logprob[item] = NAN;
}

static bool all_want_picks_alone(const struct engine *e) {
    for (int32_t i = 0; i < e->plan.n_item; i++) {
        if (e->plan.item[i].seq->score || (e->plan.item[i].sample && !wants_pick_alone(e, i))) {
            return false;
        }
    }
    return true;
}

/* A slice of logits, or of picks where nobody looks at more. */
static int slice(struct engine *e, const int32_t *row, int32_t n, bool alone) {
    return e->fused.dev ? e->ops->decoder_logits(e->be, e->fused.dev, row, n,
                                                 alone ? NULL : e->fused.logits, e->row_pick)
                        : forward_logits(&e->fw, e->fw.x, row, n);
}

/* Computes the wanted rows of logits, a slice at a time, and hands each to its item. */
static int use_logits(struct engine *e) {
    const struct batch *b = &e->batch.group[0];
    bool alone = e->fused.dev && all_want_picks_alone(e);
    int32_t most = alone ? e->out_max : i32_min(OUT_ROWS, e->out_max);
    const float *logits = e->fused.dev ? e->fused.logits : e->fw.logits;
    int32_t item = 0;
    for (int32_t r0 = 0; r0 < b->n_out; r0 += most) {
        int32_t n = i32_min(most, b->n_out - r0);
        const int32_t *row = b->out_row + r0;
        int rc = slice(e, row, n, alone);
        if (rc) {
            return rc;
        }
        for (int32_t r = 0; r < n; r++) {
            item = item_of(b, row[r], item);
            if (alone) {
                use_pick(e, item, e->row_pick[r]);
            } else {
                use_row(e, item, b->pos[row[r]], logits + (int64_t)r * e->w->cfg.vocab);
            }
        }
    }
    return 0;
}

static int compute(struct engine *e) {
    for (int32_t i = 0; i < e->plan.n_item; i++) {
        const struct plan_item *it = &e->plan.item[i];
        for (int32_t g = 0; g < e->groups.n && it->cow_src[g] >= 0; g++) {
            int rc = kvmem_copy(&e->kv, g, it->cow_src[g], it->cow_dst[g]);
            if (rc) {
                return rc;
            }
        }
    }
    int rc = e->fused.dev ? e->ops->decoder_run(e->be, e->fused.dev, e->batch.group, e->groups.n)
                          : forward_run(&e->fw, &e->kv, e->batch.group);
    return rc ? rc : use_logits(e);
}

static void mark_first_run(struct engine *e, int64_t now_ns) {
    for (int32_t i = 0; i < e->plan.n_item; i++) {
        struct job *j = e->plan.item[i].seq->user;
        if (j->first_run_ns < 0) {
            j->first_run_ns = now_ns;
        }
    }
}

/* Ends requests whose row or sampler failed. */
static void end_failed(struct engine *e) {
    for (int32_t i = 0; i < e->plan.n_item; i++) {
        struct seq *q = e->plan.item[i].seq;
        const struct job *j = q->user;
        if (j->failed && q->state == SEQ_RUNNING) {
            sched_abort(&e->sched, q->id);
        }
    }
}

/* The machine is gone: every request ends with an error. */
static void end_all(struct engine *e) {
    atomic_store(&e->dead, true);
    while (e->sched.n_running + e->sched.n_waiting > 0) {
        struct seq *q = e->sched.n_running ? e->sched.running[0] : e->sched.waiting[0];
        ((struct job *)q->user)->failed = ERR_DEVICE;
        sched_abort(&e->sched, q->id);
    }
    e->plan.n_item = 0;
}

int engine_step(struct engine *e, bool *busy) {
    int rc = 0;
    *busy = true;
    if (!events_have_room(e)) {
        return err_set(ERR_AGAIN, "the ring of events is full");
    }
    int64_t now_ns = clock_now_ns();
    take_commands(e, now_ns);
    if (atomic_load(&e->dead)) {
        end_all(e); /* what was submitted before the failure was seen */
    }
    sched_plan(&e->sched, &e->plan);
    *busy = e->plan.n_item > 0 || e->sched.n_done > 0;
    if (e->plan.n_item > 0) {
        batch_build(&e->batch, &e->plan, e->opts.block_tok);
        mark_first_run(e, now_ns);
        rc = compute(e);
        if (rc) {
            end_all(e);
        } else {
            sched_commit(&e->sched, &e->plan, e->picked);
            end_failed(e);
        }
    }
    emit_events(e, clock_now_ns());
    update_stats(e);
    return rc;
}

int32_t engine_poll(struct engine *e, struct event *ev, int32_t cap) {
    int32_t n = 0;
    while (n < cap && ring_pop(&e->events, &ev[n])) {
        n++;
    }
    return n;
}

/* A row function that remembers its own failure. */
struct score {
    engine_row_fn row;
    void *ctx; /* ref */
    int failed;
};

static int score_row(void *ctx, int32_t position, const float *logits, int32_t vocab) {
    struct score *s = ctx;
    s->failed = s->row(s->ctx, position, logits, vocab);
    return s->failed;
}

int engine_score(
    struct engine *e, const int32_t *ids, int32_t n, int32_t from, engine_row_fn row, void *ctx) {
    uint64_t id = 0;
    struct score s = {.row = row, .ctx = ctx};
    struct engine_request r = {
        .ids = ids, .n_ids = n, .score = true, .score_from = from, .row = score_row, .row_ctx = &s};
    if (from < 0 || from >= n) {
        return err_set(ERR_RANGE, "scoring %d tokens from position %d", n, from);
    }
    int rc = engine_submit(e, &r, &id);
    for (;;) {
        struct event ev;
        bool busy = false;
        rc = rc ? rc : engine_step(e, &busy);
        if (rc) {
            return rc;
        }
        while (engine_poll(e, &ev, 1) == 1) {
            if (ev.id == id && ev.kind == EVENT_END) {
                if (s.failed || ev.finish == FINISH_SCORED) {
                    return s.failed;
                }
                return err_set(ERR_INTERNAL, "scoring ended with \"%s\"",
                               finish_name((enum finish)ev.finish));
            }
        }
    }
}

void engine_flush(struct engine *e) {
    sched_flush(&e->sched);
}

void engine_stats(struct engine *e, struct engine_stats *out) {
    pthread_mutex_lock(&e->stats_lock);
    *out = e->stats;
    pthread_mutex_unlock(&e->stats_lock);
}

int engine_check(const struct engine *e) {
    return sched_check(&e->sched);
}

const char *engine_describe(const struct engine *e) {
    return e->text;
}
