/* Texts by name or path.
 *
 *      a file of that path ............ as it is, label: its name
 *      a name that a manifest knows:
 *        1. TRILEMMA_DATA, TRILEMMA_SHARED   read where it lies; a wrong hash is an error
 *        2. the cache, whatever it holds     so that a row of runs scores the same text
 *        3. the manifest's sources           through the cache; the last is a stand-in from a
 *                                            Debian package, and the label says so
 *
 * The hash is that of the bytes in memory. */
#include "harness/textdata.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "harness/fetch.h"
#include "harness/paths.h"

/* Reads path. in: want 64 digits; "": any. out: t whole */
static int read_text(const char *path, const char *label, const char *want, struct textdata *t) {
    buf_init(&t->text, MEM_HARNESS, TOK_TEXT_MAX);
    int rc = file_read(path, &t->text);
    rc = rc ? rc : mem_sha256(buf_cstr(&t->text), t->text.len, t->sha256);
    if (!rc && want[0] != '\0' && !str_eq(want, t->sha256)) {
        rc = err_set(ERR_CHECKSUM, "%s: SHA-256 is %s, want %s", path, t->sha256, want);
    }
    if (!rc && t->text.len == 0) {
        rc = err_set(ERR_FORMAT, "%s: the text is empty", path);
    }
    if (rc) {
        buf_fini(&t->text);
        return rc;
    }
    str_copy(t->label, (int64_t)sizeof t->label, label);
    return 0;
}

/* Reads a shared file where it lies. err: ERR_NOTFOUND when there is none */
static int read_shared(const struct cli_env *env, const struct manifest *m, struct textdata *t) {
    char path[FILE_PATH_MAX];
    for (int32_t i = 0; i < m->n_sources; i++) {
        const struct manifest_source *s = &m->sources[i];
        if (s->type == MANIFEST_SHARED && paths_data(env, s->shared, path) == 0) {
            return read_text(path, s->label, s->files[0].sha256, t);
        }
    }
    return ERR_NOTFOUND;
}

static int read_fetched(const struct cli_env *env, const char *name, struct textdata *t) {
    const struct fetch_opts o = {
        .env = env, .name = name, .keep_stand_in = true, .quiet = !env->err_tty};
    struct fetch_result r;
    char path[FILE_PATH_MAX];
    int rc = fetch_run(&o, &r);
    if (rc) {
        return rc;
    }
    if (r.rec.type == MANIFEST_DEBIAN && !r.cached) {
        log_warn("%s: is used in place of %s, which could not be had:\n%.*s", r.rec.label, name,
                 (int)i64_max((int64_t)strlen(r.notes) - 1, 0), r.notes);
    }
    rc = file_join(path, r.dir, r.rec.files[0].path);
    return rc ? rc : read_text(path, r.rec.label, r.rec.files[0].sha256, t);
}

int textdata_open(const struct cli_env *env, const char *name, struct textdata *t) {
    struct manifest *m = NULL;
    if (file_exists(name) && !file_is_dir(name)) {
        return read_text(name, file_base(name), "", t);
    }
    if (!manifest_name_ok(name)) {
        return err_set(ERR_NOTFOUND, "%s: no such file", name);
    }
    int rc = fetch_manifest(env, name, &m);
    if (rc) {
        return err_ctx(rc, "%s: no such file", name);
    }
    if (m->kind != MANIFEST_TEXT) {
        rc = err_set(ERR_CONFIG, "%s is a model, want a text", name);
    } else {
        rc = read_shared(env, m, t);
        rc = rc == ERR_NOTFOUND ? read_fetched(env, name, t) : rc;
    }
    manifest_destroy(m);
    return rc;
}

void textdata_fini(struct textdata *t) {
    buf_fini(&t->text);
    *t = (struct textdata){0};
}

int textdata_ids(const struct textdata *t,
                 const struct tok *tok,
                 int64_t limit,
                 struct tok_ids *ids) {
    int32_t before = ids->n;
    /* why: transformers reads a special token that is written in the text as that token, too */
    int rc = tok_encode(tok, buf_cstr(&t->text), t->text.len, TOK_PARSE_SPECIAL, ids);
    if (!rc && limit > 0 && ids->n - before > limit) {
        ids->n = before + (int32_t)limit;
    }
    return rc;
}
