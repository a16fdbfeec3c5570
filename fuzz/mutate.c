/* mutate.c: feeds a fuzz target every small change of the files of its corpus, without libFuzzer.
 *
 *     cut       at every byte, or at most at MOST_CUTS of them
 *     words     each word, number and quoted string becomes each of a list of others, or goes
 *     groups    each [...] and {...} likewise
 *     members   each object gets one more
 *     lines     each goes, and each stands twice
 *     bytes     each of the first becomes 0, 1, 127 and 255
 *
 * With --header the first eight bytes are the length of the text behind them, as in a safetensors
 * file; it is kept right. So every field of a format is missing and wrong once. With FUZZ_SHARE,
 * one change in FUZZ_SHARE is fed. */
#include "fuzz.h"

#include <ctype.h>
#include <dirent.h>

#define MOST_CUTS 1500u
#define FIRST_BYTES 40u
#define MANY_WORDS 800u /* bytes; in a longer file each word becomes only some of the others */

#ifndef FUZZ_SHARE
#define FUZZ_SHARE 1
#endif

static long made, fed;
static bool has_header;

/* ---- One input ---- */

/* data[0..from) + put + data[to..size), with the length of the header set right. */
static void feed(const uint8_t *data, size_t size, size_t from, size_t to, const void *put,
                 size_t put_size) {
    if (made++ % FUZZ_SHARE != 0)
        return;
    size_t length = from + put_size + (size - to);
    /* a block of exactly its size, so that reading past the end is noticed */
    uint8_t *copy = malloc(length + (length == 0));
    if (copy == NULL)
        abort();
    memcpy(copy, data, from);
    memcpy(copy + from, put, put_size);
    memcpy(copy + from + put_size, data + to, size - to);
    if (has_header && from >= 8 && length >= 8) {
        uint64_t header = 0;
        for (int i = 0; i < 8; i++)
            header |= (uint64_t)copy[i] << 8 * i;
        header = to <= header + 8 ? header + put_size - (to - from) : header;
        for (int i = 0; i < 8; i++)
            copy[i] = (uint8_t)(header >> 8 * i);
    }
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
    fed++;
}

/* ---- Changes ---- */

static const char *const others[] = {"",
                                     "0",
                                     "1",
                                     "-1",
                                     "7",
                                     "65537",
                                     "4294967295",
                                     "1.5",
                                     "1e30",
                                     "\"x\"",
                                     "x",
                                     "\"\"",
                                     "[]",
                                     "{}",
                                     "[0]",
                                     "null",
                                     "true",
                                     "00",
                                     "1x1",
                                     "[1, 1]",
                                     "\"i32\"",
                                     "impl",
                                     "\"f16\"",
                                     "\"relu\"",
                                     "\"parameter\"",
                                     "\"gradient\"",
                                     "\"backward\"",
                                     "9223372036854775807"};

static void change(const uint8_t *data, size_t size, size_t from, size_t to) {
    static size_t turn;
    size_t stride = 1 + size / MANY_WORDS;
    for (size_t i = turn++ % stride; i < sizeof others / sizeof *others; i += stride)
        feed(data, size, from, to, others[i], strlen(others[i]));
    feed(data, size, to, to, data + from, to - from); /* twice */
}

static size_t end_of_string(const uint8_t *data, size_t size, size_t at) {
    for (at++; at < size && data[at] != '"'; at++)
        at += data[at] == '\\';
    return at < size ? at + 1 : size;
}

static bool is_word(uint8_t byte) {
    return isalnum(byte) || strchr("_.-+", byte) != NULL;
}

static void change_words(const uint8_t *data, size_t size, size_t first) {
    for (size_t at = first; at < size;) {
        size_t from = at++;
        if (data[from] == '"')
            at = end_of_string(data, size, from);
        else if (data[from] == '\0' || !is_word(data[from]))
            continue;
        else
            while (at < size && data[at] != '\0' && is_word(data[at]))
                at++;
        change(data, size, from, at);
    }
}

/* Members that an object may have, or may not. */
static const char *const members[] = {
    "\"dtype\": \"i32\", ", "\"bytes\": 8, ", "\"alias_of\": 0, ",    "\"stationary\": true, ",
    "\"result\": true, ",   "\"of\": 0, ",    "\"gradient_of\": 0, ", "\"shape\": [], "};

static void add_members(const uint8_t *data, size_t size, size_t first) {
    for (size_t at = first; at < size; at++)
        for (size_t i = 0; data[at] == '{' && i < sizeof members / sizeof *members; i++)
            feed(data, size, at + 1, at + 1, members[i], strlen(members[i]));
}

static void change_groups(const uint8_t *data, size_t size, size_t first) {
    for (size_t from = first; from < size; from++) {
        long depth = 0;
        size_t to = from;
        if (data[from] != '[' && data[from] != '{')
            continue;
        do {
            depth += (data[to] == '[' || data[to] == '{') - (data[to] == ']' || data[to] == '}');
            to++;
        } while (to < size && depth > 0);
        change(data, size, from, to);
    }
}

static void change_lines(const uint8_t *data, size_t size) {
    for (size_t from = 0; from < size;) {
        const uint8_t *end = memchr(data + from, '\n', size - from);
        size_t to = end == NULL ? size : (size_t)(end - data) + 1;
        feed(data, size, from, to, "", 0);
        feed(data, size, to, to, data + from, to - from);
        from = to;
    }
}

static void change_bytes(const uint8_t *data, size_t size) {
    static const uint8_t values[] = {0, 1, 127, 255};
    for (size_t at = 0; at < size && at < FIRST_BYTES; at++)
        for (size_t i = 0; i < sizeof values; i++)
            feed(data, size, at, at + 1, &values[i], 1);
}

/* ---- Files ---- */

static void change_file(const char *path) {
    cairn_text text;
    cairn_error err = {0};
    if (cairn_text_load(NULL, path, &text, &err) != CAIRN_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    const uint8_t *data = (const uint8_t *)text.data;
    size_t size = text.length, first = has_header && size >= 8 ? 8 : 0;
    size_t binary = 0; /* bytes that no text has */
    for (size_t i = first; i < size; i++)
        binary += data[i] == 0 || data[i] > 126;
    for (size_t cut = 0; cut < size; cut += 1 + size / MOST_CUTS)
        feed(data, size, cut, size, "", 0);
    change_bytes(data, size);
    if (binary <= size / 4) {
        change_words(data, size, first);
        change_groups(data, size, first);
        add_members(data, size, first);
        change_lines(data, size);
    }
    cairn_text_release(&text);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        const struct dirent *entry;
        if (strcmp(argv[i], "--header") == 0)
            has_header = true;
        else if (folder == NULL)
            change_file(argv[i]);
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            char file[4096];
            snprintf(file, sizeof file, "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.')
                change_file(file);
        }
        if (folder != NULL)
            closedir(folder);
    }
    printf("%ld inputs\n", fed);
    return fed == 0;
}
