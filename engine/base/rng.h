/* Seeded random numbers, the same on every machine.
 *
 * src: xoshiro256** and splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2021). Draws beyond the raw bits use only IEEE operations and libm's log, exp, sqrt,
 * cos. */
#ifndef ENGINE_BASE_RNG_H
#define ENGINE_BASE_RNG_H

#include "engine/base/types.h"

struct rng {
    uint64_t s[4];
};

/* Starts a stream. Equal (seed, stream) give equal draws; different streams are independent. */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);

uint64_t rng_u64(struct rng *r);
double rng_uniform(struct rng *r);             /* [0,1), 53 bits */
int64_t rng_below(struct rng *r, int64_t n);   /* 0..n-1, unbiased; n >= 1 */
double rng_normal(struct rng *r);              /* mean 0, sd 1 */
double rng_exponential(struct rng *r);         /* mean 1 */
double rng_gamma(struct rng *r, double shape); /* scale 1; shape > 0 */

/* One 64-bit number that depends on (seed, a, b) alone: the key of law 5 of the engine, where a is
 * the position and b the token id. */
uint64_t rng_keyed(uint64_t seed, uint64_t a, uint64_t b);

/* Maps 64 random bits to (0,1): never 0, never 1. */
double rng_open01(uint64_t bits);

#endif
