/* gate_kernels.h: the nonlinear ops of transformers: gelu, silu, products, swiglu, and the rotary
 * embedding; no guard. See pack.h, ref_gates.c and ref_attention.c. */

#define gate_value FORM(gate_value)
#define gate_packs FORM(gate_packs)
#define rotary_angles FORM(rotary_angles)
#define rotate_head FORM(rotate_head)
#define gate_packs_of (PACK == 8 ? 2 : 4) /* of a thread, the width of a block apart */

/* op is a constant here */
CRN_DEVICE pack gate_value(uint32_t op, pack a, pack b) {
    EACH(k) {
        float x = a.at[k], gy = b.at[k];
        switch (op) {
        case CRN_GELU:
        case CRN_GELU_BWD: {
            float density, below = crn_normal(x, &density);
            x = op == CRN_GELU ? x * below : gy * (below + x * density);
            break;
        }
        case CRN_GELU_TANH:
        case CRN_GELU_TANH_BWD: { /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) */
            float square = x * x, below;
            below = crn_sigmoid(1.59576912f * x * crn_fma(0.044715f, square, 1.0f));
            float steep = 1.59576912f * x * crn_fma(0.134145f, square, 1.0f);
            x = op == CRN_GELU_TANH ? x * below : gy * below * (1 + steep * (1 - below));
            break;
        }
        case CRN_SILU:
            x = x * crn_sigmoid(x);
            break;
        case CRN_SILU_BWD: {
            float s = crn_sigmoid(x);
            x = gy * s * (1 + x * (1 - s));
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
    CRN_UNROLL for (uint32_t u = 0; u < gate_packs_of; u++) {
        PLACE(first + u * step);
        a[u] = fetch(p->a, row * p->a_pitch + at);
        if (two)
            b[u] = fetch(p->b, row * p->b_pitch + at);
    }
    CRN_UNROLL for (uint32_t u = 0; u < gate_packs_of; u++) {
        PLACE(first + u * step);
        put(p->to, row * p->to_pitch + at,
            gate_value(op, open(a[u]), two ? open(b[u]) : no_pack()));
    }
}

/* a, b -> to */
CRN_KERNEL(FORM(gate), crn_pointwise_args) {
    CRN_EACH_THREAD(t) {
        uint32_t first = g.x * g.threads * gate_packs_of + t;
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

/* ---- swiglu ---- */

/* x [rows, 2 width] -> y [rows, width] */
CRN_KERNEL(FORM(swiglu), crn_swiglu_args) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->rows * packs; i += g.blocks * g.threads) {
            size_t row = i / packs, c = (i - row * packs) * PACK, at = row * 2 * p->width + c;
            pack a = get(p->x, at), b = get(p->x, at + p->width);
            EACH(k) {
                a.at[k] = a.at[k] * crn_sigmoid(a.at[k]) * b.at[k];
            }
            put(p->y, row * p->width + c, a);
        }
    }
}

/* x [rows, 2 width], gy [rows, width] -> gx [rows, 2 width] */
CRN_KERNEL(FORM(swiglu_bwd), crn_swiglu_args) {
    uint32_t packs = p->width / PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->rows * packs; i += g.blocks * g.threads) {
            size_t row = i / packs, c = (i - row * packs) * PACK, at = row * 2 * p->width + c;
            pack a = get(p->x, at), b = get(p->x, at + p->width);
            pack gy = get(p->gy, row * p->width + c);
            EACH(k) {
                float x = a.at[k], s = crn_sigmoid(x), gradient = gy.at[k];
                a.at[k] = gradient * b.at[k] * s * (1 + x * (1 - s));
                b.at[k] = gradient * x * s;
            }
            put(p->gx, at, a);
            put(p->gx, at + p->width, b);
        }
    }
}

/* ---- rotary embedding: a thread has a pack of pairs of a token, in a share of the heads ---- */

CRN_DEVICE void rotary_angles(const crn_rotary_args *CRN_RESTRICT p, uint32_t row, uint32_t pair,
                              pack *cosines, pack *sines) {
    EACH(k) {
        crn_turn((double)(row % p->tokens) * p->frequency[pair + k], &cosines->at[k],
                 &sines->at[k]);
        sines->at[k] = p->inverse ? -sines->at[k] : sines->at[k];
    }
}

CRN_DEVICE void rotate_head(const crn_rotary_args *CRN_RESTRICT p, size_t at, pack cosines,
                            pack sines) {
    pack a = get(p->x, at), b = get(p->x, at + p->half), turned;
    EACH(k) {
        turned.at[k] = a.at[k] * cosines.at[k] - b.at[k] * sines.at[k];
        b.at[k] = b.at[k] * cosines.at[k] + a.at[k] * sines.at[k];
    }
    put(p->y, at, turned);
    put(p->y, at + p->half, b);
}

CRN_KERNEL(FORM(rotary), crn_rotary_args) {
    uint32_t packs = p->pairs / PACK, each = packs * p->shares;
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t, row = i / each, rest = i - row * each;
        if (row >= p->rows)
            continue;
        uint32_t share = rest / packs, pair = (rest - share * packs) * PACK;
        size_t at = (size_t)row * p->pitch + p->first + pair;
        pack cosines, sines;
        rotary_angles(p, row, pair, &cosines, &sines);
        CRN_UNROLL_BY(2)
        for (uint32_t h = share; h < p->rotated; h += p->shares)
            rotate_head(p, at + (size_t)h * 2 * p->half, cosines, sines);
        for (uint32_t h = p->rotated + share; h < p->rotated + p->copied; h += p->shares) {
            size_t head = at + (size_t)h * 2 * p->half;
            put(p->y, head, get(p->x, head));
            put(p->y, head + p->half, get(p->x, head + p->half));
        }
    }
}

#undef gate_value
#undef gate_packs
#undef rotary_angles
#undef rotate_head
#undef gate_packs_of
