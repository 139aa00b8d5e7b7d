/* src: ggml, docs/gguf.md, "Tokenizer": tokenizer.ggml.model is "gpt2" (byte-level BPE) or "llama"
 * (SentencePiece scores). */
#include "engine/run/toksource.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/ckpt.h"

/* Arrays that the spec points to while the tokenizer is made. */
struct parts {
    struct gguf_str *tokens;
    struct gguf_str *merges;
    struct tok_str *text;
    struct tok_str *merge;
    uint8_t *kind;
    float *score;
    char *pre;
    char *chat;
};

static void parts_free(struct parts *p) {
    mem_free(p->tokens);
    mem_free(p->merges);
    mem_free(p->text);
    mem_free(p->merge);
    mem_free(p->kind);
    mem_free(p->score);
    mem_free(p->pre);
    mem_free(p->chat);
}

/* Reads an array of strings as tok_str. A missing key gives n = 0. */
static int strings(const struct gguf *g,
                   const char *key,
                   struct gguf_str **raw,
                   struct tok_str **out,
                   int32_t *n) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        *n = 0;
        return 0;
    }
    if (kv->n > TOK_VOCAB_MAX) {
        return err_set(ERR_LIMIT, "%s: \"%s\" has %lld entries, at most %d", g->where, key,
                       (long long)kv->n, TOK_VOCAB_MAX);
    }
    int rc = gguf_strings(g, kv, raw);
    if (rc) {
        return rc;
    }
    struct tok_str *s = mem_array(MEM_TEXT, kv->n, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    *out = s;
    for (int64_t i = 0; i < kv->n; i++) {
        if ((*raw)[i].len > INT32_MAX) {
            return err_set(ERR_LIMIT, "%s: \"%s\"[%lld] is too long", g->where, key, (long long)i);
        }
        s[i] = (struct tok_str){.p = (*raw)[i].data, .n = (int32_t)(*raw)[i].len};
    }
    *n = (int32_t)kv->n;
    return 0;
}

/* Reads a numeric array of one value a token; a missing key leaves NULL. */
static int per_token(const struct gguf *g, const char *key, int32_t n, const struct gguf_kv **out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (kv && (!kv->is_array || kv->n != n || kv->type == GGUF_STRING)) {
        return err_set(ERR_FORMAT, "%s: \"%s\" is no array of %d numbers", g->where, key, n);
    }
    *out = kv;
    return 0;
}

static int kinds_and_scores(const struct gguf *g, int32_t n, struct parts *p) {
    const struct gguf_kv *kind = NULL;
    const struct gguf_kv *score = NULL;
    int rc = per_token(g, "tokenizer.ggml.token_type", n, &kind);
    rc = rc ? rc : per_token(g, "tokenizer.ggml.scores", n, &score);
    if (rc) {
        return rc;
    }
    p->kind = kind ? mem_array(MEM_TEXT, n, 1) : NULL;
    p->score = score ? mem_array(MEM_TEXT, n, (int64_t)sizeof(float)) : NULL;
    if ((kind && !p->kind) || (score && !p->score)) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < n && kind; i++) {
        double k = gguf_number(kind, i);
        p->kind[i] = k >= 1 && k <= 6 ? (uint8_t)k : TOK_NORMAL;
    }
    for (int32_t i = 0; i < n && score; i++) {
        p->score[i] = (float)gguf_number(score, i);
    }
    return 0;
}

static int text_of(const struct gguf *g, const char *key, char **out) {
    struct gguf_str s = {0};
    int rc = gguf_opt_str(g, key, &s);
    if (rc || !s.data) {
        return rc;
    }
    *out = mem_strdup(MEM_TEXT, s.data, s.len);
    return *out ? 0 : ERR_NOMEM;
}

static int special_ids(const struct gguf *g, struct tok_spec *spec) {
    static const char *const eos[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    int32_t bos = -1;
    int32_t unk = -1;
    bool no_space = false;
    bool space = true;
    int rc = gguf_opt_i32(g, "tokenizer.ggml.bos_token_id", 0, TOK_VOCAB_MAX, &bos);
    rc = rc ? rc : gguf_opt_i32(g, "tokenizer.ggml.unknown_token_id", 0, TOK_VOCAB_MAX, &unk);
    spec->add_bos_told = gguf_find(g, "tokenizer.ggml.add_bos_token") != NULL;
    rc = rc ? rc : gguf_opt_bool(g, "tokenizer.ggml.add_bos_token", &spec->add_bos);
    rc = rc ? rc : gguf_opt_bool(g, "tokenizer.ggml.add_eos_token", &spec->add_eos);
    rc = rc ? rc : gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &space);
    for (int32_t i = 0; i < ARRAY_LEN(eos) && !rc; i++) {
        int32_t id = -1;
        rc = gguf_opt_i32(g, eos[i], 0, TOK_VOCAB_MAX, &id);
        if (!rc && id >= 0 && (spec->n_eos == 0 || spec->eos[0] != id)) {
            spec->eos[spec->n_eos++] = id;
        }
    }
    no_space = !space;
    spec->no_prefix_space = no_space;
    spec->has_bos = bos >= 0;
    spec->bos = bos;
    spec->has_unk = unk >= 0;
    spec->unk = unk;
    return rc;
}

static int find_model(const struct gguf *g, struct tok_spec *spec) {
    struct gguf_str s = {0};
    int rc = gguf_opt_str(g, "tokenizer.ggml.model", &s);
    if (rc) {
        return rc;
    }
    if (!s.data) {
        return err_set(ERR_NOTFOUND, "%s: no tokenizer (tokenizer.ggml.model is missing)",
                       g->where);
    }
    if (s.len == 4 && memcmp(s.data, "gpt2", 4) == 0) {
        spec->model = TOK_MODEL_BYTE_BPE;
        return 0;
    }
    if (s.len == 5 && memcmp(s.data, "llama", 5) == 0) {
        spec->model = TOK_MODEL_SPM;
        /* why: files without the key are SentencePiece models that begin with BOS */
        spec->add_bos = true;
        return 0;
    }
    return err_set(ERR_UNSUPPORTED,
                   "%s: tokenizer model \"%.*s\" is not read; read are gpt2, llama", g->where,
                   (int)s.len, s.data);
}

static int fill(const struct gguf *g, struct parts *p, struct tok_spec *spec) {
    int rc = find_model(g, spec);
    rc = rc ? rc : strings(g, "tokenizer.ggml.tokens", &p->tokens, &p->text, &spec->n_vocab);
    rc = rc ? rc : strings(g, "tokenizer.ggml.merges", &p->merges, &p->merge, &spec->n_merges);
    rc = rc ? rc : kinds_and_scores(g, spec->n_vocab, p);
    rc = rc ? rc : text_of(g, "tokenizer.ggml.pre", &p->pre);
    rc = rc ? rc : text_of(g, "tokenizer.chat_template", &p->chat);
    rc = rc ? rc : special_ids(g, spec);
    spec->where = g->where;
    spec->text = p->text;
    spec->merges = p->merge;
    spec->kind = p->kind;
    spec->score = p->score;
    spec->pre = p->pre;
    spec->chat_template = p->chat;
    return rc;
}

int toksource_gguf(const struct gguf *g, struct tok **out) {
    struct parts p = {0};
    struct tok_spec spec = {0};
    int rc = fill(g, &p, &spec);
    rc = rc ? rc : tok_create(&spec, out);
    parts_free(&p);
    return rc;
}

int toksource_open(const char *path, struct tok **out) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "tokenizer.model"};
    char config[FILE_PATH_MAX];
    struct ckpt *c = NULL;
    bool gguf = str_ends(path, ".gguf") || file_is_dir(path);
    int rc = 0;
    for (int32_t i = 0; i < ARRAY_LEN(names) && gguf && !str_ends(path, ".gguf") && !rc; i++) {
        rc = file_join(config, path, names[i]);
        gguf = rc || !file_exists(config);
    }
    if (rc || !gguf) {
        return rc ? rc : tok_open(path, out);
    }
    rc = ckpt_open(path, &c);
    if (!rc && !c->gguf) {
        rc = err_set(ERR_NOTFOUND,
                     "%s: no tokenizer.json, vocab.json, tokenizer.model and no GGUF file", path);
    }
    rc = rc ? rc : toksource_gguf(c->gguf, out);
    ckpt_close(c);
    return rc;
}
