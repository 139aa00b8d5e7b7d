/* Token events of one request as bytes, for reading many of them fast. */
#ifndef REPORTS_PACK_H
#define REPORTS_PACK_H

#include "engine/base/buf.h"
#include "reports/store.h"

/* Most and least bytes of one event. */
enum { PACK_EVENT_MAX = 20, PACK_EVENT_MIN = 2 };

/* Whether event idx, after one at before_ns (anything for idx 0), can be packed without loss:
 * t_ns and n_tokens not negative, t_ns not before before_ns, gap_ns the difference of the times,
 * STORE_NULL for idx 0 alone. */
bool pack_fits(const struct store_event *e, int64_t idx, int64_t before_ns);

/* Appends an event that fits. in: before_ns 0 for the first. err: ERR_NOMEM, ERR_LIMIT */
int pack_add(struct buf *b, const struct store_event *e, int64_t before_ns);

/* Reads n_events back.
 * in:   data[n_bytes], any bytes
 * out:  events[n_events]
 * err:  ERR_FORMAT unless the bytes are exactly that many events; events is then undefined
 * cost: O(n_bytes), no allocation */
int pack_read(const void *data, int64_t n_bytes, int64_t n_events, struct store_event *events);

#endif
