/* offload_by_chain.h: choosing round trips of a network by its chain. */
#ifndef CRN_OFFLOAD_BY_CHAIN_H
#define CRN_OFFLOAD_BY_CHAIN_H

#include "cairn/offload.h"
#include "cairn/views.h"
#include "solve/network_chain.h"
#include "solve/offload_network.h"

/* The chain of a network as an offloading problem; see cairn/offload_view.h. */
typedef struct crn_chain_problem {
    crn_network_chain network;
    cairn_offload_problem problem;
    uint64_t constant; /* bytes that are there besides the problem's memory */
} crn_chain_problem;

/* Lies in problem->scratch; `view` must outlive it. */
CAIRN_MUST cairn_status crn_chain_problem_build(const crn_problem *problem,
                                                const cairn_chain_view *view,
                                                crn_chain_problem *out);

/* The algorithms that choose on the chain, in a fixed order; NULL past the end. */
const char *crn_chain_algorithm(uint32_t index);

/* Choose by the algorithm called `name` for `budget`, which is at least the floor of `trips`, and
 * add what is then still missing. `choice` must be empty; `room` is per op. */
CAIRN_MUST cairn_status crn_choose_by_chain(const crn_chain_problem *chain, const crn_trips *trips,
                                            const char *name, uint64_t budget,
                                            crn_trip_choice *choice, uint64_t *room);

#endif
