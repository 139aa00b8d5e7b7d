/* Atoms of expressions: strings, numbers, names, and what stands in brackets.
 *
 * src: jinja2 3.1, parser.py parse_primary; Python's string escapes */
#include <stdlib.h>
#include <string.h>

#include "engine/text/chat_int.h"

enum { NUMBER_MAX = 64 };

/* A string's escapes, as in Python. */
static int32_t hex_value(const char *p, int32_t n) {
    int32_t v = 0;
    for (int32_t i = 0; i < n; i++) {
        char c = p[i];
        int32_t d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (d < 0 || v > 0x10ffff) {
            return -1;
        }
        v = v * 16 + d;
    }
    return v;
}

static int escape(const struct parser *p, struct chat_str s, int64_t *i, struct buf *b) {
    static const char from[] = "abfnrtv\\'\"";
    static const char to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = s.p[*i];
    const char *hit = c ? strchr(from, c) : NULL;
    ++*i;
    if (hit) {
        return buf_add(b, to + (hit - from), 1);
    }
    if (c == '\n') {
        return 0;
    }
    int32_t n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_hex > 0) {
        int32_t v = *i + n_hex <= s.n ? hex_value(s.p + *i, n_hex) : -1;
        if (v < 0 || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
            return parse_fail(p, "a \\x, \\u or \\U escape of a character");
        }
        *i += n_hex;
        return buf_utf8(b, (uint32_t)v);
    }
    if (c >= '0' && c <= '7') {
        uint32_t v = (uint32_t)(c - '0');
        for (int32_t k = 0; k < 2 && *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '7'; k++) {
            v = v * 8 + (uint32_t)(s.p[(*i)++] - '0');
        }
        return buf_utf8(b, v);
    }
    if (c == 'N') {
        return parse_fail(p, "a string without \\N escapes");
    }
    char both[2] = {'\\', c};
    return buf_add(b, both, 2);
}

static int add_string(const struct parser *p, struct chat_str s, struct buf *b) {
    int rc = 0;
    for (int64_t i = 0; i < s.n && !rc;) {
        if (s.p[i] == '\\' && i + 1 < s.n) {
            i++;
            rc = escape(p, s, &i, b);
        } else {
            rc = buf_add(b, s.p + i++, 1);
        }
    }
    return rc;
}

/* Neighbouring strings are one. */
static int string(struct parser *p, struct node **out) {
    struct buf b;
    buf_init(&b, MEM_TEXT, CHAT_SOURCE_MAX);
    int rc = parse_new(p, N_CONST, out);
    while (!rc && p->t->type == T_STR) {
        rc = add_string(p, p->t->text, &b);
        p->t++;
    }
    char *copy = rc ? NULL : arena_get(&p->c->arena, b.len + 1);
    if (copy) {
        memcpy(copy, buf_cstr(&b), (size_t)b.len);
        (*out)->val = v_str(copy, b.len);
    } else if (!rc) {
        rc = arena_rc(&p->c->arena);
    }
    buf_fini(&b);
    return rc;
}

int parse_number(struct parser *p, struct node **out) {
    char text[NUMBER_MAX];
    int32_t n = 0;
    char *end = NULL;
    int rc = parse_new(p, N_CONST, out);
    if (rc) {
        return rc;
    }
    for (int64_t i = 0; i < p->t->text.n; i++) {
        if (p->t->text.p[i] != '_') {
            if (n == NUMBER_MAX - 1) {
                return parse_fail(p, "a shorter number");
            }
            text[n++] = p->t->text.p[i];
        }
    }
    text[n] = '\0';
    if (p->t->type == T_FLOAT) {
        (*out)->val = v_float(strtod(text, &end));
    } else {
        bool bin = n > 2 && (text[1] == 'b' || text[1] == 'B');
        bool oct = n > 2 && (text[1] == 'o' || text[1] == 'O');
        bool hex = n > 2 && (text[1] == 'x' || text[1] == 'X');
        long long v = strtoll(text + 2 * (bin || oct || hex), &end,
                              bin   ? 2
                              : oct ? 8
                              : hex ? 16
                                    : 10);
        if (v == INT64_MAX) {
            return parse_fail(p, "a number below 2^63");
        }
        (*out)->val = v_int(v);
    }
    if (*end) {
        return parse_fail(p, "a number");
    }
    p->t++;
    return 0;
}

static int name(struct parser *p, bool namespaces, struct node **out) {
    struct chat_str s = p->t->text;
    bool yes = str_is(s, "true") || str_is(s, "True");
    bool constant = yes || str_is(s, "false") || str_is(s, "False");
    bool none = str_is(s, "none") || str_is(s, "None");
    int rc = parse_new(p, constant || none ? N_CONST : N_NAME, out);
    if (rc) {
        return rc;
    }
    p->t++;
    if (constant || none) {
        (*out)->val = none ? v_none() : v_bool(yes);
        return 0;
    }
    if (namespaces && parse_at_op(p, OP_DOT)) {
        p->t++;
        if (p->t->type != T_NAME) {
            return parse_fail(p, "the name of an attribute");
        }
        (*out)->kind = N_NSREF;
        (*out)->val = v_str(p->t->text.p, p->t->text.n);
        p->t++;
    }
    return parse_sym(p, s, &(*out)->sym);
}

/* Expressions between commas up to a closing bracket. */
static int list(struct parser *p, enum op close, struct node **head) {
    struct node **tail = head;
    while (!parse_at_op(p, close)) {
        int rc = *head ? parse_need_op(p, OP_COMMA, "\",\" or the closing bracket") : 0;
        if (rc || parse_at_op(p, close)) {
            return rc;
        }
        rc = parse_expr(p, tail);
        if (rc) {
            return rc;
        }
        tail = &(*tail)->next;
    }
    return 0;
}

static int pairs(struct parser *p, struct node **head) {
    struct node **tail = head;
    while (!parse_at_op(p, OP_RBRACE)) {
        int rc = *head ? parse_need_op(p, OP_COMMA, "\",\" or \"}\"") : 0;
        if (rc || parse_at_op(p, OP_RBRACE)) {
            return rc;
        }
        rc = parse_new(p, N_PAIR, tail);
        rc = rc ? rc : parse_expr(p, &(*tail)->a);
        rc = rc ? rc : parse_need_op(p, OP_COLON, "\":\"");
        rc = rc ? rc : parse_expr(p, &(*tail)->b);
        if (rc) {
            return rc;
        }
        tail = &(*tail)->next;
    }
    return 0;
}

int parse_primary(struct parser *p, bool namespaces, struct node **out) {
    int rc;
    if (p->t->type == T_NAME) {
        return name(p, namespaces, out);
    }
    if (p->t->type == T_STR) {
        return string(p, out);
    }
    if (p->t->type == T_INT || p->t->type == T_FLOAT) {
        return parse_number(p, out);
    }
    if (parse_skip_op(p, OP_LPAREN)) {
        if (parse_at_op(p, OP_RPAREN)) {
            rc = parse_new(p, N_TUPLE, out);
        } else {
            rc = parse_tuple(p, true, NULL, out);
        }
        return rc ? rc : parse_need_op(p, OP_RPAREN, "\")\"");
    }
    if (parse_skip_op(p, OP_LBRACKET)) {
        rc = parse_new(p, N_LIST, out);
        rc = rc ? rc : list(p, OP_RBRACKET, &(*out)->a);
        return rc ? rc : parse_need_op(p, OP_RBRACKET, "\"]\"");
    }
    if (parse_skip_op(p, OP_LBRACE)) {
        rc = parse_new(p, N_DICT, out);
        rc = rc ? rc : pairs(p, &(*out)->a);
        return rc ? rc : parse_need_op(p, OP_RBRACE, "\"}\"");
    }
    return parse_fail(p, "an expression");
}
