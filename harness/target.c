#include "harness/target.h"

int target_start(struct target *t) {
    return t->ops->start(t);
}

int target_submit(struct target *t, const struct target_request *q, int64_t *sent_ns) {
    return t->ops->submit(t, q, sent_ns);
}

int target_cancel(struct target *t, uint64_t tag) {
    return t->ops->cancel(t, tag);
}

int32_t target_poll(struct target *t, struct target_event *ev, int32_t cap) {
    return t->ops->poll(t, ev, cap);
}

int target_error(struct target *t) {
    return t->ops->error(t);
}

bool target_sample(struct target *t, struct target_sample *s) {
    return t->ops->sample && t->ops->sample(t, s);
}

void target_stop(struct target *t) {
    t->ops->stop(t);
}

void target_close(struct target *t) {
    if (t) {
        t->ops->close(t);
    }
}
