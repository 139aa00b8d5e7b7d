/* One line of progress on standard error: bar, share, speed, time left. On something that is no
 * terminal a plain line every ten seconds instead. */
#ifndef HARNESS_PROGRESS_H
#define HARNESS_PROGRESS_H

#include "engine/base/types.h"

struct progress {
    bool tty;
    bool off;
    const char *what; /* ref */
    double total;     /* in units of work; <= 0: unknown */
    double done;
    int64_t start_ns;
    int64_t shown_ns;
    char note[96];
};

/* Starts a line. what: "quantize"; tty: standard error is a terminal; off: print nothing. */
void progress_begin(struct progress *p, const char *what, double total, bool tty, bool off);

/* Says how much is done; prints at most ten times a second. */
void progress_at(struct progress *p, double done, const char *note_fmt, ...) PRINTF_LIKE(3, 4);

/* Ends the line (clears it on a terminal). */
void progress_end(struct progress *p);

#endif
