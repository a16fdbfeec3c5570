/* test_data.c: small files in every format are read as they were written; every error in them is
 * reported with a message that names the file. */
#include "data/loader.h"
#include "data_folder.h"
#include "base/crn_base.h"
#include "base/sha256.h"

#include <math.h>
#include <sys/stat.h>

static cairn_data *open_data(const char *source, const cairn_data_options *options) {
    cairn_data *data;
    cairn_error err = {0};
    CHECK_OK(cairn_data_open(source, options, &data, &err), &err);
    return data;
}

/* One batch of a split, with the values of the file. */
typedef struct taken {
    crn_loader *loader;
    crn_batch batch;
} taken;

static taken take(cairn_data *data, cairn_split split, uint32_t batch, bool normalise) {
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    cairn_error err = {0};
    taken t = {.batch = {0}};
    options.split = split;
    options.batch = batch;
    options.normalise = normalise;
    options.prefetch = 0;
    CHECK_OK(crn_loader_create(data, &options, &t.loader, &err), &err);
    CHECK_OK(crn_loader_next(t.loader, &t.batch, &err), &err);
    return t;
}

/* Sample `k` of the batch is sample `number` as data_folder.h writes bytes. */
static bool is_sample(const crn_batch *batch, uint32_t k, uint32_t number, uint32_t pixels) {
    bool same = batch->labels[k] == (int32_t)(number % 10);
    for (uint32_t p = 0; p < pixels; p++)
        same = same && batch->inputs[k * pixels + p] == (float)byte_of(number, p) / 255.0f;
    return same;
}

static void check_info(const cairn_data *data, const uint32_t shape[3], uint32_t classes,
                       uint32_t train, uint32_t validation) {
    cairn_data_info info = *cairn_data_get_info(data);
    CHECK_U64(info.rank, 3);
    CHECK(memcmp(info.shape, shape, 3 * sizeof *shape) == 0);
    CHECK_U64(info.classes, classes);
    CHECK_U64(info.train, train);
    CHECK_U64(info.validation, validation);
    CHECK(info.resident_bytes >= 4 * ((uint64_t)train + validation));
}

/* ---- Reading what is right ---- */

static void check_both_splits(cairn_data *data, uint32_t train, uint32_t validation,
                              uint32_t pixels) {
    taken t = take(data, CAIRN_SPLIT_TRAIN, train, false);
    for (uint32_t k = 0; k < train; k++)
        CHECK(is_sample(&t.batch, k, k, pixels));
    crn_loader_destroy(t.loader);
    t = take(data, CAIRN_SPLIT_VALIDATION, validation, false);
    for (uint32_t k = 0; k < validation; k++)
        CHECK(is_sample(&t.batch, k, train + k, pixels));
    crn_loader_destroy(t.loader);
}

static void test_mnist(void) {
    folder f;
    folder_make(&f, "mnist");
    put_mnist(&f, 23, 7);
    cairn_data *data = open_data(f.source, NULL);
    check_info(data, (const uint32_t[]){1, 12, 9}, 10, 23, 7);
    CHECK(!cairn_data_get_info(data)->held_out);
    check_both_splits(data, 23, 7, 12 * 9);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* The file names that some programs use when they unpack. */
static void test_mnist_dotted(void) {
    folder f;
    folder_make(&f, "mnist");
    put_images(&f, "train-images.idx3-ubyte", 0, 5, 3, 4);
    put_labels(&f, "train-labels.idx1-ubyte", 0, 5);
    put_images(&f, "t10k-images.idx3-ubyte", 5, 2, 3, 4);
    put_labels(&f, "t10k-labels-idx1-ubyte", 5, 2);
    cairn_data *data = open_data(f.source, NULL);
    check_both_splits(data, 5, 2, 12);
    cairn_data_destroy(data);
    folder_remove(&f);
}

static void test_cifar10(void) {
    folder f;
    folder_make(&f, "cifar10");
    put_cifar10(&f, 23, 11); /* more samples than are read at once */
    cairn_data *data = open_data(f.source, NULL);
    check_info(data, (const uint32_t[]){3, 32, 32}, 10, 115, 11);
    check_both_splits(data, 115, 11, 3072);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* Files of training are listed after one of validation, and have different lengths. */
static const char tensors_index[] =
    "{\"format\": \"cairn-tensors\", \"version\": 1, \"shape\": [2, 3], \"dtype\": \"f32\", "
    "\"classes\": 3, \"files\": ["
    "{\"split\": \"validation\", \"samples\": \"v.bin\", \"labels\": \"v.labels\", \"count\": 4}, "
    "{\"split\": \"train\", \"samples\": \"a.bin\", \"labels\": \"a.labels\", \"count\": 5}, "
    "{\"split\": \"train\", \"samples\": \"b.bin\", \"labels\": \"b.labels\", \"count\": 2}]}";

static void put_tensors(const folder *f) {
    put_text(f, "index.json", tensors_index);
    put_reals(f, "a.bin", "a.labels", 0, 5, 6);
    put_reals(f, "b.bin", "b.labels", 5, 2, 6);
    put_reals(f, "v.bin", "v.labels", 7, 4, 6);
}

static void test_tensors(void) {
    folder f;
    folder_make(&f, "tensors");
    put_tensors(&f);
    cairn_data *data = open_data(f.source, NULL);
    cairn_data_info info = *cairn_data_get_info(data);
    CHECK(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.classes == 3);
    CHECK(info.train == 7 && info.validation == 4 && !info.held_out);
    for (int split = 0; split < 2; split++) {
        uint32_t count = split == 0 ? 7 : 4, first = split == 0 ? 0 : 7;
        taken t = take(data, (cairn_split)split, count, false);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(t.batch.labels[i] == (int32_t)((first + i) % 3));
            for (uint32_t k = 0; k < 6; k++)
                CHECK(t.batch.inputs[i * 6 + k] == (float)(first + i) - (float)k / 4);
        }
        crn_loader_destroy(t.loader);
    }
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* Bytes, one file, no split. */
static const char byte_index[] =
    "{\"format\": \"cairn-tensors\", \"version\": 1, \"shape\": [1, 2, 2], \"dtype\": \"u8\", "
    "\"classes\": 3, \"files\": [{\"split\": \"train\", \"samples\": \"s\", \"labels\": \"l\", "
    "\"count\": 8}]}";

static void test_tensors_of_bytes(void) {
    folder f;
    folder_make(&f, "tensors");
    put_text(&f, "index.json", byte_index);
    put_reals(&f, "s", "l", 0, 8, 1); /* 32 bytes of any values; 8 labels */
    cairn_data *data = open_data(f.source, NULL);
    check_info(data, (const uint32_t[]){1, 2, 2}, 3, 7, 1);
    CHECK(cairn_data_get_info(data)->held_out);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* ---- Held out ---- */

/* Which samples are in a split, by their first pixels. */
static uint64_t members(cairn_data *data, cairn_split split, uint32_t count) {
    taken t = take(data, split, count, false);
    uint64_t set = 0;
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t number = 0; number < 40; number++)
            if (is_sample(&t.batch, k, number, 108))
                set |= 1ull << number;
    crn_loader_destroy(t.loader);
    return set;
}

static void test_held_out(void) {
    folder f;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    folder_make(&f, "mnist");
    put_mnist(&f, 40, 0);
    options.validation = 0.25;
    uint64_t seen[4], ever = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        options.seed = seed;
        cairn_data *data = open_data(f.source, &options);
        check_info(data, (const uint32_t[]){1, 12, 9}, 10, 30, 10);
        CHECK(cairn_data_get_info(data)->held_out);
        uint64_t train = members(data, CAIRN_SPLIT_TRAIN, 30);
        seen[seed] = members(data, CAIRN_SPLIT_VALIDATION, 10);
        CHECK((train & seen[seed]) == 0 && (train | seen[seed]) == (1ull << 40) - 1);
        ever |= seen[seed];
        for (uint64_t before = 0; before < seed; before++)
            CHECK(seen[before] != seen[seed]);
        cairn_data_destroy(data);
    }
    CHECK((ever & 0xffffu) != 0 && (ever >> 24) != 0); /* not always the same end */
    folder_remove(&f);
}

/* Over many seeds all samples are held out about equally often. */
static void test_held_out_evenly(void) {
    folder f;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    uint32_t times[10] = {0};
    folder_make(&f, "mnist");
    put_mnist(&f, 10, 0);
    options.validation = 0.3;
    for (options.seed = 0; options.seed < 1000; options.seed++) {
        cairn_data *data = open_data(f.source, &options);
        taken t = take(data, CAIRN_SPLIT_VALIDATION, 3, false);
        for (uint32_t k = 0; k < 3; k++)
            times[t.batch.labels[k]]++;
        crn_loader_destroy(t.loader);
        cairn_data_destroy(data);
    }
    for (uint32_t i = 0; i < 10; i++)
        CHECK(times[i] > 230 && times[i] < 370); /* 300 expected, with a deviation of 14.5 */
    folder_remove(&f);
}

static void test_shares(void) {
    static const struct {
        double share;
        uint32_t count, held;
    } cases[] = {{0, 100, 0}, {0.1, 100, 10}, {0.001, 100, 1}, {0.999, 100, 99},
                 {0.5, 1, 0}, {0.5, 2, 1},    {0.25, 10, 3}};
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
        options.count = cases[i].count;
        options.validation = cases[i].share;
        cairn_data *data = open_data("synthetic", &options);
        CHECK_U64(cairn_data_get_info(data)->validation, cases[i].held);
        CHECK_U64(cairn_data_get_info(data)->train, cases[i].count - cases[i].held);
        cairn_data_destroy(data);
    }
}

/* ---- Statistics ---- */

static void test_statistics(void) {
    folder f;
    const float *mean, *deviation;
    cairn_error err = {0};
    folder_make(&f, "cifar10");
    put_cifar10(&f, 4, 3);
    cairn_data *data = open_data(f.source, NULL);
    CHECK_OK(cairn_data_statistics(data, &mean, &deviation, &err), &err);
    for (uint32_t c = 0; c < 3; c++) { /* over the training split only, with plain sums */
        double sum = 0, squares = 0, n = 20 * 1024;
        for (uint32_t i = 0; i < 20; i++)
            for (uint32_t k = 0; k < 1024; k++)
                sum += byte_of(i, c * 1024 + k) / 255.0;
        for (uint32_t i = 0; i < 20; i++)
            for (uint32_t k = 0; k < 1024; k++)
                squares += pow(byte_of(i, c * 1024 + k) / 255.0 - sum / n, 2);
        CHECK(fabs((double)mean[c] - sum / n) < 1e-6);
        CHECK(fabs((double)deviation[c] - sqrt(squares / n)) < 1e-6);
    }
    taken t = take(data, CAIRN_SPLIT_VALIDATION, 3, true);
    for (uint32_t c = 0; c < 3; c++)
        CHECK(t.batch.inputs[c * 1024 + 5] ==
              ((float)byte_of(20, c * 1024 + 5) / 255.0f - mean[c]) * (1.0f / deviation[c]));
    crn_loader_destroy(t.loader);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* Real numbers around a large mean: the deviation is still exact. One channel is constant. */
static void test_statistics_of_reals(void) {
    static const float values[] = {100000.25f, 7, 100000.75f, 7, 100000.25f, 7, 100000.75f, 7};
    static const uint8_t labels[16] = {0};
    folder f;
    const float *mean, *deviation;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    cairn_error err = {0};
    uint8_t bytes[32];
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        put_little(bytes + 4 * (size_t)i, bits);
    }
    folder_make(&f, "tensors");
    put_text(&f, "index.json",
             "{\"format\": \"cairn-tensors\", \"version\": 1, \"shape\": [2], \"dtype\": \"f32\", "
             "\"classes\": 1, \"files\": [{\"split\": \"train\", \"samples\": \"s\", \"labels\": "
             "\"l\", \"count\": 4}]}");
    folder_put(&f, "s", bytes, 32);
    folder_put(&f, "l", labels, 16);
    options.validation = 0;
    cairn_data *data = open_data(f.source, &options);
    CHECK_OK(cairn_data_statistics(data, &mean, &deviation, &err), &err);
    CHECK(mean[0] == 100000.5f && deviation[0] == 0.25f);
    CHECK(mean[1] == 7.0f && deviation[1] == 1.0f);
    CHECK(cairn_data_get_info(data)->validation == 0);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* Statistics that are given replace those of the data; wrong ones are refused and change nothing.
 */
static void test_statistics_set(void) {
    static const float mean[] = {0.5f, 0, -1}, deviation[] = {0.25f, 1, 2}, zero[] = {1, 1, 0};
    folder f;
    cairn_error err = {0};
    folder_make(&f, "cifar10");
    put_cifar10(&f, 4, 3);
    cairn_data *data = open_data(f.source, NULL);
    CHECK(cairn_data_get_info(data)->bytes && !cairn_data_get_info(data)->statistics_set);
    CHECK(cairn_data_set_statistics(data, mean, zero, &err) == CAIRN_EINVAL);
    CHECK(!cairn_data_get_info(data)->statistics_set);
    CHECK_OK(cairn_data_set_statistics(data, mean, deviation, &err), &err);
    CHECK(cairn_data_get_info(data)->statistics_set);
    taken t = take(data, CAIRN_SPLIT_VALIDATION, 3, true);
    for (uint32_t c = 0; c < 3; c++)
        CHECK(t.batch.inputs[c * 1024 + 5] ==
              ((float)byte_of(20, c * 1024 + 5) / 255.0f - mean[c]) * (1.0f / deviation[c]));
    crn_loader_destroy(t.loader);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* A complete loader fills its last batch up, also in training. */
static void test_complete(void) {
    folder f;
    cairn_error err = {0};
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    crn_batch batch = {0};
    crn_loader *loader;
    folder_make(&f, "mnist");
    put_mnist(&f, 7, 2);
    cairn_data *data = open_data(f.source, NULL);
    options.batch = 5;
    options.normalise = false;
    options.complete = true;
    CHECK_OK(crn_loader_create(data, &options, &loader, &err), &err);
    CHECK_U64(crn_loader_batches(loader), 2);
    crn_loader_seek(loader, 1);
    CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
    CHECK_U64(batch.count, 2);
    CHECK(is_sample(&batch, 1, 6, 12 * 9) && is_sample(&batch, 2, 0, 12 * 9));
    CHECK_U64(crn_data_split_number(data, CAIRN_SPLIT_VALIDATION, 1), 8);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
    folder_remove(&f);
}

/* ---- The synthetic task ---- */

static void test_synthetic(void) {
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    options.seed = 5;
    options.count = 1000;
    cairn_data *data = open_data("synthetic", &options);
    cairn_data_info info = *cairn_data_get_info(data);
    CHECK(info.rank == 3 && info.shape[0] == 3 && info.shape[1] == 32 && info.shape[2] == 32);
    CHECK(info.classes == 10 && info.train == 900 && info.validation == 100 && info.held_out);
    taken t = take(data, CAIRN_SPLIT_TRAIN, 900, false);
    uint32_t times[10] = {0};
    for (uint32_t i = 0; i < 900; i++)
        times[t.batch.labels[i]]++;
    for (uint32_t c = 0; c < 10; c++)
        CHECK(times[c] > 50 && times[c] < 140);
    /* The bytes are the same on every machine. */
    crn_sha256 hash;
    char digits[65];
    bool bytes = true;
    crn_sha256_init(&hash);
    for (uint32_t i = 0; i < 900 * 3072; i++) {
        uint8_t byte = (uint8_t)lrintf(t.batch.inputs[i] * 255.0f);
        bytes = bytes && t.batch.inputs[i] == (float)byte / 255.0f;
        crn_sha256_add(&hash, &byte, 1);
    }
    CHECK(bytes);
    crn_sha256_finish(&hash, digits);
    CHECK_STRING(digits, "383f27b7a630f754199cebfd6738fd3877972cf4c93b8d85d6032b134ca2f0b4");
    crn_loader_destroy(t.loader);
    cairn_data_destroy(data);
}

/* A larger count gives the same samples and more; another seed gives other samples. */
static void test_synthetic_depends(void) {
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    options.validation = 0;
    options.count = 10;
    cairn_data *few = open_data("synthetic", &options);
    options.count = 1000000000;
    cairn_data *many = open_data("synthetic", &options);
    options.seed = 1;
    cairn_data *other = open_data("synthetic", &options);
    taken a = take(few, CAIRN_SPLIT_TRAIN, 10, false), b = take(many, CAIRN_SPLIT_TRAIN, 10, false);
    taken c = take(other, CAIRN_SPLIT_TRAIN, 10, false);
    CHECK(memcmp(a.batch.inputs, b.batch.inputs, 10 * 3072 * sizeof(float)) == 0);
    CHECK(memcmp(a.batch.inputs, c.batch.inputs, 3072 * sizeof(float)) != 0);
    CHECK(cairn_data_get_info(many)->fingerprint != cairn_data_get_info(other)->fingerprint);
    crn_loader_destroy(a.loader);
    crn_loader_destroy(b.loader);
    crn_loader_destroy(c.loader);
    cairn_data_destroy(few);
    cairn_data_destroy(many);
    cairn_data_destroy(other);
}

static void test_synthetic_shapes(void) {
    static const uint32_t shapes[][4] = {
        {1, 28, 28, 10}, {3, 224, 224, 1000}, {1, 8, 8, 2048}, {256, 8, 300, 1}, {2, 4096, 8, 2}};
    for (size_t i = 0; i < CRN_LENGTH(shapes); i++) {
        cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
        memcpy(options.input, shapes[i], sizeof options.input);
        options.classes = shapes[i][3];
        options.count = 4;
        cairn_data *data = open_data("synthetic", &options);
        check_info(data, shapes[i], shapes[i][3], 3, 1);
        taken t = take(data, CAIRN_SPLIT_TRAIN, 3, true);
        for (uint32_t k = 0; k < 3; k++)
            CHECK(t.batch.labels[k] >= 0 && t.batch.labels[k] < (int32_t)shapes[i][3]);
        crn_loader_destroy(t.loader);
        cairn_data_destroy(data);
    }
}

/* The fingerprint depends on labels and split. */
static void test_fingerprint(void) {
    folder f;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    uint64_t prints[4];
    folder_make(&f, "mnist");
    put_mnist(&f, 40, 0);
    for (uint32_t i = 0; i < 4; i++) {
        options.seed = i == 1;
        if (i == 3)
            put_labels(&f, "train-labels-idx1-ubyte", 1, 40);
        cairn_data *data = open_data(f.source, &options);
        prints[i] = cairn_data_get_info(data)->fingerprint;
        cairn_data_destroy(data);
    }
    CHECK(prints[0] == prints[2]);
    CHECK(prints[0] != prints[1] && prints[0] != prints[3]);
    folder_remove(&f);
}

/* ---- Errors ---- */

/* Opening fails with this status, and the error reads "...NAME: PART..." or, with no name, has the
 * part. */
static void check_wrong(const char *source, const cairn_data_options *options, cairn_status status,
                        const char *name, const char *part, int line) {
    cairn_data *data;
    cairn_error err = {0};
    char text[1024];
    int before = check_failures;
    cairn_status got = cairn_data_open(source, options, &data, &err);
    cairn_error_text(&err, text, sizeof text);
    CHECK(got == status && err.status == status && data == NULL);
    CHECK(strstr(text, name) != NULL && strstr(text, part) != NULL && strchr(text, '\n') == NULL);
    CHECK(cairn_data_open(source, options, &data, NULL) == status); /* without an error struct */
    if (check_failures > before)
        fprintf(stderr, "that was line %d: %s: %s\n", line, crn_status_name(got), text);
    cairn_data_destroy(data);
}
#define WRONG(source, status, name, part)                                                          \
    check_wrong(source, NULL, CAIRN_##status, name, part, __LINE__)

static void test_wrong_sources(void) {
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    WRONG("imagenet:/tmp", EUNKNOWN, "imagenet:/tmp",
          "there are synthetic, mnist:DIR, cifar10:DIR, tensors:DIR, tokens:FILE[,FILE] and ");
    WRONG("", EUNKNOWN, "", "there is no data source \"\"");
    WRONG("mnist", EINVAL, "", "needs a folder: mnist:DIR");
    WRONG("mnist:", EINVAL, "", "needs a folder: mnist:DIR");
    WRONG("mnist2:/tmp", EUNKNOWN, "mnist2", "there is no data source");
    WRONG("synthetic:/tmp", EINVAL, "", "takes no folder");
    WRONG("mnist:/nowhere/at/all", EUNKNOWN, "/nowhere/at/all: ", "no such folder");
    WRONG("cifar10:/nowhere/at/all", EUNKNOWN, "/nowhere/at/all: ", "no such folder");
    WRONG("tensors:/nowhere/at/all", EUNKNOWN, "/nowhere/at/all: ", "no such folder");
    WRONG("tensors:/dev/null", EINVAL, "/dev/null: ", "is not a folder");
    options.validation = 1;
    check_wrong("synthetic", &options, CAIRN_EINVAL, "", "from 0 to below 1", __LINE__);
    options.validation = -0.1;
    check_wrong("synthetic", &options, CAIRN_EINVAL, "", "from 0 to below 1", __LINE__);
    options.validation = (double)NAN;
    check_wrong("synthetic", &options, CAIRN_EINVAL, "", "from 0 to below 1", __LINE__);
}

static void test_wrong_synthetic(void) {
    static const struct {
        uint32_t input[3], classes, count;
        const char *part;
    } cases[] = {
        {{3, 7, 32}, 0, 0, "7 x 32"},
        {{3, 32, 4097}, 0, 0, "32 x 4097"},
        {{257, 32, 32}, 0, 0, "channels, not 257"},
        {{0, 0, 0}, 2049, 0, "at most 2048 classes"},
        {{0, 0, 0}, 0, 1u << 31, "at most 2147483647 samples"},
        {{256, 4096, 4096}, 0, 0, "more than 2 GiB"},
    };
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
        memcpy(options.input, cases[i].input, sizeof options.input);
        options.classes = cases[i].classes;
        options.count = cases[i].count;
        check_wrong("synthetic", &options, i < 5 ? CAIRN_EINVAL : CAIRN_EOVERFLOW, "",
                    cases[i].part, __LINE__);
    }
}

/* An IDX header and `length` bytes more. */
static void put_header(const folder *f, const char *name, uint32_t rank, uint32_t magic,
                       const uint32_t *sizes, size_t length) {
    uint8_t *bytes = calloc(1, 16 + length);
    put_big(bytes, magic);
    for (uint32_t d = 0; d < rank; d++)
        put_big(bytes + 4 + 4 * (size_t)d, sizes[d]);
    folder_put(f, name, bytes, 4 + 4 * (size_t)rank + length);
    free(bytes);
}

#define TRAIN_IMAGES "train-images-idx3-ubyte"
#define TRAIN_LABELS "train-labels-idx1-ubyte"
#define TEST_IMAGES "t10k-images-idx3-ubyte"
#define TEST_LABELS "t10k-labels-idx1-ubyte"

static void test_wrong_mnist_files(void) {
    folder f;
    folder_make(&f, "mnist");
    WRONG(f.source, EUNKNOWN, "/" TRAIN_IMAGES ": ", "no such file");
    put_mnist(&f, 5, 2);
    folder_drop(&f, TRAIN_LABELS);
    WRONG(f.source, EUNKNOWN, "/" TRAIN_LABELS ": ", "no such file");
    put_text(&f, TRAIN_LABELS ".gz", "x");
    WRONG(f.source, EINVAL, "/" TRAIN_LABELS ".gz: ", "decompress it with gunzip");
    put_mnist(&f, 5, 2);
    folder_drop(&f, TEST_IMAGES); /* half of a validation split is missing */
    WRONG(f.source, EUNKNOWN, "/" TEST_IMAGES ": ", "no such file");
    put_text(&f, "t10k-images.idx3-ubyte.gz", "x");
    WRONG(f.source, EINVAL, "/t10k-images.idx3-ubyte.gz: ", "is compressed");
    CHECK(mkdir(folder_path(&f, TEST_IMAGES), 0777) == 0);
    WRONG(f.source, EINVAL, "/" TEST_IMAGES ": ", "is not a regular file");
    CHECK(rmdir(folder_path(&f, TEST_IMAGES)) == 0);
    CHECK(mkfifo(folder_path(&f, TEST_IMAGES), 0666) == 0);
    WRONG(f.source, EINVAL, "/" TEST_IMAGES ": ", "is not a regular file");
    folder_drop(&f, TEST_IMAGES);
    CHECK(symlink(TEST_IMAGES, folder_path(&f, TEST_IMAGES)) == 0); /* to itself */
    WRONG(f.source, EIO, "/" TEST_IMAGES ": ", "cannot be opened: ");
    folder_remove(&f);
}

static void test_wrong_mnist_contents(void) {
    folder f;
    folder_make(&f, "mnist");
    put_mnist(&f, 5, 2);
    put_header(&f, TRAIN_IMAGES, 3, 0x801, (const uint32_t[]){5, 12, 9}, 540);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "starts with 0x00000801, not with 0x00000803");
    put_header(&f, TRAIN_IMAGES, 3, 0x803, (const uint32_t[]){5, 12, 9}, 539);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "is 555 bytes long; by its header it should");
    put_header(&f, TRAIN_IMAGES, 3, 0x803, (const uint32_t[]){5, 12, 9}, 541);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "is 557 bytes long; by its header it should");
    put_header(&f, TRAIN_IMAGES, 3, 0x803, (const uint32_t[]){5, 0, 9}, 0);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "size 2 in its header is 0");
    put_header(&f, TRAIN_IMAGES, 3, 0x803, (const uint32_t[]){~0u, ~0u, ~0u}, 540);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "is 556 bytes long");
    put_header(&f, TRAIN_IMAGES, 3, 0x803, (const uint32_t[]){1u << 31, 1u << 31, 4}, 0);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "is 16 bytes long");
    folder_put(&f, TRAIN_IMAGES, "\0\0\10\3\0\0\0", 7);
    WRONG(f.source, EINVAL, "/" TRAIN_IMAGES ": ", "too short for an IDX header");
    put_mnist(&f, 5, 2);
    put_labels(&f, TRAIN_LABELS, 0, 6);
    WRONG(f.source, EINVAL, "/" TRAIN_LABELS ": ", "has 6 labels for the 5 images of ");
    put_header(&f, TRAIN_LABELS, 1, 0x801, (const uint32_t[]){5}, 4);
    WRONG(f.source, EINVAL, "/" TRAIN_LABELS ": ", "is 12 bytes long");
    folder_put(&f, TRAIN_LABELS, "\0\0\10\1\0\0\0\5\1\2\12\3\4", 13);
    WRONG(f.source, EINVAL, "/" TRAIN_LABELS ": ", "sample 2 has label 10; labels are from 0 to 9");
    put_mnist(&f, 5, 2);
    put_images(&f, TEST_IMAGES, 0, 2, 12, 10);
    WRONG(f.source, EINVAL, "/" TEST_IMAGES ": ", "has images of 12 x 10");
    put_mnist(&f, 5, 2);
    folder_put(&f, TEST_LABELS, "\0\0\10\1\0\0\0\2\1\377", 10);
    WRONG(f.source, EINVAL, "/" TEST_LABELS ": ", "sample 1 has label 255");
    folder_remove(&f);
}

static void test_wrong_cifar10(void) {
    folder f;
    folder_make(&f, "cifar10");
    put_cifar10(&f, 3, 2);
    folder_drop(&f, "data_batch_3.bin");
    WRONG(f.source, EUNKNOWN, "/data_batch_3.bin: ", "no such file");
    put_text(&f, "data_batch_3.bin", "");
    WRONG(f.source, EINVAL, "/data_batch_3.bin: ", "is 0 bytes long");
    put_text(&f, "data_batch_3.bin", "short");
    WRONG(f.source, EINVAL, "/data_batch_3.bin: ", "not a number of records of 3073 bytes");
    put_cifar10(&f, 3, 2);
    put_text(&f, "test_batch.bin", "short");
    WRONG(f.source, EINVAL, "/test_batch.bin: ", "not a number of records");
    put_cifar10(&f, 3, 2);
    uint8_t *record = calloc(3, 3073);
    record[2 * 3073] = 10;
    folder_put(&f, "data_batch_5.bin", record, 3 * (size_t)3073);
    free(record);
    WRONG(f.source, EINVAL, "/data_batch_5.bin: ", "sample 2 has label 10");
    folder_remove(&f);
}

/* The index with one part of it replaced. */
static void put_index(const folder *f, const char *from, const char *to) {
    char text[2048];
    const char *at = strstr(tensors_index, from);
    CHECK(at != NULL);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - tensors_index), tensors_index, to,
             at + strlen(from));
    put_text(f, "index.json", text);
}

static void test_wrong_index(void) {
    static const struct {
        const char *from, *to;
        cairn_status status;
        const char *part;
    } cases[] = {
        {"{\"format\"", "{", CAIRN_ESYNTAX, "index.json:1:"},
        {"cairn-tensors", "cairn-plan", CAIRN_EINVAL, "format: is \"cairn-plan\""},
        {"\"version\": 1", "\"version\": 2", CAIRN_EINVAL, "version: is 2"},
        {"\"shape\": [2, 3], ", "", CAIRN_EINVAL, "shape: is missing"},
        {"[2, 3]", "[]", CAIRN_EINVAL, "shape: must have 1 to 4"},
        {"[2, 3]", "[1, 1, 1, 2, 3]", CAIRN_EINVAL, "shape: must have 1 to 4"},
        {"[2, 3]", "[2, 0]", CAIRN_EINVAL, "shape[1]: is 0"},
        {"[2, 3]", "[2147483647, 2147483647, 2147483647]", CAIRN_EOVERFLOW, "more than 2 GiB"},
        {"\"f32\"", "\"f64\"", CAIRN_EINVAL, "dtype: is \"f64\", not"},
        {"\"classes\": 3", "\"classes\": 0", CAIRN_EINVAL, "classes: is 0"},
        {"\"classes\"", "\"sorts\": 1, \"classes\"", CAIRN_EINVAL, "unknown member \"sorts\""},
        {"\"classes\": 3", "\"classes\": 2", CAIRN_EINVAL, ".labels: sample 2 has label 2"},
        {"\"validation\"", "\"test\"", CAIRN_EINVAL, "files[0].split: is \"test\""},
        {"\"v.bin\"", "\"../v.bin\"", CAIRN_EINVAL, "files[0].samples: must be the name"},
        {"\"v.bin\"", "\"/v.bin\"", CAIRN_EINVAL, "files[0].samples: must be the name"},
        {"\"v.bin\"", "\"\"", CAIRN_EINVAL, "files[0].samples: must be the name"},
        {"\"v.bin\"", "\"w.bin\"", CAIRN_EUNKNOWN, "/w.bin: there is no such file"},
        {"\"b.labels\"", "\"w\"", CAIRN_EUNKNOWN, "/w: there is no such file"},
        {"\"count\": 5", "\"count\": 0", CAIRN_EINVAL, "files[1].count: is 0"},
        {"\"count\": 5", "\"count\": 6", CAIRN_EINVAL, "/a.bin: is 120 bytes long; 6 samples"},
        {"\"count\": 5", "\"count\": 2147483647", CAIRN_EINVAL, "/a.bin: is 120 bytes long"},
        {"\"a.labels\"", "\"v.labels\"", CAIRN_EINVAL, "/v.labels: is 16 bytes long; 5 samples"},
        {"[{", "[7, {", CAIRN_EINVAL, "files[0]: must be an object"},
        {"\"files\": [", "\"files\": [], \"fules\": [", CAIRN_EINVAL, "unknown member"},
    };
    folder f;
    folder_make(&f, "tensors");
    WRONG(f.source, EUNKNOWN, "/index.json", "there is no file");
    put_tensors(&f);
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        put_index(&f, cases[i].from, cases[i].to);
        check_wrong(f.source, NULL, cases[i].status, f.path, cases[i].part, __LINE__);
    }
    put_text(&f, "index.json",
             "{\"format\": \"cairn-tensors\", \"version\": 1, \"shape\": [6], \"dtype\": \"f32\", "
             "\"classes\": 3, \"files\": [{\"split\": \"validation\", \"samples\": \"v.bin\", "
             "\"labels\": \"v.labels\", \"count\": 4}]}");
    WRONG(f.source, EINVAL, "/index.json: ", "files: has none to train on");
    folder_remove(&f);
}

/* An infinity is reported when values are read, with the file that contains it. */
static void test_not_finite(void) {
    folder f;
    cairn_error err = {0};
    crn_loader *loader;
    crn_batch batch = {0};
    const float *mean, *deviation;
    uint8_t bytes[48] = {0};
    folder_make(&f, "tensors");
    put_tensors(&f);
    put_little(bytes + 28, 0x7f800000);
    folder_put(&f, "b.bin", bytes, 48);
    cairn_data *data = open_data(f.source, NULL);
    CHECK(cairn_data_statistics(data, &mean, &deviation, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.file, "/b.bin") != NULL && strstr(err.message, "sample 1 has a") != NULL);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    CHECK(crn_loader_create(data, &options, &loader, &err) == CAIRN_EINVAL && loader == NULL);
    options.normalise = false;
    options.batch = 7;
    CHECK_OK(crn_loader_create(data, &options, &loader, &err), &err);
    CHECK(crn_loader_next(loader, &batch, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.file, "/b.bin") != NULL && batch.inputs == NULL);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
    folder_remove(&f);
}

static void test_list(void) {
    uint32_t count = 0;
    for (const cairn_data_source *s; (s = cairn_data_source_list(count)) != NULL; count++)
        CHECK(s->name[0] != '\0' && s->summary[0] != '\0' && s->argument != NULL);
    CHECK_U64(count, 6);
}

int main(void) {
    test_list();
    test_mnist();
    test_mnist_dotted();
    test_cifar10();
    test_tensors();
    test_tensors_of_bytes();
    test_held_out();
    test_held_out_evenly();
    test_shares();
    test_statistics();
    test_statistics_of_reals();
    test_statistics_set();
    test_complete();
    test_synthetic();
    test_synthetic_depends();
    test_synthetic_shapes();
    test_fingerprint();
    test_wrong_sources();
    test_wrong_synthetic();
    test_wrong_mnist_files();
    test_wrong_mnist_contents();
    test_wrong_cifar10();
    test_wrong_index();
    test_not_finite();
    return check_result();
}
