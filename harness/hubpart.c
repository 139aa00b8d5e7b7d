/* The unfinished file of a download.
 *
 * 1. The final name appears by rename alone, after the content was hashed and synced.
 * 2. Bytes of two versions never meet in one file: the tag of the first answer is written before
 *    the first byte, and hubpart_restart empties the file before it notes another tag.
 * 3. One process at a time: the file is locked from open to close. */
#include "harness/hubpart.h"

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

static int sys_error(const char *what, const char *path) {
    return err_set(ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static void read_etag(struct hubpart *p) {
    struct buf b;
    buf_init(&b, MEM_HARNESS, HUBPART_ETAG_MAX - 1);
    if (file_read(p->etag_path, &b) || !str_copy(p->etag, HUBPART_ETAG_MAX, buf_cstr(&b))) {
        p->etag[0] = '\0';
    }
    buf_fini(&b);
    err_clear();
}

static int lock_part(struct hubpart *p) {
    struct stat st;
    struct stat named;
    p->fd = open(p->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (p->fd < 0) {
        return sys_error("create", p->part);
    }
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0) {
        return err_set(ERR_BUSY, "%s: another process is fetching it", p->part);
    }
    if (fstat(p->fd, &st) != 0) {
        return sys_error("stat", p->part);
    }
    /* why: between open and flock another process may have renamed this very file */
    if (stat(p->part, &named) != 0 || named.st_ino != st.st_ino || named.st_dev != st.st_dev) {
        return err_set(ERR_BUSY, "%s: another process has just fetched it", p->part);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(ERR_IO, "%s: not a regular file", p->part);
    }
    p->size = st.st_size;
    return 0;
}

int hubpart_open(struct hubpart *p, const char *path) {
    *p = (struct hubpart){.fd = -1};
    int n = snprintf(p->etag_path, sizeof p->etag_path, "%s.part.etag", path);
    if (n < 0 || n >= FILE_PATH_MAX) {
        return err_set(ERR_LIMIT, "path of %d bytes, at most %d", n, FILE_PATH_MAX - 1);
    }
    str_copy(p->path, FILE_PATH_MAX, path);
    str_copy(p->part, FILE_PATH_MAX, p->etag_path);
    p->part[n - (int)strlen(".etag")] = '\0';
    int rc = lock_part(p);
    if (rc) {
        if (p->fd >= 0) {
            close(p->fd);
        }
        p->fd = -1;
        return rc;
    }
    read_etag(p);
    return 0;
}

void hubpart_close(struct hubpart *p) {
    if (p->fd < 0) {
        return;
    }
    if (p->size == 0) {
        unlink(p->part);
        unlink(p->etag_path);
    }
    close(p->fd);
    p->fd = -1;
}

int hubpart_restart(struct hubpart *p, const char *etag) {
    if (ftruncate(p->fd, 0) != 0) {
        return sys_error("empty", p->part);
    }
    p->size = 0;
    p->etag[0] = '\0';
    unlink(p->etag_path);
    if (etag[0] == '\0') {
        return 0;
    }
    int rc = file_write(p->etag_path, etag, (int64_t)strlen(etag));
    if (!rc) {
        str_copy(p->etag, HUBPART_ETAG_MAX, etag);
    }
    return rc;
}

int hubpart_write(struct hubpart *p, const void *data, int64_t n) {
    const uint8_t *src = data;
    while (n > 0) {
        ssize_t put = -1;
        if (fault_hit(FAULT_WRITE)) {
            errno = ENOSPC;
        } else {
            put = pwrite(p->fd, src, (size_t)n, p->size);
        }
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return sys_error("write", p->part);
        }
        src += put;
        n -= put;
        p->size += put;
    }
    return 0;
}

int hubpart_finish(struct hubpart *p, const char *want, char sha256[FILE_SHA256_HEX]) {
    char got[FILE_SHA256_HEX];
    int rc = file_sha256(p->part, got);
    if (rc) {
        return rc;
    }
    if (want[0] != '\0' && !str_eq(want, got)) {
        rc = err_set(ERR_CHECKSUM, "%s: SHA-256 is %s, want %s; the %lld bytes were removed",
                     file_base(p->path), got, want, (long long)p->size);
        p->size = 0;
        hubpart_close(p);
        return rc;
    }
    if (fsync(p->fd) != 0) {
        return sys_error("sync", p->part);
    }
    if (fault_hit(FAULT_RENAME)) {
        errno = EIO;
        return sys_error("rename", p->part);
    }
    if (rename(p->part, p->path) != 0) {
        return sys_error("rename", p->part);
    }
    unlink(p->etag_path);
    close(p->fd);
    p->fd = -1;
    str_copy(sha256, FILE_SHA256_HEX, got);
    return 0;
}
