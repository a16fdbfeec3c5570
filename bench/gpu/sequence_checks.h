/* sequence_checks.h: the cases of kernel_check.c on sequences: matrices without padding. It is
 * included where operands and `both` are known. */
#ifndef SEQUENCE_CHECKS_H
#define SEQUENCE_CHECKS_H

static void check_row_norm(uint32_t element, uint32_t rows, uint32_t width, uint32_t centred) {
    begin();
    size_t all = (size_t)rows * width;
    crn_row_norm_args args = {.tiling = {.rows = rows, .channels = width},
                              .element = element,
                              .centred = centred,
                              .epsilon = 1e-5f,
                              .x = elements(element, all),
                              .gy = elements(element, all),
                              .y = elements(element, all),
                              .gx = elements(element, all),
                              .sum = elements(element, all),
                              .gamma = floats(width, 1, 0.1f),
                              .beta = centred ? floats(width, 0, 1) : NULL,
                              .mean = centred ? floats(rows, 0, 0) : NULL,
                              .inverse = floats(rows, 0, 0),
                              .ggamma = floats(width, 0, 0),
                              .gbeta = centred ? floats(width, 0, 0) : NULL};
    args.partial = take(crn_row_norm_workspace(&args));
    both(crn_row_norm_launch(&args), &args, "norm of rows");
    args.added = args.gy;
    both(crn_row_norm_launch(&args), &args, "norm of rows of a sum");
    both(crn_row_norm_bwd_launch(&args), &args, "gradient of a norm of rows");
    both(crn_row_norm_finish_launch(&args), &args, "gradient of its weights");
    args.other = args.y;
    if (crn_row_norm_can_sum(element, width))
        args.gsum = floats(width, 0, 0);
    both(crn_row_norm_bwd_launch(&args), &args, "gradient of a norm of rows, added");
    both(crn_row_norm_finish_launch(&args), &args, "gradient of its weights, and sums");
}

static void check_gates(uint32_t element, uint32_t rows, uint32_t width) {
    begin();
    uint32_t count = rows * width;
    crn_pointwise_args gate = {.element = element,
                               .rows = 1,
                               .channels = count,
                               .a_pitch = count,
                               .b_pitch = count,
                               .to_pitch = count,
                               .a = elements(element, count),
                               .b = elements(element, count),
                               .to = elements(element, count)};
    for (gate.op = 0; gate.op < CRN_GATES; gate.op++)
        both(crn_gate_launch(&gate), &gate, "gate");
    crn_column_sums_args sums = {.tiling = {.rows = rows, .channels = width},
                                 .element = element,
                                 .gate = CRN_GELU_TANH_BWD,
                                 .gy_pitch = width,
                                 .y_pitch = width,
                                 .masked_pitch = width,
                                 .gy = gate.a,
                                 .y = gate.b,
                                 .masked = gate.to,
                                 .sums = floats(width, 0, 0),
                                 .tickets = tickets()};
    sums.partial = take(crn_column_sums_workspace(&sums));
    both(crn_column_sums_launch(&sums), &sums, "gelu and column sums");
    crn_swiglu_args swiglu = {.element = element,
                              .rows = rows,
                              .width = width,
                              .x = elements(element, 2 * count),
                              .gy = elements(element, count),
                              .y = elements(element, count),
                              .gx = elements(element, 2 * count)};
    both(crn_swiglu_launch(&swiglu), &swiglu, "swiglu");
    both(crn_swiglu_bwd_launch(&swiglu), &swiglu, "gradient of swiglu");
}

static void check_rotary(uint32_t element, uint32_t rows, uint32_t half) {
    begin();
    uint32_t pitch = 7 * 2 * half;
    crn_rotary_args args = {.element = element,
                            .rows = rows,
                            .tokens = rows / 2,
                            .rotated = 5,
                            .copied = 2,
                            .half = half,
                            .pitch = pitch,
                            .pairs = half,
                            .x = elements(element, (size_t)rows * pitch),
                            .y = elements(element, (size_t)rows * pitch)};
    for (uint32_t i = 0; i < half; i++)
        args.frequency[i] = 1.0 / (1 + i);
    both(crn_rotary_launch(&args), &args, "rotary");
}

static void check_token_loss(uint32_t element, uint32_t rows, uint32_t words) {
    begin();
    crn_token_loss_args args = {.element = element,
                                .rows = rows,
                                .words = words,
                                .smoothing = 0.1f,
                                .logits = elements(element, (size_t)rows * words),
                                .probabilities = elements(element, (size_t)rows * words),
                                .gradient = elements(element, (size_t)rows * words),
                                .loss = floats(1, 0, 0),
                                .count = floats(1, 0, 0),
                                .tickets = tickets()};
    int32_t *labels = take(rows * sizeof *labels);
    for (uint32_t i = 0; i < rows; i++)
        labels[i] = (int32_t)(draw() % (words + 1)) - 1;
    args.labels = labels;
    args.partial = take(crn_token_loss_workspace(&args));
    both(crn_count_labels_launch(&args), &args, "labels");
    both(crn_token_loss_launch(&args), &args, "loss of tokens");
    both(crn_token_loss_bwd_launch(&args), &args, "gradient of the loss of tokens");
}

static void check_tokens(uint32_t element, uint32_t rows, uint32_t words, uint32_t width) {
    begin();
    crn_embedding_args args = {.element = element,
                               .rows = rows,
                               .words = words,
                               .width = width,
                               .table = floats((size_t)words * width, 0, 1),
                               .gy = elements(element, (size_t)rows * width),
                               .y = elements(element, (size_t)rows * width),
                               .gradient = floats((size_t)words * width, 0, 1),
                               .starts = take((words + 1) * sizeof(uint32_t)),
                               .list = take(rows * sizeof(uint32_t))};
    int32_t *tokens = take(rows * sizeof *tokens);
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (int32_t)(draw() % 3 == 0 ? draw() % 2 : draw() % words);
    args.tokens = tokens;
    both(crn_embedding_launch(&args), &args, "embedding");
    both(crn_token_lists_launch(&args), &args, "rows of each word");
    both(crn_embedding_bwd_launch(&args), &args, "gradient of an embedding");
    args.sum = args.gradient;
    both(crn_embedding_bwd_launch(&args), &args, "gradient of an embedding, added");
}

static void check_positions(uint32_t element, uint32_t batch, uint32_t tokens, uint32_t width) {
    begin();
    size_t all = (size_t)batch * tokens * width;
    crn_positions_args args = {.element = element,
                               .batch = batch,
                               .tokens = tokens,
                               .width = width,
                               .weights = tokens + 2,
                               .x = elements(element, all),
                               .weight = floats((size_t)(tokens + 2) * width, 0, 1),
                               .y = elements(element, all),
                               .gradient = floats((size_t)(tokens + 2) * width, 0, 1)};
    both(crn_positions_launch(&args), &args, "positions");
    both(crn_positions_bwd_launch(&args), &args, "gradient of positions");
    crn_copy_rows_args rows = {
        .batch = batch,
        .rows = tokens,
        .width = width,
        .first = 1,
        .count = tokens - 1,
        .from = {(void *)args.x, width, 1, (uint64_t)tokens * width, element},
        .to = {args.y, width, 1, (uint64_t)tokens * width, element},
        .fill = args.weight};
    both(crn_copy_rows_launch(&rows), &rows, "rows");
}

static void check_attention(uint32_t element, uint32_t tokens, uint32_t size, uint32_t causal) {
    enum { BATCH = 2, HEADS = 4, SHARED = 2 };
    begin();
    size_t rows = (size_t)BATCH * tokens, wide = (HEADS + 2 * SHARED) * size;
    crn_attention_args args = {.element = element,
                               .batch = BATCH,
                               .tokens = tokens,
                               .heads = HEADS,
                               .kv_heads = SHARED,
                               .size = size,
                               .causal = causal,
                               .scale = 0.3f,
                               .x = elements(element, rows * wide),
                               .gy = elements(element, rows * HEADS * size),
                               .y = elements(element, rows * HEADS * size),
                               .gx = elements(element, rows * wide),
                               .stats = floats(rows * HEADS, 0, 0),
                               .along = floats(rows * HEADS, 0, 0)};
    both(crn_attention_launch(&args), &args, "attention");
    both(crn_attention_along_launch(&args), &args, "sums of attention's gradient");
    both(crn_attention_keys_launch(&args), &args, "gradients of keys and values");
    both(crn_attention_queries_launch(&args), &args, "gradients of queries");
}

/* What the gradient of a patch embedding's weights needs. */
static void check_unfold(uint32_t element) {
    enum { IMAGES = 2, SIZE = 9, SMALL = 4, CHANNELS = 5, PITCH = 8 };
    begin();
    crn_unfold_args args = {.element = element,
                            .height = SIZE,
                            .width = SIZE,
                            .small_height = SMALL,
                            .small_width = SMALL,
                            .channels = CHANNELS,
                            .large_pitch = PITCH,
                            .pitch = PITCH,
                            .kernel = {3, 3},
                            .stride = {2, 2},
                            .dilation = {1, 1},
                            .count = IMAGES * SMALL * SMALL * 9 * PITCH,
                            .large = elements(element, IMAGES * SIZE * SIZE * PITCH)};
    args.to = elements(element, args.count);
    both(crn_unfold_launch(&args), &args, "unfold");
    crn_add_slices_args slices = {
        .count = 3000, .slices = 5, .from = floats(15000, 0, 1), .to = floats(3000, 0, 0)};
    both(crn_add_slices_launch(&slices), &slices, "sum of slices");
}

static void check_sequences(uint32_t element) {
    static const uint32_t shapes[][2] = {{5, 24},    {70, 130}, {40, 1101}, {300, 1024},
                                         {8700, 64}, {9, 9000}, {5, 23}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_row_norm(element, shapes[i][0], shapes[i][1], 1);
        check_row_norm(element, shapes[i][0], shapes[i][1], 0);
        check_gates(element, shapes[i][0], shapes[i][1]);
    }
    check_rotary(element, 30, 32);
    check_rotary(element, 26, 5);
    check_token_loss(element, 9, 5000);
    check_token_loss(element, 7, 1003);
    check_tokens(element, 900, 300, 72);
    check_tokens(element, 90, 70, 33);
    check_positions(element, 3, 50, 40);
    check_positions(element, 4, 7, 21);
    check_attention(element, 70, 32, 1);
    check_attention(element, 33, 160, 0);
    check_unfold(element);
}

#endif
