/* test_base.c: arenas, checked arithmetic, texts, JSON cursors, random numbers. */
#include "base/json.h"
#include "base/rng.h"
#include "check.h"
#include "base/crn_base.h"

#include <unistd.h>

static void test_arena(void) {
    crn_arena arena;
    crn_arena_init(&arena, NULL);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        char *taken = crn_arena_take(&arena, size, 1);
        CHECK(taken != NULL && (uintptr_t)taken % _Alignof(max_align_t) == 0);
        bool zero = true;
        for (size_t i = 0; i < size; i++)
            zero = zero && taken[i] == 0;
        CHECK(zero);
        memset(taken, 0xff, size);
    }
    CHECK(crn_arena_take(&arena, SIZE_MAX / 2, 3) == NULL);
    CHECK(crn_arena_take(&arena, 0, 8) != NULL);
    crn_arena_release(&arena);
}

static void test_arithmetic(void) {
    uint64_t out = 7;
    CHECK(!crn_add_u64(UINT64_MAX, 1, &out) && out == 7);
    CHECK(!crn_mul_u64(UINT64_MAX, 2, &out) && out == 7);
    CHECK(crn_mul_u64(1u << 31, 2, &out));
    CHECK_U64(out, (uint64_t)1 << 32);
    CHECK_U64(crn_mul_div_up(10, 3, 4), 8);
    CHECK_U64(crn_mul_div_up(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_MAX);
    CHECK_U64(crn_mul_div_up(UINT64_MAX, 2, 1), UINT64_MAX);
    CHECK_U64(crn_align(0), 0);
    CHECK_U64(crn_align(1), 64);
    CHECK_U64(crn_align(128), 128);
}

static void test_text(void) {
    cairn_text text;
    crn_text_init(&text, NULL);
    crn_text_json_string(&text, "a\"b\\c\n");
    crn_text_printf(&text, " %d ", 5);
    crn_text_real(&text, 0.1);
    crn_text_put(&text, " ", 1);
    crn_text_real(&text, 3);
    crn_text_xml(&text, "<&>");
    CHECK(crn_text_finish(&text) == CAIRN_OK);
    CHECK_STRING(text.data, "\"a\\\"b\\\\c\\u000a\" 5 0.1 3.0&lt;&amp;&gt;");

    char path[] = "test_base.XXXXXX";
    cairn_error err = {0};
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_OK(cairn_text_save(&text, path, &err), &err);
    cairn_text back;
    CHECK_OK(cairn_text_load(NULL, path, &back, &err), &err);
    CHECK_STRING(back.data, text.data);
    unlink(path);
    cairn_text_release(&back);
    CHECK(cairn_text_load(NULL, "no/such/file", &back, &err) == CAIRN_EUNKNOWN);
    CHECK(strstr(err.message, "no/such/file") != NULL);
    CHECK(cairn_text_save(&text, "no/such/file", &err) == CAIRN_EIO);
    CHECK(cairn_text_save(&text, ".", &err) == CAIRN_EIO);
    cairn_text_release(&text);
}

static void test_json(void) {
    crn_json_document document;
    cairn_error err = {0};
    const char *bad = "{\"a\": 1,\n \"b\" 2}";
    CHECK(crn_json_parse(bad, strlen(bad), "x.json", &document, &err) == CAIRN_ESYNTAX);
    CHECK_U64(err.line, 2);
    CHECK(err.column > 0);
    char buffer[512];
    CHECK(strncmp(cairn_error_text(&err, buffer, sizeof buffer), "x.json:2:", 9) == 0);

    const char *twice = "{\"a\": 1, \"a\": 2}";
    CHECK(crn_json_parse(twice, strlen(twice), NULL, &document, &err) == CAIRN_ESYNTAX);

    const char *good = "{\"ops\": [{\"inputs\": [1, -2]}]}";
    CHECK_OK(crn_json_parse(good, strlen(good), "g.json", &document, &err), &err);
    crn_json root = crn_json_root(&document);
    crn_json ops = crn_json_member(&root, "ops");
    crn_json op = crn_json_element(&ops, 0);
    crn_json inputs = crn_json_member(&op, "inputs");
    crn_json second = crn_json_element(&inputs, 1);
    int64_t value = 0;
    CHECK_OK(crn_json_integer(&second, -5, 5, &value, &err), &err);
    CHECK(value == -2);
    CHECK(crn_json_integer(&second, 0, 5, &value, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.path, "ops[0].inputs[1]");
    crn_json absent = crn_json_member(&op, "kind");
    const char *string;
    CHECK(crn_json_string(&absent, &string, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.path, "ops[0].kind");
    const char *keys[] = {"kind", NULL};
    CHECK(crn_json_only(&op, keys, &err) == CAIRN_EINVAL);
    crn_json_release(&document);

    /* Deep nesting is refused and does not crash. */
    char *deep = malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    CHECK(crn_json_parse(deep, 200000, NULL, &document, &err) == CAIRN_ESYNTAX);
    free(deep);
}

static void test_rng(void) {
    /* SplitMix64's published first values for seed 1234567. */
    crn_rng rng = {1234567};
    CHECK_U64(crn_rng_next(&rng), 6457827717110365317u);
    CHECK_U64(crn_rng_next(&rng), 3203168211198807973u);
}

int main(void) {
    test_arena();
    test_arithmetic();
    test_text();
    test_json();
    test_rng();
    CHECK_STRING(crn_status_name(CAIRN_EINVAL), "CAIRN_EINVAL");
    CHECK_STRING(cairn_version(), "0.1.0");
    return check_result();
}
