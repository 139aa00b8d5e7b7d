/* Values of templates: Python's, as far as templates can tell.
 *
 * All memory comes from the rendering's arena, so values are copied freely and never freed one by
 * one. Lists, dicts and strings do not change after they were made; only namespaces do. Dicts keep
 * the order of insertion and compare a hash before a key. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { CHUNK_MIN = 1 << 14, CHUNK_MAX = 1 << 20, UNDEF_TEXT_MAX = 256, COMPARE_DEPTH = 100 };

struct arena_chunk {
    struct arena_chunk *next;
    int64_t size; /* bytes behind this header, which is 16 long */
};

void arena_init(struct arena *a, int64_t max) {
    *a = (struct arena){.max = max};
}

void arena_fini(struct arena *a) {
    while (a->head) {
        struct arena_chunk *c = a->head;
        a->head = c->next;
        mem_free(c);
    }
}

static bool arena_grow(struct arena *a, int64_t n) {
    int64_t size = i64_max(CHUNK_MIN, i64_min(CHUNK_MAX, a->total));
    size = i64_max(size, n);
    if (size > a->max - a->total) {
        a->rc =
            err_set(ERR_LIMIT, "a template's values need more than %lld bytes", (long long)a->max);
        return false;
    }
    struct arena_chunk *c = mem_calloc(MEM_TEXT, size + 16);
    if (!c) {
        a->rc = ERR_NOMEM;
        return false;
    }
    c->next = a->head;
    c->size = size;
    a->head = c;
    a->left = size;
    a->total += size;
    return true;
}

void *arena_get(struct arena *a, int64_t n) {
    if (n < 0 || n > a->max) {
        a->rc = err_set(ERR_LIMIT, "a template's value of %lld bytes", (long long)n);
        return NULL;
    }
    n = (n + 15) / 16 * 16;
    if (n > a->left && !arena_grow(a, n)) {
        return NULL;
    }
    char *base = (char *)a->head + 16 + (a->head->size - a->left);
    a->left -= n;
    return base;
}

int arena_rc(const struct arena *a) {
    return a->rc;
}

struct val v_none(void) {
    return (struct val){.type = V_NONE};
}

struct val v_bool(bool b) {
    return (struct val){.type = V_BOOL, .u.b = b};
}

struct val v_int(int64_t i) {
    return (struct val){.type = V_INT, .u.i = i};
}

struct val v_float(double f) {
    return (struct val){.type = V_FLOAT, .u.f = f};
}

struct val v_str(const char *p, int64_t n) {
    return (struct val){.type = V_STR, .u.s = {p, n}};
}

struct val v_cstr(const char *s) {
    return v_str(s, (int64_t)strlen(s));
}

bool str_is(struct chat_str s, const char *lit) {
    return (size_t)s.n == strlen(lit) && memcmp(s.p, lit, (size_t)s.n) == 0;
}

int v_copy(struct rt *r, const char *p, int64_t n, struct val *out) {
    char *d = arena_get(&r->arena, n + 1);
    if (!d) {
        return arena_rc(&r->arena);
    }
    if (n > 0) {
        memcpy(d, p, (size_t)n);
    }
    *out = v_str(d, n);
    return 0;
}

int v_take(struct rt *r, struct buf *b, struct val *out) {
    int rc = v_copy(r, buf_cstr(b), b->len, out);
    buf_clear(b);
    return rc;
}

int v_undef(struct rt *r, struct val *out, const char *fmt, ...) {
    char text[UNDEF_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct val s;
    int rc = v_copy(r, text, (int64_t)strlen(text), &s);
    struct undef *u = rc ? NULL : arena_get(&r->arena, sizeof *u);
    if (!u) {
        return rc ? rc : arena_rc(&r->arena);
    }
    u->text = s.u.s;
    *out = (struct val){.type = V_UNDEF, .u.undef = u};
    return 0;
}

int v_seq(struct rt *r, enum seq_kind kind, int64_t cap, struct val *out) {
    struct seq *s = arena_get(&r->arena, sizeof *s);
    struct val *v = s && cap > 0 ? arena_get(&r->arena, cap * (int64_t)sizeof *v) : NULL;
    if (!s || (cap > 0 && !v)) {
        return arena_rc(&r->arena);
    }
    *s = (struct seq){.kind = kind, .cap = cap, .v = v};
    *out = (struct val){.type = V_SEQ, .u.seq = s};
    return 0;
}

int v_push(struct rt *r, struct seq *s, struct val v) {
    if (s->n == s->cap) {
        int64_t cap = s->cap ? s->cap * 2 : 8;
        struct val *p = arena_get(&r->arena, cap * (int64_t)sizeof *p);
        if (!p) {
            return arena_rc(&r->arena);
        }
        if (s->n > 0) {
            memcpy(p, s->v, (size_t)s->n * sizeof *p);
        }
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = v;
    return 0;
}

int v_dict(struct rt *r, struct val *out) {
    struct dict *d = arena_get(&r->arena, sizeof *d);
    if (!d) {
        return arena_rc(&r->arena);
    }
    *out = (struct val){.type = V_DICT, .u.dict = d};
    return 0;
}

static uint64_t hash(const struct val *v) {
    uint64_t h = 1469598103934665603U;
    if (v_is_num(v)) { /* 1, 1.0 and True are one key */
        double d = v_num(v);
        memcpy(&h, &d, sizeof h);
        return h;
    }
    for (int64_t i = 0; v->type == V_STR && i < v->u.s.n; i++) {
        h = (h ^ (uint8_t)v->u.s.p[i]) * 1099511628211U;
    }
    return h;
}

int v_append(struct rt *r, struct dict *d, struct val key, struct val v) {
    if (d->n == d->cap) {
        int64_t cap = d->cap ? d->cap * 2 : 8;
        struct entry *e = arena_get(&r->arena, cap * (int64_t)sizeof *e);
        if (!e) {
            return arena_rc(&r->arena);
        }
        if (d->n > 0) {
            memcpy(e, d->e, (size_t)d->n * sizeof *e);
        }
        d->e = e;
        d->cap = cap;
    }
    d->e[d->n++] = (struct entry){.key = key, .val = v, .hash = hash(&key)};
    return 0;
}

static struct entry *find(const struct dict *d, const struct val *key) {
    uint64_t h = hash(key);
    for (int64_t i = 0; i < d->n; i++) {
        if (d->e[i].hash == h && v_eq(&d->e[i].key, key)) {
            return &d->e[i];
        }
    }
    return NULL;
}

int v_put(struct rt *r, struct dict *d, struct val key, struct val v) {
    struct entry *e = find(d, &key);
    r->steps += d->n / 16;
    if (e) {
        e->val = v;
        return 0;
    }
    return v_append(r, d, key, v);
}

const struct val *v_get(const struct dict *d, struct val key) {
    const struct entry *e = find(d, &key);
    return e ? &e->val : NULL;
}

static int from_object(struct rt *r, const json_t *j, int32_t depth, struct val *out) {
    int rc = v_dict(r, out);
    /* why: jansson's iterator takes a mutable object and does not change it */
    json_t *o = (json_t *)(uintptr_t)j;
    const char *key;
    size_t n;
    json_t *m;
    json_object_keylen_foreach(o, key, n, m) {
        struct val k;
        struct val v;
        rc = rc ? rc : v_copy(r, key, (int64_t)n, &k);
        rc = rc ? rc : v_json(r, m, depth + 1, &v);
        rc = rc ? rc : v_append(r, out->u.dict, k, v);
        if (rc) {
            return rc;
        }
    }
    return rc;
}

int v_json(struct rt *r, const json_t *j, int32_t depth, struct val *out) {
    if (depth > CHAT_DEPTH_MAX) {
        return err_set(ERR_LIMIT, "variables nested over %d deep", CHAT_DEPTH_MAX);
    }
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return from_object(r, j, depth, out);
    case JSON_ARRAY: {
        int rc = v_seq(r, SEQ_LIST, (int64_t)json_array_size(j), out);
        for (size_t i = 0; i < json_array_size(j) && !rc; i++) {
            struct val v;
            rc = v_json(r, json_array_get(j, i), depth + 1, &v);
            rc = rc ? rc : v_push(r, out->u.seq, v);
        }
        return rc;
    }
    case JSON_STRING:
        return v_copy(r, json_string_value(j), (int64_t)json_string_length(j), out);
    case JSON_INTEGER:
        *out = v_int((int64_t)json_integer_value(j));
        return 0;
    case JSON_REAL:
        *out = v_float(json_real_value(j));
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = v_bool(json_is_true(j));
        return 0;
    case JSON_NULL:
        break;
    }
    *out = v_none();
    return 0;
}

static const char *seq_type(const struct seq *s) {
    static const char *const names[] = {"list",        "tuple",      "generator", "dict_keys",
                                        "dict_values", "dict_items", "range"};
    return names[s->kind];
}

const char *v_type(const struct val *v) {
    static const char *const names[] = {"missing",     "Undefined",
                                        "NoneType",    "bool",
                                        "int",         "float",
                                        "str",         "sequence",
                                        "dict",        "Namespace",
                                        "LoopContext", "Macro",
                                        "function",    "builtin_function_or_method"};
    return v->type == V_SEQ ? seq_type(v->u.seq) : names[v->type];
}

int v_bad(const struct val *v, const char *what) {
    if (v->type == V_UNDEF) {
        return err_set(ERR_FORMAT, "%.*s", (int)v->u.undef->text.n, v->u.undef->text.p);
    }
    return err_set(ERR_FORMAT, "%s: not with a value of type %s", what, v_type(v));
}

bool v_is_num(const struct val *v) {
    return v->type == V_BOOL || v->type == V_INT || v->type == V_FLOAT;
}

double v_num(const struct val *v) {
    if (v->type == V_BOOL) {
        return v->u.b ? 1 : 0;
    }
    return v->type == V_INT ? (double)v->u.i : v->u.f;
}

bool v_true(const struct val *v) {
    switch (v->type) {
    case V_MISSING:
    case V_UNDEF:
    case V_NONE:
        return false;
    case V_BOOL:
        return v->u.b;
    case V_INT:
        return v->u.i != 0;
    case V_FLOAT:
        return v->u.f < 0 || v->u.f > 0 || isnan(v->u.f);
    case V_STR:
        return v->u.s.n > 0;
    case V_SEQ:
        return v->u.seq->kind == SEQ_GEN || v->u.seq->n > 0;
    case V_DICT:
        return v->u.dict->n > 0;
    case V_NS:
    case V_LOOP:
    case V_MACRO:
    case V_FUNC:
    case V_METHOD:
        break;
    }
    return true;
}

static bool eq(const struct val *a, const struct val *b, int32_t depth);

static bool seq_eq(const struct seq *a, const struct seq *b, int32_t depth) {
    bool same = a == b || (a->kind == b->kind && a->kind != SEQ_GEN && a->n == b->n);
    for (int64_t i = 0; i < a->n && same && a != b; i++) {
        same = eq(&a->v[i], &b->v[i], depth);
    }
    return same;
}

static bool dict_eq(const struct dict *a, const struct dict *b, int32_t depth) {
    bool same = a->n == b->n;
    for (int64_t i = 0; i < a->n && same && a != b; i++) {
        const struct val *v = v_get(b, a->e[i].key);
        same = v && eq(&a->e[i].val, v, depth);
    }
    return same;
}

static bool int_eq(const struct val *a, const struct val *b) {
    if (a->type == V_INT && b->type == V_INT) {
        return a->u.i == b->u.i;
    }
    double x = v_num(a);
    double y = v_num(b);
    return x <= y && x >= y;
}

static bool eq(const struct val *a, const struct val *b, int32_t depth) {
    if (v_is_num(a) && v_is_num(b)) {
        return int_eq(a, b);
    }
    if (a->type != b->type || depth > COMPARE_DEPTH) {
        return false;
    }
    switch (a->type) {
    case V_STR:
        return a->u.s.n == b->u.s.n && memcmp(a->u.s.p, b->u.s.p, (size_t)a->u.s.n) == 0;
    case V_SEQ:
        return seq_eq(a->u.seq, b->u.seq, depth + 1);
    case V_DICT:
        return dict_eq(a->u.dict, b->u.dict, depth + 1);
    case V_NS:
        return a->u.dict == b->u.dict;
    case V_LOOP:
        return a->u.loop == b->u.loop;
    case V_MACRO:
        return a->u.macro == b->u.macro;
    case V_FUNC:
        return a->u.fn == b->u.fn;
    case V_METHOD:
        return a->u.method->fn == b->u.method->fn &&
               eq(&a->u.method->self, &b->u.method->self, depth + 1);
    case V_MISSING:
    case V_UNDEF:
    case V_NONE:
    case V_BOOL:
    case V_INT:
    case V_FLOAT:
        break;
    }
    return true;
}

bool v_eq(const struct val *a, const struct val *b) {
    return eq(a, b, 0);
}

static int32_t str_cmp(struct chat_str a, struct chat_str b) {
    int64_t n = i64_min(a.n, b.n);
    int c = n > 0 ? memcmp(a.p, b.p, (size_t)n) : 0;
    return c != 0 ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}

static int cmp(const struct val *a, const struct val *b, int32_t depth, int32_t *out) {
    if (a->type == V_INT && b->type == V_INT) {
        *out = (a->u.i > b->u.i) - (a->u.i < b->u.i);
        return 0;
    }
    if (v_is_num(a) && v_is_num(b)) {
        double x = v_num(a);
        double y = v_num(b);
        *out = (x > y) - (x < y);
        return 0;
    }
    if (a->type == V_STR && b->type == V_STR) {
        *out = str_cmp(a->u.s, b->u.s);
        return 0;
    }
    bool lists = a->type == V_SEQ && b->type == V_SEQ && a->u.seq->kind == b->u.seq->kind &&
                 a->u.seq->kind <= SEQ_TUPLE && depth < COMPARE_DEPTH;
    if (!lists) {
        const struct val *bad = b->type == V_UNDEF ? b : a;
        return bad->type == V_UNDEF
                   ? v_bad(bad, "comparison")
                   : err_set(ERR_FORMAT, "types %s and %s have no order", v_type(a), v_type(b));
    }
    const struct seq *x = a->u.seq;
    const struct seq *y = b->u.seq;
    for (int64_t i = 0; i < i64_min(x->n, y->n); i++) {
        if (!eq(&x->v[i], &y->v[i], depth + 1)) {
            return cmp(&x->v[i], &y->v[i], depth + 1, out);
        }
    }
    *out = (x->n > y->n) - (x->n < y->n);
    return 0;
}

int v_cmp(struct rt *r, const struct val *a, const struct val *b, int32_t *out) {
    r->steps++;
    return cmp(a, b, 0, out);
}

bool v_iterable(const struct val *v) {
    return v->type == V_UNDEF || v->type == V_STR || v->type == V_SEQ || v->type == V_DICT ||
           v->type == V_LOOP;
}

static int characters(struct rt *r, struct chat_str s, struct seq *out) {
    for (int64_t i = 0; i < s.n;) {
        uint32_t cp;
        int32_t k = utf8_get((const uint8_t *)s.p + i, &cp);
        int rc = v_push(r, out, v_str(s.p + i, k));
        if (rc) {
            return rc;
        }
        i += k;
    }
    return 0;
}

int v_items(struct rt *r, const struct val *v, struct seq **out) {
    struct val list;
    if (v->type == V_SEQ && v->u.seq->kind != SEQ_GEN) {
        *out = v->u.seq;
        return 0;
    }
    int rc = v_seq(r, SEQ_LIST, 0, &list);
    if (rc) {
        return rc;
    }
    *out = list.u.seq;
    if (v->type == V_SEQ) { /* why: a generator gives its items once */
        **out = *v->u.seq;
        (*out)->kind = SEQ_LIST;
        v->u.seq->n = 0;
        return 0;
    }
    if (v->type == V_STR) {
        return characters(r, v->u.s, *out);
    }
    if (v->type == V_UNDEF) {
        return 0;
    }
    if (v->type != V_DICT) {
        return v_bad(v, "iteration");
    }
    for (int64_t i = 0; i < v->u.dict->n && !rc; i++) {
        rc = v_push(r, *out, v->u.dict->e[i].key);
    }
    return rc;
}

int v_len(struct rt *r, const struct val *v, int64_t *out) {
    (void)r;
    if (v->type == V_STR) {
        *out = utf8_count((const uint8_t *)v->u.s.p, v->u.s.n);
    } else if (v->type == V_SEQ && v->u.seq->kind != SEQ_GEN) {
        *out = v->u.seq->n;
    } else if (v->type == V_DICT) {
        *out = v->u.dict->n;
    } else if (v->type == V_UNDEF) {
        *out = 0;
    } else if (v->type == V_LOOP) {
        *out = v->u.loop->items->n;
    } else {
        return v_bad(v, "length");
    }
    return 0;
}

int v_contains(struct rt *r, const struct val *item, const struct val *in, bool *out) {
    *out = false;
    if (in->type == V_STR) {
        if (item->type != V_STR) {
            return v_bad(item, "\"in\" a string");
        }
        *out = item->u.s.n == 0 || (in->u.s.n > 0 && memmem(in->u.s.p, (size_t)in->u.s.n,
                                                            item->u.s.p, (size_t)item->u.s.n));
        return 0;
    }
    if (in->type == V_DICT) {
        if (item->type == V_DICT || (item->type == V_SEQ && item->u.seq->kind == SEQ_LIST)) {
            return v_bad(item, "\"in\" a dict");
        }
        *out = v_get(in->u.dict, *item) != NULL;
        return 0;
    }
    struct seq *s;
    int rc = v_items(r, in, &s);
    for (int64_t i = 0; !rc && i < s->n && !*out; i++) {
        *out = v_eq(&s->v[i], item);
        r->steps++;
    }
    return rc;
}

int v_need_str(struct rt *r, const struct val *v, const char *what, struct chat_str *out) {
    (void)r;
    if (v->type != V_STR) {
        return v_bad(v, what);
    }
    *out = v->u.s;
    return 0;
}

int v_need_int(struct rt *r, const struct val *v, const char *what, int64_t *out) {
    (void)r;
    if (v->type != V_INT && v->type != V_BOOL) {
        return v_bad(v, what);
    }
    *out = v->type == V_INT ? v->u.i : v->u.b;
    return 0;
}
