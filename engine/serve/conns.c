/* A name is a slot and the number of its use, so that a late word about a closed connection reaches
 * nobody. A descriptor is used only under the lock, and a connection is removed, under the lock,
 * before its descriptor is closed: shutdown can never hit another file.
 *
 * The limits are on the whole of a head or body, not on the gap between two bytes: who sends one
 * byte a second is cut like who sends none.
 *
 * why: libmicrohttpd 0.9.75 waits for edges, and one that it meets while there is data to read is
 * gone when it comes to the end behind the data; a peer that hung up is therefore cut by us when
 * the library has not begun to answer it LINGER_NS later. */
#include "engine/serve/conns.h"

#include <sys/socket.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

static const int64_t LINGER_NS = 100000000;

int conns_init(struct conns *c, int32_t cap) {
    struct conns_slot *slot = mem_array(MEM_SERVE, cap, (int64_t)sizeof *slot);
    if (!slot) {
        return ERR_NOMEM;
    }
    *c = (struct conns){.slot = slot, .cap = cap};
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

void conns_fini(struct conns *c) {
    if (c->slot) {
        pthread_mutex_destroy(&c->lock);
        mem_free(c->slot);
    }
    *c = (struct conns){0};
}

uint64_t conns_add(struct conns *c, int fd, int64_t now_ns) {
    uint64_t name = 0;
    pthread_mutex_lock(&c->lock);
    for (int32_t k = 0; k < c->cap && !name; k++) {
        int32_t i = (c->next + k) % c->cap;
        struct conns_slot *s = &c->slot[i];
        if (s->phase == CONNS_FREE) {
            *s = (struct conns_slot){
                .phase = CONNS_FRESH, .age = s->age + 1, .fd = fd, .since_ns = now_ns};
            name = (uint64_t)s->age << 32 | (uint64_t)(i + 1);
            c->next = i + 1;
            c->n_open++;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return name;
}

/* The slot of a name; NULL when it is gone. in: the lock is held */
static struct conns_slot *find(struct conns *c, uint64_t name) {
    int64_t i = (int64_t)(name & UINT32_MAX) - 1;
    bool here = i >= 0 && i < c->cap && c->slot[i].phase != CONNS_FREE &&
                c->slot[i].age == (uint32_t)(name >> 32);
    return here ? &c->slot[i] : NULL;
}

void conns_remove(struct conns *c, uint64_t name) {
    pthread_mutex_lock(&c->lock);
    struct conns_slot *s = find(c, name);
    if (s) {
        s->phase = CONNS_FREE;
        c->n_open--;
    }
    pthread_mutex_unlock(&c->lock);
}

void conns_phase(struct conns *c, uint64_t name, enum conns_phase phase, int64_t now_ns) {
    pthread_mutex_lock(&c->lock);
    struct conns_slot *s = find(c, name);
    if (s) {
        s->phase = phase;
        s->since_ns = now_ns;
    }
    pthread_mutex_unlock(&c->lock);
}

void conns_hang_up(struct conns *c, uint64_t name, int64_t now_ns) {
    pthread_mutex_lock(&c->lock);
    struct conns_slot *s = find(c, name);
    if (s) {
        s->hung_up = true;
        s->hung_up_ns = now_ns;
    }
    pthread_mutex_unlock(&c->lock);
}

bool conns_hung_up(struct conns *c, uint64_t name) {
    pthread_mutex_lock(&c->lock);
    const struct conns_slot *s = find(c, name);
    bool is = !s || s->hung_up;
    pthread_mutex_unlock(&c->lock);
    return is;
}

/* Must it end? in: phases with a limit */
static bool is_over(const struct conns_slot *s, int64_t now_ns, int64_t limit_ns) {
    return now_ns - s->since_ns > limit_ns ||
           (s->hung_up && now_ns - i64_max(s->since_ns, s->hung_up_ns) > LINGER_NS);
}

static void cut(struct conns_slot *s) {
    s->cut = true;
    shutdown(s->fd, SHUT_RDWR);
}

void conns_cut(struct conns *c, uint64_t name) {
    pthread_mutex_lock(&c->lock);
    struct conns_slot *s = find(c, name);
    if (s) {
        cut(s);
    }
    pthread_mutex_unlock(&c->lock);
}

int32_t conns_sweep(struct conns *c, int64_t now_ns, int64_t head_ns, int64_t idle_ns) {
    int32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < c->cap; i++) {
        struct conns_slot *s = &c->slot[i];
        int64_t limit = s->phase == CONNS_FRESH ? head_ns : idle_ns;
        bool timed = s->phase == CONNS_FRESH || s->phase == CONNS_IDLE || s->phase == CONNS_BODY;
        if (timed && !s->cut && is_over(s, now_ns, limit)) {
            cut(s);
            n += s->hung_up ? 0 : 1;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

int32_t conns_n_open(struct conns *c) {
    pthread_mutex_lock(&c->lock);
    int32_t n = c->n_open;
    pthread_mutex_unlock(&c->lock);
    return n;
}
