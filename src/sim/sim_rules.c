/* sim_rules.c: names and error messages of the rules. */
#include "sim/sim_walk.h"
#include "sim/crn_sim.h"

#include <stdio.h>

const char *crn_rule_name(cairn_rule rule) {
    static const char *const names[] = {
#define X(name, number, words) [number] = #name,
        CAIRN_RULE_LIST(X)
#undef X
    };
    return (unsigned)rule < CRN_LENGTH(names) ? names[rule] : NULL;
}

void crn_sim_describe(const crn_sim_walk *w, cairn_error *err) {
    static const char *const sentences[] = {
#define X(name, number, words) [number] = words,
        CAIRN_RULE_LIST(X)
#undef X
    };
    const cairn_sim_summary *s = &w->sim->summary;
    bool is_op = s->rule == CAIRN_RULE_ONCE_TWICE || s->rule == CAIRN_RULE_NEVER_AGAIN ||
                 s->rule == CAIRN_RULE_NO_IMPLEMENTATION || s->rule == CAIRN_RULE_NOT_OF_GOAL ||
                 s->rule == CAIRN_RULE_EFFECT_MISSING || s->rule == CAIRN_RULE_OTHER_IMPLEMENTATION;
    const char *name = "nothing";
    if (s->culprit != CAIRN_NONE)
        name = is_op ? cairn_graph_op(w->graph, s->culprit)->name
                     : cairn_graph_tensor(w->graph, s->culprit)->name;
    char where[300] = "at the end", words[300];
    const cairn_step *steps = w->plan->steps;
    uint32_t step_count = w->plan->step_count;
    if (s->broken_step < step_count) {
        const cairn_step *step = &steps[s->broken_step];
        snprintf(where, sizeof where, "step %u (%s %s)", s->broken_step,
                 cairn_step_kind_name((cairn_step_kind)step->kind),
                 step->kind == CAIRN_STEP_RUN ? cairn_graph_op(w->graph, step->id)->name
                                              : cairn_graph_tensor(w->graph, step->id)->name);
    }
    const char *hole = strstr(sentences[s->rule], "%s");
    snprintf(words, sizeof words, "%.*s\"%s\"%s", (int)(hole - sentences[s->rule]),
             sentences[s->rule], name, hole + 2);
    if (s->rule == CAIRN_RULE_OVER_BUDGET)
        crn_fail_at(err, CAIRN_EINVAL, name, "%s %s: %llu bytes against %llu", where, words,
                    (unsigned long long)s->peak_bytes, (unsigned long long)w->budget);
    else
        crn_fail_at(err, CAIRN_EINVAL, name, "%s %s", where, words);
}
