/* network_ends.c: see network_ends.h. */
#include "train/network_ends.h"

#include <stdio.h>

/* The one tensor of a role, or CAIRN_NONE: there is none, or several. */
static cairn_id only_tensor(const cairn_graph *graph, cairn_role role) {
    cairn_id found = CAIRN_NONE;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        if (cairn_graph_tensor(graph, t)->role == role) {
            if (found != CAIRN_NONE)
                return CAIRN_NONE;
            found = t;
        }
    return found;
}

/* The op that makes the loss, or NULL. */
static const cairn_op *loss_of(const cairn_graph *graph, cairn_id loss) {
    return loss == CAIRN_NONE ? NULL
                              : cairn_graph_op(graph, cairn_graph_tensor(graph, loss)->producer);
}

crn_network_ends crn_network_ends_of(const cairn_graph *graph) {
    crn_network_ends ends = {.input = only_tensor(graph, CAIRN_ROLE_INPUT),
                             .label = only_tensor(graph, CAIRN_ROLE_LABEL)};
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    ends.output = summary.output;
    if (summary.input != CAIRN_NONE)
        ends.batch = cairn_graph_tensor(graph, summary.input)->shape[0];
    const cairn_op *last = loss_of(graph, summary.loss);
    if (last != NULL && last->kind == CAIRN_OP_HEAD_LOSS) {
        ends.classes = cairn_graph_tensor(graph, last->params[0])->shape[0];
    } else if (summary.output != CAIRN_NONE) {
        const cairn_tensor *output = cairn_graph_tensor(graph, summary.output);
        bool tokens = output->rank == 3; /* [N, T, V]; pixels are [N, C, H, W] */
        ends.classes = output->rank > 1 ? output->shape[tokens ? 2 : 1] : 0;
    }
    return ends;
}

static const char *shape_text(char *buffer, size_t size, uint32_t rank, const uint32_t *shape) {
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%u", i > 0 ? "x" : "", shape[i]);
    return buffer;
}

static cairn_status check_input(const cairn_graph *graph, const crn_network_ends *ends,
                                const cairn_data_info *info, cairn_error *err) {
    const cairn_tensor *input = cairn_graph_tensor(graph, ends->input);
    cairn_dtype dtype = info->tokens ? CAIRN_DTYPE_I32 : CAIRN_DTYPE_F32;
    bool same = input->dtype == dtype && input->rank == info->rank + 1;
    for (uint32_t i = 0; same && i < info->rank; i++)
        same = input->shape[i + 1] == info->shape[i];
    if (same)
        return CAIRN_OK;
    char has[80], wants[80];
    return crn_fail(
        err, CAIRN_EINVAL,
        "the samples are %s, and %s takes %s; build it for this size, or use other data",
        shape_text(has, sizeof has, info->rank, info->shape), cairn_graph_name(graph),
        shape_text(wants, sizeof wants, input->rank > 0 ? input->rank - 1 : 0, input->shape + 1));
}

static cairn_status check_label(const cairn_graph *graph, const crn_network_ends *ends,
                                const cairn_data_info *info, cairn_error *err) {
    const cairn_tensor *label = cairn_graph_tensor(graph, ends->label);
    uint32_t rank = info->tokens ? 2 : 1;
    if (label->dtype != CAIRN_DTYPE_I32 || label->rank != rank || label->shape[0] != ends->batch ||
        (info->tokens && label->shape[1] != info->shape[0]))
        return crn_fail(
            err, CAIRN_EINVAL,
            "%s does not take one label a %s: its loss reads labels of %s; is a flatten missing?",
            cairn_graph_name(graph), info->tokens ? "token" : "sample",
            shape_text((char[80]){0}, 80, label->rank, label->shape));
    if (info->classes > ends->classes)
        return crn_fail(err, CAIRN_EINVAL,
                        "the samples have %u classes, and %s distinguishes only %u", info->classes,
                        cairn_graph_name(graph), ends->classes);
    return CAIRN_OK;
}

cairn_status crn_network_ends_check(const cairn_graph *graph, const crn_network_ends *ends,
                                    const cairn_data_info *info, cairn_error *err) {
    if (ends->input == CAIRN_NONE || ends->label == CAIRN_NONE)
        return crn_fail(err, CAIRN_EINVAL,
                        "a sample has one input and one label, and %s does not take just these%s",
                        cairn_graph_name(graph),
                        ends->label == CAIRN_NONE
                            ? "; its last layer must be a loss, which reads the labels"
                            : "");
    CRN_TRY(check_input(graph, ends, info, err));
    return check_label(graph, ends, info, err);
}
