/* The strict reader of manifests.
 *
 * 1. A manifest is data of a stranger: every string has a length limit, every path is relative and
 *    of a small alphabet, so that it cannot leave its folder, end up as an option of a program, or
 *    need quoting in a URL.
 * 2. A key that the reader does not know is an error: a misspelt "sha256" must not switch a check
 *    off in silence. For the same reason size and sha256 of a file must be written, if only as
 *    null.
 * 3. Which keys a source has depends on its type alone (table keys[]). */
#include "datasets/manifest.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

enum { KEYS_MAX = 9 };

static const struct {
    const char *name;
    const char *keys[KEYS_MAX]; /* NULL-terminated; all of them are needed */
} types[MANIFEST_TYPE_N] = {
    [MANIFEST_HUB] = {"hub", {"type", "label", "repo", "repo_type", "revision", "files"}},
    [MANIFEST_PIP] = {"pip", {"type", "label", "package", "version", "member", "file"}},
    [MANIFEST_SHARED] = {"shared", {"type", "label", "path", "file"}},
    [MANIFEST_HUB_ZIP] = {"hub-zip",
                          {"type", "label", "repo", "repo_type", "revision", "archive", "member",
                           "file"}},
    [MANIFEST_DEBIAN] = {"debian", {"type", "label", "package", "paths", "file"}},
};

static const char *const top_keys[] = {"name", "kind", "title", "licence", "sources", NULL};
static const char *const file_keys[] = {"path", "size", "sha256", NULL};

const char *manifest_type_name(enum manifest_type t) {
    return types[t].name;
}

static bool in_alphabet(char c, const char *more) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c != '\0' && strchr(more, c));
}

bool manifest_name_ok(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n >= MANIFEST_NAME_MAX || name[0] == '.' || name[0] == '-') {
        return false;
    }
    for (const char *c = name; *c; c++) {
        if (!in_alphabet(*c, ".-")) {
            return false;
        }
    }
    return true;
}

bool manifest_path_ok(const char *path) {
    bool first = true; /* of a part */
    for (const char *c = path; *c; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (!upper && !in_alphabet(*c, "._-+/")) {
            return false;
        }
        if (first && (*c == '.' || *c == '-' || *c == '/')) {
            return false;
        }
        first = *c == '/';
    }
    return !first && strlen(path) < MANIFEST_TEXT_MAX;
}

bool manifest_sha256_ok(const char *hex) {
    return strlen(hex) == FILE_SHA256_HEX - 1 && strspn(hex, "0123456789abcdef") == strlen(hex);
}

static int check_keys(const json_t *o, const char *where, const char *const *keys) {
    enum { LIST_MAX = 16 };
    const char *key = NULL;
    int32_t n = 0;
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: not an object", where);
    }
    while (n < LIST_MAX && keys[n]) {
        if (!json_object_get(o, keys[n])) {
            return err_set(ERR_FORMAT, "%s: \"%s\" is missing", where, keys[n]);
        }
        n++;
    }
    for (void *it = json_object_iter((json_t *)(uintptr_t)o); it;
         it = json_object_iter_next((json_t *)(uintptr_t)o, it)) {
        bool known = false;
        key = json_object_iter_key(it);
        for (int32_t i = 0; i < n; i++) {
            known = known || str_eq(key, keys[i]);
        }
        if (!known) {
            const char *near = str_nearest(key, keys, n);
            return err_set(ERR_FORMAT, "%s: key \"%.64s\" is not known%s%s%s", where, key,
                           near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        }
    }
    return 0;
}

/* A string without control bytes that fits dst. */
static int read_text(const json_t *o, const char *where, const char *key, int64_t cap, char *dst) {
    const char *s = NULL;
    int rc = json_need_str(o, where, key, &s);
    if (rc) {
        return rc;
    }
    for (const char *c = s; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return err_set(ERR_FORMAT, "%s: \"%s\" holds a control byte", where, key);
        }
    }
    if (s[0] == '\0' || (int64_t)strlen(s) >= cap) {
        return err_set(ERR_LIMIT, "%s: \"%s\" is of %lld bytes, want 1..%lld", where, key,
                       (long long)strlen(s), (long long)(cap - 1));
    }
    str_copy(dst, cap, s);
    return 0;
}

static int read_path(const json_t *o, const char *where, const char *key, int64_t cap, char *dst) {
    int rc = read_text(o, where, key, cap, dst);
    if (!rc && !manifest_path_ok(dst)) {
        rc = err_set(ERR_FORMAT,
                     "%s: \"%s\" is \"%s\", want a relative path of letters, digits and . _ - + / "
                     "whose parts do not begin with . or -",
                     where, key, dst);
    }
    return rc;
}

static int read_file(const json_t *o, const char *where, struct manifest_file *f) {
    const char *hex = "";
    int rc = check_keys(o, where, file_keys);
    f->size = -1;
    rc = rc ? rc : read_path(o, where, "path", MANIFEST_TEXT_MAX, f->path);
    rc = rc ? rc : json_opt_i64(o, where, "size", 0, INT64_C(1) << 50, &f->size);
    rc = rc ? rc : json_opt_str(o, where, "sha256", &hex);
    if (!rc && hex[0] == '\0' && !json_is_null(json_object_get(o, "sha256"))) {
        return err_set(ERR_FORMAT, "%s: \"sha256\" is empty, want 64 digits or null", where);
    }
    if (!rc && hex[0] != '\0' && !manifest_sha256_ok(hex)) {
        return err_set(ERR_FORMAT,
                       "%s: \"sha256\" has %lld characters, want 64 lower-case hexadecimal digits",
                       where, (long long)strlen(hex));
    }
    if (!rc) {
        str_copy(f->sha256, FILE_SHA256_HEX, hex);
    }
    return rc;
}

static int read_files(const json_t *list, const char *where, struct manifest_source *s) {
    size_t n = json_array_size(list);
    if (n == 0 || n > MANIFEST_FILES_MAX) {
        return err_set(ERR_LIMIT, "%s: \"files\" has %lld entries, want 1..%d", where, (long long)n,
                       MANIFEST_FILES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        char at[512];
        snprintf(at, sizeof at, "%.400s: file %d", where, (int)i + 1);
        int rc = read_file(json_array_get(list, i), at, &s->files[i]);
        for (size_t j = 0; j < i && !rc; j++) {
            if (str_eq(s->files[j].path, s->files[i].path)) {
                rc = err_set(ERR_FORMAT, "%s: \"%s\" comes twice", at, s->files[i].path);
            }
        }
        if (rc) {
            return rc;
        }
    }
    s->n_files = (int32_t)n;
    return 0;
}

static int read_paths(const json_t *list, const char *where, struct manifest_source *s) {
    size_t n = json_array_size(list);
    if (n == 0 || n > MANIFEST_PATHS_MAX) {
        return err_set(ERR_LIMIT, "%s: \"paths\" has %lld entries, want 1..%d", where, (long long)n,
                       MANIFEST_PATHS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const char *p = json_string_value(json_array_get(list, i));
        if (!p || p[0] != '/' || !manifest_path_ok(p + 1)) {
            return err_set(ERR_FORMAT, "%s: path %d is \"%.200s\", want an absolute path", where,
                           (int)i + 1, p ? p : "(no string)");
        }
        str_copy(s->paths[i], MANIFEST_TEXT_MAX, p);
    }
    s->n_paths = (int32_t)n;
    return 0;
}

static int read_repo(const json_t *o, const char *where, struct manifest_source *s) {
    const char *kind = NULL;
    int rc = read_path(o, where, "repo", MANIFEST_TEXT_MAX, s->repo);
    rc = rc ? rc : read_path(o, where, "revision", MANIFEST_NAME_MAX, s->revision);
    rc = rc ? rc : json_need_str(o, where, "repo_type", &kind);
    if (!rc && !str_eq(kind, "model") && !str_eq(kind, "dataset")) {
        return err_set(ERR_FORMAT, "%s: \"repo_type\" is \"%.64s\", want model or dataset", where,
                       kind);
    }
    s->dataset = !rc && str_eq(kind, "dataset");
    return rc;
}

/* The members that only one type has. */
static int read_special(const json_t *o, const char *where, struct manifest_source *s) {
    char at[512];
    int rc = 0;
    switch (s->type) {
    case MANIFEST_HUB:
        rc = read_repo(o, where, s);
        return rc ? rc : read_files(json_object_get(o, "files"), where, s);
    case MANIFEST_PIP:
        rc = read_path(o, where, "package", MANIFEST_NAME_MAX, s->package);
        rc = rc ? rc : read_path(o, where, "version", MANIFEST_NAME_MAX, s->version);
        return rc ? rc : read_path(o, where, "member", MANIFEST_TEXT_MAX, s->member);
    case MANIFEST_SHARED:
        return read_path(o, where, "path", MANIFEST_TEXT_MAX, s->shared);
    case MANIFEST_HUB_ZIP:
        snprintf(at, sizeof at, "%.400s: archive", where);
        rc = read_repo(o, where, s);
        rc = rc ? rc : read_path(o, where, "member", MANIFEST_TEXT_MAX, s->member);
        return rc ? rc : read_file(json_object_get(o, "archive"), at, &s->archive);
    case MANIFEST_DEBIAN:
        rc = read_path(o, where, "package", MANIFEST_NAME_MAX, s->package);
        return rc ? rc : read_paths(json_object_get(o, "paths"), where, s);
    case MANIFEST_TYPE_N:
        break;
    }
    return err_set(ERR_INTERNAL, "%s: type %d", where, (int)s->type);
}

static int find_type(const json_t *o, const char *where, enum manifest_type *out) {
    const char *name = NULL;
    int rc = json_is_object(o) ? json_need_str(o, where, "type", &name)
                               : err_set(ERR_FORMAT, "%s: not an object", where);
    for (int32_t t = 0; t < MANIFEST_TYPE_N && !rc; t++) {
        if (str_eq(name, types[t].name)) {
            *out = (enum manifest_type)t;
            return 0;
        }
    }
    return rc ? rc
              : err_set(ERR_FORMAT,
                        "%s: \"type\" is \"%.64s\", want hub, pip, shared, hub-zip or debian",
                        where, name);
}

static int read_source(const json_t *o,
                       const char *where,
                       enum manifest_kind kind,
                       struct manifest_source *s) {
    char at[512];
    int64_t label_max = kind == MANIFEST_TEXT ? MANIFEST_LABEL_MAX : MANIFEST_TEXT_MAX;
    int rc = find_type(o, where, &s->type);
    rc = rc ? rc : check_keys(o, where, types[s->type].keys);
    rc = rc ? rc : read_text(o, where, "label", label_max, s->label);
    rc = rc ? rc : read_special(o, where, s);
    if (rc || s->type == MANIFEST_HUB) {
        return rc;
    }
    s->n_files = 1;
    snprintf(at, sizeof at, "%.400s: file", where);
    rc = read_file(json_object_get(o, "file"), at, &s->files[0]);
    if (!rc && strchr(s->files[0].path, '/')) {
        rc = err_set(ERR_FORMAT, "%s: \"path\" is \"%s\", want a plain file name", at,
                     s->files[0].path);
    }
    return rc;
}

static int read_sources(const json_t *list, const char *where, struct manifest *m) {
    size_t n = json_array_size(list);
    if (n == 0 || n > MANIFEST_SOURCES_MAX) {
        return err_set(ERR_LIMIT, "%s: \"sources\" has %lld entries, want 1..%d", where,
                       (long long)n, MANIFEST_SOURCES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        char at[512];
        snprintf(at, sizeof at, "%.400s: source %d", where, (int)i + 1);
        int rc = read_source(json_array_get(list, i), at, m->kind, &m->sources[i]);
        if (rc) {
            return rc;
        }
    }
    m->n_sources = (int32_t)n;
    return 0;
}

static int read_top(const json_t *o, const char *where, struct manifest *m) {
    const char *kind = NULL;
    int rc = check_keys(o, where, top_keys);
    rc = rc ? rc : read_text(o, where, "name", MANIFEST_NAME_MAX, m->name);
    rc = rc ? rc : read_text(o, where, "title", MANIFEST_TEXT_MAX, m->title);
    rc = rc ? rc : read_text(o, where, "licence", MANIFEST_TEXT_MAX, m->licence);
    rc = rc ? rc : json_need_str(o, where, "kind", &kind);
    if (!rc && !manifest_name_ok(m->name)) {
        return err_set(ERR_FORMAT, "%s: \"name\" is \"%s\", want letters a-z, digits, . and -",
                       where, m->name);
    }
    if (!rc && !str_eq(kind, "model") && !str_eq(kind, "text")) {
        return err_set(ERR_FORMAT, "%s: \"kind\" is \"%.64s\", want model or text", where, kind);
    }
    if (!rc) {
        m->kind = str_eq(kind, "text") ? MANIFEST_TEXT : MANIFEST_MODEL;
    }
    return rc ? rc : read_sources(json_object_get(o, "sources"), where, m);
}

static int from_json(const json_t *o, const char *where, struct manifest **out) {
    struct manifest *m = mem_calloc(MEM_DATA, (int64_t)sizeof *m);
    if (!m) {
        return ERR_NOMEM;
    }
    int rc = read_top(o, where, m);
    if (rc) {
        manifest_destroy(m);
        return rc;
    }
    *out = m;
    return 0;
}

int manifest_parse(const char *where, const char *text, int64_t n, struct manifest **out) {
    json_t *o = NULL;
    int rc = json_parse(where, text, n, &o);
    rc = rc ? rc : from_json(o, where, out);
    json_decref(o);
    return rc;
}

int manifest_read(const char *path, struct manifest **out) {
    json_t *o = NULL;
    struct manifest *m = NULL;
    char want[MANIFEST_NAME_MAX + 8];
    int rc = json_read(path, &o);
    rc = rc ? rc : from_json(o, path, &m);
    json_decref(o);
    if (rc) {
        return rc;
    }
    snprintf(want, sizeof want, "%s.json", m->name);
    if (!str_eq(file_base(path), want)) {
        rc = err_set(ERR_FORMAT, "%s: \"name\" is \"%s\", want the file's name", path, m->name);
        manifest_destroy(m);
        return rc;
    }
    *out = m;
    return 0;
}

void manifest_destroy(struct manifest *m) {
    mem_free(m);
}
