/* pointwise_kernels.h: ops on each element by itself, and copies of elements; no guard. See pack.h.
 *
 * A thread takes POINTWISE_PACKS packs, which are the width of a block apart, and starts all loads
 * before the first store. */

#define pointwise_value FORM(pointwise_value)
#define pointwise_packs FORM(pointwise_packs)
#define dropout_pack FORM(dropout_pack)

CRN_DEVICE pack pointwise_value(uint32_t op, pack a, pack b, pack c) {
    EACH(k) {
        float x = a.at[k], y = b.at[k];
        switch (op) {
        case CRN_RELU:
            x = crn_relu(x);
            break;
        case CRN_RELU_BWD:
            x = x <= 0 ? 0 : y;
            break;
        case CRN_ADD:
            x = x + y;
            break;
        case CRN_ADD_RELU:
            x = crn_relu(x + y);
            break;
        case CRN_RELU_BWD_ADD:
            x = x <= 0 ? 0 : y + c.at[k];
            break;
        default:
            break;
        }
        a.at[k] = x;
    }
    return a;
}

/* op is a constant here */
CRN_DEVICE void pointwise_packs(const crn_pointwise_args *CRN_RESTRICT p, uint32_t op,
                                uint32_t first, uint32_t step) {
    raw a[CRN_POINTWISE_PACKS], b[CRN_POINTWISE_PACKS], c[CRN_POINTWISE_PACKS];
    int two = op != CRN_COPY && op != CRN_RELU, three = op == CRN_RELU_BWD_ADD;
    CRN_UNROLL for (uint32_t u = 0; u < CRN_POINTWISE_PACKS; u++) {
        PLACE(first + u * step);
        a[u] = fetch(p->a, row * p->a_pitch + at);
        if (two)
            b[u] = fetch(p->b, row * p->b_pitch + at);
        if (three)
            c[u] = fetch(p->c, row * p->c_pitch + at);
    }
    CRN_UNROLL for (uint32_t u = 0; u < CRN_POINTWISE_PACKS; u++) {
        PLACE(first + u * step);
        put(p->to, row * p->to_pitch + at,
            pointwise_value(op, open(a[u]), two ? open(b[u]) : no_pack(),
                            three ? open(c[u]) : no_pack()));
    }
}

CRN_KERNEL(FORM(pointwise), crn_pointwise_args) {
    CRN_EACH_THREAD(t) {
        uint32_t first = g.x * g.threads * CRN_POINTWISE_PACKS + t;
        switch (p->op) {
            OP_CASE(pointwise_packs, CRN_RELU);
            OP_CASE(pointwise_packs, CRN_RELU_BWD);
            OP_CASE(pointwise_packs, CRN_ADD);
            OP_CASE(pointwise_packs, CRN_ADD_RELU);
            OP_CASE(pointwise_packs, CRN_RELU_BWD_ADD);
        default:
            pointwise_packs(p, CRN_COPY, first, g.threads);
        }
    }
}

/* ---- dropout: the hash of dropout_mask.h ---- */

CRN_DEVICE pack dropout_pack(const crn_dropout_args *CRN_RESTRICT p, uint64_t key, pack x,
                             uint32_t row, uint32_t c) {
    uint64_t n = row / p->plane, pixel = row % p->plane;
    EACH(k) {
        uint64_t index = (n * p->channels + c + k) * p->plane + pixel;
        uint64_t hash = crn_dropout_hash(key + (index + 1) * 0x9e3779b97f4a7c15u);
        x.at[k] *= (hash >> 32) < p->threshold ? 0.0f : p->scale;
    }
    return x;
}

CRN_KERNEL(FORM(dropout), crn_dropout_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t, row = i / p->packs, c = (i - row * p->packs) * PACK;
        if (row >= p->batch * p->plane)
            continue;
        uint64_t key = crn_dropout_hash(p->values->seed + 0x9e3779b97f4a7c15u);
        key = crn_dropout_hash(key + p->values->step);
        key = crn_dropout_hash(key + p->op);
        pack x = get(p->x, (size_t)row * p->x_pitch + c);
        put(p->y, (size_t)row * p->y_pitch + c, dropout_pack(p, key, x, row, c));
    }
}

/* ---- concatenation: source y of the grid ---- */

CRN_KERNEL(FORM(concat), crn_concat_args) {
    const crn_concat_source *source = &p->sources[g.y];
    uint32_t packs = (source->channels + PACK - 1) / PACK;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->rows * packs; i += g.blocks * g.threads) {
            size_t row = i / packs, c = (i - row * packs) * PACK;
            put(p->to, row * p->to_pitch + source->first + c,
                get(source->from, row * source->pitch + c));
        }
    }
}

#undef pointwise_value
#undef pointwise_packs
#undef dropout_pack
