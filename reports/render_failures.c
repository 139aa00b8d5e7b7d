/* Each way in which requests failed, by run: nothing that went wrong hides behind a sum. */
#include <stdio.h>

#include "reports/render.h"
#include "reports/show.h"

enum { SHARE_PERCENT = 100 };

void render_failures(const struct render *w) {
    static const char *const names[] = {"target", "load", "class", ">requests", ">share"};
    const struct report *r = w->r;
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_runs; i++) {
        n += r->runs[i].n_failures;
    }
    if (n == 0) {
        return;
    }
    doc_section(w->d, "Failed requests");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        for (int32_t k = 0; k < run->n_failures; k++) {
            char count[SHOW_MAX];
            char share[SHOW_MAX];
            const struct report_failure *f = &run->failures[k];
            snprintf(count, sizeof count, "%lld", (long long)f->n);
            snprintf(share, sizeof share, "%.2f %%",
                     (double)SHARE_PERCENT * (double)f->n / (double)i64_max(1, run->n_offered));
            const struct doc_cell cells[] = {{.text = r->targets[run->target].name},
                                             {.text = run->point},
                                             {.text = f->error_class, .tone = DOC_BAD},
                                             {.text = count, .is_number = true},
                                             {.text = share, .is_number = true}};
            doc_row(w->d, cells, ARRAY_LEN(cells));
        }
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "A failed request is a miss in goodput. Classes of HTTP targets: harness/README.md; "
             "each request's own text is in error_text of the table request.");
}
