/* plain_kernels.h: kernels with one form: products of matrices for drivers without libraries,
 * conversion, unfolding, the optimisers, patterns and checks. */
#include "backend/cuda/kernels/block_sums.h"

/* stats from the running statistics */
CRN_KERNEL(crn_norm_running, crn_norm_args) {
    CRN_EACH_THREAD(t) {
        uint32_t c = g.x * g.threads + t;
        if (c >= p->tiling.channels)
            continue;
        p->stats[c] = p->running_mean[c];
        p->stats[p->tiling.channels + c] = 1 / sqrtf(p->running_var[c] + p->epsilon);
    }
}

/* ---- c = a b, a block makes 16 x 16 of it ---- */

CRN_DEVICE float crn_matrix_at(const crn_matrix *m, uint32_t batch, uint32_t i, uint32_t j) {
    return crn_get_as(m->element, m->at, batch * m->next + i * m->row + j * m->column);
}

CRN_KERNEL(crn_matmul, crn_matmul_args) {
    CRN_SHARED(float, a, 16 * 17);
    CRN_SHARED(float, b, 16 * 17);
    CRN_SHARED(float, sums, 256);
    uint32_t across = (p->n + 15) / 16, top = g.x / across * 16, left = g.x % across * 16;
    CRN_EACH_THREAD(t) {
        sums[t] = 0;
    }
    for (uint32_t first = 0; first < p->k; first += 16) {
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            uint32_t i = t / 16, j = t % 16;
            int in_a = top + i < p->m && first + j < p->k;
            int in_b = first + i < p->k && left + j < p->n;
            a[i * 17 + j] = in_a ? crn_matrix_at(&p->a, g.y, top + i, first + j) : 0;
            b[i * 17 + j] = in_b ? crn_matrix_at(&p->b, g.y, first + i, left + j) : 0;
        }
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            float sum = sums[t];
            CRN_UNROLL for (uint32_t k = 0; k < 16; k++) sum =
                crn_fma(a[t / 16 * 17 + k], b[k * 17 + t % 16], sum);
            sums[t] = sum;
        }
    }
    CRN_EACH_THREAD(t) {
        uint32_t i = top + t / 16, j = left + t % 16;
        if (i >= p->m || j >= p->n)
            continue;
        float sum = sums[t] + (p->bias ? p->bias[j] : 0);
        if (p->add)
            sum += crn_matrix_at(&p->c, g.y, i, j);
        crn_put_as(p->c.element, p->c.at, g.y * p->c.next + i * p->c.row + j * p->c.column, sum);
    }
}

/* ---- Unfolding ---- */

CRN_DEVICE float crn_unfolded(const crn_unfold_args *p, uint32_t i) {
    uint32_t c = i % p->pitch, rest = i / p->pitch, taps = (uint32_t)(p->kernel[0] * p->kernel[1]);
    int32_t tap = (int32_t)(rest % taps);
    uint32_t pixel = rest / taps, row = pixel / p->small_width;
    int32_t x = (int32_t)(pixel % p->small_width) * p->stride[1] +
                tap % p->kernel[1] * p->dilation[1] - p->pad[1];
    int32_t y = (int32_t)(row % p->small_height) * p->stride[0] +
                tap / p->kernel[1] * p->dilation[0] - p->pad[0];
    if (c >= p->channels || y < 0 || y >= (int32_t)p->height || x < 0 || x >= (int32_t)p->width)
        return 0;
    size_t at = (size_t)(row / p->small_height) * p->height + (uint32_t)y;
    return crn_get_as(p->element, p->large, (at * p->width + (uint32_t)x) * p->large_pitch + c);
}

CRN_KERNEL(crn_unfold, crn_unfold_args) {
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->count; i += g.blocks * g.threads)
            crn_put_as(p->element, p->to, i, crn_unfolded(p, i));
    }
}

CRN_KERNEL(crn_add_slices, crn_add_slices_args) {
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->count; i += g.blocks * g.threads) {
            float sum = 0;
            for (uint32_t slice = 0; slice < p->slices; slice++)
                sum += p->from[(size_t)slice * p->count + i];
            p->to[i] = sum;
        }
    }
}

CRN_KERNEL(crn_convert, crn_convert_args) {
    CRN_EACH_THREAD(t) {
        for (uint64_t i = (uint64_t)g.x * g.threads + t; i < p->count;
             i += (uint64_t)g.blocks * g.threads)
            crn_put_as(p->to_element, p->to, i, crn_get_as(p->from_element, p->from, i));
    }
}

/* ---- Optimisers: a block has a chunk, a thread four elements at a time. The formulas and
 * roundings are those of processor_update.c. ---- */

typedef struct crn_four {
    float at[4];
} crn_four;

/* Four elements from `i` on of `count`; those beyond are 0. */
CRN_DEVICE crn_four crn_get_four(const float *from, uint32_t i, uint32_t count) {
    crn_four four;
#ifdef __CUDACC__
    if (i + 4 <= count) {
        float4 all = *(const float4 *)(from + i);
        four.at[0] = all.x;
        four.at[1] = all.y;
        four.at[2] = all.z;
        four.at[3] = all.w;
        return four;
    }
#endif
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) four.at[k] = i + k < count ? from[i + k] : 0;
    return four;
}

CRN_DEVICE void crn_put_four(float *to, uint32_t i, uint32_t count, crn_four four) {
#ifdef __CUDACC__
    if (i + 4 <= count) {
        *(float4 *)(to + i) = make_float4(four.at[0], four.at[1], four.at[2], four.at[3]);
        return;
    }
#endif
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (i + k < count)
            to[i + k] = four.at[k];
    }
}

/* The new value of four elements, and its copy. */
CRN_DEVICE void crn_put_value(const crn_chunk_addresses *chunk, uint32_t i, crn_four four) {
    crn_put_four(chunk->value, i, chunk->count, four);
    if (!chunk->copy)
        return;
#ifdef __CUDACC__
    if (i + 4 <= chunk->count) {
        *(uint2 *)(chunk->copy + i) =
            make_uint2(crn_to_bf16(four.at[0]) | (uint32_t)crn_to_bf16(four.at[1]) << 16,
                       crn_to_bf16(four.at[2]) | (uint32_t)crn_to_bf16(four.at[3]) << 16);
        return;
    }
#endif
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (i + k < chunk->count)
            chunk->copy[i + k] = crn_to_bf16(four.at[k]);
    }
}

CRN_KERNEL(crn_gather_gradients, crn_update_args) {
    crn_chunk_addresses chunk = p->chunks[g.x];
    uint32_t first = p->values->first;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL_BY(2) for (uint32_t i = 4 * t; i < chunk.count; i += 4 * g.threads) {
            crn_four gradient = crn_get_four(chunk.gradient, i, chunk.count);
            crn_four sum = first ? gradient : crn_get_four(chunk.sum, i, chunk.count);
            CRN_UNROLL for (uint32_t k = 0; k < 4; k++) sum.at[k] =
                first ? sum.at[k] : sum.at[k] + gradient.at[k];
            crn_put_four(chunk.sum, i, chunk.count, sum);
        }
    }
}

/* ---- The norm of gradients, in fixed orders ---- */

#define CRN_SQUARE_THREADS 256

CRN_KERNEL(crn_square_chunks, crn_update_args) {
    CRN_SHARED(double, s, CRN_SQUARE_THREADS);
    crn_chunk_addresses chunk = p->chunks[g.x];
    float gathered = p->values->gathered;
    CRN_EACH_THREAD(t) {
        double sum = 0;
        for (uint32_t i = t; i < chunk.count; i += g.threads) {
            float d = gathered > 0 ? chunk.sum[i] / gathered : chunk.gradient[i];
            sum = sum + (double)d * (double)d;
        }
        s[t] = sum;
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, 1) {
        double sum = 0;
        for (uint32_t i = 0; i < g.threads; i++)
            sum = sum + s[i];
        p->chunk_squares[g.x] = sum;
    }
}

CRN_KERNEL(crn_add_squares, crn_update_args) {
    CRN_SHARED(double, s, CRN_SQUARE_THREADS);
    CRN_EACH_THREAD(t) {
        double sum = 0;
        for (uint32_t i = t; i < p->count; i += g.threads)
            sum = sum + p->chunk_squares[i];
        s[t] = sum;
    }
    CRN_BARRIER();
    CRN_FIRST_THREADS(t, 1) {
        double sum = p->squares ? (double)*p->squares : 0;
        for (uint32_t i = 0; i < g.threads; i++)
            sum = sum + s[i];
        *p->squares_out = (float)sum;
    }
}

/* What gradients are multiplied by. NaNs stay. */
CRN_DEVICE float crn_clip_scale(const crn_update_args *p) {
    if (!p->squares)
        return 1;
    float scale = p->clip / (sqrtf(*p->squares) + 1e-6f);
    return scale > 1 ? 1 : scale;
}

/* The gradients of four elements, or the means of the gathered ones, clipped. */
CRN_DEVICE crn_four crn_gradient_at(const crn_chunk_addresses *chunk, float gathered, float scale,
                                    uint32_t i) {
    crn_four four = crn_get_four(gathered > 0 ? chunk->sum : chunk->gradient, i, chunk->count);
    CRN_UNROLL for (uint32_t k = 0; k < 4; k++) four.at[k] =
        (gathered > 0 ? four.at[k] / gathered : four.at[k]) * scale;
    return four;
}

CRN_KERNEL(crn_sgd, crn_update_args) {
    crn_chunk_addresses chunk = p->chunks[g.x];
    float rate = p->values->rate, gathered = p->values->gathered;
    float decay = chunk.no_decay ? 0 : p->decay, scale = crn_clip_scale(p);
    CRN_EACH_THREAD(t) {
        CRN_UNROLL_BY(2) for (uint32_t i = 4 * t; i < chunk.count; i += 4 * g.threads) {
            crn_four gradient = crn_gradient_at(&chunk, gathered, scale, i), slot = gradient;
            crn_four value = crn_get_four(chunk.value, i, chunk.count);
            if (chunk.slots[0])
                slot = crn_get_four(chunk.slots[0], i, chunk.count);
            CRN_UNROLL for (uint32_t k = 0; k < 4; k++) {
                float d = gradient.at[k];
                if (decay != 0)
                    d = d + decay * value.at[k];
                if (chunk.slots[0]) {
                    slot.at[k] = p->momentum * slot.at[k] + d;
                    d = p->nesterov ? d + p->momentum * slot.at[k] : slot.at[k];
                }
                value.at[k] = value.at[k] - rate * d;
            }
            if (chunk.slots[0])
                crn_put_four(chunk.slots[0], i, chunk.count, slot);
            crn_put_value(&chunk, i, value);
        }
    }
}

CRN_KERNEL(crn_adam, crn_update_args) {
    crn_chunk_addresses chunk = p->chunks[g.x];
    float keep = chunk.no_decay ? 1 : p->values->keep, gathered = p->values->gathered;
    float decay = chunk.no_decay ? 0 : p->decay, scale = crn_clip_scale(p);
    float step = p->values->step_size, root = p->values->root_correction;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL_BY(2) for (uint32_t i = 4 * t; i < chunk.count; i += 4 * g.threads) {
            crn_four gradient = crn_gradient_at(&chunk, gathered, scale, i);
            crn_four value = crn_get_four(chunk.value, i, chunk.count);
            crn_four first = crn_get_four(chunk.slots[0], i, chunk.count);
            crn_four second = crn_get_four(chunk.slots[1], i, chunk.count);
            CRN_UNROLL for (uint32_t k = 0; k < 4; k++) {
                float before = p->decoupled ? value.at[k] * keep : value.at[k];
                float d = gradient.at[k];
                if (!p->decoupled && decay != 0)
                    d = d + decay * before;
                first.at[k] = first.at[k] + p->beta1_rest * (d - first.at[k]);
                second.at[k] = p->beta2 * second.at[k] + p->beta2_rest * d * d;
                float spread = sqrtf(second.at[k]) / root + p->epsilon;
                value.at[k] = before - step * (first.at[k] / spread);
            }
            crn_put_four(chunk.slots[0], i, chunk.count, first);
            crn_put_four(chunk.slots[1], i, chunk.count, second);
            crn_put_value(&chunk, i, value);
        }
    }
}

/* ---- Patterns and checks ---- */

CRN_KERNEL(crn_fill, crn_fill_args) {
    CRN_EACH_THREAD(t) {
        for (uint64_t i = (uint64_t)g.x * g.threads + t; i < p->count;
             i += (uint64_t)g.blocks * g.threads)
            ((uint32_t *)p->at)[i] = p->pattern;
    }
}

CRN_KERNEL(crn_count_changed, crn_fill_args) {
    CRN_SHARED(uint32_t, s, 256);
    CRN_EACH_THREAD(t) {
        s[t] = 0;
        for (uint64_t i = (uint64_t)g.x * g.threads + t; i < p->count;
             i += (uint64_t)g.blocks * g.threads)
            s[t] += ((const uint32_t *)p->at)[i] != p->pattern;
    }
    crn_count_block(g, s);
    CRN_EACH_THREAD(t) {
        if (t == 0 && s[0] > 0)
            crn_count_up(p->found, s[0]);
    }
}

CRN_KERNEL(crn_count_nan, crn_fill_args) {
    CRN_SHARED(uint32_t, s, 256);
    CRN_EACH_THREAD(t) {
        s[t] = 0;
        for (uint64_t i = (uint64_t)g.x * g.threads + t; i < p->count;
             i += (uint64_t)g.blocks * g.threads)
            s[t] += crn_is_nan(crn_get_as(p->element, p->at, i)) != 0;
    }
    crn_count_block(g, s);
    CRN_EACH_THREAD(t) {
        if (t == 0 && s[0] > 0)
            crn_count_up(p->found, s[0]);
    }
}
