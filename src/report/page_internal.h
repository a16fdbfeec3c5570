/* page_internal.h: shared by the files that make a page's data. */
#ifndef CRN_PAGE_INTERNAL_H
#define CRN_PAGE_INTERNAL_H

#include "cairn/page.h"
#include "report/page_columns.h"

/* ,"key":value */
void crn_page_number(cairn_text *text, const char *key, uint64_t value);

/* The graph and its costs: an object with the columns of tensors and ops. */
void crn_page_graph(cairn_text *text, const cairn_graph *graph, const cairn_costs *costs);

/* What a plan's data is made from. */
typedef struct crn_page_subject {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_solution *solution;
} crn_page_subject;

/* One plan as an object: figures, steps with times, lifetimes with addresses. `measured` may be
 * NULL. The only error is CAIRN_ENOMEM; the caller checks whether writing to `text` failed. */
CAIRN_MUST cairn_status crn_page_plan(cairn_text *text, const crn_page_subject *subject,
                                      const cairn_sim_step *measured);

#endif
