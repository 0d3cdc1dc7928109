#include "yotta/comm/nccl/nccl.hpp"

#include <doctest/doctest.h>

#include "support/not_run.hpp"

// All but NCCL's own calls is tested without it (nccl_transport_test.cpp, nccl_library_test.cpp); nvcc compiles and
// links those with course/shared/cuda.cu; that they work can be seen on a GPU only.
TEST_CASE("NCCL ranks on GPUs") { YOTTA_NOT_RUN("NCCL needs a GPU (tests/gpu_training)"); }
