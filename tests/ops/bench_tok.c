/* Speed of encode and decode: bench_tok TOKENIZER TEXT [ROUNDS]. Not run by ctest. */
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/text/tok.h"

enum { TEXT_MAX = 1 << 28 };

static int round_trip(const struct tok *t, const struct buf *text) {
    struct tok_ids ids;
    struct buf back;
    tok_ids_init(&ids);
    buf_init(&back, MEM_TEST, TEXT_MAX);
    int64_t t0 = clock_now_ns();
    int rc = tok_encode(t, buf_cstr(text), text->len, 0, &ids);
    int64_t t1 = clock_now_ns();
    rc = rc ? rc : tok_decode(t, ids.v, ids.n, false, &back);
    int64_t t2 = clock_now_ns();
    if (!rc) {
        printf("%d tokens; encode %.1f MB/s, decode %.1f MB/s\n", ids.n,
               (double)text->len * 1e3 / (double)(t1 - t0),
               (double)back.len * 1e3 / (double)(t2 - t1));
    }
    tok_ids_fini(&ids);
    buf_fini(&back);
    return rc;
}

int main(int argc, char **argv) {
    int64_t rounds = 3;
    struct tok *t = NULL;
    struct buf text;
    if (argc < 3 || (argc > 3 && str_i64(argv[3], 1, 1000, &rounds))) {
        fprintf(stderr, "usage: bench_tok TOKENIZER TEXT [ROUNDS]\n");
        return 2;
    }
    buf_init(&text, MEM_TEST, TEXT_MAX);
    int64_t t0 = clock_now_ns();
    int rc = tok_open(argv[1], &t);
    printf("open %.0f ms\n", (double)(clock_now_ns() - t0) / 1e6);
    rc = rc ? rc : file_read(argv[2], &text);
    for (int64_t i = 0; i < rounds && !rc; i++) {
        rc = round_trip(t, &text);
    }
    if (rc) {
        fprintf(stderr, "%s\n", err_msg());
    }
    buf_fini(&text);
    tok_close(t);
    return rc ? 1 : 0;
}
