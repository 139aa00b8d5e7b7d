/* Files: read-only maps, whole reads with a limit, atomic replacement, directories, SHA-256.
 *
 * Every error names the path and the system's reason. A write under a final name is complete or
 * absent: content goes to "<path>.part.<pid>", is synced, then renamed. */
#ifndef ENGINE_BASE_FILE_H
#define ENGINE_BASE_FILE_H

#include "engine/base/buf.h"
#include "engine/base/types.h"

enum { FILE_PATH_MAX = 4096, FILE_SHA256_HEX = 65 };

struct filemap {
    const uint8_t *data; /* own, page-aligned; NULL for an empty file */
    int64_t size;        /* bytes */
};

/* Maps a regular file read-only. err: ERR_NOTFOUND, ERR_IO, ERR_FORMAT for any other kind and for a
 * Git LFS pointer in place of the file.
 * own: caller, file_unmap */
int file_map(const char *path, struct filemap *out);
void file_unmap(struct filemap *m);

/* Gives back the memory of whole pages inside n bytes of a map; they are read anew when touched.
 * cost: a system call */
void file_drop(const void *data, int64_t n);

/* Appends a whole regular file to b.
 * err: as file_map, ERR_LIMIT past the buffer's maximum */
int file_read(const char *path, struct buf *b);

/* Streaming writer with atomic close. */
struct filew {
    int fd;
    int64_t n_written;
    char path[FILE_PATH_MAX];
    char part[FILE_PATH_MAX];
};

/* err: ERR_IO (also disk full), with nothing left behind under either name */
int filew_open(struct filew *w, const char *path);
int filew_write(struct filew *w, const void *data, int64_t n);
int filew_pwrite(struct filew *w, const void *data, int64_t n, int64_t offset);
int filew_commit(struct filew *w); /* syncs and renames; on failure aborts */
void filew_abort(struct filew *w);

/* Writes a whole file atomically. */
int file_write(const char *path, const void *data, int64_t n);

/* True when path exists (any kind) / is a directory. */
bool file_exists(const char *path);
bool file_is_dir(const char *path);
int64_t file_size(const char *path); /* bytes, -1 when absent */

/* Makes a directory with its parents. err: ERR_IO, ERR_LIMIT, ERR_NOTFOUND for an empty path */
int file_mkdirs(const char *path);

/* dst = dir "/" name. err: ERR_LIMIT when it does not fit FILE_PATH_MAX */
int file_join(char dst[FILE_PATH_MAX], const char *dir, const char *name);

/* Part of path behind the last slash. own: path's */
const char *file_base(const char *path);

/* Lower-case hexadecimal SHA-256 of a file, of memory. err: ERR_IO, ERR_NOTFOUND */
int file_sha256(const char *path, char hex[FILE_SHA256_HEX]);
int mem_sha256(const void *data, int64_t n, char hex[FILE_SHA256_HEX]);

#endif
