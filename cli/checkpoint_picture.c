/* checkpoint_picture.c: a network with its checkpoints, as the papers' supplement draws them. */
#include "cairn/papers.h"
#include "picture.h"

#include <stdio.h>
#include <string.h>

static bool is_search(const char *name) {
    const cairn_acg_algorithm *a;
    for (uint32_t i = 0; (a = cairn_acg_algorithm_list(i)) != NULL; i++)
        if (strcmp(a->name, name) == 0)
            return true;
    return false;
}

int cli_draw_checkpoints(const cli_model *model, const char *algorithm, uint64_t seed,
                         const char *path) {
    cairn_error err = {0};
    cairn_dag_view *view = NULL;
    cairn_acg_solution *ours = NULL, *chens = NULL;
    cairn_text text = {0};
    cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
    options.seed = seed;
    if (!is_search(algorithm)) {
        fprintf(stderr, "cairn: algorithm \"%s\" chooses no checkpoints to draw; feng does\n",
                algorithm);
        return CLI_WRONG_INPUT;
    }
    cairn_status status =
        cairn_dag_view_create(model->graph, cairn_costs_bytes(model->costs), &view, &err);
    if (status == CAIRN_OK)
        status = cairn_acg_solve(NULL, &view->dag, algorithm, &options, &ours, &err);
    /* Chen's search is for chains; elsewhere there is no second set to compare with. */
    if (status == CAIRN_OK &&
        cairn_acg_solve(NULL, &view->dag, "chen", &options, &chens, NULL) != CAIRN_OK)
        chens = NULL;
    bool is_chens = strcmp(algorithm, "chen") == 0;
    if (status == CAIRN_OK)
        status = cairn_checkpoints_to_dot(model->graph, view, is_chens ? NULL : ours, chens, &text);
    int code = status == CAIRN_OK ? cli_draw(&text, path) : cli_fail(status, &err);
    cairn_acg_solution_destroy(chens);
    cairn_acg_solution_destroy(ours);
    cairn_dag_view_destroy(view);
    return code;
}
