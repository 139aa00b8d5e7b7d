/* Opening the tokenizer files of a Hugging Face checkpoint.
 *
 *     FOLDER/tokenizer.json                     the whole tokenizer
 *     FOLDER/vocab.json + merges.txt            GPT-2's form; the class in tokenizer_config.json
 *                                               tells the pattern
 *     FOLDER/tokenizer.model                    SentencePiece (tok_proto.c) or ranks (tok_rank.c)
 *     FOLDER/tokenizer_config.json              bos_token, eos_token, chat_template,
 *                                               added_tokens_decoder
 *     FOLDER/chat_template.jinja                the newer place of the chat template
 *
 * src: transformers, tokenization_utils_base.py, models/{gpt2,qwen2}/tokenization_*.py */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { CONFIG_MAX = 1 << 26, BYTES_MAX = 1 << 28, CHAT_MAX = 1 << 22, GPT2_END = 50256 };

static void reader_init(struct tok_reader *r, const char *where) {
    *r = (struct tok_reader){.cfg = {.where = where, .unk = -1, .bos = -1}};
    buf_init(&r->bytes, MEM_TEXT, BYTES_MAX);
    buf_init(&r->more, MEM_TEXT, BYTES_MAX);
    buf_init(&r->chat, MEM_TEXT, CHAT_MAX);
}

static void reader_fini(struct tok_reader *r) {
    mem_free(r->text);
    mem_free(r->merge);
    mem_free(r->score);
    mem_free(r->kind);
    mem_free(r->added);
    json_decref(r->root);
    json_decref(r->config);
    buf_fini(&r->bytes);
    buf_fini(&r->more);
    buf_fini(&r->chat);
}

/* The id of a token by its text, among added tokens and vocabulary; -1. */
static int32_t find(const struct tok_reader *r, const char *text) {
    int64_t n = (int64_t)strlen(text);
    for (int32_t i = 0; i < r->cfg.n_added; i++) {
        if (r->added[i].text.n == n && memcmp(r->added[i].text.p, text, (size_t)n) == 0) {
            return r->added[i].id;
        }
    }
    for (int32_t i = 0; i < r->cfg.n_vocab; i++) {
        if (r->text[i].p && r->text[i].n == n && memcmp(r->text[i].p, text, (size_t)n) == 0) {
            return i;
        }
    }
    return -1;
}

/* "bos_token": "<s>" or {"content": "<s>"} or null. */
static int32_t named_token(const struct tok_reader *r, const char *key) {
    const json_t *v = json_object_get(r->config, key);
    if (json_is_object(v)) {
        v = json_object_get(v, "content");
    }
    return json_is_string(v) ? find(r, json_string_value(v)) : -1;
}

/* "chat_template": "..." or [{"name": "default", "template": "..."}, ...]. */
static const char *config_template(const struct tok_reader *r) {
    const json_t *v = json_object_get(r->config, "chat_template");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *e = json_array_get(v, i);
        const char *name = json_string_value(json_object_get(e, "name"));
        if (name && strcmp(name, "default") == 0) {
            return json_string_value(json_object_get(e, "template"));
        }
    }
    return json_string_value(v);
}

/* why: not json_read; model_max_length is often 10^30, which jansson takes as a real only */
static int parse_config(struct tok_reader *r, const char *path) {
    struct buf b;
    json_error_t e;
    buf_init(&b, MEM_TEXT, CONFIG_MAX);
    int rc = file_read(path, &b);
    if (!rc) {
        r->config = json_loadb(buf_cstr(&b), (size_t)b.len, JSON_DECODE_INT_AS_REAL, &e);
        if (!json_is_object(r->config)) {
            rc = err_set(ERR_FORMAT, "%s: line %d: %s", path, r->config ? 1 : e.line,
                         r->config ? "no object" : e.text);
        }
    }
    buf_fini(&b);
    return rc;
}

static int read_config(struct tok_reader *r, const char *dir) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, dir, "tokenizer_config.json");
    if (!rc && file_exists(path)) {
        rc = parse_config(r, path);
    }
    rc = rc ? rc : file_join(path, dir, "chat_template.jinja");
    if (!rc && file_exists(path)) {
        rc = file_read(path, &r->chat);
    }
    return rc;
}

/* BOS, EOS and template, once vocabulary and added tokens are there. */
static void use_config(struct tok_reader *r) {
    struct tok_cfg *c = &r->cfg;
    int32_t bos = named_token(r, "bos_token");
    c->bos = bos >= 0 ? bos : c->bos >= 0 || c->n_prefix == 0 ? c->bos : c->prefix[0];
    int32_t eos = named_token(r, "eos_token");
    if (eos >= 0) {
        c->eos[0] = eos;
        c->n_eos = i32_max(1, c->n_eos);
    }
    c->chat_template = r->chat.len > 0 ? buf_cstr(&r->chat) : config_template(r);
}

static int build_json(struct tok_reader *r, struct tok **out) {
    int rc = tok_json_read(r);
    rc = rc ? rc : tok_pipe_read(r);
    rc = rc ? rc : tok_pipedec_read(r);
    if (rc) {
        return rc;
    }
    use_config(r);
    return tok_build(&r->cfg, out);
}

/* The folder of a file. */
static int dir_of(const char *path, char dir[FILE_PATH_MAX]) {
    if (!str_copy(dir, FILE_PATH_MAX, path)) {
        return err_set(ERR_LIMIT, "path of more than %d bytes", FILE_PATH_MAX - 1);
    }
    int64_t n = file_base(path) - path;
    str_copy(dir, FILE_PATH_MAX, n > 0 ? path : ".");
    dir[n > 1 ? n - 1 : 1] = '\0';
    return 0;
}

static int open_json(const char *path, struct tok **out) {
    struct tok_reader r;
    char dir[FILE_PATH_MAX];
    int rc = dir_of(path, dir);
    if (rc) {
        return rc;
    }
    reader_init(&r, path);
    rc = read_config(&r, dir);
    rc = rc ? rc : json_read(path, &r.root);
    rc = rc ? rc : build_json(&r, out);
    reader_fini(&r);
    return rc;
}

int tok_parse(const char *where, const char *text, int64_t n, struct tok **out) {
    struct tok_reader r;
    reader_init(&r, where);
    int rc = json_parse(where, text, n, &r.root);
    rc = rc ? rc : build_json(&r, out);
    reader_fini(&r);
    return rc;
}

/* merges.txt: a first line "#version: 0.2", then "left right" lines by rank. */
static int read_merges_txt(struct tok_reader *r, const char *dir) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, dir, "merges.txt");
    rc = rc ? rc : file_read(path, &r->bytes);
    if (rc) {
        return rc;
    }
    const char *p = buf_cstr(&r->bytes);
    const char *end = p + r->bytes.len;
    int64_t lines = 1;
    for (const char *q = p; q < end; q++) {
        lines += *q == '\n';
    }
    r->merge = mem_array(MEM_TEXT, 2 * lines, sizeof *r->merge);
    if (!r->merge) {
        return ERR_NOMEM;
    }
    int32_t n = 0;
    for (int64_t line = 1; p < end; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        const char *next = nl ? nl + 1 : end;
        stop -= stop > p && stop[-1] == '\r';
        const char *blank = memchr(p, ' ', (size_t)(stop - p));
        bool version = line == 1 && stop - p >= 8 && memcmp(p, "#version", 8) == 0;
        if (!version && stop > p) {
            if (!blank || blank == p || blank + 1 == stop) {
                return err_set(ERR_FORMAT, "%s: line %lld is not \"left right\"", path,
                               (long long)line);
            }
            r->merge[2 * n] = (struct tok_str){p, (int32_t)(blank - p)};
            r->merge[2 * n + 1] = (struct tok_str){blank + 1, (int32_t)(stop - blank) - 1};
            n++;
        }
        p = next;
    }
    r->cfg.merge = r->merge;
    r->cfg.n_merges = n;
    return 0;
}

/* added_tokens_decoder: {"151643": {"content": ...}}; else GPT-2's one special token. */
static int read_added(struct tok_reader *r, int32_t *n_least) {
    json_t *list = json_object_get(r->config, "added_tokens_decoder");
    r->added = mem_array(MEM_TEXT, (int64_t)json_object_size(list) + 1, sizeof *r->added);
    if (!r->added) {
        return ERR_NOMEM;
    }
    r->cfg.added = r->added;
    const char *key;
    json_t *v;
    json_object_foreach(list, key, v) {
        int64_t id = 0;
        int rc = str_i64(key, 0, TOK_VOCAB_MAX - 1, &id);
        rc = rc ? rc : tok_json_added(r, v, (int32_t)id, &r->added[r->cfg.n_added]);
        if (rc) {
            return err_ctx(rc, "%s: added_tokens_decoder", r->cfg.where);
        }
        r->cfg.n_added++;
        *n_least = i32_max(*n_least, (int32_t)id + 1);
    }
    return 0;
}

static void gpt2_end(struct tok_reader *r) {
    static const char text[] = "<|endoftext|>";
    int32_t id = r->cfg.n_added == 0 ? find(r, text) : -1;
    if (id >= 0) {
        r->added[r->cfg.n_added++] =
            (struct tok_added){.text = {text, (int32_t)sizeof text - 1}, .id = id, .special = true};
        r->cfg.bos = id;
        r->cfg.eos[0] = id;
        r->cfg.n_eos = 1;
    }
}

/* GPT-2 itself, Llama 3 by its BOS: what may be known without a telling class. */
static const char *implied_class(const struct tok_reader *r, const char *class) {
    static const char *const generic[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};
    bool plain = false;
    for (int32_t i = 0; i < ARRAY_LEN(generic); i++) {
        plain = plain || strcmp(class, generic[i]) == 0;
    }
    if (plain && named_token(r, "bos_token") >= 0 && find(r, "<|begin_of_text|>") >= 0 &&
        named_token(r, "bos_token") == find(r, "<|begin_of_text|>")) {
        return "Llama3";
    }
    return class[0] == '\0' && find(r, "<|endoftext|>") == GPT2_END ? "GPT2Tokenizer" : class;
}

/* The steps of the tokenizer's class. */
static int class_steps(struct tok_reader *r) {
    struct tok_cfg *c = &r->cfg;
    const char *class = "";
    bool prefix = false;
    int rc = json_opt_str(r->config, c->where, "tokenizer_class", &class);
    rc = rc ? rc : json_opt_bool(r->config, c->where, "add_prefix_space", &prefix);
    if (rc) {
        return rc;
    }
    class = implied_class(r, class);
    bool qwen = str_starts(class, "Qwen2Tokenizer");
    bool llama3 = strcmp(class, "Llama3") == 0;
    if (!qwen && !llama3 && !str_starts(class, "GPT2Tokenizer")) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: tokenizer_class \"%.64s\" with vocab.json and merges.txt, want "
                       "Qwen2Tokenizer or GPT2Tokenizer, or Llama 3's <|begin_of_text|> as "
                       "bos_token (or a tokenizer.json)",
                       c->where, class);
    }
    c->byte_level = true;
    c->ignore_merges = llama3;
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_BYTES};
    if (prefix && !qwen && !llama3) {
        c->step[c->n_steps++] =
            (struct tok_step){.kind = TOK_STEP_BYTE_LEVEL, .prefix_space = true};
    }
    c->step[c->n_steps++] = qwen ? tok_pre_qwen2() : llama3 ? tok_pre_llama3() : tok_pre_gpt2();
    if (qwen) {
        c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_FORM, .form = (int32_t)UTF8_NFC};
    }
    return 0;
}

/* What the class of a file without a post-processor adds: BOS, EOS, as the config says. */
static int add_affixes(struct tok_reader *r, bool bos, bool eos) {
    struct tok_cfg *c = &r->cfg;
    int rc = json_opt_bool(r->config, c->where, "add_bos_token", &bos);
    rc = rc ? rc : json_opt_bool(r->config, c->where, "add_eos_token", &eos);
    if (rc) {
        return rc;
    }
    c->n_prefix = 0;
    c->n_suffix = 0;
    if (bos && c->bos >= 0) {
        c->prefix[c->n_prefix++] = c->bos;
    }
    if (eos && c->n_eos > 0) {
        c->suffix[c->n_suffix++] = c->eos[0];
    }
    return 0;
}

static int open_vocab(const char *dir, const char *vocab, struct tok **out) {
    struct tok_reader r;
    int32_t n_least = 1;
    reader_init(&r, vocab);
    int rc = read_config(&r, dir);
    rc = rc ? rc : read_added(&r, &n_least);
    rc = rc ? rc : json_read(vocab, &r.root);
    rc = rc ? rc : tok_json_vocab(&r, r.root, n_least);
    rc = rc ? rc : class_steps(&r);
    rc = rc ? rc : read_merges_txt(&r, dir);
    if (!rc) {
        use_config(&r);
        gpt2_end(&r);
        rc = add_affixes(&r, r.cfg.ignore_merges, false);
        rc = rc ? rc : tok_build(&r.cfg, out);
    }
    reader_fini(&r);
    return rc;
}

/* Makes room for ids up to n - 1, without texts. */
static int grow_vocab(struct tok_reader *r, int32_t n) {
    struct tok_cfg *c = &r->cfg;
    if (n <= c->n_vocab) {
        return 0;
    }
    struct tok_str *text = mem_realloc(MEM_TEXT, r->text, n * (int64_t)sizeof *text);
    r->text = text ? text : r->text;
    double *score = text ? mem_realloc(MEM_TEXT, r->score, n * (int64_t)sizeof *score) : NULL;
    r->score = score ? score : r->score;
    uint8_t *kind = score && r->kind ? mem_realloc(MEM_TEXT, r->kind, n) : r->kind;
    if (!text || !score || (r->kind && !kind)) {
        return ERR_NOMEM;
    }
    r->kind = kind;
    c->text = text;
    c->score = score;
    c->kind = kind;
    c->n_vocab = n;
    return 0;
}

/* Tokens of the config that the model's file lacks or tells otherwise. */
static int overlay_added(struct tok_reader *r) {
    struct tok_cfg *c = &r->cfg;
    json_t *list = json_object_get(r->config, "added_tokens_decoder");
    int64_t room = c->n_added + (int64_t)json_object_size(list);
    struct tok_added *added = mem_realloc(MEM_TEXT, r->added, room * (int64_t)sizeof *added);
    if (!added) {
        return ERR_NOMEM;
    }
    r->added = added;
    c->added = added;
    const char *key;
    json_t *v;
    json_object_foreach(list, key, v) {
        int64_t id = 0;
        struct tok_added a;
        int rc = str_i64(key, 0, TOK_VOCAB_MAX - 1, &id);
        rc = rc ? rc : tok_json_added(r, v, (int32_t)id, &a);
        rc = rc ? rc : grow_vocab(r, (int32_t)id + 1);
        if (rc) {
            return err_ctx(rc, "%s: added_tokens_decoder", c->where);
        }
        int32_t at = 0;
        while (at < c->n_added && added[at].id != a.id) {
            at++;
        }
        added[at] = a;
        c->n_added = i32_max(c->n_added, at + 1);
    }
    return 0;
}

/* SentencePiece, or ranks. Without a word in the config SentencePiece begins with BOS, save T5's
 * family, which ends with EOS. */
static int build_model(struct tok_reader *r, struct tok **out) {
    bool spm = tok_proto_is((const uint8_t *)buf_cstr(&r->bytes), r->bytes.len);
    const char *class = "";
    int rc = spm ? tok_proto_read(r) : tok_rank_read(r);
    rc = rc ? rc : overlay_added(r);
    rc = rc ? rc : json_opt_str(r->config, r->cfg.where, "tokenizer_class", &class);
    if (rc) {
        return rc;
    }
    bool t5 = str_starts(class, "T5Tokenizer");
    use_config(r);
    rc = add_affixes(r, !t5, t5);
    return rc ? rc : tok_build(&r->cfg, out);
}

static int open_model(const char *path, struct tok **out) {
    struct tok_reader r;
    char dir[FILE_PATH_MAX];
    int rc = dir_of(path, dir);
    if (rc) {
        return rc;
    }
    reader_init(&r, path);
    rc = read_config(&r, dir);
    rc = rc ? rc : file_read(path, &r.bytes);
    rc = rc ? rc : build_model(&r, out);
    reader_fini(&r);
    return rc;
}

int tok_parse_model(const char *where, const uint8_t *p, int64_t n, struct tok **out) {
    struct tok_reader r;
    reader_init(&r, where);
    int rc = buf_add(&r.bytes, p, n);
    rc = rc ? rc : build_model(&r, out);
    reader_fini(&r);
    return rc;
}

int tok_open(const char *path, struct tok **out) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "tokenizer.model"};
    char file[FILE_PATH_MAX];
    if (!file_is_dir(path)) {
        return str_ends(path, ".model") ? open_model(path, out) : open_json(path, out);
    }
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        int rc = file_join(file, path, names[i]);
        if (rc) {
            return rc;
        }
        if (file_exists(file)) {
            return i == 0   ? open_json(file, out)
                   : i == 1 ? open_vocab(path, file, out)
                            : open_model(file, out);
        }
    }
    return err_set(
        ERR_NOTFOUND,
        "%s: neither tokenizer.json, nor vocab.json with merges.txt, nor tokenizer.model", path);
}
