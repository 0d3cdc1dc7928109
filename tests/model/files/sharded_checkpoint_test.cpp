#include "yotta/model/files/sharded_checkpoint.hpp"

#include <doctest/doctest.h>

#include "parallel/sharded_training.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/fsdp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {3, 5};  // 25 numbers a layer: no rank count but 1 divides them
constexpr int64_t rows = 8;

// A sharded net and its optimizer on one rank.
struct Sharded {
  Sharded(Communicator& world, int64_t layers_per_unit, int64_t width = net.width)
      : model(make_linear_net({net.layers, width}, {1, DType::f64})),
        fsdp(model, world, {.layers_per_unit = layers_per_unit}),
        optimizer(parameters(fsdp.stack())) {
    for (const FsdpUnit& unit : fsdp.units())
      pieces.insert(pieces.end(), unit.shards().begin(), unit.shards().end());
  }
  void step(Communicator& world, int64_t number) {
    zero_gradients(fsdp.stack());
    run_microbatch(fsdp.stack(), number, chunk_begin(rows, world.size(), world.rank()),
                   chunk_begin(rows, world.size(), world.rank() + 1), net.width, rows);
    fsdp.finish();
    optimizer.step(0.01);
  }
  std::vector<LayerPtr> model;
  Fsdp fsdp;
  AdamW optimizer;
  std::vector<ParameterShard> pieces;
};

// Four steps; after two of them saved, and gone on with by other ranks and other units.
std::vector<double> train(const std::filesystem::path& folder, int ranks, int then_ranks) {
  run_ranks(ranks, [&](Communicator& world) {
    Sharded sharded(world, 1);
    for (int64_t step = 0; step < 2; ++step) sharded.step(world, step);
    save_sharded(folder, world, sharded.pieces, sharded.optimizer, 2);
  });
  Whole weights;
  run_ranks(then_ranks, [&](Communicator& world) {
    Sharded sharded(world, 2);
    const int64_t first = load_sharded(folder, sharded.pieces, sharded.optimizer);
    CHECK(first == 2);
    CHECK(sharded.optimizer.steps() == 2);
    for (int64_t step = first; step < 4; ++step) sharded.step(world, step);
    for (const ParameterShard& piece : sharded.pieces) add_values(weights, piece);
  });
  return weights.values();
}

std::string error_of_load(const std::filesystem::path& folder, int64_t width) {
  std::string message;
  run_ranks(1, [&](Communicator& world) {
    Sharded sharded(world, 1, width);
    try {
      load_sharded(folder, sharded.pieces, sharded.optimizer);
    } catch (const Error& error) {
      message = error.what();
    }
  });
  return message;
}

}  // namespace

TEST_CASE("a run that was saved by some ranks goes on with any other number of them") {
  const TemporaryFolder folder;
  const std::vector<double> expected = train(folder.path() / "serial", 1, 1);
  for (const auto& [ranks, then_ranks] :
       {std::pair{4, 1}, {1, 3}, {2, 8}, {8, 2}, {3, 4}, {4, 4}}) {
    const auto name = std::to_string(ranks) + "_" + std::to_string(then_ranks);
    check_equal(train(folder.path() / name, ranks, then_ranks), expected, then_ranks, "weights");
  }
}

TEST_CASE("each rank writes its part alone, under names that say which numbers it has") {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& world) {
    Sharded sharded(world, 1);
    save_sharded(folder.path(), world, sharded.pieces, sharded.optimizer, 7);
  });
  CHECK(read_file(folder.path() / "latest") == "step_7/rank_0_of_2.safetensors");
  const SafetensorsFile second(folder.path() / "step_7/rank_1_of_2.safetensors");
  CHECK(second.entries().contains("layers.0.weight[13:25/25]"));
  CHECK(second.entries().contains("exp_avg.layers.2.weight[13:25/25]"));
  CHECK_FALSE(second.entries().contains("layers.0.weight[0:13/25]"));
  CHECK(second.entries().size() == 9);
}

TEST_CASE("a second save replaces the first only when all of it is there") {
  const TemporaryFolder folder;
  const auto save = [&](int64_t step) {
    run_ranks(2, [&](Communicator& world) {
      Sharded sharded(world, 1);
      save_sharded(folder.path(), world, sharded.pieces, sharded.optimizer, step);
    });
  };
  const auto loaded = [&] {
    int64_t step = -1;
    run_ranks(3, [&](Communicator& world) {
      Sharded sharded(world, 1);
      const int64_t mine = load_sharded(folder.path(), sharded.pieces, sharded.optimizer);
      if (world.rank() == 0) step = mine;
    });
    return step;
  };
  save(1);
  CHECK(loaded() == 1);
  // Rank 1 cannot write its file of step 2: rank 0's is there, and latest still names step 1.
  const std::filesystem::path taken = folder.path() / shard_file(2, 1, 2);
  std::filesystem::create_directories(taken / "not empty");
  CHECK_THROWS_WITH_AS(save(2), doctest::Contains("rank_1_of_2.safetensors"), RankFailed);
  CHECK(std::filesystem::exists(folder.path() / shard_file(2, 0, 2)));
  CHECK(loaded() == 1);
  std::filesystem::remove_all(taken);
  save(2);
  CHECK(loaded() == 2);
}

TEST_CASE("what does not fit is refused, and says why") {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& world) {
    Sharded sharded(world, 1);
    save_sharded(folder.path(), world, sharded.pieces, sharded.optimizer, 1);
  });
  CHECK(error_of_load(folder.path(), 4).find("layers.0.weight has 25 numbers there and 16 in") !=
        std::string::npos);
  CHECK(error_of_load(folder.path(), net.width).empty());
  std::filesystem::remove(folder.path() / "step_1/rank_1_of_2.safetensors");
  CHECK(error_of_load(folder.path(), net.width).find("rank_1_of_2.safetensors: there is no such") !=
        std::string::npos);
  CHECK(error_of_load(folder.path() / "nowhere", net.width).find("latest") != std::string::npos);
}

TEST_CASE("names of runs are read back, and nothing else is") {
  const Run run = parse_run("exp_avg.w[12:24/30]", "here");
  CHECK(run.tensor == "exp_avg.w");
  CHECK(run.first == 12);
  CHECK(run.last == 24);
  CHECK(run.whole == 30);
  CHECK(run.name() == "exp_avg.w[12:24/30]");
  for (const char* wrong : {"w", "w[", "w[1:2]", "w[1:2/3", "w[2:1/3]", "w[1:4/3]", "w[-1:2/3]",
                            "w[1:2/3]x", "w[a:b/c]", ""})
    CHECK_THROWS_WITH_AS(parse_run(wrong, "here"), doctest::Contains("names no run of numbers"),
                         Error);
}
