/* zoo_internal.h: what the files of the zoo share.
 *
 * A family is a function that adds its ops to a builder, which remembers the first error, so that
 * the code reads like the network. Ops are named as the modules of the published PyTorch code, so
 * that parameters bear the names of its checkpoints. */
#ifndef ZOO_INTERNAL_H
#define ZOO_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/zoo.h"
#include "graph/layers.h"

typedef struct crn_zoo {
    cairn_builder *builder;
    uint32_t batch, channels, height, width; /* recurrent: channels are features, height hidden */
    uint32_t classes, steps, depth;
    double smoothing;  /* of labels */
    const char *sizes; /* what follows the colon of the name; "": nothing */
    size_t scope;      /* length of the prefix that crn_zoo_name() puts before a name */
    char path[160];    /* the prefix, then the name made last */
} crn_zoo;

/* The families: crn_zoo_resnet() and so on, declared from the list. */
#define X(name, family, depth, channels, height, width, classes, steps, small, summary)            \
    void crn_zoo_##family(crn_zoo *net);
#include "import/networks.def"
#undef X

/* ---- zoo_sizes.c: transformers ---- */

typedef struct crn_zoo_sizes {
    uint32_t layers, width, heads, kv_heads, ffn;
    uint32_t vocabulary, positions; /* the default vocabulary; the rows of a table of positions */
    double theta, scaling, epsilon; /* the first two: of a rotary embedding */
    bool tied, biased; /* the head is the embedding's table; projections to queries have a bias */
} crn_zoo_sizes;

/* The sizes of a family, as the network's name gives them. False: it names some that do not exist,
 * or they do not fit each other, and the builder has failed. */
bool crn_zoo_read_sizes(crn_zoo *net, const char *family, crn_zoo_sizes *out);

/* The vocabulary of the published size that begins a list; 0: it begins with none. */
uint32_t crn_zoo_vocabulary(const char *sizes);

#define CRN_ZOO_DEVIATION 0.02 /* with which weights of transformers start */

/* A linear layer with parameters NAME.weight and, if `bias`, NAME.bias. */
cairn_id crn_zoo_linear(crn_zoo *net, const char *name, cairn_id x, uint32_t features, bool bias,
                        double deviation);
/* Tokens "input" [batch, steps], and the rows of a new table for them, which is NAME.weight. */
cairn_id crn_zoo_embedding(crn_zoo *net, const char *name, uint32_t width, cairn_id *table);
/* "label" [batch, steps] and "loss". */
void crn_zoo_token_loss(crn_zoo *net, cairn_id logits);

/* ---- zoo.c ---- */

/* Enter a module: names from here on begin with its name and a dot. Returns the argument
 * for crn_zoo_leave(), which leaves it. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
size_t
crn_zoo_enter(crn_zoo *net, const char *format, ...);
void crn_zoo_leave(crn_zoo *net, size_t outside);

/* A name in the present module; valid until the next call. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
const char *
crn_zoo_name(crn_zoo *net, const char *format, ...);

/* Make the builder fail with a sentence. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void
crn_zoo_fail(crn_zoo *net, const char *format, ...);

/* The images: "input", [batch, channels, height, width]. */
cairn_id crn_zoo_images(crn_zoo *net);

/* The end of a network that gives one class an image: "label" and "loss". */
void crn_zoo_loss(crn_zoo *net, cairn_id logits);

/* A square convolution without bias. */
crn_conv crn_zoo_square(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad);

#define CRN_ZOO_EPSILON 1e-5 /* of a batch-norm, where a network says nothing else */

/* Convolution, batch-norm, ReLU. The three names are in the present module; no third: no ReLU. */
typedef struct crn_zoo_names {
    const char *conv, *norm, *relu;
} crn_zoo_names;
cairn_id crn_zoo_conv_norm_relu(crn_zoo *net, crn_zoo_names names, cairn_id x, crn_conv conv,
                                double epsilon);

uint32_t crn_zoo_channels(const crn_zoo *net, cairn_id x);

#endif
