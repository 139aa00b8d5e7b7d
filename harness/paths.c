#include "harness/paths.h"

#include <stdio.h>
#include <string.h>

#include "build_info.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

static bool set(const char *s) {
    return s && s[0] != '\0';
}

int paths_cache(const struct cli_env *env, char dst[FILE_PATH_MAX]) {
    if (set(env->cache)) {
        return str_copy(dst, FILE_PATH_MAX, env->cache)
                   ? 0
                   : err_set(ERR_LIMIT, "TRILEMMA_CACHE is longer than %d bytes",
                             FILE_PATH_MAX - 1);
    }
    if (set(env->xdg_cache)) {
        return file_join(dst, env->xdg_cache, "trilemma");
    }
    if (!set(env->home)) {
        return err_set(ERR_CONFIG, "no cache folder: TRILEMMA_CACHE, XDG_CACHE_HOME and HOME are "
                                   "all unset");
    }
    return file_join(dst, env->home, ".cache/trilemma");
}

int paths_model(const struct cli_env *env, const char *name, char dst[FILE_PATH_MAX]) {
    char cache[FILE_PATH_MAX];
    if (file_exists(name)) {
        return str_copy(dst, FILE_PATH_MAX, name)
                   ? 0
                   : err_set(ERR_LIMIT, "path of more than %d bytes", FILE_PATH_MAX - 1);
    }
    int rc = paths_cache(env, cache);
    rc = rc ? rc : file_join(dst, cache, name);
    if (rc || file_exists(dst)) {
        return rc;
    }
    return err_set(ERR_NOTFOUND,
                   "%s: no such file or folder, and no fetched model of that name in %s (trilemma "
                   "fetch %s brings it, if a manifest knows it)",
                   name, cache, name);
}

int paths_data(const struct cli_env *env, const char *rel, char dst[FILE_PATH_MAX]) {
    const char *shared = set(env->shared) ? env->shared : "../shared/data";
    if (set(env->data)) {
        int rc = file_join(dst, env->data, rel);
        if (rc || file_exists(dst)) {
            return rc;
        }
    }
    int rc = file_join(dst, shared, rel);
    if (rc || file_exists(dst)) {
        return rc;
    }
    return err_set(ERR_NOTFOUND, "%s: not under TRILEMMA_DATA (%s) nor TRILEMMA_SHARED (%s)", rel,
                   set(env->data) ? env->data : "unset", shared);
}

int paths_share(const struct cli_env *env, const char *rel, char dst[FILE_PATH_MAX]) {
    const char *roots[] = {env->share_dir, BUILD_DATA_DIR, BUILD_SOURCE_DIR};
    for (int32_t i = 0; i < ARRAY_LEN(roots); i++) {
        if (!set(roots[i])) {
            continue;
        }
        int rc = file_join(dst, roots[i], rel);
        if (rc || file_exists(dst)) {
            return rc;
        }
    }
    return err_set(ERR_NOTFOUND, "%s: no such file, here or under %s", rel,
                   set(env->share_dir) ? env->share_dir : BUILD_DATA_DIR);
}
