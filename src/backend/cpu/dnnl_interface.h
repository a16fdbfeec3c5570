/* dnnl_interface.h: hides the differences between the C interfaces of oneDNN 2.6 and oneDNN 3.
 *
 * In version 2 a layout (memory descriptor) is a structure, and a primitive is described in two
 * steps. In version 3 a layout is an object that must be destroyed, and there is one step.
 * dnnl_v2.c and dnnl_v3.c implement the same functions; the build uses the one that fits the
 * header. Everything else that the backend uses is the same in both versions.
 *
 * Functions that return bool return false if oneDNN refuses or memory runs out; then nothing was
 * created. */
#ifndef CRN_DNNL_INTERFACE_H
#define CRN_DNNL_INTERFACE_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- Layouts ---- */

typedef struct crn_layout {
    dnnl_memory_desc_t of; /* version 2: a structure; version 3: a pointer */
} crn_layout;

bool crn_dnnl_layout_by_tag(crn_layout *out, int rank, const dnnl_dims_t dims,
                            dnnl_data_type_t type, dnnl_format_tag_t tag);
bool crn_dnnl_layout_by_strides(crn_layout *out, int rank, const dnnl_dims_t dims,
                                dnnl_data_type_t type, const dnnl_dims_t strides);

/* A copy of the layout that a primitive requires for an operand; `query` is dnnl_query_*_md. */
bool crn_dnnl_layout_of(crn_layout *out, dnnl_primitive_desc_t primitive, dnnl_query_t query);

void crn_dnnl_layout_destroy(crn_layout *layout);
bool crn_dnnl_layout_equal(const crn_layout *a, const crn_layout *b);
size_t crn_dnnl_layout_bytes(const crn_layout *layout);

bool crn_dnnl_memory_create(dnnl_memory_t *out, const crn_layout *layout, dnnl_engine_t engine,
                            void *address);

/* ---- Primitives ---- */

typedef enum crn_dnnl_pass { CRN_PASS_FORWARD, CRN_PASS_WEIGHTS, CRN_PASS_DATA } crn_dnnl_pass;

/* The setting in which a primitive is created. A backward pass needs its forward pass as a hint. */
typedef struct crn_dnnl_setting {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t forward; /* NULL: this is the forward pass */
} crn_dnnl_setting;

/* The operands of a convolution or a linear layer. In a backward pass the one that is computed is a
 * gradient; `bias` is NULL if there is none. */
typedef struct crn_dnnl_operands {
    const crn_layout *source, *weights, *bias, *result;
} crn_dnnl_operands;

/* `dilates` counts the places between two taps: 0 is an ordinary convolution. */
typedef struct crn_dnnl_window {
    bool transposed;
    dnnl_dims_t strides, dilates, pad_before, pad_after;
} crn_dnnl_window;

bool crn_dnnl_convolution(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                          crn_dnnl_pass pass, const crn_dnnl_operands *operands,
                          const crn_dnnl_window *window);
bool crn_dnnl_linear(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                     crn_dnnl_pass pass, const crn_dnnl_operands *operands);

/* c = a b, or that added to c; oneDNN allocates its own scratchpad. */
bool crn_dnnl_product(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const crn_layout *a,
                      const crn_layout *b, const crn_layout *c, bool add);
bool crn_dnnl_reorder(dnnl_primitive_desc_t *out, const crn_dnnl_setting *setting,
                      const crn_layout *from, const crn_layout *to);

#endif
