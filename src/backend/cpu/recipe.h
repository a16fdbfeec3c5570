/* recipe.h: an op as a few oneDNN primitives in a row, with the buffers between them.
 *
 *     operand --reorder--> workspace --\
 *                                       convolution --> workspace --reorder--> operand
 *     operand -------------------------/      |
 *                                        scratchpad, in the workspace too
 *
 * A builder describes the recipe of an op, without addresses. This shows whether oneDNN can run the
 * op and how much workspace it needs. A recipe is built once for all ops of a signature. Its
 * primitives are created when the first of these ops is prepared. Memory objects are created when
 * the addresses are known; after that the recipe is only executed. A call that fails marks the
 * recipe as failed; later calls do nothing. */
#ifndef CRN_RECIPE_H
#define CRN_RECIPE_H

#include "backend/cpu/dnnl_interface.h"
#include "backend/processor.h"

#define CRN_RECIPE_STAGES 6
#define CRN_RECIPE_ARGUMENTS 6
#define CRN_RECIPE_BUFFERS 20
#define CRN_RECIPE_LAYOUTS 32

typedef enum crn_recipe_source {
    CRN_INPUT_BUFFER,
    CRN_OUTPUT_BUFFER,
    CRN_PARAM_BUFFER,
    CRN_WORKSPACE_BUFFER
} crn_recipe_source;

typedef struct crn_recipe_buffer {
    const crn_layout *layout;
    crn_recipe_source source;
    uint64_t at; /* place in the op's list, or offset in the workspace */
} crn_recipe_buffer;

typedef struct crn_recipe_argument {
    int name;        /* DNNL_ARG_* */
    uint32_t buffer; /* which */
} crn_recipe_argument;

typedef struct crn_recipe_stage {
    dnnl_primitive_desc_t what;
    dnnl_primitive_t primitive; /* NULL: not made yet */
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS];
    uint32_t argument_count;
} crn_recipe_stage;

typedef struct crn_recipe {
    const crn_site *site;                   /* while it is built */
    crn_layout layouts[CRN_RECIPE_LAYOUTS]; /* owned */
    crn_recipe_buffer buffers[CRN_RECIPE_BUFFERS];
    crn_recipe_stage stages[CRN_RECIPE_STAGES];
    uint32_t layout_count, buffer_count, stage_count;
    uint64_t workspace;
    dnnl_stream_t stream; /* made with the primitives */
    int threads;          /* the number that its primitives are made for */
    bool failed;
} crn_recipe;

typedef void crn_recipe_builder(crn_recipe *recipe);

/* ---- Layouts: owned by the recipe; NULL if it has failed ---- */

/* The layout of a tensor as it is stored; of a shape in the order of its dimensions, of floats or
 * of any type; of an image in blocks of channels. */
const crn_layout *crn_recipe_stored(crn_recipe *recipe, cairn_id tensor);
const crn_layout *crn_recipe_plain(crn_recipe *recipe, const uint32_t *shape, uint32_t rank);
const crn_layout *crn_recipe_typed(crn_recipe *recipe, const uint32_t *shape, uint32_t rank,
                                   dnnl_data_type_t type);
const crn_layout *crn_recipe_blocked(crn_recipe *recipe, const uint32_t shape[4], uint32_t block);

/* A layout with strides between elements; a layout that oneDNN chooses. */
const crn_layout *crn_recipe_strided(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                     const dnnl_dims_t strides);
const crn_layout *crn_recipe_any(crn_recipe *recipe, int rank, const dnnl_dims_t dims,
                                 dnnl_data_type_t type);

/* The layout that a primitive requires for an operand; `query` is dnnl_query_*_md. */
const crn_layout *crn_recipe_wanted(crn_recipe *recipe, dnnl_primitive_desc_t what,
                                    dnnl_query_t query);

/* ---- Describing a recipe ---- */

/* Add an operand in a layout; `index` is its place in the op's list of that source. Returns its
 * number. */
uint32_t crn_recipe_operand(crn_recipe *recipe, crn_recipe_source source, uint32_t index,
                            const crn_layout *layout);

/* Add a buffer in the workspace. */
uint32_t crn_recipe_temporary(crn_recipe *recipe, const crn_layout *layout);

/* The buffer that a primitive reads instead of `buffer` if it requires `layout`: the same one, or a
 * reordered copy. */
uint32_t crn_recipe_read_as(crn_recipe *recipe, uint32_t buffer, const crn_layout *layout);

/* The buffer that a primitive writes instead of `buffer` if it makes `layout`. If the two differ,
 * crn_recipe_written() adds the reorder that follows. */
uint32_t crn_recipe_write_as(crn_recipe *recipe, uint32_t buffer, const crn_layout *layout);
void crn_recipe_written(crn_recipe *recipe, uint32_t written, uint32_t buffer);

/* Add a primitive. The recipe takes over the descriptor and gives it a scratchpad. */
void crn_recipe_add(crn_recipe *recipe, dnnl_primitive_desc_t what,
                    const crn_recipe_argument *arguments, uint32_t count);

/* The same with three arguments and, unless `bias` is NULL, a fourth one: tensor 1 of `source`. */
void crn_recipe_add_biased(crn_recipe *recipe, dnnl_primitive_desc_t what,
                           const crn_recipe_argument arguments[3], int argument,
                           crn_recipe_source source, const crn_layout *bias);

/* The engine, and attributes with a scratchpad that the user provides; made once. `forward` is the
 * hint that a backward pass needs, or NULL. */
crn_dnnl_setting crn_recipe_setting(dnnl_primitive_desc_t forward);

/* ---- A kernel from a builder ---- */

CAIRN_MUST cairn_status crn_recipe_build(const crn_site *site, const cairn_allocator *allocator,
                                         crn_recipe_builder *build, void **out,
                                         uint64_t *workspace);
void crn_recipe_drop(void *recipe, const cairn_allocator *allocator);
CAIRN_MUST cairn_status crn_recipe_prepare(crn_call *call, const cairn_allocator *allocator,
                                           cairn_error *err);
void crn_recipe_run(const crn_call *call);
void crn_recipe_finish(crn_call *call, const cairn_allocator *allocator);

/* The builders, from the list. */
#define RECIPE(kind, builder) crn_recipe_builder crn_prepare_##builder;
#define KERNEL(kind, function, fits, workspace)
#include "backend/cpu/cpu_kernels.def"
#undef KERNEL
#undef RECIPE

#endif
