/* Numbers are appended as they lie in memory: both formats and all our machines are little-endian.
 */
#include "tests/support/container_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/support.h"

enum { GG_U32 = 4, GG_F32 = 6, GG_STRING = 8 };

void container_u32(struct buf *b, uint32_t v) {
    assert_ok(buf_add(b, &v, 4));
}

void container_u64(struct buf *b, uint64_t v) {
    assert_ok(buf_add(b, &v, 8));
}

void container_st(struct buf *b, const char *header, const void *data, int64_t n) {
    container_u64(b, strlen(header));
    assert_ok(buf_str(b, header));
    assert_ok(buf_add(b, data, n));
}

void container_str(struct buf *b, const char *s) {
    container_u64(b, strlen(s));
    assert_ok(buf_str(b, s));
}

void container_head(struct buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv) {
    assert_ok(buf_str(b, "GGUF"));
    container_u32(b, version);
    container_u64(b, n_tensor);
    container_u64(b, n_kv);
}

void container_kv(struct buf *b, const char *key, uint32_t type, const void *value, int64_t n) {
    container_str(b, key);
    container_u32(b, type);
    assert_ok(buf_add(b, value, n));
}

void container_kv_u32(struct buf *b, const char *key, uint32_t v) {
    container_kv(b, key, GG_U32, &v, 4);
}

void container_kv_f32(struct buf *b, const char *key, float v) {
    container_kv(b, key, GG_F32, &v, 4);
}

void container_kv_str(struct buf *b, const char *key, const char *s) {
    container_str(b, key);
    container_u32(b, GG_STRING);
    container_str(b, s);
}

void container_tensor(struct buf *b,
                      const char *name,
                      uint32_t n_dim,
                      const uint64_t *dim,
                      uint32_t type,
                      uint64_t offset) {
    container_str(b, name);
    container_u32(b, n_dim);
    for (uint32_t i = 0; i < n_dim; i++) {
        container_u64(b, dim[i]);
    }
    container_u32(b, type);
    container_u64(b, offset);
}

void container_pad(struct buf *b, int64_t align) {
    while (b->len % align != 0) {
        assert_ok(buf_add(b, "", 1));
    }
}

void container_edge_init(struct container_edge *e, int64_t max) {
    int64_t page = sysconf(_SC_PAGESIZE);
    e->room = i64_div_up(max, page) * page;
    e->map = mmap(NULL, (size_t)(e->room + page), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(e->map != MAP_FAILED);
    assert_int_equal(mprotect(e->map + e->room, (size_t)page, PROT_NONE), 0);
}

void container_edge_fini(struct container_edge *e) {
    munmap(e->map, (size_t)(e->room + sysconf(_SC_PAGESIZE)));
}

const uint8_t *container_edge_put(struct container_edge *e, const void *data, int64_t n) {
    assert_true(n <= e->room);
    return memcpy(e->map + e->room - n, data, (size_t)n);
}
