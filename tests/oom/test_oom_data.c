/* test_oom_data.c: opening data and making loaders survive running out of memory at any point: see
 * failing.h. */
#include "data/loader.h"
#include "data_folder.h"
#include "failing.h"

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    const char *source;
    cairn_data *data;
} fixture;

static cairn_status open_data(void *context) {
    fixture *f = context;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    cairn_data *data = NULL;
    cairn_error err = {0};
    cairn_status status;
    options.allocator = &f->allocator;
    options.count = 64; /* of the synthetic task */
    options.validation = 0.5;
    ARMED(&f->memory, status, cairn_data_open(f->source, &options, &data, &err));
    check_result_of(status, data);
    check_error(status, &err);
    cairn_data_destroy(data);
    return status;
}

/* With fresh data, whose statistics are not computed yet. */
static cairn_status create_loader(void *context) {
    fixture *f = context;
    cairn_data_options options = CAIRN_DATA_OPTIONS_INIT;
    crn_loader_options how = CRN_LOADER_OPTIONS_INIT;
    cairn_data *data = NULL;
    crn_loader *loader = NULL;
    crn_batch batch = {0};
    cairn_error err = {0};
    cairn_status status;
    options.allocator = &f->allocator;
    options.count = 64; /* of the synthetic task */
    how.batch = 2;
    how.shuffle = true;
    CHECK_OK(cairn_data_open(f->source, &options, &data, &err), &err);
    ARMED(&f->memory, status, crn_loader_create(data, &how, &loader, &err));
    check_result_of(status, loader);
    check_error(status, &err);
    if (status == CAIRN_OK)
        CHECK_OK(crn_loader_next(loader, &batch, &err), &err);
    crn_loader_destroy(loader);
    cairn_data_destroy(data);
    return status;
}

static void test_source(const char *source, const char *what) {
    static fixture f;
    f = (fixture){.source = source};
    f.allocator = (cairn_allocator){resize, &f.memory};
    fail_every(&f.memory, "data open", what, open_data, &f);
    fail_every(&f.memory, "loader create", what, create_loader, &f);
    CHECK_U64(f.memory.live, 0);
}

int main(void) {
    folder f;
    test_source("synthetic", "synthetic");
    folder_make(&f, "mnist");
    put_mnist(&f, 8, 0);
    test_source(f.source, "mnist");
    put_mnist(&f, 8, 2);
    test_source(f.source, "mnist");
    folder_remove(&f);
    folder_make(&f, "cifar10");
    put_cifar10(&f, 1, 1);
    test_source(f.source, "cifar10");
    folder_remove(&f);
    folder_make(&f, "tensors");
    put_text(&f, "index.json",
             "{\"format\": \"cairn-tensors\", \"version\": 1, \"shape\": [6], \"dtype\": \"f32\", "
             "\"classes\": 3, \"files\": [{\"split\": \"train\", \"samples\": \"s\", \"labels\": "
             "\"l\", \"count\": 5}]}");
    put_reals(&f, "s", "l", 0, 5, 6);
    test_source(f.source, "tensors");
    folder_remove(&f);
    return check_result();
}
