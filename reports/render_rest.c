/* Answers, quantization, other tools' conventions, provenance: what the figures are made of. */
#include <math.h>
#include <stdio.h>

#include "engine/base/str.h"
#include "reports/render.h"
#include "reports/show.h"

enum { ANSWER_COLUMNS_MAX = 6 };

static struct doc_cell text_cell(const char *text) {
    return (struct doc_cell){.text = show_str(text),
                             .tone = text && text[0] ? DOC_PLAIN : DOC_MUTED};
}

static struct doc_cell number_cell(char *dst, double v, enum show_unit unit) {
    return (struct doc_cell){.text = show_value(dst, v, unit),
                             .tone = isnan(v) ? DOC_MUTED : DOC_PLAIN,
                             .is_number = true};
}

static double real(int64_t v) {
    return v == STORE_NULL ? (double)NAN : (double)v;
}

static const struct report_answer *
answer_of(const struct report *r, int32_t target, int64_t index) {
    for (int32_t i = 0; i < r->n_answers; i++) {
        if (r->answers[i].target == target && r->answers[i].prompt_index == index) {
            return &r->answers[i];
        }
    }
    return NULL;
}

void render_answers(const struct render *w) {
    const struct report *r = w->r;
    const char *names[ANSWER_COLUMNS_MAX + 1] = {"prompt"};
    int32_t n = i32_min(r->n_targets, ANSWER_COLUMNS_MAX);
    if (r->n_answers == 0) {
        return;
    }
    doc_section(w->d, "Answers side by side");
    for (int32_t i = 0; i < n; i++) {
        names[i + 1] = r->targets[i].name;
    }
    doc_table(w->d, names, n + 1);
    int32_t first = r->answers[0].target;
    for (int32_t k = 0; k < r->n_answers && r->answers[k].target == first; k++) {
        struct doc_cell cells[ANSWER_COLUMNS_MAX + 1];
        char sub[ANSWER_COLUMNS_MAX][SHOW_MAX];
        cells[0] = text_cell(r->answers[k].prompt);
        for (int32_t i = 0; i < n; i++) {
            const struct report_answer *a = answer_of(r, i, r->answers[k].prompt_index);
            cells[i + 1] = text_cell(a ? a->text : NULL);
            if (a && a->n_tokens != STORE_NULL) {
                snprintf(sub[i], SHOW_MAX, "%lld tokens, %.40s", (long long)a->n_tokens,
                         a->finish_reason ? a->finish_reason : "end unknown");
                cells[i + 1].sub = sub[i];
            }
        }
        doc_row(w->d, cells, n + 1);
    }
    doc_table_end(w->d);
    if (r->n_targets > n) {
        doc_para(w->d, DOC_MUTED, "%d more targets: see the view v_answer.", r->n_targets - n);
    }
}

static void modules(const struct render *w, int32_t quant) {
    static const char *const names[] = {
        "module",          "method",        ">group",   ">tokens seen", ">damp", ">dead columns",
        ">relative error", ">logged error", ">seconds", ">before",      ">after"};
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < w->r->n_modules; i++) {
        const struct report_module *m = &w->r->modules[i];
        char text[ARRAY_LEN(names)][SHOW_MAX];
        if (m->quant != quant) {
            continue;
        }
        const struct doc_cell cells[] = {text_cell(m->name),
                                         text_cell(m->method),
                                         number_cell(text[2], real(m->group_size), SHOW_COUNT),
                                         number_cell(text[3], real(m->n_tokens), SHOW_COUNT),
                                         number_cell(text[4], m->damp, SHOW_PLAIN),
                                         number_cell(text[5], real(m->n_dead_columns), SHOW_COUNT),
                                         number_cell(text[6], m->rel_error, SHOW_PLAIN),
                                         number_cell(text[7], m->logged_error, SHOW_PLAIN),
                                         number_cell(text[8], m->seconds, SHOW_PLAIN),
                                         number_cell(text[9], real(m->bytes_before), SHOW_BYTES),
                                         number_cell(text[10], real(m->bytes_after), SHOW_BYTES)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

void render_quantization(const struct render *w) {
    static const char *const names[] = {"target",      "method",   "scheme",  ">group",
                                        "calibration", ">samples", ">tokens", ">time"};
    const struct report *r = w->r;
    if (r->n_quants == 0) {
        return;
    }
    doc_section(w->d, "Quantization");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_quants; i++) {
        const struct report_quant *q = &r->quants[i];
        char text[ARRAY_LEN(names)][SHOW_MAX];
        const struct doc_cell cells[] = {text_cell(r->targets[q->target].name),
                                         text_cell(q->method),
                                         text_cell(q->scheme),
                                         number_cell(text[3], real(q->group_size), SHOW_COUNT),
                                         text_cell(q->dataset),
                                         number_cell(text[5], real(q->n_samples), SHOW_COUNT),
                                         number_cell(text[6], real(q->n_tokens), SHOW_COUNT),
                                         number_cell(text[7], q->seconds, SHOW_SECONDS)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
    for (int32_t i = 0; i < r->n_quants; i++) {
        char title[SHOW_MAX];
        snprintf(title, sizeof title, "%.60s: module by module",
                 r->targets[r->quants[i].target].name);
        doc_fold(w->d, title);
        modules(w, i);
        if (r->quants[i].recipe) {
            doc_pre(w->d, r->quants[i].recipe);
        }
        doc_fold_end(w->d);
    }
}

/* Why the same events give other numbers. s: sent; t1, tL: first and last token; n: tokens. */
static void peer_reasons(const struct render *w) {
    static const char *const names[] = {"counted as", "TTFT", "TPOT", "ITL", "E2E", "tokens/s"};
    static const char *const rows[][ARRAY_LEN(names)] = {
        {"Trilemma", "from the intended start to the first token",
         "(tL - t1) / (n - tokens of the first event)", "each gap shared among its tokens",
         "intended start to tL", "tokens of all requests in the steady window"},
        {"vllm bench serve", "from s to the first event of any kind, a role without text included",
         "(tL - first event) / (n - 1)", "gaps of events; one of several tokens counts once",
         "s to tL", "tokens of successes / first start to last end of all"},
        {"GuideLLM", "s to t1", "(tL - s) / n: holds the TTFT",
         "one mean a request, (tL - t1) / (n - 1), weighted by n - 1", "s to the stream's end",
         "measured phase, tokens taken as evenly spread from t1 to tL"},
        {"AIPerf", "s to t1", "its ITL", "one mean a request, (tL - t1) / (n - 1)", "s to tL",
         "tokens of successes / first start to last token"},
        {"sglang bench_serving", "s to t1", "(stream's end - t1) / (n - 1)", "gaps of events",
         "s to the stream's end", "tokens of successes / first start to last end of all"},
        {"inference-perf", "s to the first token of the answer; none for a stream of one event",
         "(tL - first of the answer) / (n - 1)", "gaps of events", "s to the stream's end",
         "tokens of successes / first start to their last end"}};
    doc_para(w->d, DOC_MUTED,
             "Why they differ (s: request sent, t1 and tL: first and last token, n: tokens):");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doc_cell cells[ARRAY_LEN(names)];
        for (int32_t k = 0; k < ARRAY_LEN(names); k++) {
            cells[k] = text_cell(rows[i][k]);
        }
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

void render_peers(const struct render *w) {
    static const char *const names[] = {
        "target",     "load",      "counted as", ">TTFT mean",
        ">TPOT mean", ">ITL mean", ">E2E mean",  ">output tokens/s"};
    const struct report *r = w->r;
    if (r->n_peers == 0) {
        return;
    }
    doc_fold(w->d, "The same events by other tools' definitions");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_peers; i++) {
        const struct report_peer *p = &r->peers[i];
        const struct report_run *run = &r->runs[p->run];
        char text[ARRAY_LEN(names)][SHOW_MAX];
        const struct doc_cell cells[] = {text_cell(r->targets[run->target].name),
                                         text_cell(run->point),
                                         text_cell(p->definition),
                                         number_cell(text[3], p->ttft_s, SHOW_SECONDS),
                                         number_cell(text[4], p->tpot_s, SHOW_SECONDS),
                                         number_cell(text[5], p->itl_s, SHOW_SECONDS),
                                         number_cell(text[6], p->e2e_s, SHOW_SECONDS),
                                         number_cell(text[7], p->output_tokens_per_s, SHOW_PER_S)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "Views v_peers and, a request a row, v_vllm, v_guidellm, v_aiperf, v_sglang, "
             "v_inference_perf.");
    peer_reasons(w);
    doc_fold_end(w->d);
}

static void checkpoints(const struct render *w) {
    static const char *const names[] = {"target", "checkpoint", "source", "SHA-256"};
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < w->r->n_targets; i++) {
        const struct report_target *t = &w->r->targets[i];
        const struct doc_cell cells[] = {text_cell(t->name), text_cell(t->path),
                                         text_cell(t->source), text_cell(t->sha256)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

static void facts(const struct render *w) {
    static const char *const names[] = {"fact", "value"};
    const struct report *r = w->r;
    char seed[SHOW_MAX];
    char start[SHOW_MAX];
    char end[SHOW_MAX];
    char price[SHOW_MAX];
    const struct report_pair own[] = {
        {"program", r->git_commit},
        {"build", r->build},
        {"started", show_date(start, r->start_wall_ns)},
        {"ended", show_date(end, r->end_wall_ns)},
        {"machine price per hour", show_value(price, r->usd_per_hour, SHOW_USD)},
        {"seed", show_i64(seed, r->seed, SHOW_COUNT)},
        {"scenario SHA-256", r->scenario_sha256}};
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_facts + ARRAY_LEN(own); i++) {
        const struct report_pair *p = i < r->n_facts ? &r->facts[i] : &own[i - r->n_facts];
        const struct doc_cell cells[] = {text_cell(p->name), text_cell(p->value)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

/* A query for each kind of number on the page; those of one run end in its number. */
static void recipes(const struct render *w) {
    static const char *const names[] = {"number", "query"};
    static const struct {
        const char *what;
        const char *sql;
        bool of_run;
    } tab[] = {{"TTFT of each request", "select seq, value_s from v_ttft", true},
               {"gaps between tokens", "select value_s, n_tokens from v_itl", true},
               {"TPOT and E2E of each request", "select seq, tpot_s, e2e_s from v_request", true},
               {"offered, answered, failed", "select * from v_run_counts", true},
               {"tokens a second over time",
                "select bin * 0.25, n_tokens * 4.0 from v_tokens_per_bin", true},
               {"what goodput is decided on", "select * from v_goodput_input", true},
               {"other tools' means", "select * from v_peers", true},
               {"perplexity and KL", "select * from v_eval; select * from v_kl", false},
               {"sizes", "select * from v_target", false}};
    const char *db = w->o->database ? w->o->database : "results.db";
    long long run = w->r->n_runs > 0 ? (long long)w->r->runs[0].run_id : 1;
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < ARRAY_LEN(tab); i++) {
        char where[48] = "";
        char line[512];
        if (tab[i].of_run) {
            snprintf(where, sizeof where, " where run_id = %lld", run);
        }
        snprintf(line, sizeof line, "sqlite3 %.120s \"%s%s\"", db, tab[i].sql, where);
        const struct doc_cell cells[] = {text_cell(tab[i].what), text_cell(line)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

static void run_ids(const struct render *w) {
    static const char *const names[] = {">run_id", "target", "load", ">steady window from", ">to"};
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < w->r->n_runs; i++) {
        const struct report_run *run = &w->r->runs[i];
        char text[ARRAY_LEN(names)][SHOW_MAX];
        const struct doc_cell cells[] = {
            number_cell(text[0], (double)run->run_id, SHOW_COUNT),
            text_cell(w->r->targets[run->target].name), text_cell(run->point),
            number_cell(text[3], run->steady.found ? run->window_from_s : (double)NAN,
                        SHOW_SECONDS),
            number_cell(text[4], run->steady.found ? run->window_to_s : (double)NAN, SHOW_SECONDS)};
        doc_row(w->d, cells, ARRAY_LEN(cells));
    }
    doc_table_end(w->d);
}

void render_provenance(const struct render *w) {
    const struct report *r = w->r;
    doc_section(w->d, "Provenance");
    facts(w);
    checkpoints(w);
    for (int32_t i = 0; i < r->n_notes; i++) {
        doc_para(w->d, DOC_PLAIN, "Note: %s", r->notes[i].value);
    }
    if (r->scenario_text) {
        doc_fold(w->d, "Scenario, canonical text");
        doc_pre(w->d, r->scenario_text);
        doc_fold_end(w->d);
    }
    doc_fold(w->d, "How to recompute each number");
    recipes(w);
    run_ids(w);
    doc_fold_end(w->d);
}
