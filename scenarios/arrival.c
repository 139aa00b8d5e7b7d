/* Arrival processes as absolute schedules.
 *
 *   constant  t_i = i / rate                       counts exact
 *   poisson   t_i = t_(i-1) + E / rate             E exponential, mean 1
 *   gamma     t_i = t_(i-1) + G cv^2 / rate        G gamma of shape 1/cv^2: mean 1/rate, given cv
 *   trace     t_i = (trace_i - trace_0) / speed
 *
 * Times are summed in double seconds: after 10^6 s the spacing of doubles is 0.1 ns. Arrivals are
 * not rescaled to hit a count, which would remove the variance that makes a Poisson load hard. */
#include "scenarios/arrival.h"

#include <math.h>

#include "engine/base/err.h"

enum { USERS_MAX = 1 << 20 };
static const double RATE_MAX = 1e9;
static const double TIME_MAX_S = 1e9;

const char *arrival_name(enum arrival_kind kind) {
    static const char *const names[ARRIVAL_N] = {"",       "constant", "poisson", "gamma",
                                                 "closed", "burst",    "trace"};
    return kind >= ARRIVAL_UNSET && kind < ARRIVAL_N ? names[kind] : "";
}

static int check_trace(const struct arrival_opts *o) {
    for (int64_t i = 0; i < o->n_trace; i++) {
        if (o->trace_ns[i] < 0 || (i > 0 && o->trace_ns[i] < o->trace_ns[i - 1])) {
            return err_set(ERR_CONFIG, "trace: request %lld is earlier than the one before",
                           (long long)i);
        }
    }
    return 0;
}

int arrival_init(struct arrival *a, const struct arrival_opts *o) {
    const bool counted = o->kind == ARRIVAL_CLOSED || o->kind == ARRIVAL_BURST;
    const double most = counted ? USERS_MAX : RATE_MAX;
    if (o->kind <= ARRIVAL_UNSET || o->kind >= ARRIVAL_N) {
        return err_set(ERR_CONFIG, "no arrival process is given");
    }
    if (!(o->value > 0) || o->value > most || (counted && o->value < 1)) {
        return err_set(ERR_CONFIG, "%s arrivals of %.6g, want more than 0 and at most %.0f",
                       arrival_name(o->kind), o->value, most);
    }
    if (o->kind == ARRIVAL_GAMMA && !(o->cv >= 0.01 && o->cv <= 100)) {
        return err_set(ERR_CONFIG, "gamma arrivals of cv %.6g, want 0.01..100", o->cv);
    }
    if (o->kind == ARRIVAL_TRACE) {
        int rc = check_trace(o);
        if (rc) {
            return rc;
        }
    }
    *a = (struct arrival){.o = *o};
    rng_init(&a->rng, o->seed, 0);
    return 0;
}

static bool give(struct arrival *a, double t_s, int64_t *start_ns) {
    if (!(t_s <= TIME_MAX_S)) {
        return false;
    }
    a->t_s = t_s;
    a->n_given++;
    *start_ns = (int64_t)llround(t_s * 1e9);
    return true;
}

bool arrival_next(struct arrival *a, int64_t *start_ns) {
    const struct arrival_opts *o = &a->o;
    switch (o->kind) {
    case ARRIVAL_CONSTANT:
        return give(a, (double)a->n_given / o->value, start_ns);
    case ARRIVAL_POISSON:
        return give(a, a->t_s + rng_exponential(&a->rng) / o->value, start_ns);
    case ARRIVAL_GAMMA: {
        double var = o->cv * o->cv;
        return give(a, a->t_s + rng_gamma(&a->rng, 1 / var) * var / o->value, start_ns);
    }
    case ARRIVAL_CLOSED:
    case ARRIVAL_BURST:
        return a->n_given < (int64_t)o->value && give(a, 0, start_ns);
    case ARRIVAL_TRACE:
        if (a->n_given >= o->n_trace) {
            return false;
        }
        return give(a, (double)(o->trace_ns[a->n_given] - o->trace_ns[0]) * 1e-9 / o->value,
                    start_ns);
    case ARRIVAL_UNSET:
    case ARRIVAL_N:
    default:
        return false;
    }
}

bool arrival_done(struct arrival *a, int64_t done_ns, int64_t *start_ns) {
    if (a->o.kind != ARRIVAL_CLOSED) {
        return false;
    }
    a->n_given++;
    *start_ns = done_ns;
    return true;
}
