#include "engine/run/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

int sampler_init(struct sampler *s, int32_t vocab) {
    *s = (struct sampler){.vocab = vocab};
    s->order = mem_array(MEM_RUN, vocab, (int64_t)sizeof *s->order);
    s->prob = mem_array(MEM_RUN, vocab, (int64_t)sizeof *s->prob);
    s->logit = mem_array(MEM_RUN, vocab, (int64_t)sizeof *s->logit);
    if (!s->order || !s->prob || !s->logit) {
        sampler_fini(s);
        return ERR_NOMEM;
    }
    return 0;
}

void sampler_fini(struct sampler *s) {
    mem_free(s->order);
    mem_free(s->prob);
    mem_free(s->logit);
    *s = (struct sampler){0};
}

int sampling_check(const struct sampling *p) {
    if (!(p->temperature >= 0 && p->temperature <= 100)) {
        return err_set(ERR_RANGE, "temperature %g, want 0..100", (double)p->temperature);
    }
    if (!(p->top_p >= 0 && p->top_p <= 1)) {
        return err_set(ERR_RANGE, "top_p %g, want 0..1", (double)p->top_p);
    }
    if (!(p->min_p >= 0 && p->min_p <= 1)) {
        return err_set(ERR_RANGE, "min_p %g, want 0..1", (double)p->min_p);
    }
    if (p->top_k < 0) {
        return err_set(ERR_RANGE, "top_k %d, want 0 or more", p->top_k);
    }
    if (!(p->presence >= -2 && p->presence <= 2)) {
        return err_set(ERR_RANGE, "presence penalty %g, want -2..2", (double)p->presence);
    }
    if (!(p->frequency >= -2 && p->frequency <= 2)) {
        return err_set(ERR_RANGE, "frequency penalty %g, want -2..2", (double)p->frequency);
    }
    return 0;
}

bool sampling_penalizes(const struct sampling *p) {
    return p->presence != 0 || p->frequency != 0;
}

const float *sampler_adjust(struct sampler *s,
                            const float *logits,
                            const struct sampling *p,
                            const int32_t *generated,
                            int32_t n,
                            const int32_t *ban,
                            int32_t n_ban) {
    float *x = s->logit;
    memcpy(x, logits, (size_t)s->vocab * sizeof *x);
    for (int32_t i = 0; i < n && sampling_penalizes(p); i++) {
        s->order[generated[i]] = 0;
    }
    for (int32_t i = 0; i < n && sampling_penalizes(p); i++) {
        s->order[generated[i]]++;
    }
    for (int32_t i = 0; i < n && sampling_penalizes(p); i++) {
        int32_t id = generated[i];
        float count = (float)s->order[id];
        x[id] -= count > 0 ? count * p->frequency + p->presence : 0;
        s->order[id] = 0; /* why: a token that comes again is done */
    }
    for (int32_t i = 0; i < n_ban; i++) {
        if (ban[i] >= 0 && ban[i] < s->vocab) {
            x[ban[i]] = -INFINITY;
        }
    }
    return x;
}

static int argmax(const float *x, int32_t n) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) {
            best = i;
        }
    }
    return best;
}

double sampler_logsumexp(const float *logits, int32_t vocab) {
    int32_t best = argmax(logits, vocab);
    if (best < 0) {
        return (double)NAN;
    }
    double top = (double)logits[best];
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        sum += isnan(logits[i]) ? 0 : exp((double)logits[i] - top);
    }
    return top + log(sum);
}

struct heap {
    int32_t *id; /* max-heap by (prob, lower id first) */
    const float *prob;
    int32_t n;
};

static bool above(const struct heap *h, int32_t a, int32_t b) {
    return h->prob[a] != h->prob[b] ? h->prob[a] > h->prob[b] : a < b;
}

static void sift_down(struct heap *h, int32_t i) {
    for (;;) {
        int32_t c = 2 * i + 1;
        if (c >= h->n) {
            return;
        }
        if (c + 1 < h->n && above(h, h->id[c + 1], h->id[c])) {
            c++;
        }
        if (!above(h, h->id[c], h->id[i])) {
            return;
        }
        int32_t t = h->id[i];
        h->id[i] = h->id[c];
        h->id[c] = t;
        i = c;
    }
}

static int32_t heap_pop(struct heap *h) {
    int32_t top = h->id[0];
    h->id[0] = h->id[--h->n];
    sift_down(h, 0);
    return top;
}

/* Marks the kept tokens: all others get probability -1. Tokens leave a heap in falling order, so
 * only as many are ordered as are kept. */
static void restrict_set(struct sampler *s, const struct sampling *p, double mass) {
    struct heap h = {.id = s->order, .prob = s->prob, .n = 0};
    double top = 0;
    for (int32_t i = 0; i < s->vocab; i++) {
        top = fmax(top, (double)s->prob[i]);
    }
    double floor_p = (double)p->min_p * top;
    for (int32_t i = 0; i < s->vocab; i++) {
        if ((double)s->prob[i] >= floor_p && s->prob[i] > 0) {
            h.id[h.n++] = i;
        }
    }
    for (int32_t i = h.n / 2 - 1; i >= 0; i--) {
        sift_down(&h, i);
    }
    double limit = p->top_p > 0 && p->top_p < 1 ? (double)p->top_p * mass : (double)INFINITY;
    double sum = 0;
    int32_t kept = 0;
    while (h.n > 0 && sum < limit && (p->top_k == 0 || kept < p->top_k)) {
        int32_t id = heap_pop(&h);
        sum += (double)s->prob[id];
        kept++;
    }
    for (int32_t i = 0; i < h.n; i++) {
        s->prob[h.id[i]] = -1;
    }
    for (int32_t i = 0; i < s->vocab; i++) {
        if ((double)s->prob[i] < floor_p) {
            s->prob[i] = -1;
        }
    }
}

int sampler_pick(struct sampler *s,
                 const float *logits,
                 const struct sampling *p,
                 int32_t position,
                 int32_t *token) {
    int32_t best = argmax(logits, s->vocab);
    if (best < 0 || !isfinite(logits[best])) {
        return err_set(ERR_NUMERIC, "no finite logit at position %d", position);
    }
    if (p->temperature == 0) {
        *token = best;
        return 0;
    }
    double inv = 1 / (double)p->temperature;
    double top = (double)logits[best];
    double mass = 0;
    for (int32_t i = 0; i < s->vocab; i++) {
        double e = isnan(logits[i]) ? 0 : exp(((double)logits[i] - top) * inv);
        s->prob[i] = (float)e;
        mass += (double)s->prob[i];
    }
    if (p->top_k > 0 || p->min_p > 0 || (p->top_p > 0 && p->top_p < 1)) {
        restrict_set(s, p, mass);
    }
    double best_key = -(double)INFINITY;
    for (int32_t i = 0; i < s->vocab; i++) {
        if (s->prob[i] <= 0) {
            continue;
        }
        double u = rng_open01(rng_keyed(p->seed, (uint64_t)position, (uint64_t)i));
        double key = ((double)logits[i] - top) * inv - log(-log(u));
        if (key > best_key) {
            best_key = key;
            best = i;
        }
    }
    *token = best;
    return 0;
}
