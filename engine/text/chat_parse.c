/* Expressions: tokens -> tree, one function a rule of the grammar.
 *
 *     expr     or ("if" or ["else" expr])*          or    and ("or" and)*
 *     and      not ("and" not)*                     not   "not" not | compare
 *     compare  sum (("=="|...|"in"|"not" "in") sum)*
 *     sum      concat (("+"|"-") concat)*           concat  product ("~" product)*
 *     product  power (("*"|"/"|"//"|"%") power)*    power   unary ("**" unary)*
 *     unary    ("-"|"+") unary' | primary, then postfix*, then filters and tests
 *
 * Depth is counted where a rule can call itself; nodes live in the template's arena.
 * src: jinja2 3.1, parser.py */
#include <string.h>

#include "engine/base/str.h"
#include "engine/text/chat_int.h"

enum { SYM_MAX = 4096 };

int parse_fail(const struct parser *p, const char *what) {
    static const char *const ends[] = {"the end of the template", "text", "{%", "%}", "{{", "}}"};
    const struct token *t = p->t;
    if (t->type <= T_VAR_END) {
        return err_set(ERR_FORMAT, "%s: line %d: found %s, want %s", p->c->where, t->line,
                       ends[t->type], what);
    }
    return err_set(ERR_FORMAT, "%s: line %d: found \"%.*s\", want %s", p->c->where, t->line,
                   (int)i64_min(t->text.n, 40), t->text.p, what);
}

int parse_new(struct parser *p, enum node_kind kind, struct node **out) {
    struct node *n = arena_get(&p->c->arena, sizeof *n);
    if (!n) {
        return arena_rc(&p->c->arena);
    }
    n->kind = kind;
    n->line = p->t->line;
    *out = n;
    return 0;
}

int parse_sym(struct parser *p, struct chat_str name, int32_t *out) {
    struct chat *c = p->c;
    for (int32_t i = 0; i < c->n_sym; i++) {
        if (c->sym[i].n == name.n && memcmp(c->sym[i].p, name.p, (size_t)name.n) == 0) {
            *out = i;
            return 0;
        }
    }
    if (c->n_sym == c->cap_sym) {
        int32_t cap = c->cap_sym ? c->cap_sym * 2 : 64;
        if (cap > SYM_MAX) {
            return err_set(ERR_LIMIT, "%s: more than %d variable names", c->where, SYM_MAX);
        }
        struct chat_str *sym = mem_realloc(MEM_TEXT, c->sym, cap * (int64_t)sizeof *sym);
        if (!sym) {
            return ERR_NOMEM;
        }
        c->sym = sym;
        c->cap_sym = cap;
    }
    c->sym[c->n_sym] = name;
    *out = c->n_sym++;
    return 0;
}

bool parse_at_op(const struct parser *p, enum op op) {
    return p->t->type == T_OP && p->t->op == op;
}

bool parse_at_name(const struct parser *p, const char *name) {
    return p->t->type == T_NAME && str_is(p->t->text, name);
}

bool parse_skip_name(struct parser *p, const char *name) {
    bool is = parse_at_name(p, name);
    p->t += is;
    return is;
}

bool parse_skip_op(struct parser *p, enum op op) {
    bool is = parse_at_op(p, op);
    p->t += is;
    return is;
}

int parse_need_op(struct parser *p, enum op op, const char *what) {
    return parse_skip_op(p, op) ? 0 : parse_fail(p, what);
}

/* One part of a slice; absent before ":" and the end. */
static int slice_part(struct parser *p, struct node **out) {
    bool absent =
        parse_at_op(p, OP_COLON) || parse_at_op(p, OP_RBRACKET) || parse_at_op(p, OP_COMMA);
    return absent ? 0 : parse_expr(p, out);
}

static int subscribed(struct parser *p, struct node **out) {
    struct node *start = NULL;
    int rc = slice_part(p, &start);
    if (rc || !parse_at_op(p, OP_COLON)) {
        *out = start;
        return rc ? rc : start ? 0 : parse_fail(p, "an index");
    }
    p->t++;
    rc = parse_new(p, N_SLICE, out);
    if (rc) {
        return rc;
    }
    (*out)->a = start;
    rc = slice_part(p, &(*out)->b);
    if (!rc && parse_skip_op(p, OP_COLON)) {
        rc = slice_part(p, &(*out)->c);
    }
    return rc;
}

static int subscript(struct parser *p, struct node *in, struct node **out) {
    int rc;
    if (parse_skip_op(p, OP_DOT)) {
        rc = parse_new(p, p->t->type == T_INT ? N_GETITEM : N_GETATTR, out);
        if (rc) {
            return rc;
        }
        (*out)->a = in;
        if (p->t->type == T_INT) {
            return parse_number(p, &(*out)->b);
        }
        if (p->t->type != T_NAME) {
            return parse_fail(p, "a name or number behind \".\"");
        }
        (*out)->val = v_str(p->t->text.p, p->t->text.n);
        p->t++;
        return 0;
    }
    p->t++;
    rc = parse_new(p, N_GETITEM, out);
    if (rc) {
        return rc;
    }
    (*out)->a = in;
    rc = subscribed(p, &(*out)->b);
    return rc ? rc : parse_need_op(p, OP_RBRACKET, "\"]\"");
}

/* (a, b, c=d, *e, **f) */
static int call_args(struct parser *p, struct node **head) {
    struct node **tail = head;
    int32_t reached = ARG_POS;
    p->t++;
    while (!parse_at_op(p, OP_RPAREN)) {
        int rc = *head ? parse_need_op(p, OP_COMMA, "\",\" or \")\"") : 0;
        if (rc || parse_at_op(p, OP_RPAREN)) {
            break;
        }
        rc = parse_new(p, N_ARG, tail);
        if (rc) {
            return rc;
        }
        struct node *a = *tail;
        if (parse_skip_op(p, OP_MUL)) {
            a->op = ARG_STAR;
        } else if (parse_skip_op(p, OP_POW)) {
            a->op = ARG_STAR2;
        } else if (p->t->type == T_NAME && p->t[1].type == T_OP && p->t[1].op == OP_ASSIGN) {
            a->op = ARG_KEY;
            a->val = v_str(p->t->text.p, p->t->text.n);
            p->t += 2;
        }
        if ((a->op == ARG_POS && reached != ARG_POS) || reached == ARG_STAR2) {
            return parse_fail(p, "arguments in the order a, b=c, *d, **e");
        }
        reached = a->op;
        rc = parse_expr(p, &a->a);
        if (rc) {
            return rc;
        }
        tail = &a->next;
    }
    return parse_need_op(p, OP_RPAREN, "\",\" or \")\"");
}

static int postfix(struct parser *p, struct node **io) {
    int rc = 0;
    while (!rc) {
        struct node *in = *io;
        if (parse_at_op(p, OP_DOT) || parse_at_op(p, OP_LBRACKET)) {
            rc = subscript(p, in, io);
        } else if (parse_at_op(p, OP_LPAREN)) {
            rc = parse_new(p, N_CALL, io);
            if (!rc) {
                (*io)->a = in;
                rc = call_args(p, &(*io)->b);
            }
        } else {
            break;
        }
    }
    return rc;
}

/* Dotted name of a filter or test. */
static int dotted(struct parser *p, struct chat_str *out) {
    if (p->t->type != T_NAME) {
        return parse_fail(p, "the name of a filter or test");
    }
    *out = p->t->text;
    p->t++;
    while (parse_skip_op(p, OP_DOT)) {
        if (p->t->type != T_NAME) {
            return parse_fail(p, "a name behind \".\"");
        }
        out->n = p->t->text.p + p->t->text.n - out->p;
        p->t++;
    }
    return 0;
}

static void note_unknown(struct parser *p, struct node *n) {
    if (!n->fn) {
        n->e = p->unknown;
        p->unknown = n;
    }
}

int parse_filters(struct parser *p, struct node *in, bool inline_start, struct node **out) {
    int rc = 0;
    *out = in;
    while (!rc && (inline_start || parse_at_op(p, OP_PIPE))) {
        struct node *n = NULL;
        struct chat_str s = {NULL, 0};
        p->t += !inline_start;
        inline_start = false;
        rc = parse_new(p, N_FILTER, &n);
        rc = rc ? rc : dotted(p, &s);
        if (rc) {
            break;
        }
        n->a = *out;
        n->fn = filter_find(s);
        n->val = v_str(s.p, s.n);
        note_unknown(p, n);
        *out = n;
        rc = parse_at_op(p, OP_LPAREN) ? call_args(p, &n->b) : 0;
    }
    return rc;
}

/* A test may take one argument without brackets: x is divisibleby 3 */
static bool bare_argument(const struct parser *p) {
    enum tok_type t = p->t->type;
    if (t == T_NAME) {
        return !parse_at_name(p, "else") && !parse_at_name(p, "or") && !parse_at_name(p, "and");
    }
    return t == T_STR || t == T_INT || t == T_FLOAT || parse_at_op(p, OP_LBRACKET) ||
           parse_at_op(p, OP_LBRACE);
}

static int test(struct parser *p, struct node **io) {
    struct node *in = *io;
    struct node *n = NULL;
    struct chat_str s = {NULL, 0};
    p->t++;
    bool negated = parse_skip_name(p, "not");
    int rc = parse_new(p, N_TEST, &n);
    rc = rc ? rc : dotted(p, &s);
    if (rc) {
        return rc;
    }
    n->a = in;
    n->fn = test_find(s);
    n->val = v_str(s.p, s.n);
    note_unknown(p, n);
    if (parse_at_op(p, OP_LPAREN)) {
        rc = call_args(p, &n->b);
    } else if (parse_at_name(p, "is")) {
        return parse_fail(p, "one test at a time");
    } else if (bare_argument(p)) {
        rc = parse_new(p, N_ARG, &n->b);
        rc = rc ? rc : parse_primary(p, false, &n->b->a);
        rc = rc ? rc : postfix(p, &n->b->a);
    }
    *io = n;
    if (!rc && negated) {
        rc = parse_new(p, N_NOT, io);
        if (!rc) {
            (*io)->a = n;
        }
    }
    return rc;
}

static int enter(struct parser *p) {
    if (++p->depth > CHAT_DEPTH_MAX) {
        return err_set(ERR_LIMIT, "%s: line %d: nested over %d deep", p->c->where, p->t->line,
                       CHAT_DEPTH_MAX);
    }
    return 0;
}

static int unary(struct parser *p, bool filters, struct node **out) {
    int rc = enter(p);
    if (!rc && (parse_at_op(p, OP_SUB) || parse_at_op(p, OP_ADD))) {
        rc = parse_new(p, parse_at_op(p, OP_SUB) ? N_NEG : N_POS, out);
        p->t++;
        rc = rc ? rc : unary(p, false, &(*out)->a);
    } else if (!rc) {
        rc = parse_primary(p, false, out);
    }
    rc = rc ? rc : postfix(p, out);
    while (!rc && filters) {
        if (parse_at_op(p, OP_PIPE)) {
            rc = parse_filters(p, *out, false, out);
        } else if (parse_at_name(p, "is")) {
            rc = test(p, out);
        } else if (parse_at_op(p, OP_LPAREN)) {
            rc = postfix(p, out);
        } else {
            break;
        }
    }
    p->depth--;
    return rc;
}

/* Left-associative operators by level: 0 "**", 1 "* / // %", 2 "~", 3 "+ -". */
static bool of_level(enum op op, int32_t level) {
    switch (level) {
    case 0:
        return op == OP_POW;
    case 1:
        return op == OP_MUL || op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD;
    case 2:
        return op == OP_TILDE;
    default:
        return op == OP_ADD || op == OP_SUB;
    }
}

static int binary(struct parser *p, int32_t level, struct node **out) {
    int rc = level == 0 ? unary(p, true, out) : binary(p, level - 1, out);
    while (!rc && p->t->type == T_OP && of_level(p->t->op, level)) {
        struct node *n = NULL;
        rc = parse_new(p, level == 2 ? N_CONCAT : N_BIN, &n);
        if (rc) {
            break;
        }
        n->op = (int32_t)p->t->op;
        n->a = *out;
        *out = n;
        p->t++;
        rc = level == 0 ? unary(p, true, &n->b) : binary(p, level - 1, &n->b);
    }
    return rc;
}

static enum op comparison(const struct parser *p) {
    if (p->t->type == T_OP && p->t->op >= OP_EQ && p->t->op <= OP_GE) {
        return p->t->op;
    }
    if (parse_at_name(p, "in")) {
        return OP_IN;
    }
    bool not_in = parse_at_name(p, "not") && p->t[1].type == T_NAME && str_is(p->t[1].text, "in");
    return not_in ? OP_NOTIN : OP_NONE;
}

static int compare(struct parser *p, struct node **out) {
    int rc = binary(p, 3, out);
    enum op op = comparison(p);
    if (rc || op == OP_NONE) {
        return rc;
    }
    struct node *n = NULL;
    rc = parse_new(p, N_COMPARE, &n);
    if (rc) {
        return rc;
    }
    n->a = *out;
    *out = n;
    struct node **tail = &n->b;
    for (; !rc && op != OP_NONE; op = comparison(p)) {
        rc = parse_new(p, N_OPERAND, tail);
        if (rc) {
            break;
        }
        (*tail)->op = (int32_t)op;
        p->t += op == OP_NOTIN ? 2 : 1;
        rc = binary(p, 3, &(*tail)->a);
        tail = &(*tail)->next;
    }
    return rc;
}

static int not_expr(struct parser *p, struct node **out) {
    if (!parse_at_name(p, "not")) {
        return compare(p, out);
    }
    int rc = enter(p);
    rc = rc ? rc : parse_new(p, N_NOT, out);
    p->t++;
    rc = rc ? rc : not_expr(p, &(*out)->a);
    p->depth--;
    return rc;
}

/* and: level 0, or: level 1 */
static int logic(struct parser *p, int32_t level, struct node **out) {
    int rc = level == 0 ? not_expr(p, out) : logic(p, 0, out);
    while (!rc && parse_skip_name(p, level == 0 ? "and" : "or")) {
        struct node *n = NULL;
        rc = parse_new(p, level == 0 ? N_AND : N_OR, &n);
        if (rc) {
            break;
        }
        n->a = *out;
        *out = n;
        rc = level == 0 ? not_expr(p, &n->b) : logic(p, 0, &n->b);
    }
    return rc;
}

static int expr(struct parser *p, bool condexpr, struct node **out) {
    struct node *unknown = p->unknown;
    int rc = enter(p);
    rc = rc ? rc : logic(p, 1, out);
    while (!rc && condexpr && parse_skip_name(p, "if")) {
        struct node *n = NULL;
        rc = parse_new(p, N_COND, &n);
        if (rc) {
            break;
        }
        n->b = *out;
        *out = n;
        rc = logic(p, 1, &n->a);
        if (!rc && parse_skip_name(p, "else")) {
            rc = expr(p, true, &n->c);
        }
        p->unknown = unknown; /* fails only when reached */
    }
    p->depth--;
    return rc;
}

int parse_expr(struct parser *p, struct node **out) {
    return expr(p, true, out);
}

static bool tuple_end(const struct parser *p, const char *end) {
    return p->t->type == T_VAR_END || p->t->type == T_BLOCK_END || parse_at_op(p, OP_RPAREN) ||
           (end && parse_at_name(p, end));
}

/* in: target: names and literals only */
static int tuple(struct parser *p,
                 bool condexpr,
                 bool target,
                 bool namespaces,
                 const char *end,
                 struct node **out) {
    struct node *head = NULL;
    struct node **tail = &head;
    struct node *t = NULL;
    int rc = 0;
    while (!rc) {
        rc = target ? parse_primary(p, namespaces, tail) : expr(p, condexpr, tail);
        if (rc || !parse_at_op(p, OP_COMMA)) {
            break;
        }
        if (!t) {
            rc = parse_new(p, N_TUPLE, &t);
        }
        p->t++;
        if (tuple_end(p, end)) {
            break;
        }
        tail = &(*tail)->next;
    }
    if (t) {
        t->a = head;
    }
    *out = t ? t : head;
    return rc;
}

int parse_tuple(struct parser *p, bool condexpr, const char *end, struct node **out) {
    return tuple(p, condexpr, false, false, end, out);
}

static int check_target(const struct parser *p, const struct node *n) {
    if (n->kind == N_TUPLE) {
        for (const struct node *m = n->a; m; m = m->next) {
            int rc = check_target(p, m);
            if (rc) {
                return rc;
            }
        }
        return 0;
    }
    return n->kind == N_NAME || n->kind == N_NSREF ? 0 : parse_fail(p, "a name to assign to");
}

int parse_target(struct parser *p, bool namespaces, const char *end, struct node **out) {
    int rc = tuple(p, false, true, namespaces, end, out);
    return rc ? rc : check_target(p, *out);
}
