// check_abi.cpp: cuda_abi.h, which was copied by hand, against NVIDIA's own headers: every
// constant (cuda_constants.def), struct and function. It is only compiled (check_abi.sh);
// HAVE_CUBLAS and HAVE_CUDNN say which of the headers are there.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda.h>
#ifdef HAVE_CUBLAS
#include <cublasLt.h>
#endif
#ifdef HAVE_CUDNN
#include <cudnn_graph.h>
#endif

namespace crn {
#include "backend/cuda/cuda_abi.h"
}

#define SAME(ours, theirs)                                                                         \
    static_assert(static_cast<long long>(crn::ours) == static_cast<long long>(theirs),             \
                  #ours " is not " #theirs)

// ---- Functions: parameters have the same kinds and sizes ----

template <typename T> constexpr int kind_of() {
    return std::is_pointer<T>::value ? 1 : std::is_floating_point<T>::value ? 2 : 3;
}

template <typename A, typename B> constexpr bool is_same() {
    return kind_of<A>() == kind_of<B>() && sizeof(A) == sizeof(B);
}

template <typename... P> struct list {};

template <typename A, typename B> struct same_lists : std::false_type {};
template <> struct same_lists<list<>, list<>> : std::true_type {};
template <typename A, typename... P, typename B, typename... Q>
struct same_lists<list<A, P...>, list<B, Q...>>
    : std::integral_constant<bool, is_same<A, B>() && same_lists<list<P...>, list<Q...>>::value> {};

template <typename A, typename B> struct same_functions;
template <typename R, typename... P, typename S, typename... Q>
struct same_functions<R (*)(P...), S (*)(Q...)>
    : std::integral_constant<bool, is_same<R, S>() && same_lists<list<P...>, list<Q...>>::value> {};

#define FUNCTION(name, arguments)                                                                  \
    static_assert(same_functions<decltype(crn::crn_cuda_api::name), decltype(&::name)>::value,     \
                  #name " has another signature");
// The macros of cuda.h that add versions to names would change the names of the table too.
CRN_CUDA_DRIVER(FUNCTION)

// ---- Constants ----

#define DRIVER(ours, value, theirs) SAME(ours, theirs);
#ifdef HAVE_CUDNN
#define CUDNN(ours, value, theirs) SAME(ours, theirs);
#else
#define CUDNN(ours, value, theirs)
#endif
#ifdef HAVE_CUBLAS
#define BLAS(ours, value, theirs) SAME(ours, theirs);
#else
#define BLAS(ours, value, theirs)
#endif
#include "backend/cuda/cuda_constants.def"

static_assert(sizeof(crn::crn_tensor_map) == sizeof(CUtensorMap) &&
                  alignof(crn::crn_tensor_map) >= alignof(CUtensorMap),
              "tensor map");

// ---- cuBLASLt ----

#ifdef HAVE_CUBLAS
CRN_CUDA_BLAS(FUNCTION)
static_assert(sizeof(crn::crn_blas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
static_assert(sizeof(crn::crn_blas_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "result");
static_assert(offsetof(crn::crn_blas_heuristic, workspace) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                  offsetof(crn::crn_blas_heuristic, status) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, state) &&
                  offsetof(crn::crn_blas_heuristic, waves) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, wavesCount),
              "result");
#endif

// ---- cuDNN ----

#ifdef HAVE_CUDNN
CRN_CUDA_CUDNN(FUNCTION)
#endif
