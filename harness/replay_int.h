/* What the files of the replay share. */
#ifndef HARNESS_REPLAY_INT_H
#define HARNESS_REPLAY_INT_H

#include "harness/target.h"
#include "reports/store.h"

enum { REPLAY_TEXT_MAX = 160, REPLAY_NOTE_MAX = 400 };

struct replay_entry {
    int64_t seq;         /* number in the store */
    int64_t intended_ns; /* relative to the run's start, like all below; -1: not seen */
    int64_t actual_ns;
    int64_t event_ns;  /* first event of any kind */
    int64_t first_ns;  /* first event with a token */
    int64_t answer_ns; /* first event of the answer proper */
    int64_t last_ns;
    int64_t end_ns;
    int64_t n_prompt; /* -1: unknown, like all below */
    int64_t n_output;
    int64_t n_output_first;
    int64_t n_cached;
    int64_t n_preempt;
    int32_t n_event; /* with tokens */
    bool is_accepted;
    bool is_estimated;
    bool warmup;
    uint64_t seed;
    const char *error_class; /* literal; NULL: none */
    char hash[33];
    char finish[REPLAY_TEXT_MAX / 4];
    char error_text[REPLAY_TEXT_MAX];
};

/* Writes an entry's row; the row of its way through the network, whose times are absolute: start_ns
 * is the run's. err: ERR_DB */
int replay_write(struct store *s, int64_t run_id, const struct replay_entry *e);
int replay_write_wire(
    struct store *s, int64_t run_id, int64_t seq, int64_t start_ns, const struct target_wire *w);

#endif
