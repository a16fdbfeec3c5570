/* data_mnist.c: MNIST and similar data, in IDX files (LeCun, 1998): big-endian, a magic number
 * that says type and rank, the sizes, the elements.
 *
 *     images  [0 0 8 3][count][rows][columns][count x rows x columns bytes]
 *     labels  [0 0 8 1][count][count bytes]
 *
 * Names are as published, "train-images-idx3-ubyte", or with a dot before idx, as some programs
 * unpack them. Without the t10k files validation is held out. */
#include "data/data_internal.h"

#include <stdio.h>

#define CLASSES 10
#define IMAGE_RANK 3
#define LABEL_RANK 1
#define HEADER(rank) (4u + 4u * (rank))

typedef struct idx_names {
    const char *images, *labels;
} idx_names;
static const idx_names names[] = {
    [CAIRN_SPLIT_TRAIN] = {"train-images", "train-labels"},
    [CAIRN_SPLIT_VALIDATION] = {"t10k-images", "t10k-labels"},
};

/* ---- Finding ---- */

/* One of the names that a file may have: as published, with a dot, and both packed. */
enum { PUBLISHED, DOTTED, PACKED, DOTTED_PACKED, SPELLINGS };

static char *spell(cairn_data *data, const char *folder, const char *stem, uint32_t rank,
                   uint32_t spelling) {
    char name[64];
    snprintf(name, sizeof name, "%s%cidx%u-ubyte%s", stem, spelling % 2 == DOTTED ? '.' : '-', rank,
             spelling >= PACKED ? ".gz" : "");
    return crn_data_path(data, folder, name);
}

/* The first spelling that exists, or SPELLINGS; `*path` is that or the published one. */
static cairn_status find(cairn_data *data, const char *folder, const char *stem, uint32_t rank,
                         char **path, uint32_t *found) {
    for (*found = 0; *found < SPELLINGS; (*found)++) {
        if ((*path = spell(data, folder, stem, rank, *found)) == NULL)
            return CAIRN_ENOMEM;
        if (crn_data_exists(*path))
            return CAIRN_OK;
    }
    *path = spell(data, folder, stem, rank, PUBLISHED);
    return *path == NULL ? CAIRN_ENOMEM : CAIRN_OK;
}

static cairn_status open_idx(cairn_data *data, crn_data_file *file, const char *folder,
                             const char *stem, uint32_t rank, cairn_error *err) {
    char *path = NULL;
    uint32_t found = 0;
    CRN_TRY(find(data, folder, stem, rank, &path, &found));
    if (found == PACKED || found == DOTTED_PACKED)
        return crn_fail(crn_in_file(err, path), CAIRN_EINVAL,
                        "is compressed; decompress it with gunzip, in the same folder");
    return crn_data_file_open(file, path, err);
}

/* Whether there is any file of the split, packed or not. */
static cairn_status has_split(cairn_data *data, const char *folder, cairn_split split, bool *has) {
    char *path = NULL;
    uint32_t images = 0, labels = 0;
    CRN_TRY(find(data, folder, names[split].images, IMAGE_RANK, &path, &images));
    CRN_TRY(find(data, folder, names[split].labels, LABEL_RANK, &path, &labels));
    *has = images < SPELLINGS || labels < SPELLINGS;
    return CAIRN_OK;
}

/* ---- Headers ---- */

static uint32_t read_big(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The sizes, count first. The file is as long as they say. */
static cairn_status read_header(const crn_data_file *file, uint32_t rank, uint32_t *sizes,
                                cairn_error *err) {
    uint8_t header[HEADER(IMAGE_RANK)];
    uint32_t magic = 0x800 + rank;
    uint64_t bytes = 1;
    if (file->bytes < HEADER(rank))
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "is %llu bytes long, too short for an IDX header",
                        (unsigned long long)file->bytes);
    CRN_TRY(crn_data_file_read(file, 0, header, HEADER(rank), err));
    if (read_big(header) != magic)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "starts with 0x%08x, not with 0x%08x as IDX %s do", read_big(header), magic,
                        rank == LABEL_RANK ? "labels" : "images");
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = read_big(header + 4 + 4 * d);
        if (sizes[d] == 0)
            return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                            "size %u in its header is 0", d + 1);
        if (!crn_mul_u64(bytes, sizes[d], &bytes))
            bytes = UINT64_MAX - HEADER(rank);
    }
    if (file->bytes - HEADER(rank) != bytes)
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "is %llu bytes long; by its header it should have %llu",
                        (unsigned long long)file->bytes,
                        (unsigned long long)(bytes + HEADER(rank)));
    return CAIRN_OK;
}

/* ---- Images and labels ---- */

static cairn_status open_images(cairn_data *data, const char *folder, cairn_split split,
                                cairn_error *err) {
    crn_data_file *file = &data->files[split];
    uint32_t sizes[IMAGE_RANK] = {0};
    const uint32_t *known = data->info.shape;
    CRN_TRY(open_idx(data, file, folder, names[split].images, IMAGE_RANK, err));
    data->file_count++;
    CRN_TRY(read_header(file, IMAGE_RANK, sizes, err));
    uint32_t shape[] = {1, sizes[1], sizes[2]};
    if (split == CAIRN_SPLIT_TRAIN)
        CRN_TRY(crn_data_set_shape(data, 3, shape, CAIRN_DTYPE_U8, CLASSES,
                                   crn_in_file(err, file->path)));
    else if (shape[1] != known[1] || shape[2] != known[2])
        return crn_fail(crn_in_file(err, file->path), CAIRN_EINVAL,
                        "has images of %u x %u; those to train on are %u x %u", shape[1], shape[2],
                        known[1], known[2]);
    return crn_data_add_samples(data, file, split, HEADER(IMAGE_RANK), data->sample_bytes, sizes[0],
                                err);
}

static cairn_status read_labels(cairn_data *data, const crn_data_file *labels,
                                const crn_data_file *images, cairn_error *err) {
    uint32_t count = 0;
    uint8_t buffer[4096];
    CRN_TRY(read_header(labels, LABEL_RANK, &count, err));
    if (count != images->count)
        return crn_fail(crn_in_file(err, labels->path), CAIRN_EINVAL,
                        "has %u labels for the %u images of %s", count, images->count,
                        images->path);
    for (uint32_t i = 0; i < count; i += (uint32_t)sizeof buffer) {
        uint32_t now = CRN_MIN((uint32_t)sizeof buffer, count - i);
        CRN_TRY(crn_data_file_read(labels, HEADER(LABEL_RANK) + (uint64_t)i, buffer, now, err));
        for (uint32_t k = 0; k < now; k++)
            CRN_TRY(crn_data_set_label(data, labels->path, images->first + i + k, buffer[k], err));
    }
    return CAIRN_OK;
}

static cairn_status open_labels(cairn_data *data, const char *folder, cairn_split split,
                                cairn_error *err) {
    crn_data_file labels;
    CRN_TRY(open_idx(data, &labels, folder, names[split].labels, LABEL_RANK, err));
    cairn_status status = read_labels(data, &labels, &data->files[split], err);
    crn_data_file_close(&labels);
    return status;
}

cairn_status crn_data_open_mnist(cairn_data *data, const char *folder, cairn_error *err) {
    bool validation = false;
    CRN_TAKE(&data->arena, data->files, CRN_LENGTH(names));
    CRN_TRY(has_split(data, folder, CAIRN_SPLIT_VALIDATION, &validation));
    CRN_TRY(open_images(data, folder, CAIRN_SPLIT_TRAIN, err));
    if (validation)
        CRN_TRY(open_images(data, folder, CAIRN_SPLIT_VALIDATION, err));
    CRN_TRY(crn_data_take_labels(data));
    CRN_TRY(open_labels(data, folder, CAIRN_SPLIT_TRAIN, err));
    if (validation)
        CRN_TRY(open_labels(data, folder, CAIRN_SPLIT_VALIDATION, err));
    return CAIRN_OK;
}
