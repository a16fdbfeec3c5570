/* profile_plan.c: the plan whose steps a profile runs. */
#include "base/host_memory.h"
#include "exec/profile_internal.h"
#include "plan/crn_plan.h"

/* The free memory of a device: its own, or that of the machine; UINT64_MAX: not known. */
static uint64_t free_memory(const cairn_device *device) {
    uint64_t bytes =
        device->facts.separate_memory ? device->facts.memory_bytes : crn_host_memory_free();
    return bytes == 0 ? UINT64_MAX : bytes;
}

/* The plan of one algorithm if it fits `budget`, else CAIRN_INFEASIBLE. */
static cairn_status try_algorithm(const crn_profiler *p, const char *name, uint64_t budget,
                                  cairn_solution **out) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = strcmp(name, "none") == 0 ? 0 : budget;
    CRN_TRY(cairn_solve(p->graph, p->costs, name, &options, out, p->err));
    uint64_t arena = (*out)->layout->arena_bytes;
    if (arena <= budget)
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    return crn_fail(p->err, CAIRN_INFEASIBLE,
                    "a step needs %llu bytes beside the parameters, and %llu are free",
                    (unsigned long long)arena, (unsigned long long)budget);
}

cairn_status crn_profile_plan(const crn_profiler *p, cairn_solution **out) {
    static const char *const algorithms[] = {"none", "precise", "pieces", "feng"};
    uint64_t memory = p->options.memory_bytes, stationary;
    cairn_status status = CAIRN_INFEASIBLE;
    if (memory == 0)
        memory = free_memory(p->device);
    stationary = cairn_stationary_bytes(p->graph, p->costs, 1);
    uint64_t budget = memory > stationary ? memory - stationary : 1;
    *out = NULL;
    for (size_t i = 0; i < CRN_LENGTH(algorithms); i++) {
        status = try_algorithm(p, algorithms[i], budget, out);
        if (status != CAIRN_INFEASIBLE && (i == 0 || status != CAIRN_EINVAL))
            return status;
    }
    return status == CAIRN_EINVAL ? CAIRN_INFEASIBLE : status;
}

cairn_status crn_profile_tight_plan(const crn_profiler *p, const cairn_solution *usual,
                                    cairn_solution **out) {
    cairn_status status = CAIRN_INFEASIBLE;
    uint64_t eighth = usual->layout->arena_bytes / 8;
    *out = NULL;
    for (uint32_t eighths = 2; eighths < 8 && status == CAIRN_INFEASIBLE; eighths++)
        status = try_algorithm(p, "auto", CRN_MAX(eighths * eighth, 1), out);
    if (status != CAIRN_INFEASIBLE)
        return status;
    crn_error_clear(p->err);
    return CAIRN_OK;
}

cairn_status crn_profile_vary(const crn_profiler *p, const cairn_plan *plan, uint32_t k,
                              cairn_solution **out) {
    crn_plan_builder *builder;
    cairn_plan *varied = NULL;
    uint32_t choices;
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    *out = NULL;
    cairn_status status = crn_plan_builder_create(&p->memory.allocator, &builder);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++) {
        cairn_step step = steps[i];
        if (step.kind == CAIRN_STEP_RUN) {
            cairn_costs_op(p->costs, step.id, &choices);
            step.implementation = (uint8_t)(k < choices ? k : 0);
        }
        status = crn_plan_builder_add(builder, step);
    }
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, p->graph, plan->header, &varied, p->err);
    if (status == CAIRN_OK)
        status = cairn_solution_create(p->graph, p->costs, varied, NULL, out, p->err);
    cairn_plan_destroy(varied);
    crn_plan_builder_destroy(builder);
    return status;
}
