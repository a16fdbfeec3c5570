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

dnnl_engine_t crn_recipe_engine(void) {
    share();
    return engine;
}

dnnl_primitive_attr_t crn_recipe_attributes(void) {
    share();
    return attributes;
}

/* ---- Layouts ---- */

bool crn_layout_plain(const uint32_t *shape, uint32_t rank, dnnl_memory_desc_t *out) {
    static const dnnl_format_tag_t tags[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    dnnl_dims_t dims;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = shape[i];
    return rank < CRN_LENGTH(tags) &&
           dnnl_memory_desc_init_by_tag(out, (int)rank, dims, dnnl_f32, tags[rank]) == dnnl_success;
}

bool crn_layout_blocked(const uint32_t shape[4], uint32_t block, dnnl_memory_desc_t *out) {
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    dnnl_format_tag_t tag = block == 16 ? dnnl_nChw16c : dnnl_nChw8c;
    return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, tag) == dnnl_success;
}

bool crn_layout_stored(const crn_site *site, cairn_id tensor, dnnl_memory_desc_t *out) {
    const cairn_tensor *t = cairn_graph_tensor(site->graph, tensor);
    uint32_t block = site->storage[tensor].block;
    return block > 1 ? crn_layout_blocked(t->shape, block, out)
                     : crn_layout_plain(t->shape, t->rank, out);
}

/* ---- Describing ---- */

static uint32_t add_buffer(crn_recipe *recipe, crn_recipe_buffer buffer) {
    if (recipe->buffer_count == CRN_RECIPE_BUFFERS) {
        recipe->failed = true;
        return 0;
    }
    recipe->buffers[recipe->buffer_count] = buffer;
    return recipe->buffer_count++;
}

uint32_t crn_recipe_operand(crn_recipe *recipe, crn_recipe_source source, uint32_t index,
                            const dnnl_memory_desc_t *layout) {
    return add_buffer(recipe, (crn_recipe_buffer){*layout, source, index});
}

uint32_t crn_recipe_temporary(crn_recipe *recipe, const dnnl_memory_desc_t *layout) {
    uint64_t at = recipe->workspace;
    recipe->workspace += crn_align(dnnl_memory_desc_get_size(layout));
    return add_buffer(recipe, (crn_recipe_buffer){*layout, CRN_WORKSPACE_BUFFER, at});
}

void crn_recipe_add(crn_recipe *recipe, dnnl_primitive_desc_t what,
                    const crn_recipe_argument *arguments, uint32_t count) {
    if (recipe->failed || recipe->stage_count == CRN_RECIPE_STAGES) {
        recipe->failed = true;
        dnnl_primitive_desc_destroy(what);
        return;
    }
    crn_recipe_stage *stage = &recipe->stages[recipe->stage_count++];
    *stage = (crn_recipe_stage){.what = what, .argument_count = count};
    memcpy(stage->arguments, arguments, count * sizeof *arguments);
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(what, dnnl_query_scratchpad_md, 0);
    if (scratch != NULL && dnnl_memory_desc_get_size(scratch) > 0)
        stage->arguments[stage->argument_count++] =
            (crn_recipe_argument){DNNL_ARG_SCRATCHPAD, crn_recipe_temporary(recipe, scratch)};
}

static void reorder(crn_recipe *recipe, uint32_t from, uint32_t to) {
    dnnl_primitive_desc_t what;
    const crn_recipe_argument arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (recipe->failed ||
        dnnl_reorder_primitive_desc_create(
            &what, &recipe->buffers[from].layout, crn_recipe_engine(), &recipe->buffers[to].layout,
            crn_recipe_engine(), crn_recipe_attributes()) != dnnl_success) {
        recipe->failed = true;
        return;
    }
    crn_recipe_add(recipe, what, arguments, CRN_LENGTH(arguments));
}

uint32_t crn_recipe_read_as(crn_recipe *recipe, uint32_t buffer, const dnnl_memory_desc_t *layout) {
    if (recipe->failed || dnnl_memory_desc_equal(&recipe->buffers[buffer].layout, layout))
        return buffer;
    uint32_t copy = crn_recipe_temporary(recipe, layout);
    reorder(recipe, buffer, copy);
    return copy;
}

uint32_t crn_recipe_write_as(crn_recipe *recipe, uint32_t buffer,
                             const dnnl_memory_desc_t *layout) {
    if (recipe->failed || dnnl_memory_desc_equal(&recipe->buffers[buffer].layout, layout))
        return buffer;
    return crn_recipe_temporary(recipe, layout);
}

void crn_recipe_written(crn_recipe *recipe, uint32_t written, uint32_t buffer) {
    if (written != buffer)
        reorder(recipe, written, buffer);
}

/* ---- Building ---- */

static void forget(crn_recipe *recipe) {
    for (uint32_t i = 0; i < recipe->stage_count; i++)
        dnnl_primitive_desc_destroy(recipe->stages[i].what);
    recipe->stage_count = 0;
}

/* Primitives are made for a number of threads, which oneDNN takes from the calling thread. */
static void build_recipe(crn_recipe *recipe, const crn_site *site, crn_recipe_builder *build) {
    int before = crn_cpu_set_threads((int)site->threads);
    *recipe = (crn_recipe){.site = site};
    recipe->failed = crn_recipe_engine() == NULL || crn_recipe_attributes() == NULL;
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
    if (dnnl_stream_create(&ready->stream, crn_recipe_engine(), dnnl_stream_default_flags) !=
        dnnl_success)
        return false;
    for (; ready->buffer_count < recipe->buffer_count; ready->buffer_count++) {
        const crn_recipe_buffer *buffer = &recipe->buffers[ready->buffer_count];
        if (dnnl_memory_create(&ready->buffers[ready->buffer_count], &buffer->layout,
                               crn_recipe_engine(), address_of(call, buffer)) != dnnl_success)
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
