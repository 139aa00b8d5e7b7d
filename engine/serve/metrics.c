/* One lock guards all counts: an update is a few additions, and a page is copied out under it
 * before a byte of text is made. src: Prometheus exposition formats, text 0.0.4; names: vLLM,
 * vllm/v1/metrics/loggers.py */
#include "engine/serve/metrics.h"

#include "engine/base/buf.h"
#include "engine/serve/jsonout.h"

static const struct {
    const char *name;
    const char *help;
    double bound_s[METRICS_BUCKETS]; /* rising; 0 ends them */
} hists[METRICS_HIST_N] = {
    [METRICS_TTFT] = {"vllm:time_to_first_token_seconds",
                      "From the head of the request to its first token.",
                      {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                       0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160}},
    [METRICS_ITL] = {"vllm:inter_token_latency_seconds",
                     "Between two tokens of one answer.",
                     {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                      0.2,    0.3,   0.4,    0.5,   0.75, 1,     2.5,  5,     10,  20}},
    [METRICS_E2E] = {"vllm:e2e_request_latency_seconds",
                     "From the head of the request to its last token.",
                     {0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5,
                      5,    10,   15,  20,  30,  40,  60, 120, 240, 480}},
    [METRICS_QUEUE] = {"vllm:request_queue_time_seconds",
                       "From the head of the request to its first step.",
                       {0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,
                        1.5,    2,     2.5,   5,    10,   15,  20,  30,  60,  120}},
};

void metrics_init(struct metrics *m) {
    *m = (struct metrics){0};
    pthread_mutex_init(&m->lock, NULL);
}

void metrics_fini(struct metrics *m) {
    pthread_mutex_destroy(&m->lock);
}

void metrics_time(struct metrics *m, enum metrics_hist h, int64_t ns) {
    double s = (double)ns * 1e-9;
    int32_t i = 0;
    while (i < METRICS_BUCKETS && s > hists[h].bound_s[i]) {
        i++;
    }
    pthread_mutex_lock(&m->lock);
    m->hist[h].n[i]++;
    m->hist[h].count++;
    m->hist[h].sum_s += s;
    pthread_mutex_unlock(&m->lock);
}

void metrics_finish(struct metrics *m, enum metrics_finish f, int32_t n_prompt, int32_t n_new) {
    pthread_mutex_lock(&m->lock);
    m->n_finish[f]++;
    m->n_prompt_tok += n_prompt;
    m->n_new_tok += n_new;
    pthread_mutex_unlock(&m->lock);
}

void metrics_code(struct metrics *m, int32_t status) {
    pthread_mutex_lock(&m->lock);
    for (int32_t i = 0; i < METRICS_CODES; i++) {
        if (m->code[i].status == status || m->code[i].status == 0) {
            m->code[i].status = status;
            m->code[i].n++;
            break;
        }
    }
    pthread_mutex_unlock(&m->lock);
}

void metrics_count(struct metrics *m, int64_t *counter, int64_t n) {
    pthread_mutex_lock(&m->lock);
    *counter += n;
    pthread_mutex_unlock(&m->lock);
}

/* "# HELP" and "# TYPE" lines. */
static int describe(struct buf *b, const char *name, const char *type, const char *help) {
    return buf_fmt(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int one(struct buf *b,
               const char *name,
               const char *type,
               const char *help,
               const char *who,
               double v) {
    int rc = describe(b, name, type, help);
    return rc ? rc : buf_fmt(b, "%s{%s} %.17g\n", name, who, v);
}

static int
hist(struct buf *b, enum metrics_hist h, const struct metrics_bins *bins, const char *who) {
    int64_t sum = 0;
    int rc = describe(b, hists[h].name, "histogram", hists[h].help);
    for (int32_t i = 0; i < METRICS_BUCKETS && !rc; i++) {
        sum += bins->n[i];
        rc = buf_fmt(b, "%s_bucket{%s,le=\"%g\"} %lld\n", hists[h].name, who, hists[h].bound_s[i],
                     (long long)sum);
    }
    rc = rc ? rc
            : buf_fmt(b, "%s_bucket{%s,le=\"+Inf\"} %lld\n", hists[h].name, who,
                      (long long)bins->count);
    rc = rc ? rc : buf_fmt(b, "%s_sum{%s} %.9g\n", hists[h].name, who, bins->sum_s);
    return rc ? rc : buf_fmt(b, "%s_count{%s} %lld\n", hists[h].name, who, (long long)bins->count);
}

static int of_engine(struct buf *b, const struct engine_stats *st, const char *who) {
    double used = st->n_blocks > 0 ? (double)st->n_blocks_active / st->n_blocks : 0;
    const struct {
        const char *name;
        const char *type;
        const char *help;
        double v;
    } rows[] = {
        {"vllm:num_requests_running", "gauge", "Sequences in the batch.", st->n_running},
        {"vllm:num_requests_waiting", "gauge", "Sequences waiting for a place.", st->n_waiting},
        {"vllm:kv_cache_usage_perc", "gauge", "Share of cache blocks in use, 0 to 1.", used},
        {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the cache.",
         (double)st->n_prefix_query_tok},
        {"vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.",
         (double)st->n_prefix_hit_tok},
        {"vllm:num_preemptions_total", "counter", "Sequences sent back to wait.",
         (double)st->n_preempted},
        {"trilemma:steps_total", "counter", "Steps of the engine.", (double)st->n_step},
        {"trilemma:rows_total", "counter", "Rows that went through the model.",
         (double)st->n_tok_computed}};
    int rc = 0;
    for (int32_t i = 0; i < ARRAY_LEN(rows) && !rc; i++) {
        rc = one(b, rows[i].name, rows[i].type, rows[i].help, who, rows[i].v);
    }
    return rc;
}

static int of_answers(struct buf *b, const struct metrics *m, const char *who) {
    static const char *const reasons[] = {"stop", "length", "abort", "error"};
    static const char name[] = "vllm:request_success_total";
    int rc = one(b, "vllm:prompt_tokens_total", "counter", "Prompt tokens of finished answers.",
                 who, (double)m->n_prompt_tok);
    rc = rc ? rc
            : one(b, "vllm:generation_tokens_total", "counter", "Tokens of answers.", who,
                  (double)m->n_new_tok);
    rc = rc ? rc : describe(b, name, "counter", "Finished answers by reason.");
    for (int32_t i = 0; i < METRICS_FINISH_N && !rc; i++) {
        rc = buf_fmt(b, "%s{%s,finished_reason=\"%s\"} %lld\n", name, who, reasons[i],
                     (long long)m->n_finish[i]);
    }
    return rc;
}

static int of_http(struct buf *b, const struct metrics *m, const char *who, int32_t n_open) {
    static const char name[] = "trilemma:http_requests_total";
    int rc = describe(b, name, "counter", "Answered HTTP requests by status.");
    for (int32_t i = 0; i < METRICS_CODES && m->code[i].status && !rc; i++) {
        rc = buf_fmt(b, "%s{%s,code=\"%d\"} %lld\n", name, who, m->code[i].status,
                     (long long)m->code[i].n);
    }
    const struct {
        const char *name;
        const char *type;
        const char *help;
        int64_t v;
    } rows[] = {
        {"trilemma:http_connections", "gauge", "Open connections.", n_open},
        {"trilemma:clients_lost_total", "counter", "Clients that left before the end.", m->n_lost},
        {"trilemma:slow_readers_total", "counter", "Streams cut for a slow reader.", m->n_slow},
        {"trilemma:timeouts_total", "counter", "Connections cut while they sent a request.",
         m->n_timeout}};
    for (int32_t i = 0; i < ARRAY_LEN(rows) && !rc; i++) {
        rc = one(b, rows[i].name, rows[i].type, rows[i].help, who, (double)rows[i].v);
    }
    return rc;
}

int metrics_format(struct metrics *m,
                   const struct engine_stats *st,
                   const char *model,
                   int32_t n_open,
                   struct buf *out) {
    struct buf who;
    struct metrics now;
    pthread_mutex_lock(&m->lock);
    now = *m;
    pthread_mutex_unlock(&m->lock);
    buf_init(&who, MEM_SERVE, 1 << 16);
    int rc = buf_str(&who, "model_name=");
    rc = rc ? rc : jsonout_str(&who, model);
    rc = rc ? rc : of_engine(out, st, buf_cstr(&who));
    rc = rc ? rc : of_answers(out, &now, buf_cstr(&who));
    for (int32_t h = 0; h < METRICS_HIST_N && !rc; h++) {
        rc = hist(out, (enum metrics_hist)h, &now.hist[h], buf_cstr(&who));
    }
    rc = rc ? rc : of_http(out, &now, buf_cstr(&who), n_open);
    buf_fini(&who);
    return rc;
}
