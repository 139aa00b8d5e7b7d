#include "engine/sched/batch.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

int batch_init(struct batch *b, int32_t tok_max, int32_t seq_max, int32_t blocks_per_seq_max) {
    int64_t i32 = (int64_t)sizeof(int32_t);
    *b = (struct batch){.table_stride = blocks_per_seq_max};
    b->tok = mem_array(MEM_SCHED, tok_max, i32);
    b->pos = mem_array(MEM_SCHED, tok_max, i32);
    b->slot = mem_array(MEM_SCHED, tok_max, i32);
    b->out_row = mem_array(MEM_SCHED, tok_max, i32);
    b->seq_start = mem_array(MEM_SCHED, (int64_t)seq_max + 1, i32);
    b->ctx_len = mem_array(MEM_SCHED, seq_max, i32);
    b->block_table = mem_array(MEM_SCHED, (int64_t)seq_max * blocks_per_seq_max, i32);
    if (!b->tok || !b->pos || !b->slot || !b->out_row || !b->seq_start || !b->ctx_len ||
        !b->block_table) {
        batch_fini(b);
        return ERR_NOMEM;
    }
    return 0;
}

void batch_fini(struct batch *b) {
    mem_free(b->tok);
    mem_free(b->pos);
    mem_free(b->slot);
    mem_free(b->out_row);
    mem_free(b->seq_start);
    mem_free(b->ctx_len);
    mem_free(b->block_table);
    *b = (struct batch){0};
}

static void add_rows(struct batch *b, const struct plan_item *it, int32_t P) {
    const struct seq *q = it->seq;
    for (int32_t j = 0; j < it->n; j++) {
        int32_t pos = it->start + j;
        int32_t t = b->n_tok++;
        b->tok[t] = q->tok[pos];
        b->pos[t] = pos;
        b->slot[t] = q->block[pos / P] * P + pos % P;
        if ((q->score && pos >= q->score_from) || (it->sample && j == it->n - 1)) {
            b->out_row[b->n_out++] = t;
        }
    }
}

void batch_build(struct batch *b, const struct plan *p, int32_t P) {
    b->n_tok = b->n_out = 0;
    b->n_seq = p->n_item;
    for (int32_t i = 0; i < p->n_item; i++) {
        const struct plan_item *it = &p->item[i];
        int32_t n_block = (int32_t)i64_div_up(it->start + it->n, P);
        b->seq_start[i] = b->n_tok;
        b->ctx_len[i] = it->start + it->n;
        memcpy(b->block_table + (int64_t)i * b->table_stride, it->seq->block,
               (size_t)n_block * sizeof(int32_t));
        add_rows(b, it, P);
    }
    b->seq_start[p->n_item] = b->n_tok;
}
