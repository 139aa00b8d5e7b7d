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

bool interrupt_seen(void) {
    return seen != 0;
}
