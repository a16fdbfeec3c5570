/* train_in_budget.c: train ResNet-18 for ten steps inside a budget of 24 MiB for activations.
 *
 *     cc train_in_budget.c $(pkg-config --cflags --libs cairn) -o train_in_budget
 *     OMP_WAIT_POLICY=passive ./train_in_budget
 */
#include <cairn.h>
#include <stdio.h>

int main(void) {
    cairn_zoo_options network = CAIRN_ZOO_OPTIONS_INIT; /* fields left 0 take their defaults */
    network.batch = 8;
    network.input[0] = 3, network.input[1] = network.input[2] = 96;
    network.classes = 2;
    cairn_data_options pictures = CAIRN_DATA_OPTIONS_INIT; /* which of two figures is it? */
    pictures.input[0] = 3, pictures.input[1] = pictures.input[2] = 96;
    pictures.classes = 2, pictures.count = 16; /* 14 to learn, 2 to validate */
    cairn_solve_options budget = CAIRN_SOLVE_OPTIONS_INIT;
    budget.budget_bytes = 24 << 20;

    cairn_device *device = NULL;               /* the device to train on */
    cairn_graph *forward = NULL, *step = NULL; /* the network, and its training step */
    cairn_costs *costs = NULL;                 /* bytes of tensors, times of ops */
    cairn_solution *best = NULL;               /* the plan, its simulation and its layout */
    cairn_train *train = NULL;
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_error err = {0};
    options.schedule.rate = 0.001;
    int ok = cairn_model_open(NULL, "resnet18", &network, &forward, &err) == CAIRN_OK &&
             cairn_graph_differentiate(forward, NULL, &step, &err) == CAIRN_OK &&
             cairn_device_open(NULL, NULL, &device, &err) == CAIRN_OK && /* the best backend */
             cairn_bind(step, device, &costs, &err) == CAIRN_OK &&
             cairn_solve(step, costs, NULL, &budget, &best, &err) == CAIRN_OK &&
             cairn_data_open("synthetic", &pictures, &options.data, &err) == CAIRN_OK &&
             cairn_train_create(step, device, costs, best, &options, &train, &err) == CAIRN_OK;
    for (int i = 0; ok && i < 10; i++)
        if ((ok = cairn_train_step(train, &result, &err) == CAIRN_OK))
            printf("step %2d  loss %.4f\n", i + 1, (double)result.loss);
    if (ok)
        printf("predicted peak %llu bytes, measured peak %llu bytes\n",
               (unsigned long long)best->sim->summary->peak_bytes,
               (unsigned long long)result.measured_peak_bytes);
    else
        fprintf(stderr, "%s\n", cairn_error_text(&err, (char[512]){0}, 512));

    cairn_train_destroy(train); /* destroying NULL is allowed */
    cairn_data_destroy(options.data);
    cairn_solution_destroy(best);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    cairn_graph_destroy(step);
    cairn_graph_destroy(forward);
    return ok ? 0 : 1;
}
