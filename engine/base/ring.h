/* Bounded single-producer single-consumer ring of fixed-size items; lock-free, never allocates
 * after ring_init. */
#ifndef ENGINE_BASE_RING_H
#define ENGINE_BASE_RING_H

#include <stdatomic.h>

#include "engine/base/mem.h"

enum { RING_CAP_MAX = 1 << 30 };

struct ring {
    uint8_t *items; /* own, [cap][item_bytes] */
    int32_t cap;    /* power of two */
    int32_t item_bytes;
    _Atomic uint32_t head; /* next to read, written by the consumer */
    _Atomic uint32_t tail; /* next to write, written by the producer */
};

/* in: cap 1..RING_CAP_MAX, rounded up to a power of two. err: ERR_RANGE, ERR_NOMEM.
 * own: caller, ring_fini */
int ring_init(struct ring *r, enum mem_tag tag, int32_t cap, int32_t item_bytes);
void ring_fini(struct ring *r);

/* Producer side: copies one item in. out: false when full */
bool ring_push(struct ring *r, const void *item);

/* Consumer side: copies one item out. out: false when empty */
bool ring_pop(struct ring *r, void *item);

/* Items waiting; exact for the two owners, a snapshot for others. */
int32_t ring_count(const struct ring *r);

#endif
