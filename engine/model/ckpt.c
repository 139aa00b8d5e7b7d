/* Which container is it?
 *
 *     path is a file *.gguf ......................... GGUF
 *     path is a folder with config.json ............. HF: model.safetensors.index.json names the
 *                                                     shards, else model.safetensors alone
 *     path is a folder with exactly one *.gguf ...... GGUF
 *
 * A GGUF file whose split.count is more than 1 is the first part, NAME-00001-of-0000N.gguf; the
 * others lie beside it and add their tensors. A shard name from the index never leaves the folder.
 *
 * src: split files: llama.cpp, gguf-split (split.no, split.count, split.tensors.count) */
#include "engine/model/ckpt.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/safetensors.h"

static int map_file(struct ckpt *c, const char *dir, const char *name) {
    char path[FILE_PATH_MAX];
    if (c->n_file == CKPT_FILES_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d files", dir, CKPT_FILES_MAX);
    }
    if (!str_copy(c->file[c->n_file], (int64_t)sizeof c->file[0], name)) {
        return err_set(ERR_LIMIT, "%s: file name \"%s\" is too long", dir, name);
    }
    int rc = file_join(path, dir, name);
    if (!rc) {
        rc = file_map(path, &c->map[c->n_file]);
    }
    if (rc) {
        return rc;
    }
    c->file_bytes += c->map[c->n_file].size;
    c->n_file++;
    return 0;
}

static int open_safetensors(struct ckpt *c, const char *name) {
    char path[FILE_PATH_MAX];
    int rc = map_file(c, c->path, name);
    if (!rc) {
        rc = file_join(path, c->path, name);
    }
    if (rc) {
        return rc;
    }
    const struct filemap *m = &c->map[c->n_file - 1];
    return safetensors_parse(path, m->data, m->size, &c->dir);
}

static bool already_open(const struct ckpt *c, const char *name) {
    for (int32_t i = 0; i < c->n_file; i++) {
        if (str_eq(c->file[i], name)) {
            return true;
        }
    }
    return false;
}

/* Every tensor of the index must be in the shards. */
static int check_index(const struct ckpt *c, const char *path, const json_t *map) {
    const char *name = NULL;
    json_t *file = NULL;
    json_object_foreach((json_t *)(uintptr_t)map, name, file) {
        if (!tensor_dir_find(&c->dir, name)) {
            return err_set(ERR_FORMAT, "%s: tensor \"%s\" is in no shard", path, name);
        }
    }
    return 0;
}

static int open_index(struct ckpt *c, const char *path) {
    json_t *index = NULL;
    int rc = json_read(path, &index);
    if (rc) {
        return rc;
    }
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) {
        rc = err_set(ERR_FORMAT, "%s: \"weight_map\" is no object", path);
    }
    const char *name = NULL;
    json_t *file = NULL;
    json_object_foreach(map, name, file) {
        const char *f = json_string_value(file);
        if (!f || strchr(f, '/') || str_starts(f, ".")) {
            rc = err_set(ERR_FORMAT, "%s: tensor \"%s\": shard \"%s\" is no file of this folder",
                         path, name, f ? f : "?");
        } else if (!already_open(c, f)) {
            rc = open_safetensors(c, f);
        }
        if (rc) {
            break;
        }
    }
    if (!rc) {
        rc = tensor_dir_sort(&c->dir, path);
    }
    if (!rc) {
        rc = check_index(c, path, map);
    }
    json_decref(index);
    return rc;
}

static int open_hf(struct ckpt *c) {
    char path[FILE_PATH_MAX];
    c->kind = CKPT_HF;
    int rc = file_join(path, c->path, "config.json");
    if (!rc) {
        rc = json_read(path, &c->config);
    }
    if (!rc && !json_is_object(c->config)) {
        rc = err_set(ERR_FORMAT, "%s: no object", path);
    }
    if (!rc) {
        rc = file_join(path, c->path, "model.safetensors.index.json");
    }
    if (rc) {
        return rc;
    }
    if (file_exists(path)) {
        return open_index(c, path);
    }
    rc = open_safetensors(c, "model.safetensors");
    return rc ? rc : tensor_dir_sort(&c->dir, c->path);
}

/* "-00001-of-00003.gguf"; dst [SPLIT_TAIL] */
enum { SPLIT_TAIL = 64 };

static const char *split_tail(char *dst, int64_t no, int64_t count) {
    snprintf(dst, SPLIT_TAIL, "-%05lld-of-%05lld.gguf", (long long)no + 1, (long long)count);
    return dst;
}

static int read_split(const struct gguf *g, int64_t *no, int64_t *count) {
    *no = 0;
    *count = 1;
    int rc = gguf_opt_i64(g, "split.count", 0, CKPT_FILES_MAX, count);
    return rc ? rc : gguf_opt_i64(g, "split.no", 0, CKPT_FILES_MAX - 1, no);
}

/* Adds the tensors of part no, which must say that it is that. */
static int join_part(struct ckpt *c, const char *dir, const char *name, int64_t no, int64_t count) {
    char path[FILE_PATH_MAX];
    struct gguf *part = NULL;
    int64_t is_no = 0;
    int64_t is_count = 0;
    int rc = map_file(c, dir, name);
    rc = rc ? rc : file_join(path, dir, name);
    if (rc) {
        return rc;
    }
    const struct filemap *m = &c->map[c->n_file - 1];
    rc = gguf_parse(path, m->data, m->size, &part);
    rc = rc ? rc : read_split(part, &is_no, &is_count);
    if (!rc && (is_no != no || is_count != count)) {
        rc =
            err_set(ERR_FORMAT, "%s: says it is part %lld of %lld, want %lld of %lld", path,
                    (long long)is_no + 1, (long long)is_count, (long long)no + 1, (long long)count);
    }
    rc = rc ? rc : tensor_dir_join(&c->gguf->dir, &part->dir);
    gguf_close(part);
    return rc;
}

/* Joins the other parts when the open file is the first of several. */
static int join_parts(struct ckpt *c) {
    char dir[FILE_PATH_MAX];
    char name[CKPT_NAME_MAX];
    char tail[SPLIT_TAIL];
    int64_t no = 0;
    int64_t count = 1;
    int rc = read_split(c->gguf, &no, &count);
    if (rc || count <= 1) {
        return rc;
    }
    if (no != 0 || !str_ends(c->path, split_tail(tail, 0, count))) {
        return err_set(ERR_FORMAT,
                       "%s: part %lld of a model in %lld files; open the first, named *%s", c->path,
                       (long long)no + 1, (long long)count, split_tail(tail, 0, count));
    }
    const char *base = file_base(c->path);
    int stem = (int)(strlen(base) - strlen(tail));
    snprintf(dir, sizeof dir, "%.*s", (int)(base - c->path), c->path);
    for (int64_t i = 1; i < count && !rc; i++) {
        int n = snprintf(name, sizeof name, "%.*s%s", stem, base, split_tail(tail, i, count));
        rc = n < (int)sizeof name
                 ? join_part(c, dir[0] ? dir : ".", name, i, count)
                 : err_set(ERR_LIMIT, "%s: file name is too long for its other parts", c->path);
    }
    int64_t want = c->gguf->dir.n;
    rc = rc ? rc : tensor_dir_sort(&c->gguf->dir, c->path);
    rc = rc ? rc : gguf_opt_i64(c->gguf, "split.tensors.count", 0, TENSORS_MAX, &want);
    if (!rc && want != c->gguf->dir.n) {
        rc = err_set(ERR_FORMAT, "%s: %d tensors in %lld files, split.tensors.count is %lld",
                     c->path, c->gguf->dir.n, (long long)count, (long long)want);
    }
    return rc;
}

static int open_gguf(struct ckpt *c) {
    c->kind = CKPT_GGUF;
    int rc = file_map(c->path, &c->map[0]);
    if (rc) {
        return rc;
    }
    str_copy(c->file[0], (int64_t)sizeof c->file[0], file_base(c->path));
    c->n_file = 1;
    c->file_bytes = c->map[0].size;
    rc = gguf_parse(c->path, c->map[0].data, c->map[0].size, &c->gguf);
    rc = rc ? rc : join_parts(c);
    if (!rc) {
        c->dir = c->gguf->dir; /* a view: the gguf owns it */
    }
    return rc;
}

/* Is it a part of a split file other than the first? */
static bool is_later_part(const char *name) {
    const size_t n = sizeof "-00001-of-00003.gguf" - 1;
    size_t len = strlen(name);
    if (len <= n) {
        return false;
    }
    const char *tail = name + len - n;
    return tail[0] == '-' && strncmp(tail + 6, "-of-", 4) == 0 &&
           strncmp(tail + 1, "00001", 5) != 0;
}

/* Finds the only .gguf of a folder. err: ERR_NOTFOUND when none, ERR_FORMAT when several */
static int only_gguf(const char *dir, char path[FILE_PATH_MAX]) {
    char name[FILE_PATH_MAX] = "";
    int32_t n = 0;
    DIR *d = opendir(dir);
    if (!d) {
        return err_set(ERR_IO, "%s: cannot list the folder", dir);
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (str_ends(e->d_name, ".gguf") && !is_later_part(e->d_name)) {
            str_copy(name, (int64_t)sizeof name, e->d_name);
            n++;
        }
    }
    closedir(d);
    if (n != 1) {
        return err_set(n ? ERR_FORMAT : ERR_NOTFOUND,
                       "%s: no config.json, and %d .gguf files, want one of them", dir, n);
    }
    return file_join(path, dir, name);
}

static int open_any(struct ckpt *c, const char *path) {
    char found[FILE_PATH_MAX];
    if (!str_copy(c->path, FILE_PATH_MAX, path)) {
        return err_set(ERR_LIMIT, "path is longer than %d bytes", FILE_PATH_MAX - 1);
    }
    if (!file_exists(path)) {
        return err_set(ERR_NOTFOUND, "%s: no such file or folder", path);
    }
    if (!file_is_dir(path)) {
        return open_gguf(c);
    }
    int rc = file_join(found, path, "config.json");
    if (rc || file_exists(found)) {
        return rc ? rc : open_hf(c);
    }
    rc = only_gguf(path, found);
    if (!rc) {
        str_copy(c->path, FILE_PATH_MAX, found);
        rc = open_gguf(c);
    }
    return rc;
}

int ckpt_open(const char *path, struct ckpt **out) {
    struct ckpt *c = mem_calloc(MEM_MODEL, (int64_t)sizeof *c);
    if (!c) {
        return ERR_NOMEM;
    }
    int rc = open_any(c, path);
    if (rc) {
        ckpt_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void ckpt_close(struct ckpt *c) {
    if (!c) {
        return;
    }
    if (!c->gguf) {
        tensor_dir_fini(&c->dir);
    }
    gguf_close(c->gguf);
    json_decref(c->config);
    for (int32_t i = 0; i < c->n_file; i++) {
        file_unmap(&c->map[i]);
    }
    mem_free(c);
}

const struct tensor *ckpt_find(const struct ckpt *c, const char *name) {
    return tensor_dir_find(&c->dir, name);
}

int ckpt_sha256(const struct ckpt *c, char hex[FILE_SHA256_HEX]) {
    int32_t order[CKPT_FILES_MAX];
    uint8_t md[EVP_MAX_MD_SIZE];
    for (int32_t i = 0; i < c->n_file; i++) {
        int32_t j = i;
        for (; j > 0 && strcmp(c->file[order[j - 1]], c->file[i]) > 0; j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return err_set(ERR_NOMEM, "%s: cannot start SHA-256", c->path);
    }
    for (int32_t i = 0; i < c->n_file; i++) {
        const struct filemap *m = &c->map[order[i]];
        EVP_DigestUpdate(ctx, m->data, (size_t)m->size);
    }
    EVP_DigestFinal_ex(ctx, md, NULL);
    EVP_MD_CTX_free(ctx);
    for (int32_t i = 0; i < 32; i++) {
        snprintf(hex + 2 * (size_t)i, 3, "%02x", md[i]);
    }
    return 0;
}
