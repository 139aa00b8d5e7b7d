/* The sections "slo" and "evaluate": what the service must hold, and how good its answers are.
 *
 *   slo: {ttft_p95: 500ms, itl_p95: 60ms, e2e: 10s}
 *        a metric alone binds every request; _mean and _pNN bind the whole run
 *   evaluate: [{perplexity: {dataset: wikitext2, window: 2048, stride: 512}}, {kl: {base: base}},
 *              {answers: {prompts: ["...", "..."], max_tokens: 48}}] */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "scenarios/scenario_int.h"

static const char *const metric_names[METRIC_N] = {"ttft", "itl", "tpot", "e2e"};

static const struct {
    const char *suffix;
    double quantile;
} stats[] = {{"", 0}, {"_mean", -1}, {"_p50", 0.5}, {"_p90", 0.9}, {"_p95", 0.95}, {"_p99", 0.99}};

enum { SLO_KEYS = METRIC_N * 6, SLO_KEY_MAX = 16 };

const char *scenario_metric_name(enum scenario_metric metric) {
    return metric_names[metric];
}

/* Field table of all metric x statistic keys; keys holds their spelling. */
static void slo_fields(char keys[SLO_KEYS][SLO_KEY_MAX], struct scyaml_field fields[SLO_KEYS]) {
    for (int32_t i = 0; i < SLO_KEYS; i++) {
        snprintf(keys[i], SLO_KEY_MAX, "%s%s", metric_names[i / 6], stats[i % 6].suffix);
        fields[i] = (struct scyaml_field){
            .name = keys[i], .kind = SCYAML_NS, .offset = (size_t)i * sizeof(int64_t)};
    }
}

int scenario_parse_slo(const struct scyaml *y, struct fy_node *n, struct scenario *sc) {
    char keys[SLO_KEYS][SLO_KEY_MAX];
    struct scyaml_field fields[SLO_KEYS];
    int64_t limits[SLO_KEYS] = {0};
    slo_fields(keys, fields);
    int rc = scyaml_fields(y, n, "slo", fields, SLO_KEYS, limits);
    for (int32_t i = 0; i < SLO_KEYS && !rc; i++) {
        if (limits[i] > 0) {
            sc->slo[sc->n_slo++] = (struct scenario_slo){.metric = (enum scenario_metric)(i / 6),
                                                         .quantile = stats[i % 6].quantile,
                                                         .limit_ns = limits[i]};
        } else if (scyaml_get(n, keys[i])) {
            rc = scyaml_error(y, scyaml_get(n, keys[i]), "%s: a limit of 0", keys[i]);
        }
    }
    return rc;
}

int scenario_format_slo(const struct scenario *sc, struct buf *b) {
    char keys[SLO_KEYS][SLO_KEY_MAX];
    struct scyaml_field fields[SLO_KEYS];
    int64_t limits[SLO_KEYS] = {0};
    if (sc->n_slo == 0) {
        return 0;
    }
    slo_fields(keys, fields);
    for (int32_t i = 0; i < sc->n_slo; i++) {
        for (int32_t k = 0; k < 6; k++) {
            double d = stats[k].quantile - sc->slo[i].quantile;
            if (d < 1e-9 && d > -1e-9) {
                limits[(int32_t)sc->slo[i].metric * 6 + k] = sc->slo[i].limit_ns;
            }
        }
    }
    int rc = buf_str(b, "slo:\n");
    return rc ? rc : scyaml_print(b, 2, fields, SLO_KEYS, limits);
}

#define AT(member) offsetof(struct scenario_eval, member)

static const struct scyaml_field perplexity_fields[] = {
    {"dataset", SCYAML_STR, true, AT(dataset), 0, 0},
    {"definition", SCYAML_STR, false, AT(definition), 0, 0},
    {"window", SCYAML_I32, false, AT(window), 2, 1 << 24},
    {"stride", SCYAML_I32, false, AT(stride), 1, 1 << 24},
    {"tokens", SCYAML_I64, false, AT(tokens), 2, 1e12}};
static const struct scyaml_field kl_fields[] = {
    {"base", SCYAML_STR, true, AT(base), 0, 0},
    {"dataset", SCYAML_STR, false, AT(dataset), 0, 0},
    {"window", SCYAML_I32, false, AT(window), 2, 1 << 24},
    {"tokens", SCYAML_I64, false, AT(tokens), 2, 1e12}};
static const struct scyaml_field answers_fields[] = {
    {"prompts", SCYAML_NODE, false, 0, 0, 0},
    {"file", SCYAML_STR, false, AT(file), 0, 0},
    {"max_tokens", SCYAML_I32, false, AT(max_tokens), 1, 1 << 20}};

static const char *const eval_names[EVAL_KIND_N] = {"perplexity", "kl", "answers"};

static const struct {
    const struct scyaml_field *fields;
    int32_t n;
} eval_tab[EVAL_KIND_N] = {{perplexity_fields, ARRAY_LEN(perplexity_fields)},
                           {kl_fields, ARRAY_LEN(kl_fields)},
                           {answers_fields, ARRAY_LEN(answers_fields)}};

const char *scenario_eval_name(enum scenario_eval_kind kind) {
    return eval_names[kind];
}

static int parse_prompts(const struct scyaml *y, struct fy_node *n, struct scenario_eval *e) {
    if (!scyaml_is_seq(n)) {
        return scyaml_error(y, n, "prompts: want a list of strings");
    }
    int32_t count = scyaml_n_items(n);
    if (count < 1 || count > SCENARIO_PROMPTS_MAX) {
        return scyaml_error(y, n, "prompts: %d of them, want 1..%d", count,
                            (int)SCENARIO_PROMPTS_MAX);
    }
    for (int32_t i = 0; i < count; i++) {
        int rc = scyaml_scalar(y, scyaml_item(n, i), "a prompt", &e->prompts[i]);
        if (rc) {
            return rc;
        }
    }
    e->n_prompts = count;
    return 0;
}

static int parse_eval(const struct scyaml *y, struct fy_node *n, struct scenario_eval *e) {
    int32_t which = 0;
    struct fy_node *body = NULL;
    int rc = scyaml_choice(y, n, "evaluate", eval_names, EVAL_KIND_N, &which, &body);
    if (rc) {
        return rc;
    }
    e->kind = (enum scenario_eval_kind)which;
    rc = scyaml_fields(y, body ? body : n, eval_names[which], eval_tab[which].fields,
                       eval_tab[which].n, e);
    if (rc) {
        return rc;
    }
    struct fy_node *prompts = e->kind == EVAL_ANSWERS ? scyaml_get(body, "prompts") : NULL;
    if (e->kind == EVAL_ANSWERS && (prompts != NULL) == (e->file != NULL)) {
        return scyaml_error(y, body, "answers: want either \"prompts\" or \"file\"");
    }
    if (e->stride > 0 && e->window > 0 && e->stride > e->window) {
        return scyaml_error(y, body, "stride %d is above window %d", e->stride, e->window);
    }
    return prompts ? parse_prompts(y, prompts, e) : 0;
}

int scenario_parse_evaluate(const struct scyaml *y, struct fy_node *n, struct scenario *sc) {
    int32_t count = scyaml_is_seq(n) ? scyaml_n_items(n) : 0;
    if (count < 1 || count > SCENARIO_EVALS_MAX) {
        return scyaml_error(y, n, "evaluate: want a list of 1..%d entries such as {kl: {base: b}}",
                            (int)SCENARIO_EVALS_MAX);
    }
    sc->evals = mem_array(MEM_DATA, count, (int64_t)sizeof *sc->evals);
    if (!sc->evals) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < count; i++) {
        int rc = parse_eval(y, scyaml_item(n, i), &sc->evals[i]);
        if (rc) {
            return rc;
        }
        sc->n_evals = i + 1;
    }
    return 0;
}

int scenario_format_evaluate(const struct scenario *sc, struct buf *b) {
    int rc = sc->n_evals ? buf_str(b, "evaluate:\n") : 0;
    for (int32_t i = 0; i < sc->n_evals && !rc; i++) {
        const struct scenario_eval *e = &sc->evals[i];
        rc = buf_fmt(b, "  - %s:\n", eval_names[e->kind]);
        rc = rc ? rc : scyaml_print(b, 6, eval_tab[e->kind].fields, eval_tab[e->kind].n, e);
        rc = rc || e->n_prompts == 0 ? rc : buf_str(b, "      prompts:\n");
        for (int32_t k = 0; k < e->n_prompts && !rc; k++) {
            rc = buf_str(b, "        - ");
            rc = rc ? rc : scyaml_print_str(b, e->prompts[k]);
            rc = rc ? rc : buf_str(b, "\n");
        }
    }
    return rc;
}
