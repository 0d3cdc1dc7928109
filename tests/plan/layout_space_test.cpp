// The layouts of a model on a cluster, and the meshes that cannot be.
#include "yotta/plan/layout_space.hpp"

#include <doctest/doctest.h>

#include <set>

#include "yotta/plan/step_stages.hpp"

using namespace yotta;

namespace {
PlanRequest request_on(const char* cluster, int64_t tokens) {
  PlanRequest request;
  request.config = llama3_8b();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named(cluster);
  request.tokens = tokens, request.sequence = 8192;
  return request;
}
}  // namespace

TEST_CASE("every layout fills the cluster, divides the batch and can be run") {
  const PlanRequest request = request_on("h100x16", 1 << 20);
  const LayoutSpace space = layout_space(request);
  CHECK(space.layouts.size() > 500);
  for (const Layout& each : space.layouts) {
    const DescribedStep step = described(request, each);
    REQUIRE(each.shape.ranks() == 16);
    REQUIRE(step.batch % (each.shape.data_ranks() * each.microbatches) == 0);
    REQUIRE(layout_works(step.config, step.shape, step.batch, step.options));
  }
}

TEST_CASE("a mesh that breaks a rule is refused once, by the rule") {
  const PlanRequest request = request_on("h100x64", 1 << 18);
  CHECK(why_not(request, {.tp = 16}) == "tp 16 leaves the node of 8 chips");
  CHECK(why_not(request, {.pp = 64}) == "pp 64 needs a block for each stage, and there are 32");
  CHECK(why_not(request, {.dp_replicate = 64}) ==
        "64 data-parallel ranks, and the batch has 32 sequences");
  CHECK(why_not(request, {.cp = 32}) ==
        "cp 32 leaves each rank 256 tokens of a sequence, fewer than 512");
  CHECK(why_not(request, {.tp = 8}).empty());
  PlanRequest odd = request;
  odd.sequence = 10002;
  CHECK(why_not(odd, {.tp = 4, .dp_replicate = 13}).empty());  // 2 sequences
  CHECK(why_not(odd, {.tp = 4, .dp_replicate = 26}) ==
        "tp 4 does not divide a rank's 10002 tokens");
  const LayoutSpace space = layout_space(request);
  for (size_t a = 0; a < space.refused.size(); ++a)
    for (size_t b = 0; b < a; ++b) CHECK(space.refused[a].layout != space.refused[b].layout);
}

TEST_CASE("ranks of tp share the tokens of a microbatch, however many sequences these are") {
  PlanRequest request = request_on("h100x4", 1 << 15);
  request.sequence = 6, request.tokens = 4 * request.sequence;
  std::set<int64_t> microbatches;
  for (const Layout& each : layout_space(request).layouts) {
    REQUIRE(why_no_estimate(described(request, each)).empty());
    if (each.shape.tp == 4) microbatches.insert(each.microbatches);
  }
  CHECK(microbatches == std::set<int64_t>{1, 2});
}

TEST_CASE("a batch that does not divide among the ranks, and experts that do not, are the reason") {
  PlanRequest request = request_on("h100x24", 1 << 20);  // 128 sequences
  CHECK(why_not(request, {.dp_replicate = 6}) ==
        "6 data-parallel ranks do not share 128 sequences alike; 126 or 132 would do");
  for (const Layout& each : layout_space(request).layouts)
    REQUIRE(request.batch() % (each.shape.data_ranks() * each.microbatches) == 0);
  request.tokens = 120 * 8192;
  request.config.mixture.experts = 8;
  CHECK(why_not(request, {.ep = 3, .dp_replicate = 8}).empty());
  CHECK(why_not(request, {.ep = 3, .dp_shard = 8}) ==
        "ep 3 beside fsdp needs as many experts on each rank, and there are 8");
  for (const RefusedLayout& each : layout_space(request).refused)
    CHECK(each.why.find("microbatches divides") == std::string::npos);
  request.config.mixture.capacity = 1.25;  // no rule of the planner's own
  bool has_capacity = false;
  for (const RefusedLayout& each : layout_space(request).refused)
    has_capacity = has_capacity || each.why.starts_with("a capacity drops an expert's last tokens");
  CHECK(has_capacity);
}

TEST_CASE("data parallelism: DDP, ZeRO-1, ZeRO-2; FSDP with units that are dropped, or kept") {
  std::set<int> zero, zero_of_shards, zero_of_splits;
  std::set<bool> kept;
  for (const Layout& each : layout_space(request_on("h100x16", 1 << 20)).layouts) {
    const bool shards = each.shape.dp_shard > 1;
    (shards ? zero_of_shards : zero).insert(each.zero);
    if (shards) kept.insert(each.keeps_units);
    if (splits_backward(each.schedule)) zero_of_splits.insert(each.zero);
    REQUIRE((!each.keeps_units || (shards && each.recomputed == 0)));
  }
  CHECK(zero == std::set<int>{0, 1, 2});
  CHECK(zero_of_shards == std::set<int>{0});
  CHECK(zero_of_splits == std::set<int>{0, 1});
  CHECK(kept == std::set<bool>{false, true});
}

TEST_CASE("microbatches double up to all of a rank's sequences, chunks up to one block each") {
  const std::vector<Layout> all = layout_space(request_on("h100x16", 1 << 20)).layouts;
  std::set<int64_t> sequences, chunks;
  for (const Layout& each : all) {
    const int64_t own = 128 / each.shape.data_ranks();
    if (each.shape.dp_shard == 16) sequences.insert(own / each.microbatches);
    if (each.shape.pp == 2) chunks.insert(each.chunks);
  }
  CHECK(sequences == std::set<int64_t>{1, 2, 4, 8});
  CHECK(chunks == std::set<int64_t>{1, 2, 4, 8, 16});
}

TEST_CASE("experts stand outside of the pipeline's ranks, and inside: the mesh has both orders") {
  PlanRequest request = request_on("h100x16", 1 << 20);
  request.config.mixture.experts = 8;
  int outermost = 0, inside = 0;
  for (const Layout& each : layout_space(request).layouts) {
    REQUIRE((!each.pp_outermost || (each.shape.pp > 1 && each.shape.ep > 1)));
    if (each.shape == MeshShape{.pp = 2, .ep = 8}) ++(each.pp_outermost ? outermost : inside);
  }
  CHECK(inside > 0);
  CHECK(outermost == inside);
}

TEST_CASE("405B parameters on 16,384 chips: tens of thousands of layouts") {
  PlanRequest request = request_on("h100x16384", int64_t{16} << 20);
  request.config = llama3_405b();
  CHECK(layout_space(request).layouts.size() > 50'000);
}
