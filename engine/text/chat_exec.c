/* Statements at work, and a rendering from start to end.
 *
 * Scopes: a for loop has one of its own for each round, so have macros, with, call, filter and set
 * blocks; an if has none. A name is looked for from the inside out, then among the variables, then
 * among the global functions. A macro sees the scope where it was defined.
 *
 *     vars <- top level <- for <- for            ^ scope of a macro's body
 *                  ^------ macro's definition ---|
 *
 * src: jinja2 3.1, compiler.py, idtracking.py, runtime.py (LoopContext, Macro) */
#include <string.h>

#include "engine/text/chat_int.h"

enum { EXEC_DEPTH_MAX = 800 };

static struct scope *new_scope(struct rt *r, struct scope *up) {
    struct scope *s = arena_get(&r->arena, sizeof *s);
    if (s) {
        s->up = up;
    }
    return s;
}

int exec_set(struct rt *r, int32_t sym, struct val v) {
    struct scope *s = r->scope;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->v[i].sym == sym) {
            s->v[i].val = v;
            return 0;
        }
    }
    if (s->n == s->cap) {
        int32_t cap = s->cap ? s->cap * 2 : 4;
        struct var *p = arena_get(&r->arena, cap * (int64_t)sizeof *p);
        if (!p) {
            return arena_rc(&r->arena);
        }
        if (s->n > 0) {
            memcpy(p, s->v, (size_t)s->n * sizeof *p);
        }
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = (struct var){.sym = sym, .val = v};
    return 0;
}

bool exec_lookup(struct rt *r, int32_t sym, struct val *out) {
    for (const struct scope *s = r->scope; s; s = s->up) {
        for (int32_t i = 0; i < s->n; i++) {
            if (s->v[i].sym == sym) {
                *out = s->v[i].val;
                return true;
            }
        }
    }
    struct chat_str name = r->c->sym[sym];
    const struct val *v = v_get(r->vars, v_str(name.p, name.n));
    *out = v ? *v : *out;
    return v != NULL;
}

static int set_named(struct rt *r, const char *name, struct val v) {
    for (int32_t i = 0; i < r->c->n_sym; i++) {
        if (str_is(r->c->sym[i], name)) {
            return exec_set(r, i, v);
        }
    }
    return 0; /* a name that the template never says */
}

static int assign(struct rt *r, const struct node *t, const struct val *v) {
    struct seq *items;
    int rc = 0;
    if (t->kind == N_NAME) {
        return exec_set(r, t->sym, *v);
    }
    if (t->kind == N_NSREF) {
        struct val ns = v_none();
        if (!exec_lookup(r, t->sym, &ns) || ns.type != V_NS) {
            return err_set(ERR_FORMAT, "an attribute can be set on a namespace() only");
        }
        return v_put(r, ns.u.dict, t->val, *v);
    }
    rc = v_items(r, v, &items);
    int64_t i = 0;
    for (const struct node *m = t->a; m && !rc; m = m->next, i++) {
        rc = i < items->n
                 ? assign(r, m, &items->v[i])
                 : err_set(ERR_FORMAT, "not enough values to unpack: %lld", (long long)items->n);
    }
    if (!rc && i < items->n) {
        rc = err_set(ERR_FORMAT, "too many values to unpack: %lld, want %lld", (long long)items->n,
                     (long long)i);
    }
    return rc;
}

/* Runs a body in a scope and catches its text. */
static int capture(struct rt *r, struct scope *s, const struct node *list, struct val *out) {
    struct buf b;
    struct buf *before = r->out;
    struct scope *scope = r->scope;
    if (!s) {
        return arena_rc(&r->arena);
    }
    text_buf(&b);
    r->out = &b;
    r->scope = s;
    int rc = chat_exec(r, list);
    r->scope = scope;
    r->out = before;
    rc = rc < 0 ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

/* The items that pass the loop's condition, each seen through the loop's target. */
static int filtered(
    struct rt *r, const struct node *n, struct scope *outer, struct seq *items, struct seq **out) {
    struct val list;
    int rc = v_seq(r, SEQ_LIST, items->n, &list);
    for (int64_t i = 0; i < items->n && !rc; i++) {
        struct val ok;
        r->scope = new_scope(r, outer);
        rc = r->scope ? assign(r, n->a, &items->v[i]) : arena_rc(&r->arena);
        rc = rc ? rc : chat_eval(r, n->c, &ok);
        if (!rc && v_true(&ok)) {
            rc = v_push(r, list.u.seq, items->v[i]);
        }
    }
    r->scope = outer;
    *out = rc ? NULL : list.u.seq;
    return rc;
}

static int rounds(struct rt *r, const struct node *n, struct loop *l) {
    struct val loop = {.type = V_LOOP, .u.loop = l};
    struct scope *s = NULL;
    int rc = 0;
    for (l->at = 0; l->at < l->items->n && !rc; l->at++) {
        if (!s || s->kept) {
            s = new_scope(r, l->scope);
        } else {
            s->n = 0;
        }
        r->scope = s;
        rc = s ? eval_step(r, n) : arena_rc(&r->arena);
        rc = rc ? rc : set_named(r, "loop", loop);
        rc = rc ? rc : assign(r, n->a, &l->items->v[l->at]);
        rc = rc ? rc : chat_exec(r, n->d);
        if (rc == EXEC_BREAK) {
            rc = 0;
            break;
        }
        rc = rc == EXEC_CONTINUE ? 0 : rc;
    }
    r->scope = l->scope;
    return rc;
}

static int run_loop(struct rt *r, const struct node *n, const struct val *in, int64_t depth0) {
    struct seq *items;
    struct scope *outer = r->scope;
    int rc = v_items(r, in, &items);
    if (!rc && n->c) {
        rc = filtered(r, n, outer, items, &items);
    }
    struct loop *l = rc ? NULL : arena_get(&r->arena, sizeof *l);
    if (!l) {
        return rc ? rc : arena_rc(&r->arena);
    }
    *l = (struct loop){.node = n->op ? n : NULL, .scope = outer, .items = items, .depth0 = depth0};
    l->changed = (struct val){.type = V_MISSING};
    if (items->n > 0) {
        return rounds(r, n, l);
    }
    r->scope = new_scope(r, outer);
    rc = r->scope ? chat_exec(r, n->e) : arena_rc(&r->arena);
    r->scope = outer;
    return rc;
}

int exec_loop(struct rt *r, const struct loop *l, const struct val *items, struct val *out) {
    struct buf b;
    struct buf *before = r->out;
    struct scope *scope = r->scope;
    text_buf(&b);
    r->out = &b;
    r->scope = l->scope;
    int rc = run_loop(r, l->node, items, l->depth0 + 1);
    r->scope = scope;
    r->out = before;
    rc = rc < 0 ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int stmt_for(struct rt *r, const struct node *n) {
    struct val in;
    int rc = chat_eval(r, n->b, &in);
    return rc ? rc : run_loop(r, n, &in, 0);
}

static const struct kwarg *kw_find(const struct args *a, struct chat_str name) {
    for (int32_t i = 0; i < a->n_kw; i++) {
        if (a->kw[i].name.n == name.n && memcmp(a->kw[i].name.p, name.p, (size_t)name.n) == 0) {
            return &a->kw[i];
        }
    }
    return NULL;
}

/* varargs, kwargs and caller; what the macro does not name may not be given. */
static int macro_rest(struct rt *r, const struct macro *m, const struct args *a, int32_t n_params) {
    struct val rest;
    struct val kw;
    struct val caller;
    int rc = v_seq(r, SEQ_TUPLE, 0, &rest);
    rc = rc ? rc : v_dict(r, &kw);
    rc = rc ? rc : v_undef(r, &caller, "No caller defined");
    for (int32_t i = n_params; i < a->n && !rc; i++) {
        rc = v_push(r, rest.u.seq, a->v[i]);
    }
    for (int32_t i = 0; i < a->n_kw && !rc; i++) {
        struct chat_str s = a->kw[i].name;
        bool known = false;
        for (const struct node *p = m->node->a; p; p = p->next) {
            struct chat_str name = r->c->sym[p->sym];
            known = known || (name.n == s.n && memcmp(name.p, s.p, (size_t)s.n) == 0);
        }
        if (str_is(s, "caller")) {
            caller = a->kw[i].val;
        } else if (!known) {
            rc = v_append(r, kw.u.dict, v_str(s.p, s.n), a->kw[i].val);
        }
    }
    rc = rc ? rc : set_named(r, "varargs", rest);
    rc = rc ? rc : set_named(r, "kwargs", kw);
    return rc ? rc : set_named(r, "caller", caller);
}

/* Does the body say this name? Then the macro takes arguments that it does not list. */
static bool says(const struct rt *r, const struct node *n, const char *name, int32_t depth) {
    for (; n && depth < EXEC_DEPTH_MAX; n = n->next) {
        if (n->kind == N_NAME && str_is(r->c->sym[n->sym], name)) {
            return true;
        }
        const struct node *kids[] = {n->a, n->b, n->c, n->d, n->kind == N_FOR ? n->e : NULL};
        for (int32_t i = 0; i < ARRAY_LEN(kids); i++) {
            if (says(r, kids[i], name, depth + 1)) {
                return true;
            }
        }
    }
    return false;
}

static int
macro_check(const struct rt *r, const struct macro *m, const struct args *a, int32_t n_params) {
    struct chat_str name = m->node->val.u.s;
    if (a->n > n_params && !says(r, m->node->d, "varargs", 0)) {
        return err_set(ERR_FORMAT, "macro '%.*s' takes not more than %d arguments", (int)name.n,
                       name.p, n_params);
    }
    for (int32_t i = 0; i < a->n_kw; i++) {
        struct chat_str s = a->kw[i].name;
        bool known = str_is(s, "caller") && says(r, m->node->d, "caller", 0);
        for (const struct node *p = m->node->a; p; p = p->next) {
            struct chat_str q = r->c->sym[p->sym];
            known = known || (q.n == s.n && memcmp(q.p, s.p, (size_t)s.n) == 0);
        }
        if (!known && !says(r, m->node->d, "kwargs", 0)) {
            return err_set(ERR_FORMAT, "macro '%.*s' takes no keyword argument '%.*s'", (int)name.n,
                           name.p, (int)s.n, s.p);
        }
    }
    return 0;
}

static int macro_params(struct rt *r, const struct macro *m, const struct args *a, int32_t *n) {
    int rc = 0;
    int32_t i = 0;
    for (const struct node *p = m->node->a; p && !rc; p = p->next, i++) {
        struct chat_str name = r->c->sym[p->sym];
        const struct kwarg *kw = i < a->n ? NULL : kw_find(a, name);
        struct val v;
        if (i < a->n || kw) {
            v = kw ? kw->val : a->v[i];
        } else if (p->b) {
            rc = chat_eval(r, p->b, &v);
        } else {
            rc = v_undef(r, &v, "parameter '%.*s' was not provided", (int)name.n, name.p);
        }
        rc = rc ? rc : exec_set(r, p->sym, v);
    }
    *n = i;
    return rc;
}

int exec_macro(struct rt *r, const struct macro *m, const struct args *a, struct val *out) {
    struct scope *caller = r->scope;
    struct scope *s = new_scope(r, m->scope);
    int32_t n_params = 0;
    if (!s) {
        return arena_rc(&r->arena);
    }
    r->scope = s;
    int rc = macro_params(r, m, a, &n_params);
    rc = rc ? rc : macro_check(r, m, a, n_params);
    if (!rc && m->node->kind == N_MACRO) {
        rc = macro_rest(r, m, a, n_params);
    }
    r->scope = caller;
    return rc ? rc : capture(r, s, m->node->d, out);
}

static int new_macro(struct rt *r, const struct node *n, struct val *out) {
    struct macro *m = arena_get(&r->arena, sizeof *m);
    if (!m) {
        return arena_rc(&r->arena);
    }
    *m = (struct macro){.node = n, .scope = r->scope};
    for (struct scope *s = r->scope; s && !s->kept; s = s->up) {
        s->kept = true;
    }
    *out = (struct val){.type = V_MACRO, .u.macro = m};
    return 0;
}

static int print(struct rt *r, const struct val *v) {
    return text_str(r, v, r->out);
}

/* {% call(x) m(...) %} body {% endcall %}: m gets the body as caller. */
static int stmt_call(struct rt *r, const struct node *n) {
    struct val f;
    struct val caller;
    struct val text;
    struct args a;
    int rc = new_macro(r, n, &caller);
    rc = rc ? rc : chat_eval(r, n->b->a, &f);
    rc = rc ? rc : eval_args(r, n->b->b, &a);
    struct kwarg *kw = rc ? NULL : arena_get(&r->arena, (a.n_kw + 1) * (int64_t)sizeof *kw);
    if (!kw) {
        return rc ? rc : arena_rc(&r->arena);
    }
    for (int32_t i = 0; i < a.n_kw; i++) {
        kw[i] = a.kw[i];
    }
    kw[a.n_kw++] = (struct kwarg){.name = {"caller", 6}, .val = caller};
    a.kw = kw;
    rc = call_value(r, &f, &a, &text);
    return rc ? rc : print(r, &text);
}

static int stmt_set(struct rt *r, const struct node *n) {
    struct val v;
    int rc =
        n->kind == N_SET ? chat_eval(r, n->b, &v) : capture(r, new_scope(r, r->scope), n->d, &v);
    if (!rc && n->kind == N_SETBLOCK) {
        rc = eval_filters(r, n->b, &v, &v);
    }
    return rc ? rc : assign(r, n->a, &v);
}

static int stmt_filter(struct rt *r, const struct node *n) {
    struct val v;
    int rc = capture(r, new_scope(r, r->scope), n->d, &v);
    rc = rc ? rc : eval_filters(r, n->b, &v, &v);
    return rc ? rc : print(r, &v);
}

static int stmt_with(struct rt *r, const struct node *n) {
    struct scope *outer = r->scope;
    struct scope *s = new_scope(r, outer);
    int rc = s ? 0 : arena_rc(&r->arena);
    for (const struct node *m = n->a; m && !rc; m = m->next) {
        struct val v;
        rc = chat_eval(r, m->b, &v);
        r->scope = s;
        rc = rc ? rc : assign(r, m->a, &v);
        r->scope = outer;
    }
    if (!rc) {
        r->scope = s;
        rc = chat_exec(r, n->d);
        r->scope = outer;
    }
    return rc;
}

static int stmt_if(struct rt *r, const struct node *n) {
    struct val v;
    int rc = chat_eval(r, n->a, &v);
    return rc ? rc : chat_exec(r, v_true(&v) ? n->b : n->c);
}

static int statement(struct rt *r, const struct node *n) {
    struct val v;
    int rc;
    switch (n->kind) {
    case N_DATA:
        return buf_add(r->out, n->val.u.s.p, n->val.u.s.n);
    case N_OUTPUT:
        rc = chat_eval(r, n->a, &v);
        return rc ? rc : print(r, &v);
    case N_IF:
        return stmt_if(r, n);
    case N_FOR:
        return stmt_for(r, n);
    case N_SET:
    case N_SETBLOCK:
        return stmt_set(r, n);
    case N_MACRO:
        rc = new_macro(r, n, &v);
        return rc ? rc : exec_set(r, n->sym, v);
    case N_CALLBLOCK:
        return stmt_call(r, n);
    case N_FILTERBLOCK:
        return stmt_filter(r, n);
    case N_WITH:
        return stmt_with(r, n);
    case N_SCOPE:
        rc = capture(r, new_scope(r, r->scope), n->d, &v);
        return rc ? rc : print(r, &v);
    case N_BREAK:
        return EXEC_BREAK;
    case N_CONTINUE:
        return EXEC_CONTINUE;
    case N_PARAM:
    case N_CONST:
    case N_NAME:
    case N_NSREF:
    case N_GETATTR:
    case N_GETITEM:
    case N_SLICE:
    case N_CALL:
    case N_ARG:
    case N_FILTER:
    case N_TEST:
    case N_NOT:
    case N_NEG:
    case N_POS:
    case N_BIN:
    case N_AND:
    case N_OR:
    case N_CONCAT:
    case N_COMPARE:
    case N_OPERAND:
    case N_COND:
    case N_LIST:
    case N_TUPLE:
    case N_DICT:
    case N_PAIR:
        break;
    }
    return err_set(ERR_INTERNAL, "node %d is no statement", (int)n->kind);
}

int chat_exec(struct rt *r, const struct node *list) {
    int rc = 0;
    if (r->depth >= EXEC_DEPTH_MAX) {
        return err_set(ERR_LIMIT, "calls nested over %d deep", EXEC_DEPTH_MAX);
    }
    r->depth++;
    for (const struct node *n = list; n && !rc; n = n->next) {
        rc = eval_step(r, n);
        rc = rc ? rc : statement(r, n);
    }
    r->depth--;
    return rc;
}

int chat_render(const struct chat *c, const json_t *vars, int64_t now_s, struct buf *out) {
    struct rt r = {.c = c, .out = out, .now_s = now_s};
    struct val v = {.type = V_NONE};
    int64_t before = out->len;
    arena_init(&r.arena, CHAT_MEMORY_MAX);
    int rc = json_is_object(vars) ? v_json(&r, vars, 0, &v)
                                  : err_set(ERR_FORMAT, "the variables are no object");
    if (!rc) {
        r.vars = v.u.dict;
        r.scope = new_scope(&r, NULL);
        rc = r.scope ? chat_exec(&r, c->body) : arena_rc(&r.arena);
    }
    arena_fini(&r.arena);
    if (rc > 0) {
        rc = err_set(ERR_FORMAT, "break or continue outside of a loop");
    }
    if (rc) {
        out->len = before;
        if (out->data) {
            out->data[before] = '\0';
        }
        return err_ctx(rc, "%s: line %d", c->where, r.line);
    }
    return 0;
}
