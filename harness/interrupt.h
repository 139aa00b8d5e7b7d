/* Ctrl-C as a flag: the running command stops at the next safe point and keeps what was measured; a
 * second Ctrl-C ends the process at once. */
#ifndef HARNESS_INTERRUPT_H
#define HARNESS_INTERRUPT_H

#include "engine/base/types.h"

/* Catches SIGINT and SIGTERM from now on. */
void interrupt_install(void);

/* True once a signal came. */
bool interrupt_seen(void);

#endif
