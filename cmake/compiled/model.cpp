// The bodies of model/, but for model/files, which needs nlohmann/json (model_files_json.cpp).
//
// What lies below is only declared here: its bodies are compiled in units of their own.
#include "yotta/core/system/build.hpp"
#undef YOTTA_BODIES
#define YOTTA_BODIES 0
#include "yotta/comm/axis.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/core/dtype.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/nn/saved.hpp"
#include "yotta/nn/schedule.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/attention_layer.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/tied_parameters.hpp"
#include "yotta/parallel/vocab_parallel.hpp"
#include "yotta/parallel/zero.hpp"
#include "yotta/parallel/zero_bubble.hpp"
#undef YOTTA_BODIES
#define YOTTA_BODIES 1
#include "yotta/model/generate.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/model/text.hpp"
