/* The scenario file as a whole: the sections in order, what must fit together, and the way back.
 *
 *   YAML -> scenario_parse -> struct scenario -> scenario_format -> canonical text -> sha256
 *
 * 1. parse(format(sc)) equals sc, and format of that gives the same bytes: the hash of the text
 *    names the experiment.
 * 2. What one key says and another contradicts is an error here, not a surprise at run time. */
#include "scenarios/scenario.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "scenarios/scenario_int.h"

static const struct scyaml_field top_fields[] = {
    {"scenario", SCYAML_STR, true, offsetof(struct scenario, name), 0, 0},
    {"seed", SCYAML_I64, false, offsetof(struct scenario, seed), 0, 9e15},
    {"targets", SCYAML_NODE, true, 0, 0, 0},
    {"workload", SCYAML_NODE, false, 0, 0, 0},
    {"arrival", SCYAML_NODE, false, 0, 0, 0},
    {"duration", SCYAML_NS, false, offsetof(struct scenario, duration_ns), 0, 0},
    {"requests", SCYAML_I64, false, offsetof(struct scenario, n_requests), 1, 1e9},
    {"warmup", SCYAML_NS, false, offsetof(struct scenario, warmup_ns), 0, 0},
    {"drain", SCYAML_NS, false, offsetof(struct scenario, drain_ns), 0, 0},
    {"slo", SCYAML_NODE, false, 0, 0, 0},
    {"evaluate", SCYAML_NODE, false, 0, 0, 0},
    {"cost", SCYAML_NODE, false, 0, 0, 0},
    {"sampling", SCYAML_NODE, false, 0, 0, 0}};

static const struct scyaml_field cost_fields[] = {{"machine_usd_per_hour", SCYAML_F64, true,
                                                   offsetof(struct scenario, machine_usd_per_hour),
                                                   0, 1e6}};

static const struct scyaml_field sampling_fields[] = {
    {"temperature", SCYAML_F64, false, offsetof(struct scenario, temperature), 0, 100},
    {"top_p", SCYAML_F64, false, offsetof(struct scenario, top_p), 1e-6, 1},
    {"seed", SCYAML_I64, false, offsetof(struct scenario, sampling_seed), 0, 9e15}};

static bool has_target(const struct scenario *sc, const char *name) {
    for (int32_t i = 0; i < sc->n_targets; i++) {
        if (str_eq(sc->targets[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* What has to fit together across sections. */
static int check_whole(const struct scyaml *y, struct scenario *sc) {
    struct fy_node *root = y->root;
    bool has_load = scyaml_get(root, "workload") != NULL;
    bool is_trace = has_load && sc->work.kind == WORKLOAD_TRACE;
    if (!has_load && (sc->arrival.kind != ARRIVAL_UNSET || sc->n_evals == 0)) {
        return scyaml_error(y, root,
                            "no workload: want the key \"workload\", or only \"evaluate\"");
    }
    if (is_trace && sc->arrival.kind == ARRIVAL_UNSET) {
        sc->arrival.kind = ARRIVAL_TRACE;
        sc->arrival.n_points = 1;
        sc->arrival.points[0] = sc->work.speed > 0 ? sc->work.speed : 1;
        sc->work.speed = 0;
    }
    if (is_trace && sc->work.speed > 0) {
        return scyaml_error(y, scyaml_get(root, "arrival"),
                            "the trace's speed is given twice, in workload and in arrival");
    }
    if (has_load && sc->arrival.kind == ARRIVAL_UNSET) {
        return scyaml_error(y, root,
                            "no arrival: want for example arrival: {poisson: {rate: 4/s}}");
    }
    if (sc->arrival.kind == ARRIVAL_TRACE && !is_trace) {
        return scyaml_error(y, scyaml_get(root, "arrival"),
                            "trace arrivals need workload: {trace: {file: ...}}");
    }
    bool ends = sc->arrival.kind == ARRIVAL_TRACE || sc->arrival.kind == ARRIVAL_BURST ||
                sc->duration_ns > 0 || sc->n_requests > 0;
    if (has_load && !ends) {
        return scyaml_error(y, root, "the load never ends: want \"duration\" or \"requests\"");
    }
    for (int32_t i = 0; i < sc->n_evals; i++) {
        const char *base = sc->evals[i].base;
        if (base && !has_target(sc, base)) {
            return scyaml_error(y, scyaml_get(root, "evaluate"), "kl: no target is named \"%.80s\"",
                                base);
        }
    }
    return 0;
}

static int parse_sections(const struct scyaml *y, struct scenario *sc) {
    static const struct {
        const char *key;
        int (*parse)(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
    } sections[] = {{"targets", scenario_parse_targets},
                    {"workload", scenario_parse_workload},
                    {"arrival", scenario_parse_arrival},
                    {"slo", scenario_parse_slo},
                    {"evaluate", scenario_parse_evaluate}};
    int rc = scyaml_fields(y, y->root, "the scenario", top_fields, ARRAY_LEN(top_fields), sc);
    for (int32_t i = 0; i < ARRAY_LEN(sections) && !rc; i++) {
        struct fy_node *n = scyaml_get(y->root, sections[i].key);
        rc = n ? sections[i].parse(y, n, sc) : 0;
    }
    struct fy_node *cost = scyaml_get(y->root, "cost");
    if (!rc && cost) {
        rc = scyaml_fields(y, cost, "cost", cost_fields, ARRAY_LEN(cost_fields), sc);
    }
    struct fy_node *sampling = scyaml_get(y->root, "sampling");
    if (!rc && sampling) {
        rc =
            scyaml_fields(y, sampling, "sampling", sampling_fields, ARRAY_LEN(sampling_fields), sc);
    }
    return rc ? rc : check_whole(y, sc);
}

int scenario_parse(const char *where, const char *text, int64_t n, struct scenario *sc) {
    struct scyaml y;
    struct scenario *s = mem_calloc(MEM_DATA, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    int rc = scyaml_open(&y, where, text, n, &s->pool);
    if (!rc) {
        rc = parse_sections(&y, s);
        scyaml_close(&y);
    }
    if (rc) {
        scenario_fini(s);
    } else {
        *sc = *s;
    }
    mem_free(s);
    return rc;
}

int scenario_read(const char *path, struct scenario *sc) {
    struct buf b;
    buf_init(&b, MEM_DATA, SCYAML_TEXT_MAX);
    int rc = file_read(path, &b);
    rc = rc ? rc : scenario_parse(path, buf_cstr(&b), b.len, sc);
    buf_fini(&b);
    return rc;
}

void scenario_fini(struct scenario *sc) {
    scyaml_pool_fini(&sc->pool);
    mem_free(sc->evals);
    *sc = (struct scenario){0};
}

static int format_group(struct buf *b,
                        const char *title,
                        const struct scyaml_field *fields,
                        int32_t n,
                        const struct scenario *sc) {
    int64_t at = b->len;
    int rc = buf_fmt(b, "%s:\n", title);
    int64_t body = b->len;
    rc = rc ? rc : scyaml_print(b, 2, fields, n, sc);
    if (!rc && b->len == body) {
        b->len = at;
        b->data[at] = '\0';
    }
    return rc;
}

int scenario_format(const struct scenario *sc, struct buf *b) {
    int rc = scyaml_print(b, 0, top_fields, 2, sc);
    rc = rc ? rc : scenario_format_targets(sc, b);
    rc = rc ? rc : scenario_format_workload(sc, b);
    rc = rc ? rc : scenario_format_arrival(sc, b);
    rc = rc ? rc : scyaml_print(b, 0, top_fields + 5, ARRAY_LEN(top_fields) - 5, sc);
    rc = rc ? rc : scenario_format_slo(sc, b);
    rc = rc ? rc : scenario_format_evaluate(sc, b);
    if (!rc && sc->machine_usd_per_hour > 0) {
        rc = format_group(b, "cost", cost_fields, ARRAY_LEN(cost_fields), sc);
    }
    return rc ? rc : format_group(b, "sampling", sampling_fields, ARRAY_LEN(sampling_fields), sc);
}

char *scenario_point_label(const struct scenario *sc, int32_t i, char *dst) {
    double v = i >= 0 && i < sc->arrival.n_points ? sc->arrival.points[i] : 0;
    switch (sc->arrival.kind) {
    case ARRIVAL_CONSTANT:
    case ARRIVAL_POISSON:
    case ARRIVAL_GAMMA:
        snprintf(dst, SCENARIO_LABEL_MAX, "%.6g/s", v);
        break;
    case ARRIVAL_CLOSED:
        snprintf(dst, SCENARIO_LABEL_MAX, v > 1 ? "%.6g users" : "%.6g user", v);
        break;
    case ARRIVAL_BURST:
        snprintf(dst, SCENARIO_LABEL_MAX, "burst of %.6g", v);
        break;
    case ARRIVAL_TRACE:
        snprintf(dst, SCENARIO_LABEL_MAX, "%.6gx", v);
        break;
    case ARRIVAL_UNSET:
    case ARRIVAL_N:
    default:
        snprintf(dst, SCENARIO_LABEL_MAX, "none");
        break;
    }
    return dst;
}

int32_t scenario_base(const struct scenario *sc) {
    const char *name = "base";
    for (int32_t i = 0; i < sc->n_evals; i++) {
        if (sc->evals[i].base) {
            name = sc->evals[i].base;
            break;
        }
    }
    for (int32_t i = 0; i < sc->n_targets; i++) {
        if (str_eq(sc->targets[i].name, name)) {
            return i;
        }
    }
    return 0;
}
