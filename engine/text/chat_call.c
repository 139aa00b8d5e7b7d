/* Calls: binding of arguments, global functions, methods of lists and dicts.
 *
 * A function of the table says its parameters by name; binding puts positional and named arguments
 * into an array in that order, V_MISSING where none was given. Methods that change their object are
 * known only to be forbidden.
 * src: jinja2 3.1, sandbox.py _mutable_spec, defaults.py; transformers, chat_template_utils.py */
#include <string.h>
#include <time.h>

#include "engine/text/chat_int.h"

const struct chat_fn *fn_find(const struct chat_fn *list, int32_t n, struct chat_str name) {
    for (int32_t i = 0; i < n; i++) {
        if (str_is(name, list[i].name)) {
            return &list[i];
        }
    }
    return NULL;
}

/* Index of a parameter by its name in "a b c"; -1. */
static int32_t param_index(const char *params, struct chat_str name) {
    int32_t i = 0;
    for (const char *p = params; *p; i++) {
        size_t n = strcspn(p, " ");
        if ((size_t)name.n == n && memcmp(p, name.p, n) == 0) {
            return i;
        }
        p += n + (p[n] == ' ');
    }
    return -1;
}

static int32_t param_count(const char *params) {
    int32_t n = params[0] != '\0';
    for (const char *p = params; *p; p++) {
        n += *p == ' ';
    }
    return n;
}

static int bind(const struct chat_fn *fn, const struct args *a, struct val *v) {
    int32_t n = param_count(fn->params);
    if (a->n > n) {
        return err_set(ERR_FORMAT, "%s takes at most %d arguments, found %d", fn->name, n, a->n);
    }
    for (int32_t i = 0; i < FN_ARGS_MAX; i++) {
        v[i] = (struct val){.type = V_MISSING};
        if (i < a->n) {
            v[i] = a->v[i];
        }
    }
    for (int32_t i = 0; i < a->n_kw; i++) {
        struct chat_str name = a->kw[i].name;
        int32_t k = param_index(fn->params, name);
        if (k < 0 || v[k].type != V_MISSING) {
            return err_set(ERR_FORMAT, "%s: argument \"%.*s\" is %s", fn->name, (int)name.n, name.p,
                           k < 0 ? "unknown" : "given twice");
        }
        v[k] = a->kw[i].val;
    }
    for (int32_t i = 0; i < fn->n_need; i++) {
        if (v[i].type == V_MISSING) {
            return err_set(ERR_FORMAT, "%s: argument %d of (%s) is missing", fn->name, i + 1,
                           fn->params);
        }
    }
    return 0;
}

int call_fn(struct rt *r,
            const struct chat_fn *fn,
            const struct val *self,
            const struct args *a,
            struct val *out) {
    struct val bound[FN_ARGS_MAX];
    struct val v = {.type = V_NONE};
    int rc = fn->raw ? fn->raw(r, self, a, &v) : bind(fn, a, bound);
    if (!rc && !fn->raw) {
        rc = fn->bound(r, self, bound, &v);
    }
    *out = v;
    return rc;
}

static int call_loop(struct rt *r, const struct loop *l, const struct args *a, struct val *out) {
    if (!l->node || a->n != 1 || a->n_kw > 0) {
        return err_set(ERR_FORMAT, "a loop is called with one iterable, and must be recursive");
    }
    return exec_loop(r, l, &a->v[0], out);
}

int call_value(struct rt *r, const struct val *f, const struct args *a, struct val *out) {
    struct val none = v_none();
    switch (f->type) {
    case V_FUNC:
        return call_fn(r, f->u.fn, &none, a, out);
    case V_METHOD:
        return call_fn(r, f->u.method->fn, &f->u.method->self, a, out);
    case V_MACRO:
        return exec_macro(r, f->u.macro, a, out);
    case V_LOOP:
        return call_loop(r, f->u.loop, a, out);
    case V_MISSING:
    case V_UNDEF:
    case V_NONE:
    case V_BOOL:
    case V_INT:
    case V_FLOAT:
    case V_STR:
    case V_SEQ:
    case V_DICT:
    case V_NS:
        break;
    }
    return v_bad(f, "call");
}

/* Global functions. */
static int g_raise(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct val text;
    (void)self;
    (void)out;
    int rc = text_val(r, &a[0], &text);
    return rc ? rc : err_set(ERR_FORMAT, "%.*s", (int)i64_min(text.u.s.n, 1000), text.u.s.p);
}

static int g_strftime(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    char fmt[256];
    char text[512];
    struct chat_str s;
    struct tm tm;
    time_t t = (time_t)r->now_s;
    (void)self;
    int rc = v_need_str(r, &a[0], "strftime_now", &s);
    if (rc) {
        return rc;
    }
    if (s.n >= (int64_t)sizeof fmt || !gmtime_r(&t, &tm)) {
        return err_set(ERR_LIMIT, "strftime_now: a format of %lld bytes", (long long)s.n);
    }
    memcpy(fmt, s.p, (size_t)s.n);
    fmt[s.n] = '\0';
    /* why: the format is the template's by design; its output is bounded by text */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, fmt, &tm);
#pragma GCC diagnostic pop
    return v_copy(r, text, (int64_t)n, out);
}

static int g_range(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t v[3] = {0, 0, 1};
    int32_t n = 0;
    int rc = 0;
    (void)self;
    for (; n < 3 && a[n].type != V_MISSING && !rc; n++) {
        rc = v_need_int(r, &a[n], "range", &v[n]);
    }
    if (n == 1) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (!rc && v[2] == 0) {
        rc = err_set(ERR_FORMAT, "range: step is zero");
    }
    rc = rc ? rc : v_seq(r, SEQ_RANGE, 0, out);
    int64_t i = v[0];
    for (int64_t k = 0; !rc && (v[2] > 0 ? i < v[1] : i > v[1]); k++) {
        rc = k < CHAT_RANGE_MAX ? v_push(r, out->u.seq, v_int(i))
                                : err_set(ERR_LIMIT, "range of more than %d", CHAT_RANGE_MAX);
        if (__builtin_add_overflow(i, v[2], &i)) {
            break;
        }
    }
    if (!rc) {
        out->u.seq->start = v[0];
        out->u.seq->stop = v[1];
        out->u.seq->step = v[2];
    }
    return rc;
}

/* Members of a dict, or of pairs, then the named arguments. */
static int fill_dict(struct rt *r, const struct args *a, struct dict *d) {
    int rc = a->n <= 1 ? 0 : err_set(ERR_FORMAT, "dict takes at most one argument");
    if (!rc && a->n == 1 && a->v[0].type == V_DICT) {
        const struct dict *from = a->v[0].u.dict;
        for (int64_t i = 0; i < from->n && !rc; i++) {
            rc = v_put(r, d, from->e[i].key, from->e[i].val);
        }
    } else if (!rc && a->n == 1) {
        struct seq *items;
        rc = v_items(r, &a->v[0], &items);
        for (int64_t i = 0; !rc && i < items->n; i++) {
            struct seq *pair;
            rc = v_items(r, &items->v[i], &pair);
            if (!rc && pair->n != 2) {
                rc = err_set(ERR_FORMAT, "dict: element %lld is no pair", (long long)i);
            }
            rc = rc ? rc : v_put(r, d, pair->v[0], pair->v[1]);
        }
    }
    for (int32_t i = 0; i < a->n_kw && !rc; i++) {
        rc = v_put(r, d, v_str(a->kw[i].name.p, a->kw[i].name.n), a->kw[i].val);
    }
    return rc;
}

static int g_dict(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    (void)self;
    int rc = v_dict(r, out);
    return rc ? rc : fill_dict(r, a, out->u.dict);
}

static int
g_namespace(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    int rc = g_dict(r, self, a, out);
    out->type = V_NS;
    return rc;
}

const struct chat_fn *call_global(struct chat_str name) {
    static const struct chat_fn globals[] = {
        {"dict", "", 0, NULL, g_dict},
        {"namespace", "", 0, NULL, g_namespace},
        {"raise_exception", "message", 1, g_raise, NULL},
        {"range", "start stop step", 1, g_range, NULL},
        {"strftime_now", "format", 1, g_strftime, NULL},
    };
    return fn_find(globals, ARRAY_LEN(globals), name);
}

/* Methods of dicts. */
static int view(struct rt *r, const struct val *self, enum seq_kind kind, struct val *out) {
    const struct dict *d = self->u.dict;
    int rc = v_seq(r, kind, d->n, out);
    for (int64_t i = 0; i < d->n && !rc; i++) {
        struct val v = kind == SEQ_KEYS ? d->e[i].key : d->e[i].val;
        if (kind == SEQ_ITEMS) {
            rc = v_seq(r, SEQ_TUPLE, 2, &v);
            rc = rc ? rc : v_push(r, v.u.seq, d->e[i].key);
            rc = rc ? rc : v_push(r, v.u.seq, d->e[i].val);
        }
        rc = rc ? rc : v_push(r, out->u.seq, v);
    }
    return rc;
}

static int d_items(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return view(r, self, SEQ_ITEMS, out);
}

static int d_keys(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return view(r, self, SEQ_KEYS, out);
}

static int d_values(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return view(r, self, SEQ_VALUES, out);
}

static int d_get(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)r;
    const struct val *v = v_get(self->u.dict, a[0]);
    *out = v ? *v : a[1].type == V_MISSING ? v_none() : a[1];
    return 0;
}

static int m_copy(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)r;
    (void)a;
    *out = *self; /* why: nothing can change either of them */
    return 0;
}

/* Methods of sequences. */
static int s_index(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    const struct seq *s = self->u.seq;
    for (int64_t i = 0; i < s->n; i++) {
        r->steps++;
        if (v_eq(&s->v[i], &a[0])) {
            *out = v_int(i);
            return 0;
        }
    }
    return err_set(ERR_FORMAT, "index: the value is not in the list");
}

static int s_count(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t n = 0;
    for (int64_t i = 0; i < self->u.seq->n; i++) {
        r->steps++;
        n += v_eq(&self->u.seq->v[i], &a[0]);
    }
    *out = v_int(n);
    return 0;
}

/* Methods of loops. */
static int l_cycle(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    (void)r;
    if (a->n == 0) {
        return err_set(ERR_FORMAT, "cycle: no items given");
    }
    *out = a->v[self->u.loop->at % a->n];
    return 0;
}

static int l_changed(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    struct loop *l = self->u.loop;
    struct val now;
    int rc = v_seq(r, SEQ_TUPLE, a->n, &now);
    for (int32_t i = 0; i < a->n && !rc; i++) {
        rc = v_push(r, now.u.seq, a->v[i]);
    }
    *out = v_bool(!rc && (l->changed.type == V_MISSING || !v_eq(&l->changed, &now)));
    l->changed = now;
    return rc;
}

const struct chat_fn *call_method(const struct val *self, struct chat_str name) {
    static const struct chat_fn dict[] = {
        {"copy", "", 0, m_copy, NULL},     {"get", "key default", 1, d_get, NULL},
        {"items", "", 0, d_items, NULL},   {"keys", "", 0, d_keys, NULL},
        {"values", "", 0, d_values, NULL},
    };
    static const struct chat_fn seq[] = {
        {"copy", "", 0, m_copy, NULL},
        {"count", "value", 1, s_count, NULL},
        {"index", "value", 1, s_index, NULL},
    };
    static const struct chat_fn loop[] = {
        {"changed", "", 0, NULL, l_changed},
        {"cycle", "", 0, NULL, l_cycle},
    };
    if (self->type == V_STR) {
        return str_method(name);
    }
    if (self->type == V_DICT) {
        return fn_find(dict, ARRAY_LEN(dict), name);
    }
    if (self->type == V_LOOP) {
        return fn_find(loop, ARRAY_LEN(loop), name);
    }
    bool list = self->type == V_SEQ && self->u.seq->kind <= SEQ_TUPLE;
    return list ? fn_find(seq, ARRAY_LEN(seq), name) : NULL;
}

bool call_forbidden(const struct val *self, struct chat_str name) {
    static const char *const list[] = {"append", "clear", "pop",    "reverse",
                                       "insert", "sort",  "extend", "remove"};
    static const char *const dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    bool is_list = self->type == V_SEQ && self->u.seq->kind == SEQ_LIST;
    bool bad = false;
    for (int32_t i = 0; i < ARRAY_LEN(list) && is_list; i++) {
        bad = bad || str_is(name, list[i]);
    }
    for (int32_t i = 0; i < ARRAY_LEN(dict) && self->type == V_DICT; i++) {
        bad = bad || str_is(name, dict[i]);
    }
    return bad;
}
