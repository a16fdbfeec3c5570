/* branch_bound.c: a higher bound at a moment, by cases.
 *
 * The price of memory treats values as if they could be kept in part. In every plan a value is in
 * memory at the moment or it is not, so the lower of the bounds of both cases is a bound:
 *
 *                        all plans
 *                  a kept /      \ a not kept        the bound is the least of the leaves; the
 *                   leaf         /\                  leaf with the least is divided next
 *                        b kept /  \ b not kept
 *
 * The two minimum cuts on both sides of the best price differ in the values that are kept; the
 * largest of these divides a leaf. */
#include "solve/auto/time_bound.h"

#define NODE_MIN_CUTS 6u /* to find the price of a case */

typedef CRN_ARRAY(uint8_t) edge_flags;

/* A case. */
typedef struct node {
    uint32_t parent, edge; /* parent CRN_NO_OP: the root */
    uint8_t forced;        /* of the edge */
    bool open;             /* it has no cases of its own */
    uint32_t next;         /* the edge that divides it; CRN_NO_OP: none */
    int64_t bound, price;
} node;

typedef struct branches {
    crn_bound *bound;
    uint64_t budget;
    CRN_ARRAY(node) nodes;
    edge_flags left, right; /* what the minimum cuts on both sides of the best price keep */
} branches;

static void force_none(crn_bound *bound) {
    for (uint32_t e = 0; e < bound->forced.length; e++)
        bound->forced.data[e] = CRN_FREE;
}

static void assume(branches *b, uint32_t at) {
    force_none(b->bound);
    for (; b->nodes.data[at].parent != CRN_NO_OP; at = b->nodes.data[at].parent)
        b->bound->forced.data[b->nodes.data[at].edge] = b->nodes.data[at].forced;
}

static void note_min_cut(const crn_bound *bound, edge_flags *flags) {
    for (uint32_t e = 0; e < bound->forced.length; e++)
        flags->data[e] = crn_bound_keeps_edge(bound, e);
}

/* The largest value that one minimum cut keeps and the other does not. Edges to the sink are left
 * out: a value that cannot be made again is always kept, and a flow without limit would overflow.
 */
static uint32_t find_divider(const branches *b) {
    const crn_bound *bound = b->bound;
    const crn_min_cut_network *network = bound->network;
    uint32_t best = CRN_NO_OP;
    for (uint32_t e = 0; e < bound->forced.length; e++)
        if (b->left.data[e] != b->right.data[e] && bound->edge_bytes.data[e] > 0 &&
            network->edges.data[2 * e].to != network->sink &&
            (best == CRN_NO_OP || bound->edge_bytes.data[e] > bound->edge_bytes.data[best]))
            best = e;
    return best;
}

/* Find the price with the highest bound, from that of the parent. */
static void evaluate(branches *b, uint32_t at) {
    crn_bound *bound = b->bound;
    node *n = &b->nodes.data[at];
    int64_t price = n->price, times[2] = {0, 0};
    uint64_t bytes[2] = {0, 0};
    bool known[2] = {false, false};
    assume(b, at);
    for (uint32_t k = 0; k < NODE_MIN_CUTS; k++) {
        int64_t value = crn_bound_min_cut(bound, price);
        value += price * ((int64_t)bound->fixed - (int64_t)b->budget);
        if (value > n->bound) {
            n->bound = value;
            n->price = price;
        }
        int side = bound->min_cut_bytes + bound->fixed <= b->budget;
        if (known[side] && bytes[side] == bound->min_cut_bytes)
            break;
        known[side] = true;
        times[side] = bound->min_cut_time;
        bytes[side] = bound->min_cut_bytes;
        note_min_cut(bound, side ? &b->right : &b->left);
        int64_t next = side ? price / 2 : CRN_MIN(2 * price, bound->most_price);
        if (known[0] && known[1])
            next = (times[1] - times[0]) / (int64_t)(bytes[0] - bytes[1]);
        if (next < 1 || next == price)
            break;
        price = CRN_MIN(next, bound->most_price);
    }
    n->next = known[0] && known[1] ? find_divider(b) : CRN_NO_OP;
    if (!known[1] && crn_bound_least(bound) > b->budget)
        n->bound = INT64_MAX;
}

static cairn_status add_case(branches *b, uint32_t parent, uint8_t forced) {
    node child = b->nodes.data[parent];
    child.edge = child.next;
    child.parent = parent;
    child.forced = forced;
    CRN_PUSH(b->bound->arena, b->nodes, child);
    evaluate(b, b->nodes.length - 1);
    return CAIRN_OK;
}

static uint32_t lowest_leaf(const branches *b) {
    uint32_t lowest = CRN_NO_OP;
    for (uint32_t k = 0; k < b->nodes.length; k++)
        if (b->nodes.data[k].open &&
            (lowest == CRN_NO_OP || b->nodes.data[k].bound < b->nodes.data[lowest].bound))
            lowest = k;
    return lowest;
}

static cairn_status make_flags(branches *b) {
    for (uint32_t e = 0; e < b->bound->forced.length; e++) {
        CRN_PUSH(b->bound->arena, b->left, 0);
        CRN_PUSH(b->bound->arena, b->right, 0);
    }
    return CAIRN_OK;
}

cairn_status crn_bound_branch(crn_bound *bound, uint64_t budget, int64_t price, uint32_t min_cuts,
                              int64_t *out) {
    branches b = {.bound = bound, .budget = budget};
    node root = {.parent = CRN_NO_OP, .open = true, .price = CRN_MAX(price, 1)};
    uint64_t last = bound->min_cuts + min_cuts;
    uint32_t at = 0;
    CRN_TRY(make_flags(&b));
    CRN_PUSH(bound->arena, b.nodes, root);
    evaluate(&b, 0);
    while (bound->min_cuts < last && b.nodes.data[at].next != CRN_NO_OP) {
        CRN_TRY(add_case(&b, at, CRN_KEPT));
        CRN_TRY(add_case(&b, at, CRN_GONE));
        b.nodes.data[at].open = false;
        at = lowest_leaf(&b);
    }
    force_none(bound);
    int64_t found = b.nodes.data[at].bound;
    *out = found == INT64_MAX ? found : found >> bound->scale << bound->coarse;
    return CAIRN_OK;
}
