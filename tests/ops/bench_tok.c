/* Speed of encode and decode on texts of every shape, one core. Not run by ctest.
 *
 *     bench_tok [--mb N] [--text FILE] [--shape NAME] TOKENIZER...
 *
 * A line a shape: MB/s of encode and decode, bytes a token, units of work a byte. The roof beside
 * it is the speed at which the same text is checked as UTF-8: nothing that looks at every character
 * can be faster. FILE is one more shape. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/run/toksource.h"
#include "engine/text/utf8.h"
#include "tests/support/textshape.h"

enum { TEXT_MAX = 1 << 28, ROUNDS = 3 };

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double rate(int64_t bytes, int64_t ns) {
    return (double)bytes * 1e3 / (double)i64_max(1, ns);
}

struct speed {
    double encode;
    double decode;
    double roof;
    int32_t n_ids;
    double ops;
};

static int round_trip(const struct tok *t, const struct buf *text, struct speed *s) {
    struct tok_ids ids;
    struct buf back;
    tok_ids_init(&ids);
    buf_init(&back, MEM_TEST, 4 * (int64_t)TEXT_MAX);
    int64_t ops = tok_ops(t);
    int64_t t0 = cpu_ns();
    int64_t good = utf8_valid((const uint8_t *)text->data, text->len);
    int64_t t1 = cpu_ns();
    int rc = tok_encode(t, buf_cstr(text), text->len, 0, &ids);
    int64_t t2 = cpu_ns();
    rc = rc ? rc : tok_decode(t, ids.v, ids.n, false, &back);
    int64_t t3 = cpu_ns();
    if (!rc) {
        s->roof = rate(good, t1 - t0) > s->roof ? rate(good, t1 - t0) : s->roof;
        s->encode = rate(text->len, t2 - t1) > s->encode ? rate(text->len, t2 - t1) : s->encode;
        s->decode = rate(back.len, t3 - t2) > s->decode ? rate(back.len, t3 - t2) : s->decode;
        s->n_ids = ids.n;
        s->ops = (double)(tok_ops(t) - ops) / (double)text->len;
    }
    tok_ids_fini(&ids);
    buf_fini(&back);
    return rc;
}

static int one_shape(const struct tok *t, const char *name, const struct buf *text) {
    struct speed s = {0};
    int rc = 0;
    for (int32_t i = 0; i < ROUNDS && !rc; i++) {
        rc = round_trip(t, text, &s);
    }
    if (!rc) {
        printf(
            "  %-12s encode %7.1f MB/s  decode %7.1f MB/s  roof %8.0f MB/s  %5.2f bytes a token  "
            "%5.2f ops a byte\n",
            name, s.encode, s.decode, s.roof, (double)text->len / (double)i64_max(1, s.n_ids),
            s.ops);
    }
    return rc;
}

static int all_shapes(const char *path, int64_t bytes, const char *only, const struct buf *own) {
    struct tok *t = NULL;
    int64_t t0 = cpu_ns();
    int rc = toksource_open(path, &t);
    if (!rc) {
        printf("%s: %d tokens, open %.0f ms\n", path, tok_n_vocab(t),
               (double)(cpu_ns() - t0) / 1e6);
    }
    if (!rc && own->len > 0 && (!only || strcmp(only, "file") == 0)) {
        rc = one_shape(t, "file", own);
    }
    for (int32_t i = 0; i < TEXTSHAPE_N && !rc; i++) {
        struct buf b;
        if (only && strcmp(only, textshape_name(i)) != 0) {
            continue;
        }
        buf_init(&b, MEM_TEST, TEXT_MAX);
        rc = textshape_make(i, bytes, &b);
        rc = rc ? rc : one_shape(t, textshape_name(i), &b);
        buf_fini(&b);
    }
    tok_destroy(t);
    return rc;
}

int main(int argc, char **argv) {
    int64_t mb = 10;
    const char *only = NULL;
    struct buf text;
    int rc = 0;
    int at = 1;
    buf_init(&text, MEM_TEST, TEXT_MAX);
    for (; at + 1 < argc && argv[at][0] == '-' && !rc; at += 2) {
        only = strcmp(argv[at], "--shape") == 0 ? argv[at + 1] : only;
        rc = only == argv[at + 1]              ? 0
             : strcmp(argv[at], "--mb") == 0   ? str_i64(argv[at + 1], 1, 200, &mb)
             : strcmp(argv[at], "--text") == 0 ? file_read(argv[at + 1], &text)
                                               : err_set(ERR_USAGE, "unknown flag %s", argv[at]);
    }
    if (at >= argc && !rc) {
        rc = err_set(ERR_USAGE,
                     "usage: bench_tok [--mb N] [--text FILE] [--shape NAME] TOKENIZER...");
    }
    for (; at < argc && !rc; at++) {
        rc = all_shapes(argv[at], mb << 20, only, &text);
    }
    if (rc) {
        fprintf(stderr, "%s\n", err_msg());
    }
    buf_fini(&text);
    return rc ? 1 : 0;
}
