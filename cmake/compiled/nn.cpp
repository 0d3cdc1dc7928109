// The bodies of nn/, but for those in nn_linear.cpp and nn_attention.cpp.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/core/parallel_for.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/nn/linear_ops.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/nn/activations.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/sgd.hpp"
