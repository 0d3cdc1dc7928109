// The bodies of nn/attention.hpp and nn/attention_blockwise.hpp.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/core/matmul.hpp"
#include "yotta/core/parallel_for.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/softmax.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/nn/attention_blockwise.hpp"
