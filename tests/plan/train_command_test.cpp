// A layout as ./yotta train is told it.
#include "yotta/plan/train_command.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "support/message_of.hpp"
#include "yotta/plan/launch_options.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::planned;

TEST_CASE("ours: a command with every choice") {
  auto [request, layout] = planned();
  CHECK(train_command(request, layout, {"model", "h100x1024"}) ==
        "srun -n 1024 ./yotta train --load model --dtype bf16 --context 8192 --batch 512 "
        "--microbatches 32 --layout tp=8,cp=2,pp=8,dp=8 --sequence-parallel --schedule 1f1b "
        "--chunks 2 --zero 1 --bucket-bytes 1073741824 --comm nccl");
  layout.recomputed = 1, layout.pieces = Pieces::one_way;
  CHECK(contains(train_command(request, layout, {"m"}), "--async-tp"));
  CHECK(contains(train_command(request, layout, {"m"}), "--recompute all --recompute-blocks 1"));
  layout.zero = 2;
  CHECK(contains(train_command(request, layout, {"m"}), "--zero 2 "));
  CHECK(contains(train_command(request, layout, {"m"}), "--bucket-bytes 26214400 "));
  layout.zero = 0, layout.shape.dp_shard = 8, layout.shape.dp_replicate = 1;
  CHECK(!contains(train_command(request, layout, {"m"}), "--no-reshard"));
  layout.keeps_units = true;
  CHECK(contains(train_command(request, layout, {"m"}), " --no-reshard "));
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
  CHECK(
      contains(train_command(request, layout, {}),
               "--experts 4 --top-k 2 --shared-experts 1 --router sigmoid --capacity 1.5 --dtype"));
  CHECK(!contains(train_command(request, layout, {}), "--cluster"));
  request.config = llama_config(4, 64, 192, 8, 4, 32, 256);
  request.config.tied = true;
  CHECK(contains(train_command(request, layout, {}), "--feed-forward 192 --tied --dtype"));
  request.config = gpt2_config(2, 64, 4, 32, 256);
  request.config.tied = false;
  CHECK(contains(train_command(request, layout, {}), "--feed-forward 256 --untied --dtype"));
}

TEST_CASE("ours: latents, groups of experts, and first blocks without") {
  PlanRequest request;
  request.config = deepseek_v3();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named("h100x8");
  request.tokens = 8 * 32, request.sequence = 32;
  Layout layout;
  layout.shape = {.ep = 8};
  const std::string command = train_command(request, layout, {});
  CHECK(contains(command,
                 "--feed-forward 2048 --latent 1536,512,128,64,128 --expert-groups 8 "
                 "--top-groups 4 --dense-layers 3 --dense-width 18432 --experts 256 "));
  const std::string megatron = megatron_options(request, layout).text;
  CHECK(contains(megatron, "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512"));
  CHECK(contains(megatron, "--moe-router-num-groups 8 --moe-router-group-topk 4"));
  CHECK(contains(megatron, "--moe-layer-freq \"([0]*3+[1]*58)\""));
}

TEST_CASE("ours: names of folders and files as a shell takes them") {
  auto [request, layout] = planned();
  CHECK(contains(train_command(request, layout, {"my models/it's"}),
                 "--load 'my models/it'\\''s' --dtype"));
  CHECK(shell_word("a/b-c_1.json") == "a/b-c_1.json");
  CHECK(shell_word("$HOME") == "'$HOME'");
  CHECK(shell_word("") == "''");
}
