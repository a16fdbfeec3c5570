/* test_names.c: every status, role, phase, kind, step and rule has a name of its own, and a number
 * beyond the last has none; what a builder is given wrongly it says in words. */
#include "cairn.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "weights/crn_weights.h"
#include "base/crn_base.h"
#include "sim/crn_sim.h"
#include "train/train_internal.h"

static void test_statuses(void) {
    const cairn_status all[] = {
#define X(name, value, message) CAIRN_##name,
        CAIRN_STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(strncmp(crn_status_name(all[i]), "CAIRN_", 6) == 0);
        CHECK(cairn_status_message(all[i])[0] != '\0');
        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(crn_status_name(all[i]), crn_status_name(all[k])) != 0);
            CHECK(strcmp(cairn_status_message(all[i]), cairn_status_message(all[k])) != 0);
        }
    }
    cairn_status beyond = (cairn_status)12345;
    CHECK_STRING(crn_status_name(beyond), "unknown status");
    CHECK_STRING(cairn_status_message(beyond), "unknown status");
}

/* Names from 0 on, no two alike, then NULL. */
#define CHECK_NAMES(type, function)                                                                \
    do {                                                                                           \
        uint32_t count = 0;                                                                        \
        while (function((type)count) != NULL && count < 1000) {                                    \
            for (uint32_t k = 0; k < count; k++)                                                   \
                CHECK(strcmp(function((type)k), function((type)count)) != 0);                      \
            count++;                                                                               \
        }                                                                                          \
        CHECK(count > 1 && count < 1000);                                                          \
        CHECK(function((type)UINT16_MAX) == NULL);                                                 \
    } while (0)

static void test_enumerations(void) {
    CHECK_NAMES(cairn_role, crn_role_name);
    CHECK_NAMES(cairn_phase, crn_phase_name);
    CHECK_NAMES(cairn_op_kind, cairn_op_kind_name);
    CHECK_NAMES(cairn_step_kind, cairn_step_kind_name);
    CHECK_NAMES(cairn_rule, crn_rule_name);
    CHECK_NAMES(cairn_element, crn_element_name);
    CHECK_NAMES(cairn_schedule_kind, crn_schedule_name);
    CHECK_U64(crn_element_bytes((cairn_element)UINT16_MAX), 0);
}

/* ---- Builders keep the first mistake and give it at the end ---- */

typedef void mistake(cairn_builder *b, cairn_id x);

static void rank(cairn_builder *b, cairn_id x) {
    (void)x;
    crn_build_input(b, "deep", 9, (uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
}

static void no_extent(cairn_builder *b, cairn_id x) {
    (void)x;
    crn_build_input(b, "flat", 2, (uint32_t[]){4, 0});
}

static void no_tensor(cairn_builder *b, cairn_id x) {
    crn_build_relu(b, "r", x + 1000);
}

static void too_small(cairn_builder *b, cairn_id x) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    (void)x;
    t.name = "small";
    t.rank = 1;
    t.shape[0] = 100;
    t.bytes = 8;
    cairn_builder_tensor(b, &t);
}

static void huge(cairn_builder *b, cairn_id x) {
    (void)x;
    crn_build_input(b, "huge", 4, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX});
}

static void wide_kernel(cairn_builder *b, cairn_id x) {
    crn_build_conv2d(b, "c", x, &(crn_conv){.channels = 1, .kernel = {UINT32_MAX, 1}});
}

static void twice(cairn_builder *b, cairn_id x) {
    no_extent(b, x);
    no_tensor(b, crn_build_relu(b, "after", x)); /* does not hide the first */
}

static void test_builders(void) {
    static const struct {
        mistake *make;
        const char *words;
    } mistakes[] = {
        {rank, "dimensions"}, {no_extent, "flat"}, {no_tensor, "tensor"}, {too_small, "small"},
        {huge, "huge"},       {wide_kernel, "c"},  {twice, "flat"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        cairn_builder *b;
        cairn_graph *graph;
        cairn_error err = {0};
        CHECK_OK(cairn_builder_create(NULL, "wrong", &b), &err);
        mistakes[i].make(b, crn_build_input(b, "x", 4, (uint32_t[]){1, 1, 4, 4}));
        cairn_status status = cairn_builder_finish(b, &graph, &err);
        CHECK(status != CAIRN_OK && status != CAIRN_ENOMEM && graph == NULL);
        CHECK(err.status == status);
        if (strstr(err.message, mistakes[i].words) == NULL) {
            fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.message, mistakes[i].words);
            check_failures++;
        }
        CHECK(cairn_builder_finish(b, &graph, NULL) == status);
        cairn_builder_destroy(b);
    }
}

int main(void) {
    test_statuses();
    test_enumerations();
    test_builders();
    return check_result();
}
