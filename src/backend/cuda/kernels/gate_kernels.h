/* gate_kernels.h: the nonlinear ops of transformers: gelu, silu, products, swiglu, and the rotary
 * embedding; no guard. See pack.h, ref_gates.c and ref_attention.c. */

#define gate_sigmoid FORM(gate_sigmoid)
#define gate_normal FORM(gate_normal)
#define gate_slope FORM(gate_slope)
#define gate_value FORM(gate_value)
#define gate_packs FORM(gate_packs)
#define gate_packs_of 4 /* of a thread, the width of a block apart; half of two operands each */
#define rotary_packs_of 3

/* A sigmoid at x / gate_unit. */
#if FORM_BF16
#define gate_unit 1.44269504f
CRN_DEVICE float gate_sigmoid(float x) {
    return crn_sigmoid_quick(x);
}
#else
#define gate_unit 1.0f
CRN_DEVICE float gate_sigmoid(float x) {
    return crn_sigmoid(x);
}
#endif

/* The slope of x times a sigmoid: sigmoid + steep * sigmoid * (1 - sigmoid), steep being x times
 * the slope of its argument. */
CRN_DEVICE float gate_slope(float sigmoid, float steep) {
    return crn_fma(steep * sigmoid, 1 - sigmoid, sigmoid);
}

/* The share of normal numbers below x, and their density there. In bf16 the share is a sigmoid of
 * base 2 at x times a polynomial in the square of x: the smaller one of it and the rest is within
 * 5e-4 of itself up to |x| = 4, and x times it within 4e-5. */
CRN_DEVICE float gate_normal(float x, float *density) {
#if FORM_BF16
    float square = x * x, near = fminf(square, 25.0f), sum = -4.80800608e-8f;
    sum = crn_fma(sum, near, 3.16610453e-6f);
    sum = crn_fma(sum, near, -6.21960789e-5f);
    sum = crn_fma(sum, near, -6.50427886e-4f);
    sum = crn_fma(sum, near, 0.106215328f);
    sum = crn_fma(sum, near, 2.30118155f);
    *density = 0.398942280f * crn_exp2_quick(-0.721347520f * square);
    return gate_sigmoid(x * sum);
#else
    return crn_normal(x, density);
#endif
}

/* op is a constant here */
CRN_DEVICE pack gate_value(uint32_t op, pack a, pack b) {
    EACH(k) {
        float x = a.at[k], gy = b.at[k];
        switch (op) {
        case CRN_GELU:
        case CRN_GELU_BWD: {
            float density, below = gate_normal(x, &density);
            x = op == CRN_GELU ? x * below : gy * crn_fma(x, density, below);
            break;
        }
        case CRN_GELU_TANH:
        case CRN_GELU_TANH_BWD: { /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) */
            float square = x * x;
            float sigmoid = gate_sigmoid(
                x * crn_fma(0.0713548163f * gate_unit, square, 1.59576912f * gate_unit));
            float steep = x * crn_fma(0.214064449f, square, 1.59576912f);
            x = op == CRN_GELU_TANH ? x * sigmoid : gy * gate_slope(sigmoid, steep);
            break;
        }
        case CRN_SILU:
        case CRN_SILU_BWD: {
            float sigmoid = gate_sigmoid(x * gate_unit);
            x = op == CRN_SILU ? x * sigmoid : gy * gate_slope(sigmoid, x);
            break;
        }
        default:
            x = x * gy;
        }
        a.at[k] = x;
    }
    return a;
}

/* op is a constant here */
CRN_DEVICE void gate_packs(const crn_pointwise_args *CRN_RESTRICT p, uint32_t op, uint32_t first,
                           uint32_t step) {
    raw a[gate_packs_of], b[gate_packs_of];
    int two = op >= CRN_MULTIPLY;
    CRN_UNROLL for (uint32_t u = 0; u < gate_packs_of / (two ? 2 : 1); u++) {
        PLACE(first + u * step);
        a[u] = fetch(p->a, row * p->a_pitch + at);
        if (two)
            b[u] = fetch(p->b, row * p->b_pitch + at);
    }
    CRN_UNROLL for (uint32_t u = 0; u < gate_packs_of / (two ? 2 : 1); u++) {
        PLACE(first + u * step);
        put(p->to, row * p->to_pitch + at,
            gate_value(op, open(a[u]), two ? open(b[u]) : no_pack()));
    }
}

/* a, b -> to. The end comes first: it was written last and is still in the cache. */
CRN_KERNEL_OF(FORM(gate), crn_pointwise_args, 256, 5) {
    CRN_EACH_THREAD(t) {
        uint32_t each = gate_packs_of / (p->op >= CRN_MULTIPLY ? 2 : 1);
        uint32_t first = (g.blocks - 1 - g.x) * g.threads * each + t;
        switch (p->op) {
            OP_CASE(gate_packs, CRN_GELU);
            OP_CASE(gate_packs, CRN_GELU_TANH);
            OP_CASE(gate_packs, CRN_SILU);
            OP_CASE(gate_packs, CRN_GELU_BWD);
            OP_CASE(gate_packs, CRN_GELU_TANH_BWD);
            OP_CASE(gate_packs, CRN_SILU_BWD);
        default:
            gate_packs(p, CRN_MULTIPLY, first, g.threads);
        }
    }
}

/* ---- swiglu: a thread has a pack of columns in a few rows ---- */

/* Row u of the rows of pack `i`, and where its pack is, if it exists. */
#define SWIGLU_PLACE(i, u)                                                                         \
    size_t row = (size_t)((i) / packs) * CRN_SWIGLU_ROWS + (u), c = (i) % packs * PACK;            \
    if (row >= p->rows)                                                                            \
        continue;                                                                                  \
    size_t at = row * 2 * p->width + c

/* x [rows, 2 width] -> y [rows, width] */
CRN_KERNEL_OF(FORM(swiglu), crn_swiglu_args, 256, 6) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t;
        raw first[CRN_SWIGLU_ROWS], second[CRN_SWIGLU_ROWS];
        CRN_UNROLL for (uint32_t u = 0; u < CRN_SWIGLU_ROWS; u++) {
            SWIGLU_PLACE(i, u);
            first[u] = fetch(p->x, at);
            second[u] = fetch(p->x, at + p->width);
        }
        CRN_UNROLL for (uint32_t u = 0; u < CRN_SWIGLU_ROWS; u++) {
            SWIGLU_PLACE(i, u);
            pack a = open(first[u]), b = open(second[u]);
            EACH(k) {
                a.at[k] = a.at[k] * gate_sigmoid(a.at[k] * gate_unit) * b.at[k];
            }
            put(p->y, at - row * p->width, a);
        }
    }
}

/* x [rows, 2 width], gy [rows, width] -> gx [rows, 2 width] */
CRN_KERNEL(FORM(swiglu_bwd), crn_swiglu_args) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t;
        raw first[CRN_SWIGLU_ROWS], second[CRN_SWIGLU_ROWS], gradients[CRN_SWIGLU_ROWS];
        CRN_UNROLL for (uint32_t u = 0; u < CRN_SWIGLU_ROWS; u++) {
            SWIGLU_PLACE(i, u);
            first[u] = fetch(p->x, at);
            second[u] = fetch(p->x, at + p->width);
            gradients[u] = fetch(p->gy, at - row * p->width);
        }
        CRN_UNROLL for (uint32_t u = 0; u < CRN_SWIGLU_ROWS; u++) {
            SWIGLU_PLACE(i, u);
            pack a = open(first[u]), b = open(second[u]), gy = open(gradients[u]);
            EACH(k) {
                float x = a.at[k], sigmoid = gate_sigmoid(x * gate_unit), gradient = gy.at[k];
                a.at[k] = gradient * b.at[k] * gate_slope(sigmoid, x);
                b.at[k] = gradient * (x * sigmoid);
            }
            put(p->gx, at, a);
            put(p->gx, at + p->width, b);
        }
    }
}

/* ---- rotary embedding: a block has a few tokens, whose angles it computes once ---- */

/* Pack `i` of a block: `at` is its first element. Nothing is done past the end. */
#define ROTARY_PLACE(i)                                                                            \
    uint32_t head = (i) / packs, token = head / heads;                                             \
    if (token >= CRN_ROTARY_ROWS || g.x * CRN_ROTARY_ROWS + token >= p->rows)                      \
        continue;                                                                                  \
    uint32_t pair = ((i)-head * packs) * PACK;                                                     \
    head -= token * heads;                                                                         \
    size_t at = (size_t)(g.x * CRN_ROTARY_ROWS + token) * p->pitch + p->first + pair +             \
                (size_t)head * 2 * p->half

CRN_KERNEL(FORM(rotary), crn_rotary_args) {
    CRN_SHARED(float, cosines, CRN_ROTARY_ROWS *CRN_ROTARY_PAIRS);
    CRN_SHARED(float, sines, CRN_ROTARY_ROWS *CRN_ROTARY_PAIRS);
    uint32_t packs = p->pairs / PACK, heads = p->rotated + p->copied;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < CRN_ROTARY_ROWS * p->pairs; i += g.threads) {
            uint32_t token = i / p->pairs, row = g.x * CRN_ROTARY_ROWS + token;
            float sine;
            crn_turn((double)(row % p->tokens) * p->frequency[i - token * p->pairs], &cosines[i],
                     &sine);
            sines[i] = p->inverse ? -sine : sine;
        }
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        for (uint32_t first = t; first < CRN_ROTARY_ROWS * heads * packs;
             first += rotary_packs_of * g.threads) {
            raw low[rotary_packs_of], high[rotary_packs_of];
            CRN_UNROLL for (uint32_t u = 0; u < rotary_packs_of; u++) {
                ROTARY_PLACE(first + u * g.threads);
                low[u] = fetch(p->x, at);
                high[u] = fetch(p->x, at + p->half);
            }
            CRN_UNROLL for (uint32_t u = 0; u < rotary_packs_of; u++) {
                ROTARY_PLACE(first + u * g.threads);
                pack a = open(low[u]), b = open(high[u]), turned = a;
                uint32_t angle = token * p->pairs + pair;
                EACH(k) {
                    float cosine = cosines[angle + k], sine = sines[angle + k];
                    if (head >= p->rotated)
                        continue;
                    turned.at[k] = a.at[k] * cosine - b.at[k] * sine;
                    b.at[k] = b.at[k] * cosine + a.at[k] * sine;
                }
                put(p->y, at, turned);
                put(p->y, at + p->half, b);
            }
        }
    }
}

#undef SWIGLU_PLACE
#undef ROTARY_PLACE
#undef gate_unit
#undef gate_sigmoid
#undef gate_normal
#undef gate_slope
#undef gate_value
#undef gate_packs
#undef gate_packs_of
#undef rotary_packs_of
