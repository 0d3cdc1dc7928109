// Traces small enough to know by heart.
//
//     rank 0   compute     [ matmul 0-4 ][adamw 4-5]
//              to rank 1                 [ halo 4-6 ]
//     rank 1   compute     [matmul 0-2][ wait 2-6   ][matmul 6-8]
//              from rank 0               [ halo 4-6 ]
#pragma once

#include "yotta/machine/trace.hpp"

namespace yotta_test {

inline yotta::Trace small_trace() {
  using yotta::EventKind;
  constexpr int to_rank_1 = 3, from_rank_0 = 2;
  yotta::Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 4, "matmul", {}, -1, 100, 1e9},
                         {EventKind::send, to_rank_1, 4, 6, "halo", {0, 0}, 1, 64},
                         {EventKind::op, 0, 4, 5, "adamw", {0, 0}, -1, 8, 0}});
  trace.ranks.push_back({{EventKind::op, 0, 0, 2, "matmul", {}, -1, 100, 1e9},
                         {EventKind::wait, 0, 2, 6, "wait", {1, 2}},
                         {EventKind::recv, from_rank_0, 4, 6, "halo", {0, 1}, 0, 64},
                         {EventKind::op, 0, 6, 8, "matmul", {1, 1}, -1, 100, 1e9}});
  return trace;
}

// One rank: a step with a forward pass that is recomputed, and the forward pass of the next.
//
//     compute                     [F 0-2][R 2-3][I 3-4][W 4-5][O 5-6][F 6-8]
//     dp, all_reduce                                   [ 4-5 ]
//     dp, all_gather                                          [ 5-6 ]
inline yotta::Trace step_trace() {
  using yotta::Communication, yotta::EventKind, yotta::Phase, yotta::TraceEvent;
  yotta::Trace trace;
  std::vector<TraceEvent>& events = trace.ranks.emplace_back();
  const auto op = [&](double begin, double end, const char* name, Phase phase, int64_t step) {
    events.push_back({EventKind::op, 0, begin, end, name, {}});
    events.back().phase = phase, events.back().step = step;
  };
  const auto message = [&](int lane, double begin, const char* label, Communication kind) {
    events.push_back({EventKind::recv, lane, begin, begin + 1, label, {}, 1, 64});
    events.back().communication = kind;
  };
  op(0, 2, "linear", Phase::forward, 0);
  op(2, 3, "linear", Phase::recompute, 0);
  op(3, 4, "linear_backward_input", Phase::backward_input, 0);
  op(4, 5, "linear_backward_weight", Phase::backward_weight, 0);
  message(-1, 4, "ddp.gradients", Communication::all_reduce);
  op(5, 6, "adamw", Phase::optimizer, 0);
  message(-2, 5, "weights", Communication::all_gather);
  op(6, 8, "linear", Phase::forward, 1);
  trace.lanes = {{{-1, {"dp"}}, {-2, {"dp"}}}};
  return trace;
}

}  // namespace yotta_test
