/* Accounted memory: every allocation carries a tag; live bytes and the high-water mark are known.
 *
 * Failure is an ordinary result: NULL, with the thread's diagnosis set to ERR_NOMEM. */
#ifndef ENGINE_BASE_MEM_H
#define ENGINE_BASE_MEM_H

#include "engine/base/types.h"

enum mem_tag {
    MEM_BASE,
    MEM_TEXT,
    MEM_MODEL,
    MEM_WEIGHTS,
    MEM_KV,
    MEM_SCHED,
    MEM_RUN,
    MEM_KERNEL,
    MEM_QUANT,
    MEM_DATA,
    MEM_REPORT,
    MEM_HARNESS,
    MEM_SERVE,
    MEM_TEST,
    MEM_N
};

/* Allocates bytes, zeroed, aligned to 64.
 * in:   bytes >= 0 (0 gives a valid pointer)
 * err:  NULL with ERR_NOMEM set
 * own:  caller; give back with mem_free */
void *mem_calloc(enum mem_tag tag, int64_t bytes);

/* mem_calloc for n elements of size bytes each; the product is checked. */
void *mem_array(enum mem_tag tag, int64_t n, int64_t size);

/* Grows or shrinks; new bytes are zero. in: p from mem_* or NULL. err: NULL, p untouched */
void *mem_realloc(enum mem_tag tag, void *p, int64_t bytes);

/* Gives back p; NULL is fine. */
void mem_free(void *p);

/* Copies a string (n < 0: up to its NUL). own: caller, mem_free. err: NULL with ERR_NOMEM set */
char *mem_strdup(enum mem_tag tag, const char *s, int64_t n);

/* Live bytes of one tag, of all tags (MEM_N), their high-water mark, and the number of
 * allocations ever made (a step that allocates nothing leaves it unchanged). */
int64_t mem_live(enum mem_tag tag);
int64_t mem_peak(void);
int64_t mem_calls(void);
const char *mem_tag_name(enum mem_tag tag);

#endif
