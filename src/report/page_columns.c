/* page_columns.c: encodes the numbers and names of a page's data. */
#include "report/page_columns.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- Numbers ---- */

static void put_byte(crn_column *c, uint8_t byte) {
    c->bits = c->bits << 8 | byte;
    if (++c->held < 3)
        return;
    char group[4];
    for (uint32_t i = 0; i < 4; i++)
        group[i] = digits[c->bits >> (18 - 6 * i) & 63];
    crn_text_put(c->text, group, sizeof group);
    c->bits = c->held = 0;
}

/* Write the last group, padded with "=". */
static void put_rest(crn_column *c) {
    uint32_t held = c->held;
    if (held == 0)
        return;
    uint32_t bits = c->bits << 8 * (3 - held);
    char group[4] = {digits[bits >> 18 & 63], digits[bits >> 12 & 63],
                     held == 2 ? digits[bits >> 6 & 63] : '=', '='};
    crn_text_put(c->text, group, sizeof group);
    c->bits = c->held = 0;
}

crn_column crn_column_begin(cairn_text *text, const char *key, bool first) {
    crn_text_printf(text, "%s\"%s\":\"", first ? "" : ",", key);
    return (crn_column){.text = text};
}

void crn_column_put(crn_column *column, uint64_t value) {
    for (; value >= 128; value >>= 7)
        put_byte(column, (uint8_t)(value | 128));
    put_byte(column, (uint8_t)value);
}

void crn_column_put_signed(crn_column *column, int64_t value) {
    uint64_t twice = (uint64_t)value << 1;
    crn_column_put(column, value < 0 ? ~twice : twice);
}

void crn_column_end(crn_column *column) {
    put_rest(column);
    crn_text_put(column->text, "\"", 1);
}

void crn_text_base64(cairn_text *text, const uint8_t *bytes, size_t length) {
    crn_column column = {.text = text};
    for (size_t i = 0; i < length; i++)
        put_byte(&column, bytes[i]);
    put_rest(&column);
}

/* ---- Names ---- */

/* The length of the UTF-8 sequence at `s`, and its code point; 0: it is not valid. */
static uint32_t decode(const uint8_t *s, uint32_t *point) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t length = *s < 0x80 ? 1 : *s < 0xC0 ? 0 : *s < 0xE0 ? 2 : *s < 0xF0 ? 3 : 4;
    if (length < 2 || *s >= 0xF8) {
        *point = *s;
        return length == 1;
    }
    *point = *s & (0x7Fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        *point = *point << 6 | (s[i] & 0x3F);
    }
    bool surrogate = *point >= 0xD800 && *point < 0xE000;
    return *point < least[length] || *point > 0x10FFFF || surrogate ? 0 : length;
}

void crn_text_page_string(cairn_text *text, const char *string) {
    const uint8_t *s = (const uint8_t *)string;
    crn_text_put(text, "\"", 1);
    while (*s != '\0') {
        uint32_t point, length = decode(s, &point);
        if (length == 0)
            crn_text_printf(text, "\\ufffd");
        else if (point == '"' || point == '\\')
            crn_text_printf(text, "\\%c", (int)point);
        else if (point < 0x20 || point == '<' || point == '>' || point == '&' || point == 0x7F ||
                 point == 0x2028 || point == 0x2029)
            crn_text_printf(text, "\\u%04x", point);
        else
            crn_text_put(text, (const char *)s, length);
        s += length == 0 ? 1 : length;
    }
    crn_text_put(text, "\"", 1);
}
