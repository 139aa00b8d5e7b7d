#include "harness/load.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

/* Streams of the seed; a request's own stream is keyed by its number as well. */
enum { STREAM_MEASURED = 1, STREAM_WARMUP = 2, STREAM_PREFIX = 3, STREAM_BLOCK = 4 };

int load_init(struct load *l, const struct scenario *sc, int32_t vocab, int32_t ctx_max) {
    *l = (struct load){.sc = sc, .vocab = vocab, .ctx_max = ctx_max};
    switch (sc->work.kind) {
    case WORKLOAD_SYNTHETIC: {
        int rc = lengths_init(&l->input, &sc->work.input, LENGTH_COLUMN_INPUT);
        rc = rc ? rc : lengths_init(&l->output, &sc->work.output, LENGTH_COLUMN_OUTPUT);
        if (rc) {
            load_fini(l);
        }
        return rc;
    }
    case WORKLOAD_TRACE:
        return trace_read(sc->work.file, &l->trace);
    case WORKLOAD_DATASET:
    case WORKLOAD_N:
        break;
    }
    return err_set(ERR_UNSUPPORTED,
                   "workload \"%s\" is not replayed; replayed are synthetic and trace",
                   scenario_workload_name(sc->work.kind));
}

void load_fini(struct load *l) {
    lengths_fini(&l->input);
    lengths_fini(&l->output);
    trace_fini(&l->trace);
}

/* n ids from a stream. why: the lowest ids are special tokens in many vocabularies */
static void draw_ids(const struct load *l, uint64_t stream, int32_t *ids, int32_t n) {
    struct rng r;
    int32_t low = l->vocab > 1024 ? 512 : 3;
    low = low < l->vocab ? low : 0;
    rng_init(&r, (uint64_t)l->sc->seed, stream);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = low + (int32_t)rng_below(&r, l->vocab - low);
    }
}

static uint64_t key(uint64_t stream, int64_t number) {
    return rng_keyed(stream, (uint64_t)number, 11);
}

static int alloc_ids(struct load_request *r, int32_t n) {
    r->ids = mem_array(MEM_HARNESS, n, (int64_t)sizeof *r->ids);
    r->n_ids = n;
    return r->ids ? 0 : ERR_NOMEM;
}

static int make_synthetic(const struct load *l, int64_t seq, bool warmup, struct load_request *r) {
    struct rng rng;
    const struct scenario_work *w = &l->sc->work;
    uint64_t own = key(warmup ? STREAM_WARMUP : STREAM_MEASURED, seq);
    rng_init(&rng, (uint64_t)l->sc->seed, own);
    int32_t n = lengths_draw(&l->input, &rng);
    int32_t out = lengths_draw(&l->output, &rng);
    int64_t group = w->prefix_groups > 0 ? rng_below(&rng, w->prefix_groups) : 0;
    n = i32_max(1, i32_min(n, l->ctx_max - 1));
    r->max_new = i32_max(1, i32_min(out, l->ctx_max - n));
    int rc = alloc_ids(r, n);
    if (rc) {
        return rc;
    }
    draw_ids(l, own + 1, r->ids, n);
    if (w->prefix_groups > 0 && !warmup) {
        draw_ids(l, key(STREAM_PREFIX, group), r->ids, i32_min(w->prefix_tokens, n));
    }
    return 0;
}

/* A trace's request: blocks with equal ids are equal text. */
static int make_traced(const struct load *l, int64_t seq, bool warmup, struct load_request *r) {
    const struct trace *t = &l->trace;
    int64_t i = seq % t->n;
    int32_t n = i32_max(1, i32_min(t->n_prompt[i], l->ctx_max - 1));
    r->max_new = i32_max(1, i32_min(t->n_output[i], l->ctx_max - n));
    int rc = alloc_ids(r, n);
    if (rc) {
        return rc;
    }
    draw_ids(l, key(warmup ? STREAM_WARMUP : STREAM_MEASURED, seq), r->ids, n);
    for (int64_t b = t->block_at[i]; b < t->block_at[i + 1] && !warmup; b++) {
        int64_t at = (b - t->block_at[i]) * TRACE_BLOCK_TOKENS;
        if (at < n) {
            draw_ids(l, key(STREAM_BLOCK, t->blocks[b]), r->ids + at,
                     (int32_t)i64_min(TRACE_BLOCK_TOKENS, n - at));
        }
    }
    return 0;
}

int load_make(const struct load *l, int64_t seq, bool warmup, struct load_request *r) {
    *r = (struct load_request){0};
    int rc = l->sc->work.kind == WORKLOAD_TRACE ? make_traced(l, seq, warmup, r)
                                                : make_synthetic(l, seq, warmup, r);
    if (rc) {
        return rc;
    }
    struct hash128 h = hash_chain((struct hash128){0}, r->ids, r->n_ids * (int64_t)sizeof *r->ids);
    snprintf(r->hash, sizeof r->hash, "%016llx%016llx", (unsigned long long)h.hi,
             (unsigned long long)h.lo);
    uint64_t seed = (uint64_t)(l->sc->sampling_seed ? l->sc->sampling_seed : l->sc->seed);
    r->seed = rng_keyed(seed, (uint64_t)seq, 12);
    return 0;
}

void load_request_fini(struct load_request *r) {
    mem_free(r->ids);
    *r = (struct load_request){0};
}
