/* case_file.c: see case_file.h. */
#include "solve/case_file.h"

#define MOST_CASES (UINT32_MAX / 16)

/* It refers to itself, so it must not be copied or moved while it is open. */
typedef struct case_file {
    crn_json_document document;
    crn_json root, list;
    uint32_t count;
    bool single; /* the root is the only case */
} case_file;

static cairn_status find_cases(case_file *file, cairn_error *err) {
    size_t count = 1;
    file->root = crn_json_root(&file->document);
    file->list = file->root;
    if (crn_json_is_object(&file->root)) {
        file->list = crn_json_member(&file->root, "cases");
        file->single = file->list.value == NULL;
    } else {
        file->single = !crn_json_is_array(&file->root);
    }
    if (!file->single)
        CRN_TRY(crn_json_array(&file->list, &count, err));
    if (count == 0 || count > MOST_CASES)
        return crn_json_fail(&file->list, err, CAIRN_EINVAL, "holds %s",
                             count == 0 ? "no case" : "too many cases");
    file->count = (uint32_t)count;
    return CAIRN_OK;
}

static cairn_status read_items(const case_file *from, crn_case_reader *read, crn_cases *to,
                               cairn_error *err) {
    to->items = crn_arena_take(&to->arena, from->count, to->size);
    if (to->items == NULL)
        return CAIRN_ENOMEM;
    to->count = from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        crn_json at = from->single ? from->root : crn_json_element(&from->list, i);
        CRN_TRY(read(&to->arena, &at, to->items + i * to->size, err));
    }
    return CAIRN_OK;
}

cairn_status crn_cases_read(const cairn_allocator *allocator, const char *text, size_t length,
                            const char *file, size_t size, crn_case_reader *read, crn_cases **out,
                            cairn_error *err) {
    case_file from = {0};
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(crn_json_parse(text, length, file, &from.document, err));
    crn_cases *cases = CRN_OBJECT(allocator, crn_cases, arena);
    cairn_status status = cases == NULL ? CAIRN_ENOMEM : find_cases(&from, err);
    if (status == CAIRN_OK) {
        cases->size = size;
        status = read_items(&from, read, cases, err);
    }
    crn_json_release(&from.document);
    if (status == CAIRN_OK) {
        *out = cases;
        return CAIRN_OK;
    }
    crn_cases_destroy(cases);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

void crn_cases_destroy(crn_cases *cases) {
    if (cases != NULL)
        crn_arena_destroy(&cases->arena);
}

const void *crn_cases_get(const crn_cases *cases, uint32_t index) {
    return index < cases->count ? cases->items + index * cases->size : NULL;
}
