/* plan.c: the list of steps in memory, eight bytes a step, and its builder. */
#include "plan/plan_internal.h"
#include "plan/crn_plan.h"

#include "graph/crn_graph.h"

const char *cairn_step_kind_name(cairn_step_kind kind) {
    static const char *const names[] = {"run", "free", "offload", "fetch", "wait"};
    return (unsigned)kind < CRN_LENGTH(names) ? names[kind] : NULL;
}

cairn_status cairn_plan_set_header(cairn_plan *plan, const cairn_plan_header *given,
                                   cairn_error *err) {
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_plan_header, header, given, err);
    header.graph_hash = plan->header->graph_hash;
    ((crn_plan *)plan)->header = header;
    return CAIRN_OK;
}

/* A plan is allocated in its own arena. The builder is a plan that still grows. */
void cairn_plan_destroy(cairn_plan *plan) {
    if (plan == NULL)
        return;
    crn_arena_destroy(&((crn_plan *)plan)->arena);
}

/* Nothing is added from here on. */
static cairn_plan *show(crn_plan *plan) {
    plan->seen.header = &plan->header;
    plan->seen.steps = plan->steps.data;
    plan->seen.step_count = plan->steps.length;
    return &plan->seen;
}

static cairn_status copy_steps(const crn_plan *from, crn_plan *to) {
    CRN_TAKE(&to->arena, to->steps.data, from->steps.length);
    if (from->steps.length > 0)
        memcpy(to->steps.data, from->steps.data, from->steps.length * sizeof *to->steps.data);
    to->steps.length = to->steps.capacity = from->steps.length;
    return CAIRN_OK;
}

cairn_status crn_plan_copy(const cairn_plan *plan, cairn_plan **out) {
    *out = NULL;
    const crn_plan *from = (const crn_plan *)plan;
    crn_plan *copy = CRN_OBJECT(&from->arena.allocator, crn_plan, arena);
    if (copy == NULL)
        return CAIRN_ENOMEM;
    copy->header = from->header;
    cairn_status status = copy_steps(from, copy);
    if (status == CAIRN_OK)
        *out = show(copy);
    else
        cairn_plan_destroy(&copy->seen);
    return status;
}

cairn_status crn_plan_builder_create(const cairn_allocator *allocator, crn_plan_builder **out) {
    *out = NULL;
    cairn_allocator from = crn_allocator_or_default(allocator);
    crn_plan *plan = CRN_OBJECT(&from, crn_plan, arena);
    crn_plan_builder *builder = plan == NULL ? NULL : crn_resize(&from, NULL, 0, sizeof *builder);
    if (builder == NULL) {
        cairn_plan_destroy((cairn_plan *)plan);
        return CAIRN_ENOMEM;
    }
    *builder = (crn_plan_builder){.allocator = from, .plan = plan};
    *out = builder;
    return CAIRN_OK;
}

void crn_plan_builder_destroy(crn_plan_builder *builder) {
    if (builder == NULL)
        return;
    cairn_plan_destroy((cairn_plan *)builder->plan);
    cairn_allocator from = builder->allocator;
    crn_resize(&from, builder, sizeof *builder, 0);
}

cairn_status crn_plan_builder_add(crn_plan_builder *builder, cairn_step step) {
    CRN_PUSH(&builder->plan->arena, builder->plan->steps, step);
    return CAIRN_OK;
}

uint32_t crn_step_pairs(const cairn_op *op, const cairn_step *step, cairn_inplace out[2]) {
    uint32_t count = 0;
    if (step->inplace > 0)
        out[count++] = op->inplace[step->inplace - 1];
    if (step->also > 0)
        out[count++] = op->inplace[step->also - 1];
    return count;
}

bool crn_pairs_go_together(const cairn_op *op, cairn_inplace a, cairn_inplace b) {
    return (op->flags & CAIRN_OP_FLAG_TOGETHER) && a.output != b.output &&
           op->inputs[a.input] != op->inputs[b.input];
}

bool crn_step_is_permitted(const cairn_op *op, const cairn_step *step) {
    if (step->inplace > op->inplace_count || step->also > op->inplace_count)
        return false;
    return step->also == 0 ||
           (0 < step->inplace && step->inplace < step->also &&
            crn_pairs_go_together(op, op->inplace[step->inplace - 1], op->inplace[step->also - 1]));
}

static cairn_status check_step(const cairn_graph *graph, const cairn_step *step, uint32_t number,
                               cairn_error *err) {
    bool is_run = step->kind == CAIRN_STEP_RUN;
    uint32_t limit = is_run ? cairn_graph_op_count(graph) : cairn_graph_tensor_count(graph);
    if (step->kind > CAIRN_STEP_WAIT || step->id >= limit)
        return crn_fail(err, CAIRN_EINVAL, "step %u names an op or tensor that does not exist",
                        number);
    if (is_run && !crn_step_is_permitted(cairn_graph_op(graph, step->id), step))
        return crn_fail_at(err, CAIRN_EINVAL, cairn_graph_op(graph, step->id)->name,
                           "step %u runs op \"%s\" in place where the op does not allow it", number,
                           cairn_graph_op(graph, step->id)->name);
    return CAIRN_OK;
}

cairn_status crn_plan_builder_finish(crn_plan_builder *builder, const cairn_graph *graph,
                                     const cairn_plan_header *given, cairn_plan **out,
                                     cairn_error *err) {
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_plan_header, header, given, err);
    crn_plan *plan = builder->plan;
    if (plan == NULL)
        return crn_fail(err, CAIRN_EINVAL, "the plan builder has been finished already");
    for (uint32_t i = 0; i < plan->steps.length; i++)
        CRN_TRY(check_step(graph, &plan->steps.data[i], i, err));
    plan->header = header;
    plan->header.graph_hash = crn_graph_hash(graph);
    builder->plan = NULL;
    *out = show(plan);
    return CAIRN_OK;
}

void crn_plan_mark_reads(const cairn_graph *graph, const cairn_plan *plan, bool *changed,
                         bool *reads_only) {
    for (uint32_t i = plan->step_count; i-- > 0;) {
        const cairn_step *step = &plan->steps[i];
        if (step->kind == CAIRN_STEP_RUN) {
            const cairn_op *op = cairn_graph_op(graph, step->id);
            for (uint32_t k = 0; k < op->param_count && crn_op_updates(op); k++)
                changed[op->params[k]] = true;
        } else if (step->kind == CAIRN_STEP_OFFLOAD) {
            changed[step->id] = true; /* all of it is copied home */
        } else if (step->kind == CAIRN_STEP_FETCH || step->kind == CAIRN_STEP_FREE) {
            reads_only[i] = step->kind == CAIRN_STEP_FETCH && !changed[step->id];
            changed[step->id] = false;
        }
    }
}
