/* cpu_half_product.c: a product of bf16 matrices by oneDNN. Its primitives are in oneDNN's cache
 * after the first product of a shape. */
#include "backend/cpu/recipe.h"
#include "backend/cpu/cpu_internal.h"

typedef struct operands {
    crn_layout layouts[3]; /* a, b, c */
    dnnl_memory_t memory[3];
    uint32_t layout_count, memory_count;
} operands;

static bool describe(operands *o, size_t rows, size_t columns, crn_half_matrix m, bool half,
                     dnnl_engine_t engine) {
    dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_dims_t strides = {m.transposed ? 1 : (dnnl_dim_t)m.pitch,
                           m.transposed ? (dnnl_dim_t)m.pitch : 1};
    crn_layout *layout = &o->layouts[o->layout_count];
    if (!crn_dnnl_layout_by_strides(layout, 2, dims, half ? dnnl_bf16 : dnnl_f32, strides))
        return false;
    o->layout_count++;
    if (!crn_dnnl_memory_create(&o->memory[o->memory_count], layout, engine,
                                (void *)(uintptr_t)m.at))
        return false;
    o->memory_count++;
    return true;
}

static bool multiply(const operands *o, dnnl_engine_t engine, bool add) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, o->memory[0]},
                                         {DNNL_ARG_WEIGHTS, o->memory[1]},
                                         {DNNL_ARG_DST, o->memory[2]}};
    dnnl_primitive_desc_t what;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    if (!crn_dnnl_product(&what, engine, &o->layouts[0], &o->layouts[1], &o->layouts[2], add))
        return false;
    bool done = dnnl_primitive_create(&primitive, what) == dnnl_success &&
                dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success &&
                dnnl_primitive_execute(primitive, stream, CRN_LENGTH(arguments), arguments) ==
                    dnnl_success &&
                dnnl_stream_wait(stream) == dnnl_success;
    if (stream != NULL)
        dnnl_stream_destroy(stream);
    if (primitive != NULL)
        dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(what);
    return done;
}

void crn_cpu_half_product(crn_queue *queue, crn_team *threads, crn_half_product p) {
    dnnl_engine_t engine = crn_recipe_setting(NULL).engine;
    crn_cpu_region before = crn_cpu_enter((int)crn_team_threads(threads));
    operands o = {.layout_count = 0};
    bool done =
        describe(&o, p.m, p.k, p.a, true, engine) && describe(&o, p.k, p.n, p.b, true, engine) &&
        describe(&o, p.m, p.n, (crn_half_matrix){p.c, p.c_pitch, false}, p.c_half, engine) &&
        multiply(&o, engine, p.add);
    while (o.memory_count > 0)
        dnnl_memory_destroy(o.memory[--o.memory_count]);
    while (o.layout_count > 0)
        crn_dnnl_layout_destroy(&o.layouts[--o.layout_count]);
    crn_cpu_leave(before);
    if (!done)
        crn_queue_fail(queue, CAIRN_ESYSTEM, "oneDNN cannot multiply matrices of bf16");
}
