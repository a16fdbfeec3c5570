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
    return crn_fail_at(err, CAIRN_EUNKNOWN, name,
                       "there is no backend \"%.64s\"; the backends are %s", name, known);
}

uint32_t cairn_count_threads(uint32_t threads) {
    if (threads > 0)
        return threads;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (uint32_t)CRN_MIN(processors, 256) : 1;
}

/* The implementations of one op, each with the analytic time that `costs` has. */
static cairn_status bind_op(const crn_backend *backend, const crn_site *site, cairn_costs *costs,
                            cairn_id id, cairn_error *err) {
    const crn_kernel *choices[CRN_MOST_CHOICES];
    cairn_implementation list[CRN_MOST_CHOICES];
    uint32_t analytic, count = crn_backend_choices(backend, site, choices, CRN_MOST_CHOICES);
    int64_t time = cairn_costs_op(costs, id, &analytic)->time_ns;
    if (count == 0)
        return crn_fail_at(err, CAIRN_EINVAL, site->op->name,
                           "backend \"%s\" has no implementation of op \"%s\" (%s)", backend->name,
                           site->op->name, cairn_op_kind_name(site->op->kind));
    for (uint32_t i = 0; i < count; i++)
        list[i] = (cairn_implementation){.name = choices[i]->name,
                                         .time_ns = time,
                                         .workspace_bytes = crn_kernel_workspace(choices[i], site)};
    return cairn_costs_set_op(costs, id, list, count);
}

static cairn_status bind_all(const crn_backend *backend, crn_site *site, cairn_costs *costs,
                             cairn_error *err) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(site->graph); t++)
        cairn_costs_set_bytes(costs, t, site->storage[t].bytes);
    for (cairn_id o = 0; o < cairn_graph_op_count(site->graph); o++) {
        site->op = cairn_graph_op(site->graph, o);
        CRN_TRY(bind_op(backend, site, costs, o, err));
    }
    return CAIRN_OK;
}

/* Bytes and implementations of `backend` in place of those that `costs` has. */
static cairn_status put_over(const cairn_graph *graph, const crn_backend *backend, uint32_t threads,
                             cairn_costs *costs, cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    crn_arena_init(&scratch, &allocator);
    crn_storage *storage =
        crn_arena_take(&scratch, cairn_graph_tensor_count(graph), sizeof *storage);
    crn_site site = {.graph = graph, .storage = storage, .threads = cairn_count_threads(threads)};
    cairn_status status =
        storage == NULL ? CAIRN_ENOMEM : crn_backend_store(backend, graph, storage);
    if (status == CAIRN_OK)
        status = bind_all(backend, &site, costs, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_bind(const cairn_graph *graph, const crn_backend *backend, uint32_t threads,
                      cairn_costs **out, cairn_error *err) {
    cairn_machine machine;
    cairn_costs *costs;
    *out = NULL;
    CRN_TRY(cairn_machine_find("cpu", &machine, err));
    CRN_TRY(cairn_costs_analytic(graph, &machine, &costs, err));
    cairn_status status = put_over(graph, backend, threads, costs, err);
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
