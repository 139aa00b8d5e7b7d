/* SentencePiece's tokenizer.model, a protocol buffer.
 *
 *     key = field << 3 | wire    wire 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
 *
 *     ModelProto      1 pieces*   2 trainer_spec   3 normalizer_spec
 *     SentencePiece   1 piece   2 score (float)   3 type (enum tok_kind), 1 when absent
 *     TrainerSpec     3 model_type (1 unigram, 2 bpe)   24 treat_whitespace_as_suffix
 *                     35 byte_fallback   40 unk_id   41 bos_id   42 eos_id
 *     NormalizerSpec  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
 *                     5 escape_whitespaces
 *
 * Fields that are not named here are passed over; groups are refused. Control and unknown pieces
 * are special tokens, found in a text on request only; user-defined ones are symbols that neither
 * the normaliser nor a merge touches.
 * src: google/sentencepiece, sentencepiece_model.proto; protobuf.dev, Encoding */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

enum { WIRE_VARINT, WIRE_8, WIRE_BYTES, WIRE_4 = 5 };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

/* A message being read. */
struct msg {
    const uint8_t *p;
    int64_t n;
    int64_t at;
    const char *where;
};

/* One field. */
struct field {
    uint32_t number;
    uint32_t wire;
    uint64_t value;      /* VARINT; 4 and 8 bytes as they are */
    const uint8_t *data; /* BYTES */
    int64_t n;
};

static int broken(const struct msg *m, const char *what) {
    return err_set(ERR_FORMAT,
                   "%s: not a SentencePiece model: %s at byte %lld of a message of %lld", m->where,
                   what, (long long)m->at, (long long)m->n);
}

static int varint(struct msg *m, uint64_t *out) {
    uint64_t v = 0;
    for (int32_t shift = 0; shift < 70; shift += 7) {
        if (m->at >= m->n) {
            return broken(m, "a number cut off");
        }
        uint8_t b = m->p[m->at++];
        v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
        if (b < 0x80) {
            *out = v;
            return 0;
        }
    }
    return broken(m, "a number of over ten bytes");
}

static int fixed(struct msg *m, int32_t n, uint64_t *out) {
    if (m->n - m->at < n) {
        return broken(m, "a value cut off");
    }
    *out = 0;
    for (int32_t i = 0; i < n; i++) {
        *out |= (uint64_t)m->p[m->at + i] << (8 * i);
    }
    m->at += n;
    return 0;
}

/* out: the next field. in: m->at < m->n */
static int next_field(struct msg *m, struct field *f) {
    uint64_t key = 0;
    int rc = varint(m, &key);
    if (rc) {
        return rc;
    }
    *f = (struct field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    switch (f->wire) {
    case WIRE_VARINT:
        return varint(m, &f->value);
    case WIRE_8:
        return fixed(m, 8, &f->value);
    case WIRE_4:
        return fixed(m, 4, &f->value);
    case WIRE_BYTES:
        rc = varint(m, &f->value);
        if (!rc && f->value > (uint64_t)(m->n - m->at)) {
            rc = broken(m, "bytes cut off");
        }
        if (!rc) {
            f->data = m->p + m->at;
            f->n = (int64_t)f->value;
            m->at += f->n;
        }
        return rc;
    default:
        return broken(m, "a field of an unknown kind");
    }
}

/* What is wanted from the two specs. */
struct spec {
    int64_t model;
    int64_t unk;
    int64_t bos;
    int64_t eos;
    bool suffix;
    bool fallback;
    bool prefix;
    bool squeeze;
    bool escape;
    struct tok_str charsmap;
};

static int trainer(struct msg m, struct spec *s) {
    while (m.at < m.n) {
        struct field f;
        int rc = next_field(&m, &f);
        if (rc) {
            return rc;
        }
        if (f.wire != WIRE_VARINT) {
            continue;
        }
        int64_t v = (int64_t)f.value;
        switch (f.number) {
        case 3:
            s->model = v;
            break;
        case 24:
            s->suffix = v != 0;
            break;
        case 35:
            s->fallback = v != 0;
            break;
        case 40:
            s->unk = v;
            break;
        case 41:
            s->bos = v;
            break;
        case 42:
            s->eos = v;
            break;
        default:
            break;
        }
    }
    return 0;
}

static int rules(struct msg m, struct spec *s) {
    while (m.at < m.n) {
        struct field f;
        int rc = next_field(&m, &f);
        if (rc) {
            return rc;
        }
        bool on = f.value != 0;
        if (f.number == 2 && f.wire == WIRE_BYTES) {
            if (f.n > INT32_MAX) {
                return broken(&m, "a charsmap of over 2 GiB");
            }
            s->charsmap = (struct tok_str){(const char *)f.data, (int32_t)f.n};
        } else if (f.number == 3 && f.wire == WIRE_VARINT) {
            s->prefix = on;
        } else if (f.number == 4 && f.wire == WIRE_VARINT) {
            s->squeeze = on;
        } else if (f.number == 5 && f.wire == WIRE_VARINT) {
            s->escape = on;
        }
    }
    return 0;
}

static int piece(struct tok_reader *r, struct msg m, int32_t id) {
    uint64_t kind = TOK_NORMAL;
    uint32_t bits = 0;
    float score;
    while (m.at < m.n) {
        struct field f;
        int rc = next_field(&m, &f);
        if (rc) {
            return rc;
        }
        if (f.number == 1 && f.wire == WIRE_BYTES && f.n <= TOK_TOKEN_MAX) {
            r->text[id] = (struct tok_str){(const char *)f.data, (int32_t)f.n};
        } else if (f.number == 2 && f.wire == WIRE_4) {
            bits = (uint32_t)f.value;
        } else if (f.number == 3 && f.wire == WIRE_VARINT) {
            kind = f.value;
        }
    }
    memcpy(&score, &bits, sizeof score);
    if (!r->text[id].p || r->text[id].n == 0 || kind < TOK_NORMAL || kind > TOK_BYTE) {
        return err_set(ERR_FORMAT, "%s: piece %d has no text of 1..%d bytes, or type %llu", m.where,
                       id, TOK_TOKEN_MAX, (unsigned long long)kind);
    }
    r->score[id] = (double)score;
    r->kind[id] = (uint8_t)kind;
    return 0;
}

static int count_pieces(struct msg m, int32_t *n) {
    *n = 0;
    while (m.at < m.n) {
        struct field f;
        int rc = next_field(&m, &f);
        if (rc) {
            return rc;
        }
        *n += f.number == 1 && f.wire == WIRE_BYTES;
        if (*n > TOK_VOCAB_MAX) {
            return err_set(ERR_LIMIT, "%s: over %d pieces", m.where, TOK_VOCAB_MAX);
        }
    }
    return *n > 0 ? 0 : broken(&m, "no pieces");
}

static int read_all(struct tok_reader *r, struct msg m, struct spec *s) {
    int32_t id = 0;
    while (m.at < m.n) {
        struct field f;
        int rc = next_field(&m, &f);
        struct msg part = {.p = f.data, .n = f.n, .where = m.where};
        if (!rc && f.wire == WIRE_BYTES) {
            rc = f.number == 1   ? piece(r, part, id++)
                 : f.number == 2 ? trainer(part, s)
                 : f.number == 3 ? rules(part, s)
                                 : 0;
        }
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* An id that is a piece of a kind, else -1. */
static int32_t id_of(const struct tok_reader *r, int64_t id, enum tok_kind kind) {
    return id >= 0 && id < r->cfg.n_vocab && r->kind[id] == kind ? (int32_t)id : -1;
}

/* Special tokens, and the unknown one. */
static int special(struct tok_reader *r, const struct spec *s) {
    struct tok_cfg *c = &r->cfg;
    r->added = mem_array(MEM_TEXT, c->n_vocab, sizeof *r->added);
    if (!r->added) {
        return ERR_NOMEM;
    }
    c->unk = id_of(r, s->unk, TOK_UNKNOWN);
    for (int32_t i = 0; i < c->n_vocab; i++) {
        if (r->kind[i] == TOK_CONTROL || r->kind[i] == TOK_UNKNOWN) {
            r->added[c->n_added++] =
                (struct tok_added){.text = r->text[i], .id = i, .special = true};
        }
        if (r->kind[i] == TOK_UNKNOWN && c->unk < 0) {
            c->unk = i;
        }
        if (r->kind[i] == TOK_UNUSED && s->model == MODEL_BPE) {
            return err_set(ERR_UNSUPPORTED, "%s: piece %d of a BPE model is UNUSED", c->where, i);
        }
    }
    c->added = r->added;
    c->bos = id_of(r, s->bos, TOK_CONTROL);
    int32_t eos = id_of(r, s->eos, TOK_CONTROL);
    if (eos >= 0) {
        c->eos[c->n_eos++] = eos;
    }
    return 0;
}

static void pipeline(struct tok_cfg *c, const struct spec *s) {
    struct tok_str from = {mark, 3};
    struct tok_str to = {" ", 1};
    c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_SPM,
                                             .prefix = s->prefix,
                                             .squeeze = s->squeeze,
                                             .suffix = s->suffix,
                                             .from = s->charsmap};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_REPLACE, .from = from, .to = to};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_FALLBACK};
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_FUSE};
    if (s->prefix) {
        c->dec[c->n_dec++] = (struct tok_dec){
            .kind = TOK_DEC_STRIP, .start = !s->suffix, .stop = s->suffix, .cp = ' '};
    }
}

int tok_proto_read(struct tok_reader *r) {
    struct tok_cfg *c = &r->cfg;
    struct msg m = {
        .p = (const uint8_t *)buf_cstr(&r->bytes), .n = r->bytes.len, .where = c->where};
    struct spec s = {.model = MODEL_UNIGRAM,
                     .bos = 1,
                     .eos = 2,
                     .prefix = true,
                     .squeeze = true,
                     .escape = true};
    int rc = count_pieces(m, &c->n_vocab);
    if (rc) {
        return rc;
    }
    r->text = mem_array(MEM_TEXT, c->n_vocab, sizeof *r->text);
    r->score = mem_array(MEM_TEXT, c->n_vocab, sizeof *r->score);
    r->kind = mem_array(MEM_TEXT, c->n_vocab, sizeof *r->kind);
    if (!r->text || !r->score || !r->kind) {
        return ERR_NOMEM;
    }
    rc = read_all(r, m, &s);
    if (!rc && (s.model != MODEL_UNIGRAM && s.model != MODEL_BPE)) {
        rc = err_set(ERR_UNSUPPORTED,
                     "%s: SentencePiece model type %lld, want 1 (unigram) or 2 (bpe)", c->where,
                     (long long)s.model);
    }
    if (!rc && !s.escape) {
        rc = err_set(ERR_UNSUPPORTED, "%s: SentencePiece without escape_whitespaces", c->where);
    }
    rc = rc ? rc : special(r, &s);
    if (rc) {
        return rc;
    }
    c->model = s.model == MODEL_BPE ? TOK_IS_BPE : TOK_IS_UNIGRAM;
    c->text = r->text;
    c->score = r->score;
    c->kind = r->kind;
    c->spm = true;
    c->fuse_unk = true;
    c->byte_fallback = s.fallback;
    pipeline(c, &s);
    return 0;
}

bool tok_proto_is(const uint8_t *p, int64_t n) {
    return n > 0 && p[0] == 0x0a;
}
