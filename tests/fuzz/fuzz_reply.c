/* Any bytes as an answer: the first byte picks API, stream, status and end, the second where the
 * body is cut. Read whole, cut once and byte by byte, it has one class, one text, one count. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "harness/corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { HEAD = 2, TEXT_MAX = 1 << 24, EACH_MAX = 1 << 12 };

static void read_cut(
    const struct corpus_case *c, const int64_t *cut, int32_t n, struct reply *r, struct buf *text) {
    if (corpus_read(c, cut, n, r, text)) {
        abort();
    }
    if ((r->kind == REPLY_OK) != (reply_class_name(r->kind) == NULL) || r->n_events < 0 ||
        r->n_tokens < 0) {
        abort();
    }
}

static bool
same(const struct reply *a, const struct reply *b, const struct buf *s, const struct buf *t) {
    return a->kind == b->kind && a->n_tokens == b->n_tokens && a->n_output == b->n_output &&
           s->len == t->len && memcmp(buf_cstr(s), buf_cstr(t), (size_t)s->len) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const int32_t statuses[] = {200, 200, 429, 500};
    static int64_t each[EACH_MAX];
    struct reply a;
    struct reply b;
    struct buf s;
    struct buf t;
    if (n < HEAD) {
        return 0;
    }
    struct corpus_case c = {.api = (enum chunk_api)(data[0] % CHUNK_API_N),
                            .stream = (data[0] & 8) == 0,
                            .status = statuses[data[0] >> 6],
                            .end = (enum corpus_end)((data[0] >> 4 & 3) % (CORPUS_STALL + 1))};
    memcpy(c.type, "text/event-stream", sizeof "text/event-stream");
    buf_init(&c.body, MEM_TEST, TEXT_MAX);
    buf_init(&s, MEM_TEST, TEXT_MAX);
    buf_init(&t, MEM_TEST, TEXT_MAX);
    reply_init(&a, &(struct reply_opts){0});
    reply_init(&b, &(struct reply_opts){0});
    if (buf_add(&c.body, data + HEAD, (int64_t)(n - HEAD))) {
        abort();
    }
    const int64_t cut = c.body.len * data[1] / 255;
    read_cut(&c, NULL, 0, &a, &s);
    read_cut(&c, &cut, 1, &b, &t);
    if (!same(&a, &b, &s, &t)) {
        abort();
    }
    for (int64_t i = 0; i < i64_min(c.body.len, EACH_MAX); i++) {
        each[i] = i + 1;
    }
    read_cut(&c, each, (int32_t)i64_min(c.body.len, EACH_MAX), &b, &t);
    if (!same(&a, &b, &s, &t)) {
        abort();
    }
    reply_fini(&a);
    reply_fini(&b);
    buf_fini(&c.body);
    buf_fini(&s);
    buf_fini(&t);
    err_clear();
    return 0;
}
