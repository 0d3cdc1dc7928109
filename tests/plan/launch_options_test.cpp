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
  CHECK(train_command(request, layout, "model") ==
        "./yotta train --load model --dtype bf16 --context 8192 --batch 512 --microbatches 32 "
        "--layout tp=8,cp=2,pp=8,dp=8 --sequence-parallel --schedule 1f1b --chunks 2 --zero 1 "
        "--bucket-bytes 1073741824");
  layout.recomputed = 1, layout.pieces = Pieces::one_way;
  CHECK(has(train_command(request, layout, "m"), "--async-tp"));
  CHECK(has(train_command(request, layout, "m"), "--recompute all --recompute-blocks 1"));
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
  REQUIRE(options.notes.size() == 1);
  CHECK(has(options.notes[0], "no ZeRO-1"));
  layout.zero = 0, layout.schedule = PipelineKind::zb_v, layout.chunks = 1;
  CHECK(has(torchtitan_options(request, layout).text, "ZBVZeroBubble"));
  CHECK(torchtitan_options(request, layout).notes.empty());
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
