/* homes_levels.c: what can be at home on the host, as a list that is divided into levels.
 *
 *     host     | slots, spread over the step | parameters, spread over the step | ...
 *              0 ... level ... 16               the first tensors of this list are at home there
 *
 * Over micro-batches, slots that only the last one uses come first, and the sums of gradients after
 * them. What is changed when the step is nearly over comes last. */
#include "solve/homes_search.h"

#include "cost/crn_cost.h"
#include "graph/crn_graph.h"

#include <stdlib.h>

#define LEAST_BYTES ((uint64_t)64 << 10) /* a smaller tensor is not worth a copy */
#define SMALL_BYTES ((uint64_t)1 << 20)
#define SCATTER 2654435769u /* 2^32 by the golden ratio: multiples of it are evenly spread */
#define LATE_SHARE 16       /* of the step, at its end */

typedef crn_homes_search search;

static bool is_movable(const cairn_tensor *tensor) {
    return tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_SLOT;
}

typedef struct candidate {
    cairn_id tensor;
    bool late;       /* changed when the step is nearly over: nothing would hide its copy home */
    uint32_t copies; /* how often it is copied; the fewest are first on the host */
    bool small;      /* they are the last, because every copy has a latency */
    uint32_t place;  /* scattered, so that the copies of any level are spread over the step */
    uint64_t bytes;
} candidate;

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->late != y->late)
        return x->late ? 1 : -1;
    if (x->copies != y->copies)
        return x->copies > y->copies ? 1 : -1;
    if (x->small != y->small)
        return x->small ? 1 : -1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Mark the tensors that some op uses, and those that an update changes. Others need not be on the
 * device, and are left as they are. */
static void mark_used(const search *s, bool *used, bool *changed) {
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count; i++) {
            used[op->params[i]] = true;
            changed[op->params[i]] |= crn_op_updates(op);
        }
    }
}

int64_t crn_homes_least_time(const search *s, cairn_id op) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(s->costs, op, &count);
    int64_t least = count > 0 ? list[0].time_ns : 0;
    for (uint32_t i = 1; i < count; i++)
        least = CRN_MIN(least, list[i].time_ns);
    return least;
}

/* Mark what is changed so late that, if all of it were on the host, the link could not bring it
 * home while the ops after it run; at most in the last sixteenth of the step. */
static void mark_late(const search *s, bool *late) {
    int64_t all = 0, after = 0;
    uint64_t bytes = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        all = crn_add_time(all, crn_homes_least_time(s, o));
    if (crn_machine_copy_ns(s->options.machine, s->stationary) / 3 * 2 > all)
        return;
    for (cairn_id o = cairn_graph_op_count(s->graph); o-- > 0 && after <= all / LATE_SHARE;) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count && crn_op_updates(op); i++) {
            bytes += late[op->params[i]] ? 0 : cairn_costs_bytes(s->costs)[op->params[i]];
            late[op->params[i]] = crn_machine_copy_ns(s->options.machine, bytes) > after;
        }
        after = crn_add_time(after, crn_homes_least_time(s, o));
    }
}

cairn_status crn_homes_list(search *s) {
    uint32_t tensors = cairn_graph_tensor_count(s->graph);
    candidate *list;
    bool *used, *changed, *of_last, *late;
    CRN_TAKE(s->scratch, list, tensors);
    CRN_TAKE(s->scratch, of_last, tensors);
    if (s->micro_batches > 1)
        crn_graph_mark_last(s->graph, of_last);
    CRN_TAKE(s->scratch, used, tensors);
    CRN_TAKE(s->scratch, changed, tensors);
    CRN_TAKE(s->scratch, late, tensors);
    if (s->options.machine != NULL)
        mark_late(s, late);
    CRN_TAKE(s->scratch, s->order, tensors);
    CRN_TAKE(s->scratch, s->on_host, tensors);
    mark_used(s, used, changed);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        uint64_t bytes = crn_align(cairn_costs_bytes(s->costs)[t]);
        if (!is_movable(tensor))
            continue;
        s->movable += bytes;
        bool parameter = tensor->role == CAIRN_ROLE_PARAMETER;
        s->unchanged += changed[t] ? 0 : bytes;
        s->unread += changed[t] ? 0 : crn_costs_unread(s->costs, t);
        s->unread_parameters += crn_costs_unread(s->costs, t);
        s->of_last += of_last[t] ? bytes : 0;
        s->parameters += parameter ? bytes : 0;
        if (used[t] && bytes >= LEAST_BYTES)
            list[s->count++] = (candidate){.tensor = t,
                                           .late = late[t],
                                           .copies = parameter ? 2 : !of_last[t],
                                           .small = bytes < SMALL_BYTES,
                                           .place = SCATTER * t,
                                           .bytes = bytes};
    }
    if (s->count > 0)
        qsort(list, s->count, sizeof *list, compare_candidates);
    uint64_t all = 0, sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        s->order[i] = list[i].tensor;
        all += list[i].bytes;
    }
    uint32_t next = 0;
    for (uint32_t level = 0; level <= CRN_HOME_LEVELS; level++) {
        while (next < s->count && sum < all / CRN_HOME_LEVELS * level)
            sum += list[next++].bytes;
        if (level == CRN_HOME_LEVELS)
            for (; next < s->count; next++)
                sum += list[next].bytes;
        s->first_of[level] = next;
        s->bytes_of[level] = sum;
    }
    return CAIRN_OK;
}

uint64_t crn_homes_room(const search *s, uint64_t on_host) {
    uint64_t stays = s->stationary - on_host;
    return s->limit > stays ? s->limit - stays : 0;
}
