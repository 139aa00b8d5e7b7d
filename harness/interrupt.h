/* Ctrl-C as a flag: the running command stops at the next safe point and keeps what was measured; a
 * second Ctrl-C ends the process at once. */
#ifndef HARNESS_INTERRUPT_H
#define HARNESS_INTERRUPT_H

#include "engine/base/types.h"

/* Catches SIGINT and SIGTERM from now on. */
void interrupt_install(void);

/* Holds the signals back in this thread and all that it starts from now on, until interrupt_wait.
 */
void interrupt_hold(void);

/* Sleeps until a signal came, without losing one that was held back; later ones are not held. */
void interrupt_wait(void);

/* True once a signal came. */
bool interrupt_seen(void);

#endif
