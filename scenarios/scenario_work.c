/* The sections "workload" and "arrival": who asks what, and when.
 *
 *   workload: {synthetic: {input: {lognormal: {mean: 256, cv: 0.8, max: 1024}}, output: ...}}
 *   arrival:  {poisson: {rate: [1/s, 2/s]}}        a list of values is a sweep, point by point */
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "scenarios/scenario_int.h"

#define AT(member) offsetof(struct lengths_spec, member)
#define MIN_FIELD                                                                                  \
    { "min", SCYAML_I32, false, AT(min), 1, LENGTH_TOKENS_MAX }
#define MAX_FIELD                                                                                  \
    { "max", SCYAML_I32, false, AT(max), 1, LENGTH_TOKENS_MAX }
#define MEAN_FIELD                                                                                 \
    { "mean", SCYAML_F64, true, AT(mean), 1, LENGTH_TOKENS_MAX }

static const struct scyaml_field fixed_field = {"fixed",   SCYAML_I32, true,
                                                AT(fixed), 1,          LENGTH_TOKENS_MAX};
static const struct scyaml_field uniform_fields[] = {
    MIN_FIELD, {"max", SCYAML_I32, true, AT(max), 1, LENGTH_TOKENS_MAX}};
static const struct scyaml_field normal_fields[] = {
    MEAN_FIELD, {"sd", SCYAML_F64, true, AT(sd), 0, LENGTH_TOKENS_MAX}, MIN_FIELD, MAX_FIELD};
static const struct scyaml_field lognormal_fields[] = {
    MEAN_FIELD, {"cv", SCYAML_F64, true, AT(cv), 0, 100}, MIN_FIELD, MAX_FIELD};
static const struct scyaml_field empirical_fields[] = {
    {"table", SCYAML_STR, false, AT(table), 0, 0},
    {"file", SCYAML_STR, false, AT(file), 0, 0},
    {"scale", SCYAML_F64, false, AT(scale), 1e-6, 1e6},
    MIN_FIELD,
    MAX_FIELD};

#undef AT
#define AT(member) offsetof(struct scenario_work, member)

static const struct scyaml_field synthetic_fields[] = {
    {"input", SCYAML_NODE, true, 0, 0, 0},
    {"output", SCYAML_NODE, true, 0, 0, 0},
    {"shared_prefix", SCYAML_NODE, false, 0, 0, 0}};
static const struct scyaml_field prefix_fields[] = {
    {"groups", SCYAML_I32, true, AT(prefix_groups), 1, 1 << 20},
    {"tokens", SCYAML_I32, true, AT(prefix_tokens), 1, LENGTH_TOKENS_MAX}};
static const struct scyaml_field dataset_fields[] = {{"name", SCYAML_STR, false, AT(dataset), 0, 0},
                                                     {"file", SCYAML_STR, false, AT(file), 0, 0},
                                                     {"output", SCYAML_NODE, false, 0, 0, 0}};
static const struct scyaml_field trace_fields[] = {
    {"file", SCYAML_STR, true, AT(file), 0, 0}, {"speed", SCYAML_F64, false, AT(speed), 1e-6, 1e6}};

static const struct {
    const char *name;
    const struct scyaml_field *fields;
    int32_t n;
} lengths_tab[LENGTH_N] = {{"", NULL, 0},
                           {"fixed", &fixed_field, 1},
                           {"uniform", uniform_fields, ARRAY_LEN(uniform_fields)},
                           {"normal", normal_fields, ARRAY_LEN(normal_fields)},
                           {"lognormal", lognormal_fields, ARRAY_LEN(lognormal_fields)},
                           {"empirical", empirical_fields, ARRAY_LEN(empirical_fields)}};

static const char *const workload_names[WORKLOAD_N] = {"synthetic", "dataset", "trace"};

const char *scenario_workload_name(enum scenario_workload kind) {
    return workload_names[kind];
}

static int parse_lengths(const struct scyaml *y,
                         struct fy_node *n,
                         const char *title,
                         struct lengths_spec *l) {
    const char *names[LENGTH_N - 1];
    int32_t which = 0;
    struct fy_node *body = NULL;
    for (int32_t i = 1; i < LENGTH_N; i++) {
        names[i - 1] = lengths_tab[i].name;
    }
    int rc = scyaml_choice(y, n, title, names, LENGTH_N - 1, &which, &body);
    if (rc) {
        return rc;
    }
    which++;
    l->kind = (enum length_kind)which;
    if (l->kind == LENGTH_FIXED) {
        return scyaml_fields(y, n, title, &fixed_field, 1, l);
    }
    rc = scyaml_fields(y, body, title, lengths_tab[which].fields, lengths_tab[which].n, l);
    if (!rc && l->max > 0 && i32_max(1, l->min) > l->max) {
        return scyaml_error(y, body, "%s: min %d is above max %d", title, l->min, l->max);
    }
    if (!rc && l->kind == LENGTH_EMPIRICAL && (l->table != NULL) == (l->file != NULL)) {
        return scyaml_error(y, body, "%s: want either \"table\" or \"file\"", title);
    }
    return rc;
}

static int parse_synthetic(const struct scyaml *y, struct fy_node *n, struct scenario_work *w) {
    int rc = scyaml_fields(y, n, "synthetic", synthetic_fields, ARRAY_LEN(synthetic_fields), w);
    rc = rc ? rc : parse_lengths(y, scyaml_get(n, "input"), "input", &w->input);
    rc = rc ? rc : parse_lengths(y, scyaml_get(n, "output"), "output", &w->output);
    struct fy_node *prefix = rc ? NULL : scyaml_get(n, "shared_prefix");
    if (prefix) {
        rc = scyaml_fields(y, prefix, "shared_prefix", prefix_fields, ARRAY_LEN(prefix_fields), w);
    }
    return rc;
}

int scenario_parse_workload(const struct scyaml *y, struct fy_node *n, struct scenario *sc) {
    struct scenario_work *w = &sc->work;
    int32_t which = 0;
    struct fy_node *body = NULL;
    int rc = scyaml_choice(y, n, "workload", workload_names, WORKLOAD_N, &which, &body);
    if (rc) {
        return rc;
    }
    w->kind = (enum scenario_workload)which;
    switch (w->kind) {
    case WORKLOAD_SYNTHETIC:
        return parse_synthetic(y, body, w);
    case WORKLOAD_DATASET: {
        rc = scyaml_fields(y, body, "dataset", dataset_fields, ARRAY_LEN(dataset_fields), w);
        if (!rc && (w->dataset != NULL) == (w->file != NULL)) {
            return scyaml_error(y, body, "dataset: want either \"name\" or \"file\"");
        }
        struct fy_node *output = rc ? NULL : scyaml_get(body, "output");
        return output ? parse_lengths(y, output, "output", &w->output) : rc;
    }
    case WORKLOAD_TRACE:
        return scyaml_fields(y, body, "trace", trace_fields, ARRAY_LEN(trace_fields), w);
    case WORKLOAD_N:
    default:
        return 0;
    }
}

static int format_lengths(struct buf *b, const char *key, const struct lengths_spec *l) {
    if (l->kind == LENGTH_FIXED) {
        return buf_fmt(b, "    %s:\n      fixed: %d\n", key, l->fixed);
    }
    int rc = buf_fmt(b, "    %s:\n      %s:\n", key, lengths_tab[l->kind].name);
    return rc ? rc : scyaml_print(b, 8, lengths_tab[l->kind].fields, lengths_tab[l->kind].n, l);
}

int scenario_format_workload(const struct scenario *sc, struct buf *b) {
    const struct scenario_work *w = &sc->work;
    if (sc->arrival.kind == ARRIVAL_UNSET) {
        return 0;
    }
    int rc = buf_fmt(b, "workload:\n  %s:\n", workload_names[w->kind]);
    if (rc) {
        return rc;
    }
    if (w->kind == WORKLOAD_TRACE) {
        return scyaml_print(b, 4, trace_fields, ARRAY_LEN(trace_fields), w);
    }
    if (w->kind == WORKLOAD_DATASET) {
        rc = scyaml_print(b, 4, dataset_fields, ARRAY_LEN(dataset_fields), w);
        return rc || w->output.kind == LENGTH_UNSET ? rc : format_lengths(b, "output", &w->output);
    }
    rc = format_lengths(b, "input", &w->input);
    rc = rc ? rc : format_lengths(b, "output", &w->output);
    if (!rc && w->prefix_groups > 0) {
        rc = buf_str(b, "    shared_prefix:\n");
        rc = rc ? rc : scyaml_print(b, 6, prefix_fields, ARRAY_LEN(prefix_fields), w);
    }
    return rc;
}

#undef AT
#define AT(member) offsetof(struct scenario_arrival, member)

static const struct scyaml_field rate_fields[] = {{"rate", SCYAML_NODE, true, 0, 0, 0}};
static const struct scyaml_field gamma_fields[] = {{"rate", SCYAML_NODE, true, 0, 0, 0},
                                                   {"cv", SCYAML_F64, true, AT(cv), 0.01, 100}};
static const struct scyaml_field closed_fields[] = {{"concurrency", SCYAML_NODE, true, 0, 0, 0}};
static const struct scyaml_field burst_fields[] = {{"requests", SCYAML_NODE, true, 0, 0, 0}};
static const struct scyaml_field speed_fields[] = {{"speed", SCYAML_NODE, true, 0, 0, 0}};

enum point_unit { POINT_RATE, POINT_COUNT, POINT_FACTOR };

/* fields[0] is the swept key. */
static const struct {
    const struct scyaml_field *fields;
    int32_t n;
    enum point_unit unit;
} arrival_tab[ARRIVAL_N] = {{NULL, 0, POINT_RATE},           {rate_fields, 1, POINT_RATE},
                            {rate_fields, 1, POINT_RATE},    {gamma_fields, 2, POINT_RATE},
                            {closed_fields, 1, POINT_COUNT}, {burst_fields, 1, POINT_COUNT},
                            {speed_fields, 1, POINT_FACTOR}};

static int parse_point(
    const struct scyaml *y, struct fy_node *n, const char *key, enum point_unit unit, double *out) {
    enum { POINT_COUNT_MAX = 1 << 20 };
    const char *s = NULL;
    int64_t count = 0;
    int rc = scyaml_scalar(y, n, key, &s);
    if (rc) {
        return rc;
    }
    switch (unit) {
    case POINT_COUNT:
        rc = str_i64(s, 1, POINT_COUNT_MAX, &count);
        *out = (double)count;
        return rc ? scyaml_error(y, n, "%s: \"%.60s\" is no whole number from 1 to %d", key, s,
                                 (int)POINT_COUNT_MAX)
                  : 0;
    case POINT_FACTOR:
        rc = str_f64(s, out);
        return rc || !(*out >= 1e-6 && *out <= 1e6)
                   ? scyaml_error(y, n, "%s: \"%.60s\" is no factor above 0", key, s)
                   : 0;
    case POINT_RATE:
    default:
        rc = str_rate_per_s(s, out);
        return rc || *out > 1e9 || *out < 1e-9
                   ? scyaml_error(y, n, "%s: \"%.60s\" is no rate, want for example 4/s or 30/m",
                                  key, s)
                   : 0;
    }
}

static int parse_points(const struct scyaml *y,
                        struct fy_node *n,
                        const char *key,
                        enum point_unit unit,
                        struct scenario_arrival *a) {
    if (!scyaml_is_seq(n)) {
        a->n_points = 1;
        return parse_point(y, n, key, unit, &a->points[0]);
    }
    int32_t count = scyaml_n_items(n);
    if (count < 1 || count > SCENARIO_POINTS_MAX) {
        return scyaml_error(y, n, "%s: a list of %d values, want 1..%d", key, count,
                            (int)SCENARIO_POINTS_MAX);
    }
    for (int32_t i = 0; i < count; i++) {
        int rc = parse_point(y, scyaml_item(n, i), key, unit, &a->points[i]);
        if (rc) {
            return rc;
        }
    }
    a->n_points = count;
    return 0;
}

int scenario_parse_arrival(const struct scyaml *y, struct fy_node *n, struct scenario *sc) {
    const char *names[ARRIVAL_N - 1];
    int32_t which = 0;
    struct fy_node *body = NULL;
    for (int32_t i = 1; i < ARRIVAL_N; i++) {
        names[i - 1] = arrival_name((enum arrival_kind)i);
    }
    int rc = scyaml_choice(y, n, "arrival", names, ARRIVAL_N - 1, &which, &body);
    if (rc) {
        return rc;
    }
    which++;
    struct scenario_arrival *a = &sc->arrival;
    a->kind = (enum arrival_kind)which;
    rc = scyaml_fields(y, body ? body : n, arrival_name(a->kind), arrival_tab[which].fields,
                       arrival_tab[which].n, a);
    if (rc) {
        return rc;
    }
    const char *key = arrival_tab[which].fields[0].name;
    return parse_points(y, scyaml_get(body, key), key, arrival_tab[which].unit, a);
}

int scenario_format_arrival(const struct scenario *sc, struct buf *b) {
    const struct scenario_arrival *a = &sc->arrival;
    if (a->kind == ARRIVAL_UNSET) {
        return 0;
    }
    int rc = buf_fmt(b, "arrival:\n  %s:\n    %s: [", arrival_name(a->kind),
                     arrival_tab[a->kind].fields[0].name);
    for (int32_t i = 0; i < a->n_points && !rc; i++) {
        rc = i ? buf_str(b, ", ") : 0;
        rc = rc ? rc : scyaml_print_f64(b, a->points[i]);
        rc = rc ? rc : buf_str(b, arrival_tab[a->kind].unit == POINT_RATE ? "/s" : "");
    }
    rc = rc ? rc : buf_str(b, "]\n");
    return rc ? rc : scyaml_print(b, 4, arrival_tab[a->kind].fields, arrival_tab[a->kind].n, a);
}
