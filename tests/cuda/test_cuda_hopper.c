/* test_cuda_hopper.c: the gradient of attention by the kernels for compute capability 9.0 against
 * double precision, over lengths that are and are not multiples of their tiles; the bits repeat
 * with other contents of memory, and nothing is written outside of the result and the workspace.
 * Runs on the processor (fake_hopper.h), or with the argument "device" on a GPU, with "device
 * small" only the first shapes, for a sanitizer; exits with 77 if there is no GPU of this kind. */
#include "backend/op_cases.h"
#include "backend/rig.h"
#include "base/rng.h"
#include "fake_driver.h"

#include <math.h>

extern const crn_backend crn_backend_cuda;

#define GUARD 4096u     /* bytes before and behind what may be written */
#define TOLERANCE 4e-3  /* of the size of each gradient: P and D are rounded to bf16 */
#define NEGLIGIBLE 1e-5 /* a gradient that is zero but for rounding */
#define REPETITIONS 3u
#define SMALL 6u /* of the shapes */

static const crn_backend *subject = &fake_backend_cuda_host;

typedef struct shape {
    uint32_t batch, heads, kv_heads, tokens, size, causal;
} shape;

/* ---- In double ---- */

typedef struct problem {
    shape s;
    float *x, *y, *stats, *gy; /* as the device has them */
    double *gx;
} problem;

static float *row_of(const problem *p, float *of, uint32_t heads, uint32_t n, uint32_t token,
                     uint32_t head) {
    return of + (((size_t)n * p->s.tokens + token) * heads + head) * p->s.size;
}

static float *x_row(const problem *p, uint32_t n, uint32_t token, uint32_t head) {
    return row_of(p, p->x, p->s.heads + 2 * p->s.kv_heads, n, token, head);
}

static double product(const float *a, const float *b, uint32_t size) {
    double sum = 0;
    for (uint32_t k = 0; k < size; k++)
        sum += (double)a[k] * (double)b[k];
    return sum;
}

static uint32_t key_head(const problem *p, uint32_t head) {
    return p->s.heads + head / (p->s.heads / p->s.kv_heads);
}

/* y and stats of one query; `p` has room for the probabilities. */
static void attend(const problem *p, uint32_t n, uint32_t head, uint32_t query, double *weights) {
    const shape *s = &p->s;
    uint32_t end = s->causal ? query + 1 : s->tokens, kv = key_head(p, head);
    double most = -INFINITY, sum = 0;
    for (uint32_t key = 0; key < end; key++) {
        weights[key] = product(x_row(p, n, query, head), x_row(p, n, key, kv), s->size) /
                       sqrt((double)s->size);
        most = fmax(most, weights[key]);
    }
    for (uint32_t key = 0; key < end; key++)
        sum += weights[key] = exp(weights[key] - most);
    float *y = row_of(p, p->y, s->heads, n, query, head);
    for (uint32_t k = 0; k < s->size; k++) {
        double value = 0;
        for (uint32_t key = 0; key < end; key++)
            value += weights[key] * (double)x_row(p, n, key, kv + s->kv_heads)[k];
        y[k] = (float)(value / sum);
    }
    p->stats[((size_t)n * s->heads + head) * s->tokens + query] = (float)(most + log(sum));
}

/* Add what one query contributes to the gradients. */
static void differentiate(const problem *p, uint32_t n, uint32_t head, uint32_t query) {
    const shape *s = &p->s;
    uint32_t end = s->causal ? query + 1 : s->tokens, kv = key_head(p, head);
    double scale = 1 / sqrt((double)s->size);
    const float *q = x_row(p, n, query, head), *gy = row_of(p, p->gy, s->heads, n, query, head);
    double along = product(gy, row_of(p, p->y, s->heads, n, query, head), s->size);
    double stats = (double)p->stats[((size_t)n * s->heads + head) * s->tokens + query];
    for (uint32_t key = 0; key < end; key++) {
        const float *k = x_row(p, n, key, kv), *v = x_row(p, n, key, kv + s->kv_heads);
        double weight = exp(product(q, k, s->size) * scale - stats);
        double d = weight * (product(gy, v, s->size) - along) * scale;
        for (uint32_t i = 0; i < s->size; i++) {
            p->gx[q - p->x + i] += d * (double)k[i];
            p->gx[k - p->x + i] += d * (double)q[i];
            p->gx[v - p->x + i] += weight * (double)gy[i];
        }
    }
}

/* ---- On the device ---- */

static void draw_values(float *to, uint64_t count, crn_rng *rng) {
    for (uint64_t i = 0; i < count; i++)
        to[i] = (float)crn_rng_below(rng, 1 << 16) / (1 << 15) - 1;
}

static void store_half(rig *r, cairn_id t) {
    r->storage[t] = crn_storage_of(cairn_graph_tensor(r->graph, t), CRN_PLAIN, 1, CRN_BF16);
}

/* Put values where the device has them, and read what became of them. */
static float *put(rig *r, cairn_id t, float *values) {
    rig_put(r, t, values);
    rig_get(r, t, values);
    return values;
}

static problem make_problem(rig *r, const cairn_op *op, const shape *s, crn_rng *rng) {
    problem p = {.s = *s};
    float **const operands[] = {&p.x, &p.y, &p.stats, &p.gy};
    uint64_t elements = cairn_graph_tensor(r->graph, op->inputs[0])->bytes / sizeof(float);
    double *weights = rig_block(s->tokens * sizeof *weights);
    for (uint32_t i = 0; i < 4; i++)
        *operands[i] = rig_block(cairn_graph_tensor(r->graph, op->inputs[i])->bytes);
    draw_values(p.x, elements, rng);
    draw_values(p.gy, cairn_graph_tensor(r->graph, op->inputs[3])->bytes / sizeof(float), rng);
    put(r, op->inputs[0], p.x);
    put(r, op->inputs[3], p.gy);
    p.gx = calloc(elements, sizeof *p.gx);
    for (uint32_t n = 0; n < s->batch; n++)
        for (uint32_t head = 0; head < s->heads; head++)
            for (uint32_t query = 0; query < s->tokens; query++)
                attend(&p, n, head, query, weights);
    put(r, op->inputs[1], p.y);
    put(r, op->inputs[2], p.stats);
    for (uint32_t n = 0; n < s->batch; n++)
        for (uint32_t head = 0; head < s->heads; head++)
            for (uint32_t query = 0; query < s->tokens; query++)
                differentiate(&p, n, head, query);
    free(weights);
    return p;
}

static void drop_problem(problem *p) {
    free(p->x);
    free(p->y);
    free(p->stats);
    free(p->gy);
    free(p->gx);
}

/* The errors of the gradients of queries, keys and values, relative to the size of each. */
static void compare(const problem *p, const float *got) {
    const shape *s = &p->s;
    double error[3] = {0}, size[3] = {0};
    uint32_t row = (s->heads + 2 * s->kv_heads) * s->size;
    for (uint64_t i = 0; i < (uint64_t)s->batch * s->tokens * row; i++) {
        uint32_t head = (uint32_t)(i % row) / s->size;
        uint32_t part = head < s->heads ? 0 : head < s->heads + s->kv_heads ? 1 : 2;
        double off = (double)got[i] - p->gx[i];
        error[part] += off * off;
        size[part] += p->gx[i] * p->gx[i];
    }
    for (uint32_t part = 0; part < 3; part++) {
        bool right = sqrt(error[part]) <= TOLERANCE * sqrt(size[part]) + NEGLIGIBLE;
        CHECK(right); /* not if there is a NaN */
        if (!right)
            fprintf(stderr, "  %ux%u heads (%u) of %u, %u tokens%s: gradient %u is off by %.1e\n",
                    s->batch, s->heads, s->kv_heads, s->size, s->tokens,
                    s->causal ? ", causal" : "", part, sqrt(error[part] / size[part]));
    }
}

/* Device memory between guards. */
typedef struct guarded {
    char *region;
    uint64_t bytes;
} guarded;

static guarded guard(const rig *r, uint64_t bytes) {
    guarded g = {rig_take(r, bytes + 2 * GUARD), bytes};
    return g;
}

static void fill_inside(const rig *r, const guarded *g, unsigned char byte) {
    r->backend->fill(r->queue, g->region + GUARD, byte, g->bytes);
    rig_join(r);
}

/* Guards still have what rig_take() filled them with; for free(): the whole region. */
static unsigned char *read_guarded(const rig *r, const guarded *g) {
    unsigned char *all = rig_block(g->bytes + 2 * GUARD);
    uint32_t changed = 0;
    rig_copy(r, g->region, all, g->bytes + 2 * GUARD, true);
    for (uint32_t i = 0; i < GUARD; i++)
        changed += all[i] != 0xff || all[GUARD + g->bytes + i] != 0xff;
    CHECK_U64(changed, 0);
    return all;
}

static void run_and_compare(rig *r, cairn_id id, uint32_t which, const problem *p) {
    cairn_id gx = cairn_graph_op(r->graph, id)->outputs[0];
    uint32_t count;
    uint64_t bytes = rig_bytes(r, gx);
    guarded out = guard(r, bytes), space = guard(r, rig_choices(r, id, &count)[which].workspace);
    void *outputs[] = {out.region + GUARD}, *own = r->workspace;
    uint64_t own_bytes = r->workspace_bytes;
    unsigned char *first = NULL;
    float *plain = rig_block(cairn_graph_tensor(r->graph, gx)->bytes);
    r->workspace = space.region + GUARD;
    r->workspace_bytes = 0; /* it is filled here, each time with something else */
    for (uint32_t i = 0; i < REPETITIONS; i++) {
        fill_inside(r, &out, (unsigned char)(0xff - 40 * i));
        fill_inside(r, &space, (unsigned char)(0x7f + 40 * i));
        CHECK(rig_run_at(r, id, which, NULL, outputs));
        unsigned char *all = read_guarded(r, &out);
        free(read_guarded(r, &space));
        if (first == NULL) {
            first = all;
            rig_copy(r, r->place[gx], all + GUARD, bytes, false);
            rig_get(r, gx, plain);
            compare(p, plain);
            continue;
        }
        CHECK(memcmp(first + GUARD, all + GUARD, bytes) == 0);
        free(all);
    }
    r->workspace = own;
    r->workspace_bytes = own_bytes;
    rig_drop(r, out.region, out.bytes + 2 * GUARD);
    rig_drop(r, space.region, space.bytes + 2 * GUARD);
    free(first);
    free(plain);
}

/* False: the device has no such implementation. */
static bool test_shape(const shape *s, crn_rng *rng) {
    json_t *given = json_pack("{s:s, s:s, s:[[i,i,i]], s:{s:i, s:i, s:i}}", "name", "attention",
                              "kind", "attention", "inputs", s->batch, s->tokens,
                              s->size * (s->heads + 2 * s->kv_heads), "attributes", "heads",
                              s->heads, "kv_heads", s->kv_heads, "causal", s->causal);
    op_case c = case_build(given, true);
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device;
    cairn_error err = {0};
    rig r;
    bool found = false;
    options.math = CAIRN_MATH_BF16;
    CHECK_OK(crn_device_open(subject, &options, &device, &err), &err);
    rig_open_on(&r, c.graph, device);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        const cairn_op *op = cairn_graph_op(c.graph, o);
        if (op->kind != CAIRN_OP_ATTENTION_BWD)
            continue;
        store_half(&r, op->inputs[0]);
        store_half(&r, op->inputs[1]);
        store_half(&r, op->inputs[3]);
        store_half(&r, op->outputs[0]);
        rig_place(&r);
        uint32_t count, which = 0;
        const crn_choice *choices = rig_choices(&r, o, &count);
        while (which < count && strcmp(choices[which].name, "hopper") != 0)
            which++;
        found = which < count;
        if (!found)
            break;
        problem p = make_problem(&r, op, s, rng);
        run_and_compare(&r, o, which, &p);
        drop_problem(&p);
    }
    rig_close(&r);
    cairn_graph_destroy(c.graph);
    json_decref(given);
    return found;
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {1, 1, 1, 64, 64, 1},   {2, 2, 1, 63, 64, 0},    {1, 2, 1, 130, 64, 1},
        {2, 2, 2, 1, 128, 0},   {1, 2, 1, 65, 128, 1},   {1, 4, 2, 70, 128, 0},
        {1, 2, 2, 192, 64, 0},  {3, 4, 2, 197, 64, 0},   {3, 4, 1, 197, 64, 1},
        {2, 4, 2, 256, 64, 1},  {2, 4, 2, 256, 128, 1},  {3, 4, 1, 197, 128, 0},
        {40, 6, 3, 150, 64, 1}, {20, 6, 6, 150, 128, 0}, {1, 2, 2, 1024, 64, 1},
        {1, 2, 1, 513, 128, 1}};
    uint32_t count = SMALL;
    crn_rng rng = {0};
    if (argc > 1 && strcmp(argv[1], "device") == 0) {
        subject = &crn_backend_cuda;
        count = argc > 2 && strcmp(argv[2], "small") == 0 ? SMALL : CRN_LENGTH(shapes);
        if (subject->devices() == 0)
            return 77;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!test_shape(&shapes[i], &rng)) {
            CHECK(subject == &crn_backend_cuda);
            printf("this GPU is of another kind\n");
            return check_result() == 0 ? 77 : 1;
        }
    return check_result();
}
