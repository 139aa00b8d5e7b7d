/* What the files of the template engine share. Not for other folders. */
#ifndef ENGINE_TEXT_CHAT_INT_H
#define ENGINE_TEXT_CHAT_INT_H

#include "engine/base/err.h"
#include "engine/text/chat.h"

/* Memory that is given back all at once. */
struct arena_chunk;
struct arena {
    struct arena_chunk *head; /* own */
    int64_t left;             /* bytes left in head */
    int64_t total;
    int64_t max;
    int rc; /* why the last arena_get failed */
};
void arena_init(struct arena *a, int64_t max);
void arena_fini(struct arena *a);
/* Zeroed, aligned to 16. err: NULL with ERR_LIMIT or ERR_NOMEM set; arena_rc tells which */
void *arena_get(struct arena *a, int64_t n);
int arena_rc(const struct arena *a);

struct chat_str {
    const char *p;
    int64_t n;
};

enum vtype {
    V_MISSING, /* an argument that was not given; never seen by a template */
    V_UNDEF,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STR,
    V_SEQ,
    V_DICT,
    V_NS,
    V_LOOP,
    V_MACRO,
    V_FUNC,
    V_METHOD,
};

/* Python's several sequences. */
enum seq_kind { SEQ_LIST, SEQ_TUPLE, SEQ_GEN, SEQ_KEYS, SEQ_VALUES, SEQ_ITEMS, SEQ_RANGE };

struct val;
struct seq;
struct dict;
struct loop;
struct macro;
struct method;
struct undef;
struct chat_fn;

struct val {
    enum vtype type;
    bool safe; /* V_STR: Markup, which escapes plain strings that are added to it */
    union {
        bool b;
        int64_t i;
        double f;
        struct chat_str s;
        struct seq *seq;
        struct dict *dict; /* also V_NS */
        struct loop *loop;
        struct macro *macro;
        struct method *method;
        const struct undef *undef;
        const struct chat_fn *fn;
    } u;
};

struct undef {
    struct chat_str text; /* what an error says */
};

struct seq {
    enum seq_kind kind;
    int64_t n;
    int64_t cap;
    struct val *v; /* [cap] */
    int64_t start; /* SEQ_RANGE, for printing */
    int64_t stop;
    int64_t step;
};

struct entry {
    struct val key;
    struct val val;
    uint64_t hash;
};

struct dict {
    int64_t n;
    int64_t cap;
    struct entry *e; /* [cap], in order of insertion */
};

/* Arguments of a call. */
struct kwarg {
    struct chat_str name;
    struct val val;
};

struct args {
    int32_t n;
    int32_t n_kw;
    struct val *v;
    struct kwarg *kw;
};

/* Syntax. */
enum node_kind {
    N_DATA,        /* val */
    N_OUTPUT,      /* a */
    N_IF,          /* a test, b body, c else */
    N_FOR,         /* a target, b iterable, c filter, d body, e else, op recursive */
    N_SET,         /* a target, b value */
    N_SETBLOCK,    /* a target, b filters, d body */
    N_MACRO,       /* sym, a parameters, d body */
    N_CALLBLOCK,   /* a parameters, b call, d body */
    N_FILTERBLOCK, /* b filters, d body */
    N_WITH,        /* a list of N_SET, d body */
    N_SCOPE,       /* d body */
    N_BREAK,
    N_CONTINUE,
    N_PARAM,   /* sym, b default */
    N_CONST,   /* val */
    N_NAME,    /* sym */
    N_NSREF,   /* sym, val attribute */
    N_GETATTR, /* a, val name */
    N_GETITEM, /* a, b */
    N_SLICE,   /* a start, b stop, c step */
    N_CALL,    /* a callee, b arguments */
    N_ARG,     /* a value, op of ARG_*, val name */
    N_FILTER,  /* a input (NULL in blocks), fn or val name, b arguments */
    N_TEST,    /* likewise */
    N_NOT,     /* a */
    N_NEG,     /* a */
    N_POS,     /* a */
    N_BIN,     /* op, a, b */
    N_AND,     /* a, b */
    N_OR,      /* a, b */
    N_CONCAT,  /* a, b */
    N_COMPARE, /* a, b list of N_OPERAND */
    N_OPERAND, /* op, a */
    N_COND,    /* a test, b then, c else */
    N_LIST,    /* a list */
    N_TUPLE,   /* a list */
    N_DICT,    /* a list of N_PAIR */
    N_PAIR,    /* a, b */
};

enum arg_kind { ARG_POS, ARG_KEY, ARG_STAR, ARG_STAR2 };

enum op {
    OP_NONE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOTIN,
    OP_TILDE,
    OP_ASSIGN,
    OP_DOT,
    OP_COLON,
    OP_PIPE,
    OP_COMMA,
    OP_SEMI,
    OP_LPAREN,
    OP_RPAREN,
    OP_LBRACKET,
    OP_RBRACKET,
    OP_LBRACE,
    OP_RBRACE,
};

struct node {
    enum node_kind kind;
    int32_t op;
    int32_t line;
    int32_t sym;
    struct node *a;
    struct node *b;
    struct node *c;
    struct node *d;
    struct node *e;
    struct node *next;
    const struct chat_fn *fn;
    struct val val;
};

/* Tokens. */
enum tok_type {
    T_EOF,
    T_DATA,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VAR_BEGIN,
    T_VAR_END,
    T_NAME,
    T_STR, /* text between the quotes, escapes not resolved */
    T_INT,
    T_FLOAT,
    T_OP,
};

struct token {
    enum tok_type type;
    enum op op;
    int32_t line;
    struct chat_str text;
};

struct tokens {
    struct token *v; /* own, [cap] */
    int32_t n;
    int32_t cap;
};

/* A compiled template. */
struct chat {
    char *where; /* own */
    char *src;   /* own, with \n newlines */
    int64_t n_src;
    struct arena arena; /* own: nodes and constants */
    struct node *body;
    struct chat_str *sym; /* own, [n_sym] variable names */
    int32_t n_sym;
    int32_t cap_sym;
};

/* chat_lex.c. err: ERR_FORMAT with the line. own: caller, mem_free(out->v) */
int chat_lex(const struct chat *c, struct tokens *out);

/* The parser at work. */
struct parser {
    struct chat *c;
    const struct token *t; /* the current token */
    int32_t depth;
    struct node *unknown; /* first unknown filter or test that must fail now, linked by e */
};
int parse_template(struct parser *p); /* chat_stmt.c */
/* chat_parse.c: one function a rule; each leaves the current token behind what it took */
int parse_fail(const struct parser *p, const char *what);
int parse_new(struct parser *p, enum node_kind kind, struct node **out);
bool parse_skip_op(struct parser *p, enum op op);
int parse_number(struct parser *p, struct node **out);                   /* chat_atom.c */
int parse_primary(struct parser *p, bool namespaces, struct node **out); /* chat_atom.c */
int parse_sym(struct parser *p, struct chat_str name, int32_t *out);
bool parse_at_op(const struct parser *p, enum op op);
bool parse_at_name(const struct parser *p, const char *name);
bool parse_skip_name(struct parser *p, const char *name);
int parse_need_op(struct parser *p, enum op op, const char *what);
int parse_expr(struct parser *p, struct node **out);
/* condexpr: inline if allowed; end: a name that ends the list ("recursive"), or NULL */
int parse_tuple(struct parser *p, bool condexpr, const char *end, struct node **out);
int parse_target(struct parser *p, bool namespaces, const char *end, struct node **out);
int parse_filters(struct parser *p, struct node *in, bool inline_start, struct node **out);

/* Variables of one block. */
struct var {
    int32_t sym;
    struct val val;
};

struct scope {
    struct scope *up;
    bool kept; /* a macro was defined here or inside: later rounds may not reuse it */
    int32_t n;
    int32_t cap;
    struct var *v; /* [cap] */
};

struct loop {
    const struct node *node; /* its N_FOR; NULL when not recursive */
    struct scope *scope;     /* around the loop */
    const struct seq *items;
    int64_t at;
    int64_t depth0;
    struct val changed; /* V_MISSING at first */
};

struct macro {
    const struct node *node; /* N_MACRO or N_CALLBLOCK */
    struct scope *scope;     /* where it was defined */
};

struct method {
    struct val self;
    const struct chat_fn *fn;
};

/* A rendering. */
struct rt {
    const struct chat *c;
    struct arena arena; /* own */
    struct buf *out;    /* ref: where text goes now */
    struct dict *vars;
    struct scope *scope;
    int64_t now_s;
    int64_t steps;
    int32_t depth;
    int32_t line;
};

enum { FN_ARGS_MAX = 6 };

/* A filter, test, method or global function. bound gets self and its parameters in order, those not
 * given as V_MISSING; raw gets the arguments as they came. */
struct chat_fn {
    const char *name;
    const char *params; /* names, separated by blanks */
    int32_t n_need;
    int (*bound)(struct rt *r, const struct val *self, const struct val *a, struct val *out);
    int (*raw)(struct rt *r, const struct val *self, const struct args *a, struct val *out);
};

/* chat_val.c: making and asking values */
struct val v_none(void);
struct val v_bool(bool b);
struct val v_int(int64_t i);
struct val v_float(double f);
struct val v_str(const char *p, int64_t n);
struct val v_cstr(const char *s);
bool str_is(struct chat_str s, const char *lit);
int v_undef(struct rt *r, struct val *out, const char *fmt, ...) PRINTF_LIKE(3, 4);
int v_copy(struct rt *r, const char *p, int64_t n, struct val *out); /* string of its own */
int v_take(struct rt *r, struct buf *b, struct val *out);            /* copies and clears b */
int v_seq(struct rt *r, enum seq_kind kind, int64_t cap, struct val *out);
int v_push(struct rt *r, struct seq *s, struct val v);
int v_dict(struct rt *r, struct val *out);
int v_put(struct rt *r, struct dict *d, struct val key, struct val v);    /* replaces */
int v_append(struct rt *r, struct dict *d, struct val key, struct val v); /* key is new */
const struct val *v_get(const struct dict *d, struct val key);            /* NULL when absent */
int v_json(struct rt *r, const json_t *j, int32_t depth, struct val *out);
const char *v_type(const struct val *v); /* Python's name of the type */
bool v_is_num(const struct val *v);      /* bool, int or float */
double v_num(const struct val *v);
bool v_true(const struct val *v);
bool v_eq(const struct val *a, const struct val *b);
/* Python's order. err: ERR_FORMAT for types that have none */
int v_cmp(struct rt *r, const struct val *a, const struct val *b, int32_t *out);
/* The items of anything that can be walked; a generator is used up. err: ERR_FORMAT */
int v_items(struct rt *r, const struct val *v, struct seq **out);
bool v_iterable(const struct val *v);
int v_len(struct rt *r, const struct val *v, int64_t *out);
int v_contains(struct rt *r, const struct val *item, const struct val *in, bool *out);
int v_need_str(struct rt *r, const struct val *v, const char *what, struct chat_str *out);
int v_need_int(struct rt *r, const struct val *v, const char *what, int64_t *out);
int v_bad(const struct val *v, const char *what); /* ERR_FORMAT "... of type T" */

/* chat_text.c: values as text */
int text_str(struct rt *r, const struct val *v, struct buf *out);  /* str() */
int text_repr(struct rt *r, const struct val *v, struct buf *out); /* repr() */
int text_val(struct rt *r, const struct val *v, struct val *out);  /* str() as a value */
struct json_style {
    bool ascii;
    bool sort_keys;
    struct chat_str indent; /* p NULL: on one line */
    struct chat_str comma;
    struct chat_str colon;
};
int text_json(
    struct rt *r, const struct val *v, const struct json_style *s, int32_t depth, struct buf *out);
void text_buf(struct buf *b); /* an empty buffer with the usual limit */

/* chat_str.c: strings by characters */
bool py_space(uint32_t cp);
struct chat_str str_trim(struct chat_str s, struct chat_str chars, bool left, bool right);
int str_slice(
    struct rt *r, struct chat_str s, int64_t start, int64_t stop, int64_t step, struct val *out);
int str_lines(struct rt *r, struct chat_str s, bool keep, struct seq *out);
int str_replace(struct rt *r,
                struct chat_str s,
                struct chat_str from,
                struct chat_str to,
                int64_t count,
                struct val *out);
int str_escape(struct rt *r, struct chat_str s, struct val *out);         /* HTML; safe */
int str_case(struct rt *r, struct chat_str s, int mode, struct val *out); /* 'u' 'l' 'c' 't' 's' */
const struct chat_fn *str_method(struct chat_str name);                   /* chat_method.c */
int64_t str_find(struct chat_str s, int64_t from, struct chat_str what);  /* byte position or -1 */
int64_t str_rfind(struct chat_str s, struct chat_str what);
bool str_all(struct chat_str s, char what); /* isupper and friends */

/* chat_eval.c */
int chat_eval(struct rt *r, const struct node *n, struct val *out);
int eval_getattr(struct rt *r, const struct val *o, struct chat_str name, struct val *out);
int eval_getitem(struct rt *r, const struct val *o, const struct val *key, struct val *out);
int eval_args(struct rt *r, const struct node *list, struct args *out);
/* chat_arith.c */
int str_join(struct rt *r, struct chat_str a, struct chat_str b, struct val *out);
int eval_binary(
    struct rt *r, enum op op, const struct val *a, const struct val *b, struct val *out);
/* The filters of a block on its text; n may be NULL. */
int eval_filters(struct rt *r, const struct node *n, const struct val *in, struct val *out);
int eval_step(struct rt *r, const struct node *n); /* counts; err: ERR_LIMIT */

/* chat_exec.c: statements. rc: 0, negative error, or EXEC_BREAK / EXEC_CONTINUE */
enum { EXEC_BREAK = 1, EXEC_CONTINUE = 2 };
int chat_exec(struct rt *r, const struct node *list);
int exec_set(struct rt *r, int32_t sym, struct val v);
bool exec_lookup(struct rt *r, int32_t sym, struct val *out);
int exec_macro(struct rt *r, const struct macro *m, const struct args *a, struct val *out);
int exec_loop(struct rt *r, const struct loop *l, const struct val *items, struct val *out);

/* chat_call.c */
int call_value(struct rt *r, const struct val *f, const struct args *a, struct val *out);
int call_fn(struct rt *r,
            const struct chat_fn *fn,
            const struct val *self,
            const struct args *a,
            struct val *out);
const struct chat_fn *call_global(struct chat_str name);
const struct chat_fn *call_method(const struct val *self, struct chat_str name);
bool call_forbidden(const struct val *self, struct chat_str name);
const struct chat_fn *fn_find(const struct chat_fn *list, int32_t n, struct chat_str name);

/* chat_filter.c, chat_seqfilter.c, chat_test.c; NULL when unknown */
const struct chat_fn *filter_find(struct chat_str name);
const struct chat_fn *filter_seq_find(struct chat_str name);
const struct chat_fn *test_find(struct chat_str name);

#endif
