// The bodies of parallel/'s data parallelism: DDP, ZeRO, FSDP.
// First come the headers whose bodies are in other units: they are read as declarations.
#undef YOTTA_COMPILING
#include "yotta/comm/axis.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/slice.hpp"
// From here on with bodies.
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/naive_fsdp.hpp"
#include "yotta/parallel/tied_parameters.hpp"
#include "yotta/parallel/zero.hpp"
