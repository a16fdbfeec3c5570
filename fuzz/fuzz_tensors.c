/* fuzz_tensors.c: the reader of folders of raw tensors. An input is the index, up to the first zero
 * byte; then one byte with the length of the file of labels "l", which follows; the rest is the
 * file of samples "s". */
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size == 0 ? NULL : memchr(data, 0, size);
    size_t text = zero == NULL ? size : (size_t)(zero - data);
    fuzz_folder_make();
    fuzz_folder_put("index.json", data, text);
    data += text + (zero != NULL);
    size -= text + (zero != NULL);
    size_t labels = size == 0 ? 0 : data[0];
    data += size > 0;
    size -= size > 0;
    labels = labels > size ? size : labels;
    fuzz_folder_put("l", data, labels);
    fuzz_folder_put("s", data + labels, size - labels);
    fuzz_open_folder("tensors");
    return 0;
}
