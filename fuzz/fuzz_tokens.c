/* fuzz_tokens.c: the reader of 16-bit tokens. An input is the file to train on. */
#include "data/loader.h"
#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char source[600];
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    cairn_data *opened;
    cairn_error err = {0};
    crn_batch batch = {0};
    crn_loader *loader;
    fuzz_folder_make();
    fuzz_folder_put("tokens.bin", data, size);
    snprintf(source, sizeof source, "tokens:%s/tokens.bin", fuzz_folder_path);
    options.tokens = 3;
    cairn_status status = cairn_data_open(source, &options, &opened, &err);
    if (status != CAIRN_OK) {
        fuzz_check_error(status, &err);
        return 0;
    }
    crn_loader_options walk = CRN_LOADER_OPTIONS_INIT;
    walk.batch = 1;
    walk.prefetch = 0;
    walk.shuffle = true;
    FUZZ_CHECK(crn_loader_create(opened, &walk, &loader, &err) == CAIRN_OK);
    uint32_t classes = cairn_data_get_info(opened)->classes;
    for (uint64_t i = 0; i < crn_loader_batches(loader); i++) {
        FUZZ_CHECK(crn_loader_next(loader, &batch, &err) == CAIRN_OK);
        for (uint32_t k = 0; k < 3; k++)
            FUZZ_CHECK((uint32_t)batch.tokens[k] < classes && (uint32_t)batch.labels[k] < classes);
    }
    crn_loader_destroy(loader);
    cairn_data_destroy(opened);
    return 0;
}
