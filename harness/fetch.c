/* From a name to a folder in the cache.
 *
 *      <cache>/<name>.stage-<type>/   files arrive here, under their final names once whole
 *      <cache>/<name>/                by rename of the stage, when all files are there
 *      <cache>/<name>.old/            a former folder, for the moment of the exchange
 *
 * 1. <cache>/<name> is whole or absent. A folder there that bears no fetch.json is somebody's own:
 *    it is refused, never replaced.
 * 2. The stage of a hub source outlives a cut transfer, so that the next call resumes; others are
 *    removed on failure.
 * 3. One process at a time works in a stage: it is locked. */
#include "harness/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/fault.h"
#include "engine/base/str.h"
#include "harness/fetchsrc.h"
#include "harness/paths.h"
#include "harness/provenance.h"

enum { NOTE_MAX = 300 };

int fetch_manifest(const struct cli_env *env, const char *name, struct manifest **out) {
    char rel[MANIFEST_NAME_MAX + 16];
    char path[FILE_PATH_MAX];
    if (!manifest_name_ok(name)) {
        return err_set(ERR_USAGE, "\"%.64s\" is no name: want letters a-z, digits, . and -", name);
    }
    snprintf(rel, sizeof rel, "datasets/%s.json", name);
    int rc = paths_share(env, rel, path);
    if (rc) {
        return err_ctx(rc, "no manifest knows \"%s\" (trilemma fetch lists them)", name);
    }
    return manifest_read(path, out);
}

static int sys_error(const char *what, const char *path) {
    return err_set(ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static bool wanted(const struct fetch_opts *o, enum manifest_type t) {
    return !o->source || str_eq(o->source, manifest_type_name(t)) ||
           (t == MANIFEST_HUB_ZIP && str_eq(o->source, "hub"));
}

static int check_source(const struct fetch_opts *o, const struct manifest *m) {
    bool known = false;
    for (int32_t t = 0; t < MANIFEST_TYPE_N; t++) {
        known = known || wanted(o, (enum manifest_type)t);
    }
    if (!known) {
        return err_set(ERR_USAGE,
                       "source \"%.64s\" is not known; known are hub, pip, shared, "
                       "hub-zip, debian",
                       o->source);
    }
    for (int32_t i = 0; i < m->n_sources; i++) {
        if (wanted(o, m->sources[i].type)) {
            return 0;
        }
    }
    return err_set(ERR_USAGE, "%s has no source %s", m->name, o->source);
}

/* Makes "<cache>/<name>" and the cache folder. */
static int find_dir(const struct fetch_opts *o, char dir[FILE_PATH_MAX]) {
    char cache[FILE_PATH_MAX];
    int rc = paths_cache(o->env, cache);
    rc = rc ? rc : file_mkdirs(cache);
    return rc ? rc : file_join(dir, cache, o->name);
}

/* Looks whether a whole copy is there.
 * out: r->cached; *stand_in: it is whole, but something better shall be tried first
 * err: ERR_CONFIG the folder is not ours */
static int
look(const struct fetch_opts *o, const struct manifest *m, struct fetch_result *r, bool *stand_in) {
    if (!file_exists(r->dir)) {
        return 0;
    }
    int rc = file_is_dir(r->dir) ? fetchrec_read(r->dir, &r->rec) : ERR_NOTFOUND;
    if (rc == ERR_NOTFOUND && rmdir(r->dir) != 0) {
        return err_set(ERR_CONFIG,
                       "%s: is there, but not from trilemma fetch (it has no fetch.json); move it "
                       "away",
                       r->dir);
    }
    rc = rc ? rc : fetchrec_check(r->dir, &r->rec, m, o->verify);
    if (rc == ERR_NOMEM) {
        return rc;
    }
    bool whole = rc == 0 && wanted(o, r->rec.type);
    *stand_in = whole && r->rec.type == MANIFEST_DEBIAN && !o->source && !o->keep_stand_in;
    r->cached = whole && !*stand_in;
    if (rc && rc != ERR_NOTFOUND) {
        snprintf(r->notes, FETCH_NOTES_MAX, "  cache: %.*s\n", NOTE_MAX, err_msg());
    }
    return 0;
}

static int path_with(char dst[FILE_PATH_MAX], const char *dir, const char *a, const char *b) {
    int n = snprintf(dst, FILE_PATH_MAX, "%s%s%s", dir, a, b);
    return n > 0 && n < FILE_PATH_MAX
               ? 0
               : err_set(ERR_LIMIT, "path of more than %d bytes", FILE_PATH_MAX - 1);
}

static bool resumable(enum manifest_type t) {
    return t == MANIFEST_HUB || t == MANIFEST_HUB_ZIP;
}

/* Makes and locks the stage. out: *fd holds the lock */
static int open_stage(const char *stage, int *fd) {
    struct stat a;
    struct stat b;
    int rc = file_mkdirs(stage);
    if (rc) {
        return rc;
    }
    *fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0) {
        return sys_error("open", stage);
    }
    /* why: between open and flock another process may have given it its final name */
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 || fstat(*fd, &a) != 0 || stat(stage, &b) != 0 ||
        a.st_ino != b.st_ino || a.st_dev != b.st_dev) {
        close(*fd);
        return err_set(ERR_BUSY, "%s: another process is at work there", stage);
    }
    return 0;
}

static int rename_dir(const char *from, const char *to) {
    if (fault_hit(FAULT_RENAME)) {
        errno = EIO;
        return sys_error("rename", from);
    }
    return rename(from, to) == 0 ? 0 : sys_error("rename", from);
}

/* Gives the stage its final name; a former folder goes only when that has worked. */
static int exchange(const char *stage, const char *dir) {
    char old[FILE_PATH_MAX];
    int rc = path_with(old, dir, ".old", "");
    if (rc || !file_exists(dir)) {
        return rc ? rc : rename_dir(stage, dir);
    }
    if (file_exists(old) && !fetchsrc_remove(old)) {
        return err_set(ERR_IO, "%s: cannot remove it", old);
    }
    rc = rename_dir(dir, old);
    if (rc) {
        return rc;
    }
    rc = rename_dir(stage, dir);
    if (rc) {
        (void)rename(old, dir); /* why: the error of the first rename is the one to tell */
        return rc;
    }
    fetchsrc_remove(old);
    return 0;
}

static int try_source(const struct fetch_opts *o,
                      const struct manifest_source *s,
                      const char *dir,
                      struct fetchrec *rec) {
    char stage[FILE_PATH_MAX];
    int fd = -1;
    int rc = path_with(stage, dir, ".stage-", manifest_type_name(s->type));
    rc = rc ? rc : open_stage(stage, &fd);
    if (rc) {
        return rc;
    }
    const struct fetchsrc_opts src = {
        .env = o->env, .net = o->net, .src = s, .dir = stage, .quiet = o->quiet};
    *rec = (struct fetchrec){.type = s->type};
    str_copy(rec->label, MANIFEST_TEXT_MAX, s->label);
    rc = fetchsrc_get(&src, rec);
    rc = rc ? rc : provenance_write(stage, rec->label);
    rc = rc ? rc : fetchrec_write(stage, rec);
    rc = rc ? rc : exchange(stage, dir);
    if (rc && resumable(s->type)) {
        rmdir(stage); /* why: goes only when nothing is in it to resume from */
    } else if (rc) {
        fetchsrc_remove(stage);
    }
    close(fd);
    return rc;
}

static void note(struct fetch_result *r, enum manifest_type t) {
    size_t n = strlen(r->notes);
    snprintf(r->notes + n, sizeof r->notes - n, "  %s: %.*s\n", manifest_type_name(t), NOTE_MAX,
             err_msg());
}

static bool final_error(int rc) {
    return rc == ERR_CANCELED || rc == ERR_NOMEM || rc == ERR_BUSY;
}

static int
try_sources(const struct fetch_opts *o, const struct manifest *m, struct fetch_result *r) {
    int code = 0;
    for (int32_t i = 0; i < m->n_sources; i++) {
        if (!wanted(o, m->sources[i].type)) {
            continue;
        }
        int rc = try_source(o, &m->sources[i], r->dir, &r->rec);
        if (rc == 0 || final_error(rc)) {
            return rc ? err_ctx(rc, "%s", o->name) : 0;
        }
        note(r, m->sources[i].type);
        code = code == ERR_NET ? code : rc;
    }
    size_t n = strlen(r->notes);
    return err_set(code, "%s: no source worked\n%.*s", o->name, n > 0 ? (int)n - 1 : 0, r->notes);
}

int fetch_run(const struct fetch_opts *o, struct fetch_result *r) {
    struct manifest *m = NULL;
    bool stand_in = false;
    *r = (struct fetch_result){.cached = false};
    int rc = fetch_manifest(o->env, o->name, &m);
    if (rc) {
        return rc;
    }
    rc = check_source(o, m);
    rc = rc ? rc : find_dir(o, r->dir);
    rc = rc ? rc : look(o, m, r, &stand_in);
    if (!rc && !r->cached) {
        rc = try_sources(o, m, r);
    }
    if (rc && stand_in && !final_error(rc)) {
        rc = fetchrec_read(r->dir, &r->rec); /* why: better a stand-in than nothing */
        r->cached = rc == 0;
    }
    manifest_destroy(m);
    return rc;
}
