/* snapshot_file.c: a session as one safetensors file, and back.
 *
 *     weights and running statistics     by their own names: the file loads wherever weights do
 *     cairn.slot.PARAMETER.SLOT          what the optimiser keeps
 *     cairn.history.steps [n, 2]         loss, correct
 *     cairn.history.scores [n, 4]        step, loss, correct, predictions
 *     cairn.normalise.mean, .deviation   of every channel of the inputs, for readers elsewhere
 *     metadata                           step, SHA-256 of the tensors above but the last two, what
 *                                        the network and its inputs are, and the run's conditions
 *
 * A file is first checked against the session, tensor by tensor, and against its hash; only then is
 * anything taken from it. */
#include "base/sha256.h"
#include "train/train_internal.h"
#include "weights/crn_weights.h"

#include <stdio.h>
#include <stdlib.h>

#define VERSION "1"

/* The tensors of a session: first those of the network, then those of training. */
typedef struct contents {
    crn_arena *scratch;
    crn_saved_tensor *list;
    uint32_t count, of_network, of_exec; /* the network's; those that the executor holds */
    double *steps, *scores;              /* the history as it lies in the file */
} contents;

static const char *join(crn_arena *scratch, const char *parameter, const char *slot) {
    size_t size = strlen(parameter) + strlen(slot) + 16;
    char *name = crn_arena_take(scratch, size, 1);
    if (name != NULL)
        snprintf(name, size, "cairn.slot.%s.%s", parameter, slot);
    return name;
}

/* A tensor of the executor; slot as in crn_saved_tensor. */
static void add_tensor(contents *c, const char *name, const cairn_tensor *like, cairn_id from,
                       uint32_t slot) {
    crn_saved_tensor *t = &c->list[c->count++];
    *t = (crn_saved_tensor){.from = from, .slot = slot};
    t->as = (cairn_named_tensor){.name = name, .element = CAIRN_ELEMENT_F32, .rank = like->rank};
    for (uint32_t i = 0; i < like->rank; i++)
        t->as.shape[i] = like->shape[i];
    t->as.bytes = like->bytes;
}

static void add_table(contents *c, const char *name, uint64_t rows, uint64_t columns,
                      const double *data) {
    if (rows == 0)
        return;
    c->list[c->count++] = (crn_saved_tensor){.as = {.name = name,
                                                    .element = CAIRN_ELEMENT_F64,
                                                    .rank = 2,
                                                    .shape = {rows, columns},
                                                    .data = data,
                                                    .bytes = rows * columns * sizeof(double)},
                                             .from = CAIRN_NONE};
}

static cairn_status add_slots(cairn_train *train, contents *c) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(train->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(train->graph, t);
        const char *slot;
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        for (uint32_t k = 0; (slot = crn_exec_slot_name(train->exec, k)) != NULL; k++) {
            const char *name = join(c->scratch, tensor->name, slot);
            if (name == NULL)
                return CAIRN_ENOMEM;
            add_tensor(c, name, tensor, t, k + 1);
        }
    }
    return CAIRN_OK;
}

/* List all tensors with where they come from. The history is two tables, with this number of steps
 * and of scores. */
static cairn_status list_contents(cairn_train *train, uint64_t steps, uint32_t score_count,
                                  contents *c) {
    uint32_t tensors = cairn_graph_tensor_count(train->graph);
    CRN_TAKE(c->scratch, c->list, (size_t)tensors * 3 + 2);
    CRN_TAKE(c->scratch, c->steps, (size_t)steps * 2);
    CRN_TAKE(c->scratch, c->scores, (size_t)score_count * 4);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(train->graph, t);
        if (tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_STATE)
            add_tensor(c, tensor->name, tensor, t, 0);
    }
    c->of_network = c->count;
    CRN_TRY(add_slots(train, c));
    c->of_exec = c->count;
    add_table(c, "cairn.history.steps", steps, 2, c->steps);
    add_table(c, "cairn.history.scores", score_count, 4, c->scores);
    return CAIRN_OK;
}

static void hash_tensor(crn_sha256 *hash, const cairn_named_tensor *tensor, const void *data) {
    crn_sha256_add(hash, tensor->name, strlen(tensor->name) + 1);
    crn_sha256_add(hash, data, (size_t)tensor->bytes);
}

/* ---- Writing ---- */

static void fill_history(const crn_history *h, contents *c) {
    for (uint64_t i = 0; i < h->steps; i++) {
        c->steps[2 * i] = (double)h->records[i].loss;
        c->steps[2 * i + 1] = h->records[i].correct;
    }
    for (uint32_t i = 0; i < h->score_count; i++) {
        c->scores[4 * i] = (double)h->scores[i].step;
        c->scores[4 * i + 1] = h->scores[i].loss;
        c->scores[4 * i + 2] = (double)h->scores[i].correct;
        c->scores[4 * i + 3] = (double)h->scores[i].predictions;
    }
}

static cairn_status key_of(crn_arena *scratch, const crn_condition *condition, const char **out) {
    size_t size = strlen(condition->name) + 16;
    char *key = crn_arena_take(scratch, size, 1);
    if (key == NULL)
        return CAIRN_ENOMEM;
    snprintf(key, size, "cairn.with.%s", condition->name);
    *out = key;
    return CAIRN_OK;
}

static cairn_status hash_contents(cairn_train *train, const contents *c, char digits[65],
                                  cairn_error *err) {
    crn_sha256 hash;
    void *room = crn_arena_take(c->scratch, (size_t)crn_saved_room(c->list, c->count), 1);
    if (room == NULL)
        return CAIRN_ENOMEM;
    crn_sha256_init(&hash);
    for (uint32_t i = 0; i < c->count; i++) {
        const void *data;
        CRN_TRY(crn_saved_data(train->exec, &c->list[i], room, &data, err));
        hash_tensor(&hash, &c->list[i].as, data);
    }
    crn_sha256_finish(&hash, digits);
    return CAIRN_OK;
}

static cairn_status write_contents(cairn_train *train, contents *c, const char *path,
                                   cairn_error *err) {
    cairn_pair pairs[CRN_MOST_CONDITIONS + CRN_MOST_ORIGINS + 4] = {{"cairn.snapshot", VERSION}};
    uint32_t count = 1;
    char step[24], scores[24], digits[65];
    crn_origin origin;
    CRN_TRY(crn_origin_of(train, c->scratch, &origin, err));
    CRN_TRY(list_contents(train, train->history.steps, train->history.score_count, c));
    fill_history(&train->history, c);
    CRN_TRY(hash_contents(train, c, digits, err));
    snprintf(step, sizeof step, "%llu", (unsigned long long)train->history.steps);
    snprintf(scores, sizeof scores, "%u", train->history.score_count);
    pairs[count++] = (cairn_pair){"cairn.step", step};
    pairs[count++] = (cairn_pair){"cairn.evaluations", scores};
    pairs[count++] = (cairn_pair){"cairn.sha256", digits};
    for (uint32_t i = 0; i < origin.count; i++)
        pairs[count++] = origin.pairs[i];
    for (uint32_t i = 0; i < train->condition_count; i++) {
        CRN_TRY(key_of(c->scratch, &train->conditions[i], &pairs[count].key));
        pairs[count++].value = train->conditions[i].value;
    }
    cairn_weights_save_options options = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    options.steps = train->position;
    options.metadata = pairs;
    options.metadata_count = count;
    options.extra = origin.tensors;
    options.extra_count = origin.tensor_count;
    return crn_weights_save(train->exec, train->graph, path, &options, c->list + c->of_network,
                            c->count - c->of_network, err);
}

cairn_status crn_snapshot_write(cairn_train *train, const char *path, cairn_error *err) {
    crn_arena scratch;
    crn_arena_init(&scratch, &train->memory.allocator);
    contents c = {.scratch = &scratch};
    cairn_status status = write_contents(train, &c, path, err);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

/* ---- Reading ---- */

typedef struct reading {
    cairn_train *train;
    const cairn_safetensors *file;
    const char *path;
    contents contents;
    uint64_t steps;
    uint32_t score_count;
    cairn_text *notices;
    cairn_error *err;
} reading;

static cairn_status damaged(const reading *r, const char *why) {
    return crn_fail(r->err, CAIRN_ESYNTAX, "%s is damaged: %s", r->path, why);
}

/* A whole number of the metadata. */
static bool read_number(const reading *r, const char *key, uint64_t most, uint64_t *out) {
    const char *text = cairn_safetensors_value(r->file, key);
    if (text == NULL || text[0] < '0' || text[0] > '9' || strlen(text) > 18)
        return false;
    char *end;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out <= most;
}

/* A snapshot of another backend is taken, with a notice; what depends on the backend may differ. */
static cairn_status check_conditions(reading *r) {
    bool moved = false;
    for (uint32_t i = 0; i < r->train->condition_count; i++) {
        const crn_condition *condition = &r->train->conditions[i];
        const char *key;
        CRN_TRY(key_of(r->contents.scratch, condition, &key));
        const char *value = cairn_safetensors_value(r->file, key);
        bool same = value != NULL && strcmp(value, condition->value) == 0;
        if (!same && value != NULL && strcmp(condition->name, "backend") == 0) {
            moved = true;
            crn_text_printf(r->notices,
                            "%s is of a run on backend %s; with backend %s its numbers are rounded "
                            "differently from here on\n",
                            r->path, value, condition->value);
        } else if (!same && !(moved && condition->of_device))
            return crn_fail(r->err, CAIRN_EINVAL,
                            "the run in %s has %s %s, and this one %s; continue it with the same "
                            "options, or start another run in another folder",
                            r->path, condition->name, value == NULL ? "another" : value,
                            condition->value);
    }
    return moved ? crn_text_finish(r->notices) : CAIRN_OK;
}

/* A tensor of the session in the file, or in the list of those that the file has in another form;
 * NULL: it has none. */
static const cairn_named_tensor *find(const reading *r, const crn_saved_tensor *wanted,
                                      const cairn_named_tensor *gathered, uint32_t count) {
    crn_form form;
    if (wanted->from == CAIRN_NONE || wanted->slot > 0 ||
        !crn_form_of(r->train->graph, wanted->from, &form))
        return crn_safetensors_find(r->file, wanted->as.name);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(gathered[i].name, wanted->as.name) == 0)
            return &gathered[i];
    return NULL;
}

/* Every tensor is there, with the right shape, and all have the hash that was written. */
static cairn_status check_tensors(reading *r) {
    contents *c = &r->contents;
    char digits[65];
    crn_sha256 hash;
    uint32_t count;
    const cairn_named_tensor *gathered = cairn_safetensors_tensors(r->file, &count);
    CRN_TRY(crn_forms_gather(r->train->graph, c->scratch, &gathered, &count, r->err));
    CRN_TRY(list_contents(r->train, r->steps, r->score_count, c));
    crn_sha256_init(&hash);
    for (uint32_t i = 0; i < c->count; i++) {
        const cairn_named_tensor *wanted = &c->list[i].as;
        const cairn_named_tensor *tensor = find(r, &c->list[i], gathered, count);
        if (tensor == NULL || tensor->element != wanted->element || tensor->bytes != wanted->bytes)
            return damaged(r, "a tensor is missing or has another size");
        hash_tensor(&hash, wanted, tensor->data);
    }
    crn_sha256_finish(&hash, digits);
    const char *written = cairn_safetensors_value(r->file, "cairn.sha256");
    if (written == NULL || strcmp(written, digits) != 0)
        return damaged(r, "its tensors do not have the hash that was written with them");
    return CAIRN_OK;
}

static void take_history(reading *r) {
    crn_history *h = &r->train->history;
    const contents *c = &r->contents;
    h->steps = h->best_step = h->best_correct = 0;
    h->score_count = 0;
    for (uint64_t i = 0; i < r->steps; i++)
        crn_history_add_step(h, (float)c->steps[2 * i], (uint64_t)c->steps[2 * i + 1]);
    for (uint32_t i = 0; i < r->score_count; i++) {
        const double *score = c->scores + 4 * i;
        crn_history_add_score(h, &(cairn_train_score){(uint64_t)score[0], score[1],
                                                      (uint64_t)score[2], (uint64_t)score[3]});
    }
}

/* All is checked; copy it to where it belongs. */
static cairn_status take_tensors(reading *r) {
    contents *c = &r->contents;
    cairn_train *train = r->train;
    if (crn_history_reserve(train, r->steps + 1, r->score_count + 1) != CAIRN_OK)
        return CAIRN_ENOMEM;
    uint32_t count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(r->file, &count);
    CRN_TRY(cairn_weights_assign(train->exec, train->graph, tensors, count, r->path, NULL, r->err));
    for (uint32_t i = c->of_network; i < c->count; i++) {
        const crn_saved_tensor *to = &c->list[i];
        const void *data = crn_safetensors_find(r->file, to->as.name)->data;
        if (i < c->of_exec)
            CRN_TRY(crn_exec_write_slot(train->exec, to->from, to->slot - 1, data, r->err));
        else
            memcpy((void *)(uintptr_t)to->as.data, data, (size_t)to->as.bytes);
    }
    take_history(r);
    crn_train_go_to(train, r->steps);
    return CAIRN_OK;
}

static cairn_status read_file(reading *r) {
    const char *version = cairn_safetensors_value(r->file, "cairn.snapshot");
    uint64_t scores = 0;
    if (version == NULL || strcmp(version, VERSION) != 0)
        return damaged(r, "it does not say that it is a snapshot of this version");
    CRN_TRY(check_conditions(r));
    /* so many that a file could have them */
    if (!read_number(r, "cairn.step", UINT32_MAX, &r->steps) ||
        !read_number(r, "cairn.evaluations", r->steps, &scores))
        return damaged(r, "it does not say how many steps were done");
    const cairn_named_tensor *history = crn_safetensors_find(r->file, "cairn.history.steps");
    if ((history == NULL ? 0 : history->bytes) != r->steps * 2 * sizeof(double))
        return damaged(r, "its history does not have as many steps");
    r->score_count = (uint32_t)scores;
    CRN_TRY(check_tensors(r));
    return take_tensors(r);
}

cairn_status crn_snapshot_read(cairn_train *train, const char *path, cairn_text *notices,
                               cairn_error *err) {
    cairn_safetensors *file;
    crn_arena scratch;
    cairn_status status = cairn_safetensors_load(&train->memory.allocator, path, &file, err);
    if (status == CAIRN_EINVAL)
        status = CAIRN_ESYNTAX; /* it is damaged, or it is not a snapshot */
    if (status != CAIRN_OK)
        return status;
    crn_arena_init(&scratch, &train->memory.allocator);
    reading r = {.train = train, .file = file, .path = path, .notices = notices, .err = err};
    r.contents.scratch = &scratch;
    status = read_file(&r);
    crn_arena_release(&scratch);
    cairn_safetensors_destroy(file);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
