// The bodies of parallel/'s layers: tensor and context parallelism.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/comm/axis.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/attention.hpp"
#include "yotta/nn/attention_blockwise.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/nn/rope.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/parallel/attention_layer.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"
#include "yotta/parallel/vocab_parallel.hpp"
