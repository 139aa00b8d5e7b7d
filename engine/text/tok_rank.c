/* tiktoken's ranks: lines of a token in base64, a blank, and its rank, which is its id.
 *
 *     IQ== 0
 *     Ig== 1
 *
 * A pair merges when its whole is a token, lowest rank first, and a piece that is a token stays
 * whole. The file does not say its pattern nor its special tokens; a file that is known by its
 * SHA-256 is read, others are refused.
 * src: openai/tiktoken, load.py, src/lib.rs; meta-llama/llama-models, llama3/tokenizer.py */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/text/tok_int.h"

enum { N_LLAMA3 = 256, LLAMA3_EOT = 9 };

static const struct known {
    const char *sha256;
    int32_t n_ranks;
} llama3 = {"82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55", 128000};

/* Special tokens from id 128,000 on; the others are reserved and numbered. */
static const char *const llama3_special[] = {
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
};

/* One line. out: the token's span in r->more */
static int
read_line(struct tok_reader *r, const char *p, int64_t n, int32_t line, struct tok_span *out) {
    const char *blank = memchr(p, ' ', (size_t)n);
    char rank[16];
    int64_t id = -1;
    int64_t n_rank = blank ? p + n - blank - 1 : 0;
    if (!blank || blank == p || n_rank < 1 || n_rank >= (int64_t)sizeof rank) {
        return err_set(ERR_FORMAT, "%s: line %d is no \"base64 rank\"", r->cfg.where, line + 1);
    }
    memcpy(rank, blank + 1, (size_t)n_rank);
    rank[n_rank] = '\0';
    int rc = str_i64(rank, 0, TOK_VOCAB_MAX - 1, &id);
    if (!rc && id != line) {
        rc = err_set(ERR_FORMAT, "rank %lld, want %d", (long long)id, line);
    }
    out->at = r->more.len;
    rc = rc ? rc : tok_base64(p, blank - p, &r->more);
    out->n = (int32_t)(r->more.len - out->at);
    if (!rc && out->n == 0) {
        rc = err_set(ERR_FORMAT, "an empty token");
    }
    return rc ? err_ctx(rc, "%s: line %d", r->cfg.where, line + 1) : 0;
}

static int read_ranks(struct tok_reader *r, int32_t n_ranks, struct tok_span *span) {
    const char *p = buf_cstr(&r->bytes);
    const char *end = p + r->bytes.len;
    for (int32_t i = 0; i < n_ranks; i++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        int rc = read_line(r, p, stop - p, i, &span[i]);
        if (rc) {
            return rc;
        }
        p = nl ? nl + 1 : end;
    }
    return 0;
}

/* The text of special token k, as a span of r->more. */
static int special_name(struct tok_reader *r, int32_t k, struct tok_span *out) {
    int32_t n_named = ARRAY_LEN(llama3_special);
    out->at = r->more.len;
    int rc = k < n_named ? buf_str(&r->more, llama3_special[k])
                         : buf_fmt(&r->more, "<|reserved_special_token_%d|>", k - n_named + 2);
    out->n = (int32_t)(r->more.len - out->at);
    return rc;
}

static void use_spans(struct tok_reader *r, const struct tok_span *span) {
    struct tok_cfg *c = &r->cfg;
    const char *base = buf_cstr(&r->more);
    for (int32_t i = 0; i < llama3.n_ranks; i++) {
        r->text[i] = (struct tok_str){base + span[i].at, span[i].n};
        r->score[i] = -(double)i;
    }
    for (int32_t k = 0; k < N_LLAMA3; k++) {
        struct tok_span s = span[llama3.n_ranks + k];
        r->added[k] = (struct tok_added){
            .text = {base + s.at, s.n}, .id = llama3.n_ranks + k, .special = true};
    }
    c->n_vocab = llama3.n_ranks + N_LLAMA3;
    c->text = r->text;
    c->score = r->score;
    c->added = r->added;
    c->n_added = N_LLAMA3;
    c->byte_level = true;
    c->byte_text = true;
    c->ignore_merges = true;
    c->step[c->n_steps++] = tok_pre_llama3();
    c->dec[c->n_dec++] = (struct tok_dec){.kind = TOK_DEC_BYTES};
    c->bos = llama3.n_ranks;
    c->prefix[c->n_prefix++] = c->bos;
    c->eos[c->n_eos++] = llama3.n_ranks + 1;
    c->eos[c->n_eos++] = llama3.n_ranks + LLAMA3_EOT;
}

int tok_rank_read(struct tok_reader *r) {
    char hex[FILE_SHA256_HEX];
    int32_t n = llama3.n_ranks + N_LLAMA3;
    int rc = mem_sha256(r->bytes.data, r->bytes.len, hex);
    if (!rc && strcmp(hex, llama3.sha256) != 0) {
        rc = err_set(
            ERR_UNSUPPORTED,
            "%s: neither a SentencePiece model nor ranks whose pattern is known (sha256 %s; "
            "known is Llama 3's, %.12s...); put a tokenizer.json beside it",
            r->cfg.where, hex, llama3.sha256);
    }
    if (rc) {
        return rc;
    }
    r->text = mem_array(MEM_TEXT, n, sizeof *r->text);
    r->score = mem_array(MEM_TEXT, n, sizeof *r->score);
    r->added = mem_array(MEM_TEXT, N_LLAMA3, sizeof *r->added);
    struct tok_span *span = mem_array(MEM_TEXT, n, sizeof *span);
    rc = r->text && r->score && r->added && span ? 0 : ERR_NOMEM;
    rc = rc ? rc : read_ranks(r, llama3.n_ranks, span);
    for (int32_t k = 0; k < N_LLAMA3 && !rc; k++) {
        rc = special_name(r, k, &span[llama3.n_ranks + k]);
    }
    if (!rc) {
        use_spans(r, span);
    }
    mem_free(span);
    return rc;
}
