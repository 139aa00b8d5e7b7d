/* tokenizer.json: normalizer, pre_tokenizer, post_processor (the decoder is in tok_pipedec.c).
 *
 * Every component is an object with a "type"; "Sequence" nests. A type is looked up in a table and
 * mapped to a step, or refused by its name: a tokenizer that is nearly right is worse than none.
 * The ids that a post-processor adds around the text are kept; offsets and pairs are not ours, nor
 * are "truncation" and "padding".
 *
 * src: tokenizers, normalizers/, pre_tokenizers/, processors/ */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { NEST_MAX = 8, CHARSMAP_MAX = 1 << 26 };

/* A type's name and its reader. */
struct part {
    const char *type;
    tok_component read;
};

int tok_pipe_unsupported(const struct tok_reader *r, const char *part, const char *what) {
    return err_set(ERR_UNSUPPORTED, "%s: %s \"%.64s\"", r->cfg.where, part, what);
}

static int each(struct tok_reader *r,
                const json_t *o,
                const char *part,
                const char *list,
                int32_t depth,
                tok_component f) {
    const char *type = NULL;
    if (!o || json_is_null(o)) {
        return 0;
    }
    int rc = json_need_str(o, r->cfg.where, "type", &type);
    if (rc) {
        return err_ctx(rc, "%s", part);
    }
    if (strcmp(type, "Sequence") != 0) {
        return f(r, o, type);
    }
    const json_t *members = json_object_get(o, list);
    if (!json_is_array(members) || depth >= NEST_MAX) {
        return err_set(ERR_FORMAT, "%s: %s: a Sequence without \"%s\", or nested over %d deep",
                       r->cfg.where, part, list, NEST_MAX);
    }
    for (size_t i = 0; i < json_array_size(members) && !rc; i++) {
        rc = each(r, json_array_get(members, i), part, list, depth + 1, f);
    }
    return rc;
}

int tok_pipe_each(
    struct tok_reader *r, const json_t *o, const char *part, const char *list, tok_component f) {
    return each(r, o, part, list, 0, f);
}

const json_t *
tok_pipe_string(const struct tok_reader *r, const json_t *o, const char *key, int *rc) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v)) {
        *rc = err_set(ERR_FORMAT, "%s: \"%s\" is missing or no string", r->cfg.where, key);
        return NULL;
    }
    return v;
}

int tok_pipe_pattern(const struct tok_reader *r,
                     const json_t *o,
                     struct tok_str *out,
                     bool *regex) {
    const json_t *pattern = json_object_get(o, "pattern");
    const json_t *re = json_object_get(pattern, "Regex");
    const json_t *p = re ? re : json_object_get(pattern, "String");
    if (!json_is_string(p) || json_string_length(p) == 0) {
        return err_set(ERR_FORMAT, "%s: \"pattern\" is no {\"Regex\"} or {\"String\"} with a text",
                       r->cfg.where);
    }
    *out = tok_json_str(p);
    *regex = re != NULL;
    return 0;
}

static int dispatch(struct tok_reader *r,
                    const json_t *o,
                    const char *type,
                    const struct part *part,
                    int32_t n,
                    const char *name) {
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(type, part[i].type) == 0) {
            return part[i].read(r, o, type);
        }
    }
    return tok_pipe_unsupported(r, name, type);
}

/* Normalizers. */

static int add_norm(struct tok_reader *r, struct tok_norm s) {
    if (r->cfg.n_norm == TOK_NORM_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d normalizers", r->cfg.where, TOK_NORM_MAX);
    }
    r->cfg.norm[r->cfg.n_norm++] = s;
    return 0;
}

static int norm_form(struct tok_reader *r, const json_t *o, const char *type) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    int32_t form = 0;
    (void)o;
    while (form + 1 < ARRAY_LEN(forms) && strcmp(type, forms[form]) != 0) {
        form++;
    }
    return add_norm(r, (struct tok_norm){.kind = TOK_NORM_FORM, .form = form});
}

/* Those without settings. */
static int norm_plain(struct tok_reader *r, const json_t *o, const char *type) {
    static const struct {
        const char *type;
        enum tok_norm_kind kind;
    } plain[] = {{"Lowercase", TOK_NORM_LOWER},
                 {"StripAccents", TOK_NORM_MARKS},
                 {"Nmt", TOK_NORM_NMT},
                 {"ByteLevel", TOK_NORM_BYTES}};
    int32_t i = 0;
    (void)o;
    while (i + 1 < ARRAY_LEN(plain) && strcmp(type, plain[i].type) != 0) {
        i++;
    }
    return add_norm(r, (struct tok_norm){.kind = plain[i].kind});
}

static int norm_strip(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_norm s = {.kind = TOK_NORM_STRIP, .left = true, .right = true};
    (void)type;
    int rc = json_opt_bool(o, r->cfg.where, "strip_left", &s.left);
    rc = rc ? rc : json_opt_bool(o, r->cfg.where, "strip_right", &s.right);
    return rc ? rc : add_norm(r, s);
}

static int norm_bert(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_norm s = {.kind = TOK_NORM_BERT, .clean = true, .chinese = true, .lower = true};
    const char *where = r->cfg.where;
    (void)type;
    int rc = json_opt_bool(o, where, "clean_text", &s.clean);
    rc = rc ? rc : json_opt_bool(o, where, "handle_chinese_chars", &s.chinese);
    rc = rc ? rc : json_opt_bool(o, where, "lowercase", &s.lower);
    s.marks = s.lower;
    rc = rc ? rc : json_opt_bool(o, where, "strip_accents", &s.marks);
    return rc ? rc : add_norm(r, s);
}

static int norm_prepend(struct tok_reader *r, const json_t *o, const char *type) {
    int rc = 0;
    (void)type;
    const json_t *text = tok_pipe_string(r, o, "prepend", &rc);
    return rc ? rc
              : add_norm(r, (struct tok_norm){.kind = TOK_NORM_PREPEND, .to = tok_json_str(text)});
}

static int norm_replace(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_norm s = {0};
    bool regex = false;
    (void)type;
    int rc = tok_pipe_pattern(r, o, &s.from, &regex);
    const json_t *to = rc ? NULL : tok_pipe_string(r, o, "content", &rc);
    if (rc) {
        return rc;
    }
    s.kind = regex ? TOK_NORM_REGEX : TOK_NORM_REPLACE;
    s.to = tok_json_str(to);
    return add_norm(r, s);
}

static int norm_charsmap(struct tok_reader *r, const json_t *o, const char *type) {
    int rc = 0;
    (void)type;
    const json_t *map = tok_pipe_string(r, o, "precompiled_charsmap", &rc);
    if (!rc && r->more.len > 0) {
        rc = tok_pipe_unsupported(r, "normalizer", "Precompiled, twice");
    }
    rc = rc ? rc : tok_base64(json_string_value(map), (int64_t)json_string_length(map), &r->more);
    if (rc) {
        return err_ctx(rc, "%s: precompiled_charsmap", r->cfg.where);
    }
    struct tok_str from = {buf_cstr(&r->more), (int32_t)r->more.len};
    return add_norm(r, (struct tok_norm){.kind = TOK_NORM_CHARSMAP, .from = from});
}

static int normalizer(struct tok_reader *r, const json_t *o, const char *type) {
    static const struct part parts[] = {
        {"NFC", norm_form},
        {"NFD", norm_form},
        {"NFKC", norm_form},
        {"NFKD", norm_form},
        {"Lowercase", norm_plain},
        {"StripAccents", norm_plain},
        {"Nmt", norm_plain},
        {"ByteLevel", norm_plain},
        {"Strip", norm_strip},
        {"BertNormalizer", norm_bert},
        {"Prepend", norm_prepend},
        {"Replace", norm_replace},
        {"Precompiled", norm_charsmap},
    };
    return dispatch(r, o, type, parts, ARRAY_LEN(parts), "normalizer");
}

/* Pre-tokenizers. */

static int add_step(struct tok_reader *r, struct tok_step s) {
    if (r->cfg.n_steps == TOK_STEPS_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d pre-tokenizer steps", r->cfg.where,
                       TOK_STEPS_MAX);
    }
    r->cfg.step[r->cfg.n_steps++] = s;
    return 0;
}

static int behavior(const struct tok_reader *r, const json_t *o, enum tok_behavior *out) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = "Isolated";
    int rc = json_opt_str(o, r->cfg.where, "behavior", &name);
    for (int32_t i = 0; i < ARRAY_LEN(names) && !rc; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum tok_behavior)i;
            return 0;
        }
    }
    return rc ? rc : tok_pipe_unsupported(r, "split behavior", name);
}

static int pre_split(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_step s = {.kind = TOK_STEP_STRING};
    bool regex = false;
    (void)type;
    int rc = tok_pipe_pattern(r, o, &s.pattern, &regex);
    s.kind = regex ? TOK_STEP_REGEX : TOK_STEP_STRING;
    rc = rc ? rc : behavior(r, o, &s.behavior);
    rc = rc ? rc : json_opt_bool(o, r->cfg.where, "invert", &s.invert);
    return rc ? rc : add_step(r, s);
}

static int pre_byte_level(struct tok_reader *r, const json_t *o, const char *type) {
    bool prefix = true;
    bool regex = true;
    (void)type;
    int rc = json_opt_bool(o, r->cfg.where, "add_prefix_space", &prefix);
    rc = rc ? rc : json_opt_bool(o, r->cfg.where, "use_regex", &regex);
    if (!rc && prefix) {
        rc = add_step(r, (struct tok_step){.kind = TOK_STEP_BYTE_LEVEL, .prefix_space = true});
    }
    if (!rc && regex) {
        rc = add_step(r, tok_pre_gpt2());
    }
    r->cfg.byte_level = true;
    return rc;
}

/* One character. */
static int
one_char(const struct tok_reader *r, const json_t *o, const char *key, struct tok_str *out) {
    int rc = 0;
    const json_t *v = tok_pipe_string(r, o, key, &rc);
    if (rc) {
        return rc;
    }
    *out = tok_json_str(v);
    if (utf8_count((const uint8_t *)out->p, out->n) != 1) {
        return err_set(ERR_FORMAT, "%s: \"%s\" is \"%.64s\", want one character", r->cfg.where, key,
                       out->p);
    }
    return 0;
}

int tok_pipe_metaspace(struct tok_reader *r, const json_t *o, struct tok_step *out, bool *split) {
    static const char *const schemes[] = {"never", "first", "always"};
    const char *where = r->cfg.where;
    const char *scheme = "always";
    bool prefix = true;
    struct tok_step s = {.kind = TOK_STEP_METASPACE};
    *split = true;
    int rc = one_char(r, o, "replacement", &s.pattern);
    rc = rc ? rc : json_opt_bool(o, where, "add_prefix_space", &prefix);
    rc = rc ? rc : json_opt_str(o, where, "prepend_scheme", &scheme);
    rc = rc ? rc : json_opt_bool(o, where, "split", split);
    if (!rc && !prefix && json_object_get(o, "prepend_scheme") && strcmp(scheme, "never") != 0) {
        rc = err_set(ERR_FORMAT,
                     "%s: Metaspace with prepend_scheme \"%.16s\" and without "
                     "add_prefix_space",
                     where, scheme);
    }
    if (rc) {
        return rc;
    }
    scheme = prefix ? scheme : "never";
    for (int32_t i = 0; i < ARRAY_LEN(schemes); i++) {
        if (strcmp(scheme, schemes[i]) == 0) {
            s.prefix = (enum tok_prefix)i;
            *out = s;
            return 0;
        }
    }
    return tok_pipe_unsupported(r, "Metaspace prepend_scheme", scheme);
}

static int pre_metaspace(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_step s;
    bool split = true;
    (void)type;
    int rc = tok_pipe_metaspace(r, o, &s, &split);
    rc = rc ? rc : add_step(r, s);
    if (!rc && split) {
        rc = add_step(r, (struct tok_step){.kind = TOK_STEP_STRING,
                                           .behavior = TOK_MERGED_WITH_NEXT,
                                           .pattern = s.pattern});
    }
    return rc;
}

static int pre_digits(struct tok_reader *r, const json_t *o, const char *type) {
    bool individual = false;
    (void)type;
    int rc = json_opt_bool(o, r->cfg.where, "individual_digits", &individual);
    return rc ? rc
              : add_step(r,
                         (struct tok_step){.kind = TOK_STEP_NUMBERS,
                                           .behavior = individual ? TOK_ISOLATED : TOK_CONTIGUOUS});
}

static int pre_punctuation(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_step s = {.kind = TOK_STEP_PUNCT};
    (void)type;
    int rc = behavior(r, o, &s.behavior);
    return rc ? rc : add_step(r, s);
}

static int pre_whitespace(struct tok_reader *r, const json_t *o, const char *type) {
    /* \w of Rust, which takes letter-like signs and joiners, too */
    static const char words[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+|"
                                "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}\\s]+";
    (void)o;
    (void)type;
    return add_step(r, (struct tok_step){.kind = TOK_STEP_REGEX,
                                         .behavior = TOK_REMOVED,
                                         .invert = true,
                                         .pattern = {words, (int32_t)sizeof words - 1}});
}

static int pre_blanks(struct tok_reader *r, const json_t *o, const char *type) {
    (void)o;
    int rc = add_step(r, (struct tok_step){.kind = TOK_STEP_SPACES, .behavior = TOK_REMOVED});
    if (!rc && strcmp(type, "BertPreTokenizer") == 0) {
        rc = add_step(r, (struct tok_step){.kind = TOK_STEP_PUNCT, .behavior = TOK_ISOLATED});
    }
    return rc;
}

static int pre_delimiter(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_step s = {.kind = TOK_STEP_STRING, .behavior = TOK_REMOVED};
    (void)type;
    int rc = one_char(r, o, "delimiter", &s.pattern);
    return rc ? rc : add_step(r, s);
}

static int pre_scripts(struct tok_reader *r, const json_t *o, const char *type) {
    (void)o;
    (void)type;
    return add_step(r, (struct tok_step){.kind = TOK_STEP_SCRIPTS});
}

static int pre_length(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_step s = {.kind = TOK_STEP_LENGTH, .length = 5};
    (void)type;
    int rc = json_opt_i32(o, r->cfg.where, "length", 1, TOK_TEXT_MAX, &s.length);
    return rc ? rc : add_step(r, s);
}

/* why: only the last step may leave bytes as they are; what follows ByteLevel sees letters */
static int pre_tokenizer(struct tok_reader *r, const json_t *o, const char *type) {
    static const struct part parts[] = {
        {"ByteLevel", pre_byte_level},         {"Split", pre_split},
        {"Metaspace", pre_metaspace},          {"Digits", pre_digits},
        {"Punctuation", pre_punctuation},      {"Whitespace", pre_whitespace},
        {"WhitespaceSplit", pre_blanks},       {"BertPreTokenizer", pre_blanks},
        {"CharDelimiterSplit", pre_delimiter}, {"UnicodeScripts", pre_scripts},
        {"FixedLength", pre_length},
    };
    int rc = 0;
    if (r->cfg.byte_level) {
        rc = add_step(r, (struct tok_step){.kind = TOK_STEP_LETTERS});
        r->cfg.byte_level = false;
    }
    return rc ? rc : dispatch(r, o, type, parts, ARRAY_LEN(parts), "pre_tokenizer");
}

/* Post-processors. A later one works around what an earlier one made. */

static int put_front(struct tok_reader *r, const int32_t *id, int32_t n) {
    struct tok_cfg *c = &r->cfg;
    if (n > TOK_AFFIX_MAX - c->n_prefix) {
        return err_set(ERR_LIMIT, "%s: post_processor: over %d ids", c->where, TOK_AFFIX_MAX);
    }
    memmove(c->prefix + n, c->prefix, (size_t)c->n_prefix * sizeof *c->prefix);
    memcpy(c->prefix, id, (size_t)n * sizeof *id);
    c->n_prefix += n;
    return 0;
}

static int put_back(struct tok_reader *r, const int32_t *id, int32_t n) {
    struct tok_cfg *c = &r->cfg;
    if (n > TOK_AFFIX_MAX - c->n_suffix) {
        return err_set(ERR_LIMIT, "%s: post_processor: over %d ids", c->where, TOK_AFFIX_MAX);
    }
    memcpy(c->suffix + c->n_suffix, id, (size_t)n * sizeof *id);
    c->n_suffix += n;
    return 0;
}

/* The ids of special token `name` of a template. */
static int
affix(struct tok_reader *r, const json_t *specials, const char *name, int32_t *id, int32_t *n) {
    const json_t *ids = json_object_get(json_object_get(specials, name), "ids");
    if (!json_is_array(ids)) {
        return err_set(ERR_FORMAT, "%s: post_processor: \"%.64s\" has no ids", r->cfg.where, name);
    }
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        json_int_t k = json_is_integer(v) ? json_integer_value(v) : -1;
        if (*n == TOK_AFFIX_MAX || k < 0 || k >= TOK_VOCAB_MAX) {
            return err_set(ERR_LIMIT, "%s: post_processor: over %d ids, or id %lld", r->cfg.where,
                           TOK_AFFIX_MAX, (long long)k);
        }
        id[(*n)++] = (int32_t)k;
    }
    return 0;
}

static int post_template(struct tok_reader *r, const json_t *o, const char *type) {
    const json_t *single = json_object_get(o, "single");
    const json_t *specials = json_object_get(o, "special_tokens");
    int32_t id[2][TOK_AFFIX_MAX];
    int32_t n[2] = {0, 0};
    int32_t n_text = 0;
    int rc = 0;
    (void)type;
    for (size_t i = 0; i < json_array_size(single) && !rc; i++) {
        const json_t *e = json_array_get(single, i);
        const json_t *special = json_object_get(e, "SpecialToken");
        const json_t *text = json_object_get(e, "Sequence");
        const char *name = NULL;
        rc = json_need_str(special ? special : text, r->cfg.where, "id", &name);
        if (!rc && special) {
            int32_t side = n_text > 0;
            rc = affix(r, specials, name, id[side], &n[side]);
        } else if (!rc) {
            n_text += strcmp(name, "A") == 0 ? 1 : 2;
        }
    }
    if (!rc && n_text != 1) {
        return tok_pipe_unsupported(r, "post_processor", "TemplateProcessing, the text not once");
    }
    rc = rc ? rc : put_front(r, id[0], n[0]);
    return rc ? rc : put_back(r, id[1], n[1]);
}

/* "cls": ["<s>", 0] */
static int pair_id(const struct tok_reader *r, const json_t *o, const char *key, int32_t *id) {
    const json_t *v = json_array_get(json_object_get(o, key), 1);
    json_int_t k = json_is_integer(v) ? json_integer_value(v) : -1;
    if (k < 0 || k >= TOK_VOCAB_MAX) {
        return err_set(ERR_FORMAT, "%s: post_processor: \"%s\" is no [text, id]", r->cfg.where,
                       key);
    }
    *id = (int32_t)k;
    return 0;
}

static int post_cls_sep(struct tok_reader *r, const json_t *o, const char *type) {
    int32_t cls = 0;
    int32_t sep = 0;
    (void)type;
    int rc = pair_id(r, o, "cls", &cls);
    rc = rc ? rc : pair_id(r, o, "sep", &sep);
    rc = rc ? rc : put_front(r, &cls, 1);
    return rc ? rc : put_back(r, &sep, 1);
}

static int post_nothing(struct tok_reader *r, const json_t *o, const char *type) {
    (void)r;
    (void)o;
    (void)type;
    return 0;
}

static int post_processor(struct tok_reader *r, const json_t *o, const char *type) {
    static const struct part parts[] = {
        {"ByteLevel", post_nothing},
        {"TemplateProcessing", post_template},
        {"BertProcessing", post_cls_sep},
        {"RobertaProcessing", post_cls_sep},
    };
    return dispatch(r, o, type, parts, ARRAY_LEN(parts), "post_processor");
}

int tok_pipe_read(struct tok_reader *r) {
    const json_t *root = r->root;
    buf_clear(&r->more);
    r->more.max = CHARSMAP_MAX;
    int rc =
        each(r, json_object_get(root, "normalizer"), "normalizer", "normalizers", 0, normalizer);
    rc = rc ? rc
            : each(r, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers", 0,
                   pre_tokenizer);
    return rc ? rc
              : each(r, json_object_get(root, "post_processor"), "post_processor", "processors", 0,
                     post_processor);
}
