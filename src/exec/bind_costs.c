/* bind_costs.c: costs as a backend really stores and runs things. */
#include "exec/exec_internal.h"

#include <stdio.h>
#include <unistd.h>

const char *cairn_backend_list(uint32_t index, const char **summary) {
    const crn_backend *backend = crn_backend_list(index);
    if (backend != NULL && summary != NULL)
        *summary = backend->summary;
    return backend == NULL ? NULL : backend->name;
}

cairn_status crn_find_backend(const char *name, const crn_backend **out, cairn_error *err) {
    *out = crn_backend_find(name);
    if (*out != NULL)
        return CAIRN_OK;
    char known[200] = "";
    const crn_backend *backend;
    for (uint32_t i = 0; (backend = crn_backend_list(i)) != NULL; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", backend->name);
    }
    return crn_fail_at(err, CAIRN_EUNKNOWN, name, "there is no backend \"%.64s\"; there are %s",
                       name, known);
}

/* As the thread pool counts: 0 is one per processor. */
static uint32_t count_threads(uint32_t threads) {
    if (threads > 0)
        return threads;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (uint32_t)CRN_MIN(processors, 256) : 1;
}

/* The implementations of one op, each with the analytic time that `costs` has. */
static cairn_status bind_op(const cairn_graph *graph, const crn_backend *backend, uint32_t threads,
                            cairn_costs *costs, cairn_id id, cairn_error *err) {
    const cairn_op *op = cairn_graph_op(graph, id);
    const crn_kernel *choices[CRN_MOST_CHOICES];
    cairn_implementation list[CRN_MOST_CHOICES];
    uint32_t analytic, count = crn_backend_choices(backend, graph, op, choices, CRN_MOST_CHOICES);
    int64_t time = cairn_costs_op(costs, id, &analytic)->time_ns;
    if (count == 0)
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "backend \"%s\" has no implementation of op \"%s\" (%s)", backend->name,
                           op->name, cairn_op_kind_name(op->kind));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t workspace = 0;
        if (choices[i]->workspace != NULL)
            workspace = choices[i]->workspace(graph, op, threads);
        list[i] = (cairn_implementation){choices[i]->name, time, workspace};
    }
    return cairn_costs_set_op(costs, id, list, count);
}

static cairn_status bind_ops(const cairn_graph *graph, const crn_backend *backend, uint32_t threads,
                             cairn_costs *costs, cairn_error *err) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        cairn_status status = bind_op(graph, backend, threads, costs, o, err);
        if (status != CAIRN_OK)
            return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    return CAIRN_OK;
}

cairn_status crn_bind(const cairn_graph *graph, const crn_backend *backend, uint32_t threads,
                      cairn_costs **out, cairn_error *err) {
    cairn_machine machine;
    cairn_costs *costs;
    *out = NULL;
    CRN_TRY(cairn_machine_find("cpu", &machine, err));
    CRN_TRY(cairn_costs_analytic(graph, &machine, &costs, err));
    cairn_status status = bind_ops(graph, backend, count_threads(threads), costs, err);
    if (status != CAIRN_OK) {
        cairn_costs_destroy(costs);
        return status;
    }
    *out = costs;
    return CAIRN_OK;
}

cairn_status cairn_bind(const cairn_graph *graph, const char *backend_name, uint32_t threads,
                        cairn_costs **out, cairn_error *err) {
    const crn_backend *backend;
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(crn_find_backend(backend_name, &backend, err));
    return crn_bind(graph, backend, threads, out, err);
}
