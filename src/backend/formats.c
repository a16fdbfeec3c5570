/* formats.c: see formats.h.
 *
 *     plain          n  c  h  w        element (n, c, i), i = h W + w, at ((n C) + c) P + i
 *     blocks         n  c/B  h  w  b   at ((n C/B + c/B) P + i) B + c%B
 *     channels last  n  h  w  c        at (n P + i) C' + c, C' = C rounded up to a multiple of B */
#include "backend/formats.h"
#include "backend/bf16.h"

static uint32_t graph_size(cairn_dtype dtype) {
    return dtype == CAIRN_DTYPE_U8 ? 1 : 4;
}

static uint32_t stored_size(const cairn_tensor *tensor, uint8_t type) {
    return type == CRN_AS_GRAPH || type == CRN_TWICE ? graph_size(tensor->dtype) : 2;
}

uint64_t crn_tensor_rows(const cairn_tensor *tensor) {
    return tensor->rank > 0 && tensor->bytes % tensor->shape[0] == 0 ? tensor->shape[0] : 1;
}

crn_storage crn_storage_of(const cairn_tensor *tensor, crn_format format, uint32_t block,
                           crn_type type) {
    uint64_t elements = tensor->bytes / graph_size(tensor->dtype);
    crn_storage storage = {.block = 1, .format = CRN_PLAIN};
    storage.type = (uint8_t)(tensor->dtype == CAIRN_DTYPE_F32 ? type : CRN_AS_GRAPH);
    if (format != CRN_PLAIN && tensor->rank == 4) {
        uint64_t channels = tensor->shape[1];
        storage.format = (uint8_t)format;
        storage.block = block;
        elements = elements / channels * ((channels + block - 1) / block * block);
    }
    storage.bytes = storage.format == CRN_PLAIN && storage.type == CRN_AS_GRAPH
                        ? tensor->bytes
                        : elements * stored_size(tensor, storage.type);
    if (storage.type == CRN_TWICE) /* plain */
        storage.bytes = crn_align(tensor->bytes) + elements * sizeof(uint16_t);
    return storage;
}

crn_storage crn_storage_once(const cairn_tensor *tensor, crn_storage storage) {
    if (storage.type == CRN_TWICE)
        storage = (crn_storage){.bytes = tensor->bytes, .block = 1};
    return storage;
}

uint64_t crn_stored_elements(const cairn_tensor *tensor, crn_storage storage) {
    return crn_storage_once(tensor, storage).bytes / stored_size(tensor, storage.type);
}

/* ---- Types ---- */

/* Values that round to more than 65504 become infinity; below 2^-14 the spacing stays 2^-24. */
static uint16_t to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* adding 0.5 rounds to multiples of 2^-24 */
        float rounded;
        memcpy(&rounded, &magnitude, sizeof rounded);
        rounded += 0.5f;
        memcpy(&magnitude, &rounded, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

static float from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    float value;
    if (magnitude < 0x400) {
        value = (float)magnitude / 16777216.0f;
        return sign != 0 ? -value : value;
    }
    magnitude = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
    magnitude |= sign;
    memcpy(&value, &magnitude, sizeof value);
    return value;
}

/* ---- Elements ---- */

typedef struct places {
    const crn_conversion *of;
    uint64_t channels, padded, plane; /* of a row; a plain row is one channel */
    uint32_t host_size, stored_size;
} places;

static uint64_t stored_place(const places *p, uint64_t row, uint64_t c, uint64_t i) {
    uint64_t block = p->of->storage.block, first = row * p->padded * p->plane;
    switch ((crn_format)p->of->storage.format) {
    case CRN_BLOCKS:
        return first + (c / block * p->plane + i) * block + c % block;
    case CRN_CHANNELS_LAST:
        return first + i * p->padded + c;
    default:
        return first + c * p->plane + i;
    }
}

static void store_element(const places *p, char *to, const char *from) {
    float value = 0;
    uint16_t half;
    if (p->of->storage.type == CRN_AS_GRAPH) {
        memcpy(to, from, p->host_size);
        return;
    }
    memcpy(&value, from, sizeof value);
    half = p->of->storage.type == CRN_BF16 ? crn_to_bf16(value) : to_f16(value);
    memcpy(to, &half, sizeof half);
}

static void load_element(const places *p, char *to, const char *from) {
    uint16_t half;
    if (p->of->storage.type == CRN_AS_GRAPH) {
        memcpy(to, from, p->host_size);
        return;
    }
    memcpy(&half, from, sizeof half);
    float value = p->of->storage.type == CRN_BF16 ? crn_from_bf16(half) : from_f16(half);
    memcpy(to, &value, sizeof value);
}

static void convert_row(const places *p, uint64_t row) {
    const crn_conversion *of = p->of;
    char *host = (char *)of->host + (row - of->first) * p->channels * p->plane * p->host_size;
    for (uint64_t c = 0; c < p->padded; c++)
        for (uint64_t i = 0; i < p->plane; i++) {
            char *stored = (char *)of->stored + stored_place(p, row, c, i) * p->stored_size;
            if (c < p->channels && of->to_host)
                load_element(p, host + (c * p->plane + i) * p->host_size, stored);
            else if (c < p->channels)
                store_element(p, stored, host + (c * p->plane + i) * p->host_size);
            else if (!of->to_host)
                memset(stored, 0, p->stored_size);
        }
}

/* Both forms of a tensor that is stored twice; the copy is only written. */
static void convert_twice(const crn_conversion *of) {
    crn_conversion one = *of;
    one.storage = crn_storage_once(of->tensor, of->storage);
    crn_convert_rows(&one);
    if (of->to_host)
        return;
    one.storage = crn_storage_of(of->tensor, CRN_PLAIN, 1, CRN_BF16);
    one.stored = crn_copy_of(of->tensor, of->storage, of->stored);
    crn_convert_rows(&one);
}

void crn_convert_rows(const crn_conversion *of) {
    const cairn_tensor *tensor = of->tensor;
    uint64_t rows = crn_tensor_rows(tensor), bytes = tensor->bytes / rows;
    if (of->storage.type == CRN_TWICE) {
        convert_twice(of);
        return;
    }
    if (of->storage.format == CRN_PLAIN && of->storage.type == CRN_AS_GRAPH) {
        char *stored = (char *)of->stored + of->first * bytes;
        if (of->rows * bytes > 0)
            memcpy(of->to_host ? of->host : stored, of->to_host ? stored : of->host,
                   of->rows * bytes);
        return;
    }
    places p = {.of = of, .channels = 1, .host_size = graph_size(tensor->dtype)};
    p.stored_size = stored_size(tensor, of->storage.type);
    if (of->storage.format != CRN_PLAIN)
        p.channels = tensor->shape[1];
    p.plane = bytes / p.host_size / p.channels;
    p.padded = (p.channels + of->storage.block - 1) / of->storage.block * of->storage.block;
    for (uint64_t row = of->first; row < of->first + of->rows; row++)
        convert_row(&p, row);
}
