/* plan_resnet.c: how much memory does a training step of ResNet-50 need, and where does each tensor
 * lie? The whole way from a network to addresses, in one page.
 *
 *     cc plan_resnet.c $(pkg-config --cflags --libs cairn) -o plan_resnet && ./plan_resnet
 */
#include <cairn.h>

#include <inttypes.h>
#include <stdio.h>

/* Everything made on the way, so that one function can release it, whatever was reached. Every
 * destroy function takes NULL. */
typedef struct everything {
    cairn_graph *forward, *step;
    cairn_costs *costs;
    cairn_solution *solution;
} everything;

static void release(everything *all) {
    cairn_solution_destroy(all->solution);
    cairn_costs_destroy(all->costs);
    cairn_graph_destroy(all->step);
    cairn_graph_destroy(all->forward);
}

static cairn_status make(everything *all, cairn_error *err) {
    /* A network of the zoo: zero fields of the options mean its defaults. A graph of your own comes
     * from cairn_builder_create() or cairn_graph_from_json(). */
    cairn_zoo_options network = CAIRN_ZOO_OPTIONS_INIT;
    network.batch = 32;
    cairn_status status = cairn_zoo_build(NULL, "resnet50", &network, &all->forward, err);
    if (status != CAIRN_OK)
        return status;

    /* The forward pass becomes a whole training step: backward ops and gradients are ops and
     * tensors like the others. */
    status = cairn_graph_differentiate(all->forward, NULL, &all->step, err);
    if (status != CAIRN_OK)
        return status;

    /* What each op costs on a machine. Measured figures could be merged over these. */
    cairn_machine machine;
    status = cairn_machine_find("v100", &machine, err);
    if (status == CAIRN_OK)
        status = cairn_costs_analytic(all->step, &machine, &all->costs, err);
    if (status != CAIRN_OK)
        return status;

    /* A solution: the plan, which is the order of ops and when each tensor is given back; what the
     * simulator says that it needs; and a layout, which gives every tensor its place. */
    return cairn_solve(all->step, all->costs, "none", NULL, &all->solution, err);
}

int main(void) {
    everything all = {0};
    cairn_error err;
    cairn_status status = make(&all, &err);
    if (status == CAIRN_OK) {
        const cairn_sim_summary *result = cairn_sim_result(all.solution->sim);
        printf("peak %" PRIu64 " bytes\n", result->peak_bytes);
        printf("arena %" PRIu64 " bytes\n", cairn_layout_arena_bytes(all.solution->layout));
        printf("time %" PRId64 " ns\n", result->time_ns);
    } else {
        char text[1024];
        fprintf(stderr, "%s\n", cairn_error_text(&err, text, sizeof text));
    }
    release(&all);
    return status != CAIRN_OK;
}
