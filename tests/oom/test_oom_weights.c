/* test_oom_weights.c: reading and writing weights survives running out of memory at any point: see
 * failing.h. */
#include "cairn/safetensors.h"
#include "exec/subject.h"
#include "exec/toy_network.h"
#include "failing.h"
#include "weights/crn_weights.h"

#include <unistd.h>

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *graph;
    cairn_device *device;
    cairn_exec *exec;
    cairn_text bytes;
    const char *path;
    char fingerprint[65];
} fixture;

static cairn_status read_bytes(void *context) {
    fixture *f = context;
    cairn_safetensors *file = NULL;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          crn_safetensors_from_bytes(&f->allocator, f->bytes.data, f->bytes.length, "f", &file,
                                     &err));
    check_result_of(status, file);
    check_error(status, &err);
    cairn_safetensors_destroy(file);
    return status;
}

static cairn_status save_weights(void *context) {
    fixture *f = context;
    cairn_weights_save_options options = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    cairn_pair word = {"epoch", "1"};
    cairn_error err = {0};
    cairn_status status;
    options.metadata = &word;
    options.metadata_count = 1;
    ARMED(&f->memory, status, cairn_weights_save(f->exec, f->graph, "/dev/null", &options, &err));
    check_error(status, &err);
    return status;
}

/* Hash weights that are not those of the file. */
static void take_fingerprint(fixture *f) {
    const float other[10] = {1};
    cairn_error err = {0};
    cairn_id bias = cairn_graph_find_tensor(f->graph, "fc2.bias");
    CHECK_U64(cairn_graph_tensor(f->graph, bias)->bytes, sizeof other);
    CHECK_OK(cairn_exec_write(f->exec, bias, other, &err), &err);
    CHECK_OK(
        cairn_exec_sha256(f->exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, f->fingerprint, &err),
        &err);
}

/* A load that fails changes nothing. */
static cairn_status load_weights(void *context) {
    fixture *f = context;
    cairn_text notices;
    cairn_error err = {0};
    cairn_status status;
    char after[65];
    ARMED(&f->memory, status, cairn_weights_load(f->exec, f->graph, f->path, &notices, &err));
    check_error(status, &err);
    CHECK((status == CAIRN_OK) == (notices.data != NULL));
    cairn_text_release(&notices);
    CHECK_OK(cairn_exec_sha256(f->exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, after, &err),
             &err);
    CHECK((status == CAIRN_OK) == (strcmp(after, f->fingerprint) != 0));
    take_fingerprint(f);
    return status;
}

static void set_up(fixture *f, const char *path) {
    cairn_error err = {0};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = 1;
    f->path = path;
    f->allocator = (cairn_allocator){resize, &f->memory};
    f->graph = toy_network(&f->allocator, 1, 8);
    options.allocator = &f->allocator;
    CHECK_OK(cairn_device_open("ref", &options, &f->device, &err), &err);
    f->exec = executor_of(f->device, f->graph, "none", NULL);

    /* A file that gives a notice: it has an auxiliary head. */
    cairn_weights_save_options save = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    cairn_named_tensor extra = {
        .name = "aux.weight", .element = CAIRN_ELEMENT_F32, .data = &(float){1}};
    save.extra = &extra;
    save.extra_count = 1;
    CHECK_OK(cairn_weights_save(f->exec, f->graph, path, &save, &err), &err);
    CHECK_OK(cairn_text_load(&f->allocator, path, &f->bytes, &err), &err);
    take_fingerprint(f);
}

int main(void) {
    static fixture f;
    char path[] = "test_oom_weights.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    set_up(&f, path);
    fail_every(&f.memory, "read", "safetensors", read_bytes, &f);
    fail_every(&f.memory, "save", "toy", save_weights, &f);
    fail_every(&f.memory, "load", "toy", load_weights, &f);
    cairn_text_release(&f.bytes);
    cairn_exec_destroy(f.exec);
    cairn_device_close(f.device);
    cairn_graph_destroy(f.graph);
    CHECK_U64(f.memory.live, 0);
    unlink(path);
    return check_result();
}
