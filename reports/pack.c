/* One event after the other, each as two numbers:
 *
 *   n_tokens, t_ns - t_ns of the event before (of the first: t_ns)
 *
 * A number is in groups of 7 bits, lowest first, bit 7 set on all but the last byte; at most 9
 * bytes for 63 bits. Between 4 and 268 ms of gap take 4 bytes, so an event is usually 5.
 *
 * 1. What is read back equals what was packed, gap_ns included, or is refused.
 * 2. Every number has one form: no byte 0 ends a number of several bytes. */
#include "reports/pack.h"

#include "engine/base/err.h"

enum { GROUP_BITS = 7, GROUPS_MAX = 9 };

bool pack_fits(const struct store_event *e, int64_t idx, int64_t before_ns) {
    if (e->t_ns < 0 || e->n_tokens < 0) {
        return false;
    }
    if (idx == 0) {
        return e->gap_ns == STORE_NULL;
    }
    return e->t_ns >= before_ns && e->gap_ns == e->t_ns - before_ns;
}

static int32_t put_number(uint8_t *at, int64_t v) {
    int32_t n = 0;
    uint64_t rest = (uint64_t)v;
    for (; rest > 0x7f; rest >>= GROUP_BITS) {
        at[n++] = (uint8_t)(rest | 0x80);
    }
    at[n++] = (uint8_t)rest;
    return n;
}

int pack_add(struct buf *b, const struct store_event *e, int64_t before_ns) {
    uint8_t bytes[PACK_EVENT_MAX];
    int32_t n = put_number(bytes, e->n_tokens);
    n += put_number(bytes + n, e->t_ns - before_ns);
    return buf_add(b, bytes, n);
}

/* out: bytes taken, 0 when there is no number at p */
static int32_t get_number(const uint8_t *p, const uint8_t *end, int64_t *out) {
    uint64_t v = 0;
    for (int32_t i = 0; i < GROUPS_MAX && p + i < end; i++) {
        v |= (uint64_t)(p[i] & 0x7f) << (GROUP_BITS * i);
        if (p[i] < 0x80) {
            *out = (int64_t)v;
            return i > 0 && p[i] == 0 ? 0 : i + 1;
        }
    }
    return 0;
}

int pack_read(const void *data, int64_t n_bytes, int64_t n_events, struct store_event *events) {
    const uint8_t *p = data;
    const uint8_t *end = p + n_bytes;
    int64_t t = 0;
    for (int64_t i = 0; i < n_events; i++) {
        int64_t n_tokens = 0;
        int64_t gap = 0;
        int32_t a = get_number(p, end, &n_tokens);
        int32_t b = a > 0 ? get_number(p + a, end, &gap) : 0;
        if (b == 0 || gap > INT64_MAX - t) {
            return err_set(
                ERR_FORMAT, "packed token events: no number at byte %lld of %lld, event %lld",
                (long long)(p - (const uint8_t *)data), (long long)n_bytes, (long long)i);
        }
        p += a + b;
        t += gap;
        events[i] = (struct store_event){t, i ? gap : STORE_NULL, n_tokens};
    }
    if (p != end) {
        return err_set(ERR_FORMAT, "packed token events: %lld bytes behind event %lld",
                       (long long)(end - p), (long long)n_events);
    }
    return 0;
}
