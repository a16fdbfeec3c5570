/* test_cuda_loader.c: NVIDIA's libraries as dlopen() and dlsym() give them, which are wrapped: each
 * of them and each of their entries is missing once, and the error names it. With all of them there
 * a device is opened and described, as on a machine with a GPU. */
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_loader.h"
#include "check.h"
#include "fake_driver.h"
#include "fake_libraries.h"

#include <dlfcn.h>

extern const crn_backend crn_backend_cuda;

/* The kernels as a build with nvcc has them, or, with CAIRN_NO_KERNELS, as one without it. */
#ifdef CAIRN_NO_KERNELS
const unsigned char *const crn_cuda_fatbin = NULL;
const char crn_cuda_fatbin_missing[] = "nvcc was not found";
#else
static const unsigned char fatbin[1];
const unsigned char *const crn_cuda_fatbin = fatbin;
const char crn_cuda_fatbin_missing[] = "";
#endif

const unsigned char *const crn_cuda_hopper = NULL;

static const char *missing = ""; /* a library or an entry */
static bool refused;             /* the driver's lookup fails with its own message */
static size_t dnn_version = CRN_CUDNN_OLDEST;

void *__wrap_dlopen(const char *file, int flags);
void *__wrap_dlsym(void *library, const char *name);
char *__wrap_dlerror(void);

void *__wrap_dlopen(const char *file, int flags) {
    static char library;
    (void)flags;
    return strcmp(file, missing) == 0 ? NULL : &library;
}

char *__wrap_dlerror(void) {
    static char reason[] = "no such file";
    return reason;
}

static size_t get_dnn_version(void) {
    return dnn_version;
}

/* The entry of the fake table called `name`. */
static void *entry_of(const char *name) {
    const crn_cuda_api *api = fake_driver_with_libraries();
    void *found = NULL;
#define ENTRY(entry, arguments)                                                                    \
    if (strcmp(name, #entry) == 0)                                                                 \
        memcpy(&found, &api->entry, sizeof found);
    CRN_CUDA_DRIVER(ENTRY)
    CRN_CUDA_CUDNN(ENTRY)
    CRN_CUDA_BLAS(ENTRY)
    ENTRY(cudnnGetErrorString, )
    ENTRY(cudnnGetLastErrorString, )
    ENTRY(cublasLtGetVersion, )
#undef ENTRY
    return found;
}

static int get_proc_address(const char *name, void **out, int version, uint64_t flags,
                            int *status) {
    bool there = strcmp(name, missing) != 0;
    (void)flags;
    *out = there || refused ? entry_of(name) : NULL;
    *status = 0;
    CHECK(version == CRN_CUDA_VERSION);
    return there || !refused ? 0 : 500;
}

void *__wrap_dlsym(void *library, const char *name) {
    union {
        int (*lookup)(const char *, void **, int, uint64_t, int *);
        size_t (*version)(void);
        void *data;
    } found = {NULL};
    (void)library;
    if (strcmp(name, missing) == 0)
        return NULL;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        found.lookup = get_proc_address;
    else if (strcmp(name, "cudnnGetVersion") == 0)
        found.version = get_dnn_version;
    else
        found.data = entry_of(name);
    return found.data;
}

/* `sentence` is a format for what is missing. */
static void expect_missing(const char *what, const char *sentence) {
    crn_cuda_api api;
    cairn_error err = {0};
    char expected[256];
    missing = what;
    snprintf(expected, sizeof expected, sentence, what);
    CHECK(crn_cuda_load(&api, &err) == CAIRN_ESYSTEM);
    CHECK_STRING(err.message, expected);
    missing = "";
}

static void test_missing(void) {
#define OLD "the NVIDIA driver has no entry %s: a driver for CUDA 12.4 or newer is needed"
#define ANOTHER(library) library " has no entry %s: another version is needed"
#define BLAS ANOTHER("libcublasLt.so.13")
#define DNN ANOTHER("libcudnn.so.9")
#define DRIVER_ENTRY(name, arguments) {#name, OLD},
#define BLAS_ENTRY(name, arguments) {#name, BLAS},
#define DNN_ENTRY(name, arguments) {#name, DNN},
    static const char *const cases[][2] = {
        {"libcuda.so.1", "the NVIDIA driver (%s) cannot be opened: no such file"},
        {"libcublasLt.so.13", "cuBLASLt (%s) cannot be opened: no such file"},
        {"libcudnn.so.9", "cuDNN (%s) cannot be opened: no such file"},
        {"cuGetProcAddress_v2", OLD},
        CRN_CUDA_DRIVER(DRIVER_ENTRY) CRN_CUDA_BLAS(BLAS_ENTRY)
            CRN_CUDA_CUDNN(DNN_ENTRY){"cublasLtGetVersion", BLAS},
        {"cudnnGetErrorString", DNN},
        {"cudnnGetLastErrorString", DNN},
        {"cudnnGetVersion", DNN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_missing(cases[i][0], cases[i][1]);
    refused = true;
    expect_missing("cuGraphLaunch", OLD);
    refused = false;
}

static void test_version(void) {
    crn_cuda_api api;
    cairn_error err = {0};
    dnn_version = CRN_CUDNN_OLDEST - 1;
    CHECK(crn_cuda_load_cudnn(&api, &err) == CAIRN_ESYSTEM);
    char expected[100];
    snprintf(expected, sizeof expected, "cuDNN is version %d; %d or newer is needed",
             CRN_CUDNN_OLDEST - 1, CRN_CUDNN_OLDEST);
    CHECK_STRING(err.message, expected);
    dnn_version = CRN_CUDNN_OLDEST;
    CHECK_OK(crn_cuda_load_cudnn(&api, &err), &err);
}

static void test_open(void) {
    cairn_device *device;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_error err = {0};
    CHECK_U64(crn_backend_cuda.devices(), 1);
    CHECK_OK(crn_device_open(&crn_backend_cuda, NULL, &device, &err), &err);
    cairn_device_describe(device, &facts);
    CHECK_STRING(facts.name, "the processor, as if it were a GPU");
    cairn_device_close(device);
    options.index = 1;
    CHECK(crn_device_open(&crn_backend_cuda, &options, &device, &err) == CAIRN_EUNKNOWN);
    CHECK(strstr(err.message, "has 1 devices; there is no device 1") != NULL);
    missing = "libcudnn.so.9";
    CHECK(crn_device_open(&crn_backend_cuda, NULL, &device, &err) == CAIRN_ESYSTEM);
    CHECK(strstr(err.message, "libcudnn.so.9") != NULL);
    missing = "";
    CHECK_U64(fake_libraries_objects(), 0);
}

/* Opening, whose k-th call answers `result`, says these words. */
static void expect_refusal(uint64_t k, int result, const char *words) {
    crn_device_options options = {.index = 0};
    crn_device *device;
    cairn_error err = {0};
    fake_driver_fail_call(k, false);
    fake_driver_fail_as(result);
    CHECK(fake_backend_cuda_libraries.open(&options, &device, &err) == CAIRN_ESYSTEM);
    CHECK(fake_driver_call_failed() && device == NULL);
    if (strstr(err.message, words) == NULL) {
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.message, words);
        check_failures++;
    }
    fake_driver_fail_call(0, false);
    fake_driver_fail_as(0);
    CHECK_U64(fake_libraries_objects(), 0);
}

static void test_refusals(void) {
    crn_device_options options = {.index = 3};
    crn_device *device;
    cairn_error err = {0};
    CHECK(fake_backend_cuda_libraries.open(&options, &device, &err) == CAIRN_EUNKNOWN);
    CHECK(strstr(err.message, "there is no GPU 3; there are 1") != NULL);
    expect_refusal(1, CRN_CUDA_NO_DEVICE, "there is no NVIDIA GPU on this machine");
    expect_refusal(1, 999, "starting the driver fails: no reason is given");
    expect_refusal(3, 0, "opening the device fails: an illegal memory access");
    uint64_t k = 7 + CRN_LANES + 1; /* memory is looked at behind the streams */
    expect_refusal(k++, 1, "cuBLASLt cannot be used: status 1");
    expect_refusal(k++, 1, "cuDNN cannot be used");
    expect_refusal(k++, 1, "cuDNN cannot be used");
    expect_refusal(++k, CRN_CUDA_NO_BINARY, "the kernels were not built for this GPU");
    expect_refusal(k, 1, "loading the kernels fails");
}

static void test_no_kernels(void) {
    cairn_device *device;
    cairn_error err = {0};
    CHECK_U64(crn_backend_cuda.devices(), 0);
    CHECK(crn_device_open(&crn_backend_cuda, NULL, &device, &err) == CAIRN_ESYSTEM);
    CHECK_STRING(err.message, "this build of Cairn has no kernels for GPUs: nvcc was not found");
    CHECK_U64(fake_libraries_objects(), 0);
}

int main(void) {
    if (crn_cuda_fatbin == NULL) {
        test_no_kernels();
        return check_result();
    }
    test_refusals();
    test_missing();
    test_version();
    test_open();
    return check_result();
}
