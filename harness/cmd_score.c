/* trilemma score: log-probabilities and logits of given token ids. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/stwrite.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/session.h"

enum { TOP_MAX = 1000 };

struct score {
    struct session_opts so;
    const char *ids_file;
    const char *logits_file;
    int32_t top;
    bool json;
};

/* Rows of one list on their way out. */
struct rows {
    const int32_t *ids; /* ref, [n] */
    int32_t n;
    int32_t top;
    json_t *logprobs;   /* ref */
    json_t *tops;       /* ref; NULL when top is 0 */
    struct stwrite *st; /* ref; NULL: no logits file */
    double sum;
    int rc; /* why a row could not be used */
};

/* The top entries of a row, best first, ties by id. cost: O(V * top) in the worst case */
static json_t *top_of(const float *logits, int32_t vocab, int32_t top) {
    int32_t best[TOP_MAX];
    int32_t n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (n == top && !(logits[i] > logits[best[n - 1]])) {
            continue;
        }
        int32_t j = n < top ? n++ : n - 1;
        for (; j > 0 && logits[i] > logits[best[j - 1]]; j--) {
            best[j] = best[j - 1];
        }
        best[j] = i;
    }
    json_t *list = json_array();
    for (int32_t j = 0; j < n; j++) {
        json_array_append_new(list, json_pack("[i, f]", best[j], (double)logits[best[j]]));
    }
    return list;
}

static int take_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct rows *r = ctx;
    double lse = sampler_logsumexp(logits, vocab);
    if (pos + 1 < r->n) {
        double lp = (double)logits[r->ids[pos + 1]] - lse;
        r->sum += lp;
        json_array_append_new(r->logprobs, json_real(lp));
    }
    if (r->tops) {
        json_array_append_new(r->tops, json_pack("{s:f, s:o}", "logsumexp", lse, "top",
                                                 top_of(logits, vocab, r->top)));
    }
    if (interrupt_seen()) {
        r->rc = err_set(ERR_CANCELED, "interrupted");
    } else if (r->st) {
        r->rc = stwrite_data(r->st, logits, vocab * (int64_t)sizeof *logits);
    }
    return r->rc;
}

static int declare_all(const json_t *lists, int32_t vocab, struct stwrite *st) {
    int rc = 0;
    for (size_t i = 0; i < json_array_size(lists) && !rc; i++) {
        char name[32];
        int64_t dim[2] = {(int64_t)json_array_size(json_array_get(lists, i)), vocab};
        snprintf(name, sizeof name, "logits.%zu", i);
        rc = stwrite_declare(st, name, DTYPE_F32, dim, 2);
    }
    return rc ? rc : stwrite_begin(st);
}

static int score_list(const struct score *s,
                      struct session *ss,
                      const json_t *list,
                      struct stwrite *st,
                      json_t *results) {
    struct tok_ids ids;
    tok_ids_init(&ids);
    int rc = session_ids(s->ids_file, list, ss->model->weights->cfg.vocab, &ids);
    if (!rc) {
        struct rows r = {.ids = ids.v,
                         .n = ids.n,
                         .top = s->top,
                         .logprobs = json_array(),
                         .tops = s->top > 0 ? json_array() : NULL,
                         .st = st};
        json_array_append_new(r.logprobs, json_null()); /* the first token has no prediction */
        rc = engine_score(ss->engine, ids.v, ids.n, 0, take_row, &r);
        rc = r.rc ? r.rc : rc;
        json_t *row =
            json_pack("{s:i, s:o, s:f}", "n", ids.n, "logprobs", r.logprobs, "sum", r.sum);
        if (r.tops) {
            json_object_set_new(row, "rows", r.tops);
        }
        json_array_append_new(results, row);
    }
    tok_ids_fini(&ids);
    return rc;
}

static int score_all(const struct score *s, struct session *ss, const json_t *lists) {
    struct stwrite *st = NULL;
    json_t *results = json_array();
    int rc = session_engine(ss, &s->so, &(struct engine_opts){.running_max = 1});
    if (!rc && s->logits_file) {
        rc = stwrite_open(s->logits_file, &st);
        rc = rc ? rc : declare_all(lists, ss->model->weights->cfg.vocab, st);
    }
    for (size_t i = 0; i < json_array_size(lists) && !rc; i++) {
        rc = score_list(s, ss, json_array_get(lists, i), st, results);
    }
    if (st && rc) {
        stwrite_abort(st);
    } else if (st) {
        rc = stwrite_commit(st);
    }
    if (!rc) {
        json_t *out =
            json_pack("{s:s, s:O}", "engine", engine_describe(ss->engine), "results", results);
        json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        printf("\n");
        json_decref(out);
    }
    json_decref(results);
    return rc;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct score s = {0};
    struct cli_args args;
    struct session ss = {0};
    json_t *lists = NULL;
    const struct cli_opt opts[] = {
        {"ids", CLI_STR, &s.ids_file, "FILE", "JSON list of lists of token ids", 0, 0},
        {"top", CLI_I32, &s.top, "K", "the K best at every position [none]", 0, TOP_MAX},
        {"logits", CLI_STR, &s.logits_file, "FILE", "write logits.0, ... [T,V] f32", 0, 0},
        {"json", CLI_FLAG, &s.json, NULL, "(the output is JSON always)", 0, 0},
        SESSION_OPTS(s.so)};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if (!s.ids_file) {
        return err_set(ERR_USAGE, "--ids FILE is missing");
    }
    interrupt_install();
    rc = session_read_ids(s.ids_file, &lists);
    rc = rc ? rc : session_model(env, args.pos[0], &ss);
    rc = rc ? rc : score_all(&s, &ss, lists);
    session_close(&ss);
    json_decref(lists);
    return rc;
}

const struct cmd cmd_score = {
    .name = "score",
    .summary = "Log-probabilities, top tokens and logits of given ids.",
    .usage = "MODEL --ids FILE [--top K] [--logits FILE.safetensors] [options]",
    .example = "trilemma score smollm2-135m --ids ids.json --top 20",
    .run = run};
