// The bodies of nn/op.hpp, nn/elementwise.hpp and nn/linear_ops.hpp.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/core/matmul.hpp"
#include "yotta/core/parallel_for.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/device/cuda/device_matmul.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/nn/linear_ops.hpp"
