/* Runs another program without a shell.
 *
 * 1. The arguments go to the program as they are; no shell sees them.
 * 2. Standard output and standard error are pipes, read in turns, so that neither side waits for
 *    the other; output is counted against a limit.
 * 3. Of standard error the last line that says "error", else the last line, is kept for people.
 * 4. Whatever ends the wait, the child has been reaped when spawn_run returns. */
#include "harness/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/fault.h"
#include "engine/base/str.h"

enum { CHUNK = 65536, POLL_MS = 100, OUT = 0, ERR = 1 };

struct child {
    const struct spawn_opts *o; /* ref */
    pid_t pid;
    int pipe[2]; /* own, read ends of OUT and ERR; -1: closed */
    int64_t n_out;
    char line[SPAWN_TAIL_MAX]; /* of standard error, being read */
    int32_t n_line;
    char *tail;   /* ref, [SPAWN_TAIL_MAX] */
    bool told;    /* tail is a line that says "error" */
    char *chunk;  /* own, [CHUNK] */
    bool drained; /* both pipes have ended */
};

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void end_line(struct child *c) {
    c->line[c->n_line] = '\0';
    bool says = strncasecmp(c->line, "error", 5) == 0;
    if (c->n_line > 0 && (says || !c->told)) {
        str_copy(c->tail, SPAWN_TAIL_MAX, c->line);
        c->told = c->told || says;
    }
    c->n_line = 0;
}

static void take_stderr(struct child *c, const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (p[i] == '\n' || p[i] == '\r') {
            end_line(c);
        } else if (c->n_line < SPAWN_TAIL_MAX - 1) {
            c->line[c->n_line++] = p[i] >= 0x20 && p[i] < 0x7f ? p[i] : '?';
        }
    }
}

static int take_stdout(struct child *c, const char *p, int64_t n) {
    if (!c->o->out) {
        return 0;
    }
    c->n_out += n;
    if (c->n_out > c->o->out_max) {
        return err_set(ERR_LIMIT, "%s wrote more than %lld bytes", c->o->argv[0],
                       (long long)c->o->out_max);
    }
    return filew_write(c->o->out, p, n);
}

static int read_pipe(struct child *c, int which) {
    ssize_t n = read(c->pipe[which], c->chunk, CHUNK);
    if (n < 0 && errno == EINTR) {
        return 0;
    }
    if (n <= 0) {
        close_fd(&c->pipe[which]);
        return 0;
    }
    if (which == ERR) {
        take_stderr(c, c->chunk, n);
        return 0;
    }
    return take_stdout(c, c->chunk, n);
}

/* Reads both pipes once, waiting at most POLL_MS. */
static int pump(struct child *c) {
    struct pollfd fds[2] = {{.fd = c->pipe[OUT], .events = POLLIN},
                            {.fd = c->pipe[ERR], .events = POLLIN}};
    int rc = 0;
    if (c->pipe[OUT] < 0 && c->pipe[ERR] < 0) {
        c->drained = true;
        return 0;
    }
    if (poll(fds, 2, POLL_MS) < 0 && errno != EINTR) {
        return err_set(ERR_IO, "cannot wait for %s: %s", c->o->argv[0], strerror(errno));
    }
    for (int i = 0; i < 2 && !rc; i++) {
        if (fds[i].fd >= 0 && fds[i].revents) {
            rc = read_pipe(c, i);
        }
    }
    return rc;
}

static int make_pipes(int ends[2][2]) {
    for (int i = 0; i < 2; i++) {
        if (pipe2(ends[i], O_CLOEXEC) != 0) {
            return err_set(ERR_IO, "cannot make a pipe: %s", strerror(errno));
        }
    }
    return 0;
}

static int start(struct child *c) {
    int ends[2][2] = {{-1, -1}, {-1, -1}};
    const char *name = c->o->argv[0];
    posix_spawn_file_actions_t fa;
    int e = 0;
    int rc = make_pipes(ends);
    if (!rc) {
        /* why: posix_spawn takes char *const[] for history's sake and changes nothing */
        char *const *argv = (char *const *)(uintptr_t)c->o->argv;
        posix_spawn_file_actions_init(&fa);
        e = posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        e = e ? e : posix_spawn_file_actions_adddup2(&fa, ends[OUT][1], STDOUT_FILENO);
        e = e ? e : posix_spawn_file_actions_adddup2(&fa, ends[ERR][1], STDERR_FILENO);
        e = e ? e : (fault_hit(FAULT_SPAWN) ? EAGAIN : 0);
        e = e ? e : posix_spawnp(&c->pid, name, &fa, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&fa);
    }
    for (int i = 0; i < 2; i++) {
        close_fd(&ends[i][1]);
        c->pipe[i] = ends[i][0];
    }
    if (e) {
        rc =
            err_set(e == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: cannot start: %s", name, strerror(e));
    }
    return rc;
}

/* Reads until the program has closed both pipes or something ends the wait. */
static int follow(struct child *c) {
    int64_t limit = c->o->limit_ns ? c->o->limit_ns : INT64_C(1000000000) * SPAWN_LIMIT_S;
    int64_t end = clock_now_ns() + limit;
    int rc = 0;
    while (!rc && !c->drained) {
        if (c->o->stop && c->o->stop()) {
            return err_set(ERR_CANCELED, "%s: interrupted", c->o->argv[0]);
        }
        if (clock_now_ns() > end) {
            return err_set(ERR_TIMEOUT, "%s: stopped after %lld s", c->o->argv[0],
                           (long long)(limit / 1000000000));
        }
        rc = pump(c);
    }
    end_line(c);
    return rc;
}

static int reap(struct child *c, bool stop_it, int *status) {
    if (stop_it) {
        kill(c->pid, SIGKILL);
    }
    while (waitpid(c->pid, status, 0) < 0) {
        if (errno != EINTR) {
            return err_set(ERR_IO, "cannot wait for %s: %s", c->o->argv[0], strerror(errno));
        }
    }
    return 0;
}

static int judge(const struct child *c, int status) {
    const char *colon = c->tail[0] ? ": " : "";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    if (WIFSIGNALED(status)) {
        return err_set(ERR_IO, "%s ended by signal %d%s%s", c->o->argv[0], WTERMSIG(status), colon,
                       c->tail);
    }
    return err_set(ERR_IO, "%s ended with status %d%s%s", c->o->argv[0], WEXITSTATUS(status), colon,
                   c->tail);
}

int spawn_run(const struct spawn_opts *o, char tail[SPAWN_TAIL_MAX]) {
    struct child c = {.o = o, .pipe = {-1, -1}, .tail = tail};
    int status = 0;
    tail[0] = '\0';
    c.chunk = mem_calloc(MEM_HARNESS, CHUNK);
    if (!c.chunk) {
        return ERR_NOMEM;
    }
    int rc = start(&c);
    if (rc) {
        goto close_pipes;
    }
    rc = follow(&c);
    int rc2 = reap(&c, rc != 0, &status);
    rc = rc ? rc : rc2;
    rc = rc ? rc : judge(&c, status);
close_pipes:
    close_fd(&c.pipe[OUT]);
    close_fd(&c.pipe[ERR]);
    mem_free(c.chunk);
    return rc;
}
