/* backend.c: the list of backends, and what follows from their tables alone. */
#include "backend/backend.h"

#define X(identifier) extern const crn_backend crn_backend_##identifier;
#include "backend/backends.def"
#undef X

static const crn_backend *const backends[] = {
#define X(identifier) &crn_backend_##identifier,
#include "backend/backends.def"
#undef X
};

const crn_backend *crn_backend_list(uint32_t index) {
    return index < CRN_LENGTH(backends) ? backends[index] : NULL;
}

const crn_backend *crn_backend_find(const char *name) {
    for (uint32_t i = 0; i < CRN_LENGTH(backends); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

uint32_t crn_backend_choices(const crn_backend *backend, const cairn_graph *graph,
                             const cairn_op *op, const crn_kernel **out, uint32_t most) {
    uint32_t count, found = 0;
    const crn_kernel *list = backend->kernels(op->kind, &count);
    for (uint32_t i = 0; i < count && found < most; i++)
        if (list[i].fits == NULL || list[i].fits(graph, op))
            out[found++] = &list[i];
    return found;
}
