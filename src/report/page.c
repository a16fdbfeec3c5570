/* page.c: writes the page: the template src/report/page/page.html with the style, the script and
 * the data in it. The page loads and runs nothing else: its content security policy names the one
 * script and the one style by their hashes, and forbids the rest. */
#include "base/sha256.h"
#include "graph/crn_graph.h"
#include "report/page_embedded.h"
#include "report/page_internal.h"

struct cairn_page {
    crn_arena arena;
    const cairn_graph *graph;
    const cairn_costs *costs;
    const char *machine;
    bool sweep;
    char model[256];
    uint32_t batch;
    uint64_t stationary_bytes;
    CRN_ARRAY(cairn_text) plans; /* as JSON, all different */
    cairn_text entries;          /* the JSON objects of all entries, separated by commas */
    uint32_t entry_count;
};

cairn_status cairn_page_create(const cairn_graph *graph, const cairn_costs *costs,
                               const cairn_page_options *given, cairn_page **out) {
    cairn_page_options options = CAIRN_PAGE_OPTIONS_INIT;
    *out = NULL;
    CRN_READ_OPTIONS(cairn_page_options, options, given, NULL);
    cairn_allocator allocator = crn_graph_allocator(graph);
    const char *machine = options.machine != NULL ? options.machine : "";
    cairn_page *page = CRN_OBJECT(&allocator, cairn_page, arena);
    if (page == NULL || (page->machine = crn_arena_string(&page->arena, machine)) == NULL) {
        cairn_page_destroy(page);
        return CAIRN_ENOMEM;
    }
    page->graph = graph;
    page->costs = costs;
    page->sweep = options.sweep;
    page->stationary_bytes = options.stationary_bytes;
    crn_text_init(&page->entries, &allocator);
    *out = page;
    return CAIRN_OK;
}

void cairn_page_destroy(cairn_page *page) {
    if (page == NULL)
        return;
    for (uint32_t i = 0; i < page->plans.length; i++)
        cairn_text_release(&page->plans.data[i]);
    cairn_text_release(&page->entries);
    crn_arena_destroy(&page->arena);
}

/* ---- Plans ---- */

/* Find or store a plan; `*place` is its place in the list. The page takes over the text, or
 * releases it. */
static cairn_status store_plan(cairn_page *page, cairn_text *text, uint32_t *place) {
    for (*place = 0; *place < page->plans.length; ++*place) {
        const cairn_text *other = &page->plans.data[*place];
        if (other->length == text->length && memcmp(other->data, text->data, text->length) == 0) {
            cairn_text_release(text);
            return CAIRN_OK;
        }
    }
    if (!crn_array_grow(&page->arena, &page->plans.data, page->plans.length, &page->plans.capacity,
                        sizeof *page->plans.data)) {
        cairn_text_release(text);
        return CAIRN_ENOMEM;
    }
    page->plans.data[page->plans.length++] = *text;
    return CAIRN_OK;
}

static cairn_status write_entry(cairn_page *page, const cairn_solution *solution,
                                const cairn_page_entry *e, uint32_t place) {
    cairn_text text, *out = &text;
    const char *algorithm = solution->plan->header->algorithm;
    int64_t bound = e->bound_ns;
    if (bound <= 0 && solution->micro_batches == 1) /* else it is not one of the plan */
        bound = solution->lower_bound_ns;
    cairn_allocator allocator = crn_graph_allocator(page->graph);
    crn_text_init(out, &allocator);
    crn_text_printf(out, "%s{\"plan\":%u,\"algorithm\":", page->entry_count > 0 ? "," : "", place);
    crn_text_page_string(out, algorithm);
    crn_text_printf(out, ",\"name\":");
    crn_text_page_string(out, e->name != NULL ? e->name : algorithm);
    crn_page_number(out, "budget", e->budget_bytes);
    crn_page_number(out, "smallest", e->smallest_budget);
    crn_text_printf(out, ",\"smallest_op\":");
    crn_text_page_string(out, e->smallest_op != NULL ? e->smallest_op : "");
    crn_page_number(out, "bound", (uint64_t)bound);
    crn_page_number(out, "against", e->against);
    crn_text_printf(out, "}");
    CRN_TRY(crn_text_finish(out));
    crn_text_put(&page->entries, out->data, out->length);
    cairn_text_release(out);
    return page->entries.data == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

cairn_status cairn_page_add(cairn_page *page, const cairn_solution *solution,
                            const cairn_page_entry *entry) {
    cairn_page_entry e = CAIRN_PAGE_ENTRY_INIT;
    cairn_text text;
    uint32_t place;
    CRN_READ_OPTIONS(cairn_page_entry, e, entry, NULL);
    cairn_allocator allocator = crn_graph_allocator(page->graph);
    crn_page_subject subject = {page->graph, page->costs, solution};
    crn_text_init(&text, &allocator);
    cairn_status status = crn_page_plan(&text, &subject, e.measured);
    if (status != CAIRN_OK) {
        cairn_text_release(&text);
        return status;
    }
    CRN_TRY(crn_text_finish(&text));
    CRN_TRY(store_plan(page, &text, &place));
    CRN_TRY(write_entry(page, solution, &e, place));
    if (page->entry_count++ == 0) {
        const cairn_plan_header *h = solution->plan->header;
        crn_copy_string(page->model, sizeof page->model,
                        h->model[0] != '\0' ? h->model : cairn_graph_name(page->graph));
        page->batch = h->batch;
    }
    return CAIRN_OK;
}

cairn_status cairn_page_add_none(cairn_page *page, cairn_error *err) {
    cairn_solution *none;
    CRN_TRY(cairn_solve(page->graph, page->costs, "none", NULL, &none, err));
    cairn_status status = cairn_page_add(page, none, NULL);
    cairn_solution_destroy(none);
    return status == CAIRN_OK ? CAIRN_OK : crn_fail_memory(err);
}

/* ---- The file ---- */

static void write_data(cairn_text *out, const cairn_page *page) {
    crn_text_printf(
        out, "{\"format\":\"cairn-page\",\"version\":1,\"sweep\":%d,\"model\":", page->sweep);
    crn_text_page_string(out, page->model);
    crn_text_printf(out, ",\"machine\":");
    crn_text_page_string(out, page->machine);
    crn_page_number(out, "batch", page->batch);
    crn_page_number(out, "stationary", page->stationary_bytes);
    crn_page_number(out, "whole", crn_graph_has_updates(page->graph));
    crn_text_printf(out, ",\"graph\":");
    crn_page_graph(out, page->graph, page->costs);
    crn_text_printf(out, ",\"plans\":[");
    for (uint32_t i = 0; i < page->plans.length; i++) {
        crn_text_put(out, ",\n", i > 0 ? 2 : 0);
        crn_text_put(out, page->plans.data[i].data, page->plans.data[i].length);
    }
    crn_text_printf(out, "],\"entries\":[");
    crn_text_put(out, page->entries.data, page->entries.length);
    crn_text_printf(out, "]}");
}

static void write_lines(cairn_text *out, const char *const *lines) {
    for (; *lines != NULL; lines++)
        crn_text_put(out, *lines, strlen(*lines));
}

/* 'sha256-...', the form in which a policy names a script or style. */
static void write_hash(cairn_text *out, const char *const *lines) {
    crn_sha256 hash;
    char hex[65];
    uint8_t bytes[32];
    crn_sha256_init(&hash);
    for (; *lines != NULL; lines++)
        crn_sha256_add(&hash, *lines, strlen(*lines));
    crn_sha256_finish(&hash, hex);
    for (uint32_t i = 0; i < sizeof bytes; i++) {
        uint32_t value = 0;
        for (uint32_t k = 2 * i; k < 2 * i + 2; k++)
            value = 16 * value + (uint32_t)(hex[k] <= '9' ? hex[k] - '0' : hex[k] - 'a' + 10);
        bytes[i] = (uint8_t)value;
    }
    crn_text_printf(out, "'sha256-");
    crn_text_base64(out, bytes, sizeof bytes);
    crn_text_printf(out, "'");
}

/* Write what replaces a {{word}} of the template. */
static void write_words(cairn_text *out, const cairn_page *page, const char *word, size_t length) {
#define IS(name) (length == sizeof(name) - 1 && memcmp(word, name, length) == 0)
    if (IS("title"))
        crn_text_xml(out, page->model);
    else if (IS("style"))
        write_lines(out, crn_page_style);
    else if (IS("script"))
        write_lines(out, crn_page_script);
    else if (IS("style-hash"))
        write_hash(out, crn_page_style);
    else if (IS("script-hash"))
        write_hash(out, crn_page_script);
    else if (IS("data"))
        write_data(out, page);
#undef IS
}

cairn_status cairn_page_write(const cairn_page *page, cairn_text *out) {
    cairn_allocator allocator = crn_graph_allocator(page->graph);
    crn_text_init(out, &allocator);
    for (const char *const *line = crn_page_template; *line != NULL; line++) {
        const char *rest = *line, *open;
        while ((open = strstr(rest, "{{")) != NULL) {
            const char *word = open + 2, *end = strstr(word, "}}");
            crn_text_put(out, rest, (size_t)(open - rest));
            write_words(out, page, word, (size_t)(end - word));
            rest = end + 2;
        }
        crn_text_put(out, rest, strlen(rest));
    }
    return crn_text_finish(out);
}
