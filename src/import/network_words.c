/* network_words.c: the words of a network file: lines, values, names of tensors. */
#include "import/network_words.h"

#include <stdio.h>
#include <stdlib.h>

#define BLANKS " \t\r"

cairn_status crn_net_wrong(crn_net *n, const char *format, ...) {
    char sentence[400];
    va_list arguments;
    if (n->builder != NULL && crn_builder_error(n->builder)->status == CAIRN_ENOMEM)
        return CAIRN_ENOMEM; /* what is missing was never made */
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    crn_fail(n->err, CAIRN_EINVAL, "%s", sentence);
    if (n->err != NULL) {
        crn_copy_string(n->err->file, sizeof n->err->file, n->file);
        n->err->line = n->at == NULL ? 0 : n->at->number;
    }
    return CAIRN_EINVAL;
}

/* ---- Lines ---- */

cairn_status crn_net_split(crn_net *n, char *text) {
    uint32_t number = 0;
    for (char *next; text != NULL; text = next) {
        next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        text[strcspn(text, "#")] = '\0';
        crn_net_line l = {.number = ++number};
        CRN_TAKE(n->scratch, l.words, CRN_NET_MOST_WORDS + 1);
        for (char *word = text + strspn(text, BLANKS); *word != '\0';
             word += strspn(word, BLANKS)) {
            n->at = &l;
            if (l.count == CRN_NET_MOST_WORDS)
                return crn_net_wrong(n, "a line has more than %d words", CRN_NET_MOST_WORDS);
            l.words[l.count++] = word;
            word += strcspn(word, BLANKS);
            if (*word != '\0')
                *word++ = '\0';
        }
        if (l.count > 0)
            CRN_PUSH(n->scratch, n->lines, l);
    }
    return CAIRN_OK;
}

cairn_status crn_net_join(crn_net *n, const char *a, const char *b, const char **out) {
    size_t first = strlen(a), second = strlen(b);
    char *text;
    if (first + second > CRN_NET_LONGEST)
        return crn_net_wrong(n, "a name is longer than %d characters", CRN_NET_LONGEST);
    CRN_TAKE(n->scratch, text, first + second + 1);
    memcpy(text, a, first);
    memcpy(text + first, b, second);
    *out = text;
    return CAIRN_OK;
}

/* ---- Values ---- */

static const char *bound(const crn_net_scope *s, const char *name, size_t length) {
    for (uint32_t i = 0; i < s->count; i++)
        if (strlen(s->bindings[i].name) == length && memcmp(s->bindings[i].name, name, length) == 0)
            return s->bindings[i].value;
    return NULL;
}

/* A number, or a name that stands for one. */
static bool read_factor(crn_net *n, const crn_net_scope *s, const char **c, int64_t *out) {
    size_t length = strspn(*c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (length == 0) {
        char *end;
        *out = strtoll(*c, &end, 10);
        bool good = end != *c && *out >= INT32_MIN && *out <= UINT32_MAX;
        *c = end;
        return good;
    }
    length += strspn(*c + length, "0123456789_abcdefghijklmnopqrstuvwxyz");
    const char *name = *c, *value = bound(s, name, length);
    *c += length;
    if (length == 7 && memcmp(name, "classes", 7) == 0 && n->size->classes > 0) {
        *out = n->size->classes;
        n->takes_classes = true;
        return true;
    }
    if (length == 5 && memcmp(name, "batch", 5) == 0) {
        *out = n->size->batch;
        return true;
    }
    char *end = NULL;
    if (value != NULL)
        *out = strtoll(value, &end, 10);
    return value != NULL && end != value && *end == '\0';
}

bool crn_net_value(crn_net *n, const crn_net_scope *s, const char **c, int64_t *out) {
    int64_t factor;
    if (!read_factor(n, s, c, out))
        return false;
    while (**c == '*' || **c == '/') {
        bool product = *(*c)++ == '*';
        if (!read_factor(n, s, c, &factor) || factor == 0)
            return false;
        bool whole = product || *out % factor == 0;
        *out = product ? *out * factor : *out / factor;
        if (!whole || *out < INT32_MIN || *out > UINT32_MAX)
            return false;
    }
    return true;
}

uint32_t crn_net_values(crn_net *n, const crn_net_scope *s, const char *text, int64_t *out,
                        uint32_t most) {
    for (uint32_t count = 0; count < most;) {
        if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0) {
            out[count++] = text[0] == 'y';
            text += strlen(text);
        } else if (!crn_net_value(n, s, &text, &out[count++])) {
            return 0;
        }
        if (*text == '\0')
            return count;
        if (*text++ != ',')
            return 0;
    }
    return 0;
}

const char *crn_net_given(const crn_net *n, const crn_net_scope *s, const char *key) {
    size_t length = strlen(key);
    for (uint32_t i = 2; i < n->at->count; i++) {
        const char *word = n->at->words[i];
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            const char *value = word + length + 1, *other = bound(s, value, strlen(value));
            return other != NULL ? other : value;
        }
    }
    return NULL;
}

cairn_status crn_net_size(crn_net *n, const crn_net_scope *s, const char *key, uint32_t *out) {
    const char *text = crn_net_given(n, s, key);
    int64_t value;
    *out = 0;
    if (text == NULL)
        return CAIRN_OK;
    if (crn_net_values(n, s, text, &value, 1) != 1 || value < 1 || value > INT32_MAX)
        return crn_net_wrong(n, "%s must be a whole number from 1 on, not \"%s\"", key, text);
    *out = (uint32_t)value;
    return CAIRN_OK;
}

/* ---- Names ---- */

cairn_status crn_net_remember(crn_net *n, const char *name, cairn_id tensor) {
    crn_net_named entry = {name, tensor, n->at->number};
    if (n->named.length >= CRN_NET_MOST_LAYERS)
        return crn_net_wrong(n, "the network has more than %d layers", CRN_NET_MOST_LAYERS);
    CRN_PUSH(n->scratch, n->named, entry);
    return CAIRN_OK;
}

/* The newest first: most names refer to a layer just above. */
static bool find_full(const crn_net *n, const char *prefix, const char *name, size_t length,
                      cairn_id *out) {
    size_t before = strlen(prefix);
    for (uint32_t i = n->named.length; i-- > 0;) {
        const char *known = n->named.data[i].name;
        if (strncmp(known, prefix, before) == 0 && strlen(known) == before + length &&
            memcmp(known + before, name, length) == 0) {
            *out = n->named.data[i].tensor;
            return true;
        }
    }
    return false;
}

static cairn_status find_tensor(crn_net *n, const crn_net_scope *s, const char *name, size_t length,
                                cairn_id *out) {
    if (s->outer != NULL && length == 2 && memcmp(name, "in", 2) == 0) {
        *out = s->in;
        return CAIRN_OK;
    }
    for (const crn_net_scope *at = s; at != NULL; at = at->outer)
        if (find_full(n, at->prefix, name, length, out))
            return CAIRN_OK;
    return crn_net_wrong(n, "there is no layer \"%.*s\" above this line",
                         (int)CRN_MIN(length, CRN_NET_LONGEST), name);
}

cairn_status crn_net_tensors(crn_net *n, const crn_net_scope *s, const char *key, cairn_id *out,
                             uint32_t *count) {
    const char *text = crn_net_given(n, s, key);
    *count = 0;
    while (text != NULL) {
        size_t length = strcspn(text, ",");
        if (*count == CRN_NET_MOST_OPERANDS)
            return crn_net_wrong(n, "%s names more than %d tensors", key, CRN_NET_MOST_OPERANDS);
        CRN_TRY(find_tensor(n, s, text, length, &out[(*count)++]));
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return CAIRN_OK;
}
