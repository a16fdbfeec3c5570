/* data_cifar10.c: the binary version of CIFAR-10 (Krizhevsky, 2009): records of 3073 bytes, a label
 * and then an image, one plane for each colour.
 *
 *     [label][red 32 x 32][green 32 x 32][blue 32 x 32][label][red ...
 *
 * Files may have any number of records. Without test_batch.bin, validation is held out. */
#include "data/data_internal.h"

#define RECORD 3073u
#define CLASSES 10

static const char *const train_files[] = {"data_batch_1.bin", "data_batch_2.bin",
                                          "data_batch_3.bin", "data_batch_4.bin",
                                          "data_batch_5.bin"};
#define TEST_FILE "test_batch.bin"

static cairn_status open_file(cairn_data *data, const char *path, cairn_split split,
                              cairn_error *err) {
    crn_data_file *file = &data->files[data->file_count];
    CRN_TRY(crn_data_file_open(file, path, err));
    data->file_count++;
    if (file->bytes == 0 || file->bytes % RECORD != 0)
        return crn_fail(crn_in_file(err, path), CAIRN_EINVAL,
                        "is %llu bytes long, which is not a number of records of %u bytes",
                        (unsigned long long)file->bytes, RECORD);
    return crn_data_add_samples(data, file, split, 1, RECORD, file->bytes / RECORD, err);
}

static cairn_status read_labels(cairn_data *data, const crn_data_file *file, cairn_error *err) {
    uint8_t records[21 * RECORD]; /* reading all is as fast as skipping */
    for (uint32_t i = 0; i < file->count; i += 21) {
        uint32_t now = CRN_MIN(21, file->count - i);
        CRN_TRY(crn_data_file_read(file, (uint64_t)i * RECORD, records, now * RECORD, err));
        for (uint32_t k = 0; k < now; k++)
            CRN_TRY(crn_data_set_label(data, file->path, file->first + i + k, records[k * RECORD],
                                       err));
    }
    return CAIRN_OK;
}

cairn_status crn_data_open_cifar10(cairn_data *data, const char *folder, cairn_error *err) {
    static const uint32_t shape[] = {3, 32, 32};
    CRN_TRY(crn_data_set_shape(data, 3, shape, CAIRN_DTYPE_U8, CLASSES, err));
    CRN_TAKE(&data->arena, data->files, CRN_LENGTH(train_files) + 1);
    for (size_t i = 0; i < CRN_LENGTH(train_files); i++) {
        char *path = crn_data_path(data, folder, train_files[i]);
        if (path == NULL)
            return CAIRN_ENOMEM;
        CRN_TRY(open_file(data, path, CAIRN_SPLIT_TRAIN, err));
    }
    char *test = crn_data_path(data, folder, TEST_FILE);
    if (test == NULL)
        return CAIRN_ENOMEM;
    if (crn_data_exists(test))
        CRN_TRY(open_file(data, test, CAIRN_SPLIT_VALIDATION, err));
    CRN_TRY(crn_data_take_labels(data));
    for (uint32_t i = 0; i < data->file_count; i++)
        CRN_TRY(read_labels(data, &data->files[i], err));
    return CAIRN_OK;
}
