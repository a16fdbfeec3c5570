/* sequence_launch.c: the forms and grids of the kernels for sequences; see kernel_launch.c. */
#include "backend/cuda/kernels/launch_shapes.h"

#define ROWS_OF_BLOCK 8u /* of a norm of long rows: 256 threads, 32 for each */
#define LIST_CHUNK 64u   /* as in list_kernels.h */
#define LIST_WORDS 8u    /* likewise */

/* Matrices without padding. Wide accesses need rows that are multiples of 16 bytes. */
static uint32_t matrix_pack(uint32_t element, uint32_t width, const void *a, const void *b,
                            const void *c) {
    const operand operands[] = {{a, width}, {b, width}, {c, width}};
    return pack_of(element, width, operands, 3);
}

/* ---- Norms of rows ---- */

static uint32_t norm_pack(const crn_row_norm_args *a, const void *to) {
    const operand operands[] = {{a->x, a->tiling.channels},     {a->gy, a->tiling.channels},
                                {a->added, a->tiling.channels}, {a->other, a->tiling.channels},
                                {a->sum, a->tiling.channels},   {to, a->tiling.channels}};
    return pack_of(a->element, a->tiling.channels, operands, 6);
}

/* A row belongs to the fewest warps that hold it, or, if it is too long for all of a block, to
 * none: lanes == 0. */
static void choose_lanes(crn_tiling *tiling, uint32_t pack) {
    tiling->lanes = 32;
    while (tiling->lanes <= THREADS && tiling->channels > CRN_ROW_HELD * tiling->lanes * pack)
        tiling->lanes *= 2;
    tiling->lanes = tiling->lanes > THREADS ? 0 : tiling->lanes;
}

crn_launch crn_row_norm_launch(crn_row_norm_args *given) {
    uint32_t pack = norm_pack(given, given->y);
    choose_lanes(&given->tiling, pack);
    bool wide = given->tiling.lanes == 0;
    return launch_of(
        form_of(wide ? CRN_K_row_norm_wide : CRN_K_row_norm, given->element, pack),
        divide_up(given->tiling.rows, wide ? ROWS_OF_BLOCK : THREADS / given->tiling.lanes), 1,
        THREADS);
}

/* A block of the backward pass has all columns of a strip of rows, of which `groups` at a time. A
 * row belongs to as many warps as it has packs, or, if it is too long for a block, to none: lanes
 * == 0.
 */
static void choose_strips(crn_tiling *tiling, uint32_t pack) {
    tiling->lanes = divide_up(tiling->channels, 32 * pack) * 32;
    tiling->lanes = tiling->lanes > COLUMN_THREADS ? 0 : tiling->lanes;
    tiling->groups = tiling->lanes == 0 ? CRN_ROW_CHUNK : COLUMN_THREADS / tiling->lanes;
    uint32_t chunks = divide_up(tiling->rows, tiling->groups);
    tiling->strip = tiling->groups * larger(divide_up(chunks, COLUMN_BLOCKS), 1);
    tiling->strips = divide_up(tiling->rows, tiling->strip);
}

crn_launch crn_row_norm_bwd_launch(crn_row_norm_args *given) {
    uint32_t pack = norm_pack(given, given->gx);
    choose_strips(&given->tiling, pack);
    bool wide = given->tiling.lanes == 0;
    crn_launch launch = launch_of(
        form_of(wide ? CRN_K_row_norm_bwd_wide : CRN_K_row_norm_bwd, given->element, pack),
        given->tiling.strips, 1, wide ? THREADS : COLUMN_THREADS);
    launch.shared_bytes = crn_kernel_shared_bytes(launch.kernel);
    return launch;
}

crn_launch crn_row_norm_finish_launch(crn_row_norm_args *given) {
    uint32_t arrays = given->alone ? 1 : given->gsum != NULL ? 3 : 2;
    return launch_of(CRN_K_row_norm_finish, divide_up(arrays * (uint64_t)given->tiling.channels, 8),
                     1, THREADS);
}

int crn_row_norm_can_sum(uint32_t element, uint32_t width) {
    crn_tiling tiling = {.rows = 1, .channels = width};
    choose_strips(&tiling, width % wide_pack(element) == 0 ? wide_pack(element) : 1);
    return tiling.lanes > 0;
}

uint64_t crn_row_norm_workspace(const crn_row_norm_args *given) {
    crn_tiling wide = given->tiling, narrow = given->tiling; /* enough for both forms */
    choose_strips(&wide, wide_pack(given->element));
    choose_strips(&narrow, 1);
    uint64_t strips = larger(wide.strips, narrow.strips);
    return (strips * (given->alone ? 1 : 3) * wide.channels * sizeof(float) + 15) / 16 * 16;
}

/* ---- Gates ---- */

crn_launch crn_gate_launch(crn_pointwise_args *given) {
    const operand operands[] = {{given->a, given->a_pitch},
                                {given->op >= CRN_MULTIPLY ? given->b : NULL, given->b_pitch},
                                {given->to, given->to_pitch}};
    uint32_t pack = pack_of(given->element, given->channels, operands, 3);
    uint32_t each = THREADS * (given->op >= CRN_MULTIPLY ? 2 : 4); /* as in gate_kernels.h */
    given->packs = divide_up(given->channels, pack);
    uint64_t all = (uint64_t)given->rows * given->packs;
    assert(all < UINT32_MAX - each);
    return launch_of(form_of(CRN_K_gate, given->element, pack), divide_up(all, each), 1, THREADS);
}

static crn_launch matrix_launch(crn_kernel_id kernel, uint32_t element, uint32_t rows,
                                uint32_t width, uint32_t pack) {
    assert((uint64_t)rows * (width / pack) < UINT32_MAX - THREADS * MOST_BLOCKS);
    return flat_launch(form_of(kernel, element, pack), (uint64_t)rows * (width / pack));
}

static crn_launch swiglu_launch(crn_kernel_id kernel, const crn_swiglu_args *a, const void *second,
                                const void *third) {
    uint32_t pack = matrix_pack(a->element, a->width, a->x, second, third);
    uint64_t threads = (uint64_t)divide_up(a->rows, CRN_SWIGLU_ROWS) * (a->width / pack);
    assert(threads < UINT32_MAX - THREADS);
    return launch_of(form_of(kernel, a->element, pack), divide_up(threads, THREADS), 1, THREADS);
}

crn_launch crn_swiglu_launch(crn_swiglu_args *given) {
    return swiglu_launch(CRN_K_swiglu, given, given->y, NULL);
}

crn_launch crn_swiglu_bwd_launch(crn_swiglu_args *given) {
    return swiglu_launch(CRN_K_swiglu_bwd, given, given->gy, given->gx);
}

crn_launch crn_rotary_launch(crn_rotary_args *given) {
    const operand operands[] = {{given->x, given->pitch}, {given->y, given->pitch}};
    uint32_t pack = pack_of(given->element, given->pitch, operands, 2);
    if (given->half % pack != 0 || given->pairs % pack != 0)
        pack = 1;
    return launch_of(form_of(CRN_K_rotary, given->element, pack),
                     divide_up(given->rows, CRN_ROTARY_ROWS), 1, THREADS);
}

/* ---- Tokens ---- */

crn_launch crn_embedding_launch(crn_embedding_args *given) {
    uint32_t pack = matrix_pack(given->element, given->width, given->y, NULL, NULL);
    return matrix_launch(CRN_K_embedding, given->element, given->rows, given->width, pack);
}

crn_launch crn_token_lists_launch(crn_embedding_args *given) {
    return launch_of(CRN_K_token_lists, divide_up(given->words, LIST_CHUNK), 1, THREADS);
}

crn_launch crn_embedding_bwd_launch(crn_embedding_args *given) {
    uint32_t pack = matrix_pack(given->element, given->width, given->gy, NULL, NULL);
    return launch_of(form_of(CRN_K_embedding_bwd, given->element, pack),
                     divide_up(given->words, LIST_WORDS), divide_up(given->width, 32 * pack),
                     THREADS);
}

crn_launch crn_positions_launch(crn_positions_args *given) {
    uint32_t pack = matrix_pack(given->element, given->width, given->x, given->y, NULL);
    return matrix_launch(CRN_K_positions, given->element, given->batch * given->tokens,
                         given->width, pack);
}

crn_launch crn_positions_bwd_launch(crn_positions_args *given) {
    uint32_t pack = matrix_pack(given->element, given->width, given->x, NULL, NULL);
    return matrix_launch(CRN_K_positions_bwd, given->element, given->weights, given->width, pack);
}

crn_launch crn_copy_rows_launch(crn_copy_rows_args *given) {
    return flat_launch(CRN_K_copy_rows, (uint64_t)given->batch * given->rows * given->width);
}

/* ---- The loss of tokens: a block for each row ---- */

crn_launch crn_token_loss_launch(crn_token_loss_args *given) {
    uint32_t pack =
        matrix_pack(given->element, given->words, given->logits, given->probabilities, NULL);
    crn_launch launch =
        launch_of(form_of(CRN_K_token_loss, given->element, pack), given->rows, 1, COLUMN_THREADS);
    launch.tickets = 1;
    launch.shared_bytes = crn_kernel_shared_bytes(launch.kernel);
    return launch;
}

crn_launch crn_token_loss_bwd_launch(crn_token_loss_args *given) {
    uint32_t pack =
        matrix_pack(given->element, given->words, given->probabilities, given->gradient, NULL);
    return launch_of(form_of(CRN_K_token_loss_bwd, given->element, pack), given->rows, 1,
                     COLUMN_THREADS);
}

crn_launch crn_count_labels_launch(crn_token_loss_args *given) {
    (void)given;
    return launch_of(CRN_K_count_labels, 1, 1, THREADS);
}

uint64_t crn_token_loss_workspace(const crn_token_loss_args *given) {
    return ((uint64_t)given->rows * sizeof(float) + 15) / 16 * 16;
}
