#include "harness/textdata.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/paths.h"
int textdata_open(const struct cli_env *env, const char *name, struct textdata *t) {
    char path[FILE_PATH_MAX];
    int rc = 0;
    buf_init(&t->text, MEM_HARNESS, 1 << 30);
    if (file_exists(name))
        str_copy(path, FILE_PATH_MAX, name);
    else
        rc = paths_data(env,
                        str_eq(name, "wikitext2") ? "wikitext2/wiki.test.raw"
                                                  : "calibration-text/calibration_datav3.txt",
                        path);
    rc = rc ? rc : file_read(path, &t->text);
    str_copy(t->label, 128, name);
    return rc ? rc : mem_sha256(t->text.data, t->text.len, t->sha256);
}
void textdata_fini(struct textdata *t) {
    buf_fini(&t->text);
}
int textdata_ids(const struct textdata *t,
                 const struct tok *tok,
                 int64_t limit,
                 struct tok_ids *ids) {
    int rc = tok_encode(tok, buf_cstr(&t->text), t->text.len, TOK_PARSE_SPECIAL, ids);
    if (!rc && limit > 0 && ids->n > limit)
        ids->n = (int32_t)limit;
    return rc;
}
