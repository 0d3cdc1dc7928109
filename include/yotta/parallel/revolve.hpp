// Revolve: with room for s checkpoints, run a chain of l layers backwards with the fewest forward
// steps.
//
// The backward pass needs the layers' inputs last one first, and there is no room to keep them all.
// Some are kept as checkpoints; the others are computed again from the nearest one before them.
// Which to keep?
//
//     layer        0   1   2   3   4   5        l = 6, s = 2: keep the inputs of 0 and 3
//     kept         █           █                    run 0 1 2, keep 3, run 3 4, reverse 5
//                  █           █ ──> ──> ^          restore 3, run 3, reverse 4
//                  █           █ ──> ^              restore 3, reverse 3, drop 3
//                  █ ──> █ ──> ^                    restore 0, run 0, keep 1, run 1, reverse 2
//                  █     █ ^                        reverse 1, drop 1;  restore 0, reverse 0
//
// A schedule is data: a list of actions, which can be printed and counted without any layer. To
// reverse a layer is to run it forward once more, this time keeping what backward needs, and then
// backward.
//
// Cost: "steps" are the `run` actions, what is computed beyond one forward and one backward of each
// layer.
//     beta(s, r) = (s + r)! / (s! r!)      longest chain in which no layer runs more than r times
//     t(l, s) = r l - beta(s + 1, r - 1)   fewest steps; r is the smallest with beta(s, r) >= l
// So the cost grows like r l with r about the s-th root of s! l: 10 checkpoints reverse 286 layers
// with r = 3.
//
// Letters: l layers, s checkpoints (the chain's own input is one of them, so s >= 1), r
// repetitions.
// Reference: Griewank and Walther (2000), Algorithm 799: Revolve, ACM TOMS 26(1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

struct ReplayAction {
  enum class Kind : uint8_t {
    keep,     // what flows into the layer becomes a checkpoint
    restore,  // go on from this checkpoint
    drop,     // forget this checkpoint
    run,      // the layer forward, keeping nothing
    reverse   // the layer forward, keeping everything, and then backward
  };
  Kind kind;
  int64_t layer;
  bool operator==(const ReplayAction&) const = default;
};
using ReplayActions = std::vector<ReplayAction>;

// "keep 0, run 0, reverse 1, ..."
inline std::string str(const ReplayActions& actions) {
  constexpr const char* names[] = {"keep", "restore", "drop", "run", "reverse"};
  std::string text;
  for (const ReplayAction& each : actions)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", names[static_cast<int>(each.kind)],
                        each.layer);
  return text;
}

// The `run` actions: forward steps beyond one forward and one backward of each layer.
inline int64_t forward_runs(const ReplayActions& actions) {
  return std::count_if(actions.begin(), actions.end(), [](const ReplayAction& each) {
    return each.kind == ReplayAction::Kind::run;
  });
}

// (s + r)! / (s! r!), the longest chain that s checkpoints reverse if no layer is run more than r
// times; 0 if r < 0. Stays at the largest number where it would not fit.
constexpr int64_t revolve_beta(int64_t s, int64_t r) {
  if (r < 0) return 0;
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  int64_t product = 1;
  for (int64_t i = 1; i <= r; ++i) {
    if (product > most / (s + i)) return most;
    product = product * (s + i) / i;  // always divides: it is a binomial coefficient
  }
  return product;
}

// r: the smallest for which s checkpoints suffice.
constexpr int64_t revolve_repetitions(int64_t l, int64_t s) {
  int64_t r = 0;
  while (revolve_beta(s, r) < l) ++r;
  return r;
}

namespace detail {

// Writes down the reversal of layers [begin, end), whose input is the last checkpoint and flows in
// right now.
class ReplayWriter {
 public:
  using Kind = ReplayAction::Kind;

  ReplayActions actions;

  // With this one checkpoint: each layer starts again from it.
  void reverse_from_one(int64_t begin, int64_t end) {
    for (int64_t layer = end - 1; layer >= begin; --layer) {
      if (layer != end - 1) add(Kind::restore, begin);
      run(begin, layer);
      add(Kind::reverse, layer);
    }
  }
  // With s checkpoints, this one included: the next one goes where both sides repeat equally often.
  void reverse(int64_t begin, int64_t end, int64_t s) {
    const int64_t l = end - begin;
    if (s == 1 || l <= 1) return reverse_from_one(begin, end);
    const int64_t r = revolve_repetitions(l, s);
    const int64_t middle =
        begin + std::max({int64_t{1}, revolve_beta(s, r - 2), l - revolve_beta(s - 1, r)});
    run(begin, middle);
    add(Kind::keep, middle);
    reverse(middle, end, s - 1);
    add(Kind::drop, middle);
    add(Kind::restore, begin);
    reverse(begin, middle, s);
  }

  void add(Kind kind, int64_t layer) { actions.push_back({kind, layer}); }
  void run(int64_t begin, int64_t end) {
    for (int64_t layer = begin; layer < end; ++layer) add(Kind::run, layer);
  }
};

}  // namespace detail

// The best schedule for l layers and s checkpoints: t(l, s) steps.
inline ReplayActions revolve_schedule(int64_t l, int64_t s, Where where = Where::current()) {
  if (l < 0 || s < 1)
    fail(where, "a chain of {} layers and {} checkpoints: its own input takes one, so at least 1",
         l, s);
  detail::ReplayWriter writer;
  if (l == 0) return {};
  writer.add(ReplayAction::Kind::keep, 0);
  writer.reverse(0, l, s);
  writer.add(ReplayAction::Kind::drop, 0);
  return writer.actions;
}

// A checkpoint every `every` layers, from which each layer of its segment starts again. This is how
// lectures count: k = l / every checkpoints, and of the order of l (l / k) = l^2 / k steps.
inline ReplayActions restart_schedule(int64_t l, int64_t every, Where where = Where::current()) {
  if (l < 0 || every < 1) fail(where, "{} layers, a checkpoint every {}", l, every);
  detail::ReplayWriter writer;
  const int64_t segments = (l + every - 1) / every;
  for (int64_t k = 0; k < segments; ++k) {
    writer.add(ReplayAction::Kind::keep, k * every);
    if (k + 1 < segments) writer.run(k * every, (k + 1) * every);
  }
  for (int64_t k = segments; k-- > 0;) {
    if (k + 1 < segments) writer.add(ReplayAction::Kind::restore, k * every);
    writer.reverse_from_one(k * every, std::min(l, (k + 1) * every));
    writer.add(ReplayAction::Kind::drop, k * every);
  }
  return writer.actions;
}

// t(l, s), the fewest steps.
constexpr int64_t revolve_steps(int64_t l, int64_t s) {
  const int64_t r = revolve_repetitions(l, s);
  return r * l - revolve_beta(s + 1, r - 1);
}

// Its steps: the first way through all segments but the last, then c (c - 1) / 2 in a segment of c
// layers.
constexpr int64_t restart_steps(int64_t l, int64_t every) {
  if (l == 0) return 0;
  const int64_t full = (l - 1) / every;  // segments before the last one
  const int64_t last = l - full * every;
  return full * every + full * (every * (every - 1) / 2) + last * (last - 1) / 2;
}

}  // namespace yotta
