/* recipe.c: see recipe.h. */
#include "backend/cpu/recipe.h"
#include "backend/cpu/cpu_internal.h"

#include <pthread.h>

/* The number of compiled primitives that oneDNN caches; a large network has some hundreds. */
#define KEPT_PRIMITIVES 4096

/* ---- Shared by all recipes ---- */

static dnnl_engine_t engine;
static dnnl_primitive_attr_t attributes;

static void make_shared(void) {
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success)
        attributes = NULL;
    else
        dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    dnnl_set_primitive_cache_capacity(KEPT_PRIMITIVES);
}

static void share(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_shared);
}

crn_dnnl_setting crn_recipe_setting(dnnl_primitive_desc_t forward) {
    share();
    return (crn_dnnl_setting){engine, attributes, forward};
}

/* ---- Layouts ---- */

/* Keep the layout in the next place of the recipe's list; `made`: a function has created it
 * there. */
static const crn_layout *keep(crn_recipe *recipe, bool made) {
    recipe->failed |= !made;
    return made ? &recipe->layouts[recipe->layout_count++] : NULL;
}

/* The next place of the recipe's list; NULL if the recipe has failed or is full. */
static crn_layout *next(crn_recipe *recipe) {
    recipe->failed |= recipe->layout_count == CRN_RECIPE_LAYOUTS;
    return recipe->failed ? NULL : &recipe->layouts[recipe->layout_count];
}

static const crn_layout *tagged(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, dnnl_format_tag_t tag) {
    crn_layout *to = next(recipe);
    return to == NULL ? NULL : keep(recipe, crn_dnnl_layout_by_tag(to, rank, dims, type, tag));
}

const crn_layout *crn_recipe_typed(crn_recipe *recipe, const uint32_t *shape, uint32_t rank,
                                   dnnl_data_type_t type) {
    static const dnnl_format_tag_t tags[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    dnnl_dims_t dims;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = shape[i];
    return tagged(recipe, (int)rank, dims, type,
                  rank < CRN_LENGTH(tags) ? tags[rank] : dnnl_format_tag_undef);
}

const crn_layout *crn_recipe_plain(crn_recipe *recipe, const uint32_t *shape, uint32_t rank) {
    return crn_recipe_typed(recipe, shape, rank, dnnl_f32);
}

const crn_layout *crn_recipe_blocked(crn_recipe *recipe, const uint32_t shape[4], uint32_t block) {
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    return tagged(recipe, 4, dims, dnnl_f32, block == 16 ? dnnl_nChw16c : dnnl_nChw8c);
}

const crn_layout *crn_recipe_stored(crn_recipe *recipe, cairn_id tensor) {
    const cairn_tensor *t = cairn_graph_tensor(recipe->site->graph, tensor);
    uint32_t block = recipe->site->storage[tensor].block;
    return block > 1 ? crn_recipe_blocked(recipe, t->shape, block)
                     : crn_recipe_plain(recipe, t->shape, t->rank);
}

const crn_layout *crn_recipe_any(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                 dnnl_data_type_t type) {
    return tagged(recipe, rank, dims, type, dnnl_format_tag_any);
}

const crn_layout *crn_recipe_strided(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                     const dnnl_dims_t strides) {
    crn_layout *to = next(recipe);
    return to == NULL ? NULL
                      : keep(recipe, crn_dnnl_layout_by_strides(to, rank, dims, dnnl_f32, strides));
}

const crn_layout *crn_recipe_wanted(crn_recipe *recipe, dnnl_primitive_desc_t what,
                                    dnnl_query_t query) {
    crn_layout *to = next(recipe);
    return to == NULL ? NULL : keep(recipe, crn_dnnl_layout_of(to, what, query));
}

/* ---- Describing ---- */

static uint32_t add_buffer(crn_recipe *recipe, crn_recipe_buffer buffer) {
    recipe->failed |= recipe->buffer_count == CRN_RECIPE_BUFFERS;
    if (recipe->failed)
        return 0;
    recipe->buffers[recipe->buffer_count] = buffer;
    return recipe->buffer_count++;
}

uint32_t crn_recipe_operand(crn_recipe *recipe, crn_recipe_source source, uint32_t index,
                            const crn_layout *layout) {
    return add_buffer(recipe, (crn_recipe_buffer){layout, source, index});
}

uint32_t crn_recipe_temporary(crn_recipe *recipe, const crn_layout *layout) {
    if (recipe->failed)
        return 0;
    uint64_t at = recipe->workspace;
    recipe->workspace += crn_align(crn_dnnl_layout_bytes(layout));
    return add_buffer(recipe, (crn_recipe_buffer){layout, CRN_WORKSPACE_BUFFER, at});
}

static void add_scratchpad(crn_recipe *recipe, crn_recipe_stage *stage) {
    const crn_layout *layout = crn_recipe_wanted(recipe, stage->what, dnnl_query_scratchpad_md);
    if (layout != NULL && crn_dnnl_layout_bytes(layout) > 0)
        stage->arguments[stage->argument_count++] =
            (crn_recipe_argument){DNNL_ARG_SCRATCHPAD, crn_recipe_temporary(recipe, layout)};
}

void crn_recipe_add(crn_recipe *recipe, dnnl_primitive_desc_t what,
                    const crn_recipe_argument *arguments, uint32_t count) {
    recipe->failed |= recipe->stage_count == CRN_RECIPE_STAGES;
    if (recipe->failed) {
        dnnl_primitive_desc_destroy(what);
        return;
    }
    crn_recipe_stage *stage = &recipe->stages[recipe->stage_count++];
    *stage = (crn_recipe_stage){.what = what, .argument_count = count};
    memcpy(stage->arguments, arguments, count * sizeof *arguments);
    add_scratchpad(recipe, stage);
}

void crn_recipe_add_biased(crn_recipe *recipe, dnnl_primitive_desc_t what,
                           const crn_recipe_argument arguments[3], int argument,
                           crn_recipe_source source, const crn_layout *bias) {
    crn_recipe_argument all[4] = {arguments[0], arguments[1], arguments[2]};
    if (bias != NULL)
        all[3] = (crn_recipe_argument){argument, crn_recipe_operand(recipe, source, 1, bias)};
    crn_recipe_add(recipe, what, all, bias != NULL ? 4 : 3);
}

static void reorder(crn_recipe *recipe, uint32_t from, uint32_t to) {
    dnnl_primitive_desc_t what;
    crn_dnnl_setting setting = crn_recipe_setting(NULL);
    const crn_recipe_argument arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (recipe->failed || !crn_dnnl_reorder(&what, &setting, recipe->buffers[from].layout,
                                            recipe->buffers[to].layout)) {
        recipe->failed = true;
        return;
    }
    crn_recipe_add(recipe, what, arguments, CRN_LENGTH(arguments));
}

/* Whether a primitive that requires `layout` can use the buffer directly. */
static bool serves(const crn_recipe *recipe, uint32_t buffer, const crn_layout *layout) {
    return recipe->failed || crn_dnnl_layout_equal(recipe->buffers[buffer].layout, layout);
}

uint32_t crn_recipe_read_as(crn_recipe *recipe, uint32_t buffer, const crn_layout *layout) {
    if (serves(recipe, buffer, layout))
        return buffer;
    uint32_t copy = crn_recipe_temporary(recipe, layout);
    reorder(recipe, buffer, copy);
    return copy;
}

uint32_t crn_recipe_write_as(crn_recipe *recipe, uint32_t buffer, const crn_layout *layout) {
    return serves(recipe, buffer, layout) ? buffer : crn_recipe_temporary(recipe, layout);
}

void crn_recipe_written(crn_recipe *recipe, uint32_t written, uint32_t buffer) {
    if (written != buffer)
        reorder(recipe, written, buffer);
}

/* ---- Building ---- */

static void forget(crn_recipe *recipe) {
    for (uint32_t i = 0; i < recipe->stage_count; i++) {
        if (recipe->stages[i].primitive != NULL)
            dnnl_primitive_destroy(recipe->stages[i].primitive);
        dnnl_primitive_desc_destroy(recipe->stages[i].what);
    }
    for (uint32_t i = 0; i < recipe->layout_count; i++)
        crn_dnnl_layout_destroy(&recipe->layouts[i]);
    if (recipe->stream != NULL)
        dnnl_stream_destroy(recipe->stream);
}

void crn_recipe_drop(void *recipe, const cairn_allocator *allocator) {
    forget(recipe);
    crn_resize(allocator, recipe, sizeof(crn_recipe), 0);
}

/* A primitive is described for a number of threads, which oneDNN takes from the calling thread. */
cairn_status crn_recipe_build(const crn_site *site, const cairn_allocator *allocator,
                              crn_recipe_builder *build, void **out, uint64_t *workspace) {
    *out = NULL;
    crn_recipe *recipe = crn_resize(allocator, NULL, 0, sizeof *recipe);
    if (recipe == NULL)
        return CAIRN_ENOMEM;
    *recipe = (crn_recipe){.site = site, .threads = (int)site->threads};
    crn_cpu_region before = crn_cpu_enter(recipe->threads);
    share();
    recipe->failed = engine == NULL || attributes == NULL;
    if (!recipe->failed)
        build(recipe);
    crn_cpu_leave(before);
    recipe->site = NULL;
    if (recipe->failed) {
        crn_recipe_drop(recipe, allocator);
        return CAIRN_OK;
    }
    *workspace = recipe->workspace;
    *out = recipe;
    return CAIRN_OK;
}

/* ---- Preparing and running ---- */

/* The memory objects of one call. */
typedef struct ready_recipe {
    dnnl_memory_t buffers[CRN_RECIPE_BUFFERS];
    dnnl_exec_arg_t arguments[CRN_RECIPE_STAGES][CRN_RECIPE_ARGUMENTS];
    uint32_t buffer_count;
} ready_recipe;

static crn_recipe *recipe_of(const crn_call *call) {
    return ((const crn_kernel_recipe *)call->recipe)->built;
}

static void *address_of(const crn_call *call, const crn_recipe_buffer *buffer) {
    switch (buffer->source) {
    case CRN_INPUT_BUFFER:
        return (void *)(uintptr_t)call->inputs[buffer->at];
    case CRN_OUTPUT_BUFFER:
        return call->outputs[buffer->at];
    case CRN_PARAM_BUFFER:
        return call->params[buffer->at];
    default:
        return (char *)call->workspace + buffer->at;
    }
}

/* Create the primitives of a recipe, if they do not exist yet. */
static bool make_primitives(crn_recipe *recipe) {
    if (recipe->stream == NULL &&
        dnnl_stream_create(&recipe->stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return false;
    for (uint32_t i = 0; i < recipe->stage_count; i++) {
        crn_recipe_stage *stage = &recipe->stages[i];
        if (stage->primitive == NULL &&
            dnnl_primitive_create(&stage->primitive, stage->what) != dnnl_success)
            return false;
    }
    return true;
}

static bool make_ready(ready_recipe *ready, const crn_recipe *recipe, const crn_call *call) {
    for (; ready->buffer_count < recipe->buffer_count; ready->buffer_count++) {
        const crn_recipe_buffer *buffer = &recipe->buffers[ready->buffer_count];
        if (!crn_dnnl_memory_create(&ready->buffers[ready->buffer_count], buffer->layout, engine,
                                    address_of(call, buffer)))
            return false;
    }
    for (uint32_t k = 0; k < recipe->stage_count; k++)
        for (uint32_t i = 0; i < recipe->stages[k].argument_count; i++) {
            crn_recipe_argument argument = recipe->stages[k].arguments[i];
            ready->arguments[k][i] =
                (dnnl_exec_arg_t){argument.name, ready->buffers[argument.buffer]};
        }
    return true;
}

cairn_status crn_recipe_prepare(crn_call *call, const cairn_allocator *allocator,
                                cairn_error *err) {
    crn_recipe *recipe = recipe_of(call);
    ready_recipe *ready = crn_resize(allocator, NULL, 0, sizeof *ready);
    if (ready == NULL)
        return crn_fail_memory(err);
    *ready = (ready_recipe){.buffer_count = 0};
    call->state = ready;
    crn_cpu_region before = crn_cpu_enter(recipe->threads);
    bool made = make_primitives(recipe) && make_ready(ready, recipe, call);
    crn_cpu_leave(before);
    if (made)
        return CAIRN_OK;
    crn_recipe_finish(call, allocator);
    call->state = NULL;
    return crn_fail_at(err, CAIRN_ESYSTEM, call->op->name, "oneDNN cannot prepare op \"%s\" (%s)",
                       call->op->name, cairn_op_kind_name(call->op->kind));
}

void crn_recipe_run(const crn_call *call) {
    const crn_recipe *recipe = recipe_of(call);
    const ready_recipe *ready = call->state;
    dnnl_status_t status = dnnl_success;
    if (!crn_cpu_grants(recipe->threads)) {
        crn_queue_fail(call->queue, CAIRN_ESYSTEM,
                       "OpenMP does not grant the %d threads that the device was opened with: it "
                       "runs inside a parallel region",
                       recipe->threads);
        return;
    }
    crn_cpu_region before = crn_cpu_enter(recipe->threads);
    for (uint32_t i = 0; i < recipe->stage_count && status == dnnl_success; i++)
        status = dnnl_primitive_execute(recipe->stages[i].primitive, recipe->stream,
                                        (int)recipe->stages[i].argument_count, ready->arguments[i]);
    if (status == dnnl_success)
        status = dnnl_stream_wait(recipe->stream);
    crn_cpu_leave(before);
    if (status != dnnl_success)
        crn_queue_fail(call->queue, CAIRN_ESYSTEM, "oneDNN cannot run op \"%s\" (%s): status %d",
                       call->op->name, cairn_op_kind_name(call->op->kind), (int)status);
}

void crn_recipe_finish(crn_call *call, const cairn_allocator *allocator) {
    ready_recipe *ready = call->state;
    for (uint32_t i = 0; i < ready->buffer_count; i++)
        dnnl_memory_destroy(ready->buffers[i]);
    crn_resize(allocator, ready, sizeof *ready, 0);
}
