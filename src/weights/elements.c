/* elements.c: the kinds of elements of a safetensors file: their names, sizes, byte order, and
 * floats made of those that are real numbers. */
#include "weights/weights_internal.h"

static const struct {
    const char *name;
    uint32_t bytes;
} elements[CAIRN_ELEMENTS] = {
#define X(name, number, bytes) [number] = {#name, bytes},
    CAIRN_ELEMENT_LIST(X)
#undef X
};

const char *crn_element_name(cairn_element element) {
    return (uint32_t)element < CAIRN_ELEMENTS ? elements[element].name : NULL;
}

uint32_t crn_element_bytes(cairn_element element) {
    return (uint32_t)element < CAIRN_ELEMENTS ? elements[element].bytes : 0;
}

cairn_element crn_element_find(const char *name) {
    uint32_t element = 0;
    while (element < CAIRN_ELEMENTS && strcmp(elements[element].name, name) != 0)
        element++;
    return (cairn_element)element;
}

bool crn_named_tensor_bytes(const cairn_named_tensor *tensor, uint64_t *bytes) {
    uint64_t product = crn_element_bytes(tensor->element);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!crn_mul_u64(product, tensor->shape[i], &product))
            return false;
    *bytes = product;
    return true;
}

/* ---- Byte order ---- */

bool crn_is_little_endian(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

void crn_reverse_elements(uint8_t *data, uint64_t bytes, uint32_t element) {
    for (uint64_t at = 0; at + element <= bytes; at += element)
        for (uint32_t i = 0, j = element - 1; i < j; i++, j--) {
            uint8_t byte = data[at + i];
            data[at + i] = data[at + j];
            data[at + j] = byte;
        }
}

/* ---- Floats ---- */

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent with bias 15, 10 of fraction. */
static float of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31,
             fraction = half & 0x3ffu;
    if (exponent == 31) /* infinite, or not a number */
        return of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0)
        return of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    float magnitude = (float)fraction / 16777216.0f; /* subnormal: in units of 2^-24, exact */
    return sign != 0 ? -magnitude : magnitude;
}

bool crn_can_convert(cairn_element from, cairn_element to) {
    bool real =
        from == CAIRN_ELEMENT_F64 || from == CAIRN_ELEMENT_F16 || from == CAIRN_ELEMENT_BF16;
    return from == to || (real && to == CAIRN_ELEMENT_F32);
}

static float float_at(const cairn_named_tensor *tensor, uint64_t i) {
    switch (tensor->element) {
    case CAIRN_ELEMENT_F64:
        return (float)((const double *)tensor->data)[i];
    case CAIRN_ELEMENT_F16:
        return of_half(((const uint16_t *)tensor->data)[i]);
    default: /* BF16: the upper half of a float */
        return of_bits((uint32_t)((const uint16_t *)tensor->data)[i] << 16);
    }
}

void crn_convert(const cairn_named_tensor *tensor, float *to) {
    uint64_t count = tensor->bytes / crn_element_bytes(tensor->element);
    for (uint64_t i = 0; i < count; i++)
        to[i] = float_at(tensor, i);
}
