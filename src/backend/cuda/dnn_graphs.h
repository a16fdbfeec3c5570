/* dnn_graphs.h: what is shared by the graphs that cuDNN runs: descriptors that are created one from
 * the other, the proposals for a graph, and plans. */
#ifndef DNN_GRAPHS_H
#define DNN_GRAPHS_H

#include "backend/cuda/dnn_plans.h"

#define CRN_DNN_MOST_DESCRIPTORS 160
#define CRN_DNN_MOST_CONFIGS 64

/* After the first failure the other calls do nothing. All descriptors are released at the end, in
 * reverse order. */
typedef struct crn_dnn_work {
    const crn_dnn *dnn;
    cudnnBackendDescriptor_t made[CRN_DNN_MOST_DESCRIPTORS];
    uint32_t count;
    int failed; /* a status of cuDNN */
} crn_dnn_work;

cudnnBackendDescriptor_t crn_dnn_make(crn_dnn_work *w, int kind);
void crn_dnn_set(crn_dnn_work *w, cudnnBackendDescriptor_t d, int name, int type, int64_t count,
                 const void *values);
void crn_dnn_finish(crn_dnn_work *w, cudnnBackendDescriptor_t d);
void crn_dnn_release(crn_dnn_work *w);

/* A graph of these operations. */
cudnnBackendDescriptor_t crn_dnn_graph(crn_dnn_work *w, const cudnnBackendDescriptor_t *ops,
                                       uint32_t count);

/* The proposals of heuristic mode A for a graph, at most CRN_DNN_MOST_CONFIGS; the caller drops
 * them. */
int64_t crn_dnn_configs(crn_dnn_work *w, cudnnBackendDescriptor_t graph,
                        cudnnBackendDescriptor_t *out);

/* The engine of a configuration and its numerical notes, at most `most`; false: it has none. */
bool crn_dnn_engine(const crn_dnn *dnn, cudnnBackendDescriptor_t config, int64_t *engine,
                    int *notes, int64_t most, int64_t *count);

/* Make a plan with its workspace; false: this configuration cannot be used. */
bool crn_dnn_finish_plan(const crn_dnn *dnn, cudnnBackendDescriptor_t config, crn_dnn_plan *out);

/* Run a plan on the stream of the handle, with these addresses for these tensors; returns a status
 * of cuDNN. */
int crn_dnn_execute(const crn_dnn *dnn, const crn_dnn_plan *plan, int64_t count, const int64_t *ids,
                    const void *const *addresses, void *workspace);

/* CAIRN_ESYSTEM: "cuDNN cannot `what`". */
cairn_status crn_dnn_fail(const crn_dnn *dnn, int status, const char *what, cairn_error *err);

#endif
