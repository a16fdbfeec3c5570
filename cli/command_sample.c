/* command_sample.c: `cairn sample --weights FILE`: continue a text with a trained network.
 *
 *     prompt  t0 t1 t2 .  .  .  .  .        the network reads as many tokens as it was built for;
 *                   |                       what comes after a token does not change what follows
 * it likely next token -> t3       so the rest of the window may hold anything
 *
 * A network of 256 classes reads bytes, others numbers of tokens. Tokens are drawn from the
 * probabilities with a seed: one seed gives one text. */
#include "cairn/safetensors.h"
#include "dataset.h"
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 256u

typedef struct sampling {
    const cli_args *args;
    char path[4096], name[4096]; /* of the weights, and of the network */
    cli_model model;
    cairn_solution *solution;
    cairn_exec *exec;
    cairn_id input, output;
    uint32_t window, classes;
    int32_t *tokens; /* of the window */
    uint32_t length; /* that are known */
    float *logits;   /* [window, classes] */
    double temperature;
    uint64_t count, state; /* tokens to make; of the random numbers */
} sampling;

/* ---- Drawing ---- */

/* A number in [0, 1) (SplitMix64 of G. Steele and others, 2014). */
static double draw(sampling *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static int32_t choose(sampling *s, const float *x) {
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t c = 1; c < s->classes; c++)
        best = x[c] > x[best] ? c : best;
    if (s->temperature == 0)
        return (int32_t)best;
    for (uint32_t c = 0; c < s->classes; c++)
        sum += exp((double)(x[c] - x[best]) / s->temperature);
    double left = draw(s) * sum;
    for (uint32_t c = 0; c < s->classes; c++) {
        left -= exp((double)(x[c] - x[best]) / s->temperature);
        if (left < 0)
            return (int32_t)c;
    }
    return (int32_t)best;
}

/* ---- The network ---- */

static cairn_status open_network(sampling *s, cairn_error *err) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_text notices = {0};
    cairn_graph_summarize(s->model.graph, &summary);
    s->input = summary.input;
    s->output = summary.output;
    cairn_status status =
        cairn_solve(s->model.graph, s->model.costs, "infer", NULL, &s->solution, err);
    if (status == CAIRN_OK)
        status = cairn_exec_create(s->model.graph, s->model.device, s->model.costs, s->solution,
                                   &options, &s->exec, err);
    if (status == CAIRN_OK)
        status = cairn_weights_load(s->exec, s->model.graph, s->path, &notices, err);
    cairn_text_release(&notices);
    return status;
}

/* Whether the network reads one sequence of tokens and makes logits for each. */
static bool reads_tokens(sampling *s) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(s->model.graph, &summary);
    if (summary.input == CAIRN_NONE || summary.output == CAIRN_NONE)
        return false;
    const cairn_tensor *in = cairn_graph_tensor(s->model.graph, summary.input);
    const cairn_tensor *out = cairn_graph_tensor(s->model.graph, summary.output);
    if (in->dtype != CAIRN_DTYPE_I32 || in->rank != 2 || in->shape[0] != 1 || out->rank != 3)
        return false;
    s->window = in->shape[1];
    s->classes = out->shape[2];
    return true;
}

/* ---- The prompt and the text ---- */

static void add_token(sampling *s, int32_t token) {
    if (s->length == s->window)
        memmove(s->tokens, s->tokens + 1, --s->length * sizeof *s->tokens);
    s->tokens[s->length++] = token;
}

/* Bytes, or numbers with commas between them. */
static bool read_prompt(sampling *s) {
    const char *text = cli_value(s->args, "prompt");
    if (text == NULL)
        text = s->classes == BYTES ? "\n" : "0";
    for (; s->classes == BYTES && *text != '\0'; text++)
        add_token(s, (unsigned char)*text);
    while (s->classes != BYTES && *text != '\0') {
        char *end;
        unsigned long token = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || token >= s->classes || (*end != ',' && *end != '\0')) {
            cli_usage_error(s->args,
                            "--prompt must be numbers below %u with commas between them; the "
                            "network does not read bytes",
                            s->classes);
            return false;
        }
        add_token(s, (int32_t)token);
        text = *end == ',' ? end + 1 : end;
    }
    if (s->length == 0)
        cli_usage_error(s->args, "--prompt must not be empty");
    return s->length > 0;
}

static void show_token(const sampling *s, int32_t token, uint64_t number) {
    bool json = cli_flag(s->args, "json");
    if (s->classes == BYTES && !json)
        putchar(token);
    else
        printf("%s%d", number == 0 ? "" : json ? ", " : ",", token);
}

static int continue_text(sampling *s) {
    cairn_error err = {0};
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    bool json = cli_flag(s->args, "json");
    if (json)
        printf("{\"tokens\": [");
    else if (s->classes == BYTES && cli_value(s->args, "prompt") != NULL)
        fputs(cli_value(s->args, "prompt"), stdout);
    for (uint64_t i = 0; i < s->count; i++) {
        cairn_status status = cairn_exec_feed(s->exec, s->input, s->tokens, &err);
        if (status == CAIRN_OK)
            status = cairn_exec_run(s->exec, 0, &result, &err);
        if (status == CAIRN_OK)
            status = cairn_exec_read(s->exec, s->output, s->logits, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        int32_t token = choose(s, s->logits + (size_t)(s->length - 1) * s->classes);
        show_token(s, token, i);
        add_token(s, token);
    }
    puts(json ? "]}" : "");
    return CLI_DONE;
}

/* ---- The command ---- */

static int sample(sampling *s) {
    cairn_error err = {0};
    if (!reads_tokens(s)) {
        fprintf(stderr, "cairn: %s does not read one sequence of tokens\n", s->name);
        return CLI_WRONG_INPUT;
    }
    s->tokens = calloc(s->window, sizeof *s->tokens);
    s->logits = calloc((size_t)s->window * s->classes, sizeof *s->logits);
    if (s->tokens == NULL || s->logits == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    if (!read_prompt(s))
        return CLI_USAGE;
    cairn_status status = open_network(s, &err);
    return status == CAIRN_OK ? continue_text(s) : cli_fail(status, &err);
}

/* Open the network of the weights, in their size unless the options say otherwise. */
static int open_model(sampling *s) {
    cairn_safetensors *weights;
    int code = cli_load_weights(cli_value(s->args, "weights"), s->path, &weights);
    if (code != CLI_DONE)
        return code;
    cli_origin origin = cli_weights_origin(weights);
    code = cli_weights_model(s->args, s->path, &origin, s->name);
    if (code == CLI_DONE)
        code = cli_model_open_one(s->args, s->name, origin.input, origin.classes, &s->model);
    if (code == CLI_DONE)
        cli_compare_network(s->model.graph, s->name, s->path, &origin);
    cairn_safetensors_destroy(weights);
    return code;
}

static int run(const cli_args *args) {
    sampling s = {.args = args};
    if (cli_value(args, "weights") == NULL)
        return cli_usage_error(args, "it needs --weights FILE");
    if (!cli_number(args, "tokens", 1, 1000000, 200, &s.count) ||
        !cli_number(args, "seed", 0, UINT64_MAX, 1, &s.state) ||
        !cli_real(args, "temperature", 0, 1000, 1, &s.temperature))
        return CLI_USAGE;
    int code = open_model(&s);
    if (code == CLI_DONE)
        code = sample(&s);
    free(s.tokens);
    free(s.logits);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    cli_model_close(&s.model);
    return code;
}

static const cli_option options[] = {
    {"weights", 'w', "FILE", "weights (safetensors), a snapshot, or the folder of a run"},
    {"prompt", 0, "TEXT", "what to continue: text, or numbers of tokens with commas between them"},
    {"tokens", 'n', "N", "how many tokens to make (default 200)"},
    {"temperature", 0, "X", "below 1 likely tokens are preferred; 0: always the likeliest"},
    {"classes", 0, "N", "the vocabulary; 256: bytes"},
    {"seq", 0, "N", "tokens that the network reads at once"},
    CLI_RUN_OPTIONS,
    {"seed", 0, "N", "seed of the random numbers (default 1)"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_sample = {
    .name = "sample",
    .arguments = "[MODEL]",
    .summary = "continue a text with a trained network",
    .details =
        "MODEL is a network that reads tokens, such as gpt2, in the size that it was trained "
        "with. It may be left out if the weights name it, as those of 'cairn train' do. A "
        "network of 256 classes reads and writes text; others read and print numbers of "
        "tokens.",
    .examples = "sample --weights run --prompt \"Once \" --tokens 100\n"
                "sample gpt2 --weights gpt2.safetensors --prompt 464,3290 --temperature 0",
    .options = options,
    .runs = true,
    .run = run,
};
