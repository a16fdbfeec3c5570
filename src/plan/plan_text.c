/* plan_text.c: reads and writes the text form of a plan, docs/plan-format.md.
 *
 * The form is strict: a fixed order, single spaces, the number of steps. So a text that is accepted
 * is, byte for byte, the text that would be written, and a damaged text is detected. */
#include "cairn/report.h"
#include "plan/plan_internal.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

#include <stdio.h>

#define VERSION 1

static const char *const goal_names[] = {"train", "infer"};

/* ---- Writing ---- */

static void write_dimensions(cairn_text *text, const uint32_t dimensions[3]) {
    for (uint32_t i = 0; i < 3 && dimensions[i] != 0; i++)
        crn_text_printf(text, "%s%u", i > 0 ? "x" : "", dimensions[i]);
}

static void write_header(cairn_text *text, const cairn_plan_header *h) {
    crn_text_printf(text, "cairn-plan %d\n", VERSION);
    if (h->model[0] != '\0')
        crn_text_printf(text, "model %s\n", h->model);
    if (h->batch != 0)
        crn_text_printf(text, "batch %u\n", h->batch);
    if (h->input[0] != 0) {
        crn_text_printf(text, "input ");
        write_dimensions(text, h->input);
        crn_text_put(text, "\n", 1);
    }
    if (h->classes != 0)
        crn_text_printf(text, "classes %u\n", h->classes);
    if (h->steps != 0)
        crn_text_printf(text, "seq %u\n", h->steps);
    if (h->updates != 0)
        crn_text_printf(text, "updates %u\n", h->updates);
    if (h->clips != 0)
        crn_text_printf(text, "clips %u\n", h->clips);
    crn_text_printf(text, "goal %s\n", goal_names[h->goal]);
    if (h->algorithm[0] != '\0')
        crn_text_printf(text, "algorithm %s\n", h->algorithm);
    crn_text_printf(text, "peak %llu\n", (unsigned long long)h->predicted_peak_bytes);
    crn_text_printf(text, "graph %016llx\n", (unsigned long long)h->graph_hash);
}

static const char *step_name(const cairn_graph *graph, const cairn_step *step) {
    return step->kind == CAIRN_STEP_RUN ? cairn_graph_op(graph, step->id)->name
                                        : cairn_graph_tensor(graph, step->id)->name;
}

static void write_step(cairn_text *text, const cairn_graph *graph, const cairn_step *step) {
    crn_text_printf(text, "%s %s", cairn_step_kind_name((cairn_step_kind)step->kind),
                    step_name(graph, step));
    if (step->inplace > 0)
        crn_text_printf(text, " inplace");
    if (step->inplace > 1 || step->also > 0)
        crn_text_printf(text, " %u", step->inplace);
    if (step->also > 0)
        crn_text_printf(text, " %u", step->also);
    if (step->implementation != 0)
        crn_text_printf(text, " impl %u", step->implementation);
    crn_text_put(text, "\n", 1);
}

cairn_status cairn_plan_to_text(const cairn_plan *plan, const cairn_graph *graph, cairn_text *out) {
    crn_text_init(out, &((const crn_plan *)plan)->arena.allocator);
    write_header(out, plan->header);
    crn_text_printf(out, "steps %u\n", plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++)
        write_step(out, graph, &plan->steps[i]);
    return crn_text_finish(out);
}

static void write_pair(cairn_text *text, const cairn_graph *graph, cairn_id op, const char *name,
                       uint8_t permission) {
    cairn_inplace pair = cairn_graph_op(graph, op)->inplace[permission - 1];
    crn_text_printf(text, ", \"%s\": {\"output\": %u, \"input\": %u}", name, pair.output,
                    pair.input);
}

cairn_status cairn_plan_to_json(const cairn_plan *plan, const cairn_graph *graph, cairn_text *out) {
    const cairn_plan_header *h = plan->header;
    crn_text_init(out, &((const crn_plan *)plan)->arena.allocator);
    crn_text_printf(out, "{\"format\": \"cairn-plan\", \"version\": %d, \"model\": ", VERSION);
    crn_text_json_string(out, h->model);
    crn_text_printf(out, ", \"batch\": %u, \"input\": \"", h->batch);
    write_dimensions(out, h->input);
    crn_text_printf(out, "\", \"classes\": %u, \"seq\": %u, ", h->classes, h->steps);
    if (h->updates != 0)
        crn_text_printf(out, "\"updates\": %u, ", h->updates);
    if (h->clips != 0)
        crn_text_printf(out, "\"clips\": %u, ", h->clips);
    crn_text_printf(out, "\"goal\": \"%s\", \"algorithm\": ", goal_names[h->goal]);
    crn_text_json_string(out, h->algorithm);
    crn_text_printf(out,
                    ", \"predicted_peak_bytes\": %llu, \"graph\": \"%016llx\",\n\"steps\": [\n",
                    (unsigned long long)h->predicted_peak_bytes, (unsigned long long)h->graph_hash);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const cairn_step *step = &plan->steps[i];
        crn_text_printf(out, "{\"%s\": ", cairn_step_kind_name((cairn_step_kind)step->kind));
        crn_text_json_string(out, step_name(graph, step));
        crn_text_printf(out, ", \"id\": %u", step->id);
        if (step->inplace != 0)
            write_pair(out, graph, step->id, "inplace", step->inplace);
        if (step->also != 0)
            write_pair(out, graph, step->id, "also", step->also);
        if (step->implementation != 0)
            crn_text_printf(out, ", \"impl\": %u", step->implementation);
        crn_text_printf(out, "}%s\n", i + 1 < plan->step_count ? "," : "");
    }
    crn_text_printf(out, "]}\n");
    return crn_text_finish(out);
}

/* ---- Reading ---- */

/* A place in the text. `word` holds the word that was read last. */
typedef struct cursor {
    const char *at, *end, *line_start;
    uint32_t line;
    const char *file;
    cairn_error *err;
    char word[256];
} cursor;

static cairn_status fail_here(const cursor *c, const char *place, const char *message) {
    if (c->err != NULL) {
        crn_error_clear(c->err);
        crn_copy_string(c->err->file, sizeof c->err->file, c->file == NULL ? "plan" : c->file);
        c->err->line = c->line;
        c->err->column = (uint32_t)(place - c->line_start) + 1;
    }
    return crn_fail(c->err, CAIRN_ESYNTAX, "%s", message);
}

/* The next word of the line, up to a space or the line's end. */
static cairn_status next_word(cursor *c, const char *wanted) {
    const char *start = c->at;
    size_t length = 0;
    while (c->at + length < c->end && (unsigned char)c->at[length] > ' ' && length < 255)
        length++;
    if (length == 0 || length == 255) {
        char message[128];
        snprintf(message, sizeof message, "expected %s here", wanted);
        return fail_here(c, start, message);
    }
    memcpy(c->word, c->at, length);
    c->word[length] = '\0';
    c->at += length;
    return CAIRN_OK;
}

static bool at_space(const cursor *c) {
    return c->at < c->end && *c->at == ' ';
}

static cairn_status expect(cursor *c, char byte, const char *what) {
    if (c->at >= c->end || *c->at != byte) {
        char message[128];
        snprintf(message, sizeof message, "expected %s here", what);
        return fail_here(c, c->at, message);
    }
    c->at++;
    if (byte == '\n') {
        c->line++;
        c->line_start = c->at;
    }
    return CAIRN_OK;
}

/* A number in the only form that is allowed: no sign, no leading zeros. */
static cairn_status number(cursor *c, uint64_t high, uint64_t *out) {
    const char *start = c->at;
    CRN_TRY(next_word(c, "a number"));
    uint64_t value = 0;
    bool good = c->word[0] != '0' || c->word[1] == '\0';
    for (const char *d = c->word; *d != '\0' && good; d++) {
        good = *d >= '0' && *d <= '9' && crn_mul_u64(value, 10, &value) &&
               crn_add_u64(value, (uint64_t)(*d - '0'), &value);
    }
    if (!good || value > high)
        return fail_here(c, start, "this is not a number that can stand here");
    *out = value;
    return CAIRN_OK;
}

/* Whether the line starts with "key "; if so, skip it. */
static bool key(cursor *c, const char *name) {
    size_t length = strlen(name);
    if ((size_t)(c->end - c->at) <= length || memcmp(c->at, name, length) != 0 ||
        c->at[length] != ' ')
        return false;
    c->at += length + 1;
    return true;
}

static cairn_status optional_number(cursor *c, const char *name, uint32_t *out) {
    uint64_t value = 0;
    const char *start = c->at;
    if (!key(c, name))
        return CAIRN_OK;
    CRN_TRY(number(c, UINT32_MAX, &value));
    if (value == 0)
        return fail_here(c, start, "a line whose value is 0 must be left out");
    *out = (uint32_t)value;
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_model(cursor *c, cairn_plan_header *out) {
    if (!key(c, "model"))
        return CAIRN_OK;
    size_t length = 0;
    while (c->at + length < c->end && (unsigned char)c->at[length] >= ' ' &&
           length + 1 < sizeof out->model)
        length++;
    if (length == 0)
        return fail_here(c, c->at, "expected a model here");
    memcpy(out->model, c->at, length);
    c->at += length;
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_input(cursor *c, cairn_plan_header *out) {
    const char *start = c->at;
    if (!key(c, "input"))
        return CAIRN_OK;
    CRN_TRY(next_word(c, "a size such as 3x224x224"));
    char rest[2];
    uint32_t *d = out->input;
    int count = sscanf(c->word, "%9ux%9ux%9u%1s", &d[0], &d[1], &d[2], rest);
    char again[64] = "";
    size_t used = 0;
    bool zero = false;
    for (int i = 0; i < 3 && i < count; i++) {
        used += (size_t)snprintf(again + used, sizeof again - used, "%s%u", i > 0 ? "x" : "", d[i]);
        zero = zero || d[i] == 0;
    }
    if (count < 1 || strcmp(again, c->word) != 0 || zero)
        return fail_here(c, start, "the input must be a size such as 3x224x224");
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_goal(cursor *c, cairn_plan_header *out) {
    const char *start = c->at;
    if (!key(c, "goal"))
        return fail_here(c, start, "expected \"goal train\" or \"goal infer\" here");
    CRN_TRY(next_word(c, "train or infer"));
    out->goal = strcmp(c->word, "infer") == 0 ? CAIRN_GOAL_INFER : CAIRN_GOAL_TRAIN;
    if (strcmp(c->word, goal_names[out->goal]) != 0)
        return fail_here(c, start, "expected \"goal train\" or \"goal infer\" here");
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_hash(cursor *c, uint64_t *out) {
    const char *start = c->at;
    unsigned long long hash = 0;
    char again[32] = "";
    if (key(c, "graph")) {
        CRN_TRY(next_word(c, "sixteen hexadecimal digits"));
        if (sscanf(c->word, "%16llx", &hash) == 1)
            snprintf(again, sizeof again, "%016llx", hash);
    }
    if (again[0] == '\0' || strcmp(again, c->word) != 0)
        return fail_here(c, start, "expected \"graph\" and sixteen hexadecimal digits here");
    *out = hash;
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_header(cursor *c, cairn_plan_header *out) {
    uint64_t value = 0;
    *out = (cairn_plan_header)CAIRN_PLAN_HEADER_INIT;
    if (!key(c, "cairn-plan"))
        return fail_here(c, c->at, "this is no plan: it does not begin with \"cairn-plan\"");
    const char *start = c->at;
    CRN_TRY(number(c, UINT32_MAX, &value));
    if (value != VERSION)
        return fail_here(c, start, "the plan has another version; this program reads version 1");
    CRN_TRY(expect(c, '\n', "the end of the line"));
    CRN_TRY(read_model(c, out));
    CRN_TRY(optional_number(c, "batch", &out->batch));
    CRN_TRY(read_input(c, out));
    CRN_TRY(optional_number(c, "classes", &out->classes));
    CRN_TRY(optional_number(c, "seq", &out->steps));
    CRN_TRY(optional_number(c, "updates", &out->updates));
    CRN_TRY(optional_number(c, "clips", &out->clips));
    CRN_TRY(read_goal(c, out));
    if (key(c, "algorithm")) {
        start = c->at;
        CRN_TRY(next_word(c, "the algorithm"));
        if (strlen(c->word) >= sizeof out->algorithm)
            return fail_here(c, start, "the name of the algorithm is too long");
        crn_copy_string(out->algorithm, sizeof out->algorithm, c->word);
        CRN_TRY(expect(c, '\n', "the end of the line"));
    }
    if (!key(c, "peak"))
        return fail_here(c, c->at, "expected \"peak\" here");
    CRN_TRY(number(c, UINT64_MAX, &out->predicted_peak_bytes));
    CRN_TRY(expect(c, '\n', "the end of the line"));
    return read_hash(c, &out->graph_hash);
}

static cursor start_reading(const char *text, size_t length, const char *file, cairn_error *err) {
    crn_error_clear(err);
    return (cursor){
        .at = text, .end = text + length, .line_start = text, .line = 1, .file = file, .err = err};
}

cairn_status cairn_plan_header_from_text(const char *text, size_t length, const char *file,
                                         cairn_plan_header *out, cairn_error *err) {
    cairn_plan_header made;
    cursor c = start_reading(text, length, file, err);
    CRN_OPEN_OUTPUT(cairn_plan_header, out, err);
    CRN_TRY(read_header(&c, &made));
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}

static cairn_status read_kind(cursor *c, uint8_t *out) {
    const char *start = c->at;
    CRN_TRY(next_word(c, "a step"));
    for (uint8_t kind = 0; kind <= CAIRN_STEP_WAIT; kind++)
        if (strcmp(c->word, cairn_step_kind_name((cairn_step_kind)kind)) == 0) {
            *out = kind;
            return CAIRN_OK;
        }
    return fail_here(c, start, "a step begins with run, free, offload, fetch or wait");
}

/* Read the number of a permission, if one follows. */
static cairn_status read_permission(cursor *c, uint8_t *out) {
    uint64_t value = 0;
    if (!at_space(c) || c->at + 1 >= c->end || c->at[1] < '0' || c->at[1] > '9')
        return CAIRN_OK;
    const char *start = ++c->at;
    CRN_TRY(number(c, UINT8_MAX, &value));
    if (value == 0)
        return fail_here(c, start, "permissions are counted from 1");
    *out = (uint8_t)value;
    return CAIRN_OK;
}

/* Read what may follow the op of a run. */
static cairn_status read_run_options(cursor *c, cairn_step *step) {
    uint64_t value = 0;
    const char *start = c->at + 1;
    if (at_space(c) && (size_t)(c->end - start) >= 7 && memcmp(start, "inplace", 7) == 0) {
        c->at = start + 7;
        CRN_TRY(read_permission(c, &step->inplace));
        if (step->inplace > 0)
            CRN_TRY(read_permission(c, &step->also));
        if (step->inplace == 1 && step->also == 0)
            return fail_here(c, start, "\"inplace 1\" must be written \"inplace\"");
        step->inplace = CRN_MAX(step->inplace, 1);
    }
    start = c->at + 1;
    if (at_space(c) && (size_t)(c->end - start) >= 5 && memcmp(start, "impl ", 5) == 0) {
        c->at = start + 5;
        CRN_TRY(number(c, UINT8_MAX, &value));
        if (value == 0)
            return fail_here(c, start, "\"impl 0\" must be left out");
        step->implementation = (uint8_t)value;
    }
    return CAIRN_OK;
}

static cairn_status read_step(cursor *c, const cairn_graph *graph, cairn_step *step) {
    *step = (cairn_step){0};
    CRN_TRY(read_kind(c, &step->kind));
    CRN_TRY(expect(c, ' ', "a space"));
    const char *start = c->at;
    CRN_TRY(next_word(c, "a name"));
    bool is_run = step->kind == CAIRN_STEP_RUN;
    step->id = is_run ? crn_graph_find_op(graph, c->word) : cairn_graph_find_tensor(graph, c->word);
    if (step->id == CAIRN_NONE) {
        char message[400];
        snprintf(message, sizeof message, "the graph has no %s \"%s\"", is_run ? "op" : "tensor",
                 c->word);
        return fail_here(c, start, message);
    }
    if (is_run)
        CRN_TRY(read_run_options(c, step));
    if (is_run && !crn_step_is_permitted(cairn_graph_op(graph, step->id), step))
        return fail_here(c, start, "the op does not allow working in place like that");
    return expect(c, '\n', "the end of the line");
}

static cairn_status read_steps(cursor *c, const cairn_graph *graph, crn_plan_builder *builder) {
    uint64_t count = 0;
    if (!key(c, "steps"))
        return fail_here(c, c->at, "expected \"steps\" and their number here");
    CRN_TRY(number(c, UINT32_MAX / 2, &count));
    CRN_TRY(expect(c, '\n', "the end of the line"));
    for (uint64_t i = 0; i < count; i++) {
        cairn_step step;
        if (c->at == c->end)
            return fail_here(c, c->at, "the file ends here, before the number of steps is reached");
        CRN_TRY(read_step(c, graph, &step));
        CRN_TRY(crn_plan_builder_add(builder, step));
    }
    if (c->at != c->end)
        return fail_here(c, c->at, "there is more here than the number of steps says");
    return CAIRN_OK;
}

cairn_status cairn_plan_from_text(const cairn_graph *graph, const char *text, size_t length,
                                  const char *file, cairn_plan **out, cairn_error *err) {
    *out = NULL;
    cursor c = start_reading(text, length, file, err);
    cairn_plan_header header;
    CRN_TRY(read_header(&c, &header));
    if (header.graph_hash != crn_graph_hash(graph)) {
        if (err != NULL)
            crn_copy_string(err->file, sizeof err->file, file == NULL ? "" : file);
        return crn_fail(err, CAIRN_EINVAL,
                        "the plan was made for a graph with fingerprint %016llx, but \"%s\" has "
                        "%016llx; make a new plan for it",
                        (unsigned long long)header.graph_hash, cairn_graph_name(graph),
                        (unsigned long long)crn_graph_hash(graph));
    }
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_plan_builder *builder;
    if (crn_plan_builder_create(&allocator, &builder) != CAIRN_OK)
        return crn_fail_memory(err);
    cairn_status status = read_steps(&c, graph, builder);
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, graph, &header, out, err);
    crn_plan_builder_destroy(builder);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
