/* cuda_context.c: the functions of the backend's table. Each runs with the device's context as the
 * thread's current one and then makes the caller's current again, which may be another library's.
 */
#include "backend/cuda/cuda_internal.h"

CUcontext crn_cuda_enter(crn_device *device) {
    CUcontext before = NULL;
    (void)crn_cuda_ok(device, device->api->cuCtxGetCurrent(&before), "asking for the context");
    if (before != device->context)
        (void)crn_cuda_ok(device, device->api->cuCtxSetCurrent(device->context),
                          "choosing the GPU");
    return before;
}

void crn_cuda_leave(crn_device *device, CUcontext before) {
    if (before != device->context)
        (void)crn_cuda_ok(device, device->api->cuCtxSetCurrent(before), "restoring the context");
}

#define ACTION(name, of, parameters, arguments)                                                    \
    void crn_cuda_within_##name parameters {                                                       \
        crn_device *within = (of);                                                                 \
        CUcontext before = crn_cuda_enter(within);                                                 \
        crn_cuda_##name arguments;                                                                 \
        crn_cuda_leave(within, before);                                                            \
    }
#define ANSWER(type, name, of, parameters, arguments)                                              \
    type crn_cuda_within_##name parameters {                                                       \
        crn_device *within = (of);                                                                 \
        CUcontext before = crn_cuda_enter(within);                                                 \
        type answer = crn_cuda_##name arguments;                                                   \
        crn_cuda_leave(within, before);                                                            \
        return answer;                                                                             \
    }
CRN_CUDA_TABLE(ACTION, ANSWER)

/* The device is gone when its function returns. Without a context there is nothing to enter. */
void crn_cuda_within_close(crn_device *device) {
    if (device == NULL || device->context == NULL) {
        crn_cuda_close(device);
        return;
    }
    int (*set_current)(CUcontext) = device->api->cuCtxSetCurrent;
    CUcontext own = device->context, before = crn_cuda_enter(device);
    crn_cuda_close(device);
    if (before != own)
        (void)set_current(before);
}
