/* A step that found nothing to do, or no room for its events, is followed by sleep until a kick. A
 * kick that comes during a step is not lost: work is set under the lock and looked at under it. */
#include "engine/serve/pump.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/log.h"

static void notify(const struct pump *p) {
    uint64_t one = 1;
    ssize_t n = write(p->wake_fd, &one, sizeof one);
    (void)n; /* why: it fails only when the counter is full, and then the reader is awake */
}

/* Waits for work unless there is some. out: false when the thread must end */
static bool wait_kick(struct pump *p, bool idle) {
    pthread_mutex_lock(&p->lock);
    while (idle && !p->work && !p->stop) {
        pthread_cond_wait(&p->kicked, &p->lock);
    }
    p->work = false;
    bool go = !p->stop;
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void *run(void *arg) {
    struct pump *p = arg;
    bool idle = true;
    while (wait_kick(p, idle)) {
        bool busy = false;
        int rc = engine_step(p->engine, &busy);
        if (rc && rc != ERR_AGAIN) {
            atomic_store(&p->dead, true);
            log_error("the engine has failed: %s", err_msg());
        }
        if (busy) {
            notify(p);
        }
        idle = rc != 0 || !busy;
    }
    return NULL;
}

int pump_open(struct pump *p, struct engine *e, int wake_fd) {
    *p = (struct pump){.engine = e, .wake_fd = wake_fd};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->kicked, NULL);
    int err = pthread_create(&p->thread, NULL, run, p);
    p->running = err == 0;
    if (err) {
        pthread_mutex_destroy(&p->lock);
        pthread_cond_destroy(&p->kicked);
    }
    return err ? err_set(ERR_IO, "cannot start the engine's thread: %s", strerror(err)) : 0;
}

void pump_kick(struct pump *p) {
    pthread_mutex_lock(&p->lock);
    p->work = true;
    pthread_cond_signal(&p->kicked);
    pthread_mutex_unlock(&p->lock);
}

void pump_close(struct pump *p) {
    if (!p->running) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->kicked);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->kicked);
    p->running = false;
}
