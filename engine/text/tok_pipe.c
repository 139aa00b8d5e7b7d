/* tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.
 *
 * Every component is an object with a "type"; "Sequence" nests. A type is mapped to a step, or
 * refused by its name: a tokenizer that is nearly right is worse than none.
 *
 *     normalizer      NFC NFD NFKC NFKD Prepend Replace(String) Sequence
 *     pre_tokenizer   ByteLevel Split Digits Punctuation Whitespace WhitespaceSplit Metaspace
 * Sequence post_processor  ByteLevel TemplateProcessing Sequence decoder         ByteLevel
 * Metaspace-free sequences of Replace ByteFallback Fuse Strip
 *
 * ByteLevel must be the last pre-tokenizer, since bytes are tokens behind it.
 * src: tokenizers, normalizers/, pre_tokenizers/, processors/template.rs, decoders/ */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { NEST_MAX = 8 };

static int unsupported(const struct tok_reader *r, const char *part, const char *what) {
    return err_set(ERR_UNSUPPORTED, "%s: %s \"%.64s\"", r->cfg.where, part, what);
}

typedef int (*component_fn)(struct tok_reader *r, const json_t *o, const char *type);

/* Calls f for o, or for each member of a Sequence of such. */
static int each(struct tok_reader *r,
                const json_t *o,
                const char *part,
                const char *list,
                int32_t depth,
                component_fn f) {
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

static const json_t *
need_string(const struct tok_reader *r, const json_t *o, const char *key, int *rc) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v)) {
        *rc = err_set(ERR_FORMAT, "%s: \"%s\" is missing or no string", r->cfg.where, key);
        return NULL;
    }
    return v;
}

static int normalizer(struct tok_reader *r, const json_t *o, const char *type) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    struct tok_cfg *c = &r->cfg;
    struct tok_norm s = {0};
    int rc = 0;
    if (c->n_norm == TOK_NORM_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d normalizers", c->where, TOK_NORM_MAX);
    }
    for (int32_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (strcmp(type, forms[i]) == 0) {
            s = (struct tok_norm){.kind = TOK_NORM_FORM, .form = i};
            c->norm[c->n_norm++] = s;
            return 0;
        }
    }
    if (strcmp(type, "Prepend") == 0) {
        const json_t *text = need_string(r, o, "prepend", &rc);
        if (!rc) {
            c->norm[c->n_norm++] =
                (struct tok_norm){.kind = TOK_NORM_PREPEND, .to = tok_json_str(text)};
        }
        return rc;
    }
    if (strcmp(type, "Replace") != 0) {
        return unsupported(r, "normalizer", type);
    }
    const json_t *from = json_object_get(json_object_get(o, "pattern"), "String");
    const json_t *to = need_string(r, o, "content", &rc);
    if (!rc && (!json_is_string(from) || json_string_length(from) == 0)) {
        return unsupported(r, "normalizer", "Replace without a String pattern");
    }
    if (!rc) {
        c->norm[c->n_norm++] = (struct tok_norm){
            .kind = TOK_NORM_REPLACE, .from = tok_json_str(from), .to = tok_json_str(to)};
    }
    return rc;
}

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
    return rc ? rc : unsupported(r, "split behavior", name);
}

static int split(struct tok_reader *r, const json_t *o) {
    const json_t *pattern = json_object_get(o, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *p = regex ? regex : string;
    struct tok_step s = {.kind = regex ? TOK_STEP_REGEX : TOK_STEP_STRING};
    if (!json_is_string(p)) {
        return err_set(ERR_FORMAT, "%s: Split without a Regex or String pattern", r->cfg.where);
    }
    s.pattern = tok_json_str(p);
    int rc = behavior(r, o, &s.behavior);
    rc = rc ? rc : json_opt_bool(o, r->cfg.where, "invert", &s.invert);
    return rc ? rc : add_step(r, s);
}

static int byte_level(struct tok_reader *r, const json_t *o) {
    bool prefix = true;
    bool regex = true;
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

static int metaspace(struct tok_reader *r, const json_t *o) {
    static const char *const schemes[] = {"never", "first", "always"};
    static const char mark[] = "\xe2\x96\x81";
    const char *where = r->cfg.where;
    const char *replacement = mark;
    const char *scheme = NULL;
    bool prefix = true;
    bool cut = true;
    int rc = json_opt_str(o, where, "replacement", &replacement);
    rc = rc ? rc : json_opt_bool(o, where, "add_prefix_space", &prefix);
    rc = rc ? rc : json_opt_str(o, where, "prepend_scheme", &scheme);
    rc = rc ? rc : json_opt_bool(o, where, "split", &cut);
    if (rc) {
        return rc;
    }
    if (strcmp(replacement, mark) != 0) {
        return unsupported(r, "Metaspace replacement", replacement);
    }
    scheme = scheme ? scheme : prefix ? "always" : "never";
    for (int32_t i = 0; i < ARRAY_LEN(schemes); i++) {
        if (strcmp(scheme, schemes[i]) != 0) {
            continue;
        }
        rc = add_step(r,
                      (struct tok_step){.kind = TOK_STEP_METASPACE, .prefix = (enum tok_prefix)i});
        if (!rc && cut) {
            rc = add_step(r, (struct tok_step){.kind = TOK_STEP_STRING,
                                               .behavior = TOK_MERGED_WITH_NEXT,
                                               .pattern = {mark, 3}});
        }
        return rc;
    }
    return unsupported(r, "Metaspace prepend_scheme", scheme);
}

static int pre_tokenizer(struct tok_reader *r, const json_t *o, const char *type) {
    static const char words[] =
        "[\\w\\p{Nl}\\x{200c}\\x{200d}]+|[^\\w\\p{Nl}\\x{200c}\\x{200d}\\s]+";
    struct tok_step s = {.behavior = TOK_ISOLATED};
    int rc = 0;
    if (r->cfg.byte_level) {
        return unsupported(r, "pre_tokenizer behind ByteLevel", type);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return byte_level(r, o);
    }
    if (strcmp(type, "Split") == 0) {
        return split(r, o);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return metaspace(r, o);
    }
    if (strcmp(type, "Digits") == 0) {
        bool individual = false;
        rc = json_opt_bool(o, r->cfg.where, "individual_digits", &individual);
        s.kind = TOK_STEP_NUMBERS;
        s.behavior = individual ? TOK_ISOLATED : TOK_CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        rc = behavior(r, o, &s.behavior);
        s.kind = TOK_STEP_PUNCT;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        s.kind = TOK_STEP_SPACES;
        s.behavior = TOK_REMOVED;
    } else if (strcmp(type, "Whitespace") == 0) {
        s.kind = TOK_STEP_REGEX;
        s.behavior = TOK_REMOVED;
        s.invert = true;
        s.pattern = (struct tok_str){words, (int32_t)sizeof words - 1};
    } else {
        return unsupported(r, "pre_tokenizer", type);
    }
    return rc ? rc : add_step(r, s);
}

/* Adds the ids of special token `name` of a template in front or behind. */
static int affix(struct tok_reader *r, const json_t *specials, const char *name, bool front) {
    const json_t *ids = json_object_get(json_object_get(specials, name), "ids");
    if (!json_is_array(ids)) {
        return err_set(ERR_FORMAT, "%s: post_processor: \"%.64s\" has no ids", r->cfg.where, name);
    }
    int32_t *n = front ? &r->cfg.n_prefix : &r->cfg.n_suffix;
    int32_t *list = front ? r->cfg.prefix : r->cfg.suffix;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        if (*n == TOK_AFFIX_MAX || id < 0 || id >= TOK_VOCAB_MAX) {
            return err_set(ERR_LIMIT, "%s: post_processor: over %d ids, or id %lld", r->cfg.where,
                           TOK_AFFIX_MAX, (long long)id);
        }
        list[(*n)++] = (int32_t)id;
    }
    return 0;
}

static int post_processor(struct tok_reader *r, const json_t *o, const char *type) {
    if (strcmp(type, "ByteLevel") == 0) {
        return 0;
    }
    if (strcmp(type, "TemplateProcessing") != 0) {
        return unsupported(r, "post_processor", type);
    }
    const json_t *single = json_object_get(o, "single");
    const json_t *specials = json_object_get(o, "special_tokens");
    bool front = true;
    int rc = 0;
    for (size_t i = 0; i < json_array_size(single) && !rc; i++) {
        const json_t *e = json_array_get(single, i);
        const json_t *special = json_object_get(e, "SpecialToken");
        const char *name = NULL;
        if (!special) {
            front = false;
            continue;
        }
        rc = json_need_str(special, r->cfg.where, "id", &name);
        rc = rc ? rc : affix(r, specials, name, front);
    }
    return rc;
}

static int strip(struct tok_reader *r, const json_t *o) {
    struct tok_dec *d = &r->cfg.dec;
    int32_t start = 0;
    int32_t stop = 0;
    int rc = json_opt_i32(o, r->cfg.where, "start", 0, 1 << 20, &start);
    rc = rc ? rc : json_opt_i32(o, r->cfg.where, "stop", 0, 1 << 20, &stop);
    const json_t *content = rc ? NULL : need_string(r, o, "content", &rc);
    if (rc) {
        return rc;
    }
    const char *p = json_string_value(content);
    uint32_t cp = 0;
    int32_t len = json_string_length(content) > 0 ? utf8_get((const uint8_t *)p, &cp) : 0;
    if (stop > 0 || (size_t)len != json_string_length(content) || len == 0 || d->strip > 0) {
        return unsupported(r, "decoder", "Strip at the end, twice, or of no single character");
    }
    d->strip = start;
    d->strip_cp = cp;
    return 0;
}

static int decoder(struct tok_reader *r, const json_t *o, const char *type) {
    struct tok_dec *d = &r->cfg.dec;
    int rc = 0;
    if (strcmp(type, "ByteLevel") == 0) {
        d->kind = TOK_DEC_BYTE_LEVEL;
        return 0;
    }
    if (strcmp(type, "ByteFallback") == 0) {
        d->byte_fallback = true;
        return 0;
    }
    if (strcmp(type, "Fuse") == 0) {
        return 0;
    }
    if (strcmp(type, "Strip") == 0) {
        return strip(r, o);
    }
    if (strcmp(type, "Replace") != 0 || d->from.n > 0 || d->byte_fallback) {
        return unsupported(r, "decoder (or its place)", type);
    }
    const json_t *from = json_object_get(json_object_get(o, "pattern"), "String");
    const json_t *to = need_string(r, o, "content", &rc);
    if (!rc && !json_is_string(from)) {
        return unsupported(r, "decoder", "Replace without a String pattern");
    }
    if (!rc) {
        d->from = tok_json_str(from);
        d->to = tok_json_str(to);
    }
    return rc;
}

int tok_pipe_read(struct tok_reader *r) {
    const json_t *dec = json_object_get(r->root, "decoder");
    if (!dec || json_is_null(dec)) {
        return unsupported(r, "decoder", "null");
    }
    r->cfg.dec.kind = TOK_DEC_CHARS;
    int rc =
        each(r, json_object_get(r->root, "normalizer"), "normalizer", "normalizers", 0, normalizer);
    rc = rc ? rc
            : each(r, json_object_get(r->root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers",
                   0, pre_tokenizer);
    rc = rc ? rc
            : each(r, json_object_get(r->root, "post_processor"), "post_processor", "processors", 0,
                   post_processor);
    return rc ? rc : each(r, dec, "decoder", "decoders", 0, decoder);
}
