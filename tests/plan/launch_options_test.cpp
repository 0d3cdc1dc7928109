// A layout in the words of three programs.
#include "yotta/plan/launch_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
struct Planned {
  PlanRequest request;
  Layout layout;
};
Planned planned() {
  Planned made;
  made.request.config = llama3_405b();
  made.request.config.dtype = DType::bf16;
  made.request.cluster = cluster_named("h100x1024");
  made.request.tokens = 1 << 22, made.request.sequence = 8192;
  made.layout.shape = {.tp = 8, .cp = 2, .pp = 8, .dp_replicate = 8};
  made.layout.sequence_parallel = true, made.layout.zero = 1, made.layout.microbatches = 32;
  made.layout.schedule = PipelineKind::interleaved, made.layout.chunks = 2;
  return made;
}
bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}
}  // namespace

TEST_CASE("ours: a command with every choice") {
  auto [request, layout] = planned();
  CHECK(train_command(request, layout, {"model", "h100x1024"}) ==
        "srun -n 1024 ./yotta train --load model --dtype bf16 --context 8192 --batch 512 "
        "--microbatches 32 --layout tp=8,cp=2,pp=8,dp=8 --sequence-parallel --schedule 1f1b "
        "--chunks 2 --zero 1 --bucket-bytes 1073741824 --comm nccl");
  layout.recomputed = 1, layout.pieces = Pieces::one_way;
  CHECK(has(train_command(request, layout, {"m"}), "--async-tp"));
  CHECK(has(train_command(request, layout, {"m"}), "--recompute all --recompute-blocks 1"));
}

TEST_CASE("ours: a small model on few chips runs here, with its sizes and the described cluster") {
  PlanRequest request;
  request.config = llama_config(4, 64, 192, 8, 4, 32, 256);
  request.cluster = cluster_named("h100x8");
  request.tokens = 8 * 32, request.sequence = 32;
  Layout layout;
  layout.shape = {.ep = 2, .dp_replicate = 4};
  CHECK(train_command(request, layout, {"", "h100x8"}) ==
        "./yotta train --dialect llama --layers 4 --width 64 --heads 8 --kv-heads 4 "
        "--feed-forward 192 --dtype f32 --context 32 --batch 8 --microbatches 1 --layout "
        "ep=2,dp=4 --bucket-bytes 26214400 --cluster h100x8");
  request.config.mixture.experts = 4, request.config.mixture.shared = 1;
  request.config.mixture.score = RouterScore::sigmoid, request.config.mixture.capacity = 1.5;
  CHECK(has(train_command(request, layout, {}),
            "--experts 4 --top-k 2 --shared-experts 1 --router sigmoid --capacity 1.5 --dtype"));
  CHECK(!has(train_command(request, layout, {}), "--cluster"));
  request.config = gpt2_config(2, 64, 4, 32, 256);
  request.config.tied = false;
  CHECK(has(train_command(request, layout, {}), "--feed-forward 256 --untied --dtype"));
}

TEST_CASE("TorchTitan: degrees, schedule and microbatch; what it lacks is a note") {
  auto [request, layout] = planned();
  const LaunchOptions options = torchtitan_options(request, layout);
  for (const char* line :
       {"tensor_parallel_degree = 8\n", "context_parallel_degree = 2\n",
        "pipeline_parallel_degree = 8\n", "data_parallel_replicate_degree = 8\n",
        "pipeline_parallel_schedule = \"Interleaved1F1B\"\n", "local_batch_size = 64\n",
        "pipeline_parallel_microbatch_size = 2\n", "mode = \"none\"\n"})
    CHECK_MESSAGE(has(options.text, line), line);
  REQUIRE(options.notes.size() == 2);
  CHECK(has(options.notes[0], "no ZeRO-1"));
  CHECK(has(options.notes[1], "cp always shards weights"));
  CHECK(has(options.text, "pipeline_parallel_layers_per_stage = 8\n"));  // 126 + 2 over 16 stages
  layout.zero = 0, layout.schedule = PipelineKind::zb_v, layout.chunks = 1;
  layout.shape.cp = 1, layout.shape.dp_shard = 2;
  const LaunchOptions vee = torchtitan_options(request, layout);
  CHECK(has(vee.text, "ZBVZeroBubble"));
  CHECK(!has(vee.text, "layers_per_stage"));
  CHECK(vee.notes.empty());
}

TEST_CASE("TorchTitan: copies beside another axis, ZB-H1 and odd chunks have notes") {
  auto [request, layout] = planned();
  layout.zero = 0, layout.shape.cp = 1, layout.shape.dp_replicate = 16;
  REQUIRE(torchtitan_options(request, layout).notes.size() == 1);
  CHECK(has(torchtitan_options(request, layout).notes[0], "DDP goes with no other axis"));
  layout.schedule = PipelineKind::zb_h1, layout.chunks = 1;
  layout.shape.dp_shard = 2, layout.shape.dp_replicate = 8;
  REQUIRE(torchtitan_options(request, layout).notes.size() == 1);
  CHECK(has(torchtitan_options(request, layout).notes[0], "wants 2 stages or more on a rank"));
  layout.schedule = PipelineKind::interleaved, layout.chunks = 12;  // 96 stages of 128 layers
  REQUIRE(torchtitan_options(request, layout).notes.size() == 1);
  CHECK(has(torchtitan_options(request, layout).notes[0], "no pipeline_parallel_layers_per_stage"));
}

TEST_CASE("Megatron-LM: sizes, virtual stages, the distributed optimizer") {
  auto [request, layout] = planned();
  const LaunchOptions options = megatron_options(request, layout);
  for (const char* word :
       {"--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 8",
        "--context-parallel-size 2", "--micro-batch-size 2", "--global-batch-size 512",
        "--sequence-parallel", "--use-distributed-optimizer", "--cp-comm-type p2p",
        "--num-virtual-stages-per-pipeline-rank 2", "--bf16"})
    CHECK_MESSAGE(has(options.text, word), word);
  CHECK(options.notes.empty());
  layout.schedule = PipelineKind::zb_h1, layout.chunks = 1, layout.recomputed = -1;
  CHECK(has(megatron_options(request, layout).text, "--recompute-method uniform"));
  CHECK(megatron_options(request, layout).notes.size() == 1);
}
