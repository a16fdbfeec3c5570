/* test_tokens.c: sequences of tokens: files of 16-bit tokens and text, their windows and labels,
 * the same batches after a seek, and files that are wrong. */
#include "cairn/data.h"
#include "check.h"
#include "data/loader.h"
#include "data_folder.h"

#define WINDOW 4u

/* A file of 16-bit tokens 0, step, 2 step ... */
static void put_tokens(const folder *f, const char *name, uint32_t count, uint32_t step) {
    size_t bytes = 1024 + 2 * (size_t)count;
    uint8_t *file = calloc(bytes, 1);
    const uint32_t header[] = {20240520, 1, count};
    for (size_t i = 0; i < 12; i++)
        file[i] = (uint8_t)(header[i / 4] >> 8 * (i % 4));
    for (uint32_t i = 0; i < count; i++) {
        file[1024 + 2 * i] = (uint8_t)(i * step);
        file[1025 + 2 * i] = (uint8_t)(i * step >> 8);
    }
    folder_put(f, name, file, bytes);
    free(file);
}

static cairn_status open_tokens(const char *source, double share, cairn_data **out,
                                cairn_error *err) {
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    options.tokens = WINDOW;
    options.validation = share;
    return cairn_data_open(source, &options, out, err);
}

static crn_loader *loader_of(cairn_data *data, cairn_split split, bool shuffle) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    crn_loader *loader;
    cairn_error err = {0};
    options.split = split;
    options.shuffle = shuffle;
    options.batch = 2;
    options.prefetch = 1;
    options.seed = 3;
    CHECK_OK(crn_loader_create(data, &options, &loader, &err), &err);
    return loader;
}

static crn_batch next_of(crn_loader *loader) {
    crn_batch batch = {0};
    cairn_error err = {0};
    CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
    CHECK(batch.inputs == NULL && batch.tokens != NULL);
    return batch;
}

/* Every label is the token after its input; tokens of the files count up by `step`. */
static void check_labels(const crn_batch *batch, int32_t step) {
    for (uint32_t i = 0; i < 2 * WINDOW; i++) {
        CHECK_U64((uint32_t)batch->labels[i], (uint32_t)(batch->tokens[i] + step));
        CHECK_U64((uint32_t)batch->tokens[i] % (uint32_t)step, 0);
    }
}

static void test_windows(folder *f) {
    cairn_data *data;
    cairn_error err = {0};
    char source[700];
    put_tokens(f, "a.bin", 41, 300);
    snprintf(source, sizeof source, "tokens:%s/a.bin", f->path);
    CHECK_OK(open_tokens(source, 0.2, &data, &err), &err);
    const cairn_data_info *info = cairn_data_get_info(data);
    CHECK(info->tokens && info->rank == 1 && info->shape[0] == WINDOW);
    CHECK_U64(info->classes, 40 * 300 + 1);
    CHECK_U64(info->train, 8); /* of ten windows */
    CHECK_U64(info->validation, 2);
    crn_loader *loader = loader_of(data, CAIRN_SPLIT_TRAIN, false);
    CHECK_U64(crn_loader_batches(loader), 4);
    for (uint32_t b = 0; b < 4; b++) {
        crn_batch batch = next_of(loader);
        check_labels(&batch, 300);
        CHECK_U64((uint32_t)batch.tokens[0], b * 2 * WINDOW * 300);
    }
    crn_loader_destroy(loader);
    loader = loader_of(data, CAIRN_SPLIT_VALIDATION, false); /* the last windows */
    CHECK_U64((uint32_t)next_of(loader).tokens[0], 8 * WINDOW * 300);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
}

/* Shuffled windows begin elsewhere in every epoch, never reach into validation, and are the same
 * after a seek. */
static void test_resume(folder *f) {
    cairn_data *data;
    cairn_error err = {0};
    char source[700];
    int32_t first[2][2 * WINDOW];
    bool moved = false;
    snprintf(source, sizeof source, "tokens:%s/a.bin", f->path);
    CHECK_OK(open_tokens(source, 0.2, &data, &err), &err);
    crn_loader *loader = loader_of(data, CAIRN_SPLIT_TRAIN, true);
    for (uint32_t b = 0; b < 40; b++) {
        crn_batch batch = next_of(loader);
        check_labels(&batch, 300);
        for (uint32_t i = 0; i < 2; i++) {
            CHECK(batch.labels[i * WINDOW + WINDOW - 1] <= 8 * (int32_t)WINDOW * 300);
            moved = moved || batch.tokens[i * WINDOW] % (int32_t)(WINDOW * 300) != 0;
        }
        if (b == 17)
            memcpy(first[0], batch.tokens, sizeof first[0]);
    }
    CHECK(moved);
    crn_loader_seek(loader, 17);
    memcpy(first[1], next_of(loader).tokens, sizeof first[1]);
    CHECK(memcmp(first[0], first[1], sizeof first[0]) == 0);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
}

static void test_two_files(folder *f) {
    cairn_data *data, *other;
    cairn_error err = {0};
    char source[1400];
    put_tokens(f, "b.bin", 9, 7);
    snprintf(source, sizeof source, "tokens:%s/a.bin,%s/b.bin", f->path, f->path);
    CHECK_OK(open_tokens(source, 0.2, &data, &err), &err);
    CHECK_U64(cairn_data_get_info(data)->train, 10);
    CHECK_U64(cairn_data_get_info(data)->validation, 2);
    crn_loader *loader = loader_of(data, CAIRN_SPLIT_VALIDATION, false);
    crn_batch batch = next_of(loader);
    check_labels(&batch, 7);
    crn_loader_destroy(loader);
    put_tokens(f, "b.bin", 9, 8); /* other tokens, another fingerprint */
    CHECK_OK(open_tokens(source, 0.2, &other, &err), &err);
    CHECK(cairn_data_get_info(data)->fingerprint != cairn_data_get_info(other)->fingerprint);
    cairn_data_destroy(data);
    cairn_data_destroy(other);
}

/* Data in parts: a pattern names them, in alphabetical order. */
static void test_parts(folder *f) {
    cairn_data *data;
    cairn_error err = {0};
    char source[1400];
    put_tokens(f, "part_2.bin", 13, 5);
    put_tokens(f, "part_1.bin", 22, 3);
    snprintf(source, sizeof source, "tokens:%s/part_*.bin,%s/b.bin", f->path, f->path);
    CHECK_OK(open_tokens(source, 0.2, &data, &err), &err);
    CHECK_U64(cairn_data_get_info(data)->train, 5 + 3);
    CHECK_U64(cairn_data_get_info(data)->validation, 2);
    crn_loader *loader = loader_of(data, CAIRN_SPLIT_TRAIN, true);
    for (int epoch = 0; epoch < 9;
         epoch++) /* windows are shifted, but not over the end of a file */
        for (int b = 0; b < 4; b++) {
            crn_batch batch = next_of(loader);
            for (uint32_t i = 0; i < batch.count * WINDOW; i++) {
                int32_t step = batch.labels[i] - batch.tokens[i];
                CHECK(step == 3 || step == 5);
            }
        }
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
}

static void test_text(folder *f) {
    cairn_data *data;
    cairn_error err = {0};
    char source[700];
    folder_put(f, "a.txt", "abcdefghi", 9);
    snprintf(source, sizeof source, "text:%s/a.txt", f->path);
    CHECK_OK(open_tokens(source, 0, &data, &err), &err);
    CHECK_U64(cairn_data_get_info(data)->classes, 256);
    CHECK_U64(cairn_data_get_info(data)->train, 2);
    crn_loader *loader = loader_of(data, CAIRN_SPLIT_TRAIN, false);
    crn_batch batch = next_of(loader);
    check_labels(&batch, 1);
    CHECK_U64((uint32_t)batch.tokens[WINDOW], 'e');
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
}

static void check_refused(const folder *f, const char *kind, const char *name, cairn_status status,
                          const char *part) {
    cairn_data *data;
    cairn_error err = {0};
    char source[700];
    snprintf(source, sizeof source, "%s:%s/%s", kind, f->path, name);
    CHECK(open_tokens(source, 0.1, &data, &err) == status && data == NULL);
    CHECK(strstr(err.message, part) != NULL);
    if (strstr(err.message, part) == NULL)
        fprintf(stderr, "%s: %s\n", source, err.message);
}

static void test_wrong(folder *f) {
    cairn_data *data;
    cairn_error err = {0};
    folder_put(f, "short.bin", "abc", 3);
    check_refused(f, "tokens", "short.bin", CAIRN_EINVAL, "shorter than a header");
    put_tokens(f, "few.bin", WINDOW, 1);
    check_refused(f, "tokens", "few.bin", CAIRN_EINVAL, "has 4 tokens");
    uint8_t header[1026] = {0};
    folder_put(f, "other.bin", header, sizeof header);
    check_refused(f, "tokens", "other.bin", CAIRN_EINVAL, "does not begin with 20240520");
    put_tokens(f, "long.bin", 20, 1);
    FILE *file = fopen(folder_path(f, "long.bin"), "ab");
    CHECK(file != NULL && fputc(0, file) == 0 && fclose(file) == 0);
    check_refused(f, "tokens", "long.bin", CAIRN_EINVAL, "20 tokens by its header");
    check_refused(f, "text", "nothing.txt", CAIRN_EUNKNOWN, "no such file");
    check_refused(f, "tokens", "nothing_*.bin", CAIRN_EUNKNOWN, "no such file");
    CHECK(cairn_data_open("text:", NULL, &data, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "needs a file") != NULL);
}

int main(void) {
    folder f;
    folder_make(&f, "tokens");
    test_windows(&f);
    test_resume(&f);
    test_two_files(&f);
    test_parts(&f);
    test_text(&f);
    test_wrong(&f);
    folder_remove(&f);
    return check_result();
}
