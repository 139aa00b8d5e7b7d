/* The child's output is read through pipes (or a terminal) with one poll loop, and the loop waits
 * for the end of the output, so that nothing here sleeps. */
#include "tests/support/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"

struct child {
    pid_t pid;
    int out; /* our end; -1: not captured, or at its end */
    int err;
    int watch; /* inotify; -1: none */
};

static void set_env(const char *const *env) {
    for (; env && *env; env++) {
        const char *eq = strchr(*env, '=');
        char name[128];
        if (eq && (size_t)(eq - *env) < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)(eq - *env), *env);
            setenv(name, eq + 1, 1);
        }
    }
}

static void set_limits(const struct cli_opts *o) {
    if (o->file_bytes_max > 0) {
        struct rlimit l = {.rlim_cur = (rlim_t)o->file_bytes_max,
                           .rlim_max = (rlim_t)o->file_bytes_max};
        setrlimit(RLIMIT_FSIZE, &l);
        signal(SIGXFSZ, SIG_IGN);
    }
}

/* In the child; never returns. */
static void become(const struct cli_opts *o, const char *const *args, int out, int err) {
    const char *bin = getenv("TRILEMMA_BIN");
    char name[] = "trilemma";
    char *argv[CLI_WORDS_MAX + 2] = {name};
    for (int32_t i = 0; i < CLI_WORDS_MAX && args[i]; i++) {
        argv[i + 1] = (char *)(uintptr_t)args[i]; /* execv does not write */
    }
    int to = o->out_path ? open(o->out_path, O_WRONLY | O_CREAT, 0644) : out;
    dup2(to, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (o->out_closed) {
        close(STDOUT_FILENO);
    }
    if (o->cwd && chdir(o->cwd) != 0) {
        _exit(126);
    }
    set_env(o->env);
    set_limits(o);
    execv(bin ? bin : "build/release/trilemma", argv);
    _exit(127);
}

/* A terminal. out: *master ours, *slave the child's */
static void open_tty(int *master, int *slave) {
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(*master >= 0);
    assert_int_equal(grantpt(*master), 0);
    assert_int_equal(unlockpt(*master), 0);
    *slave = open(ptsname(*master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(*slave >= 0);
}

static void start(const struct cli_opts *o, const char *const *args, struct child *c) {
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    if (o->err_tty) {
        open_tty(&err[0], &err[1]);
    } else {
        assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    }
    *c = (struct child){.out = out[0], .err = err[0], .watch = -1};
    if (o->watch) {
        c->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        assert_true(inotify_add_watch(c->watch, o->watch, IN_MODIFY | IN_CREATE) >= 0);
    }
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        become(o, args, out[1], err[1]);
    }
    close(out[1]);
    close(err[1]);
}

/* Moves what is there into b; closes fd at its end (a terminal ends with EIO). */
static void take(int *fd, struct buf *b) {
    char chunk[1 << 16];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n > 0) {
        assert_ok(buf_add(b, chunk, n));
    } else if (n == 0 || errno != EINTR) {
        close(*fd);
        *fd = -1;
    }
}

static void serve(const struct cli_opts *o, struct child *c, struct cli_result *r) {
    int64_t until = clock_now_ns() + CLI_TIMEOUT_MS * INT64_C(1000000);
    bool sent = o->signal == 0;
    while (c->out >= 0 || c->err >= 0) {
        struct pollfd fds[] = {{.fd = c->out, .events = POLLIN},
                               {.fd = c->err, .events = POLLIN},
                               {.fd = c->watch, .events = POLLIN}};
        int64_t left_ms = (until - clock_now_ns()) / 1000000;
        if (left_ms <= 0) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, NULL, 0);
            fail_msg("the program takes longer than %d ms; it said \"%s\"", (int)CLI_TIMEOUT_MS,
                     buf_cstr(&r->err));
        }
        poll(fds, 3, (int)left_ms);
        if (fds[0].revents) {
            take(&c->out, &r->out);
        }
        if (fds[1].revents) {
            take(&c->err, &r->err);
        }
        if (fds[2].revents) {
            char events[1 << 12];
            while (read(c->watch, events, sizeof events) > 0) {
            }
        }
        if (!sent && o->when(o->ctx, buf_cstr(&r->out), buf_cstr(&r->err))) {
            kill(c->pid, o->signal);
            sent = true;
        }
    }
}

void cli_run(const struct cli_opts *o, const char *const *args, struct cli_result *r) {
    static const struct cli_opts none;
    struct child c;
    int status = 0;
    buf_init(&r->out, MEM_TEST, CLI_OUTPUT_MAX);
    buf_init(&r->err, MEM_TEST, CLI_OUTPUT_MAX);
    o = o ? o : &none;
    start(o, args, &c);
    serve(o, &c, r);
    if (c.watch >= 0) {
        close(c.watch);
    }
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) {
    }
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void cli_fini(struct cli_result *r) {
    buf_fini(&r->out);
    buf_fini(&r->err);
}

/* Cuts a line at its blanks. */
static void split(char *line, const char *words[CLI_WORDS_MAX + 1]) {
    int32_t n = 0;
    char *p = line;
    for (p += strspn(p, " "); *p && n < CLI_WORDS_MAX; p += strspn(p, " ")) {
        words[n++] = p;
        p += strcspn(p, " ");
        if (*p) {
            *p++ = '\0';
        }
    }
    words[n] = NULL;
}

static void run_line(const char *cwd, int code, struct cli_result *r, const char *line) {
    char copy[FILE_PATH_MAX];
    const char *words[CLI_WORDS_MAX + 1];
    struct cli_opts o = {.cwd = cwd};
    snprintf(copy, sizeof copy, "%s", line);
    split(copy, words);
    cli_run(&o, words, r);
    if (r->code != code) {
        fail_msg("trilemma %s: exit code %d, want %d; it said \"%s\"", line, r->code, code,
                 buf_cstr(&r->err));
    }
}

void cli_line(const char *cwd, int code, struct cli_result *r, const char *fmt, ...) {
    char line[FILE_PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    run_line(cwd, code, r, line);
}

void cli_check_error(const struct cli_result *r, const char *part) {
    const char *text = buf_cstr(&r->err);
    const char *nl = strchr(text, '\n');
    bool one_line = nl && nl[1] == '\0' && strncmp(text, "trilemma", 8) == 0;
    if (!one_line || !strstr(text, part)) {
        fail_msg("it said \"%s\", want one line \"trilemma ...: ...\" with \"%s\"", text, part);
    }
}

void cli_says(const char *cwd, int code, const char *part, const char *fmt, ...) {
    char line[FILE_PATH_MAX];
    struct cli_result r;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    run_line(cwd, code, &r, line);
    if (part) {
        cli_check_error(&r, part);
    }
    cli_fini(&r);
}
