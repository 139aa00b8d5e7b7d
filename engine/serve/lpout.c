/* Chat:        {"content": [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}]}
 * Completions: {"tokens": [], "token_logprobs": [], "top_logprobs": [{token: logprob}],
 * "text_offset"}
 *
 * A token that is no whole text is U+FFFD beside its bytes in a chat, and "bytes:\xe2\x82" in a
 * completion, where a name must tell two tokens apart. */
#include "engine/serve/lpout.h"

#include "engine/serve/jsonout.h"
#include "engine/text/utf8.h"

enum { PART_TOKENS, PART_LOGPROBS, PART_TOPS, PART_OFFSETS };
static const int64_t PART_MAX = 1 << 28;

void lpout_init(struct lpout *l, const struct tok *tok, bool chat, int32_t n_top) {
    *l = (struct lpout){.tok = tok, .chat = chat, .n_top = n_top};
    for (int32_t i = 0; i < LPOUT_PARTS; i++) {
        buf_init(&l->part[i], MEM_SERVE, PART_MAX);
    }
}

void lpout_fini(struct lpout *l) {
    for (int32_t i = 0; i < LPOUT_PARTS; i++) {
        buf_fini(&l->part[i]);
    }
}

/* {"token":"x","logprob":-1.5,"bytes":[120]  without the closing brace */
static int chat_token(const struct tok *tok, int32_t id, float logprob, struct buf *b) {
    int32_t n = 0;
    const uint8_t *p = tok_piece(tok, id, &n);
    int rc = buf_str(b, "{\"token\":");
    rc = rc ? rc : jsonout_strn(b, (const char *)p, n);
    rc = rc ? rc : buf_str(b, ",\"logprob\":");
    rc = rc ? rc : jsonout_logprob(b, (double)logprob);
    rc = rc ? rc : buf_str(b, ",\"bytes\":[");
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = buf_fmt(b, "%s%d", i ? "," : "", p[i]);
    }
    return rc ? rc : buf_str(b, "]");
}

static int chat_add(struct lpout *l, int32_t id, float logprob, const struct lpout_top *top) {
    struct buf *b = &l->part[PART_TOKENS];
    int rc = l->n > 0 ? buf_str(b, ",") : 0;
    rc = rc ? rc : chat_token(l->tok, id, logprob, b);
    rc = rc ? rc : buf_str(b, ",\"top_logprobs\":[");
    for (int32_t i = 0; i < l->n_top && top[i].id >= 0 && !rc; i++) {
        rc = i ? buf_str(b, ",") : 0;
        rc = rc ? rc : chat_token(l->tok, top[i].id, top[i].logprob, b);
        rc = rc ? rc : buf_str(b, "}");
    }
    return rc ? rc : buf_str(b, "]}");
}

/* The name of a token. */
static int plain_token(const struct tok *tok, int32_t id, struct buf *b) {
    int32_t n = 0;
    const uint8_t *p = tok_piece(tok, id, &n);
    if (utf8_valid(p, n) == n) {
        return jsonout_strn(b, (const char *)p, n);
    }
    int rc = buf_str(b, "\"bytes:");
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = buf_fmt(b, "\\\\x%02x", p[i]);
    }
    return rc ? rc : buf_str(b, "\"");
}

static int plain_pair(const struct tok *tok, int32_t id, float logprob, struct buf *b) {
    int rc = plain_token(tok, id, b);
    rc = rc ? rc : buf_str(b, ":");
    return rc ? rc : jsonout_logprob(b, (double)logprob);
}

/* The alternatives, and the token itself where it is not among them. */
static int plain_tops(struct lpout *l, int32_t id, float logprob, const struct lpout_top *top) {
    struct buf *b = &l->part[PART_TOPS];
    bool seen = false;
    int rc = buf_str(b, "{");
    int32_t n = 0;
    for (; n < l->n_top && top[n].id >= 0 && !rc; n++) {
        seen = seen || top[n].id == id;
        rc = n ? buf_str(b, ",") : 0;
        rc = rc ? rc : plain_pair(l->tok, top[n].id, top[n].logprob, b);
    }
    if (!rc && !seen) {
        rc = n ? buf_str(b, ",") : 0;
        rc = rc ? rc : plain_pair(l->tok, id, logprob, b);
    }
    return rc ? rc : buf_str(b, "}");
}

static int
plain_add(struct lpout *l, int32_t id, float logprob, const struct lpout_top *top, int64_t offset) {
    int rc = 0;
    for (int32_t i = 0; i < LPOUT_PARTS && l->n > 0 && !rc; i++) {
        rc = buf_str(&l->part[i], ",");
    }
    rc = rc ? rc : plain_token(l->tok, id, &l->part[PART_TOKENS]);
    rc = rc ? rc : jsonout_logprob(&l->part[PART_LOGPROBS], (double)logprob);
    rc = rc || l->n_top == 0 ? rc : plain_tops(l, id, logprob, top);
    return rc ? rc : buf_fmt(&l->part[PART_OFFSETS], "%lld", (long long)offset);
}

int lpout_add(
    struct lpout *l, int32_t id, float logprob, const struct lpout_top *top, int64_t offset) {
    if (!l->tok) {
        return 0;
    }
    int rc = l->chat ? chat_add(l, id, logprob, top) : plain_add(l, id, logprob, top, offset);
    l->n++;
    return rc;
}

static int add_part(const struct lpout *l, int32_t i, const char *head, struct buf *out) {
    int rc = buf_str(out, head);
    rc = rc ? rc : buf_add(out, buf_cstr(&l->part[i]), l->part[i].len);
    return rc ? rc : buf_str(out, "]");
}

int lpout_format(struct lpout *l, struct buf *out) {
    if (!l->tok) {
        return buf_str(out, "null");
    }
    int rc = 0;
    if (l->chat) {
        rc = add_part(l, PART_TOKENS, "{\"content\":[", out);
    } else {
        rc = add_part(l, PART_TOKENS, "{\"tokens\":[", out);
        rc = rc ? rc : add_part(l, PART_LOGPROBS, ",\"token_logprobs\":[", out);
        rc = rc             ? rc
             : l->n_top > 0 ? add_part(l, PART_TOPS, ",\"top_logprobs\":[", out)
                            : buf_str(out, ",\"top_logprobs\":null");
        rc = rc ? rc : add_part(l, PART_OFFSETS, ",\"text_offset\":[", out);
    }
    for (int32_t i = 0; i < LPOUT_PARTS; i++) {
        buf_clear(&l->part[i]);
    }
    l->n = 0;
    return rc ? rc : buf_str(out, "}");
}
