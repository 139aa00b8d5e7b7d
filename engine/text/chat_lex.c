/* Template text -> tokens.
 *
 *     text {{ expression }} {% statement %} {# comment #} {% raw %} text {% endraw %}
 *
 * Blanks around tags, with trim_blocks and lstrip_blocks on:
 *
 *     {%-  {{-  {#-    all white space before goes        {%+    the line's indent stays
 *     {%   {#          blanks between line start and tag go
 *     -%}  -}}  -#}    all white space behind goes        +%}    the newline stays
 *     %}   #}          one newline behind goes
 *
 * One newline at the very end of the source goes as well. A closing tag inside of open brackets is
 * an operator: {{ {'a': {}} }}.
 * src: jinja2 3.1, lexer.py */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { TOKENS_MAX = 1 << 21, BRACKETS_MAX = 256 };

struct lex {
    const struct chat *c;
    const char *p; /* source */
    int64_t n;
    int64_t at;
    int32_t line;
    bool line_starting; /* what came last ended with a newline */
    struct tokens *out;
    uint8_t bracket[BRACKETS_MAX];
    int32_t n_bracket;
};

static int fail(const struct lex *l, const char *what) {
    return err_set(ERR_FORMAT, "%s: line %d: %s", l->c->where, l->line, what);
}

static int add(struct lex *l, enum tok_type type, enum op op, int64_t from, int64_t to) {
    struct tokens *t = l->out;
    if (t->n == t->cap) {
        int32_t cap = t->cap ? t->cap * 2 : 256;
        if (cap > TOKENS_MAX) {
            return err_set(ERR_LIMIT, "%s: more than %d tokens", l->c->where, TOKENS_MAX);
        }
        struct token *v = mem_realloc(MEM_TEXT, t->v, (int64_t)cap * (int64_t)sizeof *v);
        if (!v) {
            return ERR_NOMEM;
        }
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] =
        (struct token){.type = type, .op = op, .line = l->line, .text = {l->p + from, to - from}};
    return 0;
}

/* Moves to `to`, counting lines. */
static void go(struct lex *l, int64_t to) {
    for (int64_t i = l->at; i < to; i++) {
        l->line += l->p[i] == '\n';
    }
    if (to > l->at) {
        l->line_starting = l->p[to - 1] == '\n';
    }
    l->at = to;
}

static bool at(const struct lex *l, int64_t i, const char *lit) {
    int64_t n = (int64_t)strlen(lit);
    return i + n <= l->n && memcmp(l->p + i, lit, (size_t)n) == 0;
}

static int64_t skip_space(const struct lex *l, int64_t i) {
    while (i < l->n) {
        uint32_t cp;
        int32_t k = utf8_get((const uint8_t *)l->p + i, &cp);
        if (!py_space(cp)) {
            break;
        }
        i += k;
    }
    return i;
}

/* End of a closing tag at i, with what it takes away behind it; -1 when there is none.
 * trim: "%}" and "#}" take one newline, "}}" does not */
static int64_t closing(const struct lex *l, int64_t i, const char *tag, bool trim) {
    if (i < l->n && l->p[i] == '-' && at(l, i + 1, tag)) {
        return skip_space(l, i + 3);
    }
    if (trim && i < l->n && l->p[i] == '+' && at(l, i + 1, tag)) {
        return i + 3;
    }
    if (!at(l, i, tag)) {
        return -1;
    }
    i += 2;
    return trim && i < l->n && l->p[i] == '\n' ? i + 1 : i;
}

/* The text before a tag, shortened as the tag's sign says. */
static int text_before(struct lex *l, int64_t end, char sign, bool variable) {
    struct chat_str s = {l->p + l->at, end - l->at};
    if (sign == '-') {
        s = str_trim(s, (struct chat_str){NULL, 0}, false, true);
    } else if (sign != '+' && !variable) {
        int64_t start = s.n;
        while (start > 0 && s.p[start - 1] != '\n') {
            start--;
        }
        struct chat_str indent = {s.p + start, s.n - start};
        bool begins = start > 0 || l->line_starting;
        if (begins && str_trim(indent, (struct chat_str){NULL, 0}, true, false).n == 0) {
            s.n = start;
        }
    }
    return s.n > 0 ? add(l, T_DATA, OP_NONE, l->at, l->at + s.n) : 0;
}

static char sign_at(const struct lex *l, int64_t i) {
    return i < l->n && (l->p[i] == '-' || l->p[i] == '+') ? l->p[i] : '\0';
}

static int comment(struct lex *l, int64_t body) {
    for (int64_t i = body; i + 1 < l->n; i++) {
        int64_t end = -1;
        if (l->p[i] == '-' || l->p[i] == '+' || l->p[i] == '#') {
            end = closing(l, i, "#}", true);
        }
        if (end >= 0) {
            go(l, end);
            return 0;
        }
    }
    return fail(l, "comment without its end \"#}\"");
}

/* "raw" and its closing tag at i. out: end of the tag, -1 when this is no raw block */
static int64_t raw_begin(const struct lex *l, int64_t i) {
    i = skip_space(l, i);
    if (!at(l, i, "raw")) {
        return -1;
    }
    i = skip_space(l, i + 3);
    int64_t end = closing(l, i, "%}", false);
    return end;
}

static int raw_block(struct lex *l, int64_t body) {
    go(l, body);
    for (int64_t i = body; i + 1 < l->n; i++) {
        if (!at(l, i, "{%")) {
            continue;
        }
        char sign = sign_at(l, i + 2);
        int64_t k = skip_space(l, i + 2 + (sign != '\0'));
        if (!at(l, k, "endraw")) {
            continue;
        }
        int64_t end = closing(l, skip_space(l, k + 6), "%}", true);
        if (end >= 0) {
            int rc = text_before(l, i, sign, false);
            go(l, end);
            return rc;
        }
    }
    return fail(l, "raw block without its end");
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
           ((uint8_t)c & 0x80);
}

static int64_t digits(const struct lex *l, int64_t i) {
    while (i < l->n &&
           (is_digit(l->p[i]) || (l->p[i] == '_' && i + 1 < l->n && is_digit(l->p[i + 1])))) {
        i++;
    }
    return i;
}

static int number(struct lex *l) {
    int64_t i = l->at;
    enum tok_type type = T_INT;
    bool after_dot = i > 0 && l->p[i - 1] == '.';
    if (l->p[i] == '0' && i + 1 < l->n && strchr("xXbBoO", l->p[i + 1])) {
        i += 2;
        while (i < l->n && is_name(l->p[i])) {
            i++;
        }
    } else {
        i = digits(l, i);
        if (!after_dot && i + 1 < l->n && l->p[i] == '.' && is_digit(l->p[i + 1])) {
            i = digits(l, i + 1);
            type = T_FLOAT;
        }
        int64_t e = i + 1;
        e += e < l->n && (l->p[e] == '-' || l->p[e] == '+');
        if (!after_dot && i < l->n && (l->p[i] == 'e' || l->p[i] == 'E') && e < l->n &&
            is_digit(l->p[e])) {
            i = digits(l, e);
            type = T_FLOAT;
        }
    }
    int rc = add(l, type, OP_NONE, l->at, i);
    go(l, i);
    return rc;
}

static int string(struct lex *l) {
    char quote = l->p[l->at];
    int64_t i = l->at + 1;
    while (i < l->n && l->p[i] != quote) {
        i += l->p[i] == '\\' ? 2 : 1;
    }
    if (i >= l->n) {
        return fail(l, "string without its end");
    }
    int rc = add(l, T_STR, OP_NONE, l->at + 1, i);
    go(l, i + 1);
    return rc;
}

static int bracket(struct lex *l, enum op op) {
    if (op == OP_LPAREN || op == OP_LBRACKET || op == OP_LBRACE) {
        if (l->n_bracket == BRACKETS_MAX) {
            return err_set(ERR_LIMIT, "%s: line %d: more than %d open brackets", l->c->where,
                           l->line, BRACKETS_MAX);
        }
        l->bracket[l->n_bracket++] = (uint8_t)(op + 1); /* its closing one */
    } else if (op == OP_RPAREN || op == OP_RBRACKET || op == OP_RBRACE) {
        if (l->n_bracket == 0 || l->bracket[--l->n_bracket] != (uint8_t)op) {
            return fail(l, "closing bracket without its opening one");
        }
    }
    return 0;
}

static int operator(struct lex *l) {
    static const struct {
        const char *text;
        enum op op;
    } ops[] = {
        {"**", OP_POW},     {"//", OP_FLOORDIV}, {"==", OP_EQ},    {"!=", OP_NE},
        {">=", OP_GE},      {"<=", OP_LE},       {"+", OP_ADD},    {"-", OP_SUB},
        {"/", OP_DIV},      {"*", OP_MUL},       {"%", OP_MOD},    {"~", OP_TILDE},
        {"[", OP_LBRACKET}, {"]", OP_RBRACKET},  {"(", OP_LPAREN}, {")", OP_RPAREN},
        {"{", OP_LBRACE},   {"}", OP_RBRACE},    {">", OP_GT},     {"<", OP_LT},
        {"=", OP_ASSIGN},   {".", OP_DOT},       {":", OP_COLON},  {"|", OP_PIPE},
        {",", OP_COMMA},    {";", OP_SEMI},
    };
    for (int32_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (at(l, l->at, ops[i].text)) {
            int64_t end = l->at + (int64_t)strlen(ops[i].text);
            int rc = bracket(l, ops[i].op);
            rc = rc ? rc : add(l, T_OP, ops[i].op, l->at, end);
            go(l, end);
            return rc;
        }
    }
    return fail(l, "a character that means nothing in an expression");
}

/* The inside of {{ }} or {% %}. */
static int inside(struct lex *l, bool variable) {
    l->n_bracket = 0;
    for (;;) {
        go(l, skip_space(l, l->at));
        if (l->at >= l->n) {
            return fail(l, variable ? "{{ without its }}" : "{% without its %}");
        }
        int64_t end = closing(l, l->at, variable ? "}}" : "%}", !variable);
        if (end >= 0 && l->n_bracket == 0) {
            int rc = add(l, variable ? T_VAR_END : T_BLOCK_END, OP_NONE, l->at, l->at);
            go(l, end);
            return rc;
        }
        char c = l->p[l->at];
        int rc;
        if (is_digit(c)) {
            rc = number(l);
        } else if (is_name(c)) {
            int64_t i = l->at;
            while (i < l->n && is_name(l->p[i])) {
                i++;
            }
            rc = add(l, T_NAME, OP_NONE, l->at, i);
            go(l, i);
        } else {
            rc = c == '"' || c == '\'' ? string(l) : operator(l);
        }
        if (rc) {
            return rc;
        }
    }
}

/* From one tag to behind it. */
static int tag(struct lex *l, int64_t begin) {
    char kind = l->p[begin + 1];
    bool variable = kind == '{';
    char sign = sign_at(l, begin + 2);
    int64_t body = begin + 2 + (sign != '\0');
    int rc = text_before(l, begin, sign, variable);
    if (rc) {
        return rc;
    }
    go(l, begin);
    if (kind == '#') {
        return comment(l, body);
    }
    int64_t raw = variable ? -1 : raw_begin(l, body);
    if (raw >= 0) {
        return raw_block(l, raw);
    }
    rc = add(l, variable ? T_VAR_BEGIN : T_BLOCK_BEGIN, OP_NONE, begin, body);
    go(l, body);
    return rc ? rc : inside(l, variable);
}

int chat_lex(const struct chat *c, struct tokens *out) {
    struct lex l = {.c = c, .p = c->src, .n = c->n_src, .line = 1, .line_starting = true};
    int rc = 0;
    l.out = out;
    while (!rc) {
        int64_t i = l.at;
        while (i + 1 < l.n &&
               (l.p[i] != '{' || (l.p[i + 1] != '%' && l.p[i + 1] != '{' && l.p[i + 1] != '#'))) {
            i++;
        }
        if (i + 1 >= l.n) {
            rc = l.n > l.at ? add(&l, T_DATA, OP_NONE, l.at, l.n) : 0;
            break;
        }
        rc = tag(&l, i);
    }
    return rc ? rc : add(&l, T_EOF, OP_NONE, l.n, l.n);
}
