/* loss_kernels.h: softmax and the mean negative log likelihood, its gradient, and how often the
 * label was the likeliest class; no guard. See pack.h and ref_loss.c.
 *
 * With many classes a block has one pixel and its threads share the classes; with few classes a
 * thread has one pixel. The last block adds up the losses of all blocks. */

#define pixel_at FORM(loss_pixel_at)
#define loss_shared FORM(loss_shared)
#define block_loss FORM(block_loss)
#define thread_loss FORM(thread_loss)
#define is_beaten FORM(loss_is_beaten)

typedef struct loss_shared {
    float first[256], second[256];
    float hit, largest;
} loss_shared;

/* The place of class 0 of a pixel; its classes are `pixels` apart. */
CRN_DEVICE size_t pixel_at(const crn_loss_args *CRN_RESTRICT p, uint32_t pixel) {
    uint32_t n = pixel / p->pixels;
    return (size_t)n * p->classes * p->pixels + pixel % p->pixels;
}

/* The loss of one pixel, by a block; it is in s->first[0]. */
CRN_DEVICE void block_loss(const crn_loss_args *CRN_RESTRICT p, crn_grid g, uint32_t pixel,
                           loss_shared *s) {
    size_t at = pixel_at(p, pixel);
    int32_t label = p->labels[pixel];
    CRN_EACH_THREAD(t) {
        s->first[t] = crn_from_bits(0xff800000u); /* minus infinity */
        for (uint32_t c = t; c < p->classes; c += g.threads) {
            float x = get_one(p->logits, at + (size_t)c * p->pixels);
            s->first[t] = x > s->first[t] ? x : s->first[t];
            if ((int64_t)c == label)
                s->hit = x;
        }
    }
    crn_largest_of_block(g, s->first);
    CRN_EACH_THREAD(t) {
        if (t == 0)
            s->largest = s->first[0];
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        float largest = s->largest, sum = 0, logits = 0;
        for (uint32_t c = t; c < p->classes; c += g.threads) {
            float x = get_one(p->logits, at + (size_t)c * p->pixels);
            sum += crn_exp(x - largest);
            logits += x;
        }
        s->first[t] = sum;
        s->second[t] = logits;
    }
    crn_add_block(g, s->first);
    crn_add_block(g, s->second);
    CRN_EACH_THREAD(t) {
        float largest = s->largest, sum = s->first[0];
        for (uint32_t c = t; p->probabilities && c < p->classes; c += g.threads) {
            size_t i = at + (size_t)c * p->pixels;
            put_one(p->probabilities, i, crn_exp(get_one(p->logits, i) - largest) / sum);
        }
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        if (t == 0)
            s->first[0] = crn_pixel_loss(p, label, s->largest, s->first[0], s->second[0], s->hit);
    }
    CRN_BARRIER();
}

/* The loss of one pixel, by a thread. */
CRN_DEVICE float thread_loss(const crn_loss_args *CRN_RESTRICT p, uint32_t pixel) {
    size_t at = pixel_at(p, pixel);
    int32_t label = p->labels[pixel];
    float largest = get_one(p->logits, at), sum = 0, logits = 0, hit = 0;
    for (uint32_t c = 1; c < p->classes; c++) {
        float x = get_one(p->logits, at + (size_t)c * p->pixels);
        largest = x > largest ? x : largest;
    }
    for (uint32_t c = 0; c < p->classes; c++) {
        float x = get_one(p->logits, at + (size_t)c * p->pixels);
        sum += crn_exp(x - largest);
        logits += x;
        hit = (int64_t)c == label ? x : hit;
    }
    for (uint32_t c = 0; p->probabilities && c < p->classes; c++) {
        size_t i = at + (size_t)c * p->pixels;
        put_one(p->probabilities, i, crn_exp(get_one(p->logits, i) - largest) / sum);
    }
    return crn_pixel_loss(p, label, largest, sum, logits, hit);
}

/* logits, labels -> loss, probabilities */
CRN_KERNEL(FORM(cross_entropy), crn_loss_args) {
    CRN_SHARED(loss_shared, all, 1);
    CRN_SHARED(uint32_t, last, 1);
    loss_shared *s = all;
    float *partial = (float *)p->partial;
    uint32_t pixels = p->batch * p->pixels;
    if (p->by_block) {
        block_loss(p, g, g.x, s);
    } else {
        CRN_EACH_THREAD(t) {
            uint32_t pixel = g.x * g.threads + t;
            s->first[t] = pixel < pixels ? thread_loss(p, pixel) : 0;
        }
        crn_add_block(g, s->first);
    }
    CRN_EACH_THREAD(t) {
        if (t != 0)
            continue;
        crn_write_shared_partial(partial + g.x, s->first[0]);
        last[0] = crn_take_ticket(p->tickets, g.blocks);
    }
    CRN_BARRIER();
    if (!last[0] || !p->loss)
        return;
    CRN_EACH_THREAD(t) {
        float sum = 0;
        for (uint32_t i = t; i < g.blocks; i += g.threads)
            sum += crn_read_shared_partial(partial + i);
        s->first[t] = sum;
    }
    crn_add_block(g, s->first);
    CRN_EACH_THREAD(t) {
        if (t == 0)
            *p->loss = s->first[0] / (float)pixels;
    }
}

/* probabilities, labels -> gradient: (p - target) / (N*S) */
CRN_KERNEL(FORM(cross_entropy_bwd), crn_loss_args) {
    float spread = p->smoothing / (float)p->classes, peak = (1 - p->smoothing) + spread;
    float count = (float)(p->batch * p->pixels);
    uint32_t plane = p->classes * p->pixels;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->batch * plane; i += g.blocks * g.threads) {
            uint32_t n = i / plane, c = i % plane / p->pixels;
            int hit = p->labels[n * p->pixels + i % p->pixels] == (int64_t)c;
            put_one(p->gradient, i, (get_one(p->probabilities, i) - (hit ? peak : spread)) / count);
        }
    }
}

/* ---- accuracy: of equal classes the first counts; with NaNs, none ---- */

/* Whether class c is likelier than the label, as in processor_results.c. */
CRN_DEVICE int is_beaten(const crn_loss_args *CRN_RESTRICT p, size_t at, uint32_t label,
                         uint32_t c) {
    float own = get_one(p->probabilities, at + (size_t)label * p->pixels);
    if (p->label_count)
        own += p->label_share / *p->label_count;
    float other = get_one(p->probabilities, at + (size_t)c * p->pixels);
    return !(c < label ? own > other : own >= other);
}

/* probabilities, labels -> correct */
CRN_KERNEL(FORM(count_correct), crn_loss_args) {
    CRN_SHARED(uint32_t, s, 256);
    uint32_t pixels = p->batch * p->pixels;
    CRN_EACH_THREAD(t) {
        uint32_t pixel = p->by_block ? g.x : g.x * g.threads + t, found = 0;
        uint32_t first = p->by_block ? t : 0, step = p->by_block ? g.threads : 1;
        if (pixel < pixels) {
            uint32_t label = (uint32_t)p->labels[pixel];
            found = label >= p->classes;
            for (uint32_t c = first; c < p->classes && found == 0; c += step)
                found = (uint32_t)is_beaten(p, pixel_at(p, pixel), label, c);
        }
        s[t] = p->by_block ? found : pixel < pixels && found == 0;
    }
    crn_count_block(g, s);
    CRN_EACH_THREAD(t) {
        uint32_t correct = p->by_block ? s[0] == 0 : s[0];
        if (t == 0 && correct > 0)
            crn_count_up_long(p->correct, correct);
    }
}

#undef pixel_at
#undef loss_shared
#undef block_loss
#undef thread_loss
#undef is_beaten
