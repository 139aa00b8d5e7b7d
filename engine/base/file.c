#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "engine/base/err.h"
#include "engine/base/fault.h"

enum { FILE_CHUNK = 1 << 20 };

static int sys_error(const char *what, const char *path) {
    int code = errno == ENOENT ? ERR_NOTFOUND : ERR_IO;
    return err_set(code, "%s: cannot %s: %s", path, what, strerror(errno));
}

static int open_read(const char *path, int *fd_out, int64_t *size_out) {
    struct stat st;
    /* why: O_NONBLOCK, for a pipe without a writer would be waited for before it can be refused */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return sys_error("open", path);
    }
    if (fstat(fd, &st) != 0) {
        int rc = sys_error("stat", path);
        close(fd);
        return rc;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(ERR_FORMAT, "%s: not a regular file", path);
    }
    *fd_out = fd;
    *size_out = st.st_size;
    return 0;
}

/* A repository that was cloned without its large files has texts of this form in their place. */
static int check_pointer(const char *path, const void *data, int64_t size) {
    static const char head[] = "version https://git-lfs.github.com/spec/";
    if (size < (int64_t)sizeof head || memcmp(data, head, sizeof head - 1) != 0) {
        return 0;
    }
    return err_set(ERR_FORMAT,
                   "%s: a Git LFS pointer of %lld bytes, not the file itself (git lfs pull)", path,
                   (long long)size);
}

void file_unmap(struct filemap *m) {
    if (m->data) {
        munmap((void *)(uintptr_t)m->data, (size_t)m->size);
    }
    *m = (struct filemap){0};
}

int file_map(const char *path, struct filemap *out) {
    int fd = -1;
    int64_t size = 0;
    int rc = open_read(path, &fd, &size);
    if (rc) {
        return rc;
    }
    void *p = NULL;
    if (fault_hit(FAULT_MMAP)) {
        errno = ENOMEM;
        p = MAP_FAILED;
    } else if (size > 0) {
        p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (p == MAP_FAILED) {
        rc = sys_error("map", path);
        close(fd);
        return rc;
    }
    close(fd);
    struct filemap m = {.data = p, .size = size};
    rc = check_pointer(path, p, size);
    if (rc) {
        file_unmap(&m);
        return rc;
    }
    *out = m;
    return 0;
}

void file_drop(const void *data, int64_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)data + (uintptr_t)n) / page * page;
    if (to > from) {
        madvise((void *)from, to - from, MADV_DONTNEED); /* advice: nothing is lost without it */
    }
}

static int64_t read_some(int fd, void *dst, int64_t n) {
    if (fault_hit(FAULT_READ)) {
        errno = EIO;
        return -1;
    }
    ssize_t got = -1;
    do {
        got = read(fd, dst, (size_t)n);
    } while (got < 0 && errno == EINTR);
    return got;
}

int file_read(const char *path, struct buf *b) {
    int fd = -1;
    int64_t size = 0;
    int64_t at = b->len;
    int rc = open_read(path, &fd, &size);
    if (rc) {
        return rc;
    }
    char *chunk = mem_calloc(b->tag, FILE_CHUNK);
    if (!chunk) {
        close(fd);
        return ERR_NOMEM;
    }
    for (;;) {
        int64_t n = read_some(fd, chunk, FILE_CHUNK);
        if (n < 0) {
            rc = sys_error("read", path);
        } else if (n > 0) {
            rc = buf_add(b, chunk, n);
            if (rc) {
                err_ctx(rc, "%s", path);
            }
        }
        if (rc || n <= 0) {
            break;
        }
    }
    mem_free(chunk);
    close(fd);
    return rc ? rc : check_pointer(path, b->data + at, b->len - at);
}

int filew_open(struct filew *w, const char *path) {
    *w = (struct filew){.fd = -1};
    int n = snprintf(w->part, sizeof w->part, "%s.part.%ld", path, (long)getpid());
    if (n < 0 || n >= FILE_PATH_MAX) {
        return err_set(ERR_LIMIT, "path of %d bytes, at most %d", n, FILE_PATH_MAX - 1);
    }
    snprintf(w->path, sizeof w->path, "%s", path);
    w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->fd < 0) {
        return sys_error("create", w->part);
    }
    return 0;
}

int filew_pwrite(struct filew *w, const void *data, int64_t n, int64_t offset) {
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t put = -1;
        if (fault_hit(FAULT_WRITE)) {
            errno = ENOSPC;
        } else {
            put = pwrite(w->fd, p, (size_t)i64_min(n, 1 << 30), offset);
        }
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return sys_error("write", w->path);
        }
        p += put;
        n -= put;
        offset += put;
    }
    return 0;
}

int filew_write(struct filew *w, const void *data, int64_t n) {
    int rc = filew_pwrite(w, data, n, w->n_written);
    if (!rc) {
        w->n_written += n;
    }
    return rc;
}

int filew_commit(struct filew *w) {
    int rc = 0;
    if (fsync(w->fd) != 0) {
        rc = sys_error("sync", w->part);
    }
    if (close(w->fd) != 0 && !rc) {
        rc = sys_error("close", w->part);
    }
    w->fd = -1;
    if (!rc && fault_hit(FAULT_RENAME)) {
        errno = EIO;
        rc = sys_error("rename to", w->path);
    } else if (!rc && rename(w->part, w->path) != 0) {
        rc = sys_error("rename to", w->path);
    }
    if (rc) {
        unlink(w->part);
    }
    return rc;
}

void filew_abort(struct filew *w) {
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->part);
        w->fd = -1;
    }
}

int file_write(const char *path, const void *data, int64_t n) {
    struct filew w;
    int rc = filew_open(&w, path);
    if (rc) {
        return rc;
    }
    rc = filew_write(&w, data, n);
    if (rc) {
        filew_abort(&w);
        return rc;
    }
    return filew_commit(&w);
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

int file_mkdirs(const char *path) {
    char p[FILE_PATH_MAX];
    int n = snprintf(p, sizeof p, "%s", path);
    if (n < 0 || n >= FILE_PATH_MAX) {
        return err_set(ERR_LIMIT, "path of %d bytes, at most %d", n, FILE_PATH_MAX - 1);
    }
    if (n == 0) {
        return err_set(ERR_NOTFOUND, "the path of the directory to make is empty");
    }
    for (char *c = p + 1;; c++) {
        if (*c != '/' && *c != '\0') {
            continue;
        }
        char keep = *c;
        *c = '\0';
        if (mkdir(p, 0755) != 0 && errno != EEXIST) {
            return sys_error("make directory", p);
        }
        *c = keep;
        if (keep == '\0') {
            break;
        }
    }
    return file_is_dir(path) ? 0 : err_set(ERR_IO, "%s: not a directory", path);
}

int file_join(char dst[FILE_PATH_MAX], const char *dir, const char *name) {
    int n = snprintf(dst, FILE_PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= FILE_PATH_MAX) {
        return err_set(ERR_LIMIT, "path of %d bytes, at most %d", n, FILE_PATH_MAX - 1);
    }
    return 0;
}

const char *file_base(const char *path) {
    const char *s = strrchr(path, '/');
    return s ? s + 1 : path;
}

static void to_hex(const uint8_t *md, char hex[FILE_SHA256_HEX]) {
    for (int32_t i = 0; i < 32; i++) {
        snprintf(hex + 2 * (size_t)i, 3, "%02x", md[i]);
    }
}

int file_sha256(const char *path, char hex[FILE_SHA256_HEX]) {
    int fd = -1;
    int64_t size = 0;
    int rc = open_read(path, &fd, &size);
    if (rc) {
        return rc;
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t *chunk = mem_calloc(MEM_BASE, FILE_CHUNK);
    uint8_t md[EVP_MAX_MD_SIZE];
    if (!ctx || !chunk || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        rc = err_set(ERR_NOMEM, "%s: cannot start SHA-256", path);
        goto out;
    }
    for (;;) {
        int64_t n = read_some(fd, chunk, FILE_CHUNK);
        if (n < 0) {
            rc = sys_error("read", path);
            goto out;
        }
        if (n == 0) {
            break;
        }
        EVP_DigestUpdate(ctx, chunk, (size_t)n);
    }
    EVP_DigestFinal_ex(ctx, md, NULL);
    to_hex(md, hex);
out:
    mem_free(chunk);
    EVP_MD_CTX_free(ctx);
    close(fd);
    return rc;
}

int mem_sha256(const void *data, int64_t n, char hex[FILE_SHA256_HEX]) {
    uint8_t md[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, (size_t)n, md, NULL, EVP_sha256(), NULL) != 1) {
        return err_set(ERR_INTERNAL, "SHA-256 failed");
    }
    to_hex(md, hex);
    return 0;
}
