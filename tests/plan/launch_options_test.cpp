// A layout in the words of two other programs.
#include "yotta/plan/launch_options.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::planned;

TEST_CASE("TorchTitan: degrees, schedule and microbatch; what it lacks is a note") {
  auto [request, layout] = planned();
  const LaunchOptions options = torchtitan_options(request, layout);
  for (const char* line :
       {"tensor_parallel_degree = 8\n", "context_parallel_degree = 2\n",
        "pipeline_parallel_degree = 8\n", "data_parallel_replicate_degree = 1\n",
        "data_parallel_shard_degree = 8\n", "fsdp_reshard_after_forward = \"never\"\n",
        "pipeline_parallel_schedule = \"Interleaved1F1B\"\n", "local_batch_size = 64\n",
        "pipeline_parallel_microbatch_size = 2\n", "mode = \"none\"\n",
        "pipeline_parallel_first_stage_less_layers = 0\n",
        "pipeline_parallel_last_stage_less_layers = 0\n",
        "pipeline_parallel_layers_per_stage = 8\n"})  // 126 over 16 stages
    CHECK_MESSAGE(contains(options.text, line), line);
  CHECK(!contains(options.text, "compile"));
  REQUIRE(options.notes.size() == 2);
  CHECK(contains(options.notes[0], "no ZeRO-1"));
  CHECK(contains(options.notes[1], "pp is its outermost axis"));
  layout.zero = 0, layout.schedule = PipelineKind::zb_v, layout.chunks = 1;
  layout.shape.cp = 1, layout.shape.dp_shard = 2;
  const LaunchOptions vee = torchtitan_options(request, layout);
  CHECK(contains(vee.text, "ZBVZeroBubble"));
  CHECK(contains(vee.text, "fsdp_reshard_after_forward = \"always\"\n"));
  CHECK(!contains(vee.text, "layers_per_stage"));
  CHECK(vee.notes.size() == 1);
}

TEST_CASE("units that are kept, and ZeRO-2, in the words of both") {
  auto [request, layout] = planned();
  layout.zero = 2;
  CHECK(contains(torchtitan_options(request, layout).notes[0], "no ZeRO-2 by name"));
  const std::string megatron = megatron_options(request, layout).text;
  CHECK(contains(megatron, "--data-parallel-sharding-strategy optim_grads --"));
  CHECK(contains(megatron, "--overlap-grad-reduce"));
  layout.zero = 0, layout.shape = {.dp_shard = 8};
  const auto reshards = [&] {
    const std::string text = torchtitan_options(request, layout).text;
    return contains(text, "fsdp_reshard_after_forward = \"always\"\n");
  };
  CHECK(reshards());
  CHECK(contains(megatron_options(request, layout).text, "optim_grads_params"));
  layout.keeps_units = true;
  CHECK_FALSE(reshards());
  CHECK_FALSE(contains(megatron_options(request, layout).text, "optim_grads_params"));
  CHECK(contains(megatron_options(request, layout).notes[0], "no units that stay whole"));
}

TEST_CASE("TorchTitan: Async-TP is compiled; it refuses the one without the other") {
  auto [request, layout] = planned();
  layout.pieces = Pieces::one_way;
  const std::string text = torchtitan_options(request, layout).text;
  CHECK(contains(text, "enable_async_tensor_parallel = true\n"));
  CHECK(text.find("compile = true\n") < text.find("[parallelism]"));
}

// It starts only if these are all GPUs, and ep lies inside cp and shard.
TEST_CASE("TorchTitan: the degrees multiply to the GPUs, with experts and without") {
  auto [request, layout] = planned();
  for (const MeshShape& shape : {MeshShape{.ep = 8, .dp_shard = 16},
                                 {.ep = 8, .dp_replicate = 4},
                                 {.tp = 2, .cp = 2, .ep = 4, .dp_shard = 2, .dp_replicate = 3},
                                 {.tp = 2, .dp_replicate = 8},
                                 {.pp = 4, .dp_replicate = 2},
                                 {.cp = 2, .dp_replicate = 2},
                                 {.dp_replicate = 8}})
    for (const int zero : {0, 1}) {
      layout.shape = shape, layout.zero = shape.dp_shard > 1 ? 0 : zero;
      const auto [replicate, shard, expert, has_ddp] = titan_degrees(layout);
      CAPTURE(describe(shape));
      CHECK(replicate * shard * shape.tp * shape.cp * shape.pp == shape.ranks());
      CHECK(expert % (shape.ep > 1 ? shape.cp : 1) == 0);
      CHECK(shard * shape.cp % expert == 0);
      const bool copies = replicate > 1 && shard * shape.cp == 1;
      CHECK_FALSE((copies && shape.tp * shape.pp > 1));  // "DDP has not supported > 1D parallelism"
    }
  layout.shape = {.ep = 8, .dp_shard = 16}, layout.zero = 0;
  const LaunchOptions options = torchtitan_options(request, layout);
  CHECK(contains(options.text, "data_parallel_shard_degree = 128\n"));
  CHECK(contains(options.text, "expert_parallel_degree = 8\n"));
  REQUIRE(options.notes.size() == 1);
  CHECK(contains(options.notes[0], "ep lies inside"));
}

TEST_CASE("TorchTitan: copies beside another axis, ZB-H1 and odd chunks have notes") {
  auto [request, layout] = planned();
  const auto has_note = [&](const char* words) {
    for (const std::string& note : torchtitan_options(request, layout).notes)
      if (contains(note, words)) return true;
    return false;
  };
  layout.zero = 0, layout.shape.cp = 1, layout.shape.dp_replicate = 16;
  CHECK(has_note("DDP goes with no other axis"));
  CHECK_FALSE(has_note("no ZB-H1"));
  layout.schedule = PipelineKind::zb_h1, layout.chunks = 1;
  layout.shape.dp_shard = 2, layout.shape.dp_replicate = 8;
  CHECK(has_note("wants 2 stages or more on a rank"));
  CHECK_FALSE(has_note("DDP goes with no other axis"));
  layout.schedule = PipelineKind::interleaved, layout.chunks = 10;  // 80 stages of 126 layers
  CHECK(has_note("no pipeline_parallel_layers_per_stage"));
}

TEST_CASE("Megatron-LM: sizes, virtual stages, the distributed optimizer") {
  auto [request, layout] = planned();
  const LaunchOptions options = megatron_options(request, layout);
  for (const char* word :
       {"--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 8",
        "--context-parallel-size 2", "--micro-batch-size 2", "--global-batch-size 512",
        "--sequence-parallel", "--use-distributed-optimizer", "--cp-comm-type p2p",
        "--num-virtual-stages-per-pipeline-rank 2", "--bf16"})
    CHECK_MESSAGE(contains(options.text, word), word);
  CHECK_FALSE(contains(options.text, "--overlap-grad-reduce"));  // our ZeRO-1 sums after backward
  layout.schedule = PipelineKind::zb_h1, layout.chunks = 1, layout.recomputed = -1;
  CHECK(contains(megatron_options(request, layout).text, "--recompute-method uniform"));
  CHECK(contains(megatron_options(request, layout).notes[0], "no zero-bubble schedule"));
}

// It refuses layers that do not divide among the stages.
TEST_CASE("Megatron-LM: 126 layers on 16 stages count both ends; 80 stages are listed") {
  auto [request, layout] = planned();
  const char* const ends =
      "--account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split";
  CHECK(contains(megatron_options(request, layout).text, ends));
  CHECK(contains(megatron_options(request, layout).notes[0], "a block less"));
  layout.chunks = 10;
  CHECK_FALSE(contains(megatron_options(request, layout).text, ends));
  CHECK(contains(megatron_options(request, layout).notes[0], "--pipeline-model-parallel-layout"));
  request.config.layers = 160;
  CHECK_FALSE(contains(megatron_options(request, layout).text, ends));
  CHECK(megatron_options(request, layout).notes.size() == 1);  // of the order of axes
}

TEST_CASE("Megatron-LM: pp inside dp where it allows that, FSDP and DDP overlapped") {
  auto [request, layout] = planned();
  CHECK_FALSE(contains(megatron_options(request, layout).text, "--use-tp-pp-dp-mapping"));  // cp 2
  layout.shape.cp = 1, layout.zero = 0, layout.schedule = PipelineKind::one_f_one_b;
  layout.chunks = 1, request.config.layers = 128;
  const LaunchOptions copies = megatron_options(request, layout);
  CHECK(contains(copies.text, "--use-tp-pp-dp-mapping"));
  CHECK(contains(copies.text, "--overlap-grad-reduce"));
  CHECK_FALSE(contains(copies.text, "--use-distributed-optimizer"));
  CHECK(copies.notes.empty());
  layout.shape = {.dp_shard = 8};
  const LaunchOptions shards = megatron_options(request, layout);
  for (const char* word :
       {"--use-megatron-fsdp", "--use-distributed-optimizer", "--ckpt-format fsdp_dtensor",
        "--overlap-param-gather", "--overlap-grad-reduce"})
    CHECK_MESSAGE(contains(shards.text, word), word);
  REQUIRE(shards.notes.size() == 1);
  CHECK(contains(shards.notes[0], "CUDA_DEVICE_MAX_CONNECTIONS"));
}
