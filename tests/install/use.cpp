// use.cpp: a C++ program can use the headers: they compile without a warning, and it links.
#include <cairn.h>
#include <cairn/arrays.h>
#include <cairn/budget.h>
#include <cairn/page.h>
#include <cairn/safetensors.h>
#include <cairn/papers.h>
#include <cairn/report.h>

#include <cstdio>
#include <memory>

#if !CAIRN_VERSION_AT_LEAST(0, 1, 0) || CAIRN_VERSION_AT_LEAST(9, 0, 0)
#error the version of the headers is wrong
#endif

int main() {
#ifdef EVERY_INIT // made by test_install.sh from the headers
#include EVERY_INIT
#endif
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = 1;
    cairn_solve_options solving = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_tensor tensor = CAIRN_TENSOR_INIT;
    if (solving.struct_size != sizeof solving || tensor.alias_of != CAIRN_NONE)
        return 1;
    cairn_graph *made = nullptr;
    cairn_error err = {};
    if (cairn_model_open(nullptr, "alexnet", &options, &made, &err) != CAIRN_OK) {
        std::fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    std::unique_ptr<cairn_graph, void (*)(cairn_graph *)> graph(made, cairn_graph_destroy);
    std::printf("%u ops\n", static_cast<unsigned>(cairn_graph_op_count(graph.get())));
    return 0;
}
