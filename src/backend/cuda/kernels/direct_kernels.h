/* direct_kernels.h: any convolution, with one thread per element of the result or one block per
 * weight. It is for convolutions that no library supports, and for drivers without libraries; no
 * guard. See pack.h and crn_conv_args. */

#define gather_element FORM(conv_gather_element)
#define scatter_element FORM(conv_scatter_element)
#define weigh_rows FORM(conv_weigh_rows)

CRN_DEVICE float gather_element(const crn_conv_args *CRN_RESTRICT p, uint32_t pixel, uint32_t o) {
    uint32_t q = pixel % p->small_width, row = pixel / p->small_width;
    uint32_t n = row / p->small_height, i = row % p->small_height;
    uint32_t inside = p->channels / p->groups, first = o / (p->filters / p->groups) * inside;
    float sum = p->bias ? p->bias[o] : 0;
    for (int32_t tap = 0; tap < p->kernel[0] * p->kernel[1]; tap++) {
        int32_t y = (int32_t)i * p->stride[0] + tap / p->kernel[1] * p->dilation[0] - p->pad[0];
        int32_t x = (int32_t)q * p->stride[1] + tap % p->kernel[1] * p->dilation[1] - p->pad[1];
        if (y < 0 || y >= (int32_t)p->height || x < 0 || x >= (int32_t)p->width)
            continue;
        size_t at = (((size_t)n * p->height + y) * p->width + x) * p->large_pitch + first;
        const float *weight = p->weight + (size_t)o * p->weight_o + (size_t)tap * p->weight_tap;
        for (uint32_t c = 0; c < inside; c++)
            sum = crn_fma(weight[(size_t)c * p->weight_c], get_one(p->large, at + c), sum);
    }
    return sum;
}

CRN_KERNEL(FORM(conv_gather), crn_conv_args) {
    uint32_t pixels = p->batch * p->small_height * p->small_width;
    CRN_EACH_THREAD(t) {
        uint64_t i = (uint64_t)g.x * g.threads + t;
        uint32_t pixel = (uint32_t)(i / p->small_pitch), o = (uint32_t)(i % p->small_pitch);
        if (pixel >= pixels)
            continue;
        put_one(p->small, i, o < p->filters ? gather_element(p, pixel, o) : 0);
    }
}

CRN_DEVICE float scatter_element(const crn_conv_args *CRN_RESTRICT p, uint32_t pixel, uint32_t c) {
    int32_t x = (int32_t)(pixel % p->width), y = (int32_t)(pixel / p->width % p->height);
    uint32_t n = pixel / p->width / p->height;
    uint32_t inside = p->channels / p->groups, filters = p->filters / p->groups;
    uint32_t first = c / inside * filters;
    float sum = p->bias ? p->bias[c] : 0;
    for (int32_t tap = 0; tap < p->kernel[0] * p->kernel[1]; tap++) {
        int32_t i = y + p->pad[0] - tap / p->kernel[1] * p->dilation[0];
        int32_t j = x + p->pad[1] - tap % p->kernel[1] * p->dilation[1];
        if (i < 0 || j < 0 || i % p->stride[0] != 0 || j % p->stride[1] != 0)
            continue;
        i /= p->stride[0];
        j /= p->stride[1];
        if (i >= (int32_t)p->small_height || j >= (int32_t)p->small_width)
            continue;
        size_t at = (((size_t)n * p->small_height + i) * p->small_width + j) * p->small_pitch;
        const float *weight = p->weight + (size_t)first * p->weight_o +
                              (size_t)(c % inside) * p->weight_c + (size_t)tap * p->weight_tap;
        for (uint32_t o = 0; o < filters; o++)
            sum = crn_fma(weight[(size_t)o * p->weight_o], get_one(p->small, at + first + o), sum);
    }
    return sum;
}

CRN_KERNEL(FORM(conv_scatter), crn_conv_args) {
    uint32_t pixels = p->batch * p->height * p->width;
    CRN_EACH_THREAD(t) {
        uint64_t i = (uint64_t)g.x * g.threads + t;
        uint32_t pixel = (uint32_t)(i / p->large_pitch), c = (uint32_t)(i % p->large_pitch);
        if (pixel >= pixels)
            continue;
        put_one(p->large, i, c < p->channels ? scatter_element(p, pixel, c) : 0);
    }
}

/* The sum over a thread's share of the pixels for one weight. */
CRN_DEVICE float weigh_rows(const crn_conv_args *CRN_RESTRICT p, uint32_t o, uint32_t c,
                            int32_t tap, uint32_t t, uint32_t threads) {
    uint32_t plane = p->small_height * p->small_width;
    float sum = 0;
    for (uint32_t pixel = t; pixel < p->batch * plane; pixel += threads) {
        uint32_t n = pixel / plane;
        int32_t i = (int32_t)(pixel % plane / p->small_width);
        int32_t j = (int32_t)(pixel % p->small_width);
        int32_t y = i * p->stride[0] + tap / p->kernel[1] * p->dilation[0] - p->pad[0];
        int32_t x = j * p->stride[1] + tap % p->kernel[1] * p->dilation[1] - p->pad[1];
        if (y < 0 || y >= (int32_t)p->height || x < 0 || x >= (int32_t)p->width)
            continue;
        size_t large = (((size_t)n * p->height + y) * p->width + x) * p->large_pitch + c;
        sum = crn_fma(get_one(p->small, (size_t)pixel * p->small_pitch + o),
                      get_one(p->large, large), sum);
    }
    return sum;
}

/* x of the grid: weight (o, c of its group), y: tap */
CRN_KERNEL(FORM(conv_weigh), crn_conv_args) {
    CRN_SHARED(float, s, 256);
    uint32_t inside = p->channels / p->groups, o = g.x / inside, c = g.x % inside;
    uint32_t first = o / (p->filters / p->groups) * inside;
    CRN_EACH_THREAD(t) {
        s[t] = weigh_rows(p, o, first + c, (int32_t)g.y, t, g.threads);
    }
    crn_add_block(g, s);
    CRN_EACH_THREAD(t) {
        if (t == 0)
            p->weight_to[(size_t)o * p->weight_o + (size_t)c * p->weight_c +
                         (size_t)g.y * p->weight_tap] = s[0];
    }
}

#undef gather_element
#undef scatter_element
#undef weigh_rows
