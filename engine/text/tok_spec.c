/* A tokenizer out of plain arrays, as a GGUF file holds them.
 * src: ggml, docs/gguf.md, "Tokenizer"; llama.cpp, llama-vocab.cpp for what the family names imply
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static const char blank_mark[] = "\xe2\x96\x81"; /* U+2581 */

/* Splits "left right" at the first blank behind the first character. */
static int cut_merge(struct tok_str s, int32_t i, struct tok_str *lr) {
    const char *blank = s.n > 1 ? memchr(s.p + 1, ' ', (size_t)s.n - 1) : NULL;
    if (!blank || blank + 1 == s.p + s.n) {
        return err_set(ERR_FORMAT, "merge %d is \"%.*s\", want two texts and a blank", i, s.n, s.p);
    }
    lr[0] = (struct tok_str){s.p, (int32_t)(blank - s.p)};
    lr[1] = (struct tok_str){blank + 1, (int32_t)(s.p + s.n - blank) - 1};
    return 0;
}

static int spec_arrays(const struct tok_spec *s,
                       struct tok_cfg *c,
                       struct tok_str *merge,
                       struct tok_added *added) {
    for (int32_t i = 0; i < s->n_merges && merge; i++) {
        int rc = cut_merge(s->merges[i], i, merge + 2 * (int64_t)i);
        if (rc) {
            return rc;
        }
    }
    for (int32_t i = 0; i < s->n_vocab && s->kind; i++) {
        bool special = s->kind[i] == TOK_CONTROL || s->kind[i] == TOK_UNKNOWN;
        if (special || s->kind[i] == TOK_USER) {
            added[c->n_added++] =
                (struct tok_added){.text = s->text[i], .id = i, .special = special};
        }
    }
    c->merge = merge;
    c->added = added;
    c->kind = s->kind;
    return 0;
}

static int spec_byte_level(const struct tok_spec *s, struct tok_cfg *c, bool *bos) {
    c->byte_level = true;
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_BYTES};
    if (s->nfc) {
        c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_FORM, .form = (int32_t)UTF8_NFC};
    }
    if (s->pre) {
        c->n_norm = 0;
        return tok_pre_named(c->where, s->pre, c, bos);
    }
    if (s->n_steps > TOK_STEPS_MAX || s->n_steps < 0) {
        return err_set(ERR_LIMIT, "%d pre-tokenizer steps, at most %d", s->n_steps, TOK_STEPS_MAX);
    }
    for (int32_t i = 0; i < s->n_steps; i++) {
        c->step[i] = s->steps[i];
    }
    c->n_steps = s->n_steps;
    if (c->n_steps == 0) {
        c->step[c->n_steps++] = tok_pre_gpt2();
    }
    return 0;
}

static void spec_spm(const struct tok_spec *s, const double *score, struct tok_cfg *c) {
    struct tok_str mark = {blank_mark, 3};
    struct tok_str blank = {" ", 1};
    c->score = score;
    c->byte_fallback = true;
    c->fuse_unk = true;
    if (!s->no_prefix_space) {
        c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_PREPEND, .to = mark};
    }
    c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_REPLACE, .from = blank, .to = mark};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_REPLACE, .from = mark, .to = blank};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_FALLBACK};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_FUSE};
    if (!s->no_prefix_space) {
        c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_STRIP, .start = 1, .cp = ' '};
    }
}

static int spec_check(const struct tok_spec *s) {
    if (s->n_vocab < 1 || s->n_vocab > TOK_VOCAB_MAX || s->n_merges < 0 || s->n_eos < 0 ||
        s->n_eos > TOK_EOS_MAX) {
        return err_set(ERR_LIMIT, "%s: %d tokens (1..%d), %d merges, %d eos ids (0..%d)", s->where,
                       s->n_vocab, TOK_VOCAB_MAX, s->n_merges, s->n_eos, TOK_EOS_MAX);
    }
    if (s->model == TOK_MODEL_SPM && !s->score) {
        return err_set(ERR_FORMAT, "%s: a SentencePiece vocabulary without scores", s->where);
    }
    return 0;
}

/* Settings that are no arrays. */
static void spec_settings(const struct tok_spec *s, bool bos, struct tok_cfg *c) {
    c->ignore_merges = c->ignore_merges || s->ignore_merges;
    c->unk = s->has_unk ? s->unk : -1;
    c->bos = s->has_bos ? s->bos : -1;
    c->n_eos = s->n_eos;
    memcpy(c->eos, s->eos, sizeof c->eos);
    if ((s->add_bos_told ? s->add_bos : s->add_bos || bos) && s->has_bos) {
        c->prefix[c->n_prefix++] = s->bos;
    }
    if (s->add_eos && s->n_eos > 0) {
        c->suffix[c->n_suffix++] = s->eos[0];
    }
}

int tok_create(const struct tok_spec *s, struct tok **out) {
    int rc = spec_check(s);
    if (rc) {
        return rc;
    }
    struct tok_cfg c = {.where = s->where,
                        .n_vocab = s->n_vocab,
                        .text = s->text,
                        .chat_template = s->chat_template};
    bool bpe = s->model == TOK_MODEL_BYTE_BPE;
    bool bos = false;
    c.n_merges = bpe ? s->n_merges : 0;
    struct tok_str *merge =
        bpe ? mem_array(MEM_TEXT, 2 * (int64_t)s->n_merges, sizeof *merge) : NULL;
    double *score = bpe ? NULL : mem_array(MEM_TEXT, s->n_vocab, sizeof *score);
    struct tok_added *added = mem_array(MEM_TEXT, s->n_vocab, sizeof *added);
    rc = (bpe ? !merge : !score) || !added ? ERR_NOMEM : spec_arrays(s, &c, merge, added);
    for (int32_t i = 0; i < s->n_vocab && !rc && score; i++) {
        score[i] = (double)s->score[i];
    }
    if (!rc && bpe) {
        rc = spec_byte_level(s, &c, &bos);
    } else if (!rc) {
        spec_spm(s, score, &c);
    }
    spec_settings(s, bos, &c);
    rc = rc ? rc : tok_build(&c, out);
    mem_free(merge);
    mem_free(score);
    mem_free(added);
    return rc;
}
