/* cuda_choices.c: the implementations of an op.
 *
 * A convolution has one for each useful plan of cuDNN: the first few that it proposes, in the order
 * of crn_dnn_prefer(), and of the others those that need less workspace than all before. In fp32
 * Cairn's own kernels for matrix units come first, with each of their tiles. A linear
 * layer of bf16 sequences has the first few algorithms of cuBLASLt. A head with its loss has both
 * for each number of chunks. If cuDNN has none, and for every other op, there is one
 * implementation. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/kernels/split_shapes.h"
#include "backend/formats.h"
#include "graph/head_chunks.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_PROPOSALS 40
#define FIRST_FEW 3u
#define MOST_PLANS 8

/* Add a recipe for the op, which begins as `from`. Its workspace is found by preparing it. */
static cairn_status add_choice(crn_device *device, const crn_site *site,
                               const crn_cuda_recipe *from, const char *name, crn_choice *out,
                               cairn_error *err) {
    crn_cuda_recipe *recipe = crn_resize(&device->allocator, NULL, 0, sizeof *recipe);
    if (recipe == NULL)
        return crn_fail_memory(err);
    *recipe = *from;
    crn_call call = {.graph = site->graph,
                     .op = site->op,
                     .storage = site->storage,
                     .recipe = recipe,
                     .training = true};
    crn_work work = {.device = device, .call = &call, .recipe = recipe, .preparing = true};
    crn_cuda_op_of(site->op->kind)(&work);
    recipe->workspace = work.used;
    *out = (crn_choice){.workspace = work.used, .recipe = recipe};
    crn_copy_string(out->name, sizeof out->name, name);
    return CAIRN_OK;
}

void crn_cuda_drop(crn_device *device, crn_choice *choice) {
    union {
        const void *given;
        crn_cuda_recipe *ours;
    } recipe = {choice->recipe};
    if (recipe.ours == NULL)
        return;
    crn_dnn_drop(&device->dnn, recipe.ours->plan.plan);
    for (uint32_t i = 0; i < recipe.ours->product_count; i++)
        crn_blas_drop(device->api, &recipe.ours->products[i].plan);
    crn_resize(&device->allocator, recipe.ours, sizeof *recipe.ours, 0);
    choice->recipe = NULL;
}

static cairn_status add_plans(crn_device *device, const crn_site *site, crn_dnn_plan *plans,
                              uint32_t found, crn_choice *out, uint32_t *count, cairn_error *err) {
    cairn_status status = CAIRN_OK;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < found; i++) {
        bool wanted = status == CAIRN_OK && *count < MOST_PLANS &&
                      (i < FIRST_FEW || plans[i].workspace < least);
        if (wanted) {
            char name[32];
            snprintf(name, sizeof name, "cudnn.e%" PRId64 ".%" PRIu32, plans[i].engine,
                     plans[i].rank);
            status = add_choice(device, site, &(crn_cuda_recipe){.plan = plans[i]}, name,
                                &out[*count], err);
            wanted = status == CAIRN_OK;
            *count += wanted;
        }
        if (!wanted)
            crn_dnn_drop(&device->dnn, plans[i].plan);
        least = CRN_MIN(least, plans[i].workspace);
    }
    return status;
}

/* Convolutions in fp32 by matrix units, with the tiles that are likely to be the fastest first. */
static cairn_status add_splits(crn_device *device, const crn_site *site, crn_choice *out,
                               uint32_t *count, cairn_error *err) {
    static const uint32_t order[] = {CRN_SPLIT_HOPPER, CRN_SPLIT_64x128, CRN_SPLIT_64x64};
    for (uint32_t i = 0; i < CRN_LENGTH(order); i++) {
        if (!crn_cuda_splits(device, site, order[i]))
            continue;
        CRN_TRY(add_choice(device, site, &(crn_cuda_recipe){.split = 1 + order[i]},
                           crn_split_names[order[i]], &out[*count], err));
        ++*count;
    }
    return CAIRN_OK;
}

#define MOST_PRODUCTS 8u /* the fastest one may be any of them */
#define MOST_HEADS 4u
#define MOST_OF_CHUNKS 2u

/* Linear layers and heads: one implementation for each of cuBLASLt's first proposals, `most` of
 * them. */
static cairn_status add_products(crn_device *device, const crn_site *site, uint32_t chunks,
                                 uint32_t most, crn_choice *out, uint32_t *count,
                                 cairn_error *err) {
    for (uint32_t rank = 0; rank < most; rank++) {
        char name[32];
        if (chunks > 1)
            snprintf(name, sizeof name, "chunks.%" PRIu32 ".%" PRIu32, chunks, rank);
        else
            snprintf(name, sizeof name, "%s.%" PRIu32, chunks == 1 ? "whole" : "cublaslt", rank);
        CRN_TRY(add_choice(device, site, &(crn_cuda_recipe){.rank = rank, .chunks = chunks}, name,
                           &out[*count], err));
        const crn_cuda_recipe *recipe = out[*count].recipe;
        bool last = recipe->product_count == 0 || recipe->products[0].plan.rank < rank;
        if (rank > 0 && last) {
            crn_cuda_drop(device, &out[*count]);
            return CAIRN_OK;
        }
        ++*count;
        if (last)
            return CAIRN_OK;
    }
    return CAIRN_OK;
}

static bool is_half_product(const crn_device *device, const crn_site *site) {
    cairn_op_kind kind = site->op->kind;
    return device->blas != NULL && crn_cuda_element(site) == CRN_ELEMENT_BF16 &&
           (kind == CAIRN_OP_LINEAR || kind == CAIRN_OP_LINEAR_BWD_DATA ||
            kind == CAIRN_OP_LINEAR_BWD_WEIGHT);
}

/* ---- Attention ---- */

#define FORWARD_PLANS 2u      /* of versions of cuDNN the second one is faster */
#define MOST_ATTENTION 4u     /* implementations of a gradient */
#define FEW_BYTES (64u << 20) /* of workspace: nothing smaller is tried */

/* A quarter of the sequences, or of the heads of one sequence; false: nothing is smaller. */
static bool make_smaller(crn_attention_shape *shape) {
    int64_t *count = shape->batch > 1 ? &shape->batch : &shape->kv_heads;
    int64_t group = shape->heads / shape->kv_heads, smaller = CRN_MAX(*count / 4, 1);
    while (*count % smaller != 0)
        smaller--;
    bool made = smaller < *count;
    *count = smaller;
    shape->heads = shape->kv_heads * group;
    return made;
}

static cairn_status add_attention_plans(crn_device *device, const crn_site *site,
                                        const crn_attention_shape *shape, int64_t runs,
                                        crn_choice *out, uint32_t *count, cairn_error *err) {
    crn_dnn_plan plans[FORWARD_PLANS];
    uint32_t found = 0;
    cairn_status status = crn_attention_propose(&device->dnn, shape, plans,
                                                shape->backward ? 1 : FORWARD_PLANS, &found, err);
    for (uint32_t i = 0; i < found; i++) {
        char name[32];
        snprintf(name, sizeof name, "cudnn.e%" PRId64 ".%" PRIu32 "%s%.0" PRId64, plans[i].engine,
                 plans[i].rank, runs > 1 ? ".p" : "", runs > 1 ? runs : 0);
        if (status == CAIRN_OK)
            status =
                add_choice(device, site, &(crn_cuda_recipe){.plan = plans[i], .attention = *shape},
                           name, &out[*count], err);
        if (status == CAIRN_OK)
            ++*count;
        else
            crn_dnn_drop(&device->dnn, plans[i].plan);
    }
    return status;
}

/* The gradient's workspace by cuDNN is proportional to the sequences and heads of a run. Without
 * kernels that need little, some plans of several runs are implementations too. */
static cairn_status add_attention(crn_device *device, const crn_site *site,
                                  const crn_attention_shape *whole, crn_choice *out,
                                  uint32_t *count, cairn_error *err) {
    crn_attention_shape shape = *whole;
    bool hopper = crn_hopper_can(device, site, whole);
    if (hopper) {
        CRN_TRY(add_choice(device, site, &(crn_cuda_recipe){.hopper = true}, "hopper", &out[*count],
                           err));
        ++*count;
    }
    if (!crn_cuda_attention_by_dnn(device, site, whole))
        return CAIRN_OK;
    CRN_TRY(add_attention_plans(device, site, &shape, 1, out, count, err));
    while (shape.backward && !hopper && *count > 0 && *count < MOST_ATTENTION &&
           out[*count - 1].workspace > FEW_BYTES && make_smaller(&shape)) {
        int64_t runs = whole->batch / shape.batch * (whole->kv_heads / shape.kv_heads);
        CRN_TRY(add_attention_plans(device, site, &shape, runs, out, count, err));
    }
    return CAIRN_OK;
}

/* Get the proposals of cuDNN. Only the first few are reordered, because later ones are slower. */
static cairn_status propose(crn_device *device, const crn_dnn_shape *shape, crn_dnn_plan *plans,
                            uint32_t *found, cairn_error *err) {
    CRN_TRY(crn_dnn_propose(&device->dnn, shape, plans, MOST_PROPOSALS, found, err));
    crn_dnn_prefer(shape, plans, CRN_MIN(*found, FIRST_FEW));
    return CAIRN_OK;
}

/* ---- Sizes ---- */

/* Kernels count elements in 32 bits and may count a few blocks further. */
#define MOST_ELEMENTS (UINT32_MAX - (1u << 20))
/* Those of pooling multiply a height, or width, with the other image's, in 31 bits. */
#define MOST_POOLED 46339u

static bool is_pooling(cairn_op_kind kind) {
    return kind == CAIRN_OP_MAX_POOL || kind == CAIRN_OP_MAX_POOL_BWD ||
           kind == CAIRN_OP_AVG_POOL || kind == CAIRN_OP_AVG_POOL_BWD ||
           kind == CAIRN_OP_ADAPTIVE_AVG_POOL || kind == CAIRN_OP_ADAPTIVE_AVG_POOL_BWD;
}

static cairn_status check_tensor(const crn_site *site, cairn_id id, cairn_error *err) {
    if (id == CAIRN_NONE)
        return CAIRN_OK;
    const cairn_tensor *tensor = cairn_graph_tensor(site->graph, id);
    const crn_storage *storage = &site->storage[id];
    if (crn_stored_elements(tensor, *storage) > MOST_ELEMENTS)
        return crn_fail_at(err, CAIRN_EINVAL, site->op->name,
                           "tensor \"%s\" of op \"%s\" has more elements than the kernels of the "
                           "backend cuda can count",
                           tensor->name, site->op->name);
    if (is_pooling(site->op->kind) && tensor->rank == 4 &&
        CRN_MAX(tensor->shape[2], tensor->shape[3]) > MOST_POOLED)
        return crn_fail_at(err, CAIRN_EINVAL, site->op->name,
                           "op \"%s\" pools images of more than %u rows or columns, which the "
                           "backend cuda cannot do",
                           site->op->name, MOST_POOLED);
    return CAIRN_OK;
}

static cairn_status check_sizes(const crn_site *site, cairn_error *err) {
    const cairn_op *op = site->op;
    crn_attention_shape attention;
    if (crn_cuda_attention_shape(site, &attention) && attention.size > CRN_ATTENTION_MOST)
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "op \"%s\" has heads of %lld elements; the backend cuda can do at most "
                           "%u",
                           op->name, (long long)attention.size, CRN_ATTENTION_MOST);
    for (uint32_t i = 0; i < op->input_count; i++)
        CRN_TRY(check_tensor(site, op->inputs[i], err));
    for (uint32_t i = 0; i < op->output_count; i++)
        CRN_TRY(check_tensor(site, op->outputs[i], err));
    for (uint32_t i = 0; i < op->param_count; i++)
        CRN_TRY(check_tensor(site, op->params[i], err));
    return CAIRN_OK;
}

/* Heads: all numbers of chunks, each with a few algorithms for its products. A profile runs a step
 * for each of them, so those of chunks, which are only slower, are fewer. */
static cairn_status add_heads(crn_device *device, const crn_site *site, crn_choice *out,
                              uint32_t *count, cairn_error *err) {
    bool half = crn_cuda_element(site) == CRN_ELEMENT_BF16;
    for (uint32_t chunks = 1; chunks < 1u << CRN_HEAD_CHOICES; chunks *= 2)
        if (crn_head_can_have_chunks(site->graph, site->op, chunks) &&
            crn_head_logits(site->graph, site->op, chunks) <= MOST_ELEMENTS)
            CRN_TRY(add_products(device, site, chunks,
                                 !half        ? 1
                                 : chunks > 1 ? MOST_OF_CHUNKS
                                              : MOST_HEADS,
                                 out, count, err));
    return crn_cuda_take_failure(device, err);
}

cairn_status crn_cuda_choices(crn_device *device, const crn_site *site, crn_choice *out,
                              uint32_t *count, cairn_error *err) {
    crn_dnn_shape shape;
    crn_attention_shape attention;
    crn_dnn_plan plans[MOST_PROPOSALS];
    uint64_t offset;
    uint32_t found = 0;
    *count = 0;
    if (crn_cuda_op_of(site->op->kind) == NULL)
        return CAIRN_OK;
    CRN_TRY(check_sizes(site, err));
    if (device->dnn.handle != NULL && !crn_cuda_is_depthwise(site) &&
        !crn_cuda_multiplies(device, site) &&
        crn_cuda_conv_shape(site, device->exact, &shape, &offset))
        CRN_TRY(propose(device, &shape, plans, &found, err));
    cairn_status status = add_splits(device, site, out, count, err);
    bool splits = *count > 0;
    if (status == CAIRN_OK)
        status = add_plans(device, site, plans, found, out, count, err);
    if (status == CAIRN_OK && is_half_product(device, site))
        status = add_products(device, site, 0, MOST_PRODUCTS, out, count, err);
    if (status == CAIRN_OK && site->op->kind == CAIRN_OP_HEAD_LOSS)
        status = add_heads(device, site, out, count, err);
    if (status == CAIRN_OK && crn_cuda_attention_shape(site, &attention))
        status = add_attention(device, site, &attention, out, count, err);
    while (status != CAIRN_OK && *count > 0)
        crn_cuda_drop(device, &out[--*count]);
    CRN_TRY(status);
    if (*count > 0)
        crn_cuda_look(device, CRN_STAGE_PLANS);
    if (*count > 0 && !(splits && crn_cuda_multiplies(device, site)))
        return CAIRN_OK;
    status = add_choice(device, site, &(crn_cuda_recipe){0}, "own", &out[*count], err);
    *count += status == CAIRN_OK;
    if (status == CAIRN_OK)
        status = crn_cuda_take_failure(device, err);
    while (status != CAIRN_OK && *count > 0)
        crn_cuda_drop(device, &out[--*count]);
    return status;
}
