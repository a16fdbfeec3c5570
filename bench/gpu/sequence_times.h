/* sequence_times.h: the cases of kernel_times.c on sequences: matrices in bf16, as transformers
 * have them. */
#ifndef SEQUENCE_TIMES_H
#define SEQUENCE_TIMES_H

#include "kernel_timing.h"

typedef struct sequences {
    crn_row_norm_args norm;
    crn_pointwise_args gate;
    crn_swiglu_args swiglu;
    crn_rotary_args rotary;
    crn_token_loss_args loss;
    crn_column_sums_args sums;
    size_t bytes; /* of one matrix; of a swiglu: of its output */
} sequences;

static void run_row_norm(void *context) {
    sequences *s = context;
    crn_row_norm_args a = s->norm;
    a.x = turn((void *)a.x, s->bytes);
    a.y = turn(a.y, s->bytes);
    if (a.added != NULL) {
        a.added = turn((void *)a.added, s->bytes);
        a.sum = turn(a.sum, s->bytes);
    }
    crn_launch launch = crn_row_norm_launch(&a);
    gpu_start(&launch, &a);
}

static void run_row_norm_bwd(void *context) {
    sequences *s = context;
    crn_row_norm_args a = s->norm;
    a.x = turn((void *)a.x, s->bytes);
    a.gy = turn((void *)a.gy, s->bytes);
    a.gx = turn(a.gx, s->bytes);
    if (a.other != NULL)
        a.other = turn((void *)a.other, s->bytes);
    crn_launch launch = crn_row_norm_bwd_launch(&a);
    gpu_start(&launch, &a);
    if (a.partial == NULL)
        return;
    launch = crn_row_norm_finish_launch(&a);
    gpu_start(&launch, &a);
}

static void time_row_norm(uint32_t rows, uint32_t width, uint32_t centred) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(3 * s.bytes);
    s.norm = (crn_row_norm_args){.tiling = {.rows = rows, .channels = width},
                                 .element = CRN_ELEMENT_BF16,
                                 .centred = centred,
                                 .epsilon = 1e-5f,
                                 .x = operand(s.bytes),
                                 .gy = operand(s.bytes),
                                 .y = operand(s.bytes),
                                 .gamma = small_operand(width * 4),
                                 .beta = centred ? small_operand(width * 4) : NULL,
                                 .mean = centred ? small_operand(rows * 4) : NULL,
                                 .inverse = small_operand(rows * 4),
                                 .ggamma = small_operand(width * 4),
                                 .gbeta = centred ? small_operand(width * 4) : NULL};
    s.norm.gx = s.norm.y;
    s.norm.partial = small_operand(crn_row_norm_workspace(&s.norm));
    const char *name = centred ? "layer norm" : "rms norm";
    time_case(run_row_norm, &s, 2 * s.bytes, "bf16 %s %ux%u", name, rows, width);
    s.norm.added = s.norm.gy;
    s.norm.sum = operand(s.bytes);
    time_case(run_row_norm, &s, 4 * s.bytes, "bf16 %s %ux%u of a sum", name, rows, width);
    s.norm.added = NULL;
    time_case(run_row_norm_bwd, &s, 3 * s.bytes, "bf16 %s %ux%u, backward", name, rows, width);
    s.norm.other = s.norm.sum;
    time_case(run_row_norm_bwd, &s, 4 * s.bytes, "bf16 %s %ux%u, backward and addition", name, rows,
              width);
    s.norm.gsum = small_operand(width * 4);
    time_case(run_row_norm_bwd, &s, 4 * s.bytes, "bf16 %s %ux%u, backward, addition, sums", name,
              rows, width);
    s.norm.gsum = NULL;
    s.norm.other = NULL;
    s.norm.partial = NULL;
    time_case(run_row_norm_bwd, &s, 3 * s.bytes, "bf16 %s %ux%u, gx only", name, rows, width);
}

static void run_gate(void *context) {
    sequences *s = context;
    crn_pointwise_args a = s->gate;
    a.a = turn((void *)a.a, s->bytes);
    a.b = turn((void *)a.b, s->bytes);
    a.to = turn(a.to, s->bytes);
    crn_launch launch = crn_gate_launch(&a);
    gpu_start(&launch, &a);
}

static void time_gates(uint32_t count) {
    static const char *const names[] = {"gelu",     "gelu tanh",     "silu",    "multiply",
                                        "gelu bwd", "gelu tanh bwd", "silu bwd"};
    sequences s = {.bytes = (size_t)count * 2};
    begin(3 * s.bytes);
    s.gate = (crn_pointwise_args){.element = CRN_ELEMENT_BF16,
                                  .rows = 1,
                                  .channels = count,
                                  .a_pitch = count,
                                  .b_pitch = count,
                                  .to_pitch = count,
                                  .a = operand(s.bytes),
                                  .b = operand(s.bytes),
                                  .to = operand(s.bytes)};
    for (s.gate.op = 0; s.gate.op < CRN_GATES; s.gate.op++)
        time_case(run_gate, &s, (s.gate.op >= CRN_MULTIPLY ? 3 : 2) * s.bytes, "bf16 %s, %u",
                  names[s.gate.op], count);
}

static void run_swiglu(void *context) {
    sequences *s = context;
    crn_swiglu_args a = s->swiglu;
    a.x = turn((void *)a.x, 2 * s->bytes);
    a.y = turn(a.y, s->bytes);
    crn_launch launch = crn_swiglu_launch(&a);
    gpu_start(&launch, &a);
}

static void run_swiglu_bwd(void *context) {
    sequences *s = context;
    crn_swiglu_args a = s->swiglu;
    a.x = turn((void *)a.x, 2 * s->bytes);
    a.gy = turn((void *)a.gy, s->bytes);
    a.gx = turn(a.gx, 2 * s->bytes);
    crn_launch launch = crn_swiglu_bwd_launch(&a);
    gpu_start(&launch, &a);
}

static void time_swiglu(uint32_t rows, uint32_t width) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(5 * s.bytes);
    s.swiglu = (crn_swiglu_args){.element = CRN_ELEMENT_BF16,
                                 .rows = rows,
                                 .width = width,
                                 .x = operand(2 * s.bytes),
                                 .gy = operand(s.bytes),
                                 .y = operand(s.bytes),
                                 .gx = operand(2 * s.bytes)};
    time_case(run_swiglu, &s, 3 * s.bytes, "bf16 swiglu %ux%u", rows, width);
    time_case(run_swiglu_bwd, &s, 5 * s.bytes, "bf16 swiglu %ux%u, gradient", rows, width);
}

static void run_rotary(void *context) {
    sequences *s = context;
    crn_rotary_args a = s->rotary;
    a.x = turn((void *)a.x, s->bytes);
    a.y = turn(a.y, s->bytes);
    crn_launch launch = crn_rotary_launch(&a);
    gpu_start(&launch, &a);
}

static void time_rotary(uint32_t rows, uint32_t heads, uint32_t kv_heads, uint32_t half) {
    sequences s = {.bytes = (size_t)rows * (heads + 2 * kv_heads) * 2 * half * 2};
    begin(2 * s.bytes);
    s.rotary = (crn_rotary_args){.element = CRN_ELEMENT_BF16,
                                 .rows = rows,
                                 .tokens = 2048,
                                 .rotated = heads + kv_heads,
                                 .copied = kv_heads,
                                 .half = half,
                                 .pitch = (heads + 2 * kv_heads) * 2 * half,
                                 .pairs = half,
                                 .x = operand(s.bytes),
                                 .y = operand(s.bytes)};
    for (uint32_t i = 0; i < half; i++)
        s.rotary.frequency[i] = 1.0 / (1 + i);
    time_case(run_rotary, &s, 2 * s.bytes, "bf16 rotary of %u rows, %u + %u heads of %u", rows,
              heads, kv_heads, 2 * half);
}

static void run_token_loss(void *context) {
    crn_token_loss_args a = ((sequences *)context)->loss;
    crn_launch launch = crn_token_loss_launch(&a);
    gpu_start(&launch, &a);
}

static void time_token_loss(uint32_t rows, uint32_t words) {
    sequences s = {.bytes = (size_t)rows * words * 2};
    begin(CACHE);
    void *logits = operand(s.bytes);
    s.loss = (crn_token_loss_args){.element = CRN_ELEMENT_BF16,
                                   .rows = rows,
                                   .words = words,
                                   .logits = logits,
                                   .probabilities = logits,
                                   .labels = small_operand(rows * 4),
                                   .loss = small_operand(4),
                                   .count = small_operand(4),
                                   .tickets = small_operand(64)};
    s.loss.partial = small_operand(crn_token_loss_workspace(&s.loss));
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.loss.labels, 5, rows);
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.loss.tickets, 0, 16);
    time_case(run_token_loss, &s, 2 * s.bytes, "bf16 token loss %ux%u", rows, words);
}

static void run_sums(void *context) {
    sequences *s = context;
    crn_column_sums_args a = s->sums;
    a.gy = turn((void *)a.gy, s->bytes);
    if (a.gate != 0) {
        a.y = turn((void *)a.y, s->bytes);
        a.masked = turn(a.masked, s->bytes);
    }
    crn_launch launch = crn_column_sums_launch(&a);
    gpu_start(&launch, &a);
}

static void time_sums(uint32_t rows, uint32_t width) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(3 * s.bytes);
    s.sums = (crn_column_sums_args){.tiling = {.rows = rows, .channels = width},
                                    .element = CRN_ELEMENT_BF16,
                                    .gy_pitch = width,
                                    .y_pitch = width,
                                    .masked_pitch = width,
                                    .gy = operand(s.bytes),
                                    .y = operand(s.bytes),
                                    .masked = operand(s.bytes),
                                    .sums = small_operand(width * 4),
                                    .tickets = small_operand(4096)};
    s.sums.partial = small_operand(crn_column_sums_workspace(&s.sums));
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.sums.tickets, 0, 1024);
    time_case(run_sums, &s, s.bytes, "bf16 column sums %ux%u", rows, width);
    s.sums.gate = CRN_GELU_TANH_BWD;
    time_case(run_sums, &s, 3 * s.bytes, "bf16 gelu tanh bwd and column sums %ux%u", rows, width);
    s.sums.gate = CRN_GELU_BWD;
    time_case(run_sums, &s, 3 * s.bytes, "bf16 gelu bwd and column sums %ux%u", rows, width);
}

static void time_sequences(void) {
    time_row_norm(8192, 1024, 1);
    time_row_norm(65536, 768, 1);
    time_row_norm(8192, 2048, 0);
    time_gates(8192 * 4096);
    time_swiglu(8192, 5632);
    time_rotary(8192, 32, 8, 32);
    time_token_loss(8192, 50304);
    time_token_loss(8192, 32000);
    time_sums(8192, 1024);
    time_sums(8192, 3072);
    time_sums(8192, 4096);
    time_sums(65536, 3072);
}

#endif
