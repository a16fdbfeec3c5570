/* cell_kernels.h: what recurrent cells do after the products with weights, and in the backward
 * before them; no guard. See pack.h and ref_recurrent.c. A thread has one unit of one sample. */

#define before_activation FORM(cell_before_activation)

/* Row r of the gates of sample n, of `rows`. */
CRN_DEVICE float before_activation(const crn_cell_args *CRN_RESTRICT p, uint32_t n, uint32_t r,
                                   uint32_t rows) {
    size_t i = (size_t)n * rows + r;
    return p->z2 ? (p->z[i] + p->b_ih[r]) + (p->z2[i] + p->b_hh[r])
                 : p->z[i] + (p->b_ih[r] + p->b_hh[r]);
}

CRN_KERNEL(FORM(rnn_cell), crn_cell_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t, n = i / p->hidden, j = i % p->hidden;
        if (n < p->batch)
            put_one(p->new_h, i, crn_tanh(before_activation(p, n, j, p->hidden)));
    }
}

CRN_KERNEL(FORM(rnn_cell_bwd), crn_cell_args) {
    CRN_EACH_THREAD(t) {
        uint32_t i = g.x * g.threads + t;
        if (i >= p->batch * p->hidden)
            continue;
        float h = get_one(p->new_h, i);
        put_one(p->before, i, get_one(p->gh, i) * (1 - h * h));
    }
}

CRN_KERNEL(FORM(lstm_cell), crn_cell_args) {
    CRN_EACH_THREAD(t) {
        uint32_t at = g.x * g.threads + t, n = at / p->hidden, j = at % p->hidden;
        size_t all = (size_t)p->batch * p->hidden;
        if (n >= p->batch)
            continue;
        float i = crn_sigmoid(before_activation(p, n, j, 4 * p->hidden));
        float f = crn_sigmoid(before_activation(p, n, p->hidden + j, 4 * p->hidden));
        float v = crn_tanh(before_activation(p, n, 2 * p->hidden + j, 4 * p->hidden));
        float o = crn_sigmoid(before_activation(p, n, 3 * p->hidden + j, 4 * p->hidden));
        float c = crn_fma(f, get_one(p->c, at), i * v);
        put_one(p->new_c, at, c);
        put_one(p->new_h, at, o * crn_tanh(c));
        if (!p->values)
            continue;
        put_one(p->values, at, i);
        put_one(p->values, all + at, f);
        put_one(p->values, 2 * all + at, v);
        put_one(p->values, 3 * all + at, o);
    }
}

CRN_KERNEL(FORM(lstm_cell_bwd), crn_cell_args) {
    CRN_EACH_THREAD(t) {
        uint32_t at = g.x * g.threads + t;
        size_t all = (size_t)p->batch * p->hidden;
        if (at >= all)
            continue;
        float i = get_one(p->values, at), f = get_one(p->values, all + at);
        float v = get_one(p->values, 2 * all + at), o = get_one(p->values, 3 * all + at);
        float gh = get_one(p->gh, at), squashed = crn_tanh(get_one(p->new_c, at));
        float gc = get_one(p->gc, at) + gh * o * (1 - squashed * squashed);
        put_one(p->before, at, gc * v * i * (1 - i));
        put_one(p->before, all + at, gc * get_one(p->c, at) * f * (1 - f));
        put_one(p->before, 2 * all + at, gc * i * (1 - v * v));
        put_one(p->before, 3 * all + at, gh * squashed * o * (1 - o));
        if (p->old_gc)
            put_one(p->old_gc, at, gc * f);
    }
}

#undef before_activation
