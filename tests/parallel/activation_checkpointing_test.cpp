#include "yotta/parallel/activation_checkpointing.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const std::vector<CheckpointOptions> strategies = {
    {Recompute::none},          {Recompute::attention},     {Recompute::all, 1},
    {Recompute::all, 2},        {Recompute::all, 100},      {Recompute::all, 0},
    {Recompute::revolve, 1, 1}, {Recompute::revolve, 1, 2}, {Recompute::revolve, 1, 100},
    {Recompute::pointwise}};

// dx and all gradients of one microbatch, as one list.
std::vector<double> gradients(Layers layers, const Tensor& x, const BatchPosition& place) {
  zero_gradients(layers);
  Saved saved(place);
  const Tensor y = forward(layers, x, saved);
  const Tensor dx = backward(layers, y, saved);
  CHECK(saved.bytes() == 0);
  std::vector<double> all = dx.defined() ? dx.values() : std::vector<double>();
  for (const ParameterPtr& each : parameters(layers))
    for (const double g : each->grad.values()) all.push_back(g);
  return all;
}

Tensor token_ids(int64_t B, int64_t T, int64_t vocabulary) {
  Tensor ids = Tensor::empty({B, T}, DType::i32);
  for (int64_t i = 0; i < B * T; ++i)
    ids.data<int32_t>()[i] = static_cast<int32_t>((i * i + 3) % vocabulary);
  return ids;
}

// What one microbatch costs with a strategy: layers run forward, and the peak of activations.
struct Counted {
  int64_t forwards = 0, peak_bytes = 0;
};
Counted count(const LinearNetConfig& config, const std::vector<LayerPtr>& checkpoints, Layers net,
              int64_t rows) {
  RankContext rank;
  const ContextScope scope(rank);
  const Layers run = checkpoints.empty() ? net : Layers(checkpoints);
  for (const ParameterPtr& each : parameters(net)) each->gradient();
  Saved saved;
  Tensor x = Tensor::full({rows, config.width}, 1);
  Tensor y = forward(run, std::move(x), saved);
  backward(run, std::move(y), saved);
  Counted counted;
  counted.forwards = rank.ledger.op("linear").calls;
  counted.peak_bytes = rank.ledger.memory()->peak(MemoryKind::activations);
  return counted;
}

}  // namespace

TEST_CASE(
    "every strategy gives the gradients of none, to the last bit, with dropout, in both dialects") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
      TransformerConfig config = dialect == Dialect::gpt2 ? gpt2_config(5, 12, 2, 7, 11)
                                                          : llama_config(5, 16, 20, 4, 2, 7, 11);
      config.attention = kind;
      config.dropout = 0.2;
      config.attention_dropout = kind == AttentionKind::plain ? 0.3 : 0;
      config.dtype = DType::f64;
      const Transformer model(config);
      const BatchPosition place{1, 2, 3, 0, true};
      const Tensor ids = token_ids(2, 7, 11);
      const std::vector<double> expected = gradients(model.stack(), ids, place);
      for (const CheckpointOptions& strategy : strategies)
        for (const int64_t first : {0, 1}) {  // with and without embedding and head
          const std::vector<LayerPtr> layers =
              checkpointed(model.stack(), strategy, first, config.layers + 2 - first);
          CAPTURE(static_cast<int>(strategy.what));
          CAPTURE(strategy.every);
          CHECK(gradients(layers, ids, place) == expected);
        }
    }
}

TEST_CASE("several microbatches may be in flight, and one finite-difference check of each kind") {
  const std::vector<LayerPtr> net = make_linear_net({4, 3}, {7, DType::f64});
  for (const CheckpointOptions& strategy : strategies) {
    const std::vector<LayerPtr> layers = checkpointed(net, strategy);
    check_gradients(layers, random_tensor({5, 3}, "x"));
    std::vector<double> expected, actual;
    for (const char* name : {"a", "b"})
      for (const double g : gradients(net, random_tensor({5, 3}, name), {})) expected.push_back(g);
    Saved saved[2];
    Tensor y[2];
    zero_gradients(net);
    for (const int i : {0, 1})
      y[i] = forward(layers, random_tensor({5, 3}, i == 0 ? "a" : "b"), saved[i]);
    for (const int i : {0, 1}) {
      zero_gradients(net);
      for (const double g : backward(layers, y[i], saved[i]).values()) actual.push_back(g);
      for (const ParameterPtr& each : parameters(Layers(net)))
        for (const double g : each->grad.values()) actual.push_back(g);
    }
    CHECK(actual == expected);
  }
}

TEST_CASE(
    "recomputed forwards are counted: n, whatever C is; t(n, s) with Revolve; n^2/k when "
    "restarted") {
  for (const int64_t n : {1, 2, 7, 24}) {
    const LinearNetConfig config{n, 4};
    const std::vector<LayerPtr> net = make_linear_net(config);
    for (const CheckpointOptions& strategy : strategies) {
      CAPTURE(n);
      CAPTURE(strategy.snapshots);
      const int64_t forwards = count(config, checkpointed(net, strategy), net, 3).forwards;
      CHECK(forwards == n + recomputed_forwards(strategy, n));
    }
    for (const int64_t every : {int64_t{1}, int64_t{5}, n}) {
      std::vector<LayerPtr> restarted;
      restarted.push_back(std::make_unique<Replay>(net, restart_schedule(n, every)));
      CHECK(count(config, restarted, net, 3).forwards == n + restart_steps(n, every));
    }
  }
  CHECK(recomputed_forwards({Recompute::revolve, 1, 1}, 24) == 276);
}

TEST_CASE(
    "peak activation memory of the linear net: what is held, and two or three tensors in hand") {
  for (const int64_t n : {1, 2, 7, 24}) {
    const LinearNetConfig config{n, 4};
    const std::vector<LayerPtr> net = make_linear_net(config);
    const int64_t rows = 16, x = rows * config.width * 4;  // bytes that flow between two layers
    CHECK(count(config, {}, net, rows).peak_bytes == (n + 2) * x);
    for (const CheckpointOptions& strategy : strategies) {
      CAPTURE(n);
      CAPTURE(static_cast<int>(strategy.what));
      CAPTURE(strategy.every);
      CAPTURE(strategy.snapshots);
      const HeldAtPeak held = held_at_peak(strategy, n);
      const int64_t peak = count(config, checkpointed(net, strategy), net, rows).peak_bytes;
      // A slice's input is its first layer's x too. In hand: dy and dx.
      if (strategy.what == Recompute::all) CHECK(peak == (held.inputs + held.saved - 1 + 2) * x);
      if (strategy.what < Recompute::all) CHECK(peak == (held.saved + 2) * x);
      // In hand: the slice's dy, the layer's dy, and the output of the layer that is run.
      if (strategy.what == Recompute::revolve)
        CHECK(peak == (std::min(held.inputs + held.saved + 3, n + 2) * x));
    }
  }
}

TEST_CASE("the square root is the best cut") {
  for (int64_t n = 1; n <= 200; ++n) {
    const auto held = [&](int64_t C) { return (n + C - 1) / C + C; };
    int64_t least = n + 1;
    for (int64_t C = 1; C <= n; ++C) least = std::min(least, held(C));
    CHECK(held(square_root_of(n)) == least);
  }
  CHECK(square_root_of(0) == 1);
}

TEST_CASE("slices of C layers, the last one shorter") {
  const auto names = [](int64_t n, int64_t C) {
    const std::vector<LayerPtr> net = make_linear_net({n, 2});
    std::vector<std::string> all;
    for (const LayerPtr& each : checkpointed(net, {Recompute::all, C})) all.push_back(each->name());
    return all;
  };
  const auto name = [](int64_t first, int64_t last) {
    const std::vector<LayerPtr> net = make_linear_net({8, 2});
    return name_of(
        Layers(net).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1)));
  };
  CHECK(names(7, 3) == std::vector{name(0, 2), name(3, 5), name(6, 6)});
  CHECK(names(8, 0) == std::vector{name(0, 2), name(3, 5), name(6, 7)});  // the square root: 3
  CHECK(names(2, 5) == std::vector{name(0, 1)});
}

TEST_CASE("parameters, names and the moment of the final gradient are those of the model") {
  const std::vector<LayerPtr> net = make_linear_net({5, 3});
  const std::vector<LayerPtr> layers = checkpointed(net, {Recompute::all, 2}, 1, 5);
  REQUIRE(layers.size() == 3);
  CHECK(layers[0]->name() == "layers.0");
  CHECK(layers[1]->name() == "layers.1 to layers.2");
  CHECK(parameters(Layers(layers)) == parameters(Layers(net)));
  std::string final;
  for (const ParameterPtr& each : parameters(Layers(net)))
    each->on_grad_ready = [&](Parameter& p) { final += p.name.substr(7, 1); };
  gradients(layers, Tensor::full({2, 3}, 1), {});
  CHECK(final == "43210");
  for (const ParameterPtr& each : parameters(Layers(net))) each->on_grad_ready = nullptr;
}

TEST_CASE("selective: attention's arrays are dropped, their layer's other tensors stay") {
  TransformerConfig config = gpt2_config(3, 8, 2, 6, 11);
  config.attention = AttentionKind::plain;
  config.attention_dropout = 0.5;
  const Transformer model(config);
  Saved all({0, 0, 0, 0, true}), selected({0, 0, 0, 0, true});
  forward(model.stack(), token_ids(2, 6, 11), all);
  const std::vector<LayerPtr> layers = checkpointed(model.stack(), {Recompute::attention}, 1, 4);
  forward(layers, token_ids(2, 6, 11), selected);
  const int64_t square = 2 * 2 * 6 * 6;  // B H T T
  CHECK(all.bytes() - selected.bytes() == 3 * (4 + 1) * square);
}

TEST_CASE("impossible options are refused, an empty stack is fine") {
  const std::vector<LayerPtr> net = make_linear_net({3, 2});
  CHECK(contains(message_of([&] { checkpointed(net, {Recompute::all, -1}); }), "every >= 0"));
  CHECK(contains(message_of([&] {
                   checkpointed(net, {Recompute::revolve, 1, 0});
                 }),
                 "snapshots >= 1"));
  CHECK(
      contains(message_of([&] { checkpointed(net, {}, 2, 4); }), "entries 2 to 4 of a stack of 3"));
  for (const CheckpointOptions& strategy : strategies) {
    const std::vector<LayerPtr> layers = checkpointed(Layers(), strategy);
    Saved saved;
    const Tensor x = Tensor::full({2}, 1);
    CHECK(backward(layers, forward(layers, x, saved), saved).shares_memory(x));
  }
}
