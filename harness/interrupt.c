#include "harness/interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t seen;

static void on_signal(int sig) {
    if (seen) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    seen = 1;
}

void interrupt_install(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

/* The caught signals. */
static void fill_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void interrupt_hold(void) {
    sigset_t set;
    fill_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void interrupt_wait(void) {
    sigset_t set;
    sigset_t open;
    fill_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, &open);
    sigdelset(&open, SIGINT);
    sigdelset(&open, SIGTERM);
    while (!interrupt_seen()) {
        sigsuspend(&open);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

bool interrupt_seen(void) {
    return seen != 0;
}
