// DualPipe: a pipeline that is fed from both ends, so that there is always an F of one direction to
// run together with a B of the other.
//
//     p = 4 ranks, m = 8: microbatches 0 to 3 go down the ranks, 4 to 7 up; F&B takes F + B
//     rank 0   F0 F1 F2 F4 I4 W4 F5 F3&B5--- .. F6&B0--- B6--- .. F7&B1--- B7--- I2 W2 I3 W3
//     rank 1   .. F0 F4 F1 F5 F2 B4--- F6&B0--- F3&B5--- F7&B1--- B6--- B2--- .. I7 I3 W7 W3
//     rank 2   .. F4 F0 F5 F1 F6 B0--- F2&B4--- F7&B1--- F3&B5--- B2--- B6--- .. I3 I7 W3 W7
//     rank 3   F4 F5 F6 F0 I0 W0 F1 F7&B1--- .. F2&B4--- B2--- .. F3&B5--- B3--- I6 W6 I7 W7
//
// Each direction needs the whole model, so a rank has two stages: stage r of the copy that is gone
// through downwards, and stage p - 1 - r of the other. Rank p - 1 - r has the same two. Each of
// the pair sums the gradients of its own microbatches; the step needs the sum of both
// (TiedParameters: to it they are weights that two ranks hold).
//
// Why together: DeepSeek-V3's experts lie on many nodes, and its GPUs would wait for all_to_all
// about as long as they compute. B of another microbatch fills that time. So the two are one action
// here, F&B, and how long it takes is declared: PipelineCosts::together.
//
// DualPipeV cuts DualPipe in half. Ranks r and p - 1 - r do the same at the same time, only with
// copies and microbatches exchanged, so one of them is enough: p/2 ranks hold p stages, in a V, and
// what left for the other half comes back as the second chunk's input. No weight is held twice.
//
//                  idle, by one clock        weights  held at most    ranks for p stages
//     1F1B         (p-1)(F + B)                 1         p                  p
//     ZB1P         (p-1)(F + B - 2W)            1         p                  p
//     DualPipe     (p/2-1)(F&B + B - 3W)        2         p + 1              p
//     DualPipeV    (p/2-1)(F&B + B - 3W)        2         p + 1              p/2
//
// Weights and what is held are a rank's, counted in stages. DualPipe's 2 are stages of two copies
// of the model; DualPipeV's 2 are of one copy, whose p stages lie on half as many ranks. F, B and W
// are the times of one stage. B is the whole backward pass, I + W. ZB1P is ZB-H1.
//
// Letters: p stages, h = p/2 pairs of ranks, m microbatches. Contract: p is even; m is even and at
// least 2p (DualPipe), m at least p (DualPipeV). The idle time is that of the middle ranks, for
// F = I >= W; if F&B is shorter than F + B, the outer ones are idle for less. pipeline.hpp runs the
// lists as they are.
// References: DeepSeek-AI (2024), DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.2.1;
// github.com/deepseek-ai/DualPipe (the table, the order of phases, and DualPipeV).
#pragma once

#include "yotta/parallel/pipeline_timeline.hpp"

namespace yotta {

// What pair `pair` of h does, as if it were one rank with two stages: `near` is the stage that
// microbatches come to first when they start on this side, `far` the other. Each of its m
// microbatches goes through both.
struct DualAction {
  bool far;
  PipelineOp op;
  int64_t microbatch;
  bool with_next;
};

namespace detail {

// Writes a pair's list. Each stage's microbatches come in order, so an action needs no number.
class DualList {
 public:
  void forward(bool far, bool with_next = false) { add(far, PipelineOp::F, with_next); }
  void backward(bool far) { add(far, PipelineOp::B, false); }
  void input_gradient(bool far) {
    put_off_.push_back({far, PipelineOp::W, add(far, PipelineOp::I, false), false});
  }
  // The first of those that were put off.
  void weight_gradient() { list_.push_back(put_off_[weights_++]); }
  void together(bool forward_far) {
    forward(forward_far, true);
    backward(!forward_far);
  }
  std::vector<DualAction> take() { return std::move(list_); }

 private:
  int64_t add(bool far, PipelineOp op, bool with_next) {
    int64_t& next = next_[op == PipelineOp::F ? 0 : 1][far ? 1 : 0];
    list_.push_back({far, op, next, with_next});
    return next++;
  }
  std::vector<DualAction> list_, put_off_;
  size_t weights_ = 0;
  int64_t next_[2][2] = {};  // F, or B and I; near, far
};

}  // namespace detail

inline std::vector<DualAction> dual_actions(int pair, int h, int64_t m) {
  constexpr bool near = false, far = true;
  const int64_t inner = h - 1 - pair;  // pairs between this one and the middle
  detail::DualList list;
  for (int64_t i = 0; i < 2 * inner; ++i) list.forward(near);
  for (int64_t i = 0; i <= pair; ++i) list.forward(near), list.forward(far);
  for (int64_t i = 0; i < inner; ++i) {  // the first far B: nothing to run with it yet
    list.input_gradient(far);
    list.weight_gradient();
    list.forward(far);
  }
  for (int64_t i = 0; i < m - 2 * h + pair + 1; ++i) {
    if (i == 0 && inner == 0)  // the middle: its neighbour waits for this F
      list.forward(near), list.backward(far);
    else
      list.together(near);
    list.together(far);
  }
  for (int64_t i = 0; i < inner; ++i) list.backward(far), list.together(far);
  for (int64_t i = 0; i < 2 * (pair + 1); ++i) {  // no F is left: put W off in the second half
    const bool side = i % 2 == 0 ? far : near;
    i <= pair ? list.backward(side) : list.input_gradient(side);
  }
  for (int64_t i = 0; i < inner; ++i) list.weight_gradient(), list.input_gradient(near);
  for (int64_t i = 0; i <= pair; ++i) list.weight_gradient();
  return list.take();
}

// Why p ranks cannot run m microbatches so; empty if they can.
inline std::string why_no_dual_pipe(int p, int64_t m) {
  if (p < 2 || p % 2 != 0)
    return fmt::format("DualPipe pairs rank r with rank p - 1 - r: p is even, not {}", p);
  if (m % 2 == 0 && m >= 2 * int64_t{p}) return "";
  return fmt::format(
      "DualPipe on {} ranks takes an even number of microbatches, at least {}, not {}", p, 2 * p,
      m);
}
inline std::string why_no_dual_pipe_v(int ranks, int64_t m) {
  if (ranks < 1) return fmt::format("DualPipeV on {} ranks: at least 1", ranks);
  if (m >= 2 * int64_t{ranks}) return "";
  return fmt::format("DualPipeV on {} rank{} takes at least {} microbatches, not {}", ranks,
                     ranks > 1 ? "s" : "", 2 * ranks, m);
}

// DualPipe on p ranks: p stages, twice. Microbatches 0 to m/2 - 1 go down the ranks, the others up.
inline PipelineSchedule dual_pipe_schedule(int p, int64_t m, Where where = Where::current()) {
  if (const std::string why = why_no_dual_pipe(p, m); !why.empty()) fail(where, "{}", why);
  PipelineSchedule made{"DualPipe", p, p, m, {}, Placement::both_ways};
  for (int rank = 0; rank < p; ++rank) {
    const bool lower = 2 * rank >= p;  // near it is the copy that is gone through upwards
    PipelineActions& actions = made.by_rank.emplace_back();
    for (const DualAction& each : dual_actions(std::min(rank, p - 1 - rank), p / 2, m / 2)) {
      const int copy = each.far != lower ? 1 : 0;
      actions.push_back({stage_on(made.placement, rank, copy, p), each.op,
                         each.microbatch + copy * (m / 2), each.with_next});
    }
  }
  return made;
}

// DualPipeV: two stages per rank, in a V.
inline PipelineSchedule dual_pipe_v_schedule(int ranks, int64_t m, Where where = Where::current()) {
  if (const std::string why = why_no_dual_pipe_v(ranks, m); !why.empty()) fail(where, "{}", why);
  PipelineSchedule made{"DualPipeV", ranks, 2 * ranks, m, {}, Placement::vee};
  for (int rank = 0; rank < ranks; ++rank) {
    PipelineActions& actions = made.by_rank.emplace_back();
    for (const DualAction& each : dual_actions(rank, ranks, m))
      actions.push_back({stage_on(made.placement, rank, each.far ? 1 : 0, ranks), each.op,
                         each.microbatch, each.with_next});
  }
  return made;
}

// Idle seconds of a middle rank, for p stages of these costs each.
constexpr double dual_pipe_idle(int p, const PipelineCosts& costs) {
  const double backward = costs.input + costs.weight;
  return (p / 2 - 1) * (costs.of_pair() + backward - 3 * costs.weight);
}

// What a rank holds at most: microbatches between F and B or W, each in one stage.
constexpr int64_t held_by_dual_pipe(int p) { return p + 1; }

}  // namespace yotta
