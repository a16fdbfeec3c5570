/* page_plan.c: a plan as columns, for the page: what each step does and when, and every lifetime
 * with its address. A value that can be predicted from the graph and the step before is stored as
 * the difference, which is mostly 0: a plan of ResNet-152 takes less than 100 kB. The page's
 * decode.js reads it. */
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "report/page_internal.h"

static void write_steps(cairn_text *text, const crn_page_subject *r, const cairn_sim_step *times) {
    uint32_t implementations;
    const cairn_step *steps = r->solution->plan->steps;
    uint32_t count = r->solution->plan->step_count;
    crn_text_printf(text, ",\"steps\":{");
    crn_column kinds = crn_column_begin(text, "kind", true);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put(&kinds, steps[i].kind);
    crn_column_end(&kinds);

    crn_column ids = crn_column_begin(text, "id", false);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put_signed(&ids, (int64_t)steps[i].id - (i > 0 ? (int64_t)steps[i - 1].id : 0));
    crn_column_end(&ids);

    /* relative to the time when the compute lane reaches the step */
    crn_column starts = crn_column_begin(text, "start", false);
    int64_t now = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool copies = steps[i].kind == CAIRN_STEP_OFFLOAD || steps[i].kind == CAIRN_STEP_FETCH;
        crn_column_put_signed(&starts, times[i].start_ns - now);
        now = copies ? now : times[i].end_ns;
    }
    crn_column_end(&starts);

    /* minus the time of the op's first implementation */
    crn_column lengths = crn_column_begin(text, "length", false);
    for (uint32_t i = 0; i < count; i++) {
        int64_t usual = 0;
        if (steps[i].kind == CAIRN_STEP_RUN)
            usual = cairn_costs_op(r->costs, steps[i].id, &implementations)->time_ns;
        crn_column_put_signed(&lengths, times[i].end_ns - times[i].start_ns - usual);
    }
    crn_column_end(&lengths);
    crn_text_printf(text, "}");
}

/* ---- Lifetimes ---- */

/* A tensor that uses the storage of another: made in place, or an alias. */
typedef struct tenant {
    uint32_t lifetime, step;
    cairn_id tensor;
} tenant;

typedef struct tenants {
    crn_arena arena;
    CRN_ARRAY(tenant) list;
} tenants;

static uint32_t last_step(const cairn_lifetime *lifetime, uint32_t steps) {
    return CRN_MAX(CRN_MIN(lifetime->last, steps > 0 ? steps - 1 : 0), lifetime->first);
}

static void write_lifetimes(cairn_text *text, const crn_page_subject *r) {
    const cairn_lifetime *lives = r->solution->sim->lifetimes;
    uint32_t count = r->solution->sim->lifetime_count;
    const uint64_t *offsets = r->solution->layout->offsets;
    uint32_t steps = r->solution->plan->step_count;
    crn_text_printf(text, ",\"lives\":{");
    crn_column firsts = crn_column_begin(text, "first", true);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put_signed(&firsts,
                              (int64_t)lives[i].first - (i > 0 ? (int64_t)lives[i - 1].first : 0));
    crn_column_end(&firsts);

    crn_column lengths = crn_column_begin(text, "length", false);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put(&lengths, last_step(&lives[i], steps) - lives[i].first);
    crn_column_end(&lengths);

    crn_column tensors = crn_column_begin(text, "tensor", false);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put(&tensors, lives[i].tensor == CAIRN_NONE ? 0 : (uint64_t)lives[i].tensor + 1);
    crn_column_end(&tensors);

    crn_column bytes = crn_column_begin(text, "bytes", false);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put(&bytes, lives[i].bytes / CRN_ALIGNMENT);
    crn_column_end(&bytes);

    crn_column places = crn_column_begin(text, "offset", false);
    for (uint32_t i = 0; i < count; i++)
        crn_column_put(&places, offsets[i] / CRN_ALIGNMENT);
    crn_column_end(&places);
    crn_text_printf(text, "}");
}

static cairn_status note(tenants *t, uint32_t lifetime, uint32_t step, cairn_id tensor) {
    tenant found = {lifetime, step, tensor};
    if (lifetime != CAIRN_NONE)
        CRN_PUSH(&t->arena, t->list, found);
    return CAIRN_OK;
}

/* Find the outputs of a run that use the storage of one of its inputs. */
static cairn_status find_in_run(tenants *t, const cairn_graph *graph, const cairn_step *step,
                                uint32_t at, uint32_t *life_of) {
    const cairn_op *op = cairn_graph_op(graph, step->id);
    cairn_inplace pairs[2];
    uint32_t overwritten = crn_step_pairs(op, step, pairs);
    for (uint32_t i = 0; i < overwritten; i++) {
        cairn_id made = op->outputs[pairs[i].output];
        life_of[made] = life_of[op->inputs[pairs[i].input]];
        CRN_TRY(note(t, life_of[made], at, made));
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        cairn_id made = op->outputs[k];
        if (made == CAIRN_NONE || cairn_graph_tensor(graph, made)->alias_of == CAIRN_NONE)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            if (crn_graph_storage(graph, op->inputs[i]) == crn_graph_storage(graph, made))
                life_of[made] = life_of[op->inputs[i]];
        CRN_TRY(note(t, life_of[made], at, made));
    }
    return CAIRN_OK;
}

/* Follow every tensor through the steps. Lifetimes are ordered by the step at which they begin. */
static cairn_status find_tenants(tenants *t, const crn_page_subject *r) {
    uint32_t step_count, life_count, next = 0, *life_of;
    const cairn_step *steps = r->solution->plan->steps;
    step_count = r->solution->plan->step_count;
    const cairn_lifetime *lives = r->solution->sim->lifetimes;
    life_count = r->solution->sim->lifetime_count;
    uint32_t tensor_count = cairn_graph_tensor_count(r->graph);
    CRN_TAKE(&t->arena, life_of, tensor_count);
    for (cairn_id i = 0; i < tensor_count; i++)
        life_of[i] = CAIRN_NONE;
    for (uint32_t s = 0; s < step_count; s++) {
        for (; next < life_count && lives[next].first <= s; next++)
            if (lives[next].tensor != CAIRN_NONE)
                life_of[lives[next].tensor] = next;
        if (steps[s].kind == CAIRN_STEP_RUN)
            CRN_TRY(find_in_run(t, r->graph, &steps[s], s, life_of));
    }
    return CAIRN_OK;
}

static void write_tenants(cairn_text *text, const tenants *t) {
    crn_text_printf(text, ",\"tenants\":{");
    crn_column steps = crn_column_begin(text, "step", true);
    for (uint32_t i = 0; i < t->list.length; i++)
        crn_column_put(&steps, t->list.data[i].step - (i > 0 ? t->list.data[i - 1].step : 0));
    crn_column_end(&steps);
    crn_column lives = crn_column_begin(text, "life", false);
    for (uint32_t i = 0; i < t->list.length; i++)
        crn_column_put(&lives, t->list.data[i].lifetime);
    crn_column_end(&lives);
    crn_column tensors = crn_column_begin(text, "tensor", false);
    for (uint32_t i = 0; i < t->list.length; i++)
        crn_column_put(&tensors, t->list.data[i].tensor);
    crn_column_end(&tensors);
    crn_text_printf(text, "}");
}

cairn_status crn_page_plan(cairn_text *text, const crn_page_subject *r,
                           const cairn_sim_step *measured) {
    const cairn_sim_summary *s = r->solution->sim->summary;
    cairn_allocator allocator = crn_graph_allocator(r->graph);
    tenants t = {.list = {0}};
    crn_arena_init(&t.arena, &allocator);
    cairn_status status = find_tenants(&t, r);
    if (status == CAIRN_OK) {
        crn_text_printf(text, "{\"measured\":%d", measured != NULL);
        crn_page_number(text, "peak", s->peak_bytes);
        crn_page_number(text, "peak_step", s->peak_step);
        crn_page_number(text, "arena", r->solution->layout->arena_bytes);
        crn_page_number(text, "predicted", (uint64_t)s->time_ns);
        crn_page_number(text, "host", s->host_bytes);
        write_steps(text, r, measured != NULL ? measured : r->solution->sim->steps);
        write_lifetimes(text, r);
        write_tenants(text, &t);
        crn_text_printf(text, "}");
    }
    crn_arena_release(&t.arena);
    return status;
}
