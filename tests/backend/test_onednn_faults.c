/* test_onednn_faults.c: every call of oneDNN fails once, in a step of a network on the backend cpu,
 * in fp32 and in bf16: then the step says so, or another implementation gives the same loss up to
 * rounding.
 *
 * The calls are wrapped by the linker: see CMakeLists.txt. */
#include "backend/cpu/dnnl_interface.h"
#include "cairn.h"
#include "check.h"
#include "graph/layers.h"

#include <math.h>

static long calls_left; /* before the one that fails; 0: none does */
static bool failed;

static bool fails(void) {
    if (calls_left == 0 || --calls_left > 0)
        return false;
    return failed = true;
}

#define WRAP(type, name, parameters, arguments, otherwise)                                         \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return fails() ? (otherwise) : __real_##name arguments;                                    \
    }

WRAP(bool, crn_dnnl_layout_by_tag,
     (crn_layout * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
      dnnl_format_tag_t tag),
     (out, rank, dims, type, tag), false)
WRAP(bool, crn_dnnl_layout_by_strides,
     (crn_layout * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
      const dnnl_dims_t strides),
     (out, rank, dims, type, strides), false)
WRAP(bool, crn_dnnl_layout_of,
     (crn_layout * out, dnnl_primitive_desc_t primitive, dnnl_query_t query),
     (out, primitive, query), false)
WRAP(bool, crn_dnnl_memory_create,
     (dnnl_memory_t * out, const crn_layout *layout, dnnl_engine_t engine, void *address),
     (out, layout, engine, address), false)
WRAP(bool, crn_dnnl_convolution,
     (dnnl_primitive_desc_t * out, const crn_dnnl_setting *setting, crn_dnnl_pass pass,
      const crn_dnnl_operands *operands, const crn_dnnl_window *window),
     (out, setting, pass, operands, window), false)
WRAP(bool, crn_dnnl_linear,
     (dnnl_primitive_desc_t * out, const crn_dnnl_setting *setting, crn_dnnl_pass pass,
      const crn_dnnl_operands *operands),
     (out, setting, pass, operands), false)
WRAP(bool, crn_dnnl_reorder,
     (dnnl_primitive_desc_t * out, const crn_dnnl_setting *setting, const crn_layout *from,
      const crn_layout *to),
     (out, setting, from, to), false)
WRAP(dnnl_status_t, dnnl_primitive_create, (dnnl_primitive_t * out, const_dnnl_primitive_desc_t of),
     (out, of), dnnl_out_of_memory)
WRAP(dnnl_status_t, dnnl_stream_create, (dnnl_stream_t * out, dnnl_engine_t engine, unsigned flags),
     (out, engine, flags), dnnl_out_of_memory)
WRAP(dnnl_status_t, dnnl_primitive_execute,
     (const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
      const dnnl_exec_arg_t *arguments),
     (primitive, stream, count, arguments), dnnl_runtime_error)

/* What oneDNN computes, once each. */
static cairn_graph *small_network(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    const uint32_t batch = 2;
    crn_conv conv = {.channels = 16, .kernel = {3, 3}, .pad = {1, 1, 1, 1}, .bias = true};
    CHECK_OK(cairn_builder_create(NULL, "small", &b), &err);
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){batch, 3, 8, 8});
    cairn_id label = crn_build_label(b, "label", 1, &batch);
    x = crn_build_relu(b, "relu", crn_build_conv2d(b, "conv", x, &conv));
    x = crn_build_conv_transpose2d(b, "up", x, 8, 2);
    x = crn_build_linear(b, "fc", crn_build_flatten(b, "flat", x), 4);
    crn_build_cross_entropy(b, "loss", x, label);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

/* Linear layers on tokens, attention between them, and the last layer with its loss. */
static cairn_graph *small_transformer(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    const uint32_t tokens[] = {2, 8}, words = 24, width = 16;
    CHECK_OK(cairn_builder_create(NULL, "small", &b), &err);
    cairn_id input = crn_build_tokens(b, "input", 2, tokens);
    cairn_id label = crn_build_label(b, "label", 2, tokens);
    cairn_id weight = crn_build_parameter(b, "words", 2, (uint32_t[]){words, width});
    cairn_id x = crn_build_embedding(b, "embedding", input, weight, 0.1);
    cairn_id y = crn_build_linear(b, "qkv", crn_build_layer_norm(b, "norm", x, 1e-5), 3 * width);
    y = crn_build_linear(b, "out", crn_build_attention(b, "attention", y, 2, 2, true), width);
    x = crn_build_add(b, "sum", x, y);
    x = crn_build_linear_with(b, "head", x, weight, CAIRN_NONE, 0);
    crn_build_token_cross_entropy(b, "loss", x, label, 0);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

static cairn_status run(const cairn_graph *graph, cairn_math math, float *loss, cairn_error *err) {
    cairn_device_options how = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device = NULL;
    cairn_costs *costs = NULL;
    cairn_solution *solution = NULL;
    cairn_exec *exec = NULL;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    how.threads = 1;
    how.math = math;
    cairn_status status = cairn_device_open("cpu", &how, &device, err);
    if (status == CAIRN_OK)
        status = cairn_bind(graph, device, &costs, err);
    if (status == CAIRN_OK)
        status = cairn_solve(graph, costs, "none", NULL, &solution, err);
    if (status == CAIRN_OK)
        status = cairn_exec_create(graph, device, costs, solution, NULL, &exec, err);
    if (status == CAIRN_OK)
        status = cairn_exec_fill(exec, 0, err);
    if (status == CAIRN_OK)
        status = cairn_exec_run(exec, 0, &result, err);
    *loss = result.loss;
    cairn_exec_destroy(exec);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    return status;
}

static void fail_each_call(cairn_graph *graph, cairn_math math, float tolerance) {
    cairn_error err = {0};
    float usual, loss;
    long k = 0, told = 0;
    CHECK_OK(run(graph, math, &usual, &err), &err);
    do {
        err = (cairn_error){0};
        failed = false;
        calls_left = ++k;
        cairn_status status = run(graph, math, &loss, &err);
        calls_left = 0;
        if (status == CAIRN_OK)
            CHECK(fabsf(loss - usual) < tolerance);
        else
            CHECK(failed && err.status == status && err.message[0] != '\0');
        told += status != CAIRN_OK;
    } while (failed);
    printf("%s: %ld calls, %ld failures told\n", math == CAIRN_MATH_BF16 ? "bf16" : "fp32", k - 1,
           told);
    CHECK(told > 10 && told < k - 1);
    cairn_graph_destroy(graph);
}

static bool has_bf16(void) {
    cairn_device_options how = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device = NULL;
    how.math = CAIRN_MATH_BF16;
    bool has = cairn_device_open("cpu", &how, &device, NULL) == CAIRN_OK;
    cairn_device_close(device);
    return has;
}

int main(void) {
    fail_each_call(small_network(), CAIRN_MATH_FP32, 1e-4f);
    if (has_bf16())
        fail_each_call(small_transformer(), CAIRN_MATH_BF16, 0.02f);
    return check_result();
}
