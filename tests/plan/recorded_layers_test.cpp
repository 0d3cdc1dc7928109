// A layer of the planner is the layer of the model, run once on meta.
#include "yotta/plan/recorded_layers.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "yotta/plan/planner.hpp"

using namespace yotta;

namespace {

LayerQuestion question(const TransformerConfig& config, const MeshShape& shape = {},
                       const NdOptions& options = {}) {
  const DescribedStep step = yotta_test::step_of(config, shape, options, 2);
  return layer_question(ideal_chip(1), step, layer_sizes(step),
                        plan_groups(switched(chip_named("h100"), 64), shape));
}

// A feed-forward layer, and one product of C x C more behind it.
class OneMoreProduct : public Composite {
 public:
  OneMoreProduct(LayerPtr mlp, int64_t C)
      : Composite(mlp->name() + ".more"),
        mlp_(std::move(mlp)),
        more_(name() + ".product", {C, C}, {1, DType::bf16}) {}
  Tensor forward(const Tensor& x, Saved& saved) override {
    return run(more_, run(*mlp_, x, saved), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return run_back(*mlp_, run_back(more_, dy, saved), saved);
  }

 protected:
  std::vector<Layer*> parts() override { return {mlp_.get(), &more_}; }

 private:
  LayerPtr mlp_;
  Linear more_;
};
void one_more_product(Transformer& model) {
  for (Block* block : model.blocks())
    block->mlp = std::make_unique<OneMoreProduct>(std::move(block->mlp), model.config().width);
}

}  // namespace

TEST_CASE("a block has its parameters, each once, in both dialects") {
  for (const TransformerConfig& config :
       {gpt2_config(2, 64, 4, 32, 100), llama_config(2, 64, 96, 4, 2, 32, 100)}) {
    const LayerFigures block = record_layers(question(config)).block;
    CHECK(block.parameters() == block_parameters(config));
    CHECK(block.kept > 0);
    CHECK(block.in == block.out);
  }
}

TEST_CASE("on an ideal chip forward and backward take the block's FLOPs") {
  const TransformerConfig config = llama_config(1, 256, 768, 4, 4, 64, 100);
  const LayerFigures block = record_layers(question(config)).block;
  const double tokens = 2 * 64, dense = 2 * tokens * static_cast<double>(block_parameters(config));
  const double scores = 2 * 2 * tokens * 64 / 2 * 256;
  CHECK(block.forward.seconds() == doctest::Approx(dense + scores).epsilon(0.03).scale(0));
  CHECK(block.input.seconds() + block.weight.seconds() ==
        doctest::Approx(2 * dense + 2.5 * scores).epsilon(0.03).scale(0));
}

TEST_CASE("recomputed: x is kept, and forward is run again") {
  const LayerFigures block = record_layers(question(llama_config(1, 64, 96, 4, 2, 32, 100))).block;
  const LayerFigures again = checkpointed_figures(block);
  CHECK(again.saved == again.in);
  CHECK(again.saved < block.saved);
  CHECK(again.weight.seconds() == 0);
  CHECK(again.input.seconds() ==
        doctest::Approx(block.forward.seconds() + block.input.seconds() + block.weight.seconds())
            .scale(0));
}

TEST_CASE("what waits for a message says for whom, and what a busy port would cost") {
  const TransformerConfig config = llama_config(1, 64, 96, 4, 4, 32, 100);
  const auto tp = static_cast<size_t>(Exposed::tp), cp = static_cast<size_t>(Exposed::cp);
  const LayerFigures cut = record_layers(question(config, {.tp = 4})).block;
  CHECK(cut.forward.exposed[tp] > 0);
  CHECK(cut.forward.exposed[cp] == 0);
  CHECK(cut.weight.sent[tp] == 0);
  CHECK(cut.forward.slowed[tp] == doctest::Approx(cut.forward.sent[tp]).epsilon(0.01).scale(0));
  // Keys and values travel while scores are computed.
  const LayerFigures ring = record_layers(question(config, {.cp = 4})).block;
  CHECK(ring.forward.sent[cp] > 0);
  CHECK(ring.forward.exposed[cp] < ring.forward.sent[cp]);
}

TEST_CASE("sequence parallelism keeps a tp-th of what it shares out, and gathers again in W") {
  const TransformerConfig config = llama_config(1, 64, 96, 4, 4, 32, 100);
  NdOptions shares;
  shares.sequence_parallel = true;
  const LayerFigures whole = record_layers(question(config, {.tp = 4})).block,
                     cut = record_layers(question(config, {.tp = 4}, shares)).block;
  CHECK(cut.saved < whole.saved);
  CHECK(cut.in == whole.in / 4);
  CHECK(cut.weight.exposed[0] > whole.weight.exposed[0]);
}

TEST_CASE("by operators: every second product stays, and what attention writes") {
  const TransformerConfig config = llama_config(1, 64, 96, 4, 2, 32, 100);
  const LayerFigures block = record_layers(question(config)).block;
  const double tokens = 2 * 32;
  // x, y, q, v, o, a sum for each row of scores, the gate
  const double stay = tokens * (64 + 64 + 64 + 32 + 64 + 4 + 96);
  CHECK(block.operators_kept == bytes_of(config.dtype) * stay);
  // k, the product after attention, and the one beside the gate
  const double products = 2 * tokens * 64 * (32 + 64 + 96);
  CHECK(block.operators.computed > products);
  CHECK(block.operators.computed < 1.1 * products);
}

TEST_CASE("a question is answered from the records when it is asked again") {
  LayerRecords records;
  const LayerQuestion asked = question(llama_config(1, 64, 96, 4, 4, 32, 100));
  const RecordedLayers& first = records.of(asked);
  CHECK(&records.of(asked) == &first);
  LayerQuestion other = asked;
  other.B *= 2;
  CHECK(records.of(other).block.saved == doctest::Approx(2 * first.block.saved).scale(0));
}

TEST_CASE("a changed layer shows in an estimate and in a plan: FLOPs, seconds and bytes") {
  DescribedStep step = yotta_test::small_step({});
  step.config.dtype = DType::bf16;
  const auto computed = [&](void (*technique)(Transformer&)) {
    step.technique = technique;
    return estimate_step(ideal(), step).time.computed;
  };
  // On an ideal chip a FLOP takes a second: forward, I and W of 2 C C for each token and block.
  const double C = 512, tokens = 32 * 256, more = 4 * 3 * 2 * C * C * tokens;
  CHECK(computed(one_more_product) - computed(nullptr) ==
        doctest::Approx(more).epsilon(0.02).scale(0));

  PlanRequest request;
  request.config = step.config;
  request.cluster = cluster_named("h100x2");
  request.tokens = 32 * 256, request.sequence = 256;
  const PlannedLayout plain = make_plan(request).best.front();
  request.technique = one_more_product;
  const PlannedLayout changed = make_plan(request).best.front();
  CHECK(changed.estimate.seconds > plain.estimate.seconds);
  CHECK(changed.estimate.memory.weights > plain.estimate.memory.weights);
}
