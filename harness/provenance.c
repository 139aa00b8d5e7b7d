#include "harness/provenance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build_info.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/machine.h"

#define PROVENANCE_FILE "trilemma.json"

void provenance_read(const char *path, char dst[PROVENANCE_MAX]) {
    char dir[FILE_PATH_MAX];
    char file[FILE_PATH_MAX];
    const char *source = "";
    json_t *o = NULL;
    dst[0] = '\0';
    str_copy(dir, FILE_PATH_MAX, path);
    if (!file_is_dir(dir)) {
        char *slash = strrchr(dir, '/');
        if (slash) {
            *slash = '\0';
        } else {
            str_copy(dir, FILE_PATH_MAX, ".");
        }
    }
    if (file_join(file, dir, PROVENANCE_FILE) || !file_exists(file) || json_read(file, &o)) {
        return;
    }
    if (json_opt_str(o, file, "source", &source) == 0) {
        str_copy(dst, PROVENANCE_MAX, source);
    }
    json_decref(o);
}

int provenance_write(const char *dir, const char *source) {
    char file[FILE_PATH_MAX];
    int rc = file_join(file, dir, PROVENANCE_FILE);
    json_t *o = rc ? NULL : json_pack("{s:s}", "source", source);
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    if (!rc && !text) {
        rc = err_set(ERR_NOMEM, "%s: cannot format", file);
    }
    rc = rc ? rc : file_write(file, text, (int64_t)strlen(text));
    free(text); /* why: memory of jansson, not of mem_* */
    json_decref(o);
    return rc;
}

int provenance_session(struct store *s,
                       const char *kind,
                       const char *scenario_name,
                       const char *scenario_text,
                       int64_t seed,
                       double usd,
                       int64_t *session_id) {
    json_t *facts = machine_facts();
    char *host = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
    struct store_session ss = {.kind = kind,
                               .scenario_name = scenario_name,
                               .scenario_text = scenario_text,
                               .seed = seed,
                               .machine_usd_per_hour = usd,
                               .start_wall_ns = clock_wall_ns(),
                               .git_commit = BUILD_COMMIT,
                               .build = machine_build(),
                               .host_json = host};
    int rc = store_session_begin(s, &ss, session_id);
    const char *key = NULL;
    json_t *v = NULL;
    json_object_foreach(facts, key, v) {
        char number[32];
        str_copy(number, (int64_t)sizeof number, "");
        if (json_is_integer(v)) {
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        }
        rc =
            rc ? rc
               : store_fact(s, *session_id, key, json_is_string(v) ? json_string_value(v) : number);
    }
    free(host); /* why: memory of jansson, not of mem_* */
    json_decref(facts);
    return rc;
}

int provenance_end(struct store *s, int64_t session_id, bool aborted, int rc) {
    char why[1024]; /* the first failure is the one to tell, whatever the second says */
    int rc2 = 0;
    str_copy(why, (int64_t)sizeof why, err_msg());
    if (s && session_id > 0) {
        rc2 = store_session_end(s, session_id, aborted ? "aborted" : "done", clock_wall_ns());
    }
    int rc3 = store_close(s);
    if (rc) {
        return err_set(rc, "%s", why);
    }
    return rc2 ? rc2 : rc3;
}

int provenance_checkpoint(struct store *s, const struct model *m, const char *path, int64_t *id) {
    char sha[FILE_SHA256_HEX];
    char source[PROVENANCE_MAX];
    const struct weights *w = m->weights;
    int rc = ckpt_sha256(m->ckpt, sha);
    provenance_read(path, source);
    struct store_checkpoint c = {.path = path,
                                 .format = m->ckpt->gguf ? "gguf" : "safetensors",
                                 .scheme = w->scheme,
                                 .sha256 = sha,
                                 .n_params = w->n_param,
                                 .disk_bytes = m->ckpt->file_bytes,
                                 .weight_bytes = w->bytes,
                                 .bits_per_weight = 8.0 * (double)w->bytes / (double)w->n_param,
                                 .kv_bytes_per_token =
                                     model_cfg_kv_bytes_per_token(&w->cfg, DTYPE_F32),
                                 .source = source[0] ? source : NULL};
    return rc ? rc : store_checkpoint(s, &c, id);
}
