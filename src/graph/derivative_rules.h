/* derivative_rules.h: how forward kinds are differentiated, one or two rules for each. */
#ifndef CRN_DERIVATIVE_RULES_H
#define CRN_DERIVATIVE_RULES_H

#include "graph/graph_internal.h"

/* What of a forward op, or of its gradients, a backward op reads or writes. */
typedef enum crn_operand_kind {
    CRN_NOTHING,
    CRN_FORWARD_INPUT,
    CRN_FORWARD_OUTPUT,
    CRN_PARAM,
    CRN_GRAD_OUTPUT,
    CRN_GRAD_INPUT,
    CRN_GRAD_PARAM,
    CRN_HANDED
} crn_operand_kind;

typedef struct crn_operand {
    uint8_t what, index;
} crn_operand;

typedef struct crn_rule {
    cairn_op_kind forward, backward;
    crn_operand reads[4], params[2], writes[4];
    crn_operand handed_like; /* T(0) has the shape of this */
    bool each_input;         /* one op per input, which is GX(0) */
    bool alias;              /* the gradient is an alias of what is read */
} crn_rule;

extern const crn_rule crn_rules[];
extern const size_t crn_rule_count;

/* The forward tensor whose gradient a written operand is; CAIRN_NONE: the op has no such parameter.
 * `input` counts the inputs of a rule that makes one op for each. */
cairn_id crn_rule_target(const cairn_op *op, crn_operand written, uint32_t input);

/* The first channel of input `input` in a concatenation. */
int32_t crn_channel_offset(const cairn_graph *graph, const cairn_op *concat, uint32_t input);

#endif
