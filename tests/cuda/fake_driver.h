/* fake_driver.h: CUDA's driver as the backend uses it, on the processor, for tests.
 *
 * Device memory is the host's; kernels run as C (kernels/processor_grid.h). What is captured
 * becomes nodes with edges. A graph that is launched runs its nodes in an order that the edges
 * allow, a different one each time. So a missing edge gives a wrong result. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "backend/backend.h"
#include "backend/cuda/cuda_abi.h"

/* The table of entries; without cuDNN and cuBLASLt. */
const crn_cuda_api *fake_driver(void);

/* What happened since the program started. */
typedef struct fake_counts {
    uint64_t allocated, pinned; /* blocks of memory in use */
    uint64_t device_bytes;      /* of the blocks of device memory */
    uint64_t kernels, copies;   /* run, in graphs or not */
    uint64_t graphs;            /* that exist */
    uint64_t launches;          /* of graphs */
    uint64_t direct;            /* put on a stream by itself, not captured */
    uint64_t nodes, edges;      /* of the graph that was instantiated last */
    uint64_t kernel_nodes;      /* of those nodes */
    uint64_t updates;           /* of those */
    uint64_t free_updates;      /* of those, updates that can run at the same time as some copy */
} fake_counts;
fake_counts fake_driver_counts(void);

/* From the k-th launch of a kernel on, counted from now, every call fails; 0: no call fails. */
void fake_driver_fail_at(uint64_t k);

/* Blocks of more bytes are refused: there is no more memory. Both begin with 8 GiB. */
void fake_driver_most(uint64_t device_bytes, uint64_t pinned_bytes);

/* The k-th call of any entry fails, counted from now, or that and all later ones; 0: none does.
 * Entries that release do so all the same. */
void fake_driver_fail_call(uint64_t k, bool and_all_later);
bool fake_driver_call_failed(void);   /* since then */
void fake_driver_fail_as(int result); /* what such a call answers; 0: an illegal memory access */

/* For entries of other libraries: what this call has to answer, 0 or a failure; and work for a
 * stream, done now or as a node of a graph. */
int fake_driver_answer(void);
int fake_driver_put(CUstream stream, void (*function)(const void *args), void *args,
                    size_t args_bytes);

/* At the beginning of every entry that has something to do. */
#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        int failed = fake_driver_answer();                                                         \
        if (failed != 0)                                                                           \
            return failed;                                                                         \
    } while (0)

/* Nodes run in the order in which they were captured, or in one drawn from the seed. */
void fake_driver_in_order(void);
void fake_driver_at_random(uint64_t seed);

/* The backend `cuda` on this driver. */
extern const crn_backend fake_backend_cuda_host;

#endif
