/* recipe.h: an op as a few oneDNN primitives in a row, with the buffers between them.
 *
 *     operand --reorder--> workspace --\
 *                                       convolution --> workspace --reorder--> operand
 *     operand -------------------------/      |
 *                                        scratchpad, in the workspace too
 *
 * A builder describes the recipe of an op, without addresses: that is enough to say whether it can
 * be done and how much workspace it wants. Once addresses are known it is made ready (primitives
 * and memory objects), and then only executed. A call that fails marks the recipe; the calls after
 * it do nothing. */
#ifndef CRN_RECIPE_H
#define CRN_RECIPE_H

#include "backend/backend.h"

#include <oneapi/dnnl/dnnl.h>

#define CRN_RECIPE_STAGES 6
#define CRN_RECIPE_ARGUMENTS 6
#define CRN_RECIPE_BUFFERS 20

typedef enum crn_recipe_source {
    CRN_INPUT_BUFFER,
    CRN_OUTPUT_BUFFER,
    CRN_PARAM_BUFFER,
    CRN_WORKSPACE_BUFFER
} crn_recipe_source;

typedef struct crn_recipe_buffer {
    dnnl_memory_desc_t layout;
    crn_recipe_source source;
    uint64_t at; /* place in the op's list, or offset in the workspace */
} crn_recipe_buffer;

typedef struct crn_recipe_argument {
    int name;        /* DNNL_ARG_* */
    uint32_t buffer; /* which */
} crn_recipe_argument;

typedef struct crn_recipe_stage {
    dnnl_primitive_desc_t what;
    crn_recipe_argument arguments[CRN_RECIPE_ARGUMENTS];
    uint32_t argument_count;
} crn_recipe_stage;

typedef struct crn_recipe {
    const crn_site *site;
    crn_recipe_buffer buffers[CRN_RECIPE_BUFFERS];
    crn_recipe_stage stages[CRN_RECIPE_STAGES];
    uint32_t buffer_count, stage_count;
    uint64_t workspace;
    bool failed;
} crn_recipe;

typedef void crn_recipe_builder(crn_recipe *recipe);

/* ---- Describing one ---- */

/* An operand in a layout; `index` in the op's list of that source. Returns its number. */
uint32_t crn_recipe_operand(crn_recipe *recipe, crn_recipe_source source, uint32_t index,
                            const dnnl_memory_desc_t *layout);

/* A buffer in the workspace. */
uint32_t crn_recipe_temporary(crn_recipe *recipe, const dnnl_memory_desc_t *layout);

/* The buffer to read instead of `buffer` by who wants `layout`: itself, or a reordered copy. */
uint32_t crn_recipe_read_as(crn_recipe *recipe, uint32_t buffer, const dnnl_memory_desc_t *layout);

/* The buffer to write instead of `buffer` by who makes `layout`; where the two differ,
 * crn_recipe_written() adds the reorder that comes after. */
uint32_t crn_recipe_write_as(crn_recipe *recipe, uint32_t buffer, const dnnl_memory_desc_t *layout);
void crn_recipe_written(crn_recipe *recipe, uint32_t written, uint32_t buffer);

/* A primitive; the recipe takes the descriptor over and gives it a scratchpad. */
void crn_recipe_add(crn_recipe *recipe, dnnl_primitive_desc_t what,
                    const crn_recipe_argument *arguments, uint32_t count);

/* Attributes with a scratchpad of the user's, and the engine; made once. */
dnnl_primitive_attr_t crn_recipe_attributes(void);
dnnl_engine_t crn_recipe_engine(void);

/* Layout of a tensor as it is stored; plain or blocked image layouts of a shape. */
bool crn_layout_stored(const crn_site *site, cairn_id tensor, dnnl_memory_desc_t *out);
bool crn_layout_plain(const uint32_t *shape, uint32_t rank, dnnl_memory_desc_t *out);
bool crn_layout_blocked(const uint32_t shape[4], uint32_t block, dnnl_memory_desc_t *out);

/* ---- A kernel out of a builder ---- */

bool crn_recipe_fits(const crn_site *site, crn_recipe_builder *build);
uint64_t crn_recipe_workspace(const crn_site *site, crn_recipe_builder *build);
CAIRN_MUST cairn_status crn_recipe_prepare(crn_call *call, const cairn_allocator *allocator,
                                           crn_recipe_builder *build, cairn_error *err);
void crn_recipe_run(const crn_call *call);
void crn_recipe_finish(crn_call *call, const cairn_allocator *allocator);

/* The builders, from the list. */
#define RECIPE(kind, builder) crn_recipe_builder crn_build_##builder;
#define KERNEL(kind, function, fits, workspace)
#include "backend/cpu/cpu_kernels.def"
#undef KERNEL
#undef RECIPE

#endif
