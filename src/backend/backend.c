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

uint32_t crn_backend_choices(const crn_backend *backend, const crn_site *site,
                             const crn_kernel **out, uint32_t most) {
    uint32_t count, found = 0;
    const crn_kernel *list = backend->kernels(site->op->kind, &count);
    for (uint32_t i = 0; i < count && found < most; i++)
        if (list[i].fits == NULL || list[i].fits(site))
            out[found++] = &list[i];
    return found;
}

cairn_status crn_backend_store(const crn_backend *backend, const cairn_graph *graph,
                               crn_storage *out) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        out[t] = (crn_storage){cairn_graph_tensor(graph, t)->bytes, 1};
    return backend->store == NULL ? CAIRN_OK : backend->store(graph, out);
}

uint64_t crn_kernel_workspace(const crn_kernel *kernel, const crn_site *site) {
    return kernel->workspace == NULL ? 0 : kernel->workspace(site);
}

cairn_status crn_kernel_prepare(const crn_kernel *kernel, crn_call *call,
                                const cairn_allocator *allocator, cairn_error *err) {
    return kernel->prepare == NULL ? CAIRN_OK : kernel->prepare(call, allocator, err);
}

void crn_kernel_finish(const crn_kernel *kernel, crn_call *call, const cairn_allocator *allocator) {
    if (call->state != NULL)
        kernel->finish(call, allocator);
    call->state = NULL;
}
