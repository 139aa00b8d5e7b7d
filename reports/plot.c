/* struct plot -> script -> child -> SVG -> embeddable SVG.
 *
 * The child's standard input is one end of a socket pair, so that a child that dies early is an
 * error here and no SIGPIPE. Input and output are served by one poll loop, since gnuplot may write
 * before it has read all.
 *
 * Ids: gnuplot uses the same ids in every SVG (gpPt0, gnuplot_canvas, ...); each id and each
 * reference gets the plot's name in front. */
#include "reports/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/fault.h"

enum { SCRIPT_MAX = 1 << 22, SAID_MAX = 1 << 14, CHUNK = 1 << 16 };

static const char style_gp[] = {
#include "style.gp.inc"
    0};

static const char *const palette[] = {"#2186cc", "#d9601a", "#0f9f77", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"};

static const char *const dashes[] = {"1", "(8,4)", "(2,3)", "(10,3,2,3)", "(4,2)", "(14,4)"};

/* A label as plain text between quotes: everything that gnuplot could read as more is dropped. */
static int add_label(struct buf *b, const char *s) {
    int rc = buf_str(b, "\"");
    for (const char *c = s; *c && !rc; c++) {
        bool plain = (unsigned char)*c >= 0x20 && *c != 0x7f && !strchr("\"'`\\$@", *c);
        rc = plain ? buf_add(b, c, 1) : 0;
    }
    return rc ? rc : buf_str(b, "\"");
}

static int add_number(struct buf *b, double v) {
    return isfinite(v) ? buf_fmt(b, " %.8g", v) : buf_str(b, " NaN");
}

/* Bars need both bounds: where one is unknown the bar has no length. */
static int add_row(struct buf *b, const struct plot_series *s, int32_t i) {
    int rc = add_number(b, s->x[i]);
    rc = rc ? rc : add_number(b, s->y[i]);
    if (!rc && s->x_lo) {
        const double v[] = {s->x_lo[i], s->x_hi[i], s->y_lo[i], s->y_hi[i]};
        for (int32_t k = 0; k < 4 && !rc; k++) {
            rc = add_number(b, isfinite(v[k]) ? v[k] : (k < 2 ? s->x[i] : s->y[i]));
        }
    }
    return rc ? rc : buf_str(b, "\n");
}

static int add_data(struct buf *b, const struct plot *p) {
    int rc = 0;
    for (int32_t k = 0; k < p->n_series && !rc; k++) {
        rc = buf_fmt(b, "$d%d << EOD\n", k);
        for (int32_t i = 0; i < p->series[k].n && !rc; i++) {
            rc = add_row(b, &p->series[k], i);
        }
        rc = rc ? rc : buf_str(b, "EOD\n");
    }
    return rc;
}

static int add_command(struct buf *b, const struct plot *p) {
    int rc = buf_str(b, "plot ");
    for (int32_t k = 0; k < p->n_series && !rc; k++) {
        const struct plot_series *s = &p->series[k];
        const char *colour = palette[(uint32_t)s->colour % (uint32_t)ARRAY_LEN(palette)];
        const char *dash = dashes[(uint32_t)s->dash % (uint32_t)ARRAY_LEN(dashes)];
        const char *with = p->form == PLOT_STEPS ? "steps" : "lines";
        if (p->form == PLOT_POINTS) {
            rc = buf_fmt(b, "%s$d%d using 1:2:3:4:5:6 with xyerrorbars pt %d ps 1.1 lw 1.6",
                         k ? ", " : "", k, 5 + 2 * (s->dash % 4));
        } else {
            rc = buf_fmt(b, "%s$d%d using 1:2 with %s lw 2 dt %s", k ? ", " : "", k, with, dash);
        }
        rc = rc ? rc : buf_fmt(b, " lc rgb \"%s\" title ", colour);
        rc = rc ? rc : add_label(b, s->label);
    }
    return rc ? rc : buf_str(b, "\n");
}

int plot_script(const struct plot *p, struct buf *b) {
    int rc = buf_fmt(b, "set terminal svg size %s dynamic font \"sans-serif,13\" noenhanced\n%s",
                     p->is_wide ? "1090,330" : "540,360", style_gp);
    rc = rc ? rc : buf_str(b, "set xlabel ");
    rc = rc ? rc : add_label(b, p->x_label);
    rc = rc ? rc : buf_str(b, "\nset ylabel ");
    rc = rc ? rc : add_label(b, p->y_label);
    rc = rc ? rc
            : buf_fmt(b, "\n%s%s", p->x_log ? "set logscale x\n" : "",
                      p->from_zero ? "set yrange [0:*]\n" : "");
    if (!rc && p->form == PLOT_POINTS) {
        rc = buf_str(b, "set offsets graph 0.08, graph 0.08, graph 0.08, graph 0.08\n");
    }
    rc = rc ? rc : add_data(b, p);
    return rc ? rc : add_command(b, p);
}

struct child {
    pid_t pid;
    int in;  /* our end of its standard input */
    int out; /* of its standard output */
    int err;
};

static void shut(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static int spawn(struct child *c) {
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    char *const argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    extern char **environ;
    posix_spawn_file_actions_t actions;
    int code = fault_hit(FAULT_SPAWN) ? EAGAIN : posix_spawn_file_actions_init(&actions);
    if (code) {
        return err_set(ERR_IO, "gnuplot cannot be started: %s", strerror(code));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) || pipe2(out, O_CLOEXEC) ||
        pipe2(err, O_CLOEXEC)) {
        code = errno;
    }
    code = code ? code : posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
    code = code ? code : posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    code = code ? code : posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    code = code ? code : posix_spawnp(&c->pid, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    shut(&in[1]);
    shut(&out[1]);
    shut(&err[1]);
    if (code) {
        shut(&in[0]);
        shut(&out[0]);
        shut(&err[0]);
        return code == ENOENT
                   ? err_set(ERR_NOTFOUND, "gnuplot is not installed (Debian package gnuplot-nox)")
                   : err_set(ERR_IO, "gnuplot cannot be started: %s", strerror(code));
    }
    c->in = in[0];
    c->out = out[0];
    c->err = err[0];
    return 0;
}

/* Moves what can be read from fd into b; closes fd at its end. Past SAID_MAX messages are dropped.
 */
static int drain(int *fd, struct buf *b, bool may_drop) {
    char chunk[CHUNK];
    ssize_t n = read(*fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) {
        return 0;
    }
    if (n <= 0) {
        shut(fd);
        return 0;
    }
    int rc = buf_add(b, chunk, n);
    return rc && may_drop ? 0 : rc;
}

static int feed(int *fd, const struct buf *script, int64_t *sent) {
    ssize_t n =
        send(*fd, script->data + *sent, (size_t)(script->len - *sent), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        return err_set(ERR_IO, "gnuplot stopped reading: %s", strerror(errno));
    }
    *sent += n > 0 ? n : 0;
    if (*sent == script->len) {
        shut(fd);
    }
    return 0;
}

static int serve(struct child *c, const struct buf *script, struct buf *svg, struct buf *said) {
    int64_t sent = 0;
    int64_t until = clock_now_ns() + PLOT_TIMEOUT_S * INT64_C(1000000000);
    int rc = 0;
    while (!rc && (c->out >= 0 || c->err >= 0)) {
        struct pollfd fds[] = {{.fd = c->in, .events = POLLOUT},
                               {.fd = c->out, .events = POLLIN},
                               {.fd = c->err, .events = POLLIN}};
        int64_t left_ms = (until - clock_now_ns()) / 1000000;
        if (left_ms <= 0) {
            return err_set(ERR_IO, "gnuplot took longer than %d s", (int)PLOT_TIMEOUT_S);
        }
        if (poll(fds, 3, (int)left_ms) < 0 && errno != EINTR) {
            return err_set(ERR_IO, "gnuplot: poll: %s", strerror(errno));
        }
        rc = fds[0].revents ? feed(&c->in, script, &sent) : 0;
        rc = !rc && fds[1].revents ? drain(&c->out, svg, false) : rc;
        rc = !rc && fds[2].revents ? drain(&c->err, said, true) : rc;
    }
    return rc;
}

/* Runs the child to its end, whatever happens; it never outlives this call. */
static int run_child(const struct buf *script, struct buf *svg, struct buf *said) {
    struct child c;
    int status = 0;
    int rc = spawn(&c);
    if (rc) {
        return rc;
    }
    rc = serve(&c, script, svg, said);
    shut(&c.in);
    shut(&c.out);
    shut(&c.err);
    if (rc) {
        kill(c.pid, SIGKILL);
    }
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!rc && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !strstr(buf_cstr(svg), "<svg"))) {
        rc = err_set(ERR_IO, "gnuplot failed: %.200s", buf_cstr(said));
    }
    return rc;
}

/* Copies the SVG with the plot's name before each id, black as the text colour, no prologue. */
static int embed(const char *raw, const char *name, struct buf *svg) {
    static const struct {
        const char *from;
        const char *to; /* %s: the name */
    } rules[] = {{" id='", " id='%s-"},
                 {" id=\"", " id=\"%s-"},
                 {"href='#", "href='#%s-"},
                 {"href=\"#", "href=\"#%s-"},
                 {"url(#", "url(#%s-"},
                 {"=\"black\"", "=\"currentColor\""},
                 {"='black'", "='currentColor'"},
                 {"<title>Gnuplot</title>", ""},
                 {"\t", ""}};
    const char *c = strstr(raw, "<svg");
    const char *end = strstr(raw, "</svg>");
    int rc = c && end ? 0 : err_set(ERR_IO, "gnuplot wrote no whole SVG");
    while (!rc && c < end) {
        int32_t hit = -1;
        for (int32_t k = 0; k < ARRAY_LEN(rules) && hit < 0; k++) {
            hit = strncmp(c, rules[k].from, strlen(rules[k].from)) == 0 ? k : -1;
        }
        if (hit < 0) {
            rc = buf_add(svg, c++, 1);
            continue;
        }
        const char *mark = strstr(rules[hit].to, "%s");
        int64_t before = mark ? mark - rules[hit].to : (int64_t)strlen(rules[hit].to);
        rc = buf_add(svg, rules[hit].to, before);
        rc = rc || !mark ? rc : buf_str(svg, name);
        rc = rc || !mark ? rc : buf_str(svg, mark + 2);
        c += strlen(rules[hit].from);
    }
    return rc ? rc : buf_str(svg, "</svg>\n");
}

int plot_draw(const struct plot *p, struct buf *svg) {
    struct buf script;
    struct buf raw;
    struct buf said;
    buf_init(&script, MEM_REPORT, SCRIPT_MAX);
    buf_init(&raw, MEM_REPORT, PLOT_SVG_MAX);
    buf_init(&said, MEM_REPORT, SAID_MAX);
    int64_t before = svg->len;
    int rc = plot_script(p, &script);
    rc = rc ? rc : run_child(&script, &raw, &said);
    rc = rc ? rc : embed(buf_cstr(&raw), p->name, svg);
    if (rc && svg->len > before) {
        svg->len = before;
        svg->data[before] = '\0';
    }
    buf_fini(&script);
    buf_fini(&raw);
    buf_fini(&said);
    return rc;
}
