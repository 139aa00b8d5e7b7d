/* A synthetic results database with known answers: three targets at two points of the load. */
#ifndef TESTS_SUPPORT_DB_FIXTURE_H
#define TESTS_SUPPORT_DB_FIXTURE_H

#include "engine/base/types.h"
#include "reports/store.h"

enum {
    DB_TARGETS = 3, /* base, rtn, gptq */
    DB_POINTS = 2,  /* 2/s, 4/s */
    DB_REQUESTS = 160,
    DB_WARMUP = 8,
    DB_OUTPUT = 24, /* tokens of an answer; the last event bears two of them */
    DB_FAILED = 5   /* measured request of rtn at the second point that fails */
};

/* What was written, for independent computation. Times in seconds. */
struct db_run {
    int64_t run_id;
    double rate_per_s;
    double start[DB_REQUESTS]; /* intended, from run start */
    double ttft[DB_REQUESTS];
    double gap[DB_REQUESTS]; /* every gap of one request is equal */
};

struct db_fixture {
    int64_t session_id;
    int64_t target_id[DB_TARGETS];
    struct db_run runs[DB_TARGETS][DB_POINTS];
    double perplexity[DB_TARGETS];
    double kl[DB_TARGETS]; /* NaN for the base */
    double usd_per_hour;
};

/* Fills an open store. out: f. err: those of the store */
int db_fixture_write(struct store *s, struct db_fixture *f);

#endif
