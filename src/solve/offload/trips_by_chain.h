/* trips_by_chain.h: choosing the round trips of a network with algorithms for chains. */
#ifndef CRN_TRIPS_BY_CHAIN_H
#define CRN_TRIPS_BY_CHAIN_H

#include "cairn/papers/offload.h"
#include "cairn/papers/views.h"
#include "solve/chain/network_pieces.h"
#include "solve/offload/offload_network.h"

/* The chain of a network as an offloading problem; see cairn/offload_view.h. */
typedef struct crn_pieces_problem {
    crn_network_pieces network;
    cairn_offload_problem problem;
    uint64_t constant; /* bytes in use besides the problem's memory */
} crn_pieces_problem;

/* The arrays of such a problem while they are filled. x and y have n + 1 elements, the others n. */
typedef struct crn_offload_arrays {
    uint64_t *x, *y, *forward_extra, *backward_extra, *forward_time, *backward_time;
} crn_offload_arrays;

CAIRN_MUST cairn_status crn_offload_arrays_take(crn_arena *arena, uint32_t n,
                                                crn_offload_arrays *a);
uint64_t crn_microseconds(uint64_t ns);
cairn_offload_problem crn_offload_arrays_problem(const crn_offload_arrays *a, uint32_t layers,
                                                 const cairn_machine *machine, uint64_t all_times);

/* The result is allocated in problem->scratch; `view` must outlive it. */
CAIRN_MUST cairn_status crn_pieces_problem_build(const crn_problem *problem,
                                                 const cairn_chain_view *view,
                                                 crn_pieces_problem *out);

/* The algorithms that choose on the chain, in a fixed order; NULL past the end. */
const char *crn_pieces_algorithm(uint32_t index);

/* Choose trips with the algorithm `name` for `budget`, which is at least the floor of `trips`, and
 * add the trips that are then still missing. `choice` must be empty; `room` has one value per
 * op. */
CAIRN_MUST cairn_status crn_choose_by_pieces(const crn_pieces_problem *chain,
                                             const crn_trips *trips, const char *name,
                                             uint64_t budget, crn_trip_choice *choice,
                                             uint64_t *room);

/* Solve a chain for `memory`, or for the smallest memory that is possible if that is more. */
CAIRN_MUST cairn_status crn_offload_solve_within(const crn_trips *trips,
                                                 const cairn_offload_problem *chain,
                                                 const char *name, uint64_t memory,
                                                 cairn_offload_solution **out);

/* Add the trips that `budget` still requires. */
void crn_complete_choice(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                         uint64_t *room);

/* ---- trips_by_ops.c: the chain of single ops ---- */

typedef struct crn_ops_problem {
    cairn_offload_problem problem;
    uint32_t *layer_of; /* per trip: the activation that it belongs to */
} crn_ops_problem;

CAIRN_MUST cairn_status crn_ops_problem_build(const crn_trips *trips, crn_ops_problem *out);

/* As crn_choose_by_pieces(). */
CAIRN_MUST cairn_status crn_choose_by_ops(const crn_ops_problem *chain, const crn_trips *trips,
                                          const char *name, uint64_t budget,
                                          crn_trip_choice *choice, uint64_t *room);

#endif
