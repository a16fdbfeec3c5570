/* network_words.h: the words of a network file and what they mean. network_file.c builds from them.
 */
#ifndef CRN_NETWORK_WORDS_H
#define CRN_NETWORK_WORDS_H

#include "import/importer.h"
#include "import/network_layers.h"

#define CRN_NET_MOST_WORDS 32
#define CRN_NET_MOST_OPERANDS 64
#define CRN_NET_MOST_LAYERS 50000 /* and parameters */
#define CRN_NET_LONGEST 120       /* of a name */

typedef struct crn_net_line {
    uint32_t number, count; /* of the line in the file, from 1; of its words */
    const char **words;
} crn_net_line;

typedef struct crn_net_block {
    const crn_net_line *head; /* block NAME PARAMETER PARAMETER=DEFAULT ... */
    uint32_t first, last;     /* lines inside */
} crn_net_block;

typedef struct crn_net_binding {
    const char *name, *value;
} crn_net_binding;

/* What names mean: at the top, or in a use of a block. */
typedef struct crn_net_scope {
    const struct crn_net_scope *outer;
    const char *prefix; /* "stage1."; "" at the top */
    cairn_id in, last;  /* what a block reads; what the next layer reads */
    const crn_net_binding *bindings;
    uint32_t count;
} crn_net_scope;

typedef struct crn_net_named {
    const char *name;
    cairn_id tensor;
    uint32_t line;
} crn_net_named;

typedef struct crn_net {
    crn_arena *scratch;
    cairn_builder *builder;
    cairn_zoo_options *size; /* what is asked for, then what was made */
    bool takes_input, takes_classes;
    CRN_ARRAY(crn_net_line) lines;
    CRN_ARRAY(crn_net_block) blocks;
    CRN_ARRAY(crn_net_named) named;
    const crn_net_line *at;
    const char *file;
    cairn_error *err;
} crn_net;

/* Fail with a sentence about the current line. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
cairn_status
crn_net_wrong(crn_net *n, const char *format, ...);

/* Split the text, which is changed, into lines of words. */
CAIRN_MUST cairn_status crn_net_split(crn_net *n, char *text);

/* Two texts in a row, as a name. */
CAIRN_MUST cairn_status crn_net_join(crn_net *n, const char *a, const char *b, const char **out);

/* "4*growth", "channels/2": products and quotients, from left to right. */
bool crn_net_value(crn_net *n, const crn_net_scope *s, const char **c, int64_t *out);

/* Values between commas. Returns how many; 0: something is wrong. */
uint32_t crn_net_values(crn_net *n, const crn_net_scope *s, const char *text, int64_t *out,
                        uint32_t most);

/* The text after KEY= on the line, with a name of the block replaced; NULL: the line has none. */
const char *crn_net_given(const crn_net *n, const crn_net_scope *s, const char *key);

/* One number from 1 on; 0 where the line does not say. */
CAIRN_MUST cairn_status crn_net_size(crn_net *n, const crn_net_scope *s, const char *key,
                                     uint32_t *out);

/* From now on the name means the tensor. */
CAIRN_MUST cairn_status crn_net_remember(crn_net *n, const char *name, cairn_id tensor);

/* The tensors that KEY=A,B names. */
CAIRN_MUST cairn_status crn_net_tensors(crn_net *n, const crn_net_scope *s, const char *key,
                                        cairn_id *out, uint32_t *count);

#endif
