#include "harness/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "build_info.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/par.h"

enum { PROC_MAX = 1 << 20 };

/* Value of the first "key : value" line of a file under /proc; "" when there is none. */
static void proc_value(const char *path, const char *key, char dst[128]) {
    struct buf b;
    dst[0] = '\0';
    buf_init(&b, MEM_HARNESS, PROC_MAX);
    if (file_read(path, &b) == 0) {
        const char *p = strstr(buf_cstr(&b), key);
        const char *colon = p ? strchr(p, ':') : NULL;
        const char *end = colon ? strchr(colon, '\n') : NULL;
        if (end) {
            colon++;
            while (*colon == ' ' || *colon == '\t') {
                colon++;
            }
            snprintf(dst, 128, "%.*s", (int)(end - colon), colon);
        }
    }
    buf_fini(&b);
}

json_t *machine_facts(void) {
    char cpu[128];
    char mem[128];
    char mhz[128];
    char cache[128];
    struct utsname u;
    memset(&u, 0, sizeof u);
    uname(&u);
    proc_value("/proc/cpuinfo", "model name", cpu);
    proc_value("/proc/cpuinfo", "cpu MHz", mhz);
    proc_value("/proc/cpuinfo", "cache size", cache);
    proc_value("/proc/meminfo", "MemTotal", mem);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s}", "cpu", cpu, "cores", par_n_cpu(),
                     "cpu_mhz", mhz, "cache", cache, "memory", mem, "kernel", u.release, "machine",
                     u.machine);
}

const char *machine_build(void) {
    return BUILD_VERSION " (" BUILD_COMMIT "), " BUILD_COMPILER ", " BUILD_TYPE ", " BUILD_FLAGS;
}
