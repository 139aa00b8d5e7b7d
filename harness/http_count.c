/* Tokens by our own tokenizer, on the text as a whole and never piece by piece: a piece tokenized
 * alone has another count. So that a long answer does not cost its square, the text is cut where no
 * pre-tokenizer joins what lies beside: in front of a blank between two letters. */
#include <ctype.h>
#include <string.h>

#include "engine/base/err.h"
#include "harness/http_int.h"

enum { TAIL_MAX = 512, TAIL_LIMIT = 1 << 22 };

void http_count_reset(struct counter *c) {
    if (c->tail.max == 0) {
        buf_init(&c->tail, MEM_HARNESS, TAIL_LIMIT);
    }
    buf_clear(&c->tail);
    c->n_tail = 0;
}

static int64_t count(const struct tok *tok, const struct buf *b) {
    struct tok_ids ids;
    tok_ids_init(&ids);
    int rc = tok_encode(tok, buf_cstr(b), b->len, 0, &ids);
    int64_t n = rc ? -1 : ids.n;
    tok_ids_fini(&ids);
    return n;
}

/* Where the tail may be cut; 0: nowhere. */
static int64_t safe_cut(const struct buf *b) {
    for (int64_t i = b->len - 2; i > 0; i--) {
        const unsigned char *p = (const unsigned char *)b->data + i;
        if (p[0] == ' ' && isalpha(p[-1]) && isalpha(p[1])) {
            return i;
        }
    }
    return 0;
}

int32_t http_count(struct counter *c, const struct tok *tok, const char *text, int64_t n) {
    if (buf_add(&c->tail, text, n)) {
        err_clear();
        return 1;
    }
    int64_t now = count(tok, &c->tail);
    if (now < 0) {
        err_clear();
        return 1;
    }
    int64_t more = i64_max(0, now - c->n_tail);
    c->n_tail = i64_max(now, c->n_tail);
    int64_t cut = c->tail.len > TAIL_MAX ? safe_cut(&c->tail) : 0;
    if (cut > 0) {
        memmove(c->tail.data, c->tail.data + cut, (size_t)(c->tail.len - cut + 1));
        c->tail.len -= cut;
        c->n_tail = i64_max(0, count(tok, &c->tail));
    }
    return (int32_t)i64_min(more, INT32_MAX);
}
