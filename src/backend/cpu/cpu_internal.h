/* cpu_internal.h: shared by the kernels of the fast backend for processors.
 *
 *     convolutions, linear layers    recipes of oneDNN primitives (recipe.h)
 *     products of recurrent cells    oneDNN's matrix product, with the reference's cells around it
 *     attention                      oneDNN's matrix product on tiles, Cairn's own softmax
 *     other ops on images            Cairn's own loops over blocks of channels
 *     other ops on sequences         Cairn's own loops over rows
 *     the rest                       the reference, with a change of layout if needed
 *
 * Images are stored in blocks of as many channels as a vector register holds (cpu_storage.c): for
 * each image and block a plane of H*W places of B channels. A loop over one place is one vector
 * instruction; the loops are written plainly and compiled for several instruction sets
 * (CRN_VECTORISED). As in the reference, an index of a parallel loop owns what it writes, and the
 * order of sums depends only on shapes. */
#ifndef CPU_INTERNAL_H
#define CPU_INTERNAL_H

#include "backend/ref/ref_kernels.h"

/* The function is compiled for each of these targets; one is chosen when the program is loaded. */
#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && !defined(__clang__)
#define CRN_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CRN_VECTORISED
#endif

#define CRN_CPU_MOST_BLOCK 16u

/* ---- cpu_storage.c ---- */

/* Channels of a block on this machine. */
uint32_t crn_cpu_block(void);
/* Whether oneDNN multiplies bf16 with instructions of the processor. */
bool crn_cpu_has_bf16(void);
CAIRN_MUST cairn_status crn_cpu_store(crn_device *device, const cairn_graph *graph,
                                      crn_storage *out, cairn_error *err);

/* ---- cpu_team.c ---- */

/* Loops on the threads that oneDNN uses. */
crn_team_loop crn_cpu_team;

/* How many of these threads OpenMP grants here: fewer under OMP_THREAD_LIMIT and inside of a
 * parallel region. oneDNN must be told the right number: the threads of a primitive wait for each
 * other, and for one that does not come they wait forever. */
uint32_t crn_cpu_granted(uint32_t threads);

/* Whether it grants them all, to a device that got them when it was opened. */
bool crn_cpu_grants(int threads);

/* oneDNN takes the number of threads from the calling thread: set it, and let OpenMP not choose a
 * smaller one (OMP_DYNAMIC). leave() restores what enter() returned. */
typedef struct crn_cpu_region {
    int threads, dynamic;
} crn_cpu_region;
crn_cpu_region crn_cpu_enter(int threads);
void crn_cpu_leave(crn_cpu_region before);

/* The number of the calling thread in its loop, below the number of threads. */
size_t crn_cpu_thread(void);

/* ---- Images in blocks ---- */

/* An image tensor [N, C, H, W] as it is stored. */
typedef struct crn_image {
    size_t batch, channels, height, width;
    size_t plane;  /* H*W */
    size_t block;  /* B */
    size_t blocks; /* of an image: C/B, rounded up */
} crn_image;

static inline crn_image crn_image_of(const crn_call *call, cairn_id tensor) {
    const cairn_tensor *t = cairn_graph_tensor(call->graph, tensor);
    size_t block = call->storage[tensor].block;
    return (crn_image){.batch = t->shape[0],
                       .channels = t->shape[1],
                       .height = t->shape[2],
                       .width = t->shape[3],
                       .plane = (size_t)t->shape[2] * t->shape[3],
                       .block = block,
                       .blocks = (t->shape[1] + block - 1) / block};
}

/* The number of blocks of all images: most parallel loops run over them. Each has plane * block
 * elements. */
static inline uint32_t crn_image_blocks(const crn_image *image) {
    return (uint32_t)(image->batch * image->blocks);
}

/* Whether all images among the operands are stored in blocks; whether none is; whether all have the
 * same format. */
bool crn_cpu_all_blocked(const crn_site *site);
bool crn_cpu_all_plain(const crn_site *site);
bool crn_cpu_all_alike(const crn_site *site);

/* ---- cpu_fallback.c ---- */

/* The reference with a change of layout, if no other kernel of this backend fits. */
bool crn_cpu_fallback_fits(const crn_site *site);
uint64_t crn_cpu_fallback_workspace(const crn_site *site);
void crn_cpu_fallback(const crn_call *call);

/* ---- cpu_recurrent.c ---- */

/* c [M, N] = a [M, K] b [K, N] + keep * c, by oneDNN; a transposed operand is stored as [K, M] or
 * [N, K]. */
void crn_cpu_product(crn_queue *queue, crn_team *threads, bool a_transposed, bool b_transposed,
                     size_t m, size_t n, size_t k, const float *a, const float *b, float keep,
                     float *c);

/* ---- cpu_half_product.c ---- */

/* A matrix of bf16 in memory, stored as its transpose or not. */
typedef struct crn_half_matrix {
    const void *at;
    size_t pitch;
    bool transposed;
} crn_half_matrix;

/* c [M, N] = a [M, K] b [K, N], or that added to c. Sums are in fp32. */
typedef struct crn_half_product {
    size_t m, n, k;
    crn_half_matrix a, b;
    void *c; /* bf16 or fp32 */
    size_t c_pitch;
    bool c_half, add;
} crn_half_product;

void crn_cpu_half_product(crn_queue *queue, crn_team *threads, crn_half_product product);

/* ---- A head with its loss: cpu_head.c, cpu_token_loss.c ---- */

extern const crn_kernel crn_cpu_heads[CRN_HEAD_CHOICES];
void crn_cpu_head_lose(const crn_head_chunk *chunk);

/* ---- The kernels, from the list ---- */

#define RECIPE(kind, builder)
#define KERNEL(kind, function, fits, workspace) void crn_cpu_##function(const crn_call *call);
#include "backend/cpu/cpu_kernels.def"
#undef KERNEL
#undef RECIPE

uint64_t crn_cpu_lstm_workspace(const crn_site *site);
uint64_t crn_cpu_norm_workspace(const crn_site *site);
uint64_t crn_cpu_row_norm_workspace(const crn_site *site);
uint64_t crn_cpu_token_loss_workspace(const crn_site *site);
uint64_t crn_cpu_attention_workspace(const crn_site *site);
uint64_t crn_cpu_attention_bwd_workspace(const crn_site *site);

#endif
