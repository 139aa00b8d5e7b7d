/* Open addressing over a table twice as large as it may fill. Ids are counted up, so their low bits
 * are the best hash there is. A removed entry is closed over by moving later ones back (Knuth,
 * TAOCP 3, 6.4, algorithm R), so no tombstones gather. */
#include "engine/serve/idmap.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

enum { ENTRIES_MAX = 1 << 24 };

int idmap_init(struct idmap *m, int32_t n_max) {
    int32_t cap = 2;
    if (n_max < 1 || n_max > ENTRIES_MAX) {
        return err_set(ERR_RANGE, "a table of %d ids, want 1..%d", n_max, ENTRIES_MAX);
    }
    while (cap < 2 * n_max) {
        cap *= 2;
    }
    struct idmap_slot *slot = mem_array(MEM_SERVE, cap, (int64_t)sizeof *slot);
    if (!slot) {
        return ERR_NOMEM;
    }
    *m = (struct idmap){.slot = slot, .cap = cap, .n_max = n_max};
    return 0;
}

void idmap_fini(struct idmap *m) {
    mem_free(m->slot);
    *m = (struct idmap){0};
}

static int32_t home(const struct idmap *m, uint64_t id) {
    return (int32_t)(id & (uint64_t)(m->cap - 1));
}

/* The slot of id, or the empty one where it would go. */
static int32_t find(const struct idmap *m, uint64_t id) {
    int32_t i = home(m, id);
    while (m->slot[i].id != 0 && m->slot[i].id != id) {
        i = (i + 1) & (m->cap - 1);
    }
    return i;
}

int idmap_put(struct idmap *m, uint64_t id, void *value) {
    if (m->n == m->n_max) {
        return err_set(ERR_LIMIT, "the table of %d ids is full", m->n_max);
    }
    m->slot[find(m, id)] = (struct idmap_slot){.id = id, .value = value};
    m->n++;
    return 0;
}

void *idmap_get(const struct idmap *m, uint64_t id) {
    return m->slot[find(m, id)].value;
}

void idmap_remove(struct idmap *m, uint64_t id) {
    int32_t hole = find(m, id);
    int32_t mask = m->cap - 1;
    if (m->slot[hole].id == 0) {
        return;
    }
    for (int32_t i = (hole + 1) & mask; m->slot[i].id != 0; i = (i + 1) & mask) {
        int32_t from_home = (i - home(m, m->slot[i].id)) & mask;
        if (from_home >= ((i - hole) & mask)) { /* its home is not between the hole and it */
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    }
    m->slot[hole] = (struct idmap_slot){0};
    m->n--;
}
