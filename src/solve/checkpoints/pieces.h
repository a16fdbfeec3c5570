/* pieces.h: shared by the files of the algorithm `pieces`. */
#ifndef CRN_PIECES_H
#define CRN_PIECES_H

#include "solve/checkpoints/acg_internal.h"

/* Scratch memory for the value of a set; it can be used many times. */
typedef struct crn_pieces_room {
    uint32_t *index, *low, *stack, *path, *at; /* Tarjan's search, per vertex */
    uint32_t *component;                       /* result: per vertex, its merged component */
    uint64_t *cost; /* result: per component, the cost of its vertices that are not chosen */
    uint32_t component_count;
} crn_pieces_room;

CAIRN_MUST cairn_status crn_pieces_room_take(crn_arena *arena, const crn_acg *problem,
                                             crn_pieces_room *out);

/* CAIRN_ACG_OBJECTIVE_PIECES: the cost of what is kept, and of the largest component. */
typedef struct crn_pieces_value {
    uint64_t kept, largest;
} crn_pieces_value;

/* O(n + m). */
crn_pieces_value crn_pieces_evaluate(const crn_acg *problem, const uint8_t *chosen,
                                     crn_pieces_room *room);

/* Graphs of up to this many vertices are solved exactly. */
#define CRN_PIECES_SMALL 18

/* The best set whose value is below `bound`. `chosen` does not change if there is none. */
CAIRN_MUST cairn_status crn_pieces_small(const crn_acg *problem, crn_arena *arena, uint64_t bound,
                                         uint8_t *chosen);

/* The best set that cutting one topological order into stages gives, with limits up to
 * `largest`. */
CAIRN_MUST cairn_status crn_pieces_stages(const crn_acg *problem, crn_arena *arena,
                                          bool depth_first, uint64_t largest, uint8_t *chosen);

#endif
