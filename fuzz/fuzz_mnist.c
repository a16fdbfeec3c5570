/* fuzz_mnist.c: the reader of IDX files. An input starts with three lengths of one byte each: of
 * the training labels, the validation labels and the validation images. These three files follow;
 * the rest is the training images. */
#include "fuzz_folder.h"

static const char *const names[] = {"train-labels-idx1-ubyte", "t10k-labels.idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "train-images-idx3-ubyte"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *lengths = data;
    if (size < 3)
        return 0;
    fuzz_folder_make();
    data += 3;
    size -= 3;
    for (size_t i = 0; i < 4; i++) {
        size_t length = i == 3 || lengths[i] > size ? size : lengths[i];
        fuzz_folder_put(names[i], data, length);
        data += length;
        size -= length;
    }
    if (lengths[1] == 0 && lengths[2] == 0) { /* no validation files */
        char path[600];
        for (size_t i = 1; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", fuzz_folder_path, names[i]);
            unlink(path);
        }
    }
    fuzz_open_folder("mnist");
    return 0;
}
