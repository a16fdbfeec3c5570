/* fuzz_cifar10.c: the reader of CIFAR-10's binary files. An input is the second training file; the
 * other files have one record each. */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t record[3073] = {9, 1, 2, 3};
    static const char *const names[] = {"data_batch_1.bin", "data_batch_3.bin", "data_batch_4.bin",
                                        "data_batch_5.bin"};
    if (fuzz_folder_path[0] == '\0') {
        fuzz_folder_make();
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            fuzz_folder_put(names[i], record, sizeof record);
    }
    fuzz_folder_put("data_batch_2.bin", data, size);
    fuzz_open_folder("cifar10");
    return 0;
}
