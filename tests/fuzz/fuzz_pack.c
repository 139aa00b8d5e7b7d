/* Any bytes as packed token events: refused, or read and packed again into the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "reports/pack.h"

enum { EVENTS_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct store_event e[EVENTS_MAX];
    struct buf b;
    if (n < 1 || pack_read(data + 1, (int64_t)n - 1, data[0], e)) {
        return 0;
    }
    buf_init(&b, MEM_TEST, EVENTS_MAX * PACK_EVENT_MAX);
    for (int64_t i = 0; i < data[0]; i++) {
        int64_t before = i ? e[i - 1].t_ns : 0;
        if (!pack_fits(&e[i], i, before) || pack_add(&b, &e[i], before)) {
            abort();
        }
    }
    if (b.len != (int64_t)n - 1 || (b.len > 0 && memcmp(b.data, data + 1, (size_t)b.len) != 0)) {
        abort();
    }
    buf_fini(&b);
    return 0;
}
