#include "engine/base/rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream) {
    uint64_t x = rng_keyed(seed, stream, 0);
    for (int32_t i = 0; i < 4; i++) {
        r->s[i] = splitmix(&x);
    }
}

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r) {
    uint64_t *s = r->s;
    uint64_t out = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

double rng_uniform(struct rng *r) {
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

int64_t rng_below(struct rng *r, int64_t n) {
    uint64_t m = (uint64_t)n;
    uint64_t limit = UINT64_MAX - UINT64_MAX % m;
    uint64_t x;
    do {
        x = rng_u64(r);
    } while (x >= limit);
    return (int64_t)(x % m);
}

double rng_open01(uint64_t bits) {
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

double rng_normal(struct rng *r) {
    double u = rng_open01(rng_u64(r));
    double v = rng_uniform(r);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

double rng_exponential(struct rng *r) {
    return -log(rng_open01(rng_u64(r)));
}

/* src: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000 */
double rng_gamma(struct rng *r, double shape) {
    double boost = 1;
    if (shape < 1) {
        boost = pow(rng_open01(rng_u64(r)), 1 / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = rng_normal(r);
        double v = 1 + c * x;
        if (v <= 0) {
            continue;
        }
        v = v * v * v;
        if (log(rng_open01(rng_u64(r))) < 0.5 * x * x + d - d * v + d * log(v)) {
            return boost * d * v;
        }
    }
}

uint64_t rng_keyed(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t x = seed;
    uint64_t h = splitmix(&x);
    x = h ^ (a * 0xd1342543de82ef95u);
    h = splitmix(&x);
    x = h ^ (b * 0xaf251af3b0f025b5u);
    h = splitmix(&x);
    return h;
}
