/* machine.c: descriptions of machines: those of machines/, which are built in, and those of the
 * user's files. */
#include "base/json.h"
#include "cairn/cost.h"
#include "cost/crn_cost.h"
#include "cost/machines_embedded.h"

#define FORMAT "cairn-machine"
#define VERSION 1
#define LARGEST_RATE 1000000000000000000

static cairn_status read_count(const crn_json *root, const char *key, int64_t low, uint64_t *out,
                               cairn_error *err) {
    crn_json member = crn_json_member(root, key);
    int64_t value = 0;
    CRN_TRY(crn_json_integer(&member, low, LARGEST_RATE, &value, err));
    *out = (uint64_t)value;
    return CAIRN_OK;
}

static cairn_status read_machine(const crn_json *root, cairn_machine *out, cairn_error *err) {
    static const char *const keys[] = {"format",
                                       "version",
                                       "name",
                                       "summary",
                                       "flops_per_second",
                                       "memory_bytes_per_second",
                                       "launch_ns",
                                       "link_bytes_per_second",
                                       "link_latency_ns",
                                       "full_duplex",
                                       "memory_bytes",
                                       "host_memory_bytes",
                                       "one_memory",
                                       NULL};
    CRN_TRY(crn_json_format(root, FORMAT, VERSION, err));
    CRN_TRY(crn_json_only(root, keys, err));
    crn_json name = crn_json_member(root, "name"), summary = crn_json_member(root, "summary");
    crn_json duplex = crn_json_member(root, "full_duplex");
    const char *string = "";
    CRN_TRY(crn_json_string(&name, &string, err));
    if (!crn_printable(string))
        return crn_json_fail(&name, err, CAIRN_EINVAL, "has a control character");
    crn_copy_string(out->name, sizeof out->name, string);
    if (summary.value != NULL) {
        CRN_TRY(crn_json_string(&summary, &string, err));
        if (!crn_printable(string))
            return crn_json_fail(&summary, err, CAIRN_EINVAL, "has a control character");
        crn_copy_string(out->summary, sizeof out->summary, string);
    }
    uint64_t launch = 0, latency = 0;
    CRN_TRY(read_count(root, "flops_per_second", 1, &out->flops_per_second, err));
    CRN_TRY(read_count(root, "memory_bytes_per_second", 1, &out->memory_bytes_per_second, err));
    CRN_TRY(read_count(root, "launch_ns", 0, &launch, err));
    CRN_TRY(read_count(root, "link_bytes_per_second", 1, &out->link_bytes_per_second, err));
    CRN_TRY(read_count(root, "link_latency_ns", 0, &latency, err));
    CRN_TRY(read_count(root, "memory_bytes", 1, &out->memory_bytes, err));
    CRN_TRY(read_count(root, "host_memory_bytes", 0, &out->host_memory_bytes, err));
    crn_json shared = crn_json_member(root, "one_memory");
    if (shared.value != NULL)
        CRN_TRY(crn_json_boolean(&shared, &out->one_memory, err));
    out->launch_ns = (int64_t)launch;
    out->link_latency_ns = (int64_t)latency;
    return crn_json_boolean(&duplex, &out->full_duplex, err);
}

cairn_status cairn_machine_from_json(const char *text, size_t length, const char *file,
                                     cairn_machine *out, cairn_error *err) {
    cairn_machine made = CAIRN_MACHINE_INIT;
    crn_json_document document;
    CRN_OPEN_OUTPUT(cairn_machine, out, err);
    CRN_TRY(crn_json_parse(text, length, file, &document, err));
    crn_json root = crn_json_root(&document);
    cairn_status status = read_machine(&root, &made, err);
    crn_json_release(&document);
    if (status == CAIRN_OK)
        crn_write_output(out, &made, sizeof made);
    return status;
}

const cairn_machine *cairn_machine_list(uint32_t index) {
    return index < CRN_LENGTH(crn_embedded_machines) ? &crn_embedded_machines[index] : NULL;
}

cairn_status cairn_machine_find(const char *name, cairn_machine *out, cairn_error *err) {
    const cairn_machine *machine;
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_machine, out, err);
    for (uint32_t i = 0; (machine = cairn_machine_list(i)) != NULL; i++)
        if (strcmp(machine->name, name) == 0) {
            crn_write_output(out, machine, sizeof *machine);
            return CAIRN_OK;
        }
    return crn_fail_at(err, CAIRN_EUNKNOWN, name, "there is no machine \"%s\"", name);
}

int64_t crn_machine_copy_ns(const cairn_machine *machine, uint64_t bytes) {
    uint64_t transfer = crn_mul_div_up(bytes, 1000000000u, machine->link_bytes_per_second);
    uint64_t limit = (uint64_t)INT64_MAX / 4;
    return (int64_t)(CRN_MIN(transfer, limit) + CRN_MIN((uint64_t)machine->link_latency_ns, limit));
}
