// The bodies of nn/ as kernels of the emulator's unchecked build.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/reduce_ops.hpp"
#include "yotta/core/cpu/convert.hpp"
#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/nn/cuda/cuda_kernels.hpp"
