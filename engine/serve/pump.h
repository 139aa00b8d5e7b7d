/* The engine's own thread: steps while there is work, sleeps while there is none. */
#ifndef ENGINE_SERVE_PUMP_H
#define ENGINE_SERVE_PUMP_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/run/engine.h"

struct pump {
    struct engine *engine; /* ref */
    int wake_fd;           /* ref; an eventfd that is added to when events may be there */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t kicked;
    bool work; /* under lock: something happened since the last step */
    bool stop; /* under lock */
    bool running;
    _Atomic bool dead; /* a step failed: the engine refuses all that comes */
};

/* Starts the thread, which owns the engine until pump_close. err: ERR_IO */
int pump_open(struct pump *p, struct engine *e, int wake_fd);

/* Says that there may be work: a request, an abort, room for events. Any thread. */
void pump_kick(struct pump *p);

/* Ends the thread after its step. in: opened or zero */
void pump_close(struct pump *p);

#endif
