/* Every block carries a 64-byte header in front of the caller's pointer:
 *
 *     ... | void *raw | int64 bytes | int32 tag | int32 magic | pad to 64 | caller's bytes,
 * 64-aligned
 *
 * raw comes from calloc, so that the pages of a large block are touched only when they are used.
 * The accounts are atomic, since any thread may allocate. */
#include "engine/base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/fault.h"

enum { HEADER = 64, MAGIC = 0x7121e33a };

struct header {
    void *raw; /* own, what calloc gave */
    int64_t bytes;
    int32_t tag;
    int32_t magic;
};

static _Atomic int64_t live[MEM_N];
static _Atomic int64_t live_all;
static _Atomic int64_t peak_all;
static _Atomic int64_t n_calls;

static void account(enum mem_tag tag, int64_t delta) {
    atomic_fetch_add_explicit(&live[tag], delta, memory_order_relaxed);
    int64_t now = atomic_fetch_add_explicit(&live_all, delta, memory_order_relaxed) + delta;
    int64_t peak = atomic_load_explicit(&peak_all, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&peak_all, &peak, now)) {
    }
}

void *mem_calloc(enum mem_tag tag, int64_t bytes) {
    int64_t padded = 0;
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    void *raw = NULL;
    if (bytes >= 0 && i64_add(bytes, HEADER + 63, &padded) && !fault_hit(FAULT_ALLOC)) {
        raw = calloc(1, (size_t)padded);
    }
    if (!raw) {
        err_set(ERR_NOMEM, "cannot allocate %lld bytes for %s", (long long)bytes,
                mem_tag_name(tag));
        return NULL;
    }
    uintptr_t at = ((uintptr_t)raw + 63) / 64 * 64;
    struct header *h = (struct header *)at;
    *h = (struct header){.raw = raw, .bytes = bytes, .tag = (int32_t)tag, .magic = MAGIC};
    account(tag, bytes);
    return (uint8_t *)h + HEADER;
}

void *mem_array(enum mem_tag tag, int64_t n, int64_t size) {
    int64_t bytes = -1;
    if (n < 0 || !i64_mul(n, size, &bytes)) {
        err_set(ERR_NOMEM, "cannot allocate %lld elements of %lld bytes for %s", (long long)n,
                (long long)size, mem_tag_name(tag));
        return NULL;
    }
    return mem_calloc(tag, bytes);
}

static struct header *header_of(void *p) {
    struct header *h = (struct header *)(void *)((uint8_t *)p - HEADER);
    assert(h->magic == MAGIC);
    return h;
}

void *mem_realloc(enum mem_tag tag, void *p, int64_t bytes) {
    void *q = mem_calloc(tag, bytes);
    if (q && p) {
        memcpy(q, p, (size_t)i64_min(header_of(p)->bytes, bytes));
        mem_free(p);
    }
    return q;
}

void mem_free(void *p) {
    if (!p) {
        return;
    }
    struct header *h = header_of(p);
    account((enum mem_tag)h->tag, -h->bytes);
    h->magic = 0;
    free(h->raw);
}

char *mem_strdup(enum mem_tag tag, const char *s, int64_t n) {
    if (n < 0) {
        n = (int64_t)strlen(s);
    }
    char *d = mem_calloc(tag, n + 1);
    if (d) {
        memcpy(d, s, (size_t)n);
    }
    return d;
}

int64_t mem_live(enum mem_tag tag) {
    return atomic_load(tag == MEM_N ? &live_all : &live[tag]);
}

int64_t mem_peak(void) {
    return atomic_load(&peak_all);
}

int64_t mem_calls(void) {
    return atomic_load(&n_calls);
}

const char *mem_tag_name(enum mem_tag tag) {
    static const char *const names[MEM_N] = {
        "base",   "text",  "model", "weights", "kv cache", "scheduler", "engine",
        "kernel", "quant", "data",  "report",  "harness",  "serve",     "test"};
    return tag < MEM_N ? names[tag] : "all";
}
