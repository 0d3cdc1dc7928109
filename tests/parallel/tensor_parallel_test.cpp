#include "yotta/parallel/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/layer_check.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 2, T = 3, C = 5, F = 24;  // F divides by 1, 2, 3, 4 and 8
const ParameterOptions in_f64{1, DType::f64};
const BatchPosition training{.seed = 3, .step = 1, .training = true};

ParameterPtrs with_biases(Layer& layer) {
  ParameterPtrs all = parameters_of(layer);
  for (const ParameterPtr& each :
       all)  // biases start at 0, which would hide a bias that is added twice
    if (!each->is_matrix)
      for (int64_t i = 0; i < each->value.numel(); ++i)
        each->value.data<double>()[i] =
            Random(2, each->name).normal(static_cast<uint64_t>(each->range.first_column + i));
  return all;
}

// What all ranks sent under a label.
int64_t sent_by_all(const std::vector<RankReport>& reports, const char* label) {
  int64_t sum = 0;
  for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
  return sum;
}

}  // namespace

TEST_CASE("gradients of both kinds, with and without bias and dropout") {
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const bool bias : {false, true}) {
      std::vector<LayerPtr> layers;
      layers.push_back(std::make_unique<Mlp>(
          "m", MlpOptions{kind, 5, 7, bias, bias ? 0.3 : 0.0, normal(0.5), normal(0.5)},
          ParameterOptions{1, DType::f64}));
      check_gradients(layers, random_tensor({2, 3, 5}, "x"), {1, 0, 0, 0, true});
    }
}

TEST_CASE(
    "kept: x, what enters the activation, what leaves it; then the gradients of the matrices") {
  const int64_t rows = 6, width = 8, hidden = 12;
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu}) {
    Mlp mlp("m", {kind, width, hidden, true});
    const int64_t matrices = kind == MlpKind::gelu ? 1 : 2;
    Saved saved;
    mlp.forward(Tensor::full({2, 3, width}, 1), saved);
    CHECK(saved.bytes() == 4 * rows * (width + (matrices + 1) * hidden));
    mlp.backward_input(Tensor::full({2, 3, width}, 1), saved);
    CHECK(saved.bytes() ==
          4 * rows * (2 * width + (1 + matrices) * hidden));  // x, down's x, dy of all
    mlp.backward_weight(saved);
    CHECK(saved.bytes() == 0);
  }
}

TEST_CASE("f and g are each other's backward") {
  run_ranks(3, [](Communicator& tp) {
    const auto mine = [&] { return Tensor::full({2}, tp.rank() + 1, DType::f64); };
    CopyToTensorParallel f(tp);
    ReduceFromTensorParallel g(tp);
    const Tensor x = mine();
    CHECK(f.forward(x).shares_memory(x));
    CHECK(f.backward(mine()).values() == std::vector<double>{6, 6});
    CHECK(g.forward(mine()).values() == std::vector<double>{6, 6});
    CHECK(g.backward(x).shares_memory(x));
  });
  const Tensor x = Tensor::full({2}, 7);  // without anybody else: nothing
  CHECK(ReduceFromTensorParallel().forward(x).shares_memory(x));
  CHECK(CopyToTensorParallel().backward(x).values() == x.values());
}

TEST_CASE("columns, then rows, are the serial layers: outputs, dx, every gradient") {
  const Tensor x = random_tensor({B, T, C}, "x"), dh = random_tensor({B, T, F}, "dh");
  const Tensor h = random_tensor({B, T, F}, "h"), dy = random_tensor({B, T, C}, "dy");
  Linear up("up", {C, F, true}, in_f64), down("down", {F, C, true}, in_f64);
  const ParameterPtrs ups = with_biases(up), downs = with_biases(down);
  const Passes first = forward_backward(up, x, dh, training),
               second = forward_backward(down, h, dy, training);
  for (const int ranks : {1, 2, 3, 4, 8})
    run_ranks(ranks, [&](Communicator& tp) {
      const ShardRange columns{B * T, F / ranks, 0, tp.rank() * F / ranks, B * T, F};
      const auto part = [&](const Tensor& whole) {
        Tensor held = Tensor::empty({B, T, F / ranks}, DType::f64);
        take_shard(whole, columns, held);
        return held;
      };
      ColumnParallelLinear up_part("up", {C, F, true}, in_f64, tp);
      const ParameterPtrs up_own = with_biases(up_part);
      Passes out = forward_backward(up_part, x, part(dh), training);
      check_equal(out.y, part(first.y), "columns: y");
      check_equal(CopyToTensorParallel(tp).backward(out.dx), first.dx, "columns: dx", 1e-12, ranks);
      check_parts(up_own, ups, &Parameter::value, ranks);
      check_parts(up_own, ups, &Parameter::grad, ranks);

      RowParallelLinear down_part("down", {F, C, true}, in_f64, tp);
      const ParameterPtrs down_own = with_biases(down_part);
      out = forward_backward(down_part, part(h), dy, training);
      check_equal(out.y, second.y, "rows: y", 1e-12, ranks);
      check_equal(out.dx, part(second.dx), "rows: dx");
      check_parts(down_own, downs, &Parameter::value, ranks);
      check_parts(down_own, downs, &Parameter::grad, ranks);
    });
}

TEST_CASE(
    "the MLP on 1 to 8 ranks is the serial one, with one all_reduce forward and one backward") {
  const Tensor x = random_tensor({B, T, C}, "x"), dy = random_tensor({B, T, C}, "dy");
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const bool bias : {false, true}) {
      const MlpOptions options{kind, C, F, bias, 0.3, normal(0.5), normal(0.5)};
      Mlp serial("m", options, in_f64);
      const ParameterPtrs whole = with_biases(serial);
      const Passes expected = forward_backward(serial, x, dy, training);
      for (const int ranks : {1, 2, 3, 4, 8}) {
        const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& tp) {
          Mlp part("m", options, in_f64, tp);
          const ParameterPtrs own = with_biases(part);
          const Passes out = forward_backward(part, x, dy, training);
          check_equal(out.y, expected.y, "y", 1e-12, ranks);
          check_equal(out.dx, expected.dx, "dx", 1e-12, ranks);
          check_parts(own, whole, &Parameter::value, ranks);
          check_parts(own, whole, &Parameter::grad, ranks);
        });
        const int64_t one = tensor_parallel_bytes_sent_by_all(ranks, B * T * C, 8);
        CHECK(sent_by_all(reports, "tp.forward") == one);
        CHECK(sent_by_all(reports, "tp.backward") == one);
        for (const RankReport& rank : reports) {
          const Ledger& ledger = rank.ledger();
          const int64_t other = ledger.total_traffic().bytes_sent -
                                ledger.traffic("tp.forward").bytes_sent -
                                ledger.traffic("tp.backward").bytes_sent;
          CHECK(other == 0);
          const double matrices = (kind == MlpKind::gelu ? 2.0 : 3.0) * C * F / ranks;
          CHECK(ledger.op("linear").flops == 2 * matrices * B * T);
          CHECK(ledger.op("linear_backward_input").flops == 2 * matrices * B * T);
          CHECK(ledger.op("linear_backward_weight").flops == 2 * matrices * B * T);
        }
      }
    }
}

TEST_CASE("the linear net by pairs of layers: losses, gradients, weights after 3 steps") {
  constexpr LinearNetConfig net{4, 24};
  const Tensor x = random_tensor({5, net.width}, "x"), target = random_tensor({5, net.width}, "t");
  // Three steps of SGD; between two layers of a pair a rank has a tp-th of the numbers.
  const auto train = [&](const std::vector<LayerPtr>& layers, const Communicator& tp) {
    std::vector<double> losses;
    Sgd sgd(parameters(Layers(layers)));
    for (int64_t step = 0; step < 3; ++step) {
      zero_gradients(layers);
      Saved saved;
      Tensor y = x, dy;
      for (const LayerPtr& layer : layers) y = layer->forward(y, saved.child(layer->name()));
      dy = y.clone();
      for (int64_t i = 0; i < dy.numel(); ++i) dy.data<double>()[i] -= target.data<double>()[i];
      losses.push_back(sum_of_squares(dy) / 2);
      for (size_t i = layers.size(); i-- > 0;) {
        Saved& own = saved.child(layers[i]->name());
        dy = layers[i]->backward_input(dy, own);
        layers[i]->backward_weight(own);
        if (i % 2 == 0) dy = CopyToTensorParallel(tp).backward(dy);
      }
      sgd.step(0.01);
    }
    return losses;
  };
  const std::vector<LayerPtr> serial = make_linear_net(net, in_f64);
  const std::vector<double> expected = train(serial, {});
  const ParameterPtrs whole = parameters(Layers(serial));
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& tp) {
      const LinearOptions square{net.width, net.width, false,
                                 normal(1 / std::sqrt(static_cast<double>(net.width)))};
      std::vector<LayerPtr> cut;
      for (int64_t i = 0; i < net.layers; ++i) {
        const std::string name = "layers." + std::to_string(i);
        if (i % 2 == 0)
          cut.push_back(std::make_unique<ColumnParallelLinear>(name, square, in_f64, tp));
        else
          cut.push_back(std::make_unique<RowParallelLinear>(name, square, in_f64, tp));
      }
      const std::vector<double> losses = train(cut, tp);
      for (size_t step = 0; step < 3; ++step)
        CHECK(losses[step] == doctest::Approx(expected[step]).epsilon(1e-12));
      const ParameterPtrs own = parameters(Layers(cut));
      check_parts(own, whole, &Parameter::grad, ranks);
      check_parts(own, whole, &Parameter::value, ranks);
    });
    const int64_t one = tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 8);
    CHECK(sent_by_all(reports, "tp.forward") == 3 * 2 * one);  // steps, pairs of layers
    CHECK(sent_by_all(reports, "tp.backward") == 3 * 2 * one);
  }
}

TEST_CASE("with bf16 weights the sum over ranks is rounded once, as the serial layer's is") {
  // Rows of x with sums 1 and 257; bf16 has no 257, so a part that is rounded would be 256.
  const std::vector<float> rows = {256, 1, -256, 0, 256, 1, 0, 0};
  for (const int ranks : {1, 2, 4})
    run_ranks(ranks, [&](Communicator& tp) {
      RowParallelLinear down("down", {4, 3, true}, {1, DType::bf16}, tp);
      ParameterPtrs own;
      down.add_parameters(own);
      own[0]->value.fill(1);
      const int64_t held = 4 / ranks;
      Tensor x = Tensor::empty({2, held});
      for (int64_t i = 0; i < 2 * held; ++i)
        x.data<float>()[i] = rows[static_cast<size_t>(i / held * 4 + tp.rank() * held + i % held)];
      Saved saved;
      const Tensor y = down.forward(x, saved);
      CHECK(y.dtype() == DType::f32);
      CHECK(y.values() == std::vector<double>{1, 1, 1, 256, 256, 256});
    });
}

TEST_CASE("in a bf16 model f and g move 2 bytes per number, and what is kept has 2") {
  const ParameterOptions bf16{1, DType::bf16};
  const Tensor x = random_tensor({B, T, C}, "x", DType::bf16),
               dy = random_tensor({B, T, C}, "dy", DType::bf16);
  Tensor y, dx;  // of one rank
  for (const int ranks : {1, 2, 4}) {
    const auto reports = run_ranks(ranks, [&](Communicator& tp) {
      Mlp mlp("m", {MlpKind::swiglu, C, F, false, 0, normal(0.2), normal(0.2)}, bf16, tp);
      Saved saved;
      const Tensor own = mlp.forward(x, saved);
      CHECK(own.dtype() == DType::bf16);
      CHECK(saved.bytes() == 2 * B * T * (C + 3 * F / ranks));
      const Tensor own_dx = mlp.backward_input(dy, saved);
      CHECK(own_dx.dtype() == DType::bf16);
      if (ranks == 1) y = own, dx = own_dx;
      // Each rank's part, and each sum on its way round, is rounded: 2^-8 of numbers of about 1.
      CHECK(largest_difference(own, y) <= 2 * ranks * 0x1p-8);
      CHECK(largest_difference(own_dx, dx) <= 2 * ranks * 0x1p-8);
    });
    const int64_t one = tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 2);
    CHECK(sent_by_all(reports, "tp.forward") == one);
    CHECK(sent_by_all(reports, "tp.backward") == one);
  }
}

TEST_CASE("between f and g a rank keeps a tp-th; x stays whole") {
  for (const int ranks : {1, 2, 4})
    run_ranks(ranks, [&](Communicator& tp) {
      Mlp mlp("m", {MlpKind::swiglu, C, F, false}, {}, tp);
      Saved saved;
      mlp.forward(Tensor::full({B, T, C}, 1), saved);
      CHECK(saved.bytes() == 4 * B * T * (C + 3 * F / ranks));
      CHECK(context().ledger.memory()->live(MemoryKind::parameters) == 4 * 3 * C * F / ranks);
    });
}

TEST_CASE("what all ranks hold whole gets the same gradient on all, to the bit") {
  run_ranks(4, [&](Communicator& tp) {
    Mlp mlp("m", {MlpKind::gelu, C, F, true}, in_f64, tp);
    const ParameterPtrs own = with_biases(mlp);
    forward_backward(mlp, random_tensor({B, T, C}, "x"), random_tensor({B, T, C}, "dy"), training);
    int whole = 0;
    for (const ParameterPtr& each : own) {
      if (!each->range.is_whole()) continue;
      ++whole;
      std::vector<double> mine = each->grad.values(), most = mine, least = mine;
      tp.all_reduce(most, ReduceOp::max);
      tp.all_reduce(least, ReduceOp::min);
      CHECK(most == mine);
      CHECK(least == mine);
    }
    CHECK(whole == 1);  // down's bias
  });
}

TEST_CASE("widths that do not divide are refused with the nearest that do") {
  const auto error = [](int ranks, const MlpOptions& options) {
    return error_of<RankFailed>(ranks,
                                [&](Communicator& tp) { Mlp("layers.0.mlp", options, {}, tp); });
  };
  check_says(
      error(3, {MlpKind::gelu, 4, 16}),
      {"layers.0.mlp.up: 16 outputs cannot be divided among the 3 ranks of tensor parallelism",
       "the nearest number that can is 15"});
  check_says(error(8, {MlpKind::gelu, 4, 2}), {"the nearest number that can is 8"});
}
