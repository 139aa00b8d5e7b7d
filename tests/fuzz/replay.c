/* Runs a fuzz target over every file of a corpus folder, for builds without libFuzzer.
 *
 * Each file is fed whole, cut at several lengths, and with single bytes flipped from a fixed seed,
 * so that the target is exercised on damaged input in every build. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { INPUT_MAX = 1 << 24, N_FLIPS = 200, N_CUTS = 40 };

static void feed(struct buf *b, struct rng *r) {
    uint8_t *p = (uint8_t *)b->data;
    LLVMFuzzerTestOneInput(p, (size_t)b->len);
    for (int32_t i = 0; i < N_CUTS && b->len > 0; i++) {
        LLVMFuzzerTestOneInput(p, (size_t)rng_below(r, b->len));
    }
    for (int32_t i = 0; i < N_FLIPS && b->len > 0; i++) {
        int64_t at = rng_below(r, i64_min(b->len, i % 2 ? 512 : b->len));
        uint8_t old = p[at];
        p[at] = (uint8_t)rng_u64(r);
        LLVMFuzzerTestOneInput(p, (size_t)b->len);
        p[at] = old;
    }
}

int main(int argc, char **argv) {
    struct rng r;
    int32_t n = 0;
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: %s CORPUS_DIR (found none)\n", argv[0]);
        return 2;
    }
    rng_init(&r, 1, 0);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[FILE_PATH_MAX];
        struct buf b;
        if (e->d_name[0] == '.' || file_join(path, argv[1], e->d_name)) {
            continue;
        }
        buf_init(&b, MEM_TEST, INPUT_MAX);
        if (file_read(path, &b) == 0) {
            feed(&b, &r);
            n++;
        }
        buf_fini(&b);
    }
    closedir(d);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
