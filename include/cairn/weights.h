/* weights.h: weights in and out, as safetensors files.
 *
 *     file --cairn_weights_load--> parameters and state of an executor
 *     parameters and state of an executor (+ the caller's tensors and words) --save--> file
 *
 * Names are those of the graph, which are PyTorch's; for each network docs/weights.md has them. */
#ifndef CAIRN_WEIGHTS_H
#define CAIRN_WEIGHTS_H

#include "cairn/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tensors with names ---- */

/* What the elements of a tensor in a file can be: name, frozen number, bytes. In the order of the
 * format's own library: it is the order in which a file is written, largest alignment first. */
#define CAIRN_ELEMENT_LIST(X)                                                                      \
    X(BOOL, 0, 1)                                                                                  \
    X(U8, 1, 1)                                                                                    \
    X(I8, 2, 1)                                                                                    \
    X(F8_E5M2, 3, 1)                                                                               \
    X(F8_E4M3, 4, 1)                                                                               \
    X(I16, 5, 2)                                                                                   \
    X(U16, 6, 2)                                                                                   \
    X(F16, 7, 2)                                                                                   \
    X(BF16, 8, 2)                                                                                  \
    X(I32, 9, 4)                                                                                   \
    X(U32, 10, 4)                                                                                  \
    X(F32, 11, 4)                                                                                  \
    X(F64, 12, 8)                                                                                  \
    X(I64, 13, 8)                                                                                  \
    X(U64, 14, 8)

typedef enum cairn_element {
#define X(name, number, bytes) CAIRN_ELEMENT_##name = number,
    CAIRN_ELEMENT_LIST(X)
#undef X
        CAIRN_ELEMENTS /* how many there are */
} cairn_element;

#define CAIRN_NAMED_TENSOR_RANK 8

/* A tensor as a file has it. `data` is in the machine's own byte order and aligned for its
 * elements. */
typedef struct cairn_named_tensor {
    const char *name;
    cairn_element element;
    uint32_t rank; /* 0: a single element */
    uint64_t shape[CAIRN_NAMED_TENSOR_RANK];
    const void *data;
    uint64_t bytes; /* of a tensor that was read; a writer computes it from the shape */
} cairn_named_tensor;

/* A word of a file's metadata. */
typedef struct cairn_pair {
    const char *key, *value;
} cairn_pair;

/* ---- The weights of an executor ---- */

/* Start from CAIRN_WEIGHTS_SAVE_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_weights_save_options {
    uint32_t struct_size;
    uint64_t steps;                  /* of training so far: written as num_batches_tracked */
    const cairn_pair *metadata;      /* words for the file; "format" and "network" are added */
    uint32_t metadata_count;         /* unless they are among them */
    const cairn_named_tensor *extra; /* more tensors, an optimiser's say; names with "cairn." in */
    uint32_t extra_count;            /* front are ignored when weights are loaded */
} cairn_weights_save_options;
#define CAIRN_WEIGHTS_SAVE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_weights_save_options)

/* Write every parameter and state tensor of the executor, as F32, and for each batch-norm
 * NAME.num_batches_tracked. `graph` is the executor's. `options` may be NULL. CAIRN_EIO: the
 * file cannot be written; an existing one is unchanged. CAIRN_EINVAL: a name occurs twice. */
CAIRN_API CAIRN_MUST cairn_status cairn_weights_save(cairn_exec *exec, const cairn_graph *graph,
                                                     const char *path,
                                                     const cairn_weights_save_options *options,
                                                     cairn_error *err);

/* Set every parameter and state tensor of the executor from a file. F64, F16 and BF16 become F32.
 *
 * Ignored: num_batches_tracked, what begins with "cairn.", and auxiliary heads (AuxLogits.*,
 * aux*). Understood: names with "module." or "_orig_mod." in front, and those of old DenseNet files
 * (norm.1 for norm1). A line for each of these that matters to a user is put into `notices`, which
 * may be NULL; it is initialised here and the caller's to release.
 *
 * CAIRN_EINVAL: the file lacks a tensor, has one of another shape or kind of elements, or has
 * tensors that the network does not have; the executor is then unchanged. Otherwise fails as
 * cairn_safetensors_load() does. Optimiser slots are left as they are. O(bytes + n log n). */
CAIRN_API CAIRN_MUST cairn_status cairn_weights_load(cairn_exec *exec, const cairn_graph *graph,
                                                     const char *path, cairn_text *notices,
                                                     cairn_error *err);

/* The same from tensors in memory: those of a file that was read already, or of another program.
 * `source` is named in errors as the file and may be NULL. */
CAIRN_API CAIRN_MUST cairn_status cairn_weights_assign(cairn_exec *exec, const cairn_graph *graph,
                                                       const cairn_named_tensor *tensors,
                                                       uint32_t count, const char *source,
                                                       cairn_text *notices, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
