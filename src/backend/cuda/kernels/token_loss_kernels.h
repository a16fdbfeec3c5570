/* token_loss_kernels.h: softmax and the mean negative log likelihood over tokens; no guard. See
 * pack.h and ref_loss.c.
 *
 * A block has a row of logits. A thread keeps the largest of its logits so far, m, and the sum of
 * exp(x - m); two such pairs become one in a tree. The last block adds up the losses of all rows.
 *
 * In bf16 the gradient is made at once, where probabilities would be: there they would lose the
 * digits of the gradient of a likely word, and a second pass over them would take as long. */

#define token_sums FORM(token_sums)
#define token_row_sums FORM(token_row_sums)
#define token_row_loss FORM(token_row_loss)
#define token_gradient FORM(token_gradient)
#define token_value FORM(token_value)
#define token_write FORM(token_write)
#define token_place FORM(token_place)
#define token_exp FORM(token_exp)
#define token_again FORM(token_again)
#define token_held FORM(token_held)
#define token_packs 4 /* that a thread loads before it uses them */

typedef struct token_sums {
    float largest[CRN_COLUMN_THREADS], sum[CRN_COLUMN_THREADS], logits[CRN_COLUMN_THREADS];
    uint32_t first[CRN_COLUMN_THREADS]; /* the first word with the largest logit */
    float hit;
} token_sums;

/* e^x for x <= 0 */
CRN_DEVICE float token_exp(float x) {
#if FORM_BF16
    return crn_exp_quick(x);
#else
    return crn_exp_down(x);
#endif
}

/* The first word of pack `number` of the thread. */
CRN_DEVICE uint32_t token_place(uint32_t number, uint32_t t) {
    return (number * CRN_COLUMN_THREADS + t) * PACK;
}

/* The pack that begins with word c, of a row that was read before. */
CRN_DEVICE raw token_again(const crn_token_loss_args *CRN_RESTRICT p, size_t at, uint32_t c,
                           uint32_t t, const raw *held) {
    uint32_t number = c / (CRN_COLUMN_THREADS * PACK);
    return number < CRN_TOKEN_HELD ? held[number * CRN_COLUMN_THREADS + t]
                                   : fetch(p->logits, at + c);
}

/* The sums over the row at `at`, in entry 0. The first packs of each thread stay in `held`. */
CRN_DEVICE void token_row_sums(const crn_token_loss_args *CRN_RESTRICT p, crn_grid g, size_t at,
                               int32_t label, raw *held, token_sums *s) {
    CRN_EACH_THREAD(t) {
        float largest = -3.0e38f, sum = 0, logits = 0;
        uint32_t first = t * PACK; /* of the pack with the largest logit */
        for (uint32_t i = 0; token_place(i, t) < p->words; i += token_packs) {
            raw some[token_packs];
            CRN_UNROLL for (uint32_t u = 0; u < token_packs; u++) {
                if (token_place(i + u, t) < p->words)
                    some[u] = fetch(p->logits, at + token_place(i + u, t));
            }
            CRN_UNROLL for (uint32_t u = 0; u < token_packs; u++) {
                uint32_t c = token_place(i + u, t);
                if (c >= p->words)
                    continue;
                if (i + u < CRN_TOKEN_HELD)
                    held[(i + u) * CRN_COLUMN_THREADS + t] = some[u];
                pack x = open(some[u]);
                float top = x.at[0];
                EACH(k) {
                    top = fmaxf(x.at[k], top);
                }
                for (uint32_t k = 0; p->smoothing != 0 && k < PACK; k++)
                    logits += x.at[k];
                if (top > largest) {
                    sum *= token_exp(largest - top);
                    largest = top;
                    first = c;
                }
                EACH(k) {
                    sum += token_exp(x.at[k] - largest);
                }
            }
        }
        pack best = open(token_again(p, at, first, t, held));
        s->first[t] = UINT32_MAX;
        for (uint32_t k = PACK; k-- > 0;) { /* backwards: of equal words the first counts */
            if (best.at[k] == largest)
                s->first[t] = first + k;
        }
        s->largest[t] = largest;
        s->sum[t] = sum;
        s->logits[t] = logits;
        if (t == 0)
            s->hit = label >= 0 && (uint32_t)label < p->words ? get_one(p->logits, at + label) : 0;
    }
    for (uint32_t half = g.threads / 2; half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, half) {
            float a = s->largest[t], b = s->largest[t + half], top = a > b ? a : b;
            s->sum[t] = s->sum[t] * token_exp(a - top) + s->sum[t + half] * token_exp(b - top);
            if (b > a || (b == a && s->first[t + half] < s->first[t]))
                s->first[t] = s->first[t + half];
            s->largest[t] = top;
            s->logits[t] += s->logits[t + half];
        }
    }
    CRN_BARRIER();
}

CRN_DEVICE float token_row_loss(const crn_token_loss_args *CRN_RESTRICT p, int32_t label,
                                const token_sums *s) {
    if (label < 0)
        return 0;
    if ((uint32_t)label >= p->words)
        return crn_from_bits(0x7fffffffu); /* NaN */
    float wanted = s->hit;
    if (p->smoothing != 0)
        wanted = (1 - p->smoothing) * wanted + p->smoothing * (s->logits[0] / (float)p->words);
    return crn_log(s->sum[0]) - (wanted - s->largest[0]);
}

#if !FORM_BF16
/* (p - target) / count */
CRN_DEVICE float token_gradient(const crn_token_loss_args *CRN_RESTRICT p, float probability,
                                uint32_t word, int32_t label, float factor) {
    float spread = p->smoothing / (float)p->words, peak = (1 - p->smoothing) + spread;
    float target = (int64_t)word == label ? peak : spread;
    return label < 0 ? 0 : (probability - target) * factor;
}
#endif

/* Probabilities e / sum, with 1 / sum = factor, or in bf16 their gradient. */
CRN_DEVICE pack token_value(pack x, uint32_t c, int32_t label, float largest, float scale,
                            float spread, float peak) {
    EACH(k) {
        x.at[k] = crn_fma(token_exp(x.at[k] - largest), scale, -spread);
    }
    if (FORM_BF16 && (uint32_t)label - c < PACK) {
        EACH(k) {
            x.at[k] -= (uint32_t)label == c + k ? peak : 0;
        }
    }
    return x;
}

CRN_DEVICE void token_write(const crn_token_loss_args *CRN_RESTRICT p, uint32_t t, const raw *held,
                            size_t at, int32_t label, float largest, float factor) {
    float scale = factor, spread = 0, peak = 0;
#if FORM_BF16
    float share = 1 / *p->count;
    scale = factor * share;
    spread = p->smoothing / (float)p->words * share;
    peak = (1 - p->smoothing) * share;
    if (label < 0) {
        for (uint32_t i = 0; token_place(i, t) < p->words; i++)
            put(p->probabilities, at + token_place(i, t), no_pack());
        return;
    }
#endif
    for (uint32_t i = 0; token_place(i, t) < p->words; i += token_packs) {
        raw some[token_packs];
        CRN_UNROLL for (uint32_t u = 0; u < token_packs; u++) {
            uint32_t c = token_place(i + u, t);
            if (c < p->words)
                some[u] = token_again(p, at, c, t, held);
        }
        CRN_UNROLL for (uint32_t u = 0; u < token_packs; u++) {
            uint32_t c = token_place(i + u, t);
            if (c < p->words)
                put(p->probabilities, at + c,
                    token_value(open(some[u]), c, label, largest, scale, spread, peak));
        }
    }
}

/* logits, labels (, count) -> loss, probabilities */
CRN_KERNEL_OF(FORM(token_loss), crn_token_loss_args, CRN_COLUMN_THREADS, 2) {
    CRN_SHARED_ALL(raw, token_held, CRN_TOKEN_HELD * CRN_COLUMN_THREADS);
    CRN_SHARED(token_sums, all, 1);
    CRN_SHARED(uint32_t, last, 1);
    token_sums *s = all;
    float *partial = (float *)p->partial;
    size_t at = (size_t)g.x * p->words;
    int32_t label = p->labels[p->before + g.x];
    token_row_sums(p, g, at, label, token_held, s);
    CRN_EACH_THREAD(t) {
        if (p->probabilities)
            token_write(p, t, token_held, at, label, s->largest[0], 1 / s->sum[0]);
        if (t != 0)
            continue;
        if (p->hits && s->first[0] == (uint32_t)label && s->sum[0] == s->sum[0]) /* no NaN */
            crn_count_up_long(p->hits, 1);
        crn_write_shared_partial(partial + p->before + g.x, token_row_loss(p, label, s));
        last[0] = crn_take_ticket(p->tickets, g.blocks);
    }
    CRN_BARRIER();
    if (!last[0] || !p->loss)
        return;
    CRN_EACH_THREAD(t) {
        float sum = 0, count = 0;
        for (uint32_t i = t; i < p->before + g.blocks; i += g.threads) {
            sum += crn_read_shared_partial(partial + i);
            count += p->labels[i] >= 0;
        }
        s->sum[t] = sum;
        s->logits[t] = count;
    }
    crn_add_block(g, s->sum);
    crn_add_block(g, s->logits);
    CRN_EACH_THREAD(t) {
        if (t == 0)
            *p->loss = s->sum[0] / (s->logits[0] > 0 ? s->logits[0] : 1);
    }
}

/* probabilities, labels, count -> gradient; in bf16 a copy of what token_loss has made */
CRN_KERNEL_OF(FORM(token_loss_bwd), crn_token_loss_args, CRN_COLUMN_THREADS, 2) {
    size_t at = (size_t)g.x * p->words;
#if !FORM_BF16
    float factor = 1 / *p->count;
    int32_t label = p->labels[p->before + g.x];
#endif
    CRN_EACH_THREAD(t) {
        CRN_UNROLL_BY(2) for (uint32_t c = t * PACK; c < p->words; c += g.threads * PACK) {
            pack x = get(p->probabilities, at + c);
#if !FORM_BF16
            EACH(k) {
                x.at[k] = token_gradient(p, x.at[k], c + k, label, factor);
            }
#endif
            put(p->gradient, at + c, x);
        }
    }
}

#undef token_sums
#undef token_row_sums
#undef token_row_loss
#undef token_gradient
#undef token_value
#undef token_write
#undef token_place
#undef token_exp
#undef token_again
#undef token_held
#undef token_packs
