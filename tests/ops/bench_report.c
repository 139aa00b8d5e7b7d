/* Speed of the results database: rows written, a report read. Not run by ctest.
 *
 *     bench_report FOLDER [EVENTS]
 *
 * Writes one run of EVENTS token events [10000000] as a replay does, 256 requests of 200 events
 * taking turns, then closes it, reads its numbers, and reads the file's bytes in order. A line
 * each: seconds, and rows a second of writing. The roof of reading is the plain read of the same
 * bytes; the database stays in FOLDER
 * and is only read the next time. */
#include <stdio.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "reports/summary.h"

enum { LIVE = 256, EVENTS = 200, CHUNK = 1 << 20 };
#define STEP_NS INT64_C(20000000)

struct stamp {
    int64_t wall_ns;
    int64_t cpu_ns;
};

static struct stamp stamp(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (struct stamp){clock_now_ns(), (int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

/* One line: what, seconds, those on the processor, n things a second of each. */
static void show(const char *what, struct stamp from, double n, const char *unit) {
    struct stamp to = stamp();
    double wall = (double)(to.wall_ns - from.wall_ns) * 1e-9;
    double cpu = (double)(to.cpu_ns - from.cpu_ns) * 1e-9;
    printf("%-8s %8.2f s %8.2f s cpu %12.0f %s/s %12.0f %s/s cpu\n", what, wall, cpu, n / wall,
           unit, n / cpu, unit);
}

/* The k-th wave of requests, event by event, each a jittered step after the one before. */
static int wave(struct store *s, int64_t run, int64_t k, int64_t *end_ns, struct rng *rng) {
    int64_t start = *end_ns;
    int64_t at[LIVE];
    int rc = 0;
    for (int32_t i = 0; i < EVENTS && !rc; i++) {
        for (int32_t j = 0; j < LIVE && !rc; j++) {
            int64_t gap = STEP_NS + rng_below(rng, STEP_NS / 4);
            at[j] = i ? at[j] + gap : start + gap + j;
            rc = store_token(s, &(struct store_token){.run_id = run,
                                                      .seq = k * LIVE + j,
                                                      .idx = i,
                                                      .t_ns = at[j],
                                                      .gap_ns = i ? gap : STORE_NULL,
                                                      .n_tokens = 1});
            *end_ns = i64_max(*end_ns, at[j]);
        }
    }
    for (int32_t j = 0; j < LIVE && !rc; j++) {
        int64_t first = start + STEP_NS;
        rc = store_request(s, &(struct store_request){.run_id = run,
                                                      .seq = k * LIVE + j,
                                                      .phase = "measured",
                                                      .intended_start_ns = start,
                                                      .actual_start_ns = start,
                                                      .first_event_ns = first,
                                                      .first_token_ns = first,
                                                      .first_answer_ns = first,
                                                      .last_token_ns = at[j],
                                                      .end_ns = at[j],
                                                      .n_prompt = 100,
                                                      .n_output = EVENTS,
                                                      .n_output_first = 1,
                                                      .seed = k});
    }
    return rc;
}

static int write_run(struct store *s, int64_t n_events) {
    struct rng rng;
    int64_t session = 0;
    int64_t target = 0;
    int64_t run = 0;
    int64_t end = 0;
    int64_t n = i64_max(1, n_events / (LIVE * EVENTS));
    rng_init(&rng, 1, 1);
    int rc = store_session_begin(s, &(struct store_session){.kind = "run"}, &session);
    rc = rc ? rc : store_slo(s, session, "itl", "p95", 2 * STEP_NS);
    const struct store_target t = {session, "bench", "null", true, STORE_NULL, NULL};
    rc = rc ? rc : store_target(s, &t, &target);
    const struct store_run r = {
        .session_id = session, .target_id = target, .point = "256", .arrival = "closed"};
    rc = rc ? rc : store_run_begin(s, &r, &run);
    struct stamp began = stamp();
    for (int64_t k = 0; k < n && !rc; k++) {
        rc = wave(s, run, k, &end, &rng);
    }
    rc = rc ? rc : store_flush(s);
    double rows = (double)(n * LIVE * (EVENTS + 1));
    show("write", began, rows, "rows");
    began = stamp();
    rc = rc ? rc
            : store_run_finish(s, run,
                               &(struct store_run_end){.status = "done",
                                                       .measured_from_ns = 0,
                                                       .measured_to_ns = end,
                                                       .end_ns = end});
    show("finish", began, rows, "rows");
    return rc;
}

static int read_report(const char *path) {
    struct store *s = NULL;
    struct report r;
    struct stamp began = stamp();
    int rc = store_open(path, STORE_READ, &s);
    rc = rc ? rc : summary_read(s, 0, &r);
    if (!rc) {
        show("report", began, (double)r.runs[0].dist[1].n, "gaps");
        summary_fini(&r);
    }
    int rc2 = s ? store_close(s) : 0;
    return rc ? rc : rc2;
}

static int read_bytes(const char *path) {
    static char chunk[CHUNK];
    struct stamp began = stamp();
    int64_t bytes = 0;
    FILE *f = fopen(path, "rb");
    if (!f) {
        return err_set(ERR_IO, "%s: cannot open it", path);
    }
    for (size_t got = 1; got > 0; bytes += (int64_t)got) {
        got = fread(chunk, 1, sizeof chunk, f);
    }
    fclose(f);
    show("bytes", began, (double)bytes, "bytes");
    return 0;
}

int main(int argc, char **argv) {
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    int64_t n = 10000000;
    if (argc < 2 || (argc > 2 && str_i64(argv[2], 1, INT64_C(1) << 32, &n))) {
        fprintf(stderr, "usage: bench_report FOLDER [EVENTS]\n");
        return 2;
    }
    int rc = file_join(path, argv[1], "bench.db");
    bool is_new = !rc && !file_exists(path);
    rc = rc || !is_new ? rc : store_open(path, STORE_WRITE, &s);
    rc = rc || !is_new ? rc : write_run(s, n);
    int rc2 = s ? store_close(s) : 0;
    rc = rc ? rc : rc2;
    rc = rc ? rc : read_report(path);
    rc = rc ? rc : read_bytes(path);
    if (rc) {
        fprintf(stderr, "bench_report: %s\n", err_msg());
    }
    return rc ? 1 : 0;
}
