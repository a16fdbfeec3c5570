/* dnn_graphs.c: see dnn_graphs.h. */
#include "backend/cuda/dnn_graphs.h"

typedef cudnnBackendDescriptor_t descriptor;

descriptor crn_dnn_make(crn_dnn_work *w, int kind) {
    descriptor out = NULL;
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendCreateDescriptor(kind, &out);
    if (w->failed == 0)
        w->made[w->count++] = out;
    return out;
}

void crn_dnn_set(crn_dnn_work *w, descriptor d, int name, int type, int64_t count,
                 const void *values) {
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendSetAttribute(d, name, type, count, values);
}

void crn_dnn_finish(crn_dnn_work *w, descriptor d) {
    if (w->failed == 0)
        w->failed = w->dnn->api->cudnnBackendFinalize(d);
}

void crn_dnn_release(crn_dnn_work *w) {
    while (w->count > 0)
        crn_dnn_drop(w->dnn, w->made[--w->count]);
}

void crn_dnn_drop(const crn_dnn *dnn, descriptor d) {
    if (d != NULL)
        (void)dnn->api->cudnnBackendDestroyDescriptor(d);
}

cairn_status crn_dnn_fail(const crn_dnn *dnn, int status, const char *what, cairn_error *err) {
    char why[256] = "";
    dnn->api->cudnnGetLastErrorString(why, sizeof why);
    return crn_fail(err, CAIRN_ESYSTEM, "cuDNN cannot %s: %s%s%s", what,
                    dnn->api->cudnnGetErrorString(status), why[0] != 0 ? ": " : "", why);
}

descriptor crn_dnn_graph(crn_dnn_work *w, const descriptor *ops, uint32_t count) {
    descriptor graph = crn_dnn_make(w, CRN_DNN_GRAPH);
    crn_dnn_set(w, graph, CRN_DNN_GRAPH_OPS, CRN_DNN_DESCRIPTOR, count, ops);
    if (w->dnn->handle != NULL)
        crn_dnn_set(w, graph, CRN_DNN_GRAPH_HANDLE, CRN_DNN_HANDLE_TYPE, 1, &w->dnn->handle);
    crn_dnn_finish(w, graph);
    return graph;
}

int64_t crn_dnn_configs(crn_dnn_work *w, descriptor graph, descriptor *out) {
    static const int mode = CRN_DNN_HEURISTIC_A;
    const crn_dnn *dnn = w->dnn;
    descriptor heuristic = crn_dnn_make(w, CRN_DNN_HEURISTIC);
    int64_t count = 0, made = 0;
    crn_dnn_set(w, heuristic, CRN_DNN_HEUR_GRAPH, CRN_DNN_DESCRIPTOR, 1, &graph);
    crn_dnn_set(w, heuristic, CRN_DNN_HEUR_MODE, CRN_DNN_HEURISTIC_TYPE, 1, &mode);
    if (dnn->handle == NULL)
        crn_dnn_set(w, heuristic, CRN_DNN_HEUR_DEVICE, CRN_DNN_DESCRIPTOR, 1, &dnn->device);
    crn_dnn_finish(w, heuristic);
    while (w->failed == 0 && made < CRN_DNN_MOST_CONFIGS &&
           (w->failed = dnn->api->cudnnBackendCreateDescriptor(CRN_DNN_CONFIG, &out[made])) == 0)
        made++;
    if (w->failed == 0)
        w->failed = dnn->api->cudnnBackendGetAttribute(
            heuristic, CRN_DNN_HEUR_RESULTS, CRN_DNN_DESCRIPTOR, CRN_DNN_MOST_CONFIGS, &count, out);
    for (int64_t i = w->failed != 0 ? 0 : count; i < made; i++)
        crn_dnn_drop(dnn, out[i]);
    return w->failed != 0 ? 0 : count;
}

bool crn_dnn_engine(const crn_dnn *dnn, descriptor config, int64_t *engine, int *notes,
                    int64_t most, int64_t *count) {
    crn_dnn_work w = {.dnn = dnn};
    descriptor at = crn_dnn_make(&w, CRN_DNN_ENGINE);
    int64_t one;
    *count = 0;
    bool found = w.failed == 0 &&
                 dnn->api->cudnnBackendGetAttribute(config, CRN_DNN_CONFIG_ENGINE,
                                                    CRN_DNN_DESCRIPTOR, 1, &one, &at) == 0 &&
                 dnn->api->cudnnBackendGetAttribute(at, CRN_DNN_ENGINE_INDEX, CRN_DNN_INT64, 1,
                                                    &one, engine) == 0;
    if (found && dnn->api->cudnnBackendGetAttribute(at, CRN_DNN_ENGINE_NOTES, CRN_DNN_NOTE_TYPE,
                                                    most, count, notes) != 0)
        *count = 0;
    crn_dnn_release(&w);
    return found;
}

bool crn_dnn_finish_plan(const crn_dnn *dnn, descriptor config, crn_dnn_plan *out) {
    crn_dnn_work w = {.dnn = dnn};
    int64_t one, workspace = 0;
    descriptor plan = crn_dnn_make(&w, CRN_DNN_PLAN);
    crn_dnn_set(&w, plan, CRN_DNN_PLAN_CONFIG, CRN_DNN_DESCRIPTOR, 1, &config);
    if (dnn->handle != NULL)
        crn_dnn_set(&w, plan, CRN_DNN_PLAN_HANDLE, CRN_DNN_HANDLE_TYPE, 1, &dnn->handle);
    else
        crn_dnn_set(&w, plan, CRN_DNN_PLAN_DEVICE, CRN_DNN_DESCRIPTOR, 1, &dnn->device);
    crn_dnn_finish(&w, plan);
    if (w.failed == 0)
        w.failed = dnn->api->cudnnBackendGetAttribute(plan, CRN_DNN_PLAN_WORKSPACE, CRN_DNN_INT64,
                                                      1, &one, &workspace);
    if (w.failed != 0 || workspace < 0) {
        crn_dnn_release(&w);
        return false;
    }
    out->plan = plan;
    out->workspace = (uint64_t)workspace;
    return true;
}

int crn_dnn_execute(const crn_dnn *dnn, const crn_dnn_plan *plan, int64_t count, const int64_t *ids,
                    const void *const *addresses, void *workspace) {
    crn_dnn_work w = {.dnn = dnn};
    descriptor pack = crn_dnn_make(&w, CRN_DNN_PACK);
    crn_dnn_set(&w, pack, CRN_DNN_PACK_IDS, CRN_DNN_INT64, count, ids);
    crn_dnn_set(&w, pack, CRN_DNN_PACK_POINTERS, CRN_DNN_POINTER, count, addresses);
    crn_dnn_set(&w, pack, CRN_DNN_PACK_WORKSPACE, CRN_DNN_POINTER, 1, &workspace);
    crn_dnn_finish(&w, pack);
    if (w.failed == 0)
        w.failed = dnn->api->cudnnBackendExecute(dnn->handle, plan->plan, pack);
    crn_dnn_release(&w);
    return w.failed;
}
