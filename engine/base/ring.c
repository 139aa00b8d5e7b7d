#include "engine/base/ring.h"

#include <string.h>

#include "engine/base/err.h"

int ring_init(struct ring *r, enum mem_tag tag, int32_t cap, int32_t item_bytes) {
    int32_t n = 1;
    if (cap < 1 || cap > RING_CAP_MAX) {
        return err_set(ERR_RANGE, "ring of %d items, want 1..%d", cap, RING_CAP_MAX);
    }
    while (n < cap) {
        n *= 2;
    }
    uint8_t *items = mem_array(tag, n, item_bytes);
    if (!items) {
        return ERR_NOMEM;
    }
    r->items = items;
    r->cap = n;
    r->item_bytes = item_bytes;
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    return 0;
}

void ring_fini(struct ring *r) {
    mem_free(r->items);
    r->items = NULL;
    r->cap = 0;
}

static uint8_t *slot(struct ring *r, uint32_t i) {
    return r->items + (int64_t)(i & (uint32_t)(r->cap - 1)) * r->item_bytes;
}

bool ring_push(struct ring *r, const void *item) {
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    if (tail - head == (uint32_t)r->cap) {
        return false;
    }
    memcpy(slot(r, tail), item, (size_t)r->item_bytes);
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

bool ring_pop(struct ring *r, void *item) {
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    if (tail == head) {
        return false;
    }
    memcpy(item, slot(r, head), (size_t)r->item_bytes);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

int32_t ring_count(const struct ring *r) {
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    return (int32_t)(tail - head);
}
