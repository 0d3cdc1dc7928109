// The bodies of parallel/'s pipelines and of activation checkpointing.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/comm/axis.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/nn/slice.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_picture.hpp"
#include "yotta/parallel/zero_bubble.hpp"
