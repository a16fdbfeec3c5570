/* crn_graph.h: what the rest of the library asks a graph and embedders need not. */
#ifndef CRN_GRAPH_H
#define CRN_GRAPH_H

#include "base/crn_base.h"
#include "cairn/graph.h"

/* Names as they stand in files; NULL past the end of the list. */
const char *crn_role_name(cairn_role role);
const char *crn_phase_name(cairn_phase phase);

/* What the graph was made with, and what is made from it uses too. */
cairn_allocator crn_graph_allocator(const cairn_graph *graph);

/* The op of that name; CAIRN_NONE if there is none. O(n). */
cairn_id crn_graph_find_op(const cairn_graph *graph, const char *name);

/* The ops that read a tensor as an input, in canonical order, each once. */
const cairn_id *crn_graph_readers(const cairn_graph *graph, cairn_id tensor, uint32_t *count);

/* The tensor that holds the storage: the tensor itself, or what it is an alias of. */
cairn_id crn_graph_storage(const cairn_graph *graph, cairn_id tensor);

/* Whether a training step must end with the tensor in memory: the loss, a parameter's gradient, or
 * what is marked as a result. */
bool crn_graph_is_result(const cairn_graph *graph, cairn_id tensor);

/* Whether an op may make its result in place of the tensor. Of a parameter's gradients, which share
 * one stationary place, those that are not summed on are the final ones. */
bool crn_graph_is_summed(const cairn_graph *graph, cairn_id tensor);

/* A fingerprint of the structure: ops, order, edges, aliases, permissions, flags; not names, sizes
 * or attributes. A plan made for one graph fits every graph with the same fingerprint. */
uint64_t crn_graph_hash(const cairn_graph *graph);

/* See network_hash of cairn_graph_summary. O(n). */
uint64_t crn_network_hash(const cairn_graph *graph);

/* ---- Building ---- */

/* The shape of a tensor so far, for code that builds on it; a tensor of rank 0 after an error. */
cairn_tensor crn_builder_peek(const cairn_builder *builder, cairn_id tensor);

/* Make the builder fail with a sentence of the caller's. */
void crn_builder_fail(cairn_builder *builder, const char *sentence);

/* The first error of the builder; its status is CAIRN_OK as long as there is none. */
const cairn_error *crn_builder_error(const cairn_builder *builder);

/* A forward op of any kind: its outputs are inferred, and it may work in place where its kind may.
 * Returns its first output, or CAIRN_NONE after an error. */
cairn_id crn_build_op(cairn_builder *builder, cairn_op_kind kind, const char *name,
                      uint32_t input_count, const cairn_id *inputs, uint32_t param_count,
                      const cairn_id *params, const cairn_attributes *attributes);

/* ---- Ops of the optimiser ---- */

/* Whether updates of parameters are ops of the graph. */
bool crn_graph_has_updates(const cairn_graph *graph);

/* Whether the executor runs the op by its optimiser: an update, or a sum of squares for it. */
bool crn_op_is_of_optimizer(const cairn_op *op);

/* Whether the op changes all parameters and slots that it names: an op of the optimiser, or an
 * embedder's op that is marked so. */
bool crn_op_updates(const cairn_op *op);

/* Whether the tensor is a sum of squares, from which updates take the norm of all gradients. */
bool crn_graph_is_square_sum(const cairn_graph *graph, cairn_id tensor);

/* Mark the slots that only the last of several micro-batches uses: all but the sum of gradients,
 * which is the last of an update's params. */
void crn_graph_mark_last(const cairn_graph *graph, bool *of_last);

/* A step with updates in which ops that make large gradients of small tensors wait until
 * activations are freed. Tensors keep their ids; `order` gets the ids in `step` of the ops of
 * `*out`, and has room for all. `*out` NULL: nothing has to wait. */
CAIRN_MUST cairn_status crn_graph_delay(const cairn_graph *step, crn_arena *scratch,
                                        cairn_id *order, cairn_graph **out, cairn_error *err);

/* The step before cairn_graph_add_updates(). */
CAIRN_MUST cairn_status crn_graph_drop_updates(const cairn_graph *whole, cairn_graph **out,
                                               cairn_error *err);

#endif
