/* data_folder.h: a temporary folder, and small files in the formats of data sets. Pixel k of sample
 * i is byte_of(i, k), and its label is i % 10. */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H

#include "cairn/data.h"
#include "check.h"

#include <dirent.h>
#include <unistd.h>

typedef struct folder {
    char path[256];
    char source[300]; /* "mnist:" and the path */
} folder;

static inline void folder_make(folder *f, const char *kind) {
    const char *base = getenv("TMPDIR");
    snprintf(f->path, sizeof f->path, "%s/cairn-data-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(f->path) == NULL) {
        perror(f->path);
        exit(1);
    }
    snprintf(f->source, sizeof f->source, "%s:%s", kind, f->path);
}

static inline const char *folder_path(const folder *f, const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    return path;
}

static inline void folder_remove(folder *f) {
    DIR *dir = opendir(f->path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && unlink(folder_path(f, entry->d_name)) != 0)
            rmdir(folder_path(f, entry->d_name));
    closedir(dir);
    if (rmdir(f->path) != 0)
        perror(f->path);
}

static inline void folder_put(const folder *f, const char *name, const void *bytes, size_t length) {
    FILE *file = fopen(folder_path(f, name), "wb");
    if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
        perror(name);
        exit(1);
    }
}

static inline void folder_drop(const folder *f, const char *name) {
    if (unlink(folder_path(f, name)) != 0)
        perror(name);
}

static inline uint8_t byte_of(uint32_t sample, uint32_t pixel) {
    return (uint8_t)(sample * 31 + pixel * 7 + sample * pixel);
}

/* ---- IDX ---- */

static inline void put_big(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Samples from `first` on. */
static inline void put_images(const folder *f, const char *name, uint32_t first, uint32_t count,
                              uint32_t rows, uint32_t columns) {
    size_t pixels = (size_t)rows * columns, length = 16 + count * pixels;
    uint8_t *bytes = malloc(length);
    put_big(bytes, 0x803);
    put_big(bytes + 4, count);
    put_big(bytes + 8, rows);
    put_big(bytes + 12, columns);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < pixels; k++)
            bytes[16 + i * pixels + k] = byte_of(first + i, k);
    folder_put(f, name, bytes, length);
    free(bytes);
}

static inline void put_labels(const folder *f, const char *name, uint32_t first, uint32_t count) {
    uint8_t *bytes = malloc(8 + (size_t)count);
    put_big(bytes, 0x801);
    put_big(bytes + 4, count);
    for (uint32_t i = 0; i < count; i++)
        bytes[8 + i] = (uint8_t)((first + i) % 10);
    folder_put(f, name, bytes, 8 + (size_t)count);
    free(bytes);
}

/* 12 x 9 pixels, `train` samples and, if any, `validation` ones. */
static inline void put_mnist(const folder *f, uint32_t train, uint32_t validation) {
    put_images(f, "train-images-idx3-ubyte", 0, train, 12, 9);
    put_labels(f, "train-labels-idx1-ubyte", 0, train);
    if (validation > 0) {
        put_images(f, "t10k-images-idx3-ubyte", train, validation, 12, 9);
        put_labels(f, "t10k-labels-idx1-ubyte", train, validation);
    }
}

/* ---- CIFAR-10 ---- */

static inline void put_records(const folder *f, const char *name, uint32_t first, uint32_t count) {
    uint8_t *bytes = malloc((size_t)count * 3073 + 1);
    for (uint32_t i = 0; i < count; i++) {
        bytes[i * 3073] = (uint8_t)((first + i) % 10);
        for (uint32_t k = 0; k < 3072; k++)
            bytes[i * 3073 + 1 + k] = byte_of(first + i, k);
    }
    folder_put(f, name, bytes, (size_t)count * 3073);
    free(bytes);
}

/* Five files of `each`, and a sixth of `validation` if any. */
static inline void put_cifar10(const folder *f, uint32_t each, uint32_t validation) {
    char name[32];
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "data_batch_%u.bin", i + 1);
        put_records(f, name, i * each, each);
    }
    if (validation > 0)
        put_records(f, "test_batch.bin", 5 * each, validation);
}

/* ---- Raw tensors ---- */

static inline void put_text(const folder *f, const char *name, const char *text) {
    folder_put(f, name, text, strlen(text));
}

static inline void put_little(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* `count` samples of `elements` real numbers: element k of sample i is i - k / 4, and its label is
 * i % 3. */
static inline void put_reals(const folder *f, const char *samples, const char *labels,
                             uint32_t first, uint32_t count, uint32_t elements) {
    uint8_t *bytes = calloc((size_t)count * (elements + 1), 4);
    uint8_t *at = bytes;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < elements; k++, at += 4) {
            float value = (float)(first + i) - (float)k / 4;
            uint32_t bits;
            memcpy(&bits, &value, 4);
            put_little(at, bits);
        }
    folder_put(f, samples, bytes, 4 * (size_t)count * elements);
    for (uint32_t i = 0; i < count; i++)
        put_little(bytes + 4 * (size_t)i, (first + i) % 3);
    folder_put(f, labels, bytes, 4 * (size_t)count);
    free(bytes);
}

#endif
