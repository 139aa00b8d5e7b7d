/* The record of a fetched folder, "fetch.json" beside the files:
 *
 *      {"type": "hub", "label": "...", "files": [{"path": "...", "bytes": 1, "sha256": "..."}]}
 *
 * It is written last into the stage, so a folder with a record is whole; later damage shows as a
 * size, or under --verify as a hash, that is not the recorded one. A manifest that has since got
 * another hash makes the folder stale. */
#include "harness/fetchrec.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

#define RECORD "fetch.json"

int fetchrec_write(const char *dir, const struct fetchrec *r) {
    char path[FILE_PATH_MAX];
    json_t *list = json_array();
    int rc = file_join(path, dir, RECORD);
    for (int32_t i = 0; i < r->n_files; i++) {
        const struct fetchrec_file *f = &r->files[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "path", f->path, "bytes",
                                              (json_int_t)f->bytes, "sha256", f->sha256));
    }
    json_t *o = json_pack("{s:s, s:s, s:o}", "type", manifest_type_name(r->type), "label", r->label,
                          "files", list);
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    if (!rc && !text) {
        rc = err_set(ERR_NOMEM, "%s: cannot format", path);
    }
    rc = rc ? rc : file_write(path, text, (int64_t)strlen(text));
    free(text); /* why: memory of jansson, not of mem_* */
    json_decref(o);
    return rc;
}

static int read_file(const json_t *o, const char *where, struct fetchrec_file *f) {
    const char *path = NULL;
    const char *hex = NULL;
    int64_t bytes = -1;
    int rc = json_need_str(o, where, "path", &path);
    rc = rc ? rc : json_need_str(o, where, "sha256", &hex);
    rc = rc ? rc : json_opt_i64(o, where, "bytes", 0, INT64_C(1) << 50, &bytes);
    if (rc) {
        return rc;
    }
    if (!manifest_path_ok(path) || !manifest_sha256_ok(hex) || bytes < 0) {
        return err_set(ERR_FORMAT, "%s: an entry of \"files\" is malformed", where);
    }
    str_copy(f->path, MANIFEST_TEXT_MAX, path);
    str_copy(f->sha256, FILE_SHA256_HEX, hex);
    f->bytes = bytes;
    return 0;
}

static int read_record(const json_t *o, const char *where, struct fetchrec *r) {
    const char *type = NULL;
    const char *label = NULL;
    const json_t *list = json_object_get(o, "files");
    size_t n = json_array_size(list);
    int rc = json_need_str(o, where, "type", &type);
    rc = rc ? rc : json_need_str(o, where, "label", &label);
    if (rc) {
        return rc;
    }
    r->type = MANIFEST_TYPE_N;
    for (int32_t t = 0; t < MANIFEST_TYPE_N; t++) {
        r->type = str_eq(type, manifest_type_name((enum manifest_type)t)) ? (enum manifest_type)t
                                                                          : r->type;
    }
    if (r->type == MANIFEST_TYPE_N || n == 0 || n > MANIFEST_FILES_MAX ||
        !str_copy(r->label, MANIFEST_TEXT_MAX, label)) {
        return err_set(ERR_FORMAT, "%s: not a record of trilemma fetch", where);
    }
    for (size_t i = 0; i < n && !rc; i++) {
        rc = read_file(json_array_get(list, i), where, &r->files[i]);
    }
    r->n_files = (int32_t)n;
    return rc;
}

int fetchrec_read(const char *dir, struct fetchrec *r) {
    char path[FILE_PATH_MAX];
    json_t *o = NULL;
    *r = (struct fetchrec){0};
    int rc = file_join(path, dir, RECORD);
    rc = rc ? rc : json_read(path, &o);
    rc = rc ? rc : read_record(o, path, r);
    json_decref(o);
    return rc;
}

static const struct fetchrec_file *find(const struct fetchrec *r, const char *path) {
    for (int32_t i = 0; i < r->n_files; i++) {
        if (str_eq(r->files[i].path, path)) {
            return &r->files[i];
        }
    }
    return NULL;
}

static int check_manifest(const struct fetchrec *r, const struct manifest *m) {
    const struct manifest_source *s = NULL;
    for (int32_t i = 0; i < m->n_sources && !s; i++) {
        s = m->sources[i].type == r->type ? &m->sources[i] : NULL;
    }
    if (!s) {
        return err_set(ERR_CHECKSUM, "%s: the manifest has no source %s any more", m->name,
                       manifest_type_name(r->type));
    }
    for (int32_t i = 0; i < s->n_files; i++) {
        const struct fetchrec_file *f = find(r, s->files[i].path);
        bool same = f && (s->files[i].sha256[0] == '\0' || str_eq(s->files[i].sha256, f->sha256));
        if (!same) {
            return err_set(ERR_CHECKSUM, "%s: %s is not the manifest's", m->name, s->files[i].path);
        }
    }
    return 0;
}

int fetchrec_check(const char *dir,
                   const struct fetchrec *r,
                   const struct manifest *m,
                   bool verify) {
    char path[FILE_PATH_MAX];
    char hex[FILE_SHA256_HEX];
    int rc = check_manifest(r, m);
    for (int32_t i = 0; i < r->n_files && !rc; i++) {
        const struct fetchrec_file *f = &r->files[i];
        rc = file_join(path, dir, f->path);
        int64_t size = rc ? -1 : file_size(path);
        if (!rc && size != f->bytes) {
            return err_set(ERR_CHECKSUM, "%s: %lld bytes, want %lld", path, (long long)size,
                           (long long)f->bytes);
        }
        if (!rc && verify) {
            rc = file_sha256(path, hex);
            if (!rc && !str_eq(hex, f->sha256)) {
                return err_set(ERR_CHECKSUM, "%s: SHA-256 is %s, want %s", path, hex, f->sha256);
            }
        }
    }
    return rc;
}
