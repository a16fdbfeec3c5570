/* recipe.c: see recipe.h. */
#include "backend/cpu/recipe.h"
#include "backend/cpu/cpu_internal.h"

#include <assert.h>
#include <pthread.h>

/* Compiled primitives that oneDNN keeps to use again; a large network has some hundred. */
#define KEPT_PRIMITIVES 4096

/* ---- What all recipes share ---- */

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

/* The layout in the next place of the recipe's list, which a function has just tried to make. */
static const crn_layout *keep(crn_recipe *recipe, bool made) {
    recipe->failed |= !made;
    return made ? &recipe->layouts[recipe->layout_count++] : NULL;
}

/* That place; NULL when the recipe has failed or is full. */
static crn_layout *next(crn_recipe *recipe) {
    recipe->failed |= recipe->layout_count == CRN_RECIPE_LAYOUTS;
    return recipe->failed ? NULL : &recipe->layouts[recipe->layout_count];
}

static const crn_layout *tagged(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                dnnl_format_tag_t tag) {
    crn_layout *to = next(recipe);
    return to == NULL ? NULL : keep(recipe, crn_dnnl_layout_by_tag(to, rank, dims, tag));
}

const crn_layout *crn_recipe_plain(crn_recipe *recipe, const uint32_t *shape, uint32_t rank) {
    static const dnnl_format_tag_t tags[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    dnnl_dims_t dims;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = shape[i];
    return tagged(recipe, (int)rank, dims,
                  rank < CRN_LENGTH(tags) ? tags[rank] : dnnl_format_tag_undef);
}

const crn_layout *crn_recipe_blocked(crn_recipe *recipe, const uint32_t shape[4], uint32_t block) {
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    return tagged(recipe, 4, dims, block == 16 ? dnnl_nChw16c : dnnl_nChw8c);
}

const crn_layout *crn_recipe_stored(crn_recipe *recipe, cairn_id tensor) {
    const cairn_tensor *t = cairn_graph_tensor(recipe->site->graph, tensor);
    uint32_t block = recipe->site->storage[tensor].block;
    return block > 1 ? crn_recipe_blocked(recipe, t->shape, block)
                     : crn_recipe_plain(recipe, t->shape, t->rank);
}

const crn_layout *crn_recipe_any(crn_recipe *recipe, int rank, const dnnl_dims_t dims) {
    return tagged(recipe, rank, dims, dnnl_format_tag_any);
}

const crn_layout *crn_recipe_strided(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                     const dnnl_dims_t strides) {
    crn_layout *to = next(recipe);
    return to == NULL ? NULL : keep(recipe, crn_dnnl_layout_by_strides(to, rank, dims, strides));
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

/* Whether a primitive that wants `layout` can use the buffer as it is. */
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
    for (uint32_t i = 0; i < recipe->stage_count; i++)
        dnnl_primitive_desc_destroy(recipe->stages[i].what);
    for (uint32_t i = 0; i < recipe->layout_count; i++)
        crn_dnnl_layout_destroy(&recipe->layouts[i]);
    recipe->stage_count = recipe->layout_count = 0;
}

/* Primitives are made for a number of threads, which oneDNN takes from the calling thread. */
static void build_recipe(crn_recipe *recipe, const crn_site *site, crn_recipe_builder *build) {
    int before = crn_cpu_set_threads((int)site->threads);
    *recipe = (crn_recipe){.site = site};
    share();
    recipe->failed = engine == NULL || attributes == NULL;
    if (!recipe->failed)
        build(recipe);
    crn_cpu_set_threads(before);
}

bool crn_recipe_fits(const crn_site *site, crn_recipe_builder *build) {
    crn_recipe recipe;
    build_recipe(&recipe, site, build);
    forget(&recipe);
    return !recipe.failed;
}

uint64_t crn_recipe_workspace(const crn_site *site, crn_recipe_builder *build) {
    crn_recipe recipe;
    build_recipe(&recipe, site, build);
    forget(&recipe);
    return recipe.workspace;
}

/* ---- Making ready and running ---- */

typedef struct ready_stage {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[CRN_RECIPE_ARGUMENTS];
    int argument_count;
} ready_stage;

typedef struct ready_recipe {
    dnnl_stream_t stream;
    dnnl_memory_t buffers[CRN_RECIPE_BUFFERS];
    ready_stage stages[CRN_RECIPE_STAGES];
    uint32_t buffer_count, stage_count;
    int threads;
} ready_recipe;

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

static bool make_ready(ready_recipe *ready, const crn_recipe *recipe, const crn_call *call) {
    if (dnnl_stream_create(&ready->stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return false;
    for (; ready->buffer_count < recipe->buffer_count; ready->buffer_count++) {
        const crn_recipe_buffer *buffer = &recipe->buffers[ready->buffer_count];
        if (!crn_dnnl_memory_create(&ready->buffers[ready->buffer_count], buffer->layout, engine,
                                    address_of(call, buffer)))
            return false;
    }
    for (; ready->stage_count < recipe->stage_count; ready->stage_count++) {
        const crn_recipe_stage *from = &recipe->stages[ready->stage_count];
        ready_stage *to = &ready->stages[ready->stage_count];
        if (dnnl_primitive_create(&to->primitive, from->what) != dnnl_success)
            return false;
        to->argument_count = (int)from->argument_count;
        for (uint32_t i = 0; i < from->argument_count; i++)
            to->arguments[i] = (dnnl_exec_arg_t){from->arguments[i].name,
                                                 ready->buffers[from->arguments[i].buffer]};
    }
    return true;
}

cairn_status crn_recipe_prepare(crn_call *call, const cairn_allocator *allocator,
                                crn_recipe_builder *build, cairn_error *err) {
    crn_site site = crn_site_of(call);
    crn_recipe recipe;
    ready_recipe *ready = crn_resize(allocator, NULL, 0, sizeof *ready);
    if (ready == NULL)
        return crn_fail_memory(err);
    *ready = (ready_recipe){.threads = (int)site.threads};
    call->state = ready;
    build_recipe(&recipe, &site, build);
    int before = crn_cpu_set_threads(ready->threads);
    bool made = !recipe.failed && make_ready(ready, &recipe, call);
    crn_cpu_set_threads(before);
    forget(&recipe);
    if (made)
        return CAIRN_OK;
    crn_recipe_finish(call, allocator);
    call->state = NULL;
    return crn_fail_at(err, CAIRN_ESYSTEM, call->op->name,
                       "oneDNN cannot make op \"%s\" (%s) ready", call->op->name,
                       cairn_op_kind_name(call->op->kind));
}

void crn_recipe_run(const crn_call *call) {
    const ready_recipe *ready = call->state;
    int before = crn_cpu_set_threads(ready->threads);
    for (uint32_t i = 0; i < ready->stage_count; i++) {
        const ready_stage *stage = &ready->stages[i];
        dnnl_status_t status = dnnl_primitive_execute(stage->primitive, ready->stream,
                                                      stage->argument_count, stage->arguments);
        assert(status == dnnl_success); /* all that can fail has been made ready */
        (void)status;
    }
    dnnl_stream_wait(ready->stream);
    crn_cpu_set_threads(before);
}

void crn_recipe_finish(crn_call *call, const cairn_allocator *allocator) {
    ready_recipe *ready = call->state;
    for (uint32_t i = 0; i < ready->stage_count; i++)
        dnnl_primitive_destroy(ready->stages[i].primitive);
    for (uint32_t i = 0; i < ready->buffer_count; i++)
        dnnl_memory_destroy(ready->buffers[i]);
    if (ready->stream != NULL)
        dnnl_stream_destroy(ready->stream);
    crn_resize(allocator, ready, sizeof *ready, 0);
}
