#include "harness/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/str.h"

static const int64_t TTY_EVERY_NS = 100000000;
static const int64_t LINE_EVERY_NS = 10000000000;
enum { BAR = 24 };

void progress_begin(struct progress *p, const char *what, double total, bool tty, bool off) {
    int64_t now = clock_now_ns();
    *p = (struct progress){
        .tty = tty, .off = off, .what = what, .total = total, .start_ns = now, .shown_ns = now};
}

static void show(struct progress *p, int64_t now) {
    char bar[BAR + 1];
    char eta[STR_NUM_MAX] = "?";
    double share = p->total > 0 ? p->done / p->total : 0;
    share = share < 0 ? 0 : (share > 1 ? 1 : share);
    int fill = (int)(share * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)fill);
    bar[BAR] = '\0';
    if (share > 0) {
        str_show_seconds(eta, (double)(now - p->start_ns) * 1e-9 * (1 - share) / share);
    }
    if (p->tty) {
        fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  ETA %s  %s", p->what, bar, share * 100, eta,
                p->note);
    } else {
        fprintf(stderr, "%s %.0f %%, ETA %s  %s\n", p->what, share * 100, eta, p->note);
    }
    fflush(stderr);
    p->shown_ns = now;
}

void progress_at(struct progress *p, double done, const char *note_fmt, ...) {
    va_list ap;
    int64_t now = clock_now_ns();
    p->done = done;
    if (p->off || now - p->shown_ns < (p->tty ? TTY_EVERY_NS : LINE_EVERY_NS)) {
        return;
    }
    va_start(ap, note_fmt);
    vsnprintf(p->note, sizeof p->note, note_fmt, ap);
    va_end(ap);
    show(p, now);
}

void progress_end(struct progress *p) {
    if (p->tty && !p->off) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
