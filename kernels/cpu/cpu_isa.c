/* Choice of the instruction set.
 *
 * A variant's file is compiled with its own -m flags (cmake/kernels.cmake) and is entered only when
 * the processor reports every extension those flags allow, and the system saves the registers
 * (which __builtin_cpu_supports takes into account). f16c is asked by CPUID leaf 1, ECX bit 29:
 * every processor with AVX2 that the compiler knows has it, but the flag allows it, so it is asked.
 * src: Intel SDM volume 2A, CPUID. */
#include "kernels/cpu/cpu_isa.h"

#include <cpuid.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

enum { NAMES_MAX = 64 };

static bool has_f16c(void) {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct cpu_kern *cpu_isa_at(int32_t i) {
    const struct cpu_kern *have[4];
    int32_t n = 0;
    if (has_avx512() && __builtin_cpu_supports("avx512vnni")) {
        have[n++] = &cpu_kern_avx512vnni;
    }
    if (has_avx512()) {
        have[n++] = &cpu_kern_avx512;
    }
    if (has_avx2()) {
        have[n++] = &cpu_kern_avx2;
    }
    have[n++] = &cpu_kern_sse2;
    return i >= 0 && i < n ? have[i] : NULL;
}

int cpu_isa_find(const char *name, const struct cpu_kern **out) {
    char names[NAMES_MAX] = "";
    for (int32_t i = 0; cpu_isa_at(i); i++) {
        const struct cpu_kern *kern = cpu_isa_at(i);
        if (!name || str_eq(name, kern->name)) {
            *out = kern;
            return 0;
        }
        size_t len = strlen(names);
        str_copy(names + len, (int64_t)(sizeof(names) - len), i ? ", " : "");
        len = strlen(names);
        str_copy(names + len, (int64_t)(sizeof(names) - len), kern->name);
    }
    return err_set(ERR_UNSUPPORTED, "cpu variant \"%s\", this machine runs %s", name, names);
}
