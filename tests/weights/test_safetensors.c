/* test_safetensors.c: safetensors files: what is written is read, every kind of damage is refused,
 * and a failure to write leaves what was there. */
#include "cairn/weights.h"
#include "check.h"
#include "weights/crn_weights.h"
#include "base/crn_base.h"
#include "cairn/safetensors.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A temporary folder ---- */

static char folder[] = "test_safetensors.XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][256];
    static unsigned turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static unsigned files_in_folder(void) {
    unsigned count = 0;
    DIR *open_folder = opendir(folder);
    const struct dirent *entry;
    while ((entry = readdir(open_folder)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(open_folder);
    return count;
}

static cairn_text contents(const char *path) {
    cairn_text text;
    cairn_error err = {0};
    CHECK_OK(cairn_text_load(NULL, path, &text, &err), &err);
    return text;
}

/* ---- Round trip ---- */

static const float weights[] = {1.5f, -0.0f, 3e-45f, 4, 5, 6};
static const int64_t steps = -3;
static const uint8_t bytes[] = {1, 2, 3};
static const uint16_t halves[] = {0x3c00, 0x7c00};

static cairn_named_tensor sample[] = {
    {.name = "b.weight", .element = CAIRN_ELEMENT_F32, .rank = 2, .shape = {2, 3}, .data = weights},
    {.name = "a.steps", .element = CAIRN_ELEMENT_I64, .data = &steps},
    {.name = "z", .element = CAIRN_ELEMENT_U8, .rank = 1, .shape = {3}, .data = bytes},
    {.name = "half \"\\\n\xc3\xbc",
     .element = CAIRN_ELEMENT_F16,
     .rank = 1,
     .shape = {2},
     .data = halves},
    {.name = "none", .element = CAIRN_ELEMENT_F64, .rank = 3, .shape = {4, 0, 2}},
};
#define SAMPLES (sizeof sample / sizeof *sample)
static const cairn_pair words[] = {{"z", "last"}, {"format", "pt"}, {"", "line\n\"two\""}};
#define WORDS (sizeof words / sizeof *words)

static void save_sample(const char *path) {
    cairn_error err = {0};
    CHECK_OK(cairn_safetensors_save(NULL, path, sample, SAMPLES, words, WORDS, &err), &err);
}

static void check_sample(const cairn_safetensors *file) {
    uint32_t count;
    const cairn_named_tensor *list = cairn_safetensors_tensors(file, &count);
    CHECK_U64(count, SAMPLES);
    for (uint32_t i = 1; i < count; i++)
        CHECK(strcmp(list[i - 1].name, list[i].name) < 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        const cairn_named_tensor *found = crn_safetensors_find(file, sample[i].name);
        CHECK(found != NULL && found->element == sample[i].element &&
              found->rank == sample[i].rank);
        uint64_t size = crn_element_bytes(found->element);
        for (uint32_t k = 0; k < found->rank; k++) {
            CHECK_U64(found->shape[k], sample[i].shape[k]);
            size *= found->shape[k];
        }
        CHECK_U64(found->bytes, size);
        CHECK(size == 0 || memcmp(found->data, sample[i].data, size) == 0);
        CHECK((uintptr_t)found->data % crn_element_bytes(found->element) == 0);
    }
    CHECK(crn_safetensors_find(file, "b.weigh") == NULL);
    const cairn_pair *pairs = crn_safetensors_metadata(file, &count);
    CHECK_U64(count, WORDS);
    CHECK_STRING(pairs[0].key, "");
    CHECK_STRING(cairn_safetensors_value(file, ""), "line\n\"two\"");
    CHECK_STRING(cairn_safetensors_value(file, "format"), "pt");
    CHECK(cairn_safetensors_value(file, "formats") == NULL);
}

static void test_round_trip(void) {
    const char *path = in_folder("one"), *again = in_folder("two");
    cairn_safetensors *file;
    cairn_error err = {0};
    save_sample(path);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    check_sample(file);
    cairn_safetensors_destroy(file);
    cairn_text text = contents(path);
    CHECK_OK(crn_safetensors_from_bytes(NULL, text.data, text.length, NULL, &file, &err), &err);
    check_sample(file);

    /* The same bytes from any order. */
    cairn_named_tensor turned[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++)
        turned[i] = sample[SAMPLES - 1 - i];
    CHECK_OK(cairn_safetensors_save(NULL, again, turned, SAMPLES, words, WORDS, &err), &err);
    cairn_text other = contents(again);
    CHECK(text.length == other.length && memcmp(text.data, other.data, text.length) == 0);
    uint64_t header = (uint8_t)text.data[0] | (uint64_t)(uint8_t)text.data[1] << 8;
    CHECK_U64(header % 8, 0);
    cairn_text_release(&other);

    /* Every shorter file is refused, and a longer one. */
    for (size_t length = 0; length < text.length; length++) {
        cairn_safetensors *cut;
        CHECK(crn_safetensors_from_bytes(NULL, text.data, length, "cut", &cut, &err) != CAIRN_OK);
        CHECK(cut == NULL && err.message[0] != '\0');
    }
    cairn_safetensors *longer;
    CHECK(crn_safetensors_from_bytes(NULL, text.data, text.length + 1, "long", &longer, &err) ==
          CAIRN_EINVAL); /* its NUL is that byte */
    cairn_text_release(&text);
    cairn_safetensors_destroy(file);
    cairn_safetensors_destroy(NULL);
    unlink(path);
    unlink(again);
}

static void test_nothing(void) {
    const char *path = in_folder("nothing");
    cairn_safetensors *file;
    cairn_error err = {0};
    uint32_t count;
    CHECK_OK(cairn_safetensors_save(NULL, path, NULL, 0, NULL, 0, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    cairn_safetensors_tensors(file, &count);
    CHECK_U64(count, 0);
    CHECK(crn_safetensors_find(file, "x") == NULL && cairn_safetensors_value(file, "x") == NULL);
    cairn_safetensors_destroy(file);
    unlink(path);
    CHECK_STRING(crn_element_name(CAIRN_ELEMENT_BF16), "BF16");
    CHECK(crn_element_name(CAIRN_ELEMENTS) == NULL && crn_element_bytes(CAIRN_ELEMENTS) == 0);
}

/* ---- Refusals ---- */

/* A file with this header and `data` bytes of data. */
static cairn_status read_header(const char *header, size_t data, cairn_error *err) {
    size_t length = strlen(header);
    uint8_t *whole = calloc(1, 8 + length + data);
    for (int i = 0; i < 8; i++)
        whole[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(whole + 8, header, length);
    cairn_safetensors *file;
    cairn_status status =
        crn_safetensors_from_bytes(NULL, whole, 8 + length + data, "f", &file, err);
    free(whole);
    CHECK((status == CAIRN_OK) == (file != NULL));
    cairn_safetensors_destroy(file);
    return status;
}

static const struct damage {
    const char *header;
    size_t data;
    cairn_status status;
    const char *says;
} damages[] = {
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, CAIRN_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ", 4, CAIRN_OK, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
     7, CAIRN_OK, ""}, /* not aligned in the file */
    {"", 0, CAIRN_ESYNTAX, "f: its header does not begin with {"},
    {" {}", 0, CAIRN_ESYNTAX, "does not begin with {"},
    {"[]", 0, CAIRN_ESYNTAX, "does not begin with {"},
    {"{\"a\":", 0, CAIRN_ESYNTAX, "not valid JSON"},
    {"{}x", 0, CAIRN_ESYNTAX, "not valid JSON"},
    {"{\"a\xff\":1}", 0, CAIRN_ESYNTAX, "not valid JSON"},
    {"{\"a\\u0000b\":1}", 0, CAIRN_ESYNTAX, "not valid JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, CAIRN_ESYNTAX, "duplicate"},
    {"{\"a\":7}", 0, CAIRN_EINVAL, "f: a: must be an object"},
    {"{\"a\":{}}", 0, CAIRN_EINVAL, "a.dtype: is missing"},
    {"{\"a\":{\"dtype\":\"F31\"}}", 0, CAIRN_EINVAL, "\"F31\", which this program does not know"},
    {"{\"a\":{\"dtype\":\"F32\"}}", 0, CAIRN_EINVAL, "a.shape: is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, CAIRN_EINVAL,
     "a.shape[0]: is -1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, CAIRN_EINVAL,
     "whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     CAIRN_EINVAL, "has 9 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, CAIRN_EINVAL, "a.data_offsets: is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, CAIRN_EINVAL,
     "two numbers, not 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, CAIRN_EINVAL,
     "end before they begin"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, CAIRN_EINVAL,
     "4 bytes by its shape and 8 by its offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     CAIRN_EOVERFLOW, "2^64"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
     CAIRN_EOVERFLOW, "2^64"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
     "\"data_offsets\":[0,9223372036854775807]}}",
     4, CAIRN_EINVAL, "truncated"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0,
     CAIRN_ESYNTAX, "too big"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, CAIRN_EINVAL,
     "unknown member \"more\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, CAIRN_EINVAL, "b begins at byte 0 of the data, inside what ends at 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]}}",
     7, CAIRN_EINVAL, "inside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, CAIRN_EINVAL, "leaving a hole after what ends at 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, CAIRN_EINVAL, "hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, CAIRN_EINVAL,
     "take 4 bytes, but it has 5"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, CAIRN_EINVAL,
     "take 4 bytes, but it has 3: it was truncated"},
    {"{\"__metadata__\":[]}", 0, CAIRN_EINVAL, "__metadata__: must be an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, CAIRN_EINVAL, "__metadata__.k: must be a string"},
};

static void test_damages(void) {
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *d = &damages[i];
        cairn_error err = {0};
        char text[1024] = "";
        cairn_status status = read_header(d->header, d->data, &err);
        if (status != CAIRN_OK)
            cairn_error_text(&err, text, sizeof text);
        CHECK(status == d->status && strstr(text, d->says) != NULL);
        if (status != d->status || strstr(text, d->says) == NULL)
            fprintf(stderr, "  %s: %s, \"%s\"\n", d->header, crn_status_name(status), text);
    }
}

static void test_lengths(void) {
    cairn_safetensors *file;
    cairn_error err = {0};
    const uint8_t huge[9] = {255, 255, 255, 255, 255, 255, 255, 255, '{'};
    CHECK(crn_safetensors_from_bytes(NULL, huge, 9, "f", &file, &err) == CAIRN_ESYNTAX);
    CHECK(strstr(err.message, "18446744073709551615") != NULL);
    CHECK(crn_safetensors_from_bytes(NULL, huge, 7, "f", &file, &err) == CAIRN_ESYNTAX);
    CHECK(strstr(err.message, "7 bytes long") != NULL);
    CHECK(crn_safetensors_from_bytes(NULL, NULL, 0, "f", &file, &err) == CAIRN_ESYNTAX);

    CHECK(cairn_safetensors_load(NULL, "no/such/file", &file, &err) == CAIRN_EUNKNOWN);
    CHECK(file == NULL && strstr(err.message, "no/such/file") != NULL);
    CHECK(cairn_safetensors_load(NULL, folder, &file, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "not a regular file") != NULL);
    const char *pipe_path = in_folder("pipe");
    CHECK(mkfifo(pipe_path, 0600) == 0);
    CHECK(cairn_safetensors_load(NULL, pipe_path, &file, &err) == CAIRN_EINVAL);
    unlink(pipe_path);
    CHECK(cairn_safetensors_load(NULL, "/dev/zero", &file, &err) == CAIRN_EINVAL);
}

/* ---- What cannot be written ---- */

static void refuse(const cairn_named_tensor *tensors, uint32_t count, const cairn_pair *metadata,
                   uint32_t pairs, cairn_status wanted, const char *says) {
    cairn_error err = {0};
    const char *path = in_folder("refused");
    cairn_status status = cairn_safetensors_save(NULL, path, tensors, count, metadata, pairs, &err);
    CHECK(status == wanted && strstr(err.message, says) != NULL);
    if (strstr(err.message, says) == NULL)
        fprintf(stderr, "  \"%s\" does not say \"%s\"\n", err.message, says);
    CHECK_U64(files_in_folder(), 0);
}

static void test_unwritable(void) {
    cairn_named_tensor two[2] = {sample[0], sample[1]};
    two[1].name = two[0].name;
    refuse(two, 2, NULL, 0, CAIRN_EINVAL, "two tensors are called b.weight");
    two[1].name = "__metadata__";
    refuse(two, 2, NULL, 0, CAIRN_EINVAL, "stands for the metadata");
    two[1].name = "not \xff utf-8";
    refuse(two, 2, NULL, 0, CAIRN_EINVAL, "not UTF-8");
    two[1].name = "c";
    two[1].rank = CAIRN_NAMED_TENSOR_RANK + 1;
    refuse(two, 2, NULL, 0, CAIRN_EINVAL, "too many dimensions");
    two[1].rank = 2;
    two[1].shape[0] = two[1].shape[1] = UINT64_MAX;
    refuse(two, 2, NULL, 0, CAIRN_EOVERFLOW, "larger than");
    two[1].rank = 0;
    two[1].element = CAIRN_ELEMENTS;
    refuse(two, 2, NULL, 0, CAIRN_EINVAL, "kind of elements");
    refuse(NULL, 0, (cairn_pair[]){{"k", "1"}, {"k", "2"}}, 2, CAIRN_EINVAL, "has k twice");
    refuse(NULL, 0, (cairn_pair[]){{"k", "\xc3"}}, 1, CAIRN_EINVAL, "not UTF-8");
}

/* ---- The system fails ---- */

static float large[1 << 16];
static const cairn_named_tensor large_tensor = {
    .name = "large", .element = CAIRN_ELEMENT_F32, .rank = 1, .shape = {1 << 16}, .data = large};

static cairn_status save_large(const char *path, cairn_error *err) {
    return cairn_safetensors_save(NULL, path, &large_tensor, 1, NULL, 0, err);
}

/* A disk that becomes full while the file is written. It is simulated in a child process with a
 * limit on the size of files. */
static void test_full_disk(void) {
    const char *path = in_folder("kept");
    save_sample(path);
    cairn_text before = contents(path);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {sizeof large / 2, sizeof large / 2};
        cairn_error err = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        cairn_status status = save_large(path, &err);
        bool good = status == CAIRN_EIO && strstr(err.message, path) != NULL &&
                    strstr(err.message, "File too large") != NULL;
        if (!good)
            fprintf(stderr, "%s: %s\n", crn_status_name(status), err.message);
        _exit(!good);
    }
    int result;
    CHECK(waitpid(child, &result, 0) == child && result == 0);
    cairn_text after = contents(path);
    CHECK(before.length == after.length && memcmp(before.data, after.data, before.length) == 0);
    CHECK_U64(files_in_folder(), 1);
    cairn_text_release(&before);
    cairn_text_release(&after);

    cairn_error err = {0};
    CHECK(save_large("/dev/full", &err) == CAIRN_EIO);
    CHECK(strstr(err.message, "/dev/full: No space left on device") != NULL);
    unlink(path);
}

/* A folder without write permission. Root may write anyway, so the test changes to another user. */
static void test_closed_folder(void) {
    const char *path = in_folder("kept");
    save_sample(path);
    CHECK(chmod(folder, 0555) == 0);
    pid_t child = fork();
    if (child == 0) {
        cairn_error err = {0};
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(0);
        cairn_status status = save_large(path, &err);
        bool good = status == CAIRN_EIO && strstr(err.message, "Permission denied") != NULL;
        if (!good)
            fprintf(stderr, "%s: %s\n", crn_status_name(status), err.message);
        _exit(!good);
    }
    int result;
    CHECK(waitpid(child, &result, 0) == child && result == 0);
    CHECK(chmod(folder, 0755) == 0);
    CHECK_U64(files_in_folder(), 1);
    cairn_error err = {0};
    CHECK(save_large("no/such/folder", &err) == CAIRN_EIO);
    CHECK(strstr(err.message, "no/such/folder: No such file or directory") != NULL);
    CHECK(save_large(folder, &err) == CAIRN_EIO);
    CHECK(strstr(err.message, "Is a directory") != NULL);
    unlink(path);
}

/* A temporary file that a killed process left is replaced. If it is a link, its target is not
 * written to. */
static void test_left_over(void) {
    char temporary[300];
    const char *path = in_folder("kept"), *other = in_folder("other");
    cairn_error err = {0};
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    save_sample(other);
    cairn_text before = contents(other);
    CHECK(symlink("other", temporary) == 0);
    CHECK_OK(save_large(path, &err), &err);
    cairn_text after = contents(other);
    CHECK(before.length == after.length && memcmp(before.data, after.data, before.length) == 0);
    CHECK_U64(files_in_folder(), 2);
    cairn_text_release(&before);
    cairn_text_release(&after);
    unlink(path);
    unlink(other);
}

int main(void) {
    CHECK(mkdtemp(folder) != NULL);
    test_round_trip();
    test_nothing();
    test_damages();
    test_lengths();
    test_unwritable();
    test_full_disk();
    test_closed_folder();
    test_left_over();
    CHECK_U64(files_in_folder(), 0);
    rmdir(folder);
    return check_result();
}
