/* cpu_rows.c: layer norm and RMS norm. Formulas are those of the reference (ref_row_norm.c). Sums
 * along a row have sixteen lanes; sums over rows are made of runs of a few rows, which are added in
 * double precision. */
#include "backend/cpu/cpu_reals.h"
#include "backend/ref/row_norm.h"

#include <math.h>

#define RUN 32u /* rows that are summed in float */

CRN_IN_LOOP float row_sum(const float *x, size_t count) {
    float lane[CRN_CPU_LANES] = {0};
    size_t i = 0;
    for (; i + CRN_CPU_LANES <= count; i += CRN_CPU_LANES)
        for (size_t l = 0; l < CRN_CPU_LANES; l++)
            lane[l] += x[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += x[i + l];
    return crn_cpu_total(lane);
}

CRN_IN_LOOP float row_squares(const float *x, float mean, size_t count) {
    float lane[CRN_CPU_LANES] = {0};
    size_t i = 0;
    for (; i + CRN_CPU_LANES <= count; i += CRN_CPU_LANES)
        for (size_t l = 0; l < CRN_CPU_LANES; l++)
            lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (size_t l = 0; i + l < count; l++)
        lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
    return crn_cpu_total(lane);
}

/* An operand of the norm. */
CRN_IN_LOOP crn_reals reals_of(const crn_row_norm *at, const float *operand) {
    return (crn_reals){(void *)(uintptr_t)operand, at->half};
}

/* Two rows of the calling thread. */
static float *room_of(const crn_row_norm *at) {
    return at->half ? at->rooms + 2 * crn_cpu_thread() * at->width : NULL;
}

uint64_t crn_cpu_row_norm_workspace(const crn_site *site) {
    const cairn_tensor *x = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    uint64_t row = x->shape[x->rank - 1] * sizeof(float);
    return crn_is_half(site->storage, site->op->inputs[0]) ? 2 * row * site->threads : 0;
}

CRN_VECTORISED static void normalise_row(void *context, uint32_t r) {
    const crn_row_norm *at = context;
    crn_reals to = reals_of(at, at->y);
    float *room = room_of(at), *y = crn_reals_room(to, r * at->width, room);
    const float *x = crn_reals_load(reals_of(at, at->x), r * at->width, at->width, room);
    const float *gamma = at->gamma, *beta = at->beta;
    float mean = at->centred ? row_sum(x, at->width) / (float)at->width : 0;
    double variance = row_squares(x, mean, at->width) / (float)at->width;
    float inverse = (float)(1 / sqrt(variance + at->epsilon));
    if (at->mean != NULL)
        at->mean[r] = mean;
    if (at->inverse != NULL)
        at->inverse[r] = inverse;
    if (beta == NULL)
        for (size_t i = 0; i < at->width; i++)
            y[i] = (x[i] - mean) * inverse * gamma[i];
    else
        for (size_t i = 0; i < at->width; i++)
            y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    crn_reals_store(to, r * at->width, at->width, y);
}

/* The gradients of gamma and beta for a block of columns. */
CRN_VECTORISED static void sum_columns(void *context, uint32_t block) {
    const crn_row_norm *at = context;
    size_t first = (size_t)block * CRN_NORM_COLUMNS,
           count = CRN_MIN(CRN_NORM_COLUMNS, at->width - first);
    double gamma[CRN_NORM_COLUMNS] = {0}, beta[CRN_NORM_COLUMNS] = {0};
    for (size_t from = 0; from < at->rows; from += RUN) {
        float some_gamma[CRN_NORM_COLUMNS] = {0}, some_beta[CRN_NORM_COLUMNS] = {0};
        for (size_t r = from; r < CRN_MIN(at->rows, from + RUN); r++) {
            float rooms[2][CRN_NORM_COLUMNS];
            size_t place = r * at->width + first;
            const float *x = crn_reals_load(reals_of(at, at->x), place, count, rooms[0]);
            const float *gy = crn_reals_load(reals_of(at, at->gy), place, count, rooms[1]);
            float mean = crn_row_norm_mean(at, r);
            float inverse = at->given_inverse[r];
            for (size_t i = 0; i < count; i++) {
                some_gamma[i] += gy[i] * ((x[i] - mean) * inverse);
                some_beta[i] += gy[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            gamma[i] += some_gamma[i];
            beta[i] += some_beta[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (at->ggamma != NULL)
            at->ggamma[first + i] = (float)gamma[i];
        if (at->gbeta != NULL)
            at->gbeta[first + i] = (float)beta[i];
    }
}

CRN_VECTORISED static void differentiate_row(void *context, uint32_t r) {
    const crn_row_norm *at = context;
    crn_reals to = reals_of(at, at->gx);
    float *room = room_of(at), *gx = crn_reals_room(to, r * at->width, room);
    const float *gy = crn_reals_load(reals_of(at, at->gy), r * at->width, at->width, room);
    const float *x = crn_reals_load(reals_of(at, at->x), r * at->width, at->width,
                                    at->half ? room + at->width : NULL);
    const float *gamma = at->gamma;
    float mean = crn_row_norm_mean(at, r), inverse = at->given_inverse[r];
    float sum[CRN_CPU_LANES] = {0}, product[CRN_CPU_LANES] = {0};
    size_t whole = at->width / CRN_CPU_LANES * CRN_CPU_LANES;
    for (size_t i = 0; i < whole; i += CRN_CPU_LANES)
        for (size_t l = 0; l < CRN_CPU_LANES; l++) {
            float g = gy[i + l] * gamma[i + l];
            sum[l] += g;
            product[l] += g * ((x[i + l] - mean) * inverse);
        }
    for (size_t i = whole; i < at->width; i++) {
        sum[i - whole] += gy[i] * gamma[i];
        product[i - whole] += gy[i] * gamma[i] * ((x[i] - mean) * inverse);
    }
    float shift = at->centred ? crn_cpu_total(sum) / (float)at->width : 0;
    float slope = crn_cpu_total(product) / (float)at->width;
    for (size_t i = 0; i < at->width; i++)
        gx[i] = inverse * (gy[i] * gamma[i] - shift - (x[i] - mean) * inverse * slope);
    crn_reals_store(to, r * at->width, at->width, gx);
}

static const crn_row_norm_workers workers = {normalise_row, sum_columns, differentiate_row};

void crn_cpu_layer_norm(const crn_call *call) {
    crn_row_norm_forward(call, true, &workers);
}

void crn_cpu_rms_norm(const crn_call *call) {
    crn_row_norm_forward(call, false, &workers);
}

void crn_cpu_layer_norm_bwd(const crn_call *call) {
    crn_row_norm_backward(call, true, &workers);
}

void crn_cpu_rms_norm_bwd(const crn_call *call) {
    crn_row_norm_backward(call, false, &workers);
}
