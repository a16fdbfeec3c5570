/* derivative_rules.h: how each kind of forward op is differentiated, in one or two rules. */
#ifndef CRN_DERIVATIVE_RULES_H
#define CRN_DERIVATIVE_RULES_H

#include "graph/graph_internal.h"

/* An operand of a backward op: a tensor of the forward op, or a gradient of one. */
typedef enum crn_operand_kind {
    CRN_NOTHING,
    CRN_FORWARD_INPUT,
    CRN_FORWARD_OUTPUT,
    CRN_PARAM,
    CRN_GRAD_OUTPUT,
    CRN_GRAD_INPUT,
    CRN_GRAD_PARAM,
    CRN_SUM_PARAM, /* the gradient of a parameter so far, which the op adds to; not there if the op
                      is the first */
    CRN_HANDED
} crn_operand_kind;

typedef struct crn_operand {
    uint8_t what, index;
} crn_operand;

typedef struct crn_rule {
    cairn_op_kind forward, backward;
    crn_operand reads[4], params[2], writes[4];
    crn_operand handed_like; /* T(0) has the shape of this */
    bool each_input;         /* one backward op per input; GX(0) is the gradient of that input */
    bool alias;              /* the written gradient is an alias of the gradient that is read */
} crn_rule;

extern const crn_rule crn_rules[];
extern const size_t crn_rule_count;

/* The forward tensor whose gradient a written operand is. CAIRN_NONE: the op has no such parameter.
 * `input` is the input at hand, for a rule with `each_input`. */
cairn_id crn_rule_target(const cairn_op *op, crn_operand written, uint32_t input);

/* The first channel of input `input` in a concatenation. */
int32_t crn_channel_offset(const cairn_graph *graph, const cairn_op *concat, uint32_t input);

#endif
