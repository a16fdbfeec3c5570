/* plot_svg.c: curves in a frame with ticks and a legend. */
#include "base/crn_base.h"
#include "cairn/report.h"

#define WIDTH 1040
#define HEIGHT 520
#define LEFT 80
#define TOP 50
#define PLOT_WIDTH 560
#define PLOT_HEIGHT 400
#define FONT "font-family=\"Helvetica, Arial, sans-serif\""

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd",
                                     "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
                                     "#000000", "#aec7e8", "#98df8a"};

#define SHADE "#f0e0e0" /* of a region */

typedef struct frame {
    double x_top, y_top; /* at the right and the upper edge */
} frame;

static double x_of(const frame *f, double x) {
    return LEFT + PLOT_WIDTH * x / f->x_top;
}

static double y_of(const frame *f, double y) {
    return TOP + PLOT_HEIGHT - PLOT_HEIGHT * y / f->y_top;
}

/* A round distance of ticks, at most eight on an axis. */
static double tick_of(double top) {
    double tick = 1e-9;
    static const double factors[] = {2, 2.5, 2};
    for (uint32_t i = 0; top / tick > 8; i++)
        tick *= factors[i % 3];
    return tick;
}

static frame fit(const cairn_curve *curves, uint32_t count) {
    frame f = {0, 0};
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = 0; i < curves[c].count && !curves[c].region; i++) {
            f.x_top = CRN_MAX(f.x_top, curves[c].x[i]);
            f.y_top = CRN_MAX(f.y_top, curves[c].y[i]);
        }
    f.x_top = f.x_top > 0 ? f.x_top * 1.05 : 1;
    f.y_top = f.y_top > 0 ? f.y_top * 1.05 : 1;
    return f;
}

static void write_axes(cairn_text *out, const frame *f, const char *x_label, const char *y_label) {
    double tick = tick_of(f->x_top);
    for (double x = 0; x <= f->x_top; x += tick)
        crn_text_printf(out,
                        "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#e5e5e5\"/>"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" font-size=\"11\" "
                        "fill=\"#555\" " FONT ">%g</text>\n",
                        x_of(f, x), x_of(f, x), TOP, TOP + PLOT_HEIGHT, x_of(f, x),
                        TOP + PLOT_HEIGHT + 18, x);
    tick = tick_of(f->y_top);
    for (double y = 0; y <= f->y_top; y += tick)
        crn_text_printf(out,
                        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e5e5e5\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"11\" "
                        "fill=\"#555\" " FONT ">%g</text>\n",
                        LEFT, LEFT + PLOT_WIDTH, y_of(f, y), y_of(f, y), LEFT - 8, y_of(f, y) + 4,
                        y);
    crn_text_printf(out,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\" " FONT ">",
                    LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 42);
    crn_text_xml(out, x_label);
    crn_text_printf(out,
                    "</text>\n<text x=\"24\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\" "
                    "transform=\"rotate(-90 24 %d)\" " FONT ">",
                    TOP + PLOT_HEIGHT / 2, TOP + PLOT_HEIGHT / 2);
    crn_text_xml(out, y_label);
    crn_text_printf(out, "</text>\n");
}

/* What lies below the curve, and left of its last point. */
static void write_region(cairn_text *out, const frame *f, const cairn_curve *curve) {
    if (curve->count == 0)
        return;
    uint32_t last = curve->count - 1;
    crn_text_printf(out, "<polygon fill=\"%s\" points=\"", SHADE);
    for (uint32_t i = 0; i < curve->count; i++)
        crn_text_printf(out, "%.1f,%.1f ", x_of(f, curve->x[i]),
                        y_of(f, CRN_MIN(curve->y[i], f->y_top)));
    crn_text_printf(out, "%.1f,%d %d,%d %d,%d %.1f,%d\"/>\n", x_of(f, curve->x[last]), TOP, LEFT,
                    TOP, LEFT, TOP + PLOT_HEIGHT, x_of(f, curve->x[0]), TOP + PLOT_HEIGHT);
}

static void write_legend(cairn_text *out, const cairn_curve *curve, const char *color,
                         uint32_t number) {
    int y = TOP + 10 + 20 * (int)number;
    crn_text_printf(out,
                    "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/><text x=\"%d\" y=\"%d\" "
                    "font-size=\"12\" " FONT ">",
                    LEFT + PLOT_WIDTH + 24, y, color, LEFT + PLOT_WIDTH + 36, y + 4);
    crn_text_xml(out, curve->name);
    crn_text_printf(out, "</text>\n");
}

static void write_curve(cairn_text *out, const frame *f, const cairn_curve *curve,
                        uint32_t number) {
    const char *color = colors[number % CRN_LENGTH(colors)];
    if (curve->region) {
        write_legend(out, curve, SHADE, number);
        return;
    }
    if (curve->joined && curve->count > 1) {
        crn_text_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                        color);
        for (uint32_t i = 0; i < curve->count; i++)
            crn_text_printf(out, "%.1f,%.1f ", x_of(f, curve->x[i]), y_of(f, curve->y[i]));
        crn_text_printf(out, "\"/>\n");
    }
    for (uint32_t i = 0; i < curve->count; i++)
        crn_text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n",
                        x_of(f, curve->x[i]), y_of(f, curve->y[i]), curve->joined ? 3 : 5, color);
    write_legend(out, curve, color, number);
}

cairn_status cairn_plot_svg(const cairn_allocator *allocator, const char *title,
                            const char *x_label, const char *y_label, const cairn_curve *curves,
                            uint32_t count, cairn_text *out) {
    frame f = fit(curves, count);
    crn_text_init(out, allocator);
    crn_text_printf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\">\n<rect width=\"100%%\" height=\"100%%\" "
                    "fill=\"white\"/>\n<text x=\"%d\" y=\"28\" font-size=\"15\" " FONT ">",
                    WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    crn_text_xml(out, title);
    crn_text_printf(out, "</text>\n");
    for (uint32_t c = 0; c < count; c++)
        if (curves[c].region)
            write_region(out, &f, &curves[c]);
    write_axes(out, &f, x_label, y_label);
    for (uint32_t c = 0; c < count; c++)
        write_curve(out, &f, &curves[c], c);
    crn_text_printf(out, "</svg>\n");
    return crn_text_finish(out);
}
