/* memory_svg.c: memory over the simulated time of a step, as an SVG picture. The curve is filled
 * and its peak is marked. The largest tensors at the peak are listed beside it; the picture is as
 * wide as their names need. */
#include "base/crn_base.h"
#include "cairn/report.h"
#include "graph/crn_graph.h"
#include "report/palette.h"

#define HEIGHT 420
#define LEFT 80
#define TOP 50
#define PLOT_WIDTH 600
#define PLOT_HEIGHT 310
#define LIST (LEFT + PLOT_WIDTH + 24) /* where the list of tensors begins */
#define LISTED 14
#define FONT CRN_FONT

typedef struct axes {
    int64_t time;   /* at the right edge */
    uint64_t bytes; /* at the upper edge */
} axes;

/* Positions are in tenths of a pixel and integers, so that the file is the same on every
 * machine. */
static uint64_t x_of(const axes *a, int64_t time) {
    return 10u * LEFT + crn_mul_div_up((uint64_t)time, 10u * PLOT_WIDTH, (uint64_t)a->time);
}

static uint64_t y_of(const axes *a, uint64_t bytes) {
    return 10u * (TOP + PLOT_HEIGHT) - crn_mul_div_up(bytes, 10u * PLOT_HEIGHT, a->bytes);
}

static void write_tenths(cairn_text *text, uint64_t value) {
    crn_text_printf(text, "%llu.%llu", (unsigned long long)(value / 10),
                    (unsigned long long)(value % 10));
}

/* Rounded to a tenth, as the command and the page do. */
static void write_bytes(cairn_text *text, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    uint32_t unit = 0;
    while (bytes >> (10 * unit) >= 1024 && unit + 1 < CRN_LENGTH(units))
        unit++;
    uint64_t one = (uint64_t)1 << (10 * unit);
    uint64_t tenths = bytes / one * 10 + (bytes % one * 10 + one / 2) / one;
    if (unit == 0)
        crn_text_printf(text, "%llu B", (unsigned long long)bytes);
    else
        crn_text_printf(text, "%llu.%llu %s", (unsigned long long)(tenths / 10),
                        (unsigned long long)(tenths % 10), units[unit]);
}

/* "20 ms", "0.05 ms": without zeros at the end. */
static void write_milliseconds(cairn_text *text, uint64_t ns) {
    uint64_t fraction = ns / 1000 % 1000;
    crn_text_printf(text, "%llu", (unsigned long long)(ns / 1000000));
    if (fraction > 0)
        crn_text_printf(text,
                        fraction % 10 > 0    ? ".%03llu"
                        : fraction % 100 > 0 ? ".%02llu"
                                             : ".%llu",
                        (unsigned long long)(fraction % 10 > 0    ? fraction
                                             : fraction % 100 > 0 ? fraction / 10
                                                                  : fraction / 100));
    crn_text_printf(text, " ms");
}

/* The smallest of 1, 2, 5 times a power of `base` that gives at most six ticks. */
static uint64_t tick_of(uint64_t whole, uint64_t base) {
    static const uint64_t steps[] = {1, 2, 5};
    for (uint64_t power = 1;; power *= base) {
        for (size_t i = 0; i < CRN_LENGTH(steps); i++) {
            uint64_t top = base == 2 ? 1 : steps[i];
            if (whole / (power * top) <= 6)
                return power * top;
        }
        if (power > UINT64_MAX / (base * 5))
            return power;
    }
}

static void write_grid(cairn_text *out, const axes *a) {
    uint64_t tick = tick_of(a->bytes, 2);
    for (uint64_t bytes = 0; bytes <= a->bytes; bytes += tick) {
        crn_text_printf(out, "<line x1=\"%d\" x2=\"%d\" y1=\"", LEFT, LEFT + PLOT_WIDTH);
        write_tenths(out, y_of(a, bytes));
        crn_text_printf(out, "\" y2=\"");
        write_tenths(out, y_of(a, bytes));
        crn_text_printf(out, "\" stroke=\"#ddd\"/><text x=\"%d\" y=\"", LEFT - 8);
        write_tenths(out, y_of(a, bytes) + 40);
        crn_text_printf(out, "\" text-anchor=\"end\" font-size=\"11\" fill=\"#555\" " FONT ">");
        write_bytes(out, bytes);
        crn_text_printf(out, "</text>\n");
    }
    uint64_t step = tick_of((uint64_t)a->time, 10);
    for (uint64_t time = 0; time <= (uint64_t)a->time; time += step) {
        crn_text_printf(out, "<text x=\"");
        write_tenths(out, x_of(a, (int64_t)time));
        crn_text_printf(
            out, "\" y=\"%d\" text-anchor=\"middle\" font-size=\"11\" fill=\"#555\" " FONT ">",
            TOP + PLOT_HEIGHT + 18);
        write_milliseconds(out, time);
        crn_text_printf(out, "</text>\n");
    }
}

/* The points of a curve, from its first to its last. Memory is constant from the start of a step to
 * the start of the next. */
static void write_points(cairn_text *out, const cairn_solution *solution, const axes *a) {
    const cairn_step *steps = solution->plan->steps;
    uint32_t count = solution->plan->step_count;
    const cairn_sim_step *records = solution->sim->steps;
    write_tenths(out, x_of(a, 0));
    crn_text_printf(out, " ");
    write_tenths(out, y_of(a, 0));
    uint64_t last_y = y_of(a, 0);
    int64_t now = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool copies = steps[i].kind == CAIRN_STEP_OFFLOAD || steps[i].kind == CAIRN_STEP_FETCH;
        uint64_t y = y_of(a, records[i].bytes);
        int64_t at = copies ? now : records[i].start_ns;
        if (y != last_y) {
            crn_text_printf(out, "H");
            write_tenths(out, x_of(a, at));
            crn_text_printf(out, "V");
            write_tenths(out, y);
            last_y = y;
        }
        now = copies ? now : records[i].end_ns;
    }
    crn_text_printf(out, "H");
    write_tenths(out, x_of(a, now));
    crn_text_printf(out, "V");
    write_tenths(out, y_of(a, 0));
}

static void write_curve(cairn_text *out, const cairn_report *r, const axes *a) {
    crn_text_printf(out,
                    "<path fill=\"" CRN_SKY "\" stroke=\"" CRN_BLUE "\" stroke-width=\"1\" d=\"M");
    write_points(out, r->solution, a);
    crn_text_printf(out, "Z\"/>\n");
}

/* Whether there is plain training to compare with. */
static bool is_compared(const cairn_report *r) {
    return r->none != NULL && strcmp(r->solution->plan->header->algorithm, "none") != 0;
}

/* A level with its name at the right end, readable over curves. */
static void write_level(cairn_text *out, const axes *a, uint64_t bytes, const char *name,
                        const char *colour) {
    crn_text_printf(out, "<line stroke=\"%s\" stroke-dasharray=\"6 4\" x1=\"%d\" x2=\"%d\" y1=\"",
                    colour, LEFT, LEFT + PLOT_WIDTH);
    write_tenths(out, y_of(a, bytes));
    crn_text_printf(out, "\" y2=\"");
    write_tenths(out, y_of(a, bytes));
    crn_text_printf(out,
                    "\"/><text font-size=\"11\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"3\" "
                    "paint-order=\"stroke\" " FONT " text-anchor=\"end\" x=\"%d\" y=\"",
                    CRN_BLACK, LEFT + PLOT_WIDTH - 4);
    write_tenths(out, y_of(a, bytes) - 40);
    crn_text_printf(out, "\">%s ", name);
    write_bytes(out, bytes);
    crn_text_printf(out, "</text>\n");
}

/* Plain training as an outline behind the curve. */
static void write_plain(cairn_text *out, const cairn_report *r, const axes *a) {
    if (!is_compared(r))
        return;
    crn_text_printf(out, "<path fill=\"none\" stroke=\"" CRN_NONE_GREY "\" d=\"M");
    write_points(out, r->none, a);
    crn_text_printf(out, "\"/>\n");
}

static void write_levels(cairn_text *out, const cairn_report *r, const axes *a) {
    if (is_compared(r))
        write_level(out, a, r->none->sim->summary->peak_bytes, "plain training", CRN_NONE_GREY);
    if (r->budget_bytes > 0 && r->budget_bytes <= a->bytes)
        write_level(out, a, r->budget_bytes, "the budget leaves", CRN_BLACK);
}

static const char *holder_name(const cairn_report *r, const cairn_holder *holder) {
    return holder->tensor == CAIRN_NONE ? "(workspace)"
                                        : cairn_graph_tensor(r->graph, holder->tensor)->name;
}

/* The width of the picture, with room for the longest line of the list: "999.9 MiB name". */
static uint32_t picture_width(const cairn_report *r, size_t title) {
    const cairn_holder *holders = r->solution->sim->holders;
    uint32_t count = r->solution->sim->holder_count;
    size_t longest = sizeof "peak 999.9 MiB, held by";
    for (uint32_t i = 0; i < count && i <= LISTED; i++)
        longest = CRN_MAX(longest, sizeof "999.9 MiB  " + strlen(holder_name(r, &holders[i])));
    uint32_t list = LIST + crn_text_width(longest, 12);
    return CRN_MAX(list, LEFT + crn_text_width(title, 15)) + 8;
}

static void write_peak(cairn_text *out, const cairn_report *r, const axes *a) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    const cairn_sim_step *records = r->solution->sim->steps;
    uint32_t count = r->solution->sim->step_count;
    uint64_t x = x_of(a, count > 0 ? records[s->peak_step].start_ns : 0),
             y = y_of(a, s->peak_bytes);
    crn_text_printf(out, "<circle r=\"4\" fill=\"" CRN_PEAK "\" cx=\"");
    write_tenths(out, x);
    crn_text_printf(out, "\" cy=\"");
    write_tenths(out, y);
    crn_text_printf(out,
                    "\"/>\n<text font-size=\"12\" fill=\"" CRN_PEAK "\" " FONT " x=\"%d\" y=\"%d\">"
                    "peak ",
                    LIST, TOP + 4);
    write_bytes(out, s->peak_bytes);
    crn_text_printf(out, ", held by</text>\n");
    const cairn_holder *holders = r->solution->sim->holders;
    count = r->solution->sim->holder_count;
    for (uint32_t i = 0; i < count && i <= LISTED; i++) {
        crn_text_printf(out, "<text font-size=\"11\" fill=\"#333\" " FONT " x=\"%d\" y=\"%d\">",
                        LIST, TOP + 24 + 19 * (int)i);
        if (i == LISTED && count > LISTED + 1) {
            crn_text_printf(out, "and %u more</text>\n", count - LISTED);
            break;
        }
        write_bytes(out, holders[i].bytes);
        crn_text_printf(out, "  ");
        crn_text_xml(out, holder_name(r, &holders[i]));
        crn_text_printf(out, "</text>\n");
    }
}

cairn_status cairn_report_memory_svg(const cairn_report *r, cairn_text *out) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    const cairn_plan_header *h = r->solution->plan->header;
    cairn_allocator allocator = crn_graph_allocator(r->graph);
    axes a = {CRN_MAX(s->time_ns, 1), CRN_MAX(s->peak_bytes, 1)};
    if (is_compared(r)) {
        a.time = CRN_MAX(a.time, r->none_time_ns);
        a.bytes = CRN_MAX(a.bytes, r->none->sim->summary->peak_bytes);
    }
    a.bytes = CRN_MAX(a.bytes, CRN_MIN(r->budget_bytes, 2 * a.bytes));
    a.bytes += a.bytes / 20;
    static const char rest[] = ": memory over one training step";
    uint32_t width = picture_width(r, strlen(h->model) + strlen(h->algorithm) + sizeof rest + 2);
    crn_text_init(out, &allocator);
    crn_text_printf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%d\" "
                    "viewBox=\"0 0 %u %d\">\n<rect width=\"100%%\" height=\"100%%\" "
                    "fill=\"white\"/>\n<text x=\"%d\" y=\"28\" font-size=\"15\" " FONT ">",
                    width, HEIGHT, width, HEIGHT, LEFT);
    crn_text_xml(out, h->model);
    crn_text_printf(out, ", ");
    crn_text_xml(out, h->algorithm);
    crn_text_printf(out, "%s</text>\n", rest);
    write_grid(out, &a);
    write_plain(out, r, &a);
    write_curve(out, r, &a);
    write_levels(out, r, &a);
    write_peak(out, r, &a);
    crn_text_printf(out, "</svg>\n");
    return crn_text_finish(out);
}
