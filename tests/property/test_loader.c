/* test_loader.c: the guarantees of a loader. Batch n is always the same, independent of the order
 * of requests and of the timing of the thread. An epoch has every sample once. An augmented image
 * is a flip and a shift of the original. A failing file is reported and not skipped. A loader can
 * be destroyed at any time. */
#include "data/loader.h"
#include "data_folder.h"
#include "base/crn_base.h"
#include "base/names.h"
#include "base/rng.h"

#include <pthread.h>
#include <time.h>

static cairn_data *open_mnist(folder *f, uint32_t train, uint32_t validation) {
    cairn_data *data;
    cairn_error err = {0};
    folder_make(f, "mnist");
    put_mnist(f, train, validation);
    CHECK_OK(cairn_data_open(f->source, NULL, &data, &err), &err);
    return data;
}

static void close_mnist(folder *f, cairn_data *data) {
    cairn_data_destroy(data);
    folder_remove(f);
}

static crn_loader *create(cairn_data *data, const crn_loader_options *options) {
    crn_loader *loader;
    cairn_error err = {0};
    CHECK_OK(crn_loader_create(data, options, &loader, &err), &err);
    return loader;
}

static crn_batch next(crn_loader *loader) {
    crn_batch batch = {0};
    cairn_error err = {0};
    CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
    return batch;
}

/* ---- Batch n is batch n ---- */

static uint64_t hash_of(const crn_batch *batch, uint32_t size, uint32_t elements) {
    uint64_t hash = crn_hash_bytes(CRN_HASH_START, &batch->count, sizeof batch->count);
    hash = crn_hash_bytes(hash, batch->labels, size * sizeof(int32_t));
    return crn_hash_bytes(hash, batch->inputs, (size_t)size * elements * sizeof(float));
}

#define MOST_BATCHES 64u

static void rest(crn_rng *rng, uint64_t most_us) {
    struct timespec t = {.tv_nsec = (long)(crn_rng_below(rng, most_us + 1) * 1000)};
    nanosleep(&t, NULL);
}

/* The speed of the caller: the thread is ahead, behind, or both in turn. */
static const uint64_t timings[] = {0, 2000, 300};

static void check_walk(crn_loader *loader, const uint64_t *expected, uint32_t batch,
                       uint64_t most_us, crn_rng *rng) {
    crn_loader_seek(loader, 0);
    for (uint64_t n = 0; n < MOST_BATCHES; n++) {
        crn_batch b = next(loader);
        CHECK_U64(b.number, n);
        if (most_us > 0)
            rest(rng, most_us); /* the thread must not change the batch that was returned */
        CHECK(hash_of(&b, batch, 108) == expected[n]);
    }
}

static void check_jumps(crn_loader *loader, const uint64_t *expected, uint32_t batch,
                        uint64_t most_us, crn_rng *rng) {
    for (int jump = 0; jump < 30; jump++) {
        uint64_t n = crn_rng_below(rng, MOST_BATCHES);
        crn_loader_seek(loader, n);
        if (most_us > 0 && jump % 2 == 0)
            rest(rng, most_us);
        for (uint64_t steps = crn_rng_below(rng, 4); steps > 0 && n < MOST_BATCHES; steps--, n++) {
            crn_batch b = next(loader);
            CHECK_U64(b.number, n);
            CHECK(hash_of(&b, batch, 108) == expected[n]);
        }
    }
}

static void check_options(cairn_data *data, const crn_loader_options *given) {
    uint64_t expected[MOST_BATCHES];
    crn_loader_options options = *given;
    crn_rng rng = {options.seed};
    options.prefetch = 0;
    for (uint64_t n = 0; n < MOST_BATCHES; n++) { /* each by a new loader */
        crn_loader *fresh = create(data, &options);
        crn_loader_seek(fresh, n);
        crn_batch b = next(fresh);
        expected[n] = hash_of(&b, options.batch, 108);
        crn_loader_destroy(fresh);
    }
    for (uint32_t ahead = 0; ahead < 4; ahead++)
        for (size_t t = 0; t < CRN_LENGTH(timings); t++) {
            options.prefetch = ahead;
            crn_loader *loader = create(data, &options);
            check_walk(loader, expected, options.batch, timings[t], &rng);
            check_jumps(loader, expected, options.batch, timings[t], &rng);
            crn_loader_destroy(loader);
        }
}

static void test_any_way(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 47, 10);
    for (uint32_t kind = 0; kind < 6; kind++) {
        crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
        options.split = kind % 3 == 2 ? CAIRN_SPLIT_VALIDATION : CAIRN_SPLIT_TRAIN;
        options.batch = 3 + kind;
        options.seed = 100 + kind;
        options.shuffle = kind % 3 != 0;
        options.flip = kind > 2;
        options.crop = kind > 3 ? 2 : 0;
        options.normalise = kind % 2 == 0;
        check_options(data, &options);
    }
    close_mnist(&f, data);
}

/* Large batch numbers work. */
static void test_far(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 20, 10);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    options.batch = 4;
    options.shuffle = true;
    crn_loader *loader = create(data, &options);
    crn_loader_seek(loader, UINT64_MAX);
    CHECK_U64(next(loader).number, UINT64_MAX);
    CHECK_U64(next(loader).number, 0);
    crn_loader_destroy(loader);
    close_mnist(&f, data);
}

/* ---- Epochs ---- */

static uint32_t number_of(
    const float *image) { /* the number of an image of data_folder.h that is not augmented */
    for (uint32_t i = 0; i < 256; i++) {
        bool same = true;
        for (uint32_t k = 0; k < 108 && same; k++)
            same = image[k] == (float)byte_of(i, k) / 255.0f;
        if (same)
            return i;
    }
    return UINT32_MAX;
}

static void read_epoch(crn_loader *loader, uint32_t batch, uint32_t *numbers, uint32_t *count) {
    *count = 0;
    for (uint64_t n = 0; n < crn_loader_batches(loader); n++) {
        crn_batch b = next(loader);
        for (uint32_t k = 0; k < batch; k++)
            if (k < b.count)
                numbers[(*count)++] = number_of(b.inputs + (size_t)k * 108);
    }
}

static void test_epochs(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 50, 11);
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int split = 0; split < 2; split++) {
            crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
            uint32_t numbers[64], before[64] = {0}, count;
            uint32_t first = split == 0 ? 0 : 50, expected = split == 0 ? 49 : 11;
            options.split = (cairn_split)split;
            options.batch = 7;
            options.shuffle = shuffle == 1;
            options.normalise = false;
            crn_loader *loader = create(data, &options);
            CHECK_U64(crn_loader_batches(loader), split == 0 ? 7 : 2);
            CHECK(crn_loader_bytes(loader) >= 3 * (7 * 108 * 4 + 7 * 4));
            for (int epoch = 0; epoch < 5; epoch++) {
                uint64_t seen = 0;
                bool in_order = true;
                read_epoch(loader, 7, numbers, &count);
                CHECK_U64(count, expected);
                for (uint32_t i = 0; i < count; i++) {
                    CHECK(numbers[i] - first < (split == 0 ? 50 : 11));
                    CHECK((seen >> (numbers[i] - first) & 1) == 0); /* once */
                    seen |= 1ull << (numbers[i] - first);
                    in_order = in_order && numbers[i] == first + i;
                }
                CHECK(in_order == (shuffle == 0));
                CHECK((memcmp(numbers, before, sizeof *numbers * count) == 0) ==
                      (shuffle == 0 && epoch > 0));
                memcpy(before, numbers, sizeof *numbers * count);
            }
            crn_loader_destroy(loader);
        }
    close_mnist(&f, data);
}

/* Every sample appears at every place about equally often. */
static void test_shuffles_are_even(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 8, 2);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    uint32_t times[8][8] = {{0}};
    options.batch = 8;
    options.shuffle = true;
    options.normalise = false;
    crn_loader *loader = create(data, &options);
    for (int epoch = 0; epoch < 4000; epoch++) {
        crn_batch b = next(loader);
        for (uint32_t k = 0; k < 8; k++)
            times[k][b.labels[k]]++;
    }
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t i = 0; i < 8; i++)
            CHECK(times[k][i] > 380 &&
                  times[k][i] < 620); /* 500 expected, with a deviation of 21 */
    crn_loader_destroy(loader);
    close_mnist(&f, data);
}

/* The last batch of validation is filled up from the beginning. */
static void test_repeats(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 20, 3);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    options.split = CAIRN_SPLIT_VALIDATION;
    options.batch = 8;
    options.normalise = false;
    crn_loader *loader = create(data, &options);
    CHECK_U64(crn_loader_batches(loader), 1);
    crn_batch b = next(loader);
    CHECK_U64(b.count, 3);
    for (uint32_t k = 0; k < 8; k++)
        CHECK_U64(number_of(b.inputs + (size_t)k * 108), 20 + k % 3);
    crn_loader_destroy(loader);
    close_mnist(&f, data);
}

/* ---- Flips and crops ---- */

/* Pixel (y, x) of a sample of data_folder.h, black outside, 12 x 9. */
static float pixel(uint32_t number, int y, int x) {
    if (y < 0 || y >= 12 || x < 0 || x >= 9)
        return 0.0f;
    return (float)byte_of(number, (uint32_t)(y * 9 + x)) / 255.0f;
}

static bool is_change(const float *image, uint32_t number, int down, int right, bool flip) {
    bool same = true;
    for (int y = 0; y < 12 && same; y++)
        for (int x = 0; x < 9 && same; x++)
            same = image[y * 9 + x] == pixel(number, y + down, (flip ? 8 - x : x) + right);
    return same;
}

/* Which of the 2 x 5 x 5 augmentations it is; 50: none of them. */
static uint32_t change_of(const float *image, uint32_t number) {
    for (uint32_t c = 0; c < 50; c++)
        if (is_change(image, number, (int)(c / 5 % 5) - 2, (int)(c % 5) - 2, c >= 25))
            return c;
    return 50;
}

static void test_changes(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 10, 1);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    uint32_t times[51] = {0};
    options.batch = 10;
    options.normalise = false;
    options.flip = true;
    options.crop = 2;
    crn_loader *loader = create(data, &options);
    for (int epoch = 0; epoch < 500; epoch++) {
        crn_batch b = next(loader);
        for (uint32_t k = 0; k < 10; k++)
            times[change_of(b.inputs + (size_t)k * 108, k)]++;
    }
    CHECK_U64(times[50], 0);
    for (uint32_t c = 0; c < 50; c++)
        CHECK(times[c] > 50 && times[c] < 150); /* 100 expected, with a deviation of 10 */
    crn_loader_destroy(loader);
    close_mnist(&f, data);
}

/* The augmentation of a sample depends on seed, epoch and sample, not on its place in the epoch. */
static void test_changes_depend(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 10, 1);
    uint32_t changes[2][3][10];
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
        options.batch = 10;
        options.normalise = false;
        options.crop = 2;
        options.shuffle = shuffle == 1;
        crn_loader *loader = create(data, &options);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            crn_batch b = next(loader);
            for (uint32_t k = 0; k < 10; k++)
                changes[shuffle][epoch][b.labels[k]] =
                    change_of(b.inputs + (size_t)k * 108, (uint32_t)b.labels[k]);
        }
        crn_loader_destroy(loader);
    }
    CHECK(memcmp(changes[0], changes[1], sizeof changes[0]) == 0);
    CHECK(memcmp(changes[0][0], changes[0][1], sizeof changes[0][0]) != 0);
    close_mnist(&f, data);
}

/* ---- Faults ---- */

/* A file is cut while it is in use: every request is an error; after a repair everything works
 * again. */
static void test_cut_file(void) {
    for (uint32_t ahead = 0; ahead < 3; ahead++) {
        folder f;
        cairn_data *data = open_mnist(&f, 40, 1);
        crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
        crn_batch b = {0};
        cairn_error err = {0};
        options.batch = 4;
        options.prefetch = ahead;
        crn_loader *loader = create(data, &options);
        crn_loader_seek(loader, 5);
        b = next(loader);
        uint64_t hash = hash_of(&b, 4, 108);
        CHECK(truncate(folder_path(&f, "train-images-idx3-ubyte"), 16 + 22 * 108) == 0);
        for (int again = 0; again < 2; again++) {
            crn_loader_seek(loader, 4);
            b = next(loader);
            for (int k = 0; k < 2; k++) {
                CHECK(crn_loader_next(loader, &b, &err) == CAIRN_EIO);
                CHECK(strstr(err.file, "/train-images-idx3-ubyte") != NULL);
                CHECK(strstr(err.message, "ends after 2392 bytes; there were 4336") != NULL);
                CHECK(b.inputs == NULL && b.labels == NULL);
                CHECK(crn_loader_next(loader, &b, NULL) == CAIRN_EIO);
            }
        }
        put_mnist(&f, 40, 1);
        crn_loader_seek(loader, 5);
        b = next(loader);
        CHECK(hash_of(&b, 4, 108) == hash);
        crn_loader_destroy(loader);
        close_mnist(&f, data);
    }
}

static void test_wrong_options(void) {
    static const struct {
        crn_loader_options options;
        const char *part;
    } cases[] = {
        {{.batch = 0}, "at least one sample"},
        {{.batch = 41}, "there are 40 samples to train on, fewer than a batch of 41"},
        {{.batch = 4, .crop = 9}, "a crop of 9 pixels leaves nothing of images of 12 x 9"},
        {{.batch = 4, .split = (cairn_split)2}, "no split 2"},
        {{.batch = 4, .prefetch = 5000}, "at most 1024 batches"},
    };
    folder f;
    cairn_data *data = open_mnist(&f, 40, 3), *none;
    crn_loader *loader;
    cairn_error err = {0};
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        CHECK(crn_loader_create(data, &cases[i].options, &loader, &err) == CAIRN_EINVAL);
        CHECK(loader == NULL && strstr(err.message, cases[i].part) != NULL);
    }
    cairn_data_options all = CAIRN_DATA_OPTIONS_INIT;
    all.validation = 0;
    CHECK_OK(cairn_data_open("synthetic", &all, &none, &err), &err);
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    options.split = CAIRN_SPLIT_VALIDATION;
    CHECK(crn_loader_create(none, &options, &loader, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "no samples for validation") != NULL);
    cairn_data_destroy(none);
    close_mnist(&f, data);
}

/* ---- Threads ---- */

static void test_ends(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 40, 1);
    crn_rng rng = {9};
    for (int i = 0; i < 300; i++) {
        crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
        options.batch = 1 + (uint32_t)crn_rng_below(&rng, 40);
        options.prefetch = (uint32_t)crn_rng_below(&rng, 4);
        options.shuffle = true;
        crn_loader *loader = create(data, &options);
        if (i % 3 == 0)
            rest(&rng, 200);
        for (uint64_t n = crn_rng_below(&rng, 3); n > 0; n--)
            CHECK(next(loader).inputs != NULL);
        if (i % 2 == 0)
            crn_loader_seek(loader, crn_rng_below(&rng, 100));
        if (i % 5 == 0)
            rest(&rng, 200);
        crn_loader_destroy(loader);
    }
    crn_loader_destroy(NULL);
    close_mnist(&f, data);
}

/* Several threads create loaders of the same new data at the same time, so all of them need its
 * statistics. */
typedef struct user {
    cairn_data *data;
    uint64_t hash;
} user;

static void *use(void *argument) {
    user *u = argument;
    crn_loader_options options = CRN_LOADER_OPTIONS_INIT;
    crn_loader *loader;
    crn_batch b = {0};
    options.batch = 5;
    options.shuffle = true;
    if (crn_loader_create(u->data, &options, &loader, NULL) != CAIRN_OK)
        return NULL;
    for (int n = 0; n < 20 && crn_loader_next(loader, &b, NULL) == CAIRN_OK; n++)
        u->hash ^= hash_of(&b, 5, 108);
    crn_loader_destroy(loader);
    return NULL;
}

static void test_at_once(void) {
    folder f;
    cairn_data *data = open_mnist(&f, 40, 1);
    user users[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        users[i] = (user){data, 0};
        CHECK(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        CHECK(users[i].hash != 0 && users[i].hash == users[0].hash);
    close_mnist(&f, data);
}

int main(void) {
    test_any_way();
    test_far();
    test_epochs();
    test_shuffles_are_even();
    test_repeats();
    test_changes();
    test_changes_depend();
    test_cut_file();
    test_wrong_options();
    test_ends();
    test_at_once();
    return check_result();
}
