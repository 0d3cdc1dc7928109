#include "yotta/parallel/fsdp.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {5, 6};  // 36 numbers per layer: 3 and 8 ranks need padding
constexpr int64_t rows = 13;             // does not divide by 2, 3, 4 or 8
constexpr int64_t steps = 3;

// Three steps of AdamW on this rank's share of the batch, cut in microbatches.
void train(Communicator& world, const FsdpOptions& options, int64_t microbatches, Trained& out) {
  const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
  Fsdp fsdp(model, world, options);
  AdamW optimizer(parameters(fsdp.stack()));
  const int64_t first = chunk_begin(rows, world.size(), world.rank());
  const int64_t count = chunk_count(rows, world.size(), world.rank());
  for (int64_t step = 0; step < steps; ++step) {
    zero_gradients(fsdp.stack());
    std::vector<double> loss = {0};
    for (int64_t i = 0; i < microbatches; ++i)
      loss[0] += run_microbatch(fsdp.stack(), step, first + chunk_begin(count, microbatches, i),
                                first + chunk_begin(count, microbatches, i + 1), net.width, rows);
    fsdp.finish();
    world.all_reduce(loss);
    if (world.rank() == 0) out.losses.push_back(loss[0]);
    for (const FsdpUnit& unit : fsdp.units())
      for (const ParameterShard& shard : unit.shards())
        if (step == 0) add_gradients(out.gradients, shard);
    optimizer.step(0.01);
  }
  for (const FsdpUnit& unit : fsdp.units())
    for (const ParameterShard& shard : unit.shards()) add_values(out.weights, shard);
}

constexpr int64_t padded(int64_t numbers, int64_t ranks) {
  return (numbers + ranks - 1) / ranks * ranks;
}
constexpr int64_t one_layer = net.width * net.width;

const FsdpOptions every_option[] = {
    {},
    {.layers_per_unit = 2},
    {.prefetch = false},
    {.reshard_after_forward = false},
    {.keep_last = true},
    {.layers_per_unit = 100, .prefetch = false, .keep_last = true},
};

// One forward and backward pass of the first step.
void one_pass(const Fsdp& fsdp) { run_microbatch(fsdp.stack(), 0, 0, 2, net.width, rows); }

// A layer that does nothing but say when it is called: "F 3", "I 3", "W 3".
class Probe : public Layer {
 public:
  using Say = std::function<void(const std::string&)>;
  Probe(size_t number, Say say) : Layer(std::to_string(number)), say_(std::move(say)) {}
  Tensor forward(const Tensor& x, Saved&) override {
    say_("F " + name());
    return x;
  }
  Tensor backward_input(const Tensor& dy, Saved&) override {
    say_("I " + name());
    return dy;
  }
  void backward_weight(Saved&) override { say_("W " + name()); }
  void add_parameters(std::vector<ParameterPtr>&) override {}

 private:
  Say say_;
};

// A linear net with a probe behind each layer; tied: the last layer has the first one's weight.
std::vector<LayerPtr> make_probed_net(const Probe::Say& say, bool tied) {
  std::vector<LayerPtr> stack, layers = make_linear_net(net, {1, DType::f64});
  if (tied) layers.back() = std::make_unique<Linear>("head", parameters(Layers(layers))[0]);
  for (LayerPtr& layer : layers) {
    stack.push_back(std::move(layer));
    stack.push_back(std::make_unique<Probe>(stack.size() / 2, say));
  }
  return stack;
}

// Which units are whole, or on their way, whenever a layer computes in one training pass: "F 0: 0
// 1".
std::vector<std::string> gathered_during(FsdpOptions options, bool tied = false) {
  std::vector<std::string> events;
  options.layers_per_unit = 2;  // a layer and its probe
  run_ranks(2, [&](Communicator& world) {
    std::optional<Fsdp> fsdp;
    const auto say = [&](const std::string& what) {
      if (world.rank() != 0) return;
      events.push_back(what + ":");
      for (size_t u = 0; u < fsdp->units().size(); ++u)
        if (fsdp->units()[u].is_gathered()) events.back() += " " + std::to_string(u);
    };
    const std::vector<LayerPtr> model = make_probed_net(say, tied);
    fsdp.emplace(model, world, options);
    one_pass(*fsdp);
    fsdp->finish();
    say("end");
  });
  return events;
}
using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("losses, gradients and weights equal the single rank's") {
  Trained serial;
  train_serial(net, rows, steps, serial);
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const FsdpOptions& options : every_option)
      for (const int64_t microbatches : {1, 2}) {
        CAPTURE(ranks);
        CAPTURE(microbatches);
        Trained trained;
        run_ranks(ranks,
                  [&](Communicator& world) { train(world, options, microbatches, trained); });
        check_same(trained, serial, ranks);
      }
}

TEST_CASE("the algorithm of gathers and reductions is a choice, and changes no value") {
  Trained serial;
  train_serial(net, rows, steps, serial);
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::multi_rail, Algorithm::hierarchical}) {
      CAPTURE(std::string(name(algorithm)));
      const FsdpOptions options{.comm = {algorithm, nullptr, ranks % 2 == 0 ? 2 : ranks}};
      Trained trained;
      run_ranks(ranks, [&](Communicator& world) { train(world, options, 2, trained); });
      check_same(trained, serial, ranks);
    }
}

TEST_CASE("on two nodes FSDP's trips take an eighth of the time with one ring per card") {
  // Six layers of 4096 x 4096 in f32, 64 MiB each, on 16 H100; nothing to hide behind.
  const auto seconds = [](CommOptions comm) {
    return run_on(cluster_named("h100x16"), 16,
                  [&](Communicator& world) {
                    const DeviceScope meta(Device::meta);
                    const std::vector<LayerPtr> model = make_linear_net({6, 4096});
                    Fsdp fsdp(model, world, {.comm = comm});
                    Saved saved;
                    const Tensor x = Tensor::empty({8, 4096});
                    backward(fsdp.stack(), forward(fsdp.stack(), x, saved), saved);
                    fsdp.finish();
                  })
        .seconds();
  };
  const double one_ring = seconds({Algorithm::ring});
  CHECK(one_ring > 17 * all_gather_ring_seconds(16, 1 << 26, {5e-6, 1 / 50e9, 0}));
  for (const Algorithm algorithm : {Algorithm::multi_rail, Algorithm::hierarchical})
    CHECK(seconds({algorithm}) < one_ring / 4);
}

TEST_CASE("a rank sends 3 N (p-1)/p elements, less what stays whole") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const int64_t layer = padded(one_layer, ranks), N = net.layers * layer;
    const auto sent = [&](const FsdpOptions& options) {
      std::vector<int64_t> bytes(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](Communicator& world) {
        const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
        Fsdp fsdp(model, world, options);
        one_pass(fsdp);
        fsdp.finish();
        bytes[static_cast<size_t>(world.rank())] = context().ledger.total_traffic().bytes_sent;
      });
      for (const int64_t each : bytes) CHECK(each == bytes[0]);
      return bytes[0] / 8;
    };
    CHECK(sent({}) == fsdp_elements_sent(ranks, N, 0));
    CHECK(sent({.prefetch = false}) == fsdp_elements_sent(ranks, N, 0));
    CHECK(sent({.keep_last = true}) == fsdp_elements_sent(ranks, N, layer));
    CHECK(sent({.reshard_after_forward = false}) == fsdp_elements_sent(ranks, N, N));
  }
}

TEST_CASE("a rank holds 1/p of weights, gradients and AdamW's state; the rest is borrowed") {
  for (const int ranks : {1, 2, 3, 4, 8})
    run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Fsdp fsdp(model, world);
      AdamW optimizer(parameters(fsdp.stack()));
      const MemoryCount& memory = *context().ledger.memory();
      one_pass(fsdp);
      fsdp.finish();
      optimizer.step(0.01);
      int64_t mine = 0;  // without the padding, which has no gradient and no state
      for (const ParameterPtr& each : parameters(fsdp.stack())) mine += each->value.nbytes();
      const int64_t shards = net.layers * padded(one_layer, ranks) / ranks * 8;
      CHECK(memory.live(MemoryKind::parameters) == shards);
      CHECK(memory.live(MemoryKind::gradients) == mine);
      CHECK(memory.live(MemoryKind::optimizer) == 2 * mine);
      CHECK(memory.live(MemoryKind::buffers) == 0);
      CHECK(memory.live(MemoryKind::activations) == 0);
    });
}

TEST_CASE("a model made whole is held whole until it is cut; one of shapes never is") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const int64_t layer = padded(one_layer, ranks) / ranks;  // of it on this rank
    const auto made_by = [&](auto make, int64_t peak) {
      Whole weights;
      run_ranks(ranks, [&](Communicator& world) {
        const std::vector<LayerPtr> model = make();
        Fsdp fsdp(model, world);
        const MemoryCount& memory = *context().ledger.memory();
        CHECK(memory.peak() == 8 * peak);
        CHECK(memory.live() == 8 * net.layers * layer);
        for (const FsdpUnit& unit : fsdp.units())
          for (const ParameterShard& shard : unit.shards()) add_values(weights, shard);
        one_pass(fsdp);  // the layers compute with what was drawn
        fsdp.finish();
      });
      return weights.values();
    };
    const auto make = [] { return make_linear_net(net, {1, DType::f64}); };
    const std::vector<double> whole = made_by(make, net.layers * one_layer + layer);
    check_equal(made_by([&] { return as_shapes(make); }, net.layers * layer), whole, ranks,
                "initial weights", 0);
  }
}

TEST_CASE(
    "the next unit is on its way while one computes, forward and back; two at once, no more") {
  CHECK(gathered_during({}) == Events{"F 0: 0 1", "F 1: 1 2", "F 2: 2 3", "F 3: 3 4", "F 4: 4",  //
                                      "I 4: 3 4", "W 4: 3", "I 3: 2 3", "W 3: 2", "I 2: 1 2",
                                      "W 2: 1", "I 1: 0 1", "W 1: 0", "I 0: 0", "W 0:", "end:"});
  CHECK(gathered_during({.prefetch = false}) ==
        Events{"F 0: 0", "F 1: 1", "F 2: 2", "F 3: 3", "F 4: 4",  //
               "I 4: 4", "W 4:", "I 3: 3", "W 3:", "I 2: 2", "W 2:", "I 1: 1", "W 1:", "I 0: 0",
               "W 0:", "end:"});
}

TEST_CASE("units stay whole until backward if they should") {
  const Events last = gathered_during({.prefetch = false, .keep_last = true});
  CHECK(last[3] == "F 3: 3");
  CHECK(last[4] == "F 4: 4");
  CHECK(last[5] == "I 4: 4");
  CHECK(gathered_during({.reshard_after_forward = false}) ==
        Events{"F 0: 0 1", "F 1: 0 1 2", "F 2: 0 1 2 3", "F 3: 0 1 2 3 4", "F 4: 0 1 2 3 4",
               "I 4: 0 1 2 3 4", "W 4: 0 1 2 3", "I 3: 0 1 2 3", "W 3: 0 1 2", "I 2: 0 1 2",
               "W 2: 0 1", "I 1: 0 1", "W 1: 0", "I 0: 0", "W 0:", "end:"});
}

TEST_CASE("a root stays whole from its first use to its last, and beside it two units, no more") {
  const Events events = gathered_during({}, true);
  REQUIRE(events.size() == 3 * net.layers + 1);
  CHECK(events.back() == "end:");
  std::ptrdiff_t most = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    CAPTURE(events[i]);
    const std::string units = events[i].substr(events[i].find(':') + 1);
    CHECK(units.starts_with(" 0"));  // unit 0: the first and the last layer's weight
    most = std::max(most, std::count(units.begin(), units.end(), ' ') - 1);
  }
  CHECK(most == 2);
}

TEST_CASE("weights in transit and gradients on their way: never more than two units of each") {
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Fsdp fsdp(model, world);
      const MemoryCount& memory = *context().ledger.memory();
      context().ledger.memory()->reset_peaks();
      for (int microbatch = 0; microbatch < 3; ++microbatch) one_pass(fsdp);
      fsdp.finish();
      CHECK(memory.peak(MemoryKind::buffers) ==
            8 * fsdp_peak_elements(ranks, padded(one_layer, ranks)));
    });
  }
}

TEST_CASE(
    "evaluation leaves no unit whole, and a pass after an optimizer step sees the new weights") {
  run_ranks(2, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Fsdp fsdp(model, world, {.reshard_after_forward = false, .keep_last = true});
    const auto evaluate = [&] {
      Saved saved;
      return forward(fsdp.stack(), batch_rows("x", 0, 0, 2, net.width), saved).item({0, 0});
    };
    const double before = evaluate();
    for (const FsdpUnit& unit : fsdp.units()) CHECK_FALSE(unit.is_gathered());
    for (const ParameterPtr& each : parameters(fsdp.stack())) each->value.fill(0);
    CHECK(std::abs(before) > 0);
    CHECK(evaluate() == 0);
  });
}

TEST_CASE("the norm over all shards is the whole model's") {
  for (const int ranks : {1, 3, 4})
    run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Fsdp fsdp(model, world);
      for (const ParameterPtr& each : parameters(fsdp.stack())) each->gradient().fill(2);
      const double squares = fsdp.sum_of_squares(sum_of_squares(parameters(fsdp.stack())));
      CHECK(squares == 4 * net.layers * one_layer);
    });
}

TEST_CASE("bf16 travels and computes; shards, gradients and their sum stay f32") {
  run_ranks(3, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f32});
    const std::vector<ParameterPtr> inside = parameters(Layers(model));
    const Tensor before = inside[2]->value;
    Fsdp fsdp(model, world, {.gathered = DType::bf16});
    Saved saved({0, 0, 0, 0, true});
    const Tensor x = batch_rows("x", 0, 0, 4, net.width).to(DType::f32);
    const Tensor y = forward(fsdp.stack(), x, saved);
    CHECK(y.dtype() == DType::f32);
    const int64_t layer = padded(one_layer, 3);
    const auto share = [](int64_t bytes) { return bytes / 3 * 2; };
    const Ledger& ledger = context().ledger;
    CHECK(ledger.traffic("fsdp.all_gather").bytes_sent == share(2 * net.layers * layer));
    backward(fsdp.stack(), y, saved);
    fsdp.finish();
    CHECK(ledger.traffic("fsdp.all_gather").bytes_sent == share(2 * 2 * net.layers * layer));
    CHECK(ledger.traffic("fsdp.reduce").bytes_sent == share(4 * net.layers * layer));
    for (const ParameterPtr& each : parameters(fsdp.stack())) {
      CHECK(each->value.dtype() == DType::f32);
      CHECK(each->grad.dtype() == DType::f32);
    }
    // The layers compute with the shards' values, rounded.
    const Tensor rounded = before.to(DType::bf16);
    fsdp.units()[2].unshard();
    CHECK(inside[2]->value.values() == rounded.values());
  });
}

TEST_CASE("a unit hands its gradients out when they are reduced, once a microbatch") {
  run_ranks(2, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Fsdp fsdp(model, world);
    int final = 0;
    for (const ParameterPtr& each : parameters(fsdp.stack()))
      each->on_grad_ready = [&](Parameter&) { ++final; };
    one_pass(fsdp);
    CHECK(final == net.layers - 1);
    fsdp.finish();
    CHECK(final == net.layers);
  });
}
