/* case_file.c: see case_file.h. */
#include "solve/case_file.h"

#define MOST_CASES (UINT32_MAX / 16)

static cairn_status find_cases(crn_case_file *file, cairn_error *err) {
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

cairn_status crn_case_file_open(const char *text, size_t length, const char *file,
                                crn_case_file *out, cairn_error *err) {
    *out = (crn_case_file){0};
    CRN_TRY(crn_json_parse(text, length, file, &out->document, err));
    cairn_status status = find_cases(out, err);
    if (status != CAIRN_OK)
        crn_json_release(&out->document);
    return status;
}

crn_json crn_case_file_get(const crn_case_file *file, uint32_t index) {
    return file->single ? file->root : crn_json_element(&file->list, index);
}

void crn_case_file_close(crn_case_file *file) {
    crn_json_release(&file->document);
}
