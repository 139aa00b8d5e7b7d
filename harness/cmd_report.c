/* trilemma report: one offline page, its text twin, or JSON. */
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "reports/report.h"

struct report_cmd {
    const char *out;
    int64_t session;
    bool json;
    bool text;
    bool no_plots;
};

static int render(struct store *s,
                  const struct report_cmd *r,
                  const struct report_opts *o,
                  struct buf *page,
                  struct buf *text) {
    if (r->json) {
        return report_json(s, o, text);
    }
    int rc = report_text(s, o, text);
    return rc || r->text ? rc : report_html(s, o, page);
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct report_cmd r = {.out = "report.html"};
    struct cli_args args;
    struct store *s = NULL;
    struct buf page;
    struct buf text;
    const struct cli_opt opts[] = {
        {"out,o", CLI_STR, &r.out, "FILE", "the page to write [report.html]", 0, 0},
        {"session", CLI_I64, &r.session, "ID", "session to show [the newest]", 0, 0},
        {"text", CLI_FLAG, &r.text, NULL, "only the text on the terminal", 0, 0},
        {"no-plots", CLI_FLAG, &r.no_plots, NULL, "leave the plots out", 0, 0},
        {"json", CLI_FLAG, &r.json, NULL, "JSON on standard output, no page", 0, 0}};
    (void)env;
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    struct report_opts o = {
        .session_id = r.session, .database = args.pos[0], .without_plots = r.no_plots};
    buf_init(&page, MEM_HARNESS, REPORT_BYTES_MAX);
    buf_init(&text, MEM_HARNESS, REPORT_BYTES_MAX);
    rc = store_open(args.pos[0], STORE_READ, &s);
    rc = rc ? rc : render(s, &r, &o, &page, &text);
    if (!rc && page.len > 0) {
        rc = file_write(r.out, buf_cstr(&page), page.len);
    }
    if (!rc) {
        fwrite(buf_cstr(&text), 1, (size_t)text.len, stdout);
    }
    if (!rc && page.len > 0) {
        printf("\nThe page is in %s.\n", r.out);
    }
    int rc2 = s ? store_close(s) : 0;
    buf_fini(&page);
    buf_fini(&text);
    return rc ? rc : rc2;
}

const struct cmd cmd_report = {.name = "report",
                               .summary =
                                   "One offline HTML page and a text twin from a results database.",
                               .usage = "DB [--out FILE] [--json | --text] [--session ID]",
                               .example = "trilemma report results.db --out report.html",
                               .run = run};
