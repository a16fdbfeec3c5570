/* cuda_loader.c: see cuda_loader.h.
 *
 * The driver's entries are asked for with the version they had in CUDA 12.4, because newer drivers
 * keep old signatures under the same names. cuBLASLt is opened before cuDNN, which dies without it.
 * Libraries are never closed again: cuDNN keeps threads and handlers that outlive a handle. */
#include "backend/cuda/cuda_loader.h"

#include <dlfcn.h>

typedef int get_proc_address(const char *name, void **out, int version, uint64_t flags,
                             int *status);

/* What dlsym() gives is data to C; the union makes a function of it. */
typedef union symbol {
    void *data;
    get_proc_address *lookup;
} symbol;

static cairn_status open_library(const char *file, const char *what, void **out, cairn_error *err) {
    *out = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (*out == NULL)
        return crn_fail(err, CAIRN_ESYSTEM, "%s (%s) cannot be opened: %s", what, file, dlerror());
    return CAIRN_OK;
}

static cairn_status find_entry(void *library, const char *file, const char *name, void *out,
                               cairn_error *err) {
    void *found = dlsym(library, name);
    if (found == NULL)
        return crn_fail(err, CAIRN_ESYSTEM, "%s has no entry %s: another version is needed", file,
                        name);
    memcpy(out, &found, sizeof found);
    return CAIRN_OK;
}

static cairn_status load_driver(crn_cuda_api *api, cairn_error *err) {
    static const char file[] = "libcuda.so.1";
    CRN_TRY(open_library(file, "the NVIDIA driver", &api->libraries[0], err));
    symbol get = {NULL};
    CRN_TRY(find_entry(api->libraries[0], file, "cuGetProcAddress_v2", &get.data, err));
#define ENTRY(name, arguments)                                                                     \
    {                                                                                              \
        void *found = NULL;                                                                        \
        int status = 0;                                                                            \
        if (get.lookup(#name, &found, CRN_CUDA_VERSION, 0, &status) != 0 || found == NULL)         \
            return crn_fail(err, CAIRN_ESYSTEM,                                                    \
                            "the NVIDIA driver has no entry %s: it is older than CUDA 12.4 needs", \
                            #name);                                                                \
        memcpy(&api->name, &found, sizeof found);                                                  \
    }
    CRN_CUDA_DRIVER(ENTRY)
#undef ENTRY
    return CAIRN_OK;
}

static cairn_status load_blas(crn_cuda_api *api, cairn_error *err) {
    static const char file[] = "libcublasLt.so.13";
    void **library = &api->libraries[1];
    CRN_TRY(open_library(file, "cuBLASLt", library, err));
#define ENTRY(name, arguments) CRN_TRY(find_entry(*library, file, #name, &api->name, err));
    CRN_CUDA_BLAS(ENTRY)
#undef ENTRY
    return find_entry(*library, file, "cublasLtGetVersion", &api->cublasLtGetVersion, err);
}

static cairn_status load_dnn(crn_cuda_api *api, cairn_error *err) {
    static const char file[] = "libcudnn.so.9";
    void **library = &api->libraries[2];
    CRN_TRY(open_library(file, "cuDNN", library, err));
#define ENTRY(name, arguments) CRN_TRY(find_entry(*library, file, #name, &api->name, err));
    CRN_CUDA_CUDNN(ENTRY)
#undef ENTRY
    CRN_TRY(find_entry(*library, file, "cudnnGetErrorString", &api->cudnnGetErrorString, err));
    CRN_TRY(
        find_entry(*library, file, "cudnnGetLastErrorString", &api->cudnnGetLastErrorString, err));
    CRN_TRY(find_entry(*library, file, "cudnnGetVersion", &api->cudnnGetVersion, err));
    if (api->cudnnGetVersion() < CRN_CUDNN_OLDEST)
        return crn_fail(err, CAIRN_ESYSTEM, "cuDNN is version %zu; %d or newer is needed",
                        api->cudnnGetVersion(), CRN_CUDNN_OLDEST);
    return CAIRN_OK;
}

cairn_status crn_cuda_load_cudnn(crn_cuda_api *out, cairn_error *err) {
    memset(out, 0, sizeof *out);
    CRN_TRY(load_blas(out, err));
    return load_dnn(out, err);
}

cairn_status crn_cuda_load(crn_cuda_api *out, cairn_error *err) {
    memset(out, 0, sizeof *out);
    CRN_TRY(load_driver(out, err));
    CRN_TRY(load_blas(out, err));
    return load_dnn(out, err);
}
