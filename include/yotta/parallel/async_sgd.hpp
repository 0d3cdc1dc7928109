// Asynchronous SGD: nobody waits for anybody, and what that costs.
//
// A server holds the weights. A worker fetches them, computes a gradient, and sends it; the server
// takes a step with whatever comes. By then others' steps have changed the weights:
//
//     server     │ 0 │ 1 │ 2 │ 3 │ 4 ...            number of the weights
//     worker 0   │ with 0        │ with 3 ...        comes when the server has 2: 2 steps old
//     worker 1   │ with 0   │ with 1 ...
//     worker 2   │ with 0     │ with 2 ...
//
// With k workers of one speed every gradient is k - 1 steps old. Down a valley of curvature c,
// w = w - rate c w(s steps ago) shrinks only while
//
//     rate c < 2 sin(pi / (2 (2 s + 1)))             s = 0: 2. s = 7: 0.21, a tenth
//
// so what is won in time is lost in steps. A slow worker's gradients are older still.
//
// Hogwild: threads share one array of weights and take no lock. Each gradient reads and changes few
// of the weights. What goes wrong: two threads read the same weight, each adds its step to what it
// has read, and the second one's write undoes the first one's step. How often is a matter of how
// many weights a gradient touches:
//
//     thread 0   reads w3 = 5                   writes w3 = 5 + 1
//     thread 1               reads w3 = 5                          writes w3 = 5 + 2    6 is lost
//
// Both are played here in the order of a clock: each worker's gradient takes a time that is given,
// so a run is the same every time. Real threads race in the same way, in an order that nobody
// knows.
// Letters: k workers, s steps of staleness.
// References: Recht et al. (2011), Hogwild!; Dean et al. (2012), DistBelief (Downpour SGD).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "yotta/core/error.hpp"
#if YOTTA_BODIES_OF(parallel)
#include "yotta/core/random.hpp"
#endif  // YOTTA_BODIES

namespace yotta {

// One worker's gradient, or one round of it: when it fetched the weights, and when its result came.
struct AsyncArrival {
  int worker;
  double begin, end;
  int64_t computed_with, applied_to;  // numbers of the server's weights

  int64_t staleness() const { return applied_to - computed_with; }
};

// The first `count` arrivals of workers that need so many seconds each, in order. Of two at once
// the lower worker's comes first.
YOTTA_API std::vector<AsyncArrival> async_arrivals(std::span<const double> seconds, int64_t count,
                                                   Where where = Where::current());

// The largest rate that shrinks w^2 c / 2 with gradients that are s steps old.
inline double largest_stale_rate(double curvature, int64_t s) {
  return 2 * std::sin(std::numbers::pi / static_cast<double>(2 * (2 * s + 1))) / curvature;
}

// Plays the arrivals: gradient(worker, number of its gradient, weights) -> gradient. Returns the
// weights after the last one.
template <class Gradient>
std::vector<double> play_async(const std::vector<AsyncArrival>& arrivals,
                               std::vector<double> weights, double rate, Gradient gradient) {
  std::vector<std::vector<double>> fetched;  // by worker
  std::vector<int64_t> done;
  for (const AsyncArrival& each : arrivals) {
    const auto worker = static_cast<size_t>(each.worker);
    if (worker >= fetched.size()) fetched.resize(worker + 1, weights), done.resize(worker + 1);
  }
  for (const AsyncArrival& each : arrivals) {
    const auto worker = static_cast<size_t>(each.worker);
    const std::vector<double> step = gradient(each.worker, done[worker]++, fetched[worker]);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * step[i];
    fetched[worker] = weights;
  }
  return weights;
}

// ---- Hogwild -----------------------------------------------------------------------------------

// Fits weights (n) to examples, each of which has `touched` of them: the loss of one is
// (sum of its weights - its target)^2 / 2. The targets are those of known weights, so that it can
// be zero.
struct HogwildProblem {
  int64_t weights = 1000, examples = 4000;
  int touched = 3;
  uint64_t seed = 1;
};

enum class HogwildWrites {
  overwrite,  // what was read plus a step: may undo what others wrote meanwhile
  add         // the step, as one action (an atomic addition): nothing is lost
};

struct HogwildRun {
  double loss = 0;     // mean over all examples, afterwards
  int64_t writes = 0;  // of single weights
  int64_t lost = 0;    // writes of others that one of them undid
};

// `threads` threads take the examples in turn. Example i is under way from its read to its write
// for as long as it takes the others to begin theirs: k threads have k examples under way.
YOTTA_API HogwildRun play_hogwild(const HogwildProblem& problem, int threads, int64_t updates,
                                  double rate, HogwildWrites writes);

#if YOTTA_BODIES_OF(parallel)
std::vector<AsyncArrival> async_arrivals(std::span<const double> seconds, int64_t count,
                                         Where where) {
  for (const double each : seconds)
    if (!(each > 0) || std::isinf(each)) fail(where, "a worker that needs {} seconds", each);
  if (seconds.empty()) fail(where, "no workers; at least one computes gradients");
  std::vector<AsyncArrival> arrivals;
  std::vector<int64_t> done(seconds.size()), fetched(seconds.size());
  for (int64_t step = 0; step < count; ++step) {
    size_t next = 0;
    const auto end = [&](size_t i) { return static_cast<double>(done[i] + 1) * seconds[i]; };
    for (size_t i = 1; i < seconds.size(); ++i)
      if (end(i) < end(next)) next = i;
    arrivals.push_back(
        {static_cast<int>(next), end(next) - seconds[next], end(next), fetched[next], step});
    ++done[next];
    fetched[next] = step + 1;
  }
  return arrivals;
}

namespace detail {
class Hogwild {
 public:
  explicit Hogwild(const HogwildProblem& problem)
      : problem_(problem), random_(problem.seed, "hogwild"), weights_(size()), changes_(size()) {}

  std::vector<size_t> touched(int64_t example) const {
    std::vector<size_t> found;
    for (int i = 0; i < problem_.touched; ++i)
      found.push_back(random_.below(static_cast<uint64_t>(example * problem_.touched + i),
                                    static_cast<uint32_t>(problem_.weights)));
    return found;
  }
  double error(int64_t example) const {
    double sum = 0;
    for (const size_t i : touched(example)) sum += weights_[i] - known(i);
    return sum;
  }
  double loss() const {
    double sum = 0;
    for (int64_t i = 0; i < problem_.examples; ++i) sum += error(i) * error(i) / 2;
    return sum / static_cast<double>(problem_.examples);
  }

  // An example under way: what it read, and how often each weight had been changed by then.
  struct UnderWay {
    std::vector<size_t> at;
    std::vector<double> read;
    std::vector<int64_t> changes;
    double step;
  };
  UnderWay begin(int64_t example, double rate) const {
    UnderWay made{touched(example), {}, {}, -rate * error(example)};
    for (const size_t i : made.at)
      made.read.push_back(weights_[i]), made.changes.push_back(changes_[i]);
    return made;
  }
  void end(const UnderWay& done, HogwildWrites writes, HogwildRun& run) {
    for (size_t i = 0; i < done.at.size(); ++i) {
      const size_t at = done.at[i];
      const bool adds = writes == HogwildWrites::add;
      if (!adds) run.lost += changes_[at] - done.changes[i];
      weights_[at] = (adds ? weights_[at] : done.read[i]) + done.step;
      ++run.writes;
    }
    for (const size_t at : done.at) ++changes_[at];
  }

 private:
  size_t size() const { return static_cast<size_t>(problem_.weights); }
  double known(size_t i) const { return random_.uniform((uint64_t{1} << 40) + i); }

  HogwildProblem problem_;
  Random random_;
  std::vector<double> weights_;
  std::vector<int64_t> changes_;  // by weight: writes so far
};
}  // namespace detail

HogwildRun play_hogwild(const HogwildProblem& problem, int threads, int64_t updates, double rate,
                        HogwildWrites writes) {
  detail::Hogwild state(problem);
  HogwildRun run;
  std::vector<detail::Hogwild::UnderWay> under_way;  // by thread, in the order of their beginnings
  for (int64_t update = 0; update < updates; ++update) {
    const auto thread = static_cast<size_t>(update % threads);
    if (thread < under_way.size()) state.end(under_way[thread], writes, run);
    under_way.resize(std::max(under_way.size(), thread + 1));
    under_way[thread] = state.begin(update % problem.examples, rate);
  }
  for (const auto& each : under_way) state.end(each, writes, run);
  run.loss = state.loss();
  return run;
}
#endif  // YOTTA_BODIES

}  // namespace yotta
