/* plan_page.c: the page of one plan, beside plain training and, if asked for, another plan. */
#include "cairn/page.h"
#include "plan_page.h"
#include "planning.h"

#include <string.h>

/* The smallest budget with which the algorithm of a plan still has one, with the `stationary`
 * memory that plans do not decide about, and the op that sets it: what it says when it gets a byte.
 */
static void find_smallest(const cli_model *model, const char *algorithm, uint64_t stationary,
                          cairn_error *said, cairn_page_entry *entry) {
    cairn_solution *solution;
    if (cli_solve(model, algorithm, 1, 1, &solution, said) == CAIRN_INFEASIBLE) {
        entry->smallest_budget =
            said->smallest_budget + (model->header.updates > 0 ? 0 : stationary);
        entry->smallest_op = said->name;
    }
    cairn_solution_destroy(solution);
}

static cairn_status add_against(cairn_page *page, const cli_model *model, const char *path,
                                cairn_error *err) {
    cairn_text text;
    cairn_solution *solution;
    cairn_page_entry entry = CAIRN_PAGE_ENTRY_INIT;
    const char *slash = strrchr(path, '/');
    entry.name = slash != NULL ? slash + 1 : path;
    entry.against = true;
    cairn_status status = cairn_text_load(NULL, path, &text, err);
    if (status != CAIRN_OK)
        return status;
    status = cli_judge_plan(model, path, &text, &solution, err);
    if (status == CAIRN_OK)
        status = cairn_page_add(page, solution, &entry);
    cairn_solution_destroy(solution);
    cairn_text_release(&text);
    return status;
}

static cairn_status fill_page(cairn_page *page, const cli_args *args, const cli_model *model,
                              const cairn_solution *solution, uint64_t stationary,
                              cairn_page_entry *entry, cairn_error *err) {
    const char *against = cli_value(args, "against");
    const cairn_plan_header *header = solution->plan->header;
    cairn_error said = {0};
    find_smallest(model, header->algorithm, stationary, &said, entry);
    cairn_status status = cairn_page_add(page, solution, entry);
    if (status == CAIRN_OK && against != NULL)
        status = add_against(page, model, against, err);
    if (status == CAIRN_OK && header->goal == CAIRN_GOAL_TRAIN)
        status = cairn_page_add_none(page, err);
    return status;
}

int cli_write_page(const cli_args *args, const cli_model *model, const cairn_solution *solution,
                   uint64_t stationary, uint64_t budget, const cairn_sim_step *measured) {
    const char *path = cli_value(args, "html");
    if (path == NULL)
        return cli_value(args, "against") == NULL ? CLI_DONE
                                                  : cli_usage_error(args, "--against needs --html");
    cairn_error err = {0};
    cairn_page *page;
    cairn_text text;
    cairn_page_options options = CAIRN_PAGE_OPTIONS_INIT;
    cairn_page_entry entry = CAIRN_PAGE_ENTRY_INIT;
    options.machine = model->machine.name;
    options.stationary_bytes = stationary;
    entry.budget_bytes = budget;
    entry.measured = measured;
    cairn_status status = cairn_page_create(model->graph, model->costs, &options, &page);
    if (status == CAIRN_OK)
        status = fill_page(page, args, model, solution, stationary, &entry, &err);
    if (status == CAIRN_OK)
        status = cairn_page_write(page, &text);
    cairn_page_destroy(page);
    return status == CAIRN_OK ? cli_emit(&text, path) : cli_fail(status, &err);
}
