/* sim_operands.c: the lifetime that holds each operand of each step. With a layout of the lifetimes
 * it gives the address of every operand.
 *
 *     run OP      inputs, outputs, workspace, params
 *     any other   the tensor */
#include "sim/crn_sim.h"
#include "sim/sim_walk.h"

static uint32_t operand_count(const cairn_graph *graph, const cairn_step *step) {
    if (step->kind != CAIRN_STEP_RUN)
        return 1;
    const cairn_op *op = cairn_graph_op(graph, step->id);
    return op->input_count + op->output_count + 1 + op->param_count;
}

cairn_status crn_sim_keep_operands(crn_sim_walk *w) {
    crn_sim *sim = w->sim;
    const cairn_step *steps = w->plan->steps;
    uint32_t count = w->plan->step_count;
    CRN_TAKE(&sim->arena, sim->first_operand, (size_t)count + 1);
    for (uint32_t i = 0; i < count; i++)
        sim->first_operand[i + 1] = sim->first_operand[i] + operand_count(w->graph, &steps[i]);
    CRN_TAKE(&sim->arena, sim->operands, sim->first_operand[count]);
    memset(sim->operands, 0xff, sim->first_operand[count] * sizeof *sim->operands);
    return CAIRN_OK;
}

void crn_sim_note_lifetime(crn_sim_walk *w, uint32_t operand, uint32_t lifetime) {
    if (w->sim->first_operand != NULL && !w->find_holders)
        w->sim->operands[w->sim->first_operand[w->step] + operand] = lifetime;
}

void crn_sim_note_tensors(crn_sim_walk *w, uint32_t operand, const cairn_id *tensors,
                          uint32_t count) {
    if (w->sim->first_operand == NULL || w->find_holders)
        return;
    uint32_t *to = w->sim->operands + w->sim->first_operand[w->step] + operand;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = tensors[i] == CAIRN_NONE ? NO_STORAGE : w->places[tensors[i]].storage;
        to[i] = s == NO_STORAGE ? CAIRN_NONE : w->storages.data[s].lifetime;
    }
}

uint32_t crn_sim_operand(const cairn_sim *seen, uint32_t step, uint32_t operand) {
    const crn_sim *sim = (const crn_sim *)seen;
    if (step >= sim->step_count ||
        operand >= sim->first_operand[step + 1] - sim->first_operand[step])
        return CAIRN_NONE;
    return sim->operands[sim->first_operand[step] + operand];
}
