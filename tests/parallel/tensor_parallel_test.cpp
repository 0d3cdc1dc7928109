#include "yotta/parallel/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/cut_model.hpp"
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

TEST_CASE("f and g are each other's backward") {
  run_ranks(3, [](Communicator& tp) {
    const auto mine = [&] { return Tensor::full({2}, tp.rank() + 1, DType::f64); };
    const Border border(tp);
    const Tensor x = mine();
    CHECK(border.enter(x).shares_memory(x));
    CHECK(border.enter_back(mine()).values() == std::vector<double>{6, 6});
    CHECK(border.leave(mine()).values() == std::vector<double>{6, 6});
    CHECK(border.leave_back(x).shares_memory(x));
  });
  run_ranks(1, [](Communicator& alone) {  // without anybody else: nothing
    const Tensor x = Tensor::full({2}, 7);
    CHECK(Border(alone).leave(x).shares_memory(x));
    CHECK(Border(alone).enter_back(x).values() == std::vector<double>{7, 7});
    CHECK(context().ledger.total_traffic().messages_sent == 0);
  });
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
      Linear up_part("up", {C, F, true}, in_f64), down_whole("down", {F, C, true}, in_f64);
      cut_by_columns(up_part, tp);
      const ParameterPtrs up_own = with_biases(up_part);
      Passes out = forward_backward(up_part, x, part(dh), training);
      check_equal(out.y, part(first.y), "columns: y");
      check_equal(Border(tp).enter_back(out.dx), first.dx, "columns: dx", 1e-12, ranks);
      check_parts(up_own, ups, &Parameter::value, ranks);
      check_parts(up_own, ups, &Parameter::grad, ranks);

      cut_by_rows(down_whole, tp);
      RowParallelLinear down_part(std::move(down_whole), std::make_shared<Border>(tp));
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
          Mlp part("m", options, in_f64);
          cut_half(part, tp);
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
  const auto train = [&](const std::vector<LayerPtr>& layers, const BorderPtr& border) {
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
        if (i % 2 == 0 && border) dy = border->enter_back(dy);
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
      const BorderPtr border = std::make_shared<Border>(tp);
      std::vector<LayerPtr> cut;
      for (int64_t i = 0; i < net.layers; ++i) {
        const std::string name = "layers." + std::to_string(i);
        auto whole_layer = std::make_unique<Linear>(name, square, in_f64);
        if (i % 2 == 0) {
          cut_by_columns(*whole_layer, tp);
          cut.push_back(std::move(whole_layer));
        } else {
          cut_by_rows(*whole_layer, tp);
          cut.push_back(std::make_unique<RowParallelLinear>(std::move(*whole_layer), border));
        }
      }
      const std::vector<double> losses = train(cut, border);
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
      Linear serial("down", {4, 3, true}, {1, DType::bf16});
      cut_by_rows(serial, tp);
      RowParallelLinear down(std::move(serial), std::make_shared<Border>(tp));
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
      Mlp mlp("m", {MlpKind::swiglu, C, F, false, 0, normal(0.2), normal(0.2)}, bf16);
      cut_half(mlp, tp);
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
      Mlp mlp("m", {MlpKind::swiglu, C, F, false}, {});
      cut_half(mlp, tp);
      Saved saved;
      mlp.forward(Tensor::full({B, T, C}, 1), saved);
      CHECK(saved.bytes() == 4 * B * T * (C + 3 * F / ranks));
      CHECK(context().ledger.memory()->live(MemoryKind::parameters) == 4 * 3 * C * F / ranks);
    });
}

TEST_CASE("what all ranks hold whole gets the same gradient on all, to the bit") {
  run_ranks(4, [&](Communicator& tp) {
    Mlp mlp("m", {MlpKind::gelu, C, F, true}, in_f64);
    cut_half(mlp, tp);
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
    return error_of<RankFailed>(ranks, [&](Communicator& tp) {
      Mlp mlp("layers.0.mlp", options);
      cut_half(mlp, tp);
    });
  };
  check_says(
      error(3, {MlpKind::gelu, 4, 16}),
      {"layers.0.mlp.up: 16 outputs cannot be divided among the 3 ranks of tensor parallelism",
       "the nearest number that can is 15"});
  check_says(error(8, {MlpKind::gelu, 4, 2}), {"the nearest number that can is 8"});
}

// Heads over ranks, dropout of probabilities and of the output included: each head's mask is that
// of its number in the whole layer.
TEST_CASE("heads over 1 to 8 ranks are the serial layer, grouped queries and dropout included") {
  struct Sizes {
    int64_t heads, kv_heads;
    std::vector<int> ranks;
  };
  for (const Sizes& sizes :
       {Sizes{8, 8, {1, 2, 4, 8}}, Sizes{8, 2, {1, 2}}, Sizes{6, 3, {1, 3}}, Sizes{8, 4, {4}}})
    for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
      const int64_t width = 2 * sizes.heads;
      TransformerConfig c = kind == AttentionKind::plain
                                ? gpt2_config(1, width, sizes.heads, 8, 1)
                                : llama_config(1, width, 4, sizes.heads, sizes.kv_heads, 8, 1);
      c.kv_heads = sizes.kv_heads;
      c.attention = kind, c.dtype = DType::f64, c.seed = 1, c.deviation = 0.5, c.dropout = 0.2;
      if (kind == AttentionKind::plain) c.attention_dropout = 0.4;
      const Tensor x = random_tensor({2, 5, width}, "x"), dy = random_tensor({2, 5, width}, "dy");
      const auto run = [&](Attention& layer, Tensor& dx) {
        Saved saved({.seed = 3, .step = 1, .first_sequence = 2, .training = true});
        const Tensor y = layer.forward(x, saved);
        dx = layer.backward_input(dy, saved);
        layer.backward_weight(saved);
        return y;
      };
      Attention serial("a", c);
      ParameterPtrs whole;
      serial.add_parameters(whole);
      Tensor dx;
      const Tensor y = run(serial, dx);
      for (const int ranks : sizes.ranks) {
        int64_t forward = 0, backward = 0;
        for (const RankReport& rank : run_ranks(ranks, [&](Communicator& tp) {
               Attention part("a", c);
               cut_half(part, tp);
               ParameterPtrs own;
               part.add_parameters(own);
               Tensor own_dx;
               check_equal(run(part, own_dx), y, "y", 1e-12, ranks);
               check_equal(own_dx, dx, "dx", 1e-12, ranks);
               check_parts(own, whole, &Parameter::value, ranks);
               check_parts(own, whole, &Parameter::grad, ranks);
             })) {
          forward += rank.ledger().traffic("tp.forward").bytes_sent;
          backward += rank.ledger().traffic("tp.backward").bytes_sent;
        }
        CHECK(forward == tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 8));
        CHECK(backward == tensor_parallel_bytes_sent_by_all(ranks, x.numel(), 8));
      }
    }
}

TEST_CASE("heads that do not divide are refused") {
  const auto error = [](int ranks, int64_t kv_heads) {
    const TransformerConfig c = llama_config(1, 8, 4, 4, kv_heads, 8, 1);
    return error_of<RankFailed>(ranks, [&](Communicator& tp) {
      Attention attention("layers.0.attention", c);
      cut_half(attention, tp);
    });
  };
  check_says(error(3, 4), {"layers.0.attention: 4 heads cannot be divided among the 3 ranks",
                           "the nearest number that can is 3"});
  check_says(error(4, 2), {"2 key/value heads cannot be divided among the 4 ranks"});
}
