/* An event is told when its time has come, with that time: sent + ttft + k * itl.
 *
 * A heap holds the answers in flight by their next event, ties by tag, under one lock that the
 * sender and the caller share. Nothing is asked of a network, a thread or a tokenizer. */
#include "harness/target_null.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

enum { BATCH_MAX = 256 };

struct answer {
    int64_t next_ns; /* of its next event */
    uint64_t tag;
    int64_t n_prompt;
    int32_t n_told;
    int32_t n_tokens;
    bool is_canceled;
};

struct target_null {
    struct target head;
    struct target_null_opts o;
    pthread_mutex_t lock;
    struct answer *heap; /* own, [cap]; under the lock, like the next two */
    int32_t n;
    int32_t cap;
    struct target_outcome outcome[BATCH_MAX]; /* of the last poll */
};

static bool before(const struct answer *a, const struct answer *b) {
    return a->next_ns < b->next_ns || (a->next_ns == b->next_ns && a->tag < b->tag);
}

static void swap(struct answer *a, struct answer *b) {
    struct answer t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct target_null *t, int32_t i) {
    for (;;) {
        int32_t least = i;
        for (int32_t c = 2 * i + 1; c <= 2 * i + 2 && c < t->n; c++) {
            least = before(&t->heap[c], &t->heap[least]) ? c : least;
        }
        if (least == i) {
            return;
        }
        swap(&t->heap[i], &t->heap[least]);
        i = least;
    }
}

static void sift_up(struct target_null *t, int32_t i) {
    for (; i > 0 && before(&t->heap[i], &t->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(&t->heap[i], &t->heap[(i - 1) / 2]);
    }
}

static int start(struct target *head) {
    ((struct target_null *)head)->n = 0;
    return 0;
}

static int add(struct target_null *t, const struct answer *a) {
    if (t->n == t->cap) {
        int32_t cap = i32_max(64, t->cap * 2);
        struct answer *heap = mem_realloc(MEM_HARNESS, t->heap, cap * (int64_t)sizeof *heap);
        if (!heap) {
            return ERR_NOMEM;
        }
        t->heap = heap;
        t->cap = cap;
    }
    t->heap[t->n++] = *a;
    sift_up(t, t->n - 1);
    return 0;
}

static int submit(struct target *head, const struct target_request *q, int64_t *sent_ns) {
    struct target_null *t = (struct target_null *)head;
    int64_t now = clock_now_ns();
    const struct answer a = {.next_ns = now + t->o.ttft_ns,
                             .tag = q->tag,
                             .n_prompt = q->n_ids,
                             .n_tokens = t->o.tokens > 0 ? t->o.tokens : q->max_new};
    pthread_mutex_lock(&t->lock);
    int rc = add(t, &a);
    pthread_mutex_unlock(&t->lock);
    if (!rc) {
        *sent_ns = now;
    }
    return rc;
}

static int cancel(struct target *head, uint64_t tag) {
    struct target_null *t = (struct target_null *)head;
    pthread_mutex_lock(&t->lock);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->heap[i].tag == tag) {
            t->heap[i].is_canceled = true;
            t->heap[i].next_ns = i64_min(t->heap[i].next_ns, clock_now_ns());
            sift_up(t, i);
            break;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return 0;
}

/* The next event of the top of the heap; its end comes at the time of its last token. */
static void tell(struct target_null *t, struct target_event *ev, struct target_outcome *o) {
    struct answer *a = &t->heap[0];
    *ev = (struct target_event){.tag = a->tag, .t_ns = a->next_ns};
    if (a->n_told == a->n_tokens || a->is_canceled) {
        *o = (struct target_outcome){.finish = a->is_canceled ? NULL : "length",
                                     .n_prompt = a->n_prompt,
                                     .n_output = a->n_told,
                                     .n_cached = -1,
                                     .n_preempt = -1};
        ev->kind = TARGET_END;
        ev->end = a->is_canceled ? TARGET_CANCELED : TARGET_OK;
        ev->outcome = o;
        t->heap[0] = t->heap[--t->n];
    } else {
        ev->kind = TARGET_TOKENS;
        ev->n_tokens = 1;
        ev->is_answer = true;
        a->n_told++;
        a->next_ns += a->n_told < a->n_tokens ? t->o.itl_ns : 0;
    }
    sift_down(t, 0);
}

static int32_t poll(struct target *head, struct target_event *ev, int32_t cap) {
    struct target_null *t = (struct target_null *)head;
    int64_t now = clock_now_ns();
    int32_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (; n < i32_min(cap, BATCH_MAX) && t->n > 0 && t->heap[0].next_ns <= now; n++) {
        tell(t, &ev[n], &t->outcome[n]);
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}

static int error(struct target *head) {
    (void)head;
    return 0;
}

static void stop(struct target *head) {
    (void)head;
}

static void close_it(struct target *head) {
    struct target_null *t = (struct target_null *)head;
    pthread_mutex_destroy(&t->lock);
    mem_free(t->heap);
    mem_free(t);
}

static const struct target_ops ops = {.start = start,
                                      .submit = submit,
                                      .cancel = cancel,
                                      .poll = poll,
                                      .error = error,
                                      .stop = stop,
                                      .close = close_it};

int target_null_open(const struct target_null_opts *o, struct target **out) {
    char ttft[STR_NUM_MAX];
    char itl[STR_NUM_MAX];
    struct target_null *t = mem_calloc(MEM_HARNESS, (int64_t)sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    t->head = (struct target){.ops = &ops, .broken = "engine_error"};
    t->o = *o;
    pthread_mutex_init(&t->lock, NULL);
    str_show_seconds(ttft, (double)o->ttft_ns * 1e-9);
    str_show_seconds(itl, (double)o->itl_ns * 1e-9);
    snprintf(t->head.about, TARGET_ABOUT_MAX, "fixed schedule: TTFT %s, ITL %s", ttft, itl);
    *out = &t->head;
    return 0;
}
