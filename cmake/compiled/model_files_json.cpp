// The bodies of model/files, which reads and writes JSON.
//
// What lies below is only declared here: its bodies are compiled in units of their own.
#include "yotta/core/system/build.hpp"
#undef YOTTA_BODIES
#define YOTTA_BODIES 0
#include "yotta/comm/communicator.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/config.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/parallel/flat_shard.hpp"
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/files/sharded_checkpoint.hpp"
