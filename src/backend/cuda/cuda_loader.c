/* cuda_loader.c: see cuda_loader.h.
 *
 * The functions of the driver are requested with the version of CUDA 12.4, because newer drivers
 * keep old signatures under the same names. cuBLASLt is opened before cuDNN, which crashes without
 * it. Libraries are never closed: cuDNN keeps threads and handlers that outlive a handle. */
#include "backend/cuda/cuda_loader.h"

#include <dlfcn.h>

typedef int get_proc_address(const char *name, void **out, int version, uint64_t flags,
                             int *status);

/* dlsym() returns a data pointer; the union converts it to a function pointer. */
typedef union symbol {
    void *data;
    get_proc_address *lookup;
} symbol;

static cairn_status open_library(const char *file, const char *what, void **out, cairn_error *err) {
    *out = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (*out == NULL)
        return crn_fail(err, CAIRN_ESYSTEM, "%s (%s) cannot be opened: %s", what, file, dlerror());
    return CAIRN_OK;
}

static cairn_status find_entry(void *library, const char *file, const char *name, void **out,
                               cairn_error *err) {
    *out = dlsym(library, name);
    if (*out == NULL)
        return crn_fail(err, CAIRN_ESYSTEM, "%s has no entry %s: another version is needed", file,
                        name);
    return CAIRN_OK;
}

/* Where each entry goes. All are pointers to functions, which have one size. */
typedef struct entry {
    const char *name;
    size_t offset; /* in crn_cuda_api */
} entry;

#define ENTRY(name, arguments) {#name, offsetof(crn_cuda_api, name)},
static const entry driver_entries[] = {CRN_CUDA_DRIVER(ENTRY)};
static const entry blas_entries[] = {
    CRN_CUDA_BLAS(ENTRY){"cublasLtGetVersion", offsetof(crn_cuda_api, cublasLtGetVersion)}};
static const entry dnn_entries[] = {
    CRN_CUDA_CUDNN(ENTRY){"cudnnGetErrorString", offsetof(crn_cuda_api, cudnnGetErrorString)},
    {"cudnnGetLastErrorString", offsetof(crn_cuda_api, cudnnGetLastErrorString)},
    {"cudnnGetVersion", offsetof(crn_cuda_api, cudnnGetVersion)}};
#undef ENTRY

static void set_entry(crn_cuda_api *api, const entry *e, void *found) {
    memcpy((char *)api + e->offset, &found, sizeof found);
}

static cairn_status fail_old_driver(const char *name, cairn_error *err) {
    return crn_fail(err, CAIRN_ESYSTEM,
                    "the NVIDIA driver has no entry %s: a driver for CUDA 12.4 or newer is needed",
                    name);
}

static cairn_status load_driver(crn_cuda_api *api, cairn_error *err) {
    static const char lookup[] = "cuGetProcAddress_v2";
    CRN_TRY(open_library("libcuda.so.1", "the NVIDIA driver", &api->libraries[0], err));
    symbol get = {.data = dlsym(api->libraries[0], lookup)};
    if (get.data == NULL)
        return fail_old_driver(lookup, err);
    for (size_t i = 0; i < CRN_LENGTH(driver_entries); i++) {
        const entry *e = &driver_entries[i];
        void *found = NULL;
        int status = 0;
        if (get.lookup(e->name, &found, CRN_CUDA_VERSION, 0, &status) != 0 || found == NULL)
            return fail_old_driver(e->name, err);
        set_entry(api, e, found);
    }
    return CAIRN_OK;
}

static cairn_status load_entries(crn_cuda_api *api, void *library, const char *file,
                                 const entry *entries, size_t count, cairn_error *err) {
    for (size_t i = 0; i < count; i++) {
        void *found;
        CRN_TRY(find_entry(library, file, entries[i].name, &found, err));
        set_entry(api, &entries[i], found);
    }
    return CAIRN_OK;
}

static cairn_status load_libraries(crn_cuda_api *out, cairn_error *err) {
    static const char blas[] = "libcublasLt.so.13", dnn[] = "libcudnn.so.9";
    CRN_TRY(open_library(blas, "cuBLASLt", &out->libraries[1], err));
    CRN_TRY(
        load_entries(out, out->libraries[1], blas, blas_entries, CRN_LENGTH(blas_entries), err));
    CRN_TRY(open_library(dnn, "cuDNN", &out->libraries[2], err));
    CRN_TRY(load_entries(out, out->libraries[2], dnn, dnn_entries, CRN_LENGTH(dnn_entries), err));
    if (out->cudnnGetVersion() < CRN_CUDNN_OLDEST)
        return crn_fail(err, CAIRN_ESYSTEM, "cuDNN is version %zu; %d or newer is needed",
                        out->cudnnGetVersion(), CRN_CUDNN_OLDEST);
    return CAIRN_OK;
}

cairn_status crn_cuda_load_cudnn(crn_cuda_api *out, cairn_error *err) {
    memset(out, 0, sizeof *out);
    return load_libraries(out, err);
}

cairn_status crn_cuda_load(crn_cuda_api *out, cairn_error *err) {
    memset(out, 0, sizeof *out);
    CRN_TRY(load_driver(out, err));
    return load_libraries(out, err);
}
