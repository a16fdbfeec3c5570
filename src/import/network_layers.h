/* network_layers.h: what a line of a network file (docs/network-format.md) need not say: the
 * parameters that a layer has, and the values of attributes that are left out. Reader and writer go
 * by it. Kinds without parameters and attributes without a default need no row here. */
#ifndef CRN_NETWORK_LAYERS_H
#define CRN_NETWORK_LAYERS_H

#include "base/crn_base.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "graph/op_kinds.h"

#define CRN_MOST_PARAMS 4

/* A dimension of a parameter. */
typedef enum crn_extent {
    CRN_EXTENT_SIZE,      /* what the layer's own size says, see `size` */
    CRN_EXTENT_ROWS,      /* what `rows` says: of a table */
    CRN_EXTENT_CHANNELS,  /* dimension 1 of the input */
    CRN_EXTENT_PER_GROUP, /* the same divided by the groups */
    CRN_EXTENT_LAST,      /* the last dimension of the input */
    CRN_EXTENT_HEIGHT,    /* of the kernel */
    CRN_EXTENT_WIDTH
} crn_extent;

typedef struct crn_layer_param {
    const char *suffix; /* its name after that of the layer; of an optional one also its switch */
    cairn_role role;
    uint32_t rank;
    crn_extent shape[CRN_MOST_PARAMS];
} crn_layer_param;

typedef struct crn_layer {
    const char *kind;
    const char *size; /* "channels" or "features"; NULL: it has none */
    bool rows;
    bool optional; /* the last parameter may be switched off: bias=no */
    int32_t label; /* of a loss: labels have the shape of the logits without this dimension; -1 is
                      the last one; 0: it is no loss */
    uint32_t count;
    crn_layer_param params[CRN_MOST_PARAMS];
} crn_layer;

/* By the name of its kind. A kind without a row has no parameters and no size. */
const crn_layer *crn_layer_of(const char *kind);

/* The shape of a parameter of an op that reads `x`. False: `x` has no such dimension. */
bool crn_layer_shape(const crn_layer_param *param, const cairn_tensor *x,
                     const cairn_attributes *attributes, uint32_t size, uint32_t rows,
                     uint32_t *shape);

/* Give an attribute the value that it has where a file says nothing. False: it must be said. Those
 * before it in crn_attribute_list are set already. */
bool crn_layer_default(const char *kind, const crn_attribute *attribute,
                       cairn_attributes *attributes);

#endif
