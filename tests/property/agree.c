/* agree.c: see agree.h. */
#include "graph/crn_graph.h"
#include "property/agree.h"
#include "sim/crn_sim.h"
#include "base/crn_base.h"
#include "plan/crn_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cairn_plan *agree_plan(const cairn_graph *graph, const cairn_step *steps, uint32_t count,
                       cairn_goal goal) {
    cairn_error err = {0};
    crn_plan_builder *builder;
    cairn_plan *plan = NULL;
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    header.goal = goal;
    cairn_status status = crn_plan_builder_create(NULL, &builder);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++)
        status = crn_plan_builder_add(builder, steps[i]);
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, graph, &header, &plan, &err);
    crn_plan_builder_destroy(builder);
    if (status != CAIRN_OK) {
        fprintf(stderr, "agree_plan: %s: %s\n", crn_status_name(status), err.message);
        exit(1);
    }
    return plan;
}

static bool same(const char *what, uint64_t real, uint64_t naive) {
    if (real != naive)
        fprintf(stderr, "  %s: %" PRIu64 ", the naive simulator says %" PRIu64 "\n", what, real,
                naive);
    return real == naive;
}

static bool same_step(uint32_t i, const cairn_sim_step *real, const cairn_sim_step *naive) {
    bool equal = real->bytes == naive->bytes && real->start_ns == naive->start_ns &&
                 real->end_ns == naive->end_ns;
    if (!equal)
        fprintf(stderr,
                "  step %u: %" PRIu64 " bytes, %" PRId64 " to %" PRId64
                " ns; the naive simulator says %" PRIu64 ", %" PRId64 " to %" PRId64 "\n",
                i, real->bytes, real->start_ns, real->end_ns, naive->bytes, naive->start_ns,
                naive->end_ns);
    return equal;
}

static bool same_totals(const cairn_sim_summary *s, const naive_sim *n) {
    bool good = same("peak", s->peak_bytes, n->peak_bytes);
    good = same("peak step", s->peak_step, n->peak_step) && good;
    good = same("host", s->host_bytes, n->host_bytes) && good;
    good = same("time", (uint64_t)s->time_ns, (uint64_t)n->time_ns) && good;
    good = same("compute", (uint64_t)s->compute_ns, (uint64_t)n->compute_ns) && good;
    good = same("idle", (uint64_t)s->idle_ns, (uint64_t)n->idle_ns) && good;
    good = same("copies out", (uint64_t)s->copy_out_ns, (uint64_t)n->copy_out_ns) && good;
    good = same("copies in", (uint64_t)s->copy_in_ns, (uint64_t)n->copy_in_ns) && good;
    good = same("time of re-runs", (uint64_t)s->rerun_ns, (uint64_t)n->rerun_ns) && good;
    good = same("runs", s->runs, n->runs) && good;
    good = same("re-runs", s->reruns, n->reruns) && good;
    good = same("offloads", s->offloads, n->offloads) && good;
    return same("fetches", s->fetches, n->fetches) && good;
}

static bool same_holders(const cairn_sim *sim, const naive_sim *n) {
    const cairn_holder *holders = sim->holders;
    uint32_t count = sim->holder_count;
    bool good = same("holders", count, n->holder_count);
    for (uint32_t i = 0; i < count && good; i++)
        good = same("holder's bytes", holders[i].bytes, n->holders[i].bytes) &&
               same("holder", holders[i].tensor, n->holders[i].tensor);
    return good;
}

/* Whether the lifetimes at every step add up to the bytes of the step. If step 0 is a free, the
 * memory before it counts there. */
static bool lifetimes_add_up(const cairn_sim *sim, const cairn_step *plan_steps,
                             const naive_sim *n) {
    const cairn_lifetime *l = sim->lifetimes;
    uint32_t lifetimes = sim->lifetime_count;
    const cairn_sim_step *s = sim->steps;
    uint32_t steps = sim->step_count;
    bool good = true;
    for (uint32_t i = 0; i < steps && good; i++) {
        uint64_t sum = 0, bytes = s[i].bytes;
        for (uint32_t k = 0; k < lifetimes; k++)
            sum += l[k].first <= i && i <= l[k].last ? l[k].bytes : 0;
        if (i == 0 && plan_steps[0].kind == CAIRN_STEP_FREE)
            bytes = n->start_bytes;
        good = same("sum of lifetimes", sum, bytes);
    }
    return good;
}

/* ---- Operands: by following each tensor through a legal plan ---- */

typedef struct follower {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_sim *sim;
    const cairn_lifetime *lifetimes;
    uint32_t *in; /* per tensor: its lifetime, or CAIRN_NONE */
    bool *homed;  /* per tensor: stationary, and at home on the host */
    uint32_t step;
    bool good;
} follower;

static uint32_t operand(follower *f, uint32_t index, cairn_id tensor) {
    uint32_t lifetime = crn_sim_operand(f->sim, f->step, index);
    bool placed = tensor != CAIRN_NONE &&
                  (f->homed[tensor] || !cairn_graph_tensor(f->graph, tensor)->stationary);
    f->good = f->good && same("operand has a lifetime", lifetime != CAIRN_NONE, placed);
    if (placed && f->good) {
        const cairn_lifetime *l = &f->lifetimes[lifetime];
        f->good = same("first step", l->first <= f->step, true) &&
                  same("last step", l->last == UINT32_MAX || f->step <= l->last + 1, true) &&
                  same("room", cairn_costs_bytes(f->costs)[tensor] <= l->bytes, true);
    }
    return lifetime;
}

static void follow_output(follower *f, const cairn_op *op, uint32_t o, cairn_id shared) {
    cairn_id t = op->outputs[o];
    uint32_t lifetime = operand(f, op->input_count + o, t);
    if (t == CAIRN_NONE || !f->good)
        return;
    for (uint32_t i = 0; i < op->input_count && shared == CAIRN_NONE; i++)
        if (cairn_graph_tensor(f->graph, t)->alias_of != CAIRN_NONE &&
            crn_graph_storage(f->graph, op->inputs[i]) == crn_graph_storage(f->graph, t))
            shared = op->inputs[i];
    if (f->in[t] != CAIRN_NONE) /* overwritten in its place */
        f->good = same("lifetime of what is there", lifetime, f->in[t]);
    else if (shared != CAIRN_NONE)
        f->good = same("lifetime shared", lifetime, f->in[shared]);
    else if (lifetime != CAIRN_NONE)
        f->good = same("lifetime of what is new", f->lifetimes[lifetime].first, f->step) &&
                  same("tensor of what is new", f->lifetimes[lifetime].tensor, t);
    f->in[t] = lifetime;
}

static void follow_run(follower *f, cairn_step step) {
    const cairn_op *op = cairn_graph_op(f->graph, step.id);
    cairn_id over[16]; /* per output: the operand whose storage it takes */
    for (uint32_t o = 0; o < op->output_count; o++)
        over[o] = CAIRN_NONE;
    const uint8_t used[] = {step.inplace, step.also};
    for (uint32_t k = 0; k < 2; k++)
        if (used[k] > 0)
            over[op->inplace[used[k] - 1].output] = op->inputs[op->inplace[used[k] - 1].input];
    for (uint32_t i = 0; i < op->input_count && f->good; i++)
        f->good = same("input", operand(f, i, op->inputs[i]), f->in[op->inputs[i]]) && f->good;
    for (uint32_t o = 0; o < op->output_count && f->good; o++)
        follow_output(f, op, o, over[o]);
    for (uint32_t o = 0; o < op->output_count; o++)
        if (over[o] != CAIRN_NONE)
            f->in[over[o]] = CAIRN_NONE;
    uint32_t count, last = op->input_count + op->output_count;
    for (uint32_t i = 0; i < op->param_count && f->good; i++)
        f->good =
            same("param", operand(f, last + 1 + i, op->params[i]), f->in[op->params[i]]) && f->good;
    bool wants = cairn_costs_op(f->costs, step.id, &count)[step.implementation].workspace_bytes > 0;
    uint32_t workspace = crn_sim_operand(f->sim, f->step, last);
    f->good = f->good && same("workspace", workspace != CAIRN_NONE, wants) &&
              same("past the end", crn_sim_operand(f->sim, f->step, last + 1 + op->param_count),
                   CAIRN_NONE);
    if (wants && f->good)
        f->good = same("workspace is for one step", f->lifetimes[workspace].last, f->step);
}

/* The lifetimes of inputs come first in the list, in the order of tensors. */
static void follow_inputs(follower *f, cairn_goal goal) {
    uint32_t next = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(f->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(f->graph, t);
        bool there = tensor->role == CAIRN_ROLE_INPUT ||
                     (tensor->role == CAIRN_ROLE_LABEL && goal == CAIRN_GOAL_TRAIN);
        f->in[t] = there && !tensor->stationary ? next++ : CAIRN_NONE;
    }
}

static bool operands_follow(const cairn_graph *graph, const cairn_costs *costs,
                            const cairn_plan *plan, const cairn_sim *sim) {
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    follower f = {.graph = graph, .costs = costs, .sim = sim, .good = true};
    f.lifetimes = sim->lifetimes;
    f.in = calloc(cairn_graph_tensor_count(graph) + 1, sizeof *f.in);
    f.homed = calloc(cairn_graph_tensor_count(graph) + 1, sizeof *f.homed);
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].kind == CAIRN_STEP_FETCH)
            f.homed[steps[i].id] = cairn_graph_tensor(graph, steps[i].id)->stationary;
    follow_inputs(&f, plan->header->goal);
    for (; f.step < count && f.good; f.step++) {
        cairn_step step = steps[f.step];
        if (step.kind == CAIRN_STEP_RUN) {
            follow_run(&f, step);
            continue;
        }
        uint32_t lifetime = operand(&f, 0, step.id);
        if (step.kind == CAIRN_STEP_FETCH)
            f.good = f.good && same("fetched", f.lifetimes[lifetime].first, f.step);
        else
            f.good = f.good && same("moved", lifetime, f.in[step.id]);
        f.in[step.id] = step.kind == CAIRN_STEP_FREE ? CAIRN_NONE : lifetime;
    }
    free(f.in);
    free(f.homed);
    return f.good && same("no such step", crn_sim_operand(sim, count, 0), CAIRN_NONE);
}

static bool compare(const cairn_plan *plan, const cairn_sim *sim, cairn_status status,
                    const cairn_error *err, const naive_sim *n) {
    const cairn_sim_summary *s = sim->summary;
    const cairn_step *plan_steps = plan->steps;
    uint32_t steps = plan->step_count;
    const cairn_sim_step *recorded = sim->steps;
    uint32_t count = sim->step_count;
    bool legal = n->broken_count == 0;
    bool good = same("steps", count, steps);
    good = same("status", (uint64_t)status, (uint64_t)(legal ? CAIRN_OK : CAIRN_EINVAL)) && good;
    for (uint32_t i = 0; i < n->step_count && good; i++)
        good = same_step(i, &recorded[i], &n->steps[i]);
    if (!good)
        return false;
    if (!legal)
        return same("rule", s->rule, n->broken[0].rule) &&
               same("broken step", s->broken_step, n->broken_step) &&
               same("culprit", s->culprit, n->broken[0].culprit) &&
               same("sentence", err->message[0] != '\0', true);
    return same("rule", s->rule, CAIRN_RULE_NONE) && same_totals(s, n) && same_holders(sim, n) &&
           lifetimes_add_up(sim, plan_steps, n);
}

bool agree(const cairn_graph *graph, const cairn_costs *costs, const cairn_plan *plan,
           const cairn_sim_options *options, cairn_rule *rule, naive_sim *out) {
    cairn_error err = {0};
    cairn_sim *sim;
    naive_sim naive;
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    cairn_status status = cairn_simulate(graph, costs, plan, options, &sim, &err);
    if (sim == NULL) {
        fprintf(stderr, "agree: %s: %s\n", crn_status_name(status), err.message);
        exit(1);
    }
    naive_simulate(graph, costs, steps, count, plan->header->goal, options, &naive);
    bool good = compare(plan, sim, status, &err, &naive) &&
                (status != CAIRN_OK || operands_follow(graph, costs, plan, sim));
    if (!good) {
        cairn_text text;
        fprintf(stderr, "  the simulators differ; step %u, %s against %s: %s\n",
                sim->summary->broken_step, crn_rule_name(sim->summary->rule),
                crn_rule_name(naive.broken_count > 0 ? naive.broken[0].rule : CAIRN_RULE_NONE),
                err.message);
        if (count < 200 && cairn_plan_to_text(plan, graph, &text) == CAIRN_OK) {
            fprintf(stderr, "%s\n", text.data);
            cairn_text_release(&text);
        }
    }
    if (rule != NULL)
        *rule = sim->summary->rule;
    if (out != NULL)
        *out = naive;
    else
        naive_release(&naive);
    cairn_sim_destroy(sim);
    return good;
}
