/* Certificates over HTTP targets: openssl's own server with one signed by nobody. LABELS: threads
 */
#include "tests/support/cli.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "engine/base/clock.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];
static pid_t server = -1;
static int32_t port;

static struct sockaddr_in address(int32_t at) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)at),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A port that was free a moment ago. */
static int32_t free_port(void) {
    struct sockaddr_in a = address(0);
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static bool answers(void) {
    const struct sockaddr_in a = address(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = connect(fd, (const struct sockaddr *)(const void *)&a, sizeof a) == 0;
    close(fd);
    return ok;
}

static pid_t start(const char *const *args) {
    posix_spawn_file_actions_t f;
    pid_t pid = -1;
    assert_int_equal(posix_spawn_file_actions_init(&f), 0);
    posix_spawn_file_actions_addchdir_np(&f, dir);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        posix_spawn_file_actions_addopen(&f, fd, "/dev/null", O_RDWR, 0);
    }
    if (posix_spawnp(&pid, args[0], &f, NULL, (char *const *)(uintptr_t)args, environ) != 0) {
        pid = -1;
    }
    posix_spawn_file_actions_destroy(&f);
    return pid;
}

static int make(void **state) {
    static const char *const cert[] = {"openssl",
                                       "req",
                                       "-x509",
                                       "-newkey",
                                       "ec",
                                       "-pkeyopt",
                                       "ec_paramgen_curve:P-256",
                                       "-nodes",
                                       "-keyout",
                                       "key.pem",
                                       "-out",
                                       "cert.pem",
                                       "-days",
                                       "2",
                                       "-subj",
                                       "/CN=test",
                                       "-addext",
                                       "subjectAltName=IP:127.0.0.1",
                                       NULL};
    char text[16];
    int status = -1;
    (void)state;
    test_tmpdir(dir);
    pid_t maker = start(cert);
    if (maker < 0 || waitpid(maker, &status, 0) != maker || status != 0) {
        return 0; /* no openssl: each test says so */
    }
    port = free_port();
    snprintf(text, sizeof text, "%d", port);
    const char *const serve[] = {"openssl",  "s_server", "-accept", text,     "-cert",
                                 "cert.pem", "-key",     "key.pem", "-quiet", NULL};
    server = start(serve);
    int64_t until = clock_now_ns() + 10000000000;
    while (!answers() && clock_now_ns() < until) {
        clock_sleep_until(clock_now_ns() + 5000000);
    }
    return 0;
}

static int unmake(void **state) {
    (void)state;
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    test_rmdir(dir);
    return 0;
}

/* Class of the only request of a run, and whether a handshake was measured. */
static void ask(const char *host, const char *more, char error_class[32], bool *has_tls) {
    struct cli_result r;
    char text[640];
    char path[FILE_PATH_MAX];
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    snprintf(text, sizeof text,
             "scenario: t\ntargets: {a: {http: {url: \"https://%s:%d/v1\", model: m, timeout: 2s%s"
             "}}}\nworkload: {synthetic: {input: {fixed: 4}, output: {fixed: 2}}}\n"
             "arrival: {burst: {requests: 1}}\n",
             host, port, more);
    tiny_file(dir, "tls.yaml", text);
    assert_ok(file_join(path, dir, "tls.db"));
    remove(path);
    cli_line(dir, 0, &r, "run tls.yaml --db tls.db");
    cli_fini(&r);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT error_class, tls_ns > 0 FROM request JOIN "
                                        "request_http USING (run_id, seq)",
                                        -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    snprintf(error_class, 32, "%s", (const char *)sqlite3_column_text(q, 0));
    *has_tls = sqlite3_column_int(q, 1) == 1;
    sqlite3_finalize(q);
    sqlite3_close(db);
}

static void test_http_tls_is_verified(void **state) {
    char error_class[32];
    bool has_tls = false;
    (void)state;
    if (server < 0) {
        print_message("no openssl program on this machine\n");
        skip();
    }
    ask("127.0.0.1", "", error_class, &has_tls);
    assert_string_equal(error_class, "tls"); /* signed by nobody we trust */
    assert_false(has_tls);
    ask("localhost", ", ca_file: cert.pem", error_class, &has_tls);
    assert_string_equal(error_class, "tls"); /* trusted, for another name */
    ask("127.0.0.1", ", ca_file: cert.pem", error_class, &has_tls);
    assert_string_not_equal(error_class, "tls"); /* trusted; this server gives no answer */
    assert_true(has_tls);
}

static void test_http_tls_bad_ca_file(void **state) {
    (void)state;
    char text[400];
    tiny_file(dir, "no.pem", "hello\n");
    snprintf(
        text, sizeof text,
        "scenario: t\ntargets: {a: {http: {url: \"https://127.0.0.1:9/v1\", model: m, ca_file: "
        "none.pem}}}\nworkload: {synthetic: {input: {fixed: 4}, output: {fixed: 2}}}\n"
        "arrival: {burst: {requests: 1}}\n");
    tiny_file(dir, "ca.yaml", text);
    cli_says(dir, 3, "target \"a\": ca_file none.pem: no such file", "run ca.yaml --db ca.db");
    if (server > 0) {
        char error_class[32];
        bool has_tls = false;
        ask("127.0.0.1", ", ca_file: no.pem", error_class, &has_tls);
        assert_string_equal(error_class, "tls");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_http_tls_is_verified),
                                       TEST(test_http_tls_bad_ca_file)};
    return cmocka_run_group_tests(tests, make, unmake);
}
