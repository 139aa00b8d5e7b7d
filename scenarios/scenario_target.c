/* The section "targets": who answers. Each is named and has one kind with its own keys.
 *
 *   targets:
 *     base: {engine: {model: smollm2-135m}}
 *     far:  {http: {url: "http://host:8000/v1", model: m}}
 *     none: {null: {ttft: 20ms, itl: 5ms}} */
#include <string.h>

#include "engine/base/str.h"
#include "scenarios/scenario_int.h"

#define AT(member) offsetof(struct scenario_target, member)

static const struct scyaml_field engine_fields[] = {
    {"model", SCYAML_STR, true, AT(model), 0, 0},
    {"backend", SCYAML_STR, false, AT(backend), 0, 0},
    {"threads", SCYAML_I32, false, AT(threads), 1, 1024},
    {"max_batch_tokens", SCYAML_I32, false, AT(max_batch_tokens), 1, 1 << 20},
    {"max_seqs", SCYAML_I32, false, AT(max_seqs), 1, 1 << 16},
    {"block_tokens", SCYAML_I32, false, AT(block_tokens), 1, 1 << 12},
    {"max_len", SCYAML_I32, false, AT(max_len), 1, 1 << 24},
    {"kv_memory", SCYAML_BYTES, false, AT(kv_bytes), 0, 0}};

static const struct scyaml_field http_fields[] = {
    {"url", SCYAML_NODE, false, 0, 0, 0},
    {"urls", SCYAML_NODE, false, 0, 0, 0},
    {"model", SCYAML_STR, true, AT(model), 0, 0},
    {"api", SCYAML_STR, false, AT(http.api), 0, 0},
    {"dialect", SCYAML_STR, false, AT(http.dialect), 0, 0},
    {"stream", SCYAML_STR, false, AT(http.stream), 0, 0},
    {"version", SCYAML_STR, false, AT(http.version), 0, 0},
    {"on_error", SCYAML_STR, false, AT(http.on_error), 0, 0},
    {"timestamps", SCYAML_STR, false, AT(http.timestamps), 0, 0},
    {"key_env", SCYAML_STR, false, AT(http.key_env), 0, 0},
    {"key_header", SCYAML_STR, false, AT(http.key_header), 0, 0},
    {"ca_file", SCYAML_STR, false, AT(http.ca_file), 0, 0},
    {"tokenizer", SCYAML_STR, false, AT(http.tokenizer), 0, 0},
    {"body", SCYAML_STR, false, AT(http.body), 0, 0},
    {"headers", SCYAML_NODE, false, 0, 0, 0},
    {"connections", SCYAML_I32, false, AT(http.connections), 1, 1 << 16},
    {"timeout", SCYAML_NS, false, AT(http.timeout_ns), 0, 0},
    {"stall", SCYAML_NS, false, AT(http.stall_ns), 0, 0},
    {"connect_timeout", SCYAML_NS, false, AT(http.connect_ns), 0, 0}};

static const struct scyaml_field null_fields[] = {
    {"ttft", SCYAML_NS, false, AT(null.ttft_ns), 0, 0},
    {"itl", SCYAML_NS, false, AT(null.itl_ns), 0, 0},
    {"tokens", SCYAML_I32, false, AT(null.tokens), 1, 1 << 24}};

static const struct {
    const char *name;
    const struct scyaml_field *fields;
    int32_t n;
} kinds[TARGET_KIND_N] = {{"engine", engine_fields, ARRAY_LEN(engine_fields)},
                          {"http", http_fields, ARRAY_LEN(http_fields)},
                          {"null", null_fields, ARRAY_LEN(null_fields)}};

const char *scenario_target_kind_name(enum scenario_target_kind kind) {
    return kinds[kind].name;
}

static int
check_target(const struct scyaml *y, struct fy_node *n, const struct scenario_target *t) {
    static const char *const backends[] = {"ref", "cpu", "cuda", "null"};
    for (int32_t i = 0; t->backend && i < ARRAY_LEN(backends); i++) {
        if (str_eq(t->backend, backends[i])) {
            return 0;
        }
    }
    return t->backend
               ? scyaml_error(y, n, "backend: \"%.40s\", want ref, cpu, cuda or null", t->backend)
               : 0;
}

/* A target's name goes into tables, plots and file names. */
static int check_name(const struct scyaml *y, struct fy_node *key, const char *name) {
    enum { NAME_MAX_BYTES = 64 };
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    if (strlen(name) > NAME_MAX_BYTES || strspn(name, allowed) != strlen(name) || !name[0]) {
        return scyaml_error(y, key, "target \"%.80s\": want 1..%d letters, digits, . _ + -", name,
                            (int)NAME_MAX_BYTES);
    }
    return 0;
}

static int parse_one(const struct scyaml *y,
                     struct fy_node *key,
                     struct fy_node *value,
                     struct scenario_target *t) {
    const char *names[TARGET_KIND_N];
    int32_t which = 0;
    struct fy_node *body = NULL;
    for (int32_t i = 0; i < TARGET_KIND_N; i++) {
        names[i] = kinds[i].name;
    }
    int rc = scyaml_scalar(y, key, "target", &t->name);
    rc = rc ? rc : check_name(y, key, t->name);
    rc = rc ? rc
            : scyaml_choice(y, value ? value : key, t->name, names, TARGET_KIND_N, &which, &body);
    if (rc) {
        return rc;
    }
    t->kind = (enum scenario_target_kind)which;
    if (t->kind == TARGET_NULL && scyaml_is_null(body)) {
        return 0;
    }
    rc = scyaml_fields(y, body, t->name, kinds[which].fields, kinds[which].n, t);
    rc = rc || t->kind != TARGET_HTTP ? rc : scenario_parse_http(y, body, &t->http);
    return rc ? rc : check_target(y, body, t);
}

int scenario_parse_targets(const struct scyaml *y, struct fy_node *n, struct scenario *sc) {
    struct fy_node *key = NULL;
    struct fy_node *value = NULL;
    if (!scyaml_is_map(n) || !scyaml_entry(n, 0, &key, &value)) {
        return scyaml_error(y, n, "targets: want at least one \"name: {engine: {model: ...}}\"");
    }
    for (int32_t i = 0; scyaml_entry(n, i, &key, &value); i++) {
        if (i == SCENARIO_TARGETS_MAX) {
            return scyaml_error(y, key, "more than %d targets", (int)SCENARIO_TARGETS_MAX);
        }
        int rc = parse_one(y, key, value, &sc->targets[i]);
        if (rc) {
            return rc;
        }
        sc->n_targets = i + 1;
    }
    return 0;
}

int scenario_format_targets(const struct scenario *sc, struct buf *b) {
    int rc = buf_str(b, "targets:\n");
    for (int32_t i = 0; i < sc->n_targets && !rc; i++) {
        const struct scenario_target *t = &sc->targets[i];
        rc = buf_str(b, "  ");
        rc = rc ? rc : scyaml_print_str(b, t->name);
        rc = rc ? rc : buf_fmt(b, ":\n    %s:", kinds[t->kind].name);
        int64_t at = b->len;
        rc = rc ? rc : buf_str(b, "\n");
        rc = rc ? rc : scyaml_print(b, 6, kinds[t->kind].fields, kinds[t->kind].n, t);
        rc = rc || t->kind != TARGET_HTTP ? rc : scenario_format_http(&t->http, 6, b);
        if (!rc && b->len == at + 1) { /* not one field */
            b->len = at;
            rc = buf_str(b, " {}\n");
        }
    }
    return rc;
}
