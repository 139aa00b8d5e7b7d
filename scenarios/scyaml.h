/* Strict reading of YAML mappings into structs by tables of fields, and printing them back.
 *
 * A mapping is described once, as an array of struct scyaml_field; reading checks unknown and
 * missing keys, types, units and ranges against it, and printing walks the same array. Every error
 * is ERR_CONFIG "where:line:column: ...". Aliases, tags and duplicate keys are refused. */
#ifndef SCENARIOS_SCYAML_H
#define SCENARIOS_SCYAML_H

#include "engine/base/buf.h"
#include "engine/base/types.h"

struct fy_node;
struct fy_document;

enum {
    SCYAML_TEXT_MAX = 1 << 20,   /* bytes of one document */
    SCYAML_STRINGS_MAX = 4096,   /* strings kept from one document */
    SCYAML_STRING_MAX = 1 << 16, /* bytes of one string */
    SCYAML_FIELDS_MAX = 32       /* keys of one mapping */
};

/* Strings that outlive the document. */
struct scyaml_pool {
    char **items; /* own, [n] of own strings */
    int32_t n;
    int32_t cap;
};

void scyaml_pool_fini(struct scyaml_pool *p);

/* Keeps a copy of n bytes (n < 0: up to the NUL). err: ERR_NOMEM, ERR_LIMIT. own: the pool */
int scyaml_pool_add(struct scyaml_pool *p, const char *s, int64_t n, const char **out);

struct scyaml {
    const char *where;        /* ref: name of the source in errors */
    struct fy_document *doc;  /* own */
    struct fy_node *root;     /* ref */
    struct scyaml_pool *pool; /* ref: receives strings */
};

/* Parses one document; its root must be a mapping.
 * err:  ERR_CONFIG with position, ERR_LIMIT, ERR_NOMEM
 * own:  caller, scyaml_close */
int scyaml_open(
    struct scyaml *y, const char *where, const char *text, int64_t n, struct scyaml_pool *pool);
void scyaml_close(struct scyaml *y);

/* Kinds of field and the C type behind offset. Zero (NULL, false) means "not given". */
enum scyaml_kind {
    SCYAML_STR,   /* const char * */
    SCYAML_I32,   /* int32_t, lo..hi */
    SCYAML_I64,   /* int64_t, lo..hi */
    SCYAML_F64,   /* double, lo..hi */
    SCYAML_NS,    /* int64_t nanoseconds: "250ms" */
    SCYAML_BYTES, /* int64_t bytes: "16GiB" */
    SCYAML_NODE   /* the caller reads it with scyaml_get */
};

struct scyaml_field {
    const char *name;
    enum scyaml_kind kind;
    bool need; /* must be present */
    size_t offset;
    double lo; /* numbers: lowest and highest accepted value */
    double hi;
};

/* Reads a mapping into base by its table. title names the mapping in errors ("target \"base\"").
 * err: ERR_CONFIG: no mapping, unknown key with the nearest known one, missing key, bad value */
int scyaml_fields(const struct scyaml *y,
                  struct fy_node *map,
                  const char *title,
                  const struct scyaml_field *fields,
                  int32_t n,
                  void *base);

/* Prints the needed and the given (non-zero) fields of base, one "key: value" a line, indented.
 * err: ERR_LIMIT, ERR_NOMEM */
int scyaml_print(
    struct buf *b, int32_t indent, const struct scyaml_field *fields, int32_t n, const void *base);

/* Prints a quoted YAML string that reads back as s; a number that reads back as v. */
int scyaml_print_str(struct buf *b, const char *s);
int scyaml_print_f64(struct buf *b, double v);

/* Value of a key; NULL when absent. own: the document */
struct fy_node *scyaml_get(struct fy_node *map, const char *key);

/* The only entry of a mapping such as {poisson: {...}}; its key must be among names.
 * out: index of the name and the value node */
int scyaml_choice(const struct scyaml *y,
                  struct fy_node *node,
                  const char *title,
                  const char *const *names,
                  int32_t n,
                  int32_t *which,
                  struct fy_node **value);

/* Entry i of a mapping or element i of a sequence; false past the end. */
bool scyaml_entry(struct fy_node *map, int32_t i, struct fy_node **key, struct fy_node **value);
struct fy_node *scyaml_item(struct fy_node *seq, int32_t i);
int32_t scyaml_n_items(struct fy_node *seq);

/* True for a mapping, a sequence, a null or absent value. */
bool scyaml_is_map(struct fy_node *n);
bool scyaml_is_seq(struct fy_node *n);
bool scyaml_is_null(struct fy_node *n);

/* The text of a scalar, kept in the pool. err: ERR_CONFIG when it is none */
int scyaml_scalar(const struct scyaml *y, struct fy_node *n, const char *title, const char **out);

/* Sets ERR_CONFIG "where:line:column: ..." at the node and returns it. */
int scyaml_error(const struct scyaml *y, struct fy_node *n, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
