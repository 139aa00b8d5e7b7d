/* Pairing: request k of the base and request k of the other target have the same prompt, length and
 * intended start (same seed, same order), so the ratio of means is taken over pairs that both
 * answered; its interval is that of batch means, which keep neighbours together.
 *
 * Words: a speed counts as different only when its interval leaves 1 out. Quality by the rise of
 * perplexity: up to 1 % kept, up to 5 % a little lost, up to 15 % lost, above much lost. */
#include "reports/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/show.h"

struct compare_limits compare_no_limits(void) {
    const double none = (double)NAN;
    return (struct compare_limits){none, none, none, none, none};
}

static void add(char text[COMPARE_TEXT_MAX], const char *fmt, ...) PRINTF_LIKE(2, 3);

static void add(char text[COMPARE_TEXT_MAX], const char *fmt, ...) {
    size_t at = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + at, COMPARE_TEXT_MAX - at, fmt, ap);
    va_end(ap);
}

static double ratio_i64(int64_t a, int64_t b) {
    return a == STORE_NULL || b == STORE_NULL || b == 0 ? (double)NAN : (double)a / (double)b;
}

/* Collects the pairs of two runs; both arrays are ascending by seq. */
static int paired(const struct report_run *base,
                  const struct report_run *run,
                  bool is_ttft,
                  struct stat_ci *ratio) {
    int64_t cap = i64_max(1, i64_min(base->n_samples, run->n_samples));
    double *a = mem_array(MEM_REPORT, 2 * cap, (int64_t)sizeof *a);
    if (!a) {
        return ERR_NOMEM;
    }
    double *b = a + cap;
    int64_t n = 0;
    for (int64_t i = 0, k = 0; i < base->n_samples && k < run->n_samples;) {
        const struct report_sample *p = &base->samples[i];
        const struct report_sample *q = &run->samples[k];
        if (p->seq != q->seq) {
            i += p->seq < q->seq ? 1 : 0;
            k += p->seq < q->seq ? 0 : 1;
            continue;
        }
        a[n] = is_ttft ? p->ttft_s : p->tpot_s;
        b[n] = is_ttft ? q->ttft_s : q->tpot_s;
        n += p->ok && q->ok && a[n] > 0 && b[n] > 0 ? 1 : 0;
        i++;
        k++;
    }
    *ratio = stat_ratio(b, a, n);
    mem_free(a);
    return 0;
}

static int compare_points(const struct report *r, struct compare_target *c) {
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        int32_t base = -1;
        for (int32_t k = 0; k < r->n_runs && run->target == c->target; k++) {
            bool same = r->runs[k].target == r->base && r->runs[k].point_index == run->point_index;
            base = same ? k : base;
        }
        if (base < 0 || c->n_points == COMPARE_POINTS_MAX) {
            continue;
        }
        const struct report_run *b = &r->runs[base];
        struct compare_point *p = &c->points[c->n_points++];
        *p = (struct compare_point){
            .base_run = base,
            .run = i,
            .rate_ratio = run->output_tokens_per_s.value / b->output_tokens_per_s.value,
            .goodput_ratio = run->goodput_per_s.value / b->goodput_per_s.value};
        int rc = paired(b, run, true, &p->ttft_ratio);
        rc = rc ? rc : paired(b, run, false, &p->tpot_ratio);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

const struct compare_point *compare_top(const struct compare_target *c) {
    return c->n_points > 0 ? &c->points[c->n_points - 1] : NULL;
}

static const char *quality_words(double increase) {
    if (increase <= 0.01) {
        return "it keeps the base's quality";
    }
    if (increase <= 0.05) {
        return "it loses a little quality";
    }
    return increase <= 0.15 ? "it loses quality" : "it loses much quality";
}

/* Speed per token at the highest common point; speed is the inverse of time. */
static void speed_words(const struct report *r, struct compare_target *c) {
    const struct compare_point *p = compare_top(c);
    if (!p || isnan(p->tpot_ratio.value)) {
        add(c->sentence, ", its speed was not measured");
        return;
    }
    const char *point = r->runs[p->run].point;
    const struct stat_ci t = p->tpot_ratio;
    double speed = 1 / t.value;
    if (t.hi < 1 || t.lo > 1) {
        add(c->title, ", %.2fx as fast", speed);
        add(c->sentence, ", answers %.2fx as fast per token at %s (95 %%: %.2f to %.2f)", speed,
            point, 1 / t.hi, 1 / t.lo);
    } else if (isnan(t.lo)) {
        add(c->sentence,
            ", answers %.2fx as fast per token at %s (too few requests for an "
            "interval)",
            speed, point);
    } else {
        add(c->title, ", equally fast");
        add(c->sentence,
            ", does not differ measurably in speed per token at %s (%.2fx, 95 %%: "
            "%.2f to %.2f)",
            point, speed, 1 / t.hi, 1 / t.lo);
    }
}

static void quality(const struct report *r, struct compare_target *c) {
    const struct report_target *base = &r->targets[r->base];
    const struct report_target *t = &r->targets[c->target];
    double increase = t->perplexity_ratio.value - 1;
    if (isnan(increase)) {
        add(c->sentence, "; perplexity was not measured");
    } else {
        add(c->title, ", perplexity %+.1f %%", increase * 100);
        add(c->sentence, "; perplexity goes from %.2f to %.2f (%+.1f %%)", base->perplexity.value,
            t->perplexity.value, increase * 100);
    }
    if (!isnan(t->kl.value)) {
        add(c->sentence, ", KL divergence %.3f nats a token", t->kl.value);
    }
    if (!isnan(t->top1.value)) {
        add(c->sentence, ", %.1f %% of its first choices are the base's", t->top1.value * 100);
    }
    if (!isnan(increase)) {
        add(c->sentence, ": %s", quality_words(increase));
    }
    add(c->sentence, ".");
}

static void describe(const struct report *r, struct compare_target *c) {
    const struct report_target *base = &r->targets[r->base];
    const struct report_target *t = &r->targets[c->target];
    add(c->title, "%s against %s: ", t->name, base->name);
    add(c->sentence, "%s ", t->name);
    if (isnan(c->memory_ratio) && isnan(c->disk_ratio)) {
        add(c->title, "size not measured");
        add(c->sentence, "is of unmeasured size");
    } else {
        double ratio = isnan(c->memory_ratio) ? c->disk_ratio : c->memory_ratio;
        const char *what = isnan(c->memory_ratio) ? "disk space" : "memory";
        add(c->title, "%.0f %% of the %s", ratio * 100, what);
        add(c->sentence, "takes %.0f %% of the base's %s for weights", ratio * 100, what);
    }
    speed_words(r, c);
    quality(r, c);
}

/* value must be at most (or, least, at least) limit; unmeasured fails. */
static void
check(struct compare_target *c, const char *what, double value, double limit, bool least) {
    if (isnan(limit)) {
        return;
    }
    bool holds = least ? value >= limit : value <= limit;
    if (holds) {
        return;
    }
    c->failed = true;
    const char *sep = c->failures[0] ? "; " : "";
    if (isnan(value)) {
        add(c->failures, "%s%s was not measured, want at %s %.4g", sep, what,
            least ? "least" : "most", limit);
    } else {
        add(c->failures, "%s%s is %.4g, want at %s %.4g", sep, what, value,
            least ? "least" : "most", limit);
    }
}

static void
check_limits(const struct report *r, const struct compare_limits *l, struct compare_target *c) {
    const struct report_target *t = &r->targets[c->target];
    check(c, "the perplexity increase in %", (t->perplexity_ratio.value - 1) * 100,
          l->perplexity_increase_pct, false);
    check(c, "the KL divergence", t->kl.value, l->kl, false);
    check(c, "the top-1 agreement in %", t->top1.value * 100, l->top1_min_pct, true);
    double ttft = c->n_points > 0 ? -HUGE_VAL : (double)NAN;
    double tpot = ttft;
    for (int32_t i = 0; i < c->n_points; i++) {
        double a = (c->points[i].ttft_ratio.value - 1) * 100;
        double b = (c->points[i].tpot_ratio.value - 1) * 100;
        ttft = isnan(a) || a > ttft ? a : ttft;
        tpot = isnan(b) || b > tpot ? b : tpot;
    }
    check(c, "the increase of the mean time to first token in %", ttft, l->ttft_increase_pct,
          false);
    check(c, "the increase of the mean time per token in %", tpot, l->tpot_increase_pct, false);
}

int compare_make(const struct report *r, const struct compare_limits *limits, struct compare *out) {
    struct compare c = {0};
    if (r->base < 0 || r->n_targets < 2) {
        *out = c;
        return 0;
    }
    c.items = mem_array(MEM_REPORT, r->n_targets - 1, (int64_t)sizeof *c.items);
    int rc = c.items ? 0 : ERR_NOMEM;
    for (int32_t i = 0; i < r->n_targets && !rc; i++) {
        if (i == r->base) {
            continue;
        }
        struct compare_target *t = &c.items[c.n++];
        const struct report_target *a = &r->targets[r->base];
        const struct report_target *b = &r->targets[i];
        t->target = i;
        t->disk_ratio = ratio_i64(b->disk_bytes, a->disk_bytes);
        t->memory_ratio = ratio_i64(b->weight_bytes, a->weight_bytes);
        rc = compare_points(r, t);
        describe(r, t);
        if (limits) {
            check_limits(r, limits, t);
        }
        c.failed = c.failed || t->failed;
    }
    if (rc) {
        compare_fini(&c);
        return rc;
    }
    *out = c;
    return 0;
}

void compare_fini(struct compare *c) {
    mem_free(c->items);
    *c = (struct compare){0};
}
