// What the programs of this folder share: the check that a call of CUDA went well.
#ifndef CHECK_CUH
#define CHECK_CUH

#include <cstdio>
#include <cstdlib>

#define CUDA_CHECK(call)                                                              \
  do {                                                                                \
    cudaError_t status_ = (call);                                                     \
    if (status_ != cudaSuccess) {                                                     \
      fprintf(stderr, "CUDA error at %s:%d code=%d(%s) \"%s\"\n", __FILE__, __LINE__, \
              static_cast<int>(status_), cudaGetErrorString(status_), #call);         \
      exit(EXIT_FAILURE);                                                             \
    }                                                                                 \
  } while (0)

// Whether two floats are the same but for rounding.
inline bool close_to(double a, double b, double tolerance = 1e-4) {
  double diff = a > b ? a - b : b - a;
  double size = b > 0 ? b : -b;
  return diff <= tolerance * (size > 1 ? size : 1);
}

#endif
