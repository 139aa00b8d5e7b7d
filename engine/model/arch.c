#include "engine/model/arch.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/hfconfig.h"

static const struct arch *const families[] = {&arch_llama,   &arch_qwen3,     &arch_qwen2,
                                              &arch_mistral, &arch_qwen3_moe, &arch_gemma3};

const struct arch *arch_at(int32_t i) {
    return i >= 0 && i < ARRAY_LEN(families) ? families[i] : NULL;
}

static int unknown(const char *where, const char *name) {
    char known[256] = "";
    for (int32_t i = 0; i < ARRAY_LEN(families); i++) {
        size_t n = strlen(known);
        str_copy(known + n, (int64_t)(sizeof known - n), i ? ", " : "");
        n = strlen(known);
        str_copy(known + n, (int64_t)(sizeof known - n), families[i]->family);
    }
    return err_set(ERR_UNSUPPORTED, "%s: architecture \"%s\" is not known; known are %s", where,
                   name, known);
}

static int find_hf(const json_t *config, const char *where, const struct arch **out) {
    const char *name = NULL;
    int rc = json_need_str(config, where, "model_type", &name);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < ARRAY_LEN(families); i++) {
        const char *alias = families[i]->hf_alias;
        if (str_eq(families[i]->family, name) || (alias && str_eq(alias, name))) {
            *out = families[i];
            return 0;
        }
    }
    return unknown(where, name);
}

static int find_gguf(const struct gguf *g, const struct arch **out) {
    struct gguf_str s = {0};
    char name[64];
    int rc = gguf_opt_str(g, "general.architecture", &s);
    if (rc) {
        return rc;
    }
    int64_t n = i64_min(s.len, (int64_t)sizeof name - 1);
    memcpy(name, s.data ? s.data : "", (size_t)n);
    name[n] = '\0';
    for (int32_t i = 0; i < ARRAY_LEN(families); i++) {
        if (families[i]->gguf_name && str_eq(families[i]->gguf_name, name)) {
            *out = families[i];
            return 0;
        }
    }
    return unknown(g->where, name);
}

int arch_find(const struct ckpt *c, const struct arch **out) {
    char where[FILE_PATH_MAX];
    if (c->kind == CKPT_GGUF) {
        return find_gguf(c->gguf, out);
    }
    int rc = file_join(where, c->path, "config.json");
    return rc ? rc : find_hf(c->config, where, out);
}

int arch_read_hf_cfg(const json_t *config, const char *where, struct model_cfg *out) {
    const struct arch *a = NULL;
    struct model_cfg cfg;
    int rc = find_hf(config, where, &a);
    if (rc) {
        return rc;
    }
    model_cfg_init(&cfg);
    str_copy(cfg.family, (int64_t)sizeof cfg.family, a->family);
    json_t *text = a->hf_text ? a->hf_text(config) : NULL;
    if (a->hf_text && !text) {
        return err_set(ERR_NOMEM, "%s: no memory for the text part", where);
    }
    rc = hfconfig_common(text ? text : config, where, &cfg);
    if (!rc) {
        rc = a->from_hf(text ? text : config, where, &cfg);
    }
    json_decref(text);
    if (!rc) {
        rc = model_cfg_check(&cfg, where);
    }
    if (!rc) {
        *out = cfg;
    }
    return rc;
}

int arch_read_cfg(const struct ckpt *c, struct model_cfg *out) {
    const struct arch *a = NULL;
    struct model_cfg cfg;
    char where[FILE_PATH_MAX];
    if (c->kind == CKPT_HF) {
        int rc = file_join(where, c->path, "config.json");
        if (!rc) {
            rc = arch_read_hf_cfg(c->config, where, out);
        }
        return rc ? rc : hfconfig_generation(c->path, out);
    }
    int rc = find_gguf(c->gguf, &a);
    if (rc) {
        return rc;
    }
    model_cfg_init(&cfg);
    str_copy(cfg.family, (int64_t)sizeof cfg.family, a->family);
    rc = ggufconfig_common(c->gguf, a->gguf_name, &cfg);
    if (!rc) {
        rc = a->from_gguf(c->gguf, &cfg);
    }
    if (!rc) {
        rc = model_cfg_check(&cfg, c->path);
    }
    if (!rc) {
        *out = cfg;
    }
    return rc;
}
