#include "engine/sched/seq.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

int seq_create(const int32_t *prompt,
               int32_t n_prompt,
               int32_t max_new,
               int32_t block_tok,
               int32_t n_group,
               struct seq **out) {
    if (n_prompt < 1 || max_new < 0 || max_new > INT32_MAX - n_prompt || block_tok < 1 ||
        n_group < 1 || n_group > KVGROUP_MAX) {
        return err_set(ERR_RANGE,
                       "sequence of %d prompt and %d new tokens in %d lists of blocks of %d",
                       n_prompt, max_new, n_group, block_tok);
    }
    struct seq *s = mem_calloc(MEM_SCHED, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->cap = n_prompt + max_new;
    s->cap_block = (int32_t)i64_div_up(s->cap, block_tok);
    s->tok = mem_array(MEM_SCHED, s->cap, (int64_t)sizeof *s->tok);
    s->n_group = n_group;
    bool ok = s->tok != NULL;
    for (int32_t g = 0; g < n_group && ok; g++) {
        s->held[g].id = mem_array(MEM_SCHED, s->cap_block, (int64_t)sizeof(int32_t));
        ok = s->held[g].id != NULL;
    }
    if (!ok) {
        seq_destroy(s);
        return ERR_NOMEM;
    }
    memcpy(s->tok, prompt, (size_t)n_prompt * sizeof *prompt);
    s->n_prompt = n_prompt;
    s->n_known = n_prompt;
    *out = s;
    return 0;
}

void seq_destroy(struct seq *s) {
    if (s) {
        mem_free(s->tok);
        for (int32_t g = 0; g < KVGROUP_MAX; g++) {
            mem_free(s->held[g].id);
        }
        mem_free(s);
    }
}

const char *finish_name(enum finish f) {
    static const char *const names[] = {"none", "stop", "length", "abort", "scored", "error"};
    return names[f];
}
