/* From a scenario to requests: request number i is a function of (seed, i) alone, so every target
 * and every machine is asked the same.
 *
 * Prompts are token ids drawn uniformly from the vocabulary's ordinary tokens: exact lengths, and
 * no text that a cache could know. Warm-up requests draw from another stream and share no prefix
 * with measured ones. */
#ifndef HARNESS_LOAD_H
#define HARNESS_LOAD_H

#include "engine/text/tok.h"
#include "scenarios/scenario.h"
#include "scenarios/trace.h"

struct load {
    const struct scenario *sc; /* ref */
    struct lengths input;
    struct lengths output;
    struct trace trace; /* empty unless the workload is a trace */
    int32_t vocab;
    int32_t ctx_max; /* lengths are cut so that prompt + output fit */
};

struct load_request {
    int32_t *ids; /* own, [n_ids] */
    int32_t n_ids;
    int32_t max_new;
    uint64_t seed; /* of the sampling */
    char hash[33]; /* of the ids, hexadecimal */
};

/* Prepares the distributions or reads the trace.
 * in:  vocab: ids are drawn below it
 * err: ERR_UNSUPPORTED naming a kind of workload that is not replayed; those of lengths_init and
 *      trace_read. own: caller, load_fini */
int load_init(struct load *l, const struct scenario *sc, int32_t vocab, int32_t ctx_max);
void load_fini(struct load *l);

/* Makes request number seq. err: ERR_NOMEM. own: caller, load_request_fini */
int load_make(const struct load *l, int64_t seq, bool warmup, struct load_request *r);
void load_request_fini(struct load_request *r);

#endif
