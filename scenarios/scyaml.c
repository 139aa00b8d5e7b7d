/* Strict YAML by tables, on libfyaml.
 *
 *   text -> fy_document -> mapping --table--> struct
 *                                  <--table-- canonical text
 *
 * 1. A key that no table names is an error that shows the nearest key the table does name.
 * 2. A position is line:column of the value when it is a scalar, else of the first scalar inside,
 *    counted from 1 as editors do.
 * 3. Units are part of the value; a bare number where a unit belongs is an error.
 * src: YAML 1.2.2; aliases, tags and merge keys are left out on purpose (a scenario is read by
 * people, and an alias is the usual way to make a small file expand without limit). */
#include "scenarios/scyaml.h"

#include <libfyaml.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

enum { MESSAGE_MAX = 400, DEPTH_MAX = 16 };

void scyaml_pool_fini(struct scyaml_pool *p) {
    for (int32_t i = 0; i < p->n; i++) {
        mem_free(p->items[i]);
    }
    mem_free(p->items);
    *p = (struct scyaml_pool){0};
}

int scyaml_pool_add(struct scyaml_pool *p, const char *s, int64_t n, const char **out) {
    if (n < 0) {
        n = (int64_t)strlen(s);
    }
    if (n > SCYAML_STRING_MAX || p->n >= SCYAML_STRINGS_MAX) {
        return err_set(ERR_LIMIT, "more than %d strings, or one of more than %d bytes",
                       (int)SCYAML_STRINGS_MAX, (int)SCYAML_STRING_MAX);
    }
    if (p->n == p->cap) {
        int32_t cap = i32_max(16, p->cap * 2);
        char **items = mem_realloc(MEM_DATA, p->items, cap * (int64_t)sizeof *items);
        if (!items) {
            return ERR_NOMEM;
        }
        p->items = items;
        p->cap = cap;
    }
    char *copy = mem_strdup(MEM_DATA, s, n);
    if (!copy) {
        return ERR_NOMEM;
    }
    p->items[p->n++] = copy;
    *out = copy;
    return 0;
}

static int syntax_error(const char *where, struct fy_diag *diag) {
    void *prev = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &prev);
    if (!e) {
        return err_set(ERR_CONFIG, "%s: not a YAML document", where);
    }
    return err_set(ERR_CONFIG, "%s:%d:%d: %s", where, e->line, e->column, e->msg);
}

/* Refuses what the tables cannot see: aliases, anchors and tags, anywhere in the tree. */
static int plain_tree(const struct scyaml *y, struct fy_node *n, int32_t depth) {
    void *it = NULL;
    int rc = 0;
    if (!n) {
        return 0;
    }
    if (depth > DEPTH_MAX) {
        return scyaml_error(y, n, "nested more than %d levels deep", (int)DEPTH_MAX);
    }
    if (fy_node_is_alias(n) || fy_node_get_tag(n, &(size_t){0})) {
        return scyaml_error(y, n, "aliases (*name) and tags (!name) have no place in this file");
    }
    if (fy_node_is_sequence(n)) {
        for (struct fy_node *c = NULL; !rc && (c = fy_node_sequence_iterate(n, &it)) != NULL;) {
            rc = plain_tree(y, c, depth + 1);
        }
    }
    if (fy_node_is_mapping(n)) {
        for (struct fy_node_pair *p = NULL; !rc && (p = fy_node_mapping_iterate(n, &it)) != NULL;) {
            struct fy_node *key = fy_node_pair_key(p);
            rc = key && fy_node_is_scalar(key) && !fy_node_is_alias(key)
                     ? plain_tree(y, fy_node_pair_value(p), depth + 1)
                     : scyaml_error(y, n, "a key that is no plain word");
        }
    }
    return rc;
}

/* libfyaml's second channel, beside the collected errors; nothing is printed below harness/. */
static void quiet(struct fy_diag *diag, void *user, const char *text, size_t n) {
    (void)diag;
    (void)user;
    (void)text;
    (void)n;
}

/* Bytes of the valid UTF-8 sequence at s, n bytes left; 0 when it is broken or a control character.
 * src: RFC 3629, section 4 */
static int32_t sequence(const unsigned char *s, int64_t n) {
    if (s[0] < 0x80) {
        bool is_text = s[0] >= 0x20 || s[0] == '\n' || s[0] == '\r' || s[0] == '\t';
        return is_text && s[0] != 0x7f ? 1 : 0;
    }
    int32_t len = s[0] >= 0xf0 ? 4 : (s[0] >= 0xe0 ? 3 : 2);
    if (s[0] < 0xc2 || s[0] > 0xf4 || len > n) {
        return 0;
    }
    for (int32_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool low = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
               (s[0] == 0xc2 && s[1] < 0xa0);
    bool high = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return low || high ? 0 : len;
}

/* why: libfyaml 0.7.12 never returns from a directive that holds broken UTF-8; neither has a place
 * in such a file. */
static int plain_text(const char *where, const char *text, int64_t n) {
    const unsigned char *s = (const unsigned char *)text;
    int32_t line = 1;
    int32_t column = 1;
    for (int64_t at = 0; at < n;) {
        int32_t len = sequence(s + at, n - at);
        if (len == 0) {
            return err_set(ERR_CONFIG, "%s:%d:%d: byte 0x%02x is no UTF-8 text", where, line,
                           column, s[at]);
        }
        if (s[at] == '%' && column == 1) {
            return err_set(ERR_CONFIG, "%s:%d:1: directives (%%...) have no place in this file",
                           where, line);
        }
        bool is_break = s[at] == '\n' || s[at] == '\r';
        line += s[at] == '\n' ? 1 : 0;
        column = is_break ? 1 : column + 1;
        at += len;
    }
    return 0;
}

/* libfyaml stops in silence at the end of the first document; a second one is a mistake here. */
static int one_document(const char *where, const char *text, int64_t n) {
    bool content = false;
    int32_t line = 1;
    for (int64_t at = 0; at < n; line++) {
        const char *end = memchr(text + at, '\n', (size_t)(n - at));
        int64_t len = end ? end - (text + at) : n - at;
        bool mark = len >= 3 && (memcmp(text + at, "---", 3) == 0 ||
                                 (content && memcmp(text + at, "...", 3) == 0));
        if (mark && content) {
            return err_set(ERR_CONFIG, "%s:%d:1: a second document begins, want one", where, line);
        }
        content = content || mark || (len > 0 && text[at] != '#' && text[at] != '\r');
        at += len + 1;
    }
    return 0;
}

int scyaml_open(
    struct scyaml *y, const char *where, const char *text, int64_t n, struct scyaml_pool *pool) {
    if (n > SCYAML_TEXT_MAX) {
        return err_set(ERR_LIMIT, "%s: %lld bytes, at most %d", where, (long long)n,
                       (int)SCYAML_TEXT_MAX);
    }
    if (n == 0 || memchr(text, '\0', (size_t)n)) {
        return err_set(ERR_CONFIG, "%s: empty, or not a text file", where);
    }
    int rc = plain_text(where, text, n);
    rc = rc ? rc : one_document(where, text, n);
    if (rc) {
        return rc;
    }
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = quiet;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (!diag) {
        return err_set(ERR_NOMEM, "%s: no memory to read it", where);
    }
    fy_diag_set_collect_errors(diag, true);
    const struct fy_parse_cfg cfg = {.flags = FYPCF_DEFAULT_DOC & ~FYPCF_RESOLVE_DOCUMENT,
                                     .diag = diag};
    struct fy_document *doc = fy_document_build_from_string(&cfg, text, (size_t)n);
    rc = doc ? 0 : syntax_error(where, diag);
    struct scyaml s = {.where = where, .doc = doc, .pool = pool};
    if (!rc) {
        s.root = fy_document_root(doc);
        rc = s.root && fy_node_is_mapping(s.root)
                 ? plain_tree(&s, s.root, 0)
                 : err_set(ERR_CONFIG, "%s:1:1: want \"key: value\" lines", where);
    }
    fy_diag_destroy(diag);
    if (rc) {
        fy_document_destroy(doc);
        return rc;
    }
    *y = s;
    return 0;
}

void scyaml_close(struct scyaml *y) {
    fy_document_destroy(y->doc);
    y->doc = NULL;
    y->root = NULL;
}

static const struct fy_mark *mark_of(struct fy_node *n) {
    for (int32_t depth = 0; n && depth <= DEPTH_MAX + 1; depth++) {
        void *it = NULL;
        if (fy_node_is_mapping(n)) {
            struct fy_node_pair *p = fy_node_mapping_iterate(n, &it);
            n = p ? fy_node_pair_key(p) : NULL;
        } else if (fy_node_is_sequence(n)) {
            n = fy_node_sequence_iterate(n, &it);
        } else {
            struct fy_token *t = fy_node_get_scalar_token(n);
            return t ? fy_token_start_mark(t) : NULL;
        }
    }
    return NULL;
}

int scyaml_error(const struct scyaml *y, struct fy_node *n, const char *fmt, ...) {
    char message[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    const struct fy_mark *m = mark_of(n);
    if (!m) {
        return err_set(ERR_CONFIG, "%s: %s", y->where, message);
    }
    return err_set(ERR_CONFIG, "%s:%d:%d: %s", y->where, m->line + 1, m->column + 1, message);
}

bool scyaml_is_map(struct fy_node *n) {
    return n && fy_node_is_mapping(n);
}

bool scyaml_is_seq(struct fy_node *n) {
    return n && fy_node_is_sequence(n);
}

static bool scalar_is(struct fy_node *n, const char *word) {
    size_t len = 0;
    const char *s = fy_node_get_scalar(n, &len);
    return s && len == strlen(word) && memcmp(s, word, len) == 0;
}

bool scyaml_is_null(struct fy_node *n) {
    if (!n || fy_node_is_null(n)) {
        return true;
    }
    return fy_node_get_style(n) == FYNS_PLAIN &&
           (scalar_is(n, "") || scalar_is(n, "~") || scalar_is(n, "null"));
}

bool scyaml_entry(struct fy_node *map, int32_t i, struct fy_node **key, struct fy_node **value) {
    struct fy_node_pair *p = fy_node_mapping_get_by_index(map, i);
    if (!p || i < 0) {
        return false;
    }
    *key = fy_node_pair_key(p);
    *value = fy_node_pair_value(p);
    return true;
}

struct fy_node *scyaml_item(struct fy_node *seq, int32_t i) {
    return fy_node_sequence_get_by_index(seq, i);
}

int32_t scyaml_n_items(struct fy_node *seq) {
    return fy_node_sequence_item_count(seq);
}

struct fy_node *scyaml_get(struct fy_node *map, const char *key) {
    struct fy_node *k = NULL;
    struct fy_node *v = NULL;
    for (int32_t i = 0; scyaml_entry(map, i, &k, &v); i++) {
        if (scalar_is(k, key)) {
            return v;
        }
    }
    return NULL;
}

int scyaml_scalar(const struct scyaml *y, struct fy_node *n, const char *title, const char **out) {
    size_t len = 0;
    const char *s = n && fy_node_is_scalar(n) ? fy_node_get_scalar(n, &len) : NULL;
    if (!s || scyaml_is_null(n)) {
        return scyaml_error(y, n, "%s has no value, want one word or number", title);
    }
    if (memchr(s, '\0', len)) {
        return scyaml_error(y, n, "%s holds a NUL character", title);
    }
    int rc = scyaml_pool_add(y->pool, s, (int64_t)len, out);
    return rc ? err_ctx(rc, "%s: %s", y->where, title) : 0;
}

/* The word for a key that is not among names: the nearest one, or all of them. */
static int unknown_key(const struct scyaml *y,
                       struct fy_node *key,
                       const char *title,
                       const char *const *names,
                       int32_t n) {
    char all[MESSAGE_MAX / 2] = "";
    const char *k = NULL;
    int rc = scyaml_scalar(y, key, "key", &k);
    if (rc) {
        return rc;
    }
    const char *near = str_nearest(k, names, n);
    if (near) {
        return scyaml_error(y, key, "unknown key \"%.80s\" in %s, did you mean \"%s\"?", k, title,
                            near);
    }
    for (int32_t i = 0; i < n; i++) {
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", names[i]);
    }
    return scyaml_error(y, key, "unknown key \"%.80s\" in %s, want one of: %s", k, title, all);
}

static int32_t index_of(struct fy_node *key, const char *const *names, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (scalar_is(key, names[i])) {
            return i;
        }
    }
    return -1;
}

int scyaml_choice(const struct scyaml *y,
                  struct fy_node *node,
                  const char *title,
                  const char *const *names,
                  int32_t n,
                  int32_t *which,
                  struct fy_node **value) {
    struct fy_node *key = NULL;
    struct fy_node *v = NULL;
    struct fy_node *more = NULL;
    if (!scyaml_is_map(node) || !scyaml_entry(node, 0, &key, &v)) {
        return scyaml_error(y, node, "%s: want one entry such as {%s: ...}", title, names[0]);
    }
    int32_t i = index_of(key, names, n);
    if (i < 0) {
        return unknown_key(y, key, title, names, n);
    }
    if (scyaml_entry(node, 1, &key, &more)) {
        return scyaml_error(y, key, "%s: one entry only, here is a second one", title);
    }
    *which = i;
    *value = v;
    return 0;
}

static int number_field(const struct scyaml *y,
                        struct fy_node *v,
                        const struct scyaml_field *f,
                        const char *s,
                        void *at) {
    if (f->kind == SCYAML_F64) {
        double d = 0;
        if (str_f64(s, &d) || d < f->lo || d > f->hi) {
            return scyaml_error(y, v, "%s: \"%.80s\" is no number from %.6g to %.6g", f->name, s,
                                f->lo, f->hi);
        }
        *(double *)at = d;
        return 0;
    }
    int64_t i = 0;
    if (str_i64(s, (int64_t)f->lo, (int64_t)f->hi, &i)) {
        return scyaml_error(y, v, "%s: \"%.80s\" is no whole number from %.0f to %.0f", f->name, s,
                            f->lo, f->hi);
    }
    if (f->kind == SCYAML_I32) {
        *(int32_t *)at = (int32_t)i;
    } else {
        *(int64_t *)at = i;
    }
    return 0;
}

static int unit_field(const struct scyaml *y,
                      struct fy_node *v,
                      const struct scyaml_field *f,
                      const char *s,
                      void *at) {
    int64_t i = 0;
    double bare = 0;
    bool is_bare = str_f64(s, &bare) == 0 && bare != 0;
    int rc = f->kind == SCYAML_NS ? str_duration_ns(s, &i) : str_bytes(s, &i);
    if (is_bare && f->kind == SCYAML_NS) {
        return scyaml_error(y, v, "%s: \"%.80s\" has no unit, want for example %.60ss", f->name, s,
                            s);
    }
    if (rc && bare == 0 && str_eq(s, "0")) {
        i = 0;
        rc = 0;
    }
    if (rc) {
        char why[MESSAGE_MAX / 2];
        str_copy(why, sizeof why, err_msg());
        return scyaml_error(y, v, "%s: %s", f->name, why);
    }
    *(int64_t *)at = i;
    return 0;
}

static int
one_field(const struct scyaml *y, struct fy_node *v, const struct scyaml_field *f, void *base) {
    void *at = (char *)base + f->offset;
    const char *s = NULL;
    if (f->kind == SCYAML_NODE) {
        return 0;
    }
    int rc = scyaml_scalar(y, v, f->name, &s);
    if (rc) {
        return rc;
    }
    switch (f->kind) {
    case SCYAML_STR:
        *(const char **)at = s;
        return s[0] ? 0 : scyaml_error(y, v, "%s: an empty string", f->name);
    case SCYAML_I32:
    case SCYAML_I64:
    case SCYAML_F64:
        return number_field(y, v, f, s, at);
    case SCYAML_NS:
    case SCYAML_BYTES:
        return unit_field(y, v, f, s, at);
    case SCYAML_NODE:
    default:
        return 0;
    }
}

int scyaml_fields(const struct scyaml *y,
                  struct fy_node *map,
                  const char *title,
                  const struct scyaml_field *fields,
                  int32_t n,
                  void *base) {
    const char *names[SCYAML_FIELDS_MAX];
    bool seen[SCYAML_FIELDS_MAX] = {false};
    struct fy_node *key = NULL;
    struct fy_node *value = NULL;
    if (!scyaml_is_map(map)) {
        return scyaml_error(y, map, "%s: want \"key: value\" entries", title);
    }
    for (int32_t i = 0; i < n; i++) {
        names[i] = fields[i].name;
    }
    for (int32_t i = 0; scyaml_entry(map, i, &key, &value); i++) {
        int32_t at = index_of(key, names, n);
        int rc = at < 0 ? unknown_key(y, key, title, names, n)
                        : one_field(y, value ? value : key, &fields[at], base);
        if (rc) {
            return rc;
        }
        seen[at] = true;
    }
    for (int32_t i = 0; i < n; i++) {
        if (fields[i].need && !seen[i]) {
            return scyaml_error(y, map, "%s has no key \"%s\"", title, fields[i].name);
        }
    }
    return 0;
}

int scyaml_print_str(struct buf *b, const char *s) {
    int rc = buf_str(b, "\"");
    for (const char *c = s; *c && !rc; c++) {
        unsigned char u = (unsigned char)*c;
        if (u == '"' || u == '\\') {
            rc = buf_fmt(b, "\\%c", u);
        } else if (u < 0x20 || u == 0x7f) {
            rc = buf_fmt(b, "\\x%02x", u);
        } else {
            rc = buf_add(b, c, 1);
        }
    }
    return rc ? rc : buf_str(b, "\"");
}

int scyaml_print_f64(struct buf *b, double v) {
    char text[64];
    double back = 0;
    snprintf(text, sizeof text, "%.15g", v);
    if (str_f64(text, &back) || back < v || back > v) {
        snprintf(text, sizeof text, "%.17g", v);
    }
    return buf_str(b, text);
}

static int print_ns(struct buf *b, int64_t ns) {
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    int32_t i = 0;
    while (i + 1 < ARRAY_LEN(units) && ns % units[i].ns != 0) {
        i++;
    }
    return buf_fmt(b, "%lld%s", (long long)(ns / units[i].ns), units[i].name);
}

static bool is_given(const struct scyaml_field *f, const void *at) {
    switch (f->kind) {
    case SCYAML_STR:
        return *(const char *const *)at != NULL;
    case SCYAML_I32:
        return *(const int32_t *)at != 0;
    case SCYAML_I64:
    case SCYAML_NS:
    case SCYAML_BYTES:
        return *(const int64_t *)at != 0;
    case SCYAML_F64:
        return fpclassify(*(const double *)at) != FP_ZERO;
    case SCYAML_NODE:
    default:
        return false;
    }
}

static int print_value(struct buf *b, const struct scyaml_field *f, const void *at) {
    switch (f->kind) {
    case SCYAML_STR:
        return scyaml_print_str(b, *(const char *const *)at);
    case SCYAML_I32:
        return buf_fmt(b, "%d", *(const int32_t *)at);
    case SCYAML_I64:
        return buf_fmt(b, "%lld", (long long)*(const int64_t *)at);
    case SCYAML_NS:
        return print_ns(b, *(const int64_t *)at);
    case SCYAML_BYTES:
        return buf_fmt(b, "%lldB", (long long)*(const int64_t *)at);
    case SCYAML_F64:
        return scyaml_print_f64(b, *(const double *)at);
    case SCYAML_NODE:
    default:
        return 0;
    }
}

int scyaml_print(
    struct buf *b, int32_t indent, const struct scyaml_field *fields, int32_t n, const void *base) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        const void *at = (const char *)base + fields[i].offset;
        bool is_node = fields[i].kind == SCYAML_NODE;
        if (is_node || (!fields[i].need && !is_given(&fields[i], at))) {
            continue;
        }
        rc = buf_fmt(b, "%*s%s: ", indent, "", fields[i].name);
        rc = rc ? rc : print_value(b, &fields[i], at);
        rc = rc ? rc : buf_str(b, "\n");
    }
    return rc;
}
