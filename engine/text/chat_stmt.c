/* Statements: tokens -> tree, and the making and freeing of a template.
 *
 * A block tag opens a body that ends with one of its end tags; bodies are lists by `next`.
 * src: jinja2 3.1, parser.py; transformers, chat_template_utils.py (generation) */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

static int body(struct parser *p, const char *end, const char *end2, struct node **out);

static int block_end(struct parser *p) {
    if (p->t->type != T_BLOCK_END) {
        return parse_fail(p, "%}");
    }
    p->t++;
    return 0;
}

/* Takes "%} body {% end" and stops behind the name end; the caller's caller takes "%}". */
static int body_to(struct parser *p, const char *end, struct node **out) {
    int rc = block_end(p);
    rc = rc ? rc : body(p, end, NULL, out);
    p->t += !rc;
    return rc;
}

static int stmt_if(struct parser *p, struct node *n) {
    struct node *unknown = p->unknown;
    n->kind = N_IF;
    int rc = parse_tuple(p, false, NULL, &n->a);
    rc = rc ? rc : block_end(p);
    if (rc) {
        return rc;
    }
    /* why: elif and else are told apart here, by the three names that may end the body */
    rc = body(p, "endif", "el*", &n->b);
    if (!rc && parse_skip_name(p, "elif")) {
        rc = parse_new(p, N_IF, &n->c);
        p->depth++;
        rc = rc ? rc
             : p->depth > CHAT_DEPTH_MAX
                 ? err_set(ERR_LIMIT, "%s: line %d: too many elif", p->c->where, p->t->line)
                 : stmt_if(p, n->c);
        p->depth--;
    } else if (!rc && parse_skip_name(p, "else")) {
        rc = body_to(p, "endif", &n->c);
    } else if (!rc) {
        p->t++;
    }
    p->unknown = unknown; /* inside of an if, what is unknown fails only when reached */
    return rc;
}

static int stmt_for(struct parser *p, struct node *n) {
    n->kind = N_FOR;
    int rc = parse_target(p, false, "in", &n->a);
    if (!rc && !parse_skip_name(p, "in")) {
        rc = parse_fail(p, "\"in\"");
    }
    rc = rc ? rc : parse_tuple(p, false, "recursive", &n->b);
    if (!rc && parse_skip_name(p, "if")) {
        rc = parse_expr(p, &n->c);
    }
    n->op = !rc && parse_skip_name(p, "recursive");
    rc = rc ? rc : block_end(p);
    rc = rc ? rc : body(p, "endfor", "else", &n->d);
    if (rc) {
        return rc;
    }
    if (parse_skip_name(p, "else")) {
        return body_to(p, "endfor", &n->e);
    }
    p->t++;
    return 0;
}

static int stmt_set(struct parser *p, struct node *n) {
    n->kind = N_SET;
    int rc = parse_target(p, true, NULL, &n->a);
    if (rc) {
        return rc;
    }
    if (parse_at_op(p, OP_ASSIGN)) {
        p->t++;
        return parse_tuple(p, true, NULL, &n->b);
    }
    n->kind = N_SETBLOCK;
    rc = parse_filters(p, NULL, false, &n->b);
    return rc ? rc : body_to(p, "endset", &n->d);
}

/* (a, b=default) */
static int signature(struct parser *p, struct node **head) {
    struct node **tail = head;
    bool defaults = false;
    int rc = parse_need_op(p, OP_LPAREN, "\"(\"");
    while (!rc && !parse_at_op(p, OP_RPAREN)) {
        rc = *head ? parse_need_op(p, OP_COMMA, "\",\" or \")\"") : 0;
        if (!rc && p->t->type != T_NAME) {
            rc = parse_fail(p, "the name of a parameter");
        }
        rc = rc ? rc : parse_new(p, N_PARAM, tail);
        rc = rc ? rc : parse_sym(p, p->t->text, &(*tail)->sym);
        if (rc) {
            break;
        }
        p->t++;
        if (parse_at_op(p, OP_ASSIGN)) {
            p->t++;
            defaults = true;
            rc = parse_expr(p, &(*tail)->b);
        } else if (defaults) {
            rc = parse_fail(p, "a default, since the parameter before has one");
        }
        tail = &(*tail)->next;
    }
    return rc ? rc : parse_need_op(p, OP_RPAREN, "\")\"");
}

static int stmt_macro(struct parser *p, struct node *n) {
    n->kind = N_MACRO;
    if (p->t->type != T_NAME) {
        return parse_fail(p, "the name of a macro");
    }
    n->val = v_str(p->t->text.p, p->t->text.n);
    int rc = parse_sym(p, p->t->text, &n->sym);
    p->t++;
    rc = rc ? rc : signature(p, &n->a);
    return rc ? rc : body_to(p, "endmacro", &n->d);
}

static int stmt_call(struct parser *p, struct node *n) {
    n->kind = N_CALLBLOCK;
    n->val = v_cstr("caller");
    int rc = parse_at_op(p, OP_LPAREN) ? signature(p, &n->a) : 0;
    rc = rc ? rc : parse_expr(p, &n->b);
    if (!rc && n->b->kind != N_CALL) {
        rc = parse_fail(p, "a call");
    }
    return rc ? rc : body_to(p, "endcall", &n->d);
}

static int stmt_filter(struct parser *p, struct node *n) {
    n->kind = N_FILTERBLOCK;
    int rc = parse_filters(p, NULL, true, &n->b);
    return rc ? rc : body_to(p, "endfilter", &n->d);
}

static int stmt_with(struct parser *p, struct node *n) {
    struct node **tail = &n->a;
    n->kind = N_WITH;
    int rc = 0;
    while (!rc && p->t->type != T_BLOCK_END) {
        rc = n->a ? parse_need_op(p, OP_COMMA, "\",\"") : 0;
        rc = rc ? rc : parse_new(p, N_SET, tail);
        rc = rc ? rc : parse_target(p, false, NULL, &(*tail)->a);
        rc = rc ? rc : parse_need_op(p, OP_ASSIGN, "\"=\"");
        rc = rc ? rc : parse_expr(p, &(*tail)->b);
        tail = rc ? tail : &(*tail)->next;
    }
    return rc ? rc : body_to(p, "endwith", &n->d);
}

static int stmt_generation(struct parser *p, struct node *n) {
    n->kind = N_SCOPE;
    return body_to(p, "endgeneration", &n->d);
}

static int stmt_break(struct parser *p, struct node *n) {
    (void)p;
    n->kind = N_BREAK;
    return 0;
}

static int stmt_continue(struct parser *p, struct node *n) {
    (void)p;
    n->kind = N_CONTINUE;
    return 0;
}

static int stmt_print(struct parser *p, struct node *n) {
    n->kind = N_OUTPUT;
    return parse_tuple(p, true, NULL, &n->a);
}

static int statement(struct parser *p, struct node **out) {
    static const struct {
        const char *tag;
        int (*f)(struct parser *p, struct node *n);
    } tags[] = {{"if", stmt_if},
                {"for", stmt_for},
                {"set", stmt_set},
                {"macro", stmt_macro},
                {"call", stmt_call},
                {"filter", stmt_filter},
                {"with", stmt_with},
                {"break", stmt_break},
                {"continue", stmt_continue},
                {"print", stmt_print},
                {"generation", stmt_generation}};
    int rc = parse_new(p, N_OUTPUT, out);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < ARRAY_LEN(tags); i++) {
        if (!parse_skip_name(p, tags[i].tag)) {
            continue;
        }
        if (++p->depth > CHAT_DEPTH_MAX) {
            return err_set(ERR_LIMIT, "%s: line %d: nested over %d deep", p->c->where, p->t->line,
                           CHAT_DEPTH_MAX);
        }
        rc = tags[i].f(p, *out);
        p->depth--;
        return rc ? rc : block_end(p);
    }
    return parse_fail(p, "a tag: if, for, set, macro, call, filter, with, break, continue, print, "
                         "generation");
}

/* At "{%": does the tag end the body? end2 "el*" stands for elif and else. */
static bool ends(const struct parser *p, const char *end, const char *end2) {
    const struct token *t = p->t + 1;
    if (p->t->type != T_BLOCK_BEGIN || t->type != T_NAME || !end) {
        return false;
    }
    bool either = end2 && strcmp(end2, "el*") == 0;
    return str_is(t->text, end) || (end2 && str_is(t->text, end2)) ||
           (either && (str_is(t->text, "elif") || str_is(t->text, "else")));
}

/* Nodes up to an end tag (whose name is then the current token), or to the end of the source. */
static int body(struct parser *p, const char *end, const char *end2, struct node **out) {
    struct node **tail = out;
    for (;;) {
        int rc = 0;
        if (ends(p, end, end2)) {
            p->t++;
            return 0;
        }
        if (p->t->type == T_EOF) {
            return end ? parse_fail(p, end) : 0;
        }
        if (p->t->type == T_DATA) {
            rc = parse_new(p, N_DATA, tail);
            if (!rc) {
                (*tail)->val = v_str(p->t->text.p, p->t->text.n);
                p->t++;
            }
        } else if (p->t->type == T_VAR_BEGIN) {
            p->t++;
            rc = parse_new(p, N_OUTPUT, tail);
            rc = rc ? rc : parse_tuple(p, true, NULL, &(*tail)->a);
            if (!rc && p->t->type != T_VAR_END) {
                rc = parse_fail(p, "}}");
            }
            p->t += !rc;
        } else {
            p->t++;
            rc = statement(p, tail);
        }
        if (rc) {
            return rc;
        }
        tail = &(*tail)->next;
    }
}

int parse_template(struct parser *p) {
    int rc = body(p, NULL, NULL, &p->c->body);
    if (!rc && p->unknown) {
        const struct node *n = p->unknown;
        rc = err_set(ERR_FORMAT, "%s: line %d: unknown %s \"%.*s\"", p->c->where, n->line,
                     n->kind == N_FILTER ? "filter" : "test", (int)n->val.u.s.n, n->val.u.s.p);
    }
    return rc;
}

/* Copies the source with \n for \r\n and \r, without one newline at the end. */
static int64_t copy_source(char *dst, const char *src, int64_t n) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        if (src[i] == '\r') {
            i += i + 1 < n && src[i + 1] == '\n';
            dst[k++] = '\n';
        } else {
            dst[k++] = src[i];
        }
    }
    return k > 0 && dst[k - 1] == '\n' ? k - 1 : k;
}

static int compile(struct chat *c, const char *where, const char *src, int64_t n) {
    struct tokens tokens = {0};
    arena_init(&c->arena, 64 * (int64_t)CHAT_SOURCE_MAX);
    c->where = mem_strdup(MEM_TEXT, where, -1);
    c->src = mem_calloc(MEM_TEXT, n + 1);
    if (!c->where || !c->src) {
        return ERR_NOMEM;
    }
    int64_t good = utf8_valid((const uint8_t *)src, n);
    if (good < n) {
        return err_set(ERR_FORMAT, "%s: byte %lld is no UTF-8", where, (long long)good);
    }
    c->n_src = copy_source(c->src, src, n);
    int rc = chat_lex(c, &tokens);
    if (!rc) {
        struct parser p = {.c = c, .t = tokens.v};
        rc = parse_template(&p);
    }
    mem_free(tokens.v);
    return rc;
}

int chat_compile(const char *where, const char *src, int64_t n, struct chat **out) {
    if (n < 0 || n > CHAT_SOURCE_MAX) {
        return err_set(ERR_LIMIT, "%s: template of %lld bytes, at most %d", where, (long long)n,
                       CHAT_SOURCE_MAX);
    }
    struct chat *c = mem_calloc(MEM_TEXT, sizeof *c);
    if (!c) {
        return ERR_NOMEM;
    }
    int rc = compile(c, where, src, n);
    if (rc) {
        chat_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void chat_free(struct chat *c) {
    if (c) {
        arena_fini(&c->arena);
        mem_free(c->sym);
        mem_free(c->where);
        mem_free(c->src);
        mem_free(c);
    }
}
