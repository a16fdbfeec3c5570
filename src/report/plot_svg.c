/* plot_svg.c: curves in a frame with ticks and a legend. The picture is as wide as the legend
 * needs. Curves that are equal are drawn once and share a line of the legend, with all their names.
 * Marks differ in shape as well as in colour. */
#include "base/crn_base.h"
#include "cairn/report.h"
#include "report/palette.h"

#define LEFT 80
#define TOP 50
#define BOTTOM 70
#define PLOT_WIDTH 600
#define PLOT_HEIGHT 400
#define LEGEND (LEFT + PLOT_WIDTH + 44) /* where its text begins */
#define LINE 18                         /* from one line of the legend to the next */

static const char *const colors[] = {CRN_BLUE,   CRN_VERMILLION, CRN_GREEN, CRN_YELLOW,
                                     CRN_PURPLE, CRN_SKY,        CRN_BLACK};

typedef struct frame {
    double x_top, y_top; /* at the right and the upper edge */
    uint32_t width, height;
} frame;

static double x_of(const frame *f, double x) {
    return LEFT + PLOT_WIDTH * x / f->x_top;
}

static double y_of(const frame *f, double y) {
    return TOP + PLOT_HEIGHT - PLOT_HEIGHT * y / f->y_top;
}

/* A round distance between ticks, such that an axis has at most eight. */
static double tick_of(double top) {
    double tick = 1e-9;
    static const double factors[] = {2, 2.5, 2};
    for (uint32_t i = 0; top / tick > 8; i++)
        tick *= factors[i % 3];
    return tick;
}

/* ---- Equal curves ---- */

static bool same(const cairn_curve *a, const cairn_curve *b) {
    bool equal = a->count == b->count && a->joined == b->joined && a->shaded == b->shaded;
    for (uint32_t i = 0; i < a->count && equal; i++)
        equal = !(a->x[i] < b->x[i] || a->x[i] > b->x[i] || a->y[i] < b->y[i] || a->y[i] > b->y[i]);
    return equal;
}

/* The first curve that is equal to curve `c`, which may be `c` itself. Curves without a point are
 * equal to no other. */
static uint32_t first_same(const cairn_curve *curves, uint32_t c) {
    for (uint32_t k = 0; k < c; k++)
        if (curves[c].count > 0 && same(&curves[k], &curves[c]))
            return k;
    return c;
}

/* ---- Sizes ---- */

static size_t note_length(const cairn_curve *curve) {
    return curve->note != NULL ? strlen(curve->note) : 0;
}

/* The length of the names of curve `c` and its equals: "chen = revolve". */
static size_t names_length(const cairn_curve *curves, uint32_t count, uint32_t c) {
    size_t length = strlen(curves[c].name);
    for (uint32_t k = c + 1; k < count; k++)
        if (first_same(curves, k) == c)
            length += 3 + strlen(curves[k].name);
    return length;
}

static frame fit(const char *title, const cairn_curve *curves, uint32_t count) {
    frame f = {0, 0, 0, TOP + PLOT_HEIGHT + BOTTOM};
    uint32_t text = 0, lines = 0;
    for (uint32_t c = 0; c < count; c++) {
        for (uint32_t i = 0; i < curves[c].count; i++) {
            f.x_top = CRN_MAX(f.x_top, curves[c].x[i]);
            f.y_top = CRN_MAX(f.y_top, curves[c].y[i]);
        }
        if (first_same(curves, c) == c) {
            text = CRN_MAX(text, crn_text_width(names_length(curves, count, c), 12));
            lines++;
        }
        text = CRN_MAX(text, crn_text_width(note_length(&curves[c]), 11));
        lines += note_length(&curves[c]) > 0;
    }
    f.x_top = f.x_top > 0 ? f.x_top * 1.05 : 1;
    f.y_top = f.y_top > 0 ? f.y_top * 1.05 : 1;
    f.width = CRN_MAX(LEGEND + text, LEFT + crn_text_width(strlen(title), 15)) + 16;
    f.height = CRN_MAX(f.height, TOP + LINE * lines + 20);
    return f;
}

/* ---- Drawing ---- */

static void write_axes(cairn_text *out, const frame *f, const char *x_label, const char *y_label) {
    double tick = tick_of(f->x_top);
    for (double x = 0; x <= f->x_top; x += tick)
        crn_text_printf(out,
                        "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#e5e5e5\"/>"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" font-size=\"11\" "
                        "fill=\"#555\" " CRN_FONT ">%g</text>\n",
                        x_of(f, x), x_of(f, x), TOP, TOP + PLOT_HEIGHT, x_of(f, x),
                        TOP + PLOT_HEIGHT + 18, x);
    tick = tick_of(f->y_top);
    for (double y = 0; y <= f->y_top; y += tick)
        crn_text_printf(out,
                        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e5e5e5\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"11\" "
                        "fill=\"#555\" " CRN_FONT ">%g</text>\n",
                        LEFT, LEFT + PLOT_WIDTH, y_of(f, y), y_of(f, y), LEFT - 8, y_of(f, y) + 4,
                        y);
    crn_text_printf(out,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\" " CRN_FONT ">",
                    LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 42);
    crn_text_xml(out, x_label);
    crn_text_printf(out,
                    "</text>\n<text x=\"24\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\" "
                    "transform=\"rotate(-90 24 %d)\" " CRN_FONT ">",
                    TOP + PLOT_HEIGHT / 2, TOP + PLOT_HEIGHT / 2);
    crn_text_xml(out, y_label);
    crn_text_printf(out, "</text>\n");
}

/* A mark around (x, y). The number of the curve chooses a circle, a square, a triangle or a
 * diamond. */
static void write_mark(cairn_text *out, double x, double y, double r, uint32_t number,
                       const char *color) {
    static const double corners[][4][2] = {
        {{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}},
        {{0, -1.2}, {1.1, .9}, {-1.1, .9}, {-1.1, .9}},
        {{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}},
        {{0, 1.2}, {1.1, -.9}, {-1.1, -.9}, {-1.1, -.9}},
    };
    uint32_t shape = number % (CRN_LENGTH(corners) + 1);
    if (shape == 0) {
        crn_text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>", x, y, r,
                        color);
        return;
    }
    crn_text_printf(out, "<polygon fill=\"%s\" points=\"", color);
    for (uint32_t i = 0; i < 4; i++)
        crn_text_printf(out, "%s%.1f,%.1f", i > 0 ? " " : "", x + r * corners[shape - 1][i][0],
                        y + r * corners[shape - 1][i][1]);
    crn_text_printf(out, "\"/>");
}

/* Fill the area left of and below a falling staircase through the points, which are ordered by
 * x. */
static void write_shade(cairn_text *out, const frame *f, const cairn_curve *curve) {
    crn_text_printf(out,
                    "<path fill=\"" CRN_VERMILLION "\" fill-opacity=\"0.15\" d=\"M%.1f %.1fH%.1f",
                    x_of(f, 0), y_of(f, 0), x_of(f, curve->x[curve->count - 1]));
    for (uint32_t i = curve->count; i-- > 0;)
        crn_text_printf(out, "H%.1fV%.1f", x_of(f, curve->x[i]), y_of(f, curve->y[i]));
    crn_text_printf(out, "H%.1fZ\"/>\n", x_of(f, 0));
}

static void write_curve(cairn_text *out, const frame *f, const cairn_curve *curve,
                        uint32_t number) {
    const char *color = colors[number % CRN_LENGTH(colors)];
    if (curve->joined && curve->count > 1) {
        crn_text_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                        color);
        for (uint32_t i = 0; i < curve->count; i++)
            crn_text_printf(out, "%.1f,%.1f ", x_of(f, curve->x[i]), y_of(f, curve->y[i]));
        crn_text_printf(out, "\"/>\n");
    }
    for (uint32_t i = 0; i < curve->count; i++) {
        write_mark(out, x_of(f, curve->x[i]), y_of(f, curve->y[i]), curve->joined ? 3.5 : 5, number,
                   color);
        crn_text_printf(out, "\n");
    }
}

static void write_note(cairn_text *out, const char *note, uint32_t y) {
    crn_text_printf(out, "<text x=\"%d\" y=\"%u\" font-size=\"11\" fill=\"#555\" " CRN_FONT ">",
                    LEGEND, y);
    crn_text_xml(out, note);
    crn_text_printf(out, "</text>\n");
}

/* The lines of the legend for curve `c` and its equals, from `y` on. */
static uint32_t write_legend(cairn_text *out, const cairn_curve *curves, uint32_t count, uint32_t c,
                             uint32_t number, uint32_t y) {
    if (curves[c].shaded)
        crn_text_printf(out,
                        "<rect x=\"%d\" y=\"%u\" width=\"14\" height=\"10\" fill=\"" CRN_VERMILLION
                        "\" fill-opacity=\"0.15\"/>",
                        LEGEND - 21, y - 5);
    else
        write_mark(out, LEGEND - 14, y, 5, number, colors[number % CRN_LENGTH(colors)]);
    crn_text_printf(out, "<text x=\"%d\" y=\"%u\" font-size=\"12\" " CRN_FONT ">", LEGEND, y + 4);
    crn_text_xml(out, curves[c].name);
    for (uint32_t k = c + 1; k < count; k++)
        if (first_same(curves, k) == c) {
            crn_text_printf(out, " = ");
            crn_text_xml(out, curves[k].name);
        }
    crn_text_printf(out, "</text>\n");
    y += LINE;
    for (uint32_t k = c; k < count; k++)
        if (first_same(curves, k) == c && note_length(&curves[k]) > 0) {
            write_note(out, curves[k].note, y + 2);
            y += LINE;
        }
    return y;
}

cairn_status cairn_plot_svg(const cairn_allocator *allocator, const char *title,
                            const char *x_label, const char *y_label, const cairn_curve *curves,
                            uint32_t count, cairn_text *out) {
    frame f = fit(title, curves, count);
    uint32_t number = 0, y = TOP + 10;
    crn_text_init(out, allocator);
    crn_text_printf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                    "viewBox=\"0 0 %u %u\">\n<rect width=\"100%%\" height=\"100%%\" "
                    "fill=\"white\"/>\n<text x=\"%d\" y=\"28\" font-size=\"15\" " CRN_FONT ">",
                    f.width, f.height, f.width, f.height, LEFT);
    crn_text_xml(out, title);
    crn_text_printf(out, "</text>\n");
    write_axes(out, &f, x_label, y_label);
    for (uint32_t c = 0; c < count; c++) {
        if (first_same(curves, c) != c)
            continue;
        if (curves[c].shaded && curves[c].count > 0)
            write_shade(out, &f, &curves[c]);
        else
            write_curve(out, &f, &curves[c], number);
        y = write_legend(out, curves, count, c, number, y);
        number += !curves[c].shaded;
    }
    crn_text_printf(out, "</svg>\n");
    return crn_text_finish(out);
}
