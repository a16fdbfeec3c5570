/* learning_rate.c: the learning rate as a function of the number of the update. */
#include "base/crn_base.h"
#include "cairn/train.h"
#include "train/train_internal.h"

#include <math.h>

CRN_NAMES(crn_schedule_name, cairn_schedule_kind, CAIRN_SCHEDULE_LIST)

static double cosine(const cairn_schedule *s, uint64_t n) {
    const double pi = 3.14159265358979323846;
    uint64_t total = s->total > s->warmup ? s->total - s->warmup : 1;
    double done = (double)CRN_MIN(n, total) / (double)total;
    return s->least + (s->rate - s->least) * (1 + cos(pi * done)) / 2;
}

double crn_schedule_rate(const cairn_schedule *schedule, uint64_t update) {
    const cairn_schedule *s = schedule;
    if (update < s->warmup)
        return s->rate * (double)(update + 1) / (double)s->warmup;
    uint64_t n = update - s->warmup;
    switch (s->kind) {
    case CAIRN_SCHEDULE_STEP:
        return s->rate * crn_power(s->factor, s->every > 0 ? n / s->every : 0);
    case CAIRN_SCHEDULE_COSINE:
        return cosine(s, n);
    default:
        return s->rate;
    }
}
