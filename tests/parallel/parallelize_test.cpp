#include "yotta/parallel/parallelize.hpp"

#include <doctest/doctest.h>

#include <map>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/ddp.hpp"

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 4, T = 8, V = 23;  // no number of ranks divides the vocabulary

TransformerConfig config_of(Dialect dialect, DType dtype) {
  TransformerConfig c =
      dialect == Dialect::gpt2 ? gpt2_config(2, 32, 8, T, V) : llama_config(2, 32, 48, 8, 4, T, V);
  c.deviation = 0.2, c.dtype = dtype, c.dropout = 0.1;
  return c;
}

Tensor ids(int64_t step) {
  Tensor made = Tensor::empty({B, T}, DType::i32);
  const Random random(static_cast<uint64_t>(step), "text");
  for (int64_t i = 0; i < B * T; ++i)
    made.data<int32_t>()[i] =
        static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(V)));
  return made;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<Tensor> gradients;  // of the first step
  ParameterPtrs weights;          // after all
};

// Two steps of AdamW on this rank's part of the batch.
Outcome train(Layers stack, const LossOf& loss, Mesh* mesh, bool shares_tokens = false) {
  Outcome out;
  out.weights = parameters(stack);
  AdamW optimizer(out.weights, {.weight_decay = 0.1});
  for (int64_t step = 0; step < 2; ++step) {
    zero_gradients(stack);
    Tensor in = ids(step), wanted = ids(step + 9);
    BatchPosition place{7, step, 0, {}, true};
    if (mesh != nullptr) {
      Communicator& cp = (*mesh)[Axis::cp];
      const int64_t own = B / mesh->dp().size(), first = own * mesh->dp().rank();
      in = context_shard(in.rows(first, first + own), cp);
      wanted = context_shard(wanted.rows(first, first + own), cp);
      place.first_sequence = first, place.positions = context_positions(T, cp);
    }
    Saved saved(place);
    Tensor d;
    double sum = loss(forward(stack, in, saved), wanted, 1.0 / (B * T), &d);
    backward(stack, d, saved);
    CHECK(saved.bytes() == 0);
    if (mesh != nullptr) {
      const Communicator data = mesh->along({Axis::cp, Axis::ep, Axis::dp_replicate});
      const Communicator copies = mesh->along({Axis::cp, Axis::dp_replicate});
      reduce_moe_gradients(out.weights, copies, data);
      if (shares_tokens) reduce_own_token_gradients(out.weights, (*mesh)[Axis::tp]);
      sum = sum_over(data, sum, "loss");
    }
    out.losses.push_back(sum);
    for (const ParameterPtr& each : out.weights)
      if (step == 0) out.gradients.push_back(each->grad.clone());
    optimizer.step(0.01);
  }
  return out;
}

Outcome serial(const TransformerConfig& c) {
  Transformer model(c);
  if (c.mixture.experts > 0) mix_experts(model);
  return train(model.stack(), loss_of, nullptr);
}

// On each rank: losses, and of every parameter its part of the serial gradient.
void check_layout(const TransformerConfig& c, const MeshShape& shape, const NdOptions& options,
                  const Outcome& whole) {
  const std::string layout = fmt::format("{}, {}", describe(shape), name(c.dialect));
  CAPTURE(layout);
  run_ranks(static_cast<int>(shape.ranks()), [&](Communicator& world) {
    Mesh mesh(world, shape);
    const Communicator routed = mesh.along({Axis::cp, Axis::ep, Axis::dp_replicate});
    Transformer model = as_shapes([&] {
      Transformer made(c);
      parallelize(made, mesh, options, routed);
      return made;
    });
    materialise(parameters(model.stack()));
    const bool shares = options.shares_tokens() && shape.tp > 1;
    const Outcome part =
        train(model.stack(), loss_on(mesh, c, model.head(), options.loss_tokens), &mesh, shares);
    for (size_t step = 0; step < whole.losses.size(); ++step)
      CHECK(std::abs(part.losses[step] - whole.losses[step]) <= 1e-12);
    for (size_t i = 0; i < part.weights.size(); ++i) {
      const Parameter& own = *part.weights[i];
      if (own.name.ends_with("attention.k.bias")) continue;  // rounding alone
      const auto same = std::find_if(whole.weights.begin(), whole.weights.end(),
                                     [&](const auto& each) { return each->name == own.name; });
      REQUIRE(same != whole.weights.end());
      Tensor expected = part.gradients[i].clone();
      take_shard(whole.gradients[static_cast<size_t>(same - whole.weights.begin())], own.range,
                 expected);
      check_equal(part.gradients[i], expected, own.name, 1e-11);
    }
  });
}

NdOptions sharing(bool keeps, Pieces pieces = Pieces::none) {
  NdOptions o;
  o.sequence_parallel = true, o.keep_gathered = keeps, o.pieces = pieces;
  return o;
}

}  // namespace

TEST_CASE("every axis alone and some together: losses and gradients are the serial model's") {
  NdOptions ulysses_options;
  ulysses_options.context = ContextParallel::ulysses;
  NdOptions all = sharing(false, Pieces::one_way);
  all.context = ContextParallel::ulysses;
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig c = config_of(dialect, DType::f64);
    const Outcome whole = serial(c);
    check_layout(c, {.tp = 2}, {}, whole);
    check_layout(c, {.tp = 4}, sharing(false), whole);
    check_layout(c, {.tp = 2}, sharing(true), whole);
    check_layout(c, {.tp = 4}, sharing(true, Pieces::both_ways), whole);
    check_layout(c, {.cp = 2}, {}, whole);
    check_layout(c, {.cp = 2}, ulysses_options, whole);
    check_layout(c, {.tp = 2, .cp = 2, .dp_replicate = 2}, sharing(false), whole);
    check_layout(c, {.tp = 2, .cp = 2, .dp_replicate = 2}, all, whole);
  }
}

TEST_CASE("the loss in chunks of tokens, beside every axis that can have it") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig c = config_of(dialect, DType::f64);
    const Outcome whole = serial(c);
    for (const int64_t tokens : {3, 8, 64}) {
      NdOptions plain, sends = sharing(false), keeps = sharing(true);
      plain.loss_tokens = sends.loss_tokens = keeps.loss_tokens = tokens;
      check_layout(c, {.tp = 1}, plain, whole);
      check_layout(c, {.tp = 2}, plain, whole);
      check_layout(c, {.tp = 4}, sends, whole);
      check_layout(c, {.tp = 2}, keeps, whole);
      check_layout(c, {.cp = 2}, plain, whole);
      check_layout(c, {.tp = 2, .cp = 2, .dp_replicate = 2}, sends, whole);
    }
  }
}

TEST_CASE("a mixture of experts beside the other axes") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    TransformerConfig c = config_of(dialect, DType::f64);
    c.mixture = {.experts = 4, .top_k = 2, .shared = 1, .balance_loss = 0.01, .z_loss = 0.001};
    const Outcome whole = serial(c);
    check_layout(c, {.ep = 2}, {}, whole);
    check_layout(c, {.tp = 2}, {}, whole);
    check_layout(c, {.tp = 2, .ep = 2, .dp_replicate = 2}, sharing(false), whole);
  }
}

// What a technique puts in on one rank changes nothing: losses, gradients and weights to the bit.
TEST_CASE("on one rank no swap changes a bit") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const TransformerConfig c = config_of(dialect, dtype);
      const Outcome whole = serial(c);
      for (const char* technique : {"tp", "ring", "ulysses", "all"})
        run_ranks(1, [&](Communicator& world) {
          CAPTURE(std::string(technique));
          Transformer model(c);
          LossOf loss = loss_of;
          const bool all = std::string(technique) == "all";
          if (all || std::string(technique) == "tp") {
            tensor_parallel(model, world);
            loss = vocab_parallel_loss(V, world);
          }
          if (std::string(technique) == "ring") ring_attention(model, world);
          if (all || std::string(technique) == "ulysses") ulysses(model, world);
          const Outcome part = train(model.stack(), loss, nullptr);
          CHECK(part.losses == whole.losses);
          for (size_t i = 0; i < part.weights.size(); ++i) {
            CHECK(same_bits(part.gradients[i], whole.gradients[i]));
            CHECK(same_bits(part.weights[i]->value, whole.weights[i]->value));
          }
          CHECK(context().ledger.total_traffic().messages_sent == 0);
        });
    }
}

TEST_CASE("a transformer with experts runs when they have been put in, and says so before") {
  TransformerConfig c = config_of(Dialect::llama, DType::f32);
  c.mixture = {.experts = 4, .top_k = 2};
  Transformer model(c);
  const auto run = [&] {
    Saved saved;
    forward(model.stack(), ids(0), saved);
  };
  CHECK(contains(message_of(run), "layers.0.mlp: the configuration has a mixture of experts"));
  mix_experts(model);
  run();
  CHECK(parameter_count(model.stack()) == parameters(c));
}
