/* Recorded request traces: when requests came, how long they were, which prefixes they shared.
 *
 * Two public formats are read, told apart by their first byte:
 *   Azure CSV       TIMESTAMP,ContextTokens,GeneratedTokens   2023-11-16 18:15:46.6805900,374,44
 *   Mooncake JSONL  {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]} */
#ifndef SCENARIOS_TRACE_H
#define SCENARIOS_TRACE_H

#include "engine/base/types.h"

enum {
    TRACE_BYTES_MAX = 1 << 30,
    TRACE_REQUESTS_MAX = 1 << 24,
    TRACE_TOKENS_MAX = 1 << 24, /* of one prompt or answer */
    TRACE_BLOCKS_MAX = 1 << 16, /* prefix blocks of one request */
    TRACE_BLOCK_TOKENS = 512    /* tokens that one Mooncake hash id stands for */
};

struct trace {
    int64_t n;
    int64_t *start_ns; /* own, [n] from the first request, ascending */
    int32_t *n_prompt; /* own, [n] tokens */
    int32_t *n_output; /* own, [n] tokens */
    int64_t *block_at; /* own, [n + 1]: request i shares blocks block_at[i] .. block_at[i+1] */
    int64_t *blocks;   /* own, ids of prompt blocks in order; equal ids are equal text */
    int64_t cap;       /* requests that fit */
    int64_t blocks_cap;
};

/* Reads a trace file, or n bytes of text; where names the text in errors.
 * err:  ERR_FORMAT with the line (bad row, time running backwards, length out of range),
 *       ERR_NOTFOUND, ERR_IO, ERR_LIMIT, ERR_NOMEM
 * own:  caller, trace_fini
 * cost: linear; about 30 bytes a request and 8 a block id */
int trace_read(const char *path, struct trace *out);
int trace_parse(const char *where, const char *text, int64_t n, struct trace *out);
void trace_fini(struct trace *t);

#endif
