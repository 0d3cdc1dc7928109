// Formula against run: random small models, layouts and batches, estimated and run under the clock.
#include "yotta/plan/step_estimate.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/core/random.hpp"
#include "yotta/parallel/gradient_groups.hpp"
#include "yotta/plan/layout_space.hpp"

using namespace yotta;

namespace {

// A model, a cluster of whole nodes, and a layout of the planner's kind.
struct Drawn {
  PlanRequest request;
  Layout layout;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, "plan") {}
  int below(uint32_t n) { return static_cast<int>(random_.below(drawn_++, n)); }
  int64_t one_of(std::initializer_list<int64_t> all) {
    return all.begin()[below(static_cast<uint32_t>(all.size()))];
  }
  int size(std::initializer_list<int64_t> all) { return static_cast<int>(one_of(all)); }

 private:
  Random random_;
  uint64_t drawn_ = 0;
};

TransformerConfig draw_model(Draw& draw) {
  const int64_t layers = draw.one_of({2, 3, 4, 6, 8}), kv_heads = draw.one_of({2, 4, 8});
  const int64_t heads = kv_heads * draw.one_of({1, 2}), width = heads * draw.one_of({64, 128});
  const int64_t context = draw.one_of({256, 512, 1024, 2048});
  TransformerConfig config;
  if (draw.below(4) == 0) {
    config = gpt2_config(layers, width, heads, context, draw.one_of({1000, 4096, 8192}));
  } else {  // one draw a statement: arguments are evaluated in any order
    const int64_t hidden = width * draw.one_of({2, 3, 4}),
                  vocabulary = draw.one_of({1024, 4096, 8192});
    config = llama_config(layers, width, hidden, heads, kv_heads, context, vocabulary);
  }
  config.dtype = draw.below(4) == 0 ? DType::f32 : DType::bf16;
  return config;
}

void draw_pipeline(Draw& draw, Layout& layout) {
  if (layout.shape.pp > 1 && draw.below(4) > 0) {
    layout.schedule = std::array{PipelineKind::interleaved, PipelineKind::zb_h1,
                                 PipelineKind::zb_v}[static_cast<size_t>(draw.below(3))];
    if (layout.schedule == PipelineKind::interleaved) layout.chunks = 2;
  }
  layout.microbatches = layout.shape.pp * draw.one_of({1, 2, 3, 4});
  const bool splits =
      layout.schedule == PipelineKind::zb_h1 || layout.schedule == PipelineKind::zb_v;
  if (!splits) layout.recomputed = draw.one_of({0, 1, -1});
  if (splits) layout.shape.dp_shard = 1;
}

Layout draw_layout(Draw& draw) {
  Layout layout;
  MeshShape& shape = layout.shape;
  shape.tp = draw.size({1, 1, 2, 4, 8}), shape.cp = draw.size({1, 1, 1, 2, 4});
  shape.pp = draw.size({1, 1, 2, 4});
  if (draw.below(2) == 0) shape.dp_shard = draw.size({2, 4, 8});
  shape.dp_replicate = draw.size({1, 2, 4, 8});
  draw_pipeline(draw, layout);
  if (shape.dp_shard == 1 && shape.dp_replicate > 1) layout.zero = draw.below(2);
  if (shape.tp > 1) {
    layout.sequence_parallel = draw.below(4) > 0;
    if (layout.sequence_parallel) layout.pieces = static_cast<Pieces>(draw.below(3));
  }
  if (draw.below(3) == 0) layout.context = ContextParallel::ulysses;
  return layout;
}

// Left out: messages between stages that take more than a fifth of what a stage computes meanwhile.
// They meet at a port with each other, and the formula has them follow each other.
bool is_bound_by_messages(const StepStages& stages) {
  double least = no_limit;
  for (int stage = 0; stage < stages.stages(); ++stage)
    least = std::min(least, stages.stage(stage).forward.seconds());
  return stages.ranks() > 1 && stages.between() * stages.groups().pp.link.beta > 0.2 * least;
}

enum class Kind : uint8_t { dense, tied_shards, mixture };

// Experts, and the ranks that share them out.
void draw_mixture(Draw& draw, TransformerConfig& config, Layout& layout) {
  MixtureConfig& mixture = config.mixture;
  mixture.experts = draw.one_of({2, 4, 8}), mixture.top_k = draw.one_of({1, 2});
  mixture.shared = draw.one_of({0, 0, 1});
  if (draw.below(2) == 0) mixture.score = RouterScore::sigmoid;
  if (draw.below(3) == 0 && layout.shape.cp == 1) mixture.capacity = 1.25;
  if (draw.below(2) == 0) mixture.balance_loss = 0.01;
  layout.shape.ep = draw.size({1, 2, 2, 4});
  layout.pieces = Pieces::none;
  // Mirrored ranks sum equal parts: of a bias all of them need some numbers.
  const bool divides = mixture.experts % layout.shape.ranks() == 0;
  if (config.dtype == DType::f32 && divides) mixture.bias_rate = 0.001;
}

Drawn draw_case(uint64_t seed, Kind kind = Kind::dense) {
  Draw draw(seed);
  LayerRecords records;
  for (;;) {
    Drawn drawn{{}, draw_layout(draw)};
    PlanRequest& request = drawn.request;
    const MeshShape& shape = drawn.layout.shape;
    request.config = draw_model(draw);
    if (kind == Kind::mixture) draw_mixture(draw, request.config, drawn.layout);
    request.sequence = request.config.context;
    request.tokens =
        shape.data_ranks() * drawn.layout.microbatches * draw.one_of({1, 2}) * request.sequence;
    const bool tied_shards = request.config.tied && shape.dp_shard > 1;
    // Loads are summed over all of these at once, which must have equal links to be mirrored.
    const bool has_two_links = shape.ep * shape.cp == 1 && shape.dp_shard > 1;
    if (kind == Kind::mixture && has_two_links && shape.dp_replicate > 1) continue;
    Draw kept(seed ^ 0xF5D9);  // with draws of its own
    if (drawn.layout.zero == 1 && !splits_backward(drawn.layout.schedule))
      drawn.layout.zero = kept.size({1, 2});
    drawn.layout.keeps_units =
        shape.dp_shard > 1 && drawn.layout.recomputed == 0 && kept.below(2) == 0;
    if (shape.ranks() > 64 || (kind != Kind::mixture && tied_shards != (kind == Kind::tied_shards)))
      continue;
    request.cluster = cluster_named(fmt::format("h100x{}", std::max<int64_t>(8, shape.ranks())));
    const DescribedStep step = described(request, drawn.layout);
    if (!layout_works(step.config, step.shape, step.batch, step.options)) continue;
    if (!is_bound_by_messages({as_seen_by(shape, request.cluster), step, records})) return drawn;
  }
}

}  // namespace

namespace {

void check_cases(Kind kind, uint64_t count) {
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const auto [request, layout] = draw_case(seed, kind);
    const DescribedStep step = described(request, layout);
    const Cluster cluster = as_seen_by(step.shape, request.cluster);
    const DescribedFigures run = run_described(cluster, step);
    const StepEstimate formula = estimate_step(cluster, step);
    CAPTURE(seed);
    CAPTURE(text_of(layout));
    CHECK(formula.seconds == doctest::Approx(run.seconds).epsilon(0.03).scale(0));
    const auto bytes = static_cast<double>(run.bytes);
    // ZeRO-2's fullest moment is off by a bucket in 4 of these 200, and in no mixture.
    const bool may_miss = layout.zero == 2 && kind != Kind::mixture;
    const double bucket = may_miss ? static_cast<double>(bucket_bytes_of(layout)) : 0;
    CHECK(std::abs(formula.memory.bytes() - bytes) <= 0.03 * bytes + bucket);
  }
}

}  // namespace

TEST_CASE("200 random small cases: seconds and bytes by formula are within 3% of the run") {
  check_cases(Kind::dense, 200);
}
TEST_CASE("random tied models with FSDP, which gathers the table once for both its uses") {
  check_cases(Kind::tied_shards, 32);
}
TEST_CASE("random mixtures of experts, alone and with ep 2 and 4") {
  check_cases(Kind::mixture, 32);
}
