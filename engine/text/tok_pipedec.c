/* tokenizer.json: decoder. Each type becomes a step of tok_dec.c, in order; without any, tokens are
 * joined by blanks. WordPiece and CTC are refused by name.
 * src: tokenizers, decoders/ */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { STRIP_MAX = 1 << 20 };

static int add(struct tok_reader *r, struct tok_dec d) {
    if (r->cfg.n_dec == TOK_DEC_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d decoders", r->cfg.where, TOK_DEC_MAX);
    }
    r->cfg.dec[r->cfg.n_dec++] = d;
    return 0;
}

static int replace(struct tok_reader *r, const json_t *o) {
    struct tok_dec d = {0};
    bool regex = false;
    int rc = tok_pipe_pattern(r, o, &d.from, &regex);
    const json_t *to = rc ? NULL : tok_pipe_string(r, o, "content", &rc);
    if (rc) {
        return rc;
    }
    d.kind = regex ? TOK_DEC_REGEX : TOK_DEC_REPLACE;
    d.to = tok_json_str(to);
    return add(r, d);
}

static int strip(struct tok_reader *r, const json_t *o) {
    struct tok_dec d = {.kind = TOK_DEC_STRIP};
    int rc = json_opt_i32(o, r->cfg.where, "start", 0, STRIP_MAX, &d.start);
    rc = rc ? rc : json_opt_i32(o, r->cfg.where, "stop", 0, STRIP_MAX, &d.stop);
    const json_t *content = rc ? NULL : tok_pipe_string(r, o, "content", &rc);
    if (rc) {
        return rc;
    }
    struct tok_str s = tok_json_str(content);
    if (s.n == 0 || utf8_get((const uint8_t *)s.p, &d.cp) != s.n) {
        return err_set(ERR_FORMAT, "%s: Strip of \"%.64s\", want one character", r->cfg.where, s.p);
    }
    return add(r, d);
}

static int metaspace(struct tok_reader *r, const json_t *o) {
    struct tok_step s;
    bool split;
    int rc = tok_pipe_metaspace(r, o, &s, &split);
    return rc ? rc
              : add(r, (struct tok_dec){.kind = TOK_DEC_META,
                                        .from = s.pattern,
                                        .prefix = s.prefix != TOK_PREFIX_NEVER});
}

static int suffix(struct tok_reader *r, const json_t *o) {
    static const char word_end[] = "</w>";
    struct tok_dec d = {.kind = TOK_DEC_SUFFIX, .from = {word_end, (int32_t)sizeof word_end - 1}};
    const json_t *v = json_object_get(o, "suffix");
    if (json_is_string(v)) {
        d.from = tok_json_str(v);
    }
    return add(r, d);
}

static int decoder(struct tok_reader *r, const json_t *o, const char *type) {
    static const struct {
        const char *type;
        enum tok_dec_kind kind;
    } plain[] = {
        {"ByteLevel", TOK_DEC_BYTES}, {"ByteFallback", TOK_DEC_FALLBACK}, {"Fuse", TOK_DEC_FUSE}};
    static const struct {
        const char *type;
        int (*read)(struct tok_reader *r, const json_t *o);
    } other[] = {
        {"Replace", replace}, {"Strip", strip}, {"Metaspace", metaspace}, {"BPEDecoder", suffix}};
    for (int32_t i = 0; i < ARRAY_LEN(plain); i++) {
        if (strcmp(type, plain[i].type) == 0) {
            return add(r, (struct tok_dec){.kind = plain[i].kind});
        }
    }
    for (int32_t i = 0; i < ARRAY_LEN(other); i++) {
        if (strcmp(type, other[i].type) == 0) {
            return other[i].read(r, o);
        }
    }
    return tok_pipe_unsupported(r, "decoder", type);
}

int tok_pipedec_read(struct tok_reader *r) {
    const json_t *dec = json_object_get(r->root, "decoder");
    if (!dec || json_is_null(dec)) {
        return add(r, (struct tok_dec){.kind = TOK_DEC_BLANKS});
    }
    return tok_pipe_each(r, dec, "decoder", "decoders", decoder);
}
