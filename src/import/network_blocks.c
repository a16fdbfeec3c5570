/* network_blocks.c: writes the lines of a network, and finds blocks among them.
 *
 *     layer1.0.conv1  layer1.0.bn1  ...      a run: neighbours whose names begin alike, which read
 *     layer1.1.conv1  layer1.1.bn1  ...      one tensor from outside and of which only the last is
 *                                            read outside
 *
 * Runs with the same layers, names and wiring become uses of one block. Values that differ between
 * them become its parameters. Runs are taken from left to right, those first that save most lines.
 * O(n^2) in the number of layers. */
#include "import/network_items.h"

#include <ctype.h>
#include <stdio.h>

#define MOST_RUNS 20000

typedef struct run {
    uint32_t first, count; /* items */
    size_t prefix;         /* length of the common beginning of their names, with its dot */
    const char *in;        /* what it reads */
    uint32_t like;         /* the first run with the same structure */
    uint32_t alike;        /* how many are, of those that begin a group */
    bool used;
} run;

/* A value that differs between the uses of a block. */
typedef struct parameter {
    uint32_t item, pair; /* where it is, in the first use */
    const char *name;
} parameter;

typedef struct writer {
    crn_items *items;
    run *runs;
    uint32_t count;
    const char *last; /* what the line just written made */
} writer;

static const crn_item *item_at(const writer *w, uint32_t i) {
    return &w->items->list.data[i];
}

/* ---- Runs ---- */

/* The length of the first `depth` words of a name, with the dot after them; 0: it has no more. */
static size_t prefix_of(const char *name, uint32_t depth) {
    const char *c = name;
    for (; depth > 0; depth--) {
        c = strchr(c, '.');
        if (c == NULL)
            return 0;
        c++;
    }
    return (size_t)(c - name);
}

static bool is_inside(const writer *w, const run *r, const char *name) {
    return strncmp(name, item_at(w, r->first)->name, r->prefix) == 0 && name[r->prefix] != '\0';
}

/* All inputs from outside are one tensor. */
static bool find_in(const writer *w, run *r) {
    for (uint32_t i = r->first; i < r->first + r->count; i++) {
        const crn_item *item = item_at(w, i);
        if (!item->chains || item->params != NULL)
            return false;
        for (uint32_t k = 0; k < item->read_count; k++) {
            if (is_inside(w, r, item->reads[k]))
                continue;
            if (r->in != NULL && strcmp(r->in, item->reads[k]) != 0)
                return false;
            r->in = item->reads[k];
        }
    }
    return r->in != NULL;
}

/* Nothing but its last layer is read outside. */
static bool is_closed(const writer *w, const run *r) {
    const char *last = item_at(w, r->first + r->count - 1)->name;
    for (uint32_t i = r->first + r->count; i < w->items->list.length; i++)
        for (uint32_t k = 0; k < item_at(w, i)->read_count; k++)
            if (is_inside(w, r, item_at(w, i)->reads[k]) &&
                strcmp(item_at(w, i)->reads[k], last) != 0)
                return false;
    return true;
}

static bool same_read(const writer *w, const run *a, const run *b, const char *x, const char *y) {
    bool inside = is_inside(w, a, x);
    return inside == is_inside(w, b, y) && (!inside || strcmp(x + a->prefix, y + b->prefix) == 0);
}

static bool same_structure(const writer *w, const run *a, const run *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const crn_item *x = item_at(w, a->first + i), *y = item_at(w, b->first + i);
        if (strcmp(x->kind, y->kind) != 0 || x->pair_count != y->pair_count ||
            x->read_count != y->read_count || strcmp(x->name + a->prefix, y->name + b->prefix) != 0)
            return false;
        for (uint32_t k = 0; k < x->pair_count; k++)
            if (strcmp(x->pairs[k].key, y->pairs[k].key) != 0)
                return false;
        for (uint32_t k = 0; k < x->read_count; k++)
            if (!same_read(w, a, b, x->reads[k], y->reads[k]))
                return false;
    }
    return true;
}

static void add_run(writer *w, run r) {
    if (w->count >= MOST_RUNS || !find_in(w, &r) || !is_closed(w, &r))
        return;
    r.like = w->count;
    for (uint32_t k = 0; k < w->count && r.like == w->count; k++)
        if (w->runs[k].like == k && same_structure(w, &w->runs[k], &r))
            r.like = k;
    w->runs[w->count] = r;
    w->runs[r.like].alike++;
    w->count++;
}

static void find_runs(writer *w) {
    uint32_t length = w->items->list.length;
    for (uint32_t depth = 1; depth <= 6; depth++)
        for (uint32_t i = 0, next; i < length; i = next) {
            const char *name = item_at(w, i)->name;
            size_t prefix = prefix_of(name, depth);
            for (next = i + 1; prefix > 0 && next < length; next++)
                if (strncmp(item_at(w, next)->name, name, prefix) != 0)
                    break;
            if (prefix > 0 && next - i > 1)
                add_run(w, (run){.first = i, .count = next - i, .prefix = prefix});
        }
}

/* How many lines a block for this run and those like it saves. */
static uint64_t saving(const writer *w, const run *r) {
    return (uint64_t)(w->runs[r->like].alike - 1) * r->count;
}

/* The run from an item on that saves most; NULL: none saves anything. */
static run *run_at(writer *w, uint32_t item) {
    run *best = NULL;
    for (uint32_t k = 0; k < w->count; k++)
        if (w->runs[k].first == item && saving(w, &w->runs[k]) > 0 &&
            (best == NULL || saving(w, &w->runs[k]) > saving(w, best)))
            best = &w->runs[k];
    return best;
}

/* Mark the runs that become uses; a group of which only one is left is not one. */
static void choose_runs(writer *w) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = 0; k < w->count; k++)
            w->runs[k].used = false;
        for (uint32_t i = 0; i < w->items->list.length;) {
            run *r = run_at(w, i);
            if (r != NULL)
                r->used = true;
            i += r != NULL ? r->count : 1;
        }
        for (uint32_t k = 0; k < w->count; k++) {
            uint32_t uses = 0;
            for (uint32_t j = k; j < w->count && w->runs[k].like == k; j++)
                uses += w->runs[j].like == k && w->runs[j].used;
            if (w->runs[k].like == k && uses == 1 && w->runs[k].alike > 1) {
                w->runs[k].alike = 1;
                changed = true;
            }
        }
    }
}

/* ---- Parameters of a block ---- */

static const char *value_in(const writer *w, const run *r, const parameter *p) {
    return item_at(w, r->first + p->item)->pairs[p->pair].value;
}

static bool differs(const writer *w, const run *head, const parameter *p) {
    for (uint32_t k = 0; k < w->count; k++)
        if (w->runs[k].used && w->runs[k].like == head->like &&
            strcmp(value_in(w, &w->runs[k], p), value_in(w, head, p)) != 0)
            return true;
    return false;
}

static bool same_everywhere(const writer *w, const run *head, const parameter *a,
                            const parameter *b) {
    for (uint32_t k = 0; k < w->count; k++)
        if (w->runs[k].used && w->runs[k].like == head->like &&
            strcmp(value_in(w, &w->runs[k], a), value_in(w, &w->runs[k], b)) != 0)
            return false;
    return true;
}

#define MOST_PARAMETERS 24
#define TOO_MANY UINT32_MAX
#define OUT_OF_MEMORY (UINT32_MAX - 1)

/* The parameters of the block that `head` is the first use of; else TOO_MANY or OUT_OF_MEMORY. */
static uint32_t find_parameters(const writer *w, const run *head, parameter *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < head->count; i++)
        for (uint32_t k = 0; k < item_at(w, head->first + i)->pair_count; k++) {
            parameter p = {i, k, item_at(w, head->first + i)->pairs[k].key};
            uint32_t same = 0, known = 0;
            for (; known < count && !same_everywhere(w, head, &out[known], &p); known++)
                same +=
                    strcmp(item_at(w, head->first + out[known].item)->pairs[out[known].pair].key,
                           p.name) == 0;
            if (known < count || !differs(w, head, &p))
                continue;
            if (count == MOST_PARAMETERS)
                return TOO_MANY;
            if (same > 0) { /* channels, channels_b, channels_c */
                char name[64];
                snprintf(name, sizeof name, "%.40s_%c", p.name, (char)('a' + same));
                p.name = crn_arena_string(w->items->scratch, name);
                if (p.name == NULL)
                    return OUT_OF_MEMORY;
            }
            out[count++] = p;
        }
    return count;
}

/* ---- Writing ---- */

/* NAME KIND KEY=VALUE ... with the names of `r` made local and its parameters named. */
static void write_item(writer *w, const crn_item *item, const run *r, const parameter *parameters,
                       uint32_t count, const char *last) {
    cairn_text *out = w->items->out;
    size_t prefix = r != NULL ? r->prefix : 0;
    crn_text_printf(out, "%s%-*s %s", r != NULL ? "    " : "", r != NULL ? 12 : 16,
                    item->name + prefix, item->kind);
    bool plain = item->read_count == 1 && last != NULL && strcmp(item->reads[0], last) == 0;
    for (uint32_t k = 0; k < item->read_count && !plain; k++) {
        bool inside = r != NULL && is_inside(w, r, item->reads[k]);
        crn_text_printf(out, "%s%s", k == 0 ? " from=" : ",",
                        r == NULL ? item->reads[k]
                        : inside  ? item->reads[k] + prefix
                                  : "in");
    }
    for (uint32_t k = 0; k < item->pair_count; k++) {
        const char *value = item->pairs[k].value;
        for (uint32_t p = 0; p < count; p++) {
            parameter here = {(uint32_t)(item - item_at(w, r->first)), k, NULL};
            if (same_everywhere(w, r, &parameters[p], &here))
                value = parameters[p].name;
        }
        crn_text_printf(out, " %s=%s", item->pairs[k].key, value);
    }
    if (item->params != NULL)
        crn_text_printf(out, " params=%s", item->params);
    crn_text_printf(out, "\n");
}

/* A name for the block: the last word of the prefix that has letters, without its digits. */
static void name_block(const writer *w, const run *r, uint32_t number, char *out, size_t size) {
    const char *name = item_at(w, r->first)->name;
    size_t end = r->prefix - 1, start, length = 0;
    do {
        for (start = end; start > 0 && name[start - 1] != '.'; start--)
            ;
        length = 0;
        for (size_t i = start; i < end && length + 12 < size; i++)
            if (isalpha((unsigned char)name[i]))
                out[length++] = name[i];
        end = start > 0 ? start - 1 : 0;
    } while (length == 0 && end > 0);
    snprintf(out + length, size - length, "%s", length == 0 ? "part" : "");
    if (number > 0)
        snprintf(out + strlen(out), size - strlen(out), "_%u", number);
}

static cairn_status write_block(writer *w, const run *head, const char *name,
                                parameter parameters[MOST_PARAMETERS], uint32_t count) {
    cairn_text *out = w->items->out;
    const char *last = head->in;
    crn_text_printf(out, "block %s", name);
    for (uint32_t p = 0; p < count; p++)
        crn_text_printf(out, " %s", parameters[p].name);
    crn_text_printf(out, "\n");
    for (uint32_t i = 0; i < head->count; i++) {
        const crn_item *item = item_at(w, head->first + i);
        write_item(w, item, head, parameters, count, last);
        last = item->name;
    }
    crn_text_printf(out, "end\n\n");
    return CAIRN_OK;
}

/* Whether run `b` continues `a` with the next number in its name, the same values, and no `from`.
 */
static bool continues(const writer *w, const run *a, const run *b, const parameter *parameters,
                      uint32_t count, size_t *digits, unsigned *number) {
    const char *x = item_at(w, a->first)->name, *y = item_at(w, b->first)->name;
    size_t end = a->prefix - 1, other = b->prefix - 1, start = end;
    while (start > 0 && isdigit((unsigned char)x[start - 1]))
        start--;
    if (start == end || end - start > 6 || other <= start || other - start > 6 ||
        strncmp(x, y, start) != 0)
        return false;
    unsigned first = 0, second = 0;
    if (sscanf(x + start, "%6u", &first) != 1 || sscanf(y + start, "%6u", &second) != 1 ||
        second != first + 1 || strspn(y + start, "0123456789") != other - start)
        return false;
    if (strcmp(b->in, item_at(w, a->first + a->count - 1)->name) != 0)
        return false;
    for (uint32_t p = 0; p < count; p++)
        if (strcmp(value_in(w, a, &parameters[p]), value_in(w, b, &parameters[p])) != 0)
            return false;
    *digits = start;
    *number = first;
    return true;
}

/* The run that begins at an item and becomes a use of a block. */
static const run *used_at(const writer *w, uint32_t item) {
    for (uint32_t k = 0; k < w->count; k++)
        if (w->runs[k].used && w->runs[k].first == item)
            return &w->runs[k];
    return NULL;
}

/* One line for a run and all that continue it. Returns the item after them. */
static uint32_t write_use(writer *w, const run *r, const char *block, const parameter *parameters,
                          uint32_t count) {
    cairn_text *out = w->items->out;
    const char *name = item_at(w, r->first)->name;
    const run *last = r, *next;
    size_t digits = 0;
    unsigned first = 0, number, most = 0;
    while ((next = used_at(w, last->first + last->count)) != NULL && next->like == r->like &&
           continues(w, last, next, parameters, count, &digits, &number)) {
        first = most == 0 ? number : first;
        most = number + 1;
        last = next;
    }
    char text[160];
    if (last != r)
        snprintf(text, sizeof text, "%.*s{%u..%u}", (int)digits, name, first, most);
    else
        snprintf(text, sizeof text, "%.*s", (int)(r->prefix - 1), name);
    crn_text_printf(out, "%-16s %s", text, block);
    if (w->last == NULL || strcmp(r->in, w->last) != 0)
        crn_text_printf(out, " from=%s", r->in);
    for (uint32_t p = 0; p < count; p++)
        crn_text_printf(out, " %s=%s", parameters[p].name, value_in(w, r, &parameters[p]));
    crn_text_printf(out, "\n");
    w->last = item_at(w, last->first + last->count - 1)->name;
    return last->first + last->count;
}

static cairn_status write_all(writer *w) {
    typedef struct known {
        char name[64];
        parameter parameters[MOST_PARAMETERS];
        uint32_t count, like;
    } known;
    CRN_ARRAY(known) blocks = {NULL, 0, 0};
    for (uint32_t k = 0; k < w->count; k++) { /* in the order of their first uses' groups */
        const run *head = &w->runs[k];
        bool seen = !head->used;
        for (uint32_t b = 0; b < blocks.length; b++)
            seen |= blocks.data[b].like == head->like;
        if (seen)
            continue;
        known block = {.like = head->like};
        block.count = find_parameters(w, head, block.parameters);
        if (block.count == OUT_OF_MEMORY)
            return CAIRN_ENOMEM;
        if (block.count == TOO_MANY) {
            for (uint32_t j = 0; j < w->count; j++)
                w->runs[j].used &= w->runs[j].like != head->like;
            continue;
        }
        for (uint32_t number = 0, b = 0; b <= blocks.length;
             number = number == 0 ? 2 : number + 1) {
            name_block(w, head, number, block.name, sizeof block.name);
            for (b = 0; b < blocks.length && strcmp(blocks.data[b].name, block.name) != 0; b++)
                ;
            b += b == blocks.length; /* no other has the name */
        }
        CRN_TRY(write_block(w, head, block.name, block.parameters, block.count));
        CRN_PUSH(w->items->scratch, blocks, block);
    }
    for (uint32_t i = 0; i < w->items->list.length;) {
        const run *r = used_at(w, i);
        const crn_item *item = item_at(w, i);
        if (r != NULL) {
            uint32_t b = 0;
            while (blocks.data[b].like != r->like)
                b++;
            i = write_use(w, r, blocks.data[b].name, blocks.data[b].parameters,
                          blocks.data[b].count);
            continue;
        }
        write_item(w, item, NULL, NULL, 0, w->last);
        if (item->chains || strcmp(item->kind, "input") == 0)
            w->last = item->name;
        i++;
    }
    return CAIRN_OK;
}

cairn_status crn_items_write(crn_items *items, const char *last) {
    writer w = {.items = items, .last = last};
    CRN_TAKE(items->scratch, w.runs, MOST_RUNS);
    find_runs(&w);
    choose_runs(&w);
    return write_all(&w);
}
