/* failing.h: an allocator whose k-th allocation fails.
 *
 * It makes the k-th allocation fail, for k = 1, 2, 3, ... until the call under test succeeds
 * without reaching the failure. Each time before that, the call must return CAIRN_ENOMEM, give no
 * result and leak nothing. Each k is tried twice: only the k-th allocation fails (is a failure
 * overlooked?), and all from the k-th on fail (does cleaning up need memory?). Programs that
 * include this header are built with arena blocks as small as each allocation (CRN_LARGEST_BLOCK),
 * so that each allocation from an arena can fail. Jansson has its own allocator and is exempt. */
#ifndef FAILING_H
#define FAILING_H

#include "cairn/base.h"
#include "check.h"
#include "base/crn_base.h"

typedef struct memory {
    uint64_t live;    /* bytes given out */
    uint64_t fail_at; /* counted down while armed; the allocation that makes it 0 fails */
    bool armed, for_good, failed;
} memory;

/* The allocator. A block must be given back with the size that it was allocated with. */
static void *resize(void *context, void *block, size_t old_size, size_t new_size) {
    memory *m = context;
    size_t *head = block == NULL ? NULL : (size_t *)block - 2;
    CHECK(head == NULL ? old_size == 0 : *head == old_size);
    if (new_size == 0) {
        m->live -= old_size;
        free(head);
        return NULL;
    }
    if (m->armed && (m->fail_at == 0 ? m->for_good : --m->fail_at == 0)) {
        m->failed = true;
        return NULL;
    }
    head = realloc(head, new_size + 2 * sizeof *head);
    if (head == NULL)
        abort();
    m->live += new_size - old_size;
    *head = new_size;
    return head + 2;
}

/* The call under test, between arming and disarming. */
#define ARMED(m, status, call)                                                                     \
    do {                                                                                           \
        (m)->armed = true;                                                                         \
        (status) = (call);                                                                         \
        (m)->armed = false;                                                                        \
    } while (0)

/* A result exists if and only if the call succeeded; otherwise the error has a message. */
static inline void check_result_of(cairn_status status, const void *out) {
    CHECK((status == CAIRN_OK) == (out != NULL));
}

static inline void check_error(cairn_status status, const cairn_error *err) {
    CHECK(status == CAIRN_OK || (err->status == status && err->message[0] != '\0'));
}

/* Try k = `stride`, 2 `stride`, ... */
static void fail_each_k(memory *m, const char *name, const char *what,
                        cairn_status (*run)(void *context), void *context, uint64_t stride,
                        bool for_good) {
    m->fail_at = UINT64_MAX;
    m->for_good = false;
    cairn_status usual = run(context);
    uint64_t k = 0;
    do {
        uint64_t live = m->live;
        int before = check_failures;
        m->fail_at = k += stride;
        m->failed = false;
        m->for_good = for_good;
        cairn_status status = run(context);
        CHECK(status == (m->failed ? CAIRN_ENOMEM : usual));
        CHECK_U64(m->live, live);
        if (check_failures > before) {
            fprintf(stderr, "that was %s on %s at allocation %llu: %s\n", name, what,
                    (unsigned long long)k, crn_status_name(status));
            return;
        }
    } while (m->failed);
    if (for_good)
        printf("%-16s %-10s %5llu allocations\n", name, what, (unsigned long long)(k - stride));
}

/* `run` calls the library between arming and disarming, checks and releases the result, and returns
 * the status. */
static inline void fail_some(memory *m, const char *name, const char *what,
                             cairn_status (*run)(void *context), void *context, uint64_t stride) {
    fail_each_k(m, name, what, run, context, stride, false);
    fail_each_k(m, name, what, run, context, stride, true);
}

static inline void fail_every(memory *m, const char *name, const char *what,
                              cairn_status (*run)(void *context), void *context) {
    fail_some(m, name, what, run, context, 1);
}

#endif
