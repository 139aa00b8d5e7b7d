/* Expressions at work.
 *
 * Each node counts one step; depth is bounded; the line of the node is kept for errors. Attribute
 * access follows the sandbox: a.b is the attribute b of Python's object, then its member b; a["b"]
 * is the member, then the attribute; what exists in neither is undefined. Names with a leading
 * underscore and methods that change their object are undefined and fail when called.
 * src: jinja2 3.1, environment.py, sandbox.py, runtime.py */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { EVAL_DEPTH_MAX = 800 };

int eval_step(struct rt *r, const struct node *n) {
    if (n) {
        r->line = n->line;
    }
    if (++r->steps > CHAT_STEPS_MAX) {
        return err_set(ERR_LIMIT, "a rendering of more than %d steps", CHAT_STEPS_MAX);
    }
    return 0;
}

/* Attributes that every loop has. out: false when name is none of them */
static bool
loop_attr(struct rt *r, const struct loop *l, struct chat_str name, struct val *out, int *rc) {
    int64_t n = l->items->n;
    const struct {
        const char *name;
        struct val v;
    } attrs[] = {
        {"index", v_int(l->at + 1)},    {"index0", v_int(l->at)},
        {"revindex", v_int(n - l->at)}, {"revindex0", v_int(n - l->at - 1)},
        {"first", v_bool(l->at == 0)},  {"last", v_bool(l->at == n - 1)},
        {"length", v_int(n)},           {"depth", v_int(l->depth0 + 1)},
        {"depth0", v_int(l->depth0)},
    };
    for (int32_t i = 0; i < ARRAY_LEN(attrs); i++) {
        if (str_is(name, attrs[i].name)) {
            *out = attrs[i].v;
            return true;
        }
    }
    bool next = str_is(name, "nextitem");
    if (!next && !str_is(name, "previtem")) {
        return false;
    }
    int64_t i = l->at + (next ? 1 : -1);
    if (i >= 0 && i < n) {
        *out = l->items->v[i];
    } else {
        *rc = v_undef(r, out, "there is no %s item", next ? "next" : "previous");
    }
    return true;
}

/* Python's attribute of a value. out: false when it has none of that name */
static bool
python_attr(struct rt *r, const struct val *o, struct chat_str name, struct val *out, int *rc) {
    if (o->type == V_NS) {
        const struct val *v = v_get(o->u.dict, v_str(name.p, name.n));
        *out = v ? *v : *out;
        return v != NULL;
    }
    if (o->type == V_LOOP && loop_attr(r, o->u.loop, name, out, rc)) {
        return true;
    }
    if (o->type == V_MACRO && str_is(name, "name")) {
        *out = v_str(o->u.macro->node->val.u.s.p, o->u.macro->node->val.u.s.n);
        return true;
    }
    if (call_forbidden(o, name) || (name.n > 0 && name.p[0] == '_')) {
        *rc = v_undef(r, out, "access to attribute '%.*s' of '%s' object is unsafe", (int)name.n,
                      name.p, v_type(o));
        return true;
    }
    const struct chat_fn *fn = call_method(o, name);
    if (!fn) {
        return false;
    }
    struct method *m = arena_get(&r->arena, sizeof *m);
    if (!m) {
        *rc = arena_rc(&r->arena);
        return true;
    }
    *m = (struct method){.self = *o, .fn = fn};
    *out = (struct val){.type = V_METHOD, .u.method = m};
    return true;
}

static int missing(struct rt *r, const struct val *o, struct chat_str name, struct val *out) {
    return v_undef(r, out, "'%s%s' has no attribute '%.*s'", v_type(o),
                   o->type == V_NONE ? "" : " object", (int)i64_min(name.n, 80), name.p);
}

int eval_getattr(struct rt *r, const struct val *o, struct chat_str name, struct val *out) {
    int rc = 0;
    if (o->type == V_UNDEF) {
        return v_bad(o, "attribute");
    }
    if (python_attr(r, o, name, out, &rc)) {
        return rc;
    }
    const struct val *v = o->type == V_DICT ? v_get(o->u.dict, v_str(name.p, name.n)) : NULL;
    if (v) {
        *out = *v;
        return 0;
    }
    return missing(r, o, name, out);
}

/* Element i of a string or sequence. out: false when out of range */
static bool element(const struct val *o, int64_t i, struct val *out) {
    if (o->type == V_SEQ) {
        i += i < 0 ? o->u.seq->n : 0;
        bool in = i >= 0 && i < o->u.seq->n;
        *out = in ? o->u.seq->v[i] : *out;
        return in;
    }
    struct chat_str s = o->u.s;
    i += i < 0 ? utf8_count((const uint8_t *)s.p, s.n) : 0;
    int64_t b = 0;
    for (; i >= 0 && b < s.n; i--) {
        uint32_t cp;
        int32_t k = utf8_get((const uint8_t *)s.p + b, &cp);
        if (i == 0) {
            *out = v_str(s.p + b, k);
            return true;
        }
        b += k;
    }
    return false;
}

static bool indexable(const struct val *o) {
    return o->type == V_STR ||
           (o->type == V_SEQ && (o->u.seq->kind <= SEQ_TUPLE || o->u.seq->kind == SEQ_RANGE));
}

int eval_getitem(struct rt *r, const struct val *o, const struct val *key, struct val *out) {
    int rc = 0;
    if (o->type == V_UNDEF) {
        return v_bad(o, "subscript");
    }
    if (o->type == V_DICT) {
        const struct val *v = v_get(o->u.dict, *key);
        if (v) {
            *out = *v;
            return 0;
        }
    }
    if (indexable(o) && (key->type == V_INT || key->type == V_BOOL)) {
        int64_t i = 0;
        rc = v_need_int(r, key, "index", &i);
        if (rc || element(o, i, out)) {
            return rc;
        }
    }
    if (key->type == V_STR) {
        if (o->type != V_NS && python_attr(r, o, key->u.s, out, &rc)) {
            return rc;
        }
        return missing(r, o, key->u.s, out);
    }
    return v_undef(r, out, "'%s object' has no such element", v_type(o));
}

static int slice_bound(struct rt *r, const struct node *n, bool *given, int64_t *out) {
    struct val v;
    *given = false;
    if (!n) {
        return 0;
    }
    int rc = chat_eval(r, n, &v);
    if (rc || v.type == V_NONE) {
        return rc;
    }
    *given = true;
    return v_need_int(r, &v, "slice", out);
}

static int64_t clamp(int64_t i, int64_t n, int64_t lo, int64_t hi) {
    i = i < 0 ? (i < -n ? lo : i + n) : i;
    return i < lo ? lo : i > hi ? hi : i;
}

static int slice(struct rt *r, const struct val *o, const struct node *n, struct val *out) {
    int64_t start = 0;
    int64_t stop = 0;
    int64_t step = 1;
    int64_t len = 0;
    bool has_start;
    bool has_stop;
    bool has_step;
    int rc = slice_bound(r, n->a, &has_start, &start);
    rc = rc ? rc : slice_bound(r, n->b, &has_stop, &stop);
    rc = rc ? rc : slice_bound(r, n->c, &has_step, &step);
    if (rc) {
        return rc;
    }
    if (step == 0) {
        return err_set(ERR_FORMAT, "slice step is zero");
    }
    if (!indexable(o)) {
        return v_bad(o, "slice");
    }
    rc = v_len(r, o, &len);
    int64_t lo = step > 0 ? 0 : -1;
    int64_t hi = step > 0 ? len : len - 1;
    step = i64_max(-len - 1, i64_min(step, len + 1));
    start = has_start ? clamp(start, len, lo, hi) : step > 0 ? lo : hi;
    stop = has_stop ? clamp(stop, len, lo, hi) : step > 0 ? hi : lo;
    if (rc || o->type == V_STR) {
        return rc ? rc : str_slice(r, o->u.s, start, stop, step, out);
    }
    rc = v_seq(r, o->u.seq->kind == SEQ_TUPLE ? SEQ_TUPLE : SEQ_LIST, 0, out);
    for (int64_t i = start; !rc && (step > 0 ? i < stop : i > stop); i += step) {
        rc = v_push(r, out->u.seq, o->u.seq->v[i]);
    }
    return rc;
}

static int
compare_one(struct rt *r, enum op op, const struct val *a, const struct val *b, bool *out) {
    int32_t c = 0;
    int rc = 0;
    if (op == OP_EQ || op == OP_NE) {
        *out = v_eq(a, b) == (op == OP_EQ);
        return 0;
    }
    if (op == OP_IN || op == OP_NOTIN) {
        rc = v_contains(r, a, b, out);
        *out = *out == (op == OP_IN);
        return rc;
    }
    rc = v_cmp(r, a, b, &c);
    *out = op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
    return rc;
}

static int compare(struct rt *r, const struct node *n, struct val *out) {
    struct val left;
    int rc = chat_eval(r, n->a, &left);
    bool is = true;
    for (const struct node *o = n->b; o && !rc && is; o = o->next) {
        struct val right;
        rc = chat_eval(r, o->a, &right);
        rc = rc ? rc : compare_one(r, (enum op)o->op, &left, &right, &is);
        left = right;
    }
    *out = v_bool(is);
    return rc;
}

static int concat(struct rt *r, const struct node *n, struct val *out) {
    struct val a;
    struct val b;
    int rc = chat_eval(r, n->a, &a);
    rc = rc ? rc : chat_eval(r, n->b, &b);
    rc = rc ? rc : text_val(r, &a, &a);
    rc = rc ? rc : text_val(r, &b, &b);
    return rc ? rc : str_join(r, a.u.s, b.u.s, out);
}

static int sequence(struct rt *r, const struct node *n, struct val *out) {
    int rc = v_seq(r, n->kind == N_TUPLE ? SEQ_TUPLE : SEQ_LIST, 0, out);
    for (const struct node *m = n->a; m && !rc; m = m->next) {
        struct val v;
        rc = chat_eval(r, m, &v);
        rc = rc ? rc : v_push(r, out->u.seq, v);
    }
    return rc;
}

static int dictionary(struct rt *r, const struct node *n, struct val *out) {
    int rc = v_dict(r, out);
    for (const struct node *m = n->a; m && !rc; m = m->next) {
        struct val k;
        struct val v;
        rc = chat_eval(r, m->a, &k);
        rc = rc ? rc : chat_eval(r, m->b, &v);
        if (!rc && k.type != V_STR && !v_is_num(&k) && k.type != V_NONE && k.type != V_SEQ) {
            rc = v_bad(&k, "a key of a dict");
        }
        rc = rc ? rc : v_put(r, out->u.dict, k, v);
    }
    return rc;
}

static int add_kw(struct rt *r, struct args *a, int32_t cap, struct chat_str name, struct val v) {
    for (int32_t i = 0; i < a->n_kw; i++) {
        if (a->kw[i].name.n == name.n && memcmp(a->kw[i].name.p, name.p, (size_t)name.n) == 0) {
            return err_set(ERR_FORMAT, "argument \"%.*s\" twice", (int)name.n, name.p);
        }
    }
    (void)r;
    if (a->n_kw == cap) {
        return err_set(ERR_LIMIT, "more than %d named arguments", cap);
    }
    a->kw[a->n_kw++] = (struct kwarg){.name = name, .val = v};
    return 0;
}

enum { KW_MAX = 64, STAR_MAX = 4096 };

static int add_arg(struct rt *r, const struct node *m, struct seq *pos, struct args *out) {
    struct val v;
    struct seq *items;
    int rc = chat_eval(r, m->a, &v);
    if (rc) {
        return rc;
    }
    switch ((enum arg_kind)m->op) {
    case ARG_POS:
        return v_push(r, pos, v);
    case ARG_KEY:
        return add_kw(r, out, KW_MAX, m->val.u.s, v);
    case ARG_STAR:
        rc = v_items(r, &v, &items);
        for (int64_t i = 0; !rc && i < items->n; i++) {
            rc = i < STAR_MAX ? v_push(r, pos, items->v[i])
                              : err_set(ERR_LIMIT, "more than %d arguments", STAR_MAX);
        }
        return rc;
    case ARG_STAR2:
        break;
    }
    if (v.type != V_DICT) {
        return v_bad(&v, "** in a call");
    }
    for (int64_t i = 0; i < v.u.dict->n && !rc; i++) {
        struct chat_str name;
        rc = v_need_str(r, &v.u.dict->e[i].key, "** in a call", &name);
        rc = rc ? rc : add_kw(r, out, KW_MAX, name, v.u.dict->e[i].val);
    }
    return rc;
}

int eval_args(struct rt *r, const struct node *list, struct args *out) {
    struct val pos;
    *out = (struct args){0};
    if (!list) {
        return 0;
    }
    bool named = false;
    for (const struct node *m = list; m; m = m->next) {
        named = named || m->op == ARG_KEY || m->op == ARG_STAR2;
    }
    int rc = v_seq(r, SEQ_LIST, 4, &pos);
    if (!rc && named) {
        out->kw = arena_get(&r->arena, KW_MAX * (int64_t)sizeof *out->kw);
        rc = out->kw ? 0 : arena_rc(&r->arena);
    }
    for (const struct node *m = list; m && !rc; m = m->next) {
        rc = add_arg(r, m, pos.u.seq, out);
    }
    out->v = rc ? NULL : pos.u.seq->v;
    out->n = rc ? 0 : (int32_t)pos.u.seq->n;
    return rc;
}

static int call(struct rt *r, const struct node *n, struct val *out) {
    struct val f;
    struct args a;
    int rc = chat_eval(r, n->a, &f);
    rc = rc ? rc : eval_args(r, n->b, &a);
    r->line = n->line;
    return rc ? rc : call_value(r, &f, &a, out);
}

/* A filter or test. in: its input when the chain of a block begins here (n->a NULL) */
static int apply(struct rt *r, const struct node *n, const struct val *block, struct val *out) {
    struct val in;
    struct args a;
    int rc = 0;
    if (n->a && block) {
        rc = apply(r, n->a, block, &in);
    } else if (n->a) {
        rc = chat_eval(r, n->a, &in);
    } else {
        in = *block;
    }
    rc = rc ? rc : eval_args(r, n->b, &a);
    if (!rc && !n->fn) {
        rc = err_set(ERR_FORMAT, "no %s named \"%.*s\"", n->kind == N_FILTER ? "filter" : "test",
                     (int)n->val.u.s.n, n->val.u.s.p);
    }
    return rc ? rc : call_fn(r, n->fn, &in, &a, out);
}

int eval_filters(struct rt *r, const struct node *n, const struct val *in, struct val *out) {
    *out = *in;
    return n ? apply(r, n, in, out) : 0;
}

static int sign(struct rt *r, const struct node *n, struct val *out) {
    struct val v;
    struct val zero = v_int(0);
    int rc = chat_eval(r, n->a, &v);
    if (!rc && n->kind == N_NEG && v.type == V_FLOAT) {
        *out = v_float(-v.u.f);
        return 0;
    }
    return rc ? rc : eval_binary(r, n->kind == N_NEG ? OP_SUB : OP_ADD, &zero, &v, out);
}

static int binary(struct rt *r, const struct node *n, struct val *out) {
    struct val a;
    struct val b;
    int rc = chat_eval(r, n->a, &a);
    rc = rc ? rc : chat_eval(r, n->b, &b);
    r->line = n->line;
    return rc ? rc : eval_binary(r, (enum op)n->op, &a, &b, out);
}

/* and, or, inline if: only what is needed is evaluated. */
static int choice(struct rt *r, const struct node *n, struct val *out) {
    int rc = chat_eval(r, n->a, out);
    if (rc) {
        return rc;
    }
    bool yes = v_true(out);
    if (n->kind == N_AND || n->kind == N_OR) {
        return yes == (n->kind == N_AND) ? chat_eval(r, n->b, out) : 0;
    }
    const struct node *then = yes ? n->b : n->c;
    return then ? chat_eval(r, then, out)
                : v_undef(r, out, "the inline if-expression was false and had no else");
}

static int item(struct rt *r, const struct node *n, struct val *out) {
    struct val o;
    struct val key;
    int rc = chat_eval(r, n->a, &o);
    if (rc) {
        return rc;
    }
    if (n->kind == N_GETATTR) {
        return eval_getattr(r, &o, n->val.u.s, out);
    }
    if (n->b->kind == N_SLICE) {
        return slice(r, &o, n->b, out);
    }
    rc = chat_eval(r, n->b, &key);
    return rc ? rc : eval_getitem(r, &o, &key, out);
}

static int name(struct rt *r, const struct node *n, struct val *out) {
    struct chat_str s = r->c->sym[n->sym];
    if (exec_lookup(r, n->sym, out)) {
        return 0;
    }
    const struct chat_fn *fn = call_global(s);
    if (fn) {
        *out = (struct val){.type = V_FUNC, .u.fn = fn};
        return 0;
    }
    return v_undef(r, out, "'%.*s' is undefined", (int)i64_min(s.n, 80), s.p);
}

static int eval(struct rt *r, const struct node *n, struct val *out) {
    int rc;
    switch (n->kind) {
    case N_CONST:
        *out = n->val;
        return 0;
    case N_NAME:
        return name(r, n, out);
    case N_GETATTR:
    case N_GETITEM:
        return item(r, n, out);
    case N_CALL:
        return call(r, n, out);
    case N_FILTER:
    case N_TEST:
        return apply(r, n, NULL, out);
    case N_NOT:
        rc = chat_eval(r, n->a, out);
        *out = v_bool(!rc && !v_true(out));
        return rc;
    case N_NEG:
    case N_POS:
        return sign(r, n, out);
    case N_BIN:
        return binary(r, n, out);
    case N_AND:
    case N_OR:
    case N_COND:
        return choice(r, n, out);
    case N_CONCAT:
        return concat(r, n, out);
    case N_COMPARE:
        return compare(r, n, out);
    case N_LIST:
    case N_TUPLE:
        return sequence(r, n, out);
    case N_DICT:
        return dictionary(r, n, out);
    case N_DATA:
    case N_OUTPUT:
    case N_IF:
    case N_FOR:
    case N_SET:
    case N_SETBLOCK:
    case N_MACRO:
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
    case N_WITH:
    case N_SCOPE:
    case N_BREAK:
    case N_CONTINUE:
    case N_PARAM:
    case N_NSREF:
    case N_SLICE:
    case N_ARG:
    case N_OPERAND:
    case N_PAIR:
        break;
    }
    return err_set(ERR_INTERNAL, "node %d is no expression", (int)n->kind);
}

int chat_eval(struct rt *r, const struct node *n, struct val *out) {
    struct val v = {.type = V_NONE};
    int rc = eval_step(r, n);
    if (!rc && r->depth >= EVAL_DEPTH_MAX) {
        rc = err_set(ERR_LIMIT, "calls nested over %d deep", EVAL_DEPTH_MAX);
    }
    if (rc) {
        return rc;
    }
    r->depth++;
    rc = eval(r, n, &v);
    r->depth--;
    *out = v;
    return rc;
}
