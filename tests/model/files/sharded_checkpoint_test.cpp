#include "yotta/model/files/sharded_checkpoint.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "parallel/training_runs.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/experts.hpp"
#include "yotta/parallel/fsdp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {3, 5};  // 25 numbers per layer: no rank count but 1 divides them
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

namespace {
constexpr int64_t even = 4;  // 16 numbers per layer: two ranks hold 8 each

void save_even(const std::filesystem::path& folder, int64_t step = 3) {
  run_ranks(2, [&](Communicator& world) {
    Sharded sharded(world, 1, even);
    sharded.optimizer.set_steps(2);
    save_sharded(folder, world, sharded.pieces, sharded.optimizer, step);
  });
}

// The message of loading on one rank, which must have changed nothing.
std::string refused(const std::filesystem::path& folder) {
  std::string message = "nothing was thrown";
  run_ranks(1, [&](Communicator& world) {
    Sharded sharded(world, 1, even);
    for (ParameterShard& piece : sharded.pieces) piece.parameter->value.fill(7);
    try {
      load_sharded(folder, sharded.pieces, sharded.optimizer);
    } catch (const Error& error) {
      message = error.what();
      CHECK(sharded.optimizer.steps() == 0);
      for (ParameterShard& piece : sharded.pieces)
        for (const double value : piece.parameter->value.values()) CHECK(value == 7);
      for (const Optimizer::Slot& slot : sharded.optimizer.slots())
        for (const Tensor& state : slot.state)
          for (const double value : state.values()) CHECK(value == 0);
    }
  });
  return message;
}

// Writes one rank's file again, changed.
template <class F>
void rewrite(const std::filesystem::path& folder, int64_t rank, F&& change) {
  const std::string path = (folder / shard_file(3, rank, 2)).string();
  std::vector<NamedTensor> tensors = load_safetensors(path);
  Metadata metadata = SafetensorsFile(path).metadata();
  change(tensors, metadata);
  save_safetensors(path, tensors, metadata);
}
Tensor& named(std::vector<NamedTensor>& tensors, const std::string& name) {
  for (NamedTensor& each : tensors)
    if (each.name == name) return each.value;
  FAIL("no tensor " << name);
  return tensors[0].value;
}
}  // namespace

TEST_CASE("damaged tensors are refused by name before any is taken over") {
  const TemporaryFolder folder;
  const auto changed = [&](const char* name, auto&& change) {
    save_even(folder.path());
    rewrite(folder.path(), 1, [&](auto& tensors, Metadata&) { change(named(tensors, name)); });
    const std::string message = refused(folder.path());
    CAPTURE(message);
    CHECK(message.find(name) != std::string::npos);
    return message;
  };
  const auto has = [](const std::string& message, const char* words) {
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  save_even(folder.path());
  CHECK(refused(folder.path()) == "nothing was thrown");
  const char *weight = "layers.2.weight[8:16/16]", *moment = "exp_avg_sq.layers.2.weight[8:16/16]";
  for (const double value : {std::nan(""), HUGE_VAL}) {
    has(changed(weight, [&](Tensor& x) { x.data<double>()[7] = value; }), "is not finite");
    has(changed(moment, [&](Tensor& x) { x.data<double>()[0] = value; }), "is not finite");
  }
  has(changed(moment, [](Tensor& x) { x.data<double>()[3] = -1e-9; }), "is below 0");
  has(changed(weight, [](Tensor& x) { x = x.to(DType::f32); }), "is f32, expected f64");
  has(changed(weight, [](Tensor& x) { x = Tensor::zeros({8}, DType::i64); }), "expected f64");
  has(changed(weight, [](Tensor& x) { x = x.reshape({2, 4}); }), "is (2, 4), expected (8)");
  has(changed(weight, [](Tensor& x) { x = x.rows(0, 7); }), "is (7), expected (8)");
}

TEST_CASE("every number of a sharded checkpoint is there once, or it is refused") {
  const TemporaryFolder folder;
  const auto renamed = [&](const char* to) {
    save_even(folder.path());
    rewrite(folder.path(), 1, [&](std::vector<NamedTensor>& tensors, Metadata&) {
      for (NamedTensor& each : tensors)
        if (each.name == "layers.1.weight[8:16/16]") each.name = to;
    });
    return refused(folder.path());
  };
  const auto has = [](const std::string& message, const char* words) {
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  has(renamed("layers.1.weight[0:8/16]"), "layers.1.weight has number 0 twice");
  has(renamed("layers.1.weight[4:12/16]"), "layers.1.weight has number 4 twice");
  has(renamed("layers.1.weight[9:17/17]"), "layers.1.weight has 16 numbers in one file and 17");
  has(renamed("layers.1.weight[16:24/24]"), "layers.1.weight has 16 numbers in one file and 24");
  has(renamed("layers.9.weight[8:16/16]"), "layers.1.weight lacks its numbers from 8 on");
  save_even(folder.path());
  std::filesystem::copy_file(folder / shard_file(3, 0, 2), folder / shard_file(3, 1, 2),
                             std::filesystem::copy_options::overwrite_existing);
  has(refused(folder.path()), "has number 0 twice");  // the same half two times
}

TEST_CASE("what files of a sharded checkpoint say of themselves agrees, or they are refused") {
  const TemporaryFolder folder;
  const auto saying = [&](int64_t rank, const char* name, const char* value) {
    save_even(folder.path());
    rewrite(folder.path(), rank, [&](auto&, Metadata& metadata) { metadata[name] = value; });
    const std::string message = refused(folder.path());
    CAPTURE(message);
    CHECK(message.find(fmt::format("rank_{}_of_2.safetensors", rank)) != std::string::npos);
    CHECK(message.find(fmt::format("{} '{}'", name, value)) != std::string::npos);
  };
  for (const char* value : {"4", "-1", "3.9", "1e3", "", "03", "99999999999999999999"}) {
    for (const int64_t rank : {0, 1}) saying(rank, "step", value);
    for (const int64_t rank : {0, 1}) saying(rank, "optimizer_steps", value);
    for (const int64_t rank : {0, 1}) saying(rank, "ranks", value);
  }
  saying(1, "optimizer_steps", "1");  // possible, but rank 0 says 2
}

TEST_CASE("latest leads nowhere but to a step of its own folder") {
  const TemporaryFolder folder, elsewhere;
  save_even(folder.path());
  save_even(elsewhere.path());
  const std::string other = (elsewhere / "step_3/rank_0_of_2.safetensors").string();
  for (const std::string& text : {std::filesystem::relative(other, folder.path()).string(), other,
                                  std::string("./step_3/rank_0_of_2.safetensors"),
                                  std::string("step_3/rank_1_of_2.safetensors"),
                                  std::string("step_-3/rank_0_of_2.safetensors"),
                                  std::string("step_3/rank_0_of_0.safetensors"),
                                  std::string("step_3/\x1B[2J"), std::string()}) {
    write_file(folder / "latest", text);
    const std::string message = refused(folder.path());
    CAPTURE(message);
    CHECK(message.find("latest must name rank 0's file of a step") != std::string::npos);
    CHECK(message.find('\x1B') == std::string::npos);
  }
}

TEST_CASE("experts are saved by the ranks of ep that hold them, and loaded on another layout") {
  const TemporaryFolder folder;
  TransformerConfig config = llama_config(2, 8, 12, 2, 2, 4, 16);
  config.mixture = {.experts = 4, .top_k = 2};
  const auto shards = [](const NdParallel& model) {
    std::vector<ParameterShard> all;
    for (const auto& [parameter, first] : model.held())
      all.push_back({parameter, {parameter->range.rows, parameter->range.columns}, first});
    return all;
  };
  std::vector<NamedTensor> saved;
  run_ranks(4, [&](Communicator& world) {
    Mesh mesh(world, {.ep = 2, .dp_shard = 2});
    NdParallel model(config, mesh);
    AdamW optimizer(model.parameters());
    std::vector<ParameterShard> own = shards(model);
    if (mesh.coordinate(Axis::ep) > 0)
      std::erase_if(own, [](const auto& each) { return !is_expert_parameter(*each.parameter); });
    save_sharded(folder.path(), world, own, optimizer, 0);
    const std::vector<NamedTensor> whole = model.gather_weights();
    if (world.rank() == 0) saved = whole;
  });
  config.seed = 1;  // other weights
  run_ranks(4, [&](Communicator& world) {
    Mesh mesh(world, {.ep = 4});
    NdParallel model(config, mesh);
    AdamW optimizer(model.parameters());
    load_sharded(folder.path(), shards(model), optimizer);
    const std::vector<NamedTensor> whole = model.gather_weights();
    if (world.rank() == 0)
      for (size_t i = 0; i < saved.size(); ++i)
        CHECK(whole[i].value.values() == saved[i].value.values());
  });
  REQUIRE(saved.size() == 2 * (4 + 2 + 1 + 3 * 4) + 3);
}
