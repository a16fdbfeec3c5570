/* test_dnn_plans.c: cuDNN's lists of convolutions, without a GPU: from the description of a GPU
 * (tests/data/h200_properties.json, written by cuDNN). Exits with 77 if cuDNN cannot be opened. */
#include "backend/cuda/attention_plans.h"
#include "backend/cuda/cuda_loader.h"
#include "backend/cuda/dnn_plans.h"
#include "check.h"

#define MOST 40u

static char *read_text(const char *path) {
    static char text[4096];
    FILE *file = fopen(path, "r");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    CHECK(length > 0);
    if (file != NULL)
        fclose(file);
    text[length] = '\0';
    return text;
}

static uint32_t propose(const crn_dnn *dnn, const crn_dnn_shape *shape, crn_dnn_plan *out) {
    cairn_error err = {0};
    uint32_t count;
    CHECK_OK(crn_dnn_propose(dnn, shape, out, MOST, &count, &err), &err);
    return count;
}

/* Every pass has plans, and a second query gives the same ones; full precision has fewer. */
static void check_shape(const crn_dnn *dnn, crn_dnn_shape shape) {
    crn_dnn_plan first[MOST], second[MOST];
    for (shape.pass = CRN_DNN_Y; shape.pass <= CRN_DNN_GW; shape.pass++) {
        shape.exact = 0;
        uint32_t count = propose(dnn, &shape, first), again = propose(dnn, &shape, second);
        CHECK(count > 0);
        CHECK_U64(count, again);
        for (uint32_t i = 0; i < count; i++)
            CHECK(i >= again ||
                  (first[i].engine == second[i].engine && first[i].rank == second[i].rank &&
                   first[i].workspace == second[i].workspace));
        for (uint32_t i = 0; i < count; i++)
            crn_dnn_drop(dnn, first[i].plan);
        for (uint32_t i = 0; i < again; i++)
            crn_dnn_drop(dnn, second[i].plan);
        shape.exact = 1;
        uint32_t exact = propose(dnn, &shape, first);
        CHECK(exact < count);
        for (uint32_t i = 0; i < exact; i++)
            crn_dnn_drop(dnn, first[i].plan);
    }
}

/* Attention has plans. The workspace of the gradient is that of the scores and falls with the
 * sequences of a run. Without any libcuda.so.1 cuDNN proposes nothing: then there is nothing to
 * check. */
static void check_attention(const crn_dnn *dnn, crn_attention_shape shape) {
    crn_dnn_plan plans[2];
    cairn_error err = {0};
    uint64_t workspace = 0;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t count;
        shape.backward = pass > 0;
        CHECK_OK(crn_attention_propose(dnn, &shape, plans, 2, &count, &err), &err);
        if (count == 0) {
            printf("no plans of attention: cuDNN needs a libcuda.so.1 for them\n");
            return;
        }
        uint64_t scores = (uint64_t)(2 * shape.batch * shape.heads * shape.tokens * shape.tokens);
        CHECK(pass > 0 ? plans[0].workspace >= scores && plans[0].workspace < 4 * scores
                       : plans[0].workspace < 4096);
        CHECK(pass < 2 || plans[0].workspace < workspace);
        workspace = plans[0].workspace;
        if (pass == 1)
            shape.batch /= 2;
        for (uint32_t i = 0; i < count; i++)
            crn_dnn_drop(dnn, plans[i].plan);
    }
}

/* The ranks of plans with these engines, in the order of preference. */
static void check_preference(int64_t pass, int64_t kernel, const int64_t engines[3],
                             const uint32_t ranks[3]) {
    crn_dnn_shape shape = {.pass = pass, .kernel = {kernel, 1}, .stride = {1, 1}};
    shape.before[0] = shape.after[0] = kernel / 2;
    crn_dnn_plan plans[3] = {{.engine = engines[0], .rank = 0},
                             {.engine = engines[1], .rank = 1},
                             {.engine = engines[2], .rank = 2}};
    crn_dnn_prefer(&shape, plans, 3);
    for (int i = 0; i < 3; i++)
        CHECK_U64(plans[i].rank, ranks[i]);
}

static void check_preferences(void) {
    check_preference(CRN_DNN_Y, 1, (int64_t[]){67, 67, 58}, (uint32_t[]){2, 0, 1});
    check_preference(CRN_DNN_Y, 7, (int64_t[]){67, 67, 48}, (uint32_t[]){0, 1, 2});
    check_preference(CRN_DNN_GX, 7, (int64_t[]){58, 58, 71}, (uint32_t[]){2, 0, 1});
    check_preference(CRN_DNN_GX, 1, (int64_t[]){71, 76, 71}, (uint32_t[]){0, 1, 2});
    check_preference(CRN_DNN_GW, 7, (int64_t[]){48, 34, 34}, (uint32_t[]){1, 2, 0});
    check_preference(CRN_DNN_GW, 1, (int64_t[]){68, 62, 62}, (uint32_t[]){1, 2, 0});
}

int main(void) {
    crn_cuda_api api;
    cairn_error err = {0};
    check_preferences();
    if (crn_cuda_load_cudnn(&api, &err) != CAIRN_OK) {
        printf("%s\n", err.message);
        return check_result() != 0 ? 1 : 77;
    }
    crn_dnn dnn = {.api = &api};
    CHECK(crn_dnn_describe(&dnn, "{", &err) == CAIRN_ESYSTEM);
    CHECK_OK(crn_dnn_describe(&dnn, read_text(CAIRN_TEST_DATA "/h200_properties.json"), &err),
             &err);
    /* the first convolution of a ResNet, its input filled up to four channels */
    check_shape(&dnn, (crn_dnn_shape){.batch = 64,
                                      .channels = 4,
                                      .filters = 64,
                                      .groups = 1,
                                      .x = {224, 224},
                                      .y = {112, 112},
                                      .x_strides = {224 * 224 * 4, 224 * 4, 4},
                                      .kernel = {7, 7},
                                      .stride = {2, 2},
                                      .dilation = {1, 1},
                                      .before = {3, 3},
                                      .after = {3, 3},
                                      .alignment = 16});
    /* cropped by a row and a column: negative padding */
    check_shape(&dnn, (crn_dnn_shape){.batch = 8,
                                      .channels = 64,
                                      .filters = 128,
                                      .groups = 1,
                                      .x = {55, 55},
                                      .y = {28, 28},
                                      .x_strides = {56 * 56 * 64, 56 * 64, 64},
                                      .kernel = {1, 1},
                                      .stride = {2, 2},
                                      .dilation = {1, 1},
                                      .alignment = 16});
    check_attention(&dnn, (crn_attention_shape){.causal = true,
                                                .tokens = 1024,
                                                .size = 64,
                                                .all_heads = 16,
                                                .all_kv_heads = 16,
                                                .batch = 8,
                                                .heads = 16,
                                                .kv_heads = 16});
    check_attention(&dnn, (crn_attention_shape){.tokens = 256, /* a part of the heads */
                                                .size = 128,
                                                .all_heads = 32,
                                                .all_kv_heads = 8,
                                                .batch = 4,
                                                .heads = 8,
                                                .kv_heads = 2});
    crn_dnn_drop(&dnn, dnn.device);
    return check_result();
}
