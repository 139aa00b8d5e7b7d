/* Plots: a whole SVG with its own ids, labels that cannot become commands, a child that fails. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/plot.h"

static const double xs[] = {1, 2, 3};
static const double ys[] = {2, 1, 4};

static struct plot simple(void) {
    struct plot p = {
        .name = "px", .x_label = "time, s", .y_label = "rate", .form = PLOT_LINES, .n_series = 1};
    p.series[0] = (struct plot_series){.label = "base", .n = 3, .x = xs, .y = ys};
    return p;
}

static bool has_gnuplot(void) {
    struct buf b;
    struct plot p = simple();
    buf_init(&b, MEM_TEST, PLOT_SVG_MAX);
    int rc = plot_draw(&p, &b);
    buf_fini(&b);
    return rc != ERR_NOTFOUND;
}

static void test_plot_draw_gives_embeddable_svg(void **state) {
    (void)state;
    struct buf b;
    struct plot p = simple();
    if (!has_gnuplot()) {
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
    buf_init(&b, MEM_TEST, PLOT_SVG_MAX);
    assert_ok(buf_str(&b, "before"));
    assert_ok(plot_draw(&p, &b));
    assert_memory_equal(b.data, "before<svg", 10);
    assert_non_null(strstr(b.data, "id='px-gpPt0'"));
    assert_null(strstr(b.data, "id='gp"));
    assert_null(strstr(b.data, "<?xml"));
    assert_non_null(strstr(b.data, "</svg>"));
    assert_true(b.len < 40000);
    buf_fini(&b);
}

static void test_plot_script_strips_hostile_labels(void **state) {
    (void)state;
    struct buf b;
    struct plot p = simple();
    strncpy(p.series[0].label, "a`id`\"; system('id')\n@x$y\\", PLOT_LABEL_MAX - 1);
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(plot_script(&p, &b));
    assert_non_null(strstr(b.data, "title \"aid; system(id)xy\""));
    assert_null(strchr(b.data, '`'));
    buf_fini(&b);
}

static void test_plot_points_without_bounds_have_no_bars(void **state) {
    (void)state;
    static const double none[] = {(double)NAN, (double)NAN, (double)NAN};
    struct buf b;
    struct plot p = simple();
    p.form = PLOT_POINTS;
    p.series[0].n = 1;
    p.series[0].x_lo = none;
    p.series[0].x_hi = none;
    p.series[0].y_lo = none;
    p.series[0].y_hi = none;
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(plot_script(&p, &b));
    assert_non_null(strstr(b.data, "\n 1 2 1 1 2 2\n"));
    buf_fini(&b);
}

static int draw(void *ctx) {
    struct buf b;
    buf_init(&b, MEM_TEST, PLOT_SVG_MAX);
    int rc = plot_draw(ctx, &b);
    if (rc && b.len != 0) {
        rc = ERR_INTERNAL;
    }
    buf_fini(&b);
    return rc;
}

static void test_plot_draw_when_the_child_cannot_start(void **state) {
    (void)state;
    static const int codes[] = {ERR_IO, ERR_NOTFOUND, ERR_NOMEM, 0};
    struct plot p = simple();
    test_fault_loop(FAULT_SPAWN, draw, &p, codes);
    if (has_gnuplot()) {
        test_fault_loop(FAULT_ALLOC, draw, &p, codes);
    }
}

static void test_plot_draw_when_gnuplot_complains(void **state) {
    (void)state;
    struct buf b;
    struct plot p = simple();
    static const double none[] = {(double)NAN, (double)NAN, (double)NAN};
    if (!has_gnuplot()) {
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
    p.series[0].y = none;
    buf_init(&b, MEM_TEST, PLOT_SVG_MAX);
    int rc = plot_draw(&p, &b);
    assert_true(rc == 0 || rc == ERR_IO);
    buf_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_plot_draw_gives_embeddable_svg),
        TEST(test_plot_script_strips_hostile_labels),
        TEST(test_plot_points_without_bounds_have_no_bars),
        TEST(test_plot_draw_when_the_child_cannot_start),
        TEST(test_plot_draw_when_gnuplot_complains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
