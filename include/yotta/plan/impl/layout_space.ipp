// The bodies of plan/layout_space.hpp.
#pragma once

#include "yotta/plan/layout_space.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace yotta {

namespace detail {

// Of what tp cuts.
inline std::string why_no_cut(const PlanRequest& request, const MeshShape& shape) {
  const TransformerConfig& c = request.config;
  const int node = request.cluster.levels.empty() ? 1 : request.cluster.levels.front().chips;
  if (shape.tp > node) return fmt::format("tp {} leaves the node of {} chips", shape.tp, node);
  const std::pair<const char*, int64_t> widths[] = {
      {"heads", c.heads},
      {"key/value heads", c.kv_heads},
      {"feed-forward numbers", c.feed_forward},
      {"feed-forward numbers of the first blocks", c.mixture.dense_width}};
  for (const auto& [what, size] : widths)
    if (size % shape.tp != 0)
      return fmt::format("tp {} does not divide {} {}", shape.tp, size, what);
  return "";
}
// Of a sequence, which cp cuts. Ranks of tp share alike the tokens of a microbatch.
inline std::string why_no_context(const PlanRequest& request, const MeshShape& shape) {
  const int64_t own = request.sequence / shape.cp;
  const int64_t most = request.batch() / shape.data_ranks() * own;  // of a microbatch
  if (most % shape.tp != 0)
    return fmt::format("tp {} does not divide a rank's {} tokens", shape.tp, most);
  if (shape.cp == 1) return "";
  if (request.sequence % (int64_t{2} * shape.cp) != 0)
    return fmt::format("cp {} does not cut {} tokens into {} chunks", shape.cp, request.sequence,
                       2 * shape.cp);
  if (own < least_tokens)
    return fmt::format("cp {} leaves each rank {} tokens of a sequence, fewer than {}", shape.cp,
                       own, least_tokens);
  return "";
}

// Of the batch: ranks among which it does not divide would wait for the fullest.
inline std::string why_no_shares(const PlanRequest& request, const MeshShape& shape) {
  const int64_t batch = request.batch(), ranks = shape.data_ranks();
  if (ranks > batch)
    return fmt::format("{} data-parallel ranks, and the batch has {} sequence{}", ranks, batch,
                       batch == 1 ? "" : "s");
  if (batch % ranks == 0) return "";
  return fmt::format("{} data-parallel ranks do not share {} sequences alike; {} or {} would do",
                     ranks, batch, batch / ranks * ranks, (batch / ranks + 1) * ranks);
}

}  // namespace detail

YOTTA_INLINE std::string why_not(const PlanRequest& request, const MeshShape& shape) {
  const TransformerConfig& c = request.config;
  if (std::string why = detail::why_no_cut(request, shape); !why.empty()) return why;
  if (std::string why = detail::why_no_context(request, shape); !why.empty()) return why;
  if (shape.pp > 1 && shape.pp > c.layers)
    return fmt::format("pp {} needs a block for each stage, and there are {}", shape.pp, c.layers);
  if (shape.ep > 1 && shape.ep > c.mixture.experts)
    return fmt::format("ep {} shares out experts, and there are {}", shape.ep, c.mixture.experts);
  if (shape.ep > 1 && shape.dp_shard > 1 && c.mixture.experts % shape.ep != 0)
    return fmt::format("ep {} beside fsdp needs as many experts on each rank, and there are {}",
                       shape.ep, c.mixture.experts);
  return detail::why_no_shares(request, shape);
}

namespace detail {

// Why nothing of a mesh can run: what is said of its plainest layout.
inline std::string why_nothing(const PlanRequest& request, const MeshShape& shape) {
  Layout layout;
  layout.shape = shape;
  layout.microbatches = request.batch() / shape.data_ranks();
  const DescribedStep step = described(request, layout);
  try {
    expect_layout(step.config, step.shape, step.batch, step.options);
  } catch (const Error& error) {
    return std::string(error.what()).substr(at(error.where()).size() + 2);
  }
  return "none of its choices can be run";
}

}  // namespace detail

namespace detail {

inline std::vector<int> divisors_of(int n) {
  std::vector<int> all;
  for (int i = 1; i <= n; ++i)
    if (n % i == 0) all.push_back(i);
  return all;
}

// Calls visit(shape) for all meshes of `chips`, axis by axis. `goes_on`: whether a partial mesh,
// with 1 for the axes still to come, is worth completing.
inline void each_mesh(int chips, bool has_experts,
                      const std::function<bool(const MeshShape&)>& goes_on,
                      const std::function<void(const MeshShape&)>& visit) {
  MeshShape shape;
  const std::function<void(size_t, int)> choose = [&](size_t at, int left) {
    const Axis axis = all_axes[at];
    if (at + 1 == all_axes.size()) {
      shape[axis] = left;
      visit(shape);
      shape[axis] = 1;
      return;
    }
    for (const int size : divisors_of(left)) {
      if (size > 1 && axis == Axis::ep && !has_experts) break;
      shape[axis] = size;
      if (size == 1 || goes_on(shape)) choose(at + 1, left / size);
    }
    shape[axis] = 1;
  };
  choose(0, chips);
}

// The choices of a mesh, one after the other.
class MeshChoices {
 public:
  MeshChoices(const PlanRequest& request, std::vector<Layout>& to) : request_(request), to_(to) {}

  size_t add(const MeshShape& shape) {
    const size_t before = to_.size();
    Layout layout;
    layout.shape = shape;
    tp(layout);
    return to_.size() - before;
  }

 private:
  void tp(Layout layout) {
    if (layout.shape.tp == 1) return cp(layout);
    cp(layout);
    layout.sequence_parallel = true;
    cp(layout);
    layout.pieces = Pieces::one_way;
    if (request_.config.mixture.experts == 0) cp(layout);
  }
  void cp(Layout layout) {
    pp(layout);
    if (layout.shape.cp == 1) return;
    layout.context = ContextParallel::ulysses;
    pp(layout);
  }
  void pp(Layout layout) {
    if (layout.shape.pp == 1) return states(layout);
    schedules(layout);
    layout.pp_outermost = true;
    if (layout.shape.ep > 1) schedules(layout);
  }
  void schedules(Layout layout) {
    const auto add = [&](PipelineKind kind, int chunks) {
      layout.schedule = kind, layout.chunks = chunks;
      if (stages_of(layout) <= request_.config.layers) states(layout);
    };
    add(PipelineKind::one_f_one_b, 1);
    for (int chunks = 2; layout.shape.pp * chunks <= request_.config.layers; chunks *= 2)
      add(PipelineKind::interleaved, chunks);
    add(PipelineKind::zb_h1, 1);
    add(PipelineKind::zb_v, 1);
  }
  void states(Layout layout) {
    const MeshShape& shape = layout.shape;
    recomputed(layout);
    if (shape.dp_shard > 1) {
      layout.keeps_units = true;
      return recomputed(layout);
    }
    for (const int stage : {1, 2}) {
      layout.zero = stage;
      if (shape.cp * shape.dp_replicate * shape.ep > 1) recomputed(layout);
    }
  }
  void recomputed(Layout layout) {
    for (const int64_t blocks : {0, 1, -1}) {
      layout.recomputed = blocks;
      const bool undoes = blocks != 0 || layout.shape.dp_shard > 1 || layout.zero == 2;
      if (splits_backward(layout.schedule) && undoes) return;
      if (layout.keeps_units && blocks != 0) return;
      if (blocks == 1 && stages_of(layout) == request_.config.layers) continue;  // these are all
      microbatches(layout);
    }
  }
  void microbatches(Layout layout) {
    const int64_t own = request_.batch() / layout.shape.data_ranks();
    const int64_t tokens = request_.sequence / layout.shape.cp;
    for (int64_t sequences = 1; own % sequences == 0; sequences *= 2) {
      if (sequences * tokens % layout.shape.tp != 0) continue;
      layout.microbatches = own / sequences;
      keep(layout);
    }
  }
  static int stages_of(const Layout& layout) {
    return PipelinePlan{layout.schedule, layout.chunks}.stages(layout.shape.pp);
  }
  void keep(const Layout& layout) {
    const DescribedStep step = described(request_, layout);
    if (layout_works(step.config, step.shape, step.batch, step.options)) to_.push_back(layout);
  }

  const PlanRequest& request_;
  std::vector<Layout>& to_;
};

}  // namespace detail

YOTTA_INLINE LayoutSpace layout_space(const PlanRequest& request, Where where) {
  request.check(where);
  LayoutSpace space;
  detail::MeshChoices choices(request, space.layouts);
  const auto refuse = [&](const MeshShape& shape, const std::string& why) {
    space.refused.push_back({describe(shape), why});
  };
  const auto goes_on = [&](const MeshShape& shape) {
    const std::string why = why_not(request, shape);
    if (!why.empty()) refuse(shape, why);
    return why.empty();
  };
  const bool has_experts = request.config.mixture.experts > 0;
  detail::each_mesh(request.cluster.size(), has_experts, goes_on, [&](const MeshShape& shape) {
    const std::string why = why_not(request, shape);
    if (!why.empty()) return refuse(shape, why);
    if (choices.add(shape) == 0) refuse(shape, detail::why_nothing(request, shape));
  });
  return space;
}

}  // namespace yotta
