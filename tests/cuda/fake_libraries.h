/* fake_libraries.h: cuDNN and cuBLASLt as the backend cuda uses them, on the processor, for tests.
 *
 * Convolutions and products are computed naively from what the descriptors say, so a wrong size,
 * stride, padding or transpose shows as a wrong result. Every call may be made to fail, like those
 * of the driver: see fake_driver.h. */
#ifndef FAKE_LIBRARIES_H
#define FAKE_LIBRARIES_H

#include "backend/backend.h"
#include "backend/cuda/cuda_abi.h"

/* The entries of fake_driver() and those of both libraries. */
const crn_cuda_api *fake_driver_with_libraries(void);

/* Descriptors, layouts, products and handles that were made and not destroyed. */
uint64_t fake_libraries_objects(void);

/* How often each library has computed something. */
uint64_t fake_convolutions_run(void), fake_products_run(void);

/* cuDNN refuses every shape and cuBLASLt has no product, so Cairn's own kernels do the work. */
void fake_libraries_refuse(bool refuse);

/* The backend `cuda` on these. */
extern const crn_backend fake_backend_cuda_libraries;

#endif
