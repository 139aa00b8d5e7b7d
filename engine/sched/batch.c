#include "engine/sched/batch.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

static int init_shared(struct batch *b, int32_t tok_max, int32_t seq_max) {
    int64_t i32 = (int64_t)sizeof(int32_t);
    b->tok = mem_array(MEM_SCHED, tok_max, i32);
    b->pos = mem_array(MEM_SCHED, tok_max, i32);
    b->out_row = mem_array(MEM_SCHED, tok_max, i32);
    b->seq_start = mem_array(MEM_SCHED, (int64_t)seq_max + 1, i32);
    b->ctx_len = mem_array(MEM_SCHED, seq_max, i32);
    return b->tok && b->pos && b->out_row && b->seq_start && b->ctx_len ? 0 : ERR_NOMEM;
}

int batch_init(struct batch_set *s,
               int32_t n_group,
               int32_t tok_max,
               int32_t seq_max,
               int32_t blocks_per_seq_max) {
    int64_t i32 = (int64_t)sizeof(int32_t);
    *s = (struct batch_set){.n_group = n_group};
    int rc = init_shared(&s->group[0], tok_max, seq_max);
    for (int32_t g = 0; g < n_group && !rc; g++) {
        struct batch *b = &s->group[g];
        *b = s->group[0];
        b->table_stride = blocks_per_seq_max;
        b->slot = mem_array(MEM_SCHED, tok_max, i32);
        b->block_table = mem_array(MEM_SCHED, (int64_t)seq_max * blocks_per_seq_max, i32);
        rc = b->slot && b->block_table ? 0 : ERR_NOMEM;
    }
    if (rc) {
        batch_fini(s);
    }
    return rc;
}

void batch_fini(struct batch_set *s) {
    struct batch *b = &s->group[0];
    mem_free(b->tok);
    mem_free(b->pos);
    mem_free(b->seq_start);
    mem_free(b->ctx_len);
    mem_free(b->out_row);
    for (int32_t g = 0; g < KVGROUP_MAX; g++) {
        mem_free(s->group[g].slot);
        mem_free(s->group[g].block_table);
    }
    *s = (struct batch_set){0};
}

static void add_rows(struct batch *b, const struct plan_item *it) {
    const struct seq *q = it->seq;
    for (int32_t j = 0; j < it->n; j++) {
        int32_t pos = it->start + j;
        int32_t t = b->n_tok++;
        b->tok[t] = q->tok[pos];
        b->pos[t] = pos;
        if ((q->score && pos >= q->score_from) || (it->sample && j == it->n - 1)) {
            b->out_row[b->n_out++] = t;
        }
    }
}

/* Slots of item i's rows and its line of the block table, in group g. */
static void
add_blocks(struct batch *b, const struct plan_item *it, int32_t i, int32_t g, int32_t P) {
    const int32_t *id = it->seq->held[g].id;
    int32_t n_block = (int32_t)i64_div_up(it->start + it->n, P);
    for (int32_t j = 0; j < it->n; j++) {
        int32_t pos = it->start + j;
        b->slot[b->seq_start[i] + j] = id[pos / P] * P + pos % P;
    }
    memcpy(b->block_table + (int64_t)i * b->table_stride, id, (size_t)n_block * sizeof *id);
}

void batch_build(struct batch_set *s, const struct plan *p, int32_t P) {
    struct batch *b = &s->group[0];
    b->n_tok = b->n_out = 0;
    b->n_seq = p->n_item;
    for (int32_t i = 0; i < p->n_item; i++) {
        b->seq_start[i] = b->n_tok;
        b->ctx_len[i] = p->item[i].start + p->item[i].n;
        add_rows(b, &p->item[i]);
    }
    b->seq_start[p->n_item] = b->n_tok;
    for (int32_t g = 0; g < s->n_group; g++) {
        struct batch *o = &s->group[g];
        o->n_tok = b->n_tok;
        o->n_out = b->n_out;
        o->n_seq = b->n_seq;
        for (int32_t i = 0; i < p->n_item; i++) {
            add_blocks(o, &p->item[i], i, g, P);
        }
    }
}
