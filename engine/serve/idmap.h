/* From the engine's request ids to what waits for them. */
#ifndef ENGINE_SERVE_IDMAP_H
#define ENGINE_SERVE_IDMAP_H

#include "engine/base/types.h"

struct idmap_slot {
    uint64_t id; /* 0: empty */
    void *value; /* ref */
};

struct idmap {
    struct idmap_slot *slot; /* own, [cap] */
    int32_t cap;             /* power of two */
    int32_t n;
    int32_t n_max;
};

/* in: n_max entries at once. err: ERR_NOMEM, ERR_RANGE. own: caller, idmap_fini */
int idmap_init(struct idmap *m, int32_t n_max);
void idmap_fini(struct idmap *m);

/* in: id not 0 and not in it. err: ERR_LIMIT */
int idmap_put(struct idmap *m, uint64_t id, void *value);

/* out: NULL when it is not there */
void *idmap_get(const struct idmap *m, uint64_t id);
void idmap_remove(struct idmap *m, uint64_t id);

#endif
