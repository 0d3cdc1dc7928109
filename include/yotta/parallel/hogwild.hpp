// Hogwild: threads share one array of weights and take no lock. Each gradient reads and changes few
// of the weights.
//
// What goes wrong: two threads read the same weight, each adds its step to what it has read, and
// the second one's write undoes the first one's step:
//
//     thread 0   reads w3 = 5                   writes w3 = 5 + 1
//     thread 1               reads w3 = 5                          writes w3 = 5 + 2    6 is lost
//
// A write is lost if the weight's last value is not made of it: a later write, of what had been
// read before, stands in its place. So each weight carries the number of writes that its value is
// made of. A write makes that number one larger than it was when the weight was read; what is
// missing in the end was lost, and is counted once, however many writes have gone over it:
//
//     writes of others between a read and its write    6 7 8      all three are lost
//     number                                           5 6 7 8 -> 6
//
// How many writes are lost depends on how many weights a gradient touches, and on the time between
// a thread's reads and its writes. play_hogwild plays threads in the order of a clock, the same
// every time. race_hogwild is the same work on real threads, in an unknown order. On few cores a
// thread may have to wait for its turn between a read and a write. It then undoes what the others
// have written to that weight in a whole time slice.
//
// Contract: a weight and its number are one word of 8 bytes, read and written whole
// (std::atomic_ref, relaxed), so no thread ever sees half a write.
// References: Recht et al. (2011), Hogwild! (there threads add, as one atomic action).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "yotta/core/chunks.hpp"
#include "yotta/core/error.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

// Weights that threads share.
class HogwildWeights {
 public:
  struct Read {
    float value = 0;
    uint32_t writes = 0;  // that the value is made of
  };
  explicit HogwildWeights(int64_t n) : words_(static_cast<size_t>(n)) {}

  Read read(size_t i) const {
    const uint64_t both = word(i).load(std::memory_order_relaxed);
    return {std::bit_cast<float>(static_cast<uint32_t>(both)), static_cast<uint32_t>(both >> 32)};
  }

  // Weight i becomes what was read plus a step: what others have written since is lost.
  void overwrite(size_t i, const Read& read, float step) {
    word(i).store(next_word(read, step), std::memory_order_relaxed);
  }

  // The step is added to what the weight is now, as one action: nothing is lost.
  void add(size_t i, float step) {
    const std::atomic_ref<uint64_t> both = word(i);
    uint64_t before = both.load(std::memory_order_relaxed);
    const auto value = [&] { return std::bit_cast<float>(static_cast<uint32_t>(before)); };
    const auto writes = [&] { return static_cast<uint32_t>(before >> 32); };
    while (!both.compare_exchange_weak(before, next_word({value(), writes()}, step),
                                       std::memory_order_relaxed)) {
    }
  }

  // Writes that the weights are made of. When no thread is at work.
  int64_t kept() const {
    int64_t sum = 0;
    for (size_t i = 0; i < words_.size(); ++i) sum += read(i).writes;
    return sum;
  }

 private:
  // What a weight becomes by a step: its value, and one more write.
  static uint64_t next_word(const Read& read, float step) {
    const auto value = std::bit_cast<uint32_t>(read.value + step);
    return uint64_t{read.writes + 1} << 32 | value;
  }
  std::atomic_ref<uint64_t> word(size_t i) const { return std::atomic_ref<uint64_t>(words_[i]); }

  mutable std::vector<uint64_t> words_;
};

// Fits weights (n) to examples, each of which has `touched` of them: the loss of one is
// (sum of its weights - its target)^2 / 2. The targets are those of known weights, so that it can
// be zero.
struct HogwildProblem {
  int64_t weights = 1000, examples = 4000;
  int touched = 3;
  uint64_t seed = 1;
};

enum class HogwildWrites { overwrite, add };

struct HogwildRun {
  double loss = 0;     // mean over all examples, afterwards
  int64_t writes = 0;  // of single weights
  int64_t lost = 0;    // of them
};

namespace detail {

inline void expect_hogwild(const HogwildProblem& p, int threads, int64_t updates, double rate,
                           Where where) {
  if (threads < 1 || p.weights < 1 || p.examples < 1 || p.touched < 1 || updates < 0)
    fail(where,
         "Hogwild with {} threads, {} updates, {} weights, {} examples of {} weights: give 1 of "
         "each at least",
         threads, updates, p.weights, p.examples, p.touched);
  if (p.touched > p.weights || p.weights > (int64_t{1} << 31))
    fail(where, "Hogwild with {} weights, of which an example touches {}: give 2^31 at most",
         p.weights, p.touched);
  if (!(rate > 0) || std::isinf(rate))
    fail(where, "Hogwild with a rate of {}: give one above 0", rate);
}

class Hogwild {
 public:
  Hogwild(const HogwildProblem& problem, double rate, HogwildWrites writes)
      : problem_(problem),
        rate_(rate),
        adds_(writes == HogwildWrites::add),
        random_(problem.seed, "hogwild"),
        weights_(problem.weights) {}

  // An example between its reads and its writes. It touches one weight of each of `touched` equal
  // parts, so no weight twice.
  struct UnderWay {
    std::vector<size_t> at;
    std::vector<HogwildWeights::Read> read;
    float step = 0;
  };
  UnderWay begin(int64_t update) const {
    const int64_t example = update % problem_.examples;
    UnderWay made;
    double error = 0;
    for (int i = 0; i < problem_.touched; ++i) {
      const auto among = static_cast<uint32_t>(chunk_count(problem_.weights, problem_.touched, i));
      const auto draw = static_cast<uint64_t>(example * problem_.touched + i);
      made.at.push_back(static_cast<size_t>(chunk_begin(problem_.weights, problem_.touched, i)) +
                        random_.below(draw, among));
      made.read.push_back(weights_.read(made.at.back()));
      error += made.read.back().value - known(made.at.back());
    }
    made.step = static_cast<float>(-rate_ * error);
    return made;
  }
  void end(const UnderWay& done) {
    for (size_t i = 0; i < done.at.size(); ++i)
      if (adds_)
        weights_.add(done.at[i], done.step);
      else
        weights_.overwrite(done.at[i], done.read[i], done.step);
  }

  HogwildRun outcome(int64_t updates) const {
    HogwildRun run{0, updates * problem_.touched, 0};
    run.lost = run.writes - weights_.kept();
    for (int64_t i = 0; i < problem_.examples; ++i) {
      const double error = begin(i).step / rate_;
      run.loss += error * error / 2 / static_cast<double>(problem_.examples);
    }
    return run;
  }

 private:
  double known(size_t i) const { return random_.uniform((uint64_t{1} << 40) + i); }

  HogwildProblem problem_;
  double rate_;
  bool adds_;
  Random random_;
  HogwildWeights weights_;
};

}  // namespace detail

// `threads` threads take the examples in turn. An example is under way from its reads to its writes
// for as long as it takes the others to begin theirs: k threads have k examples under way. Errors
// of both: fewer than one thread, weight, example or touched weight; more touched than there are; a
// rate that is not finite.
inline HogwildRun play_hogwild(const HogwildProblem& problem, int threads, int64_t updates,
                               double rate, HogwildWrites writes, Where where = Where::current()) {
  detail::expect_hogwild(problem, threads, updates, rate, where);
  detail::Hogwild state(problem, rate, writes);
  std::vector<detail::Hogwild::UnderWay> under_way;  // by thread, in the order of their beginnings
  for (int64_t update = 0; update < updates; ++update) {
    const auto thread = static_cast<size_t>(update % threads);
    if (thread < under_way.size()) state.end(under_way[thread]);
    under_way.resize(std::max(under_way.size(), thread + 1));
    under_way[thread] = state.begin(update);
  }
  for (int64_t i = 0; i < std::ssize(under_way); ++i)
    state.end(under_way[static_cast<size_t>((updates + i) % std::ssize(under_way))]);
  return state.outcome(updates);
}

// The same on real threads. Another outcome every time.
inline HogwildRun race_hogwild(const HogwildProblem& problem, int threads, int64_t updates,
                               double rate, HogwildWrites writes, Where where = Where::current()) {
  detail::expect_hogwild(problem, threads, updates, rate, where);
  detail::Hogwild state(problem, rate, writes);
  std::vector<std::thread> all;
  std::atomic<int> ready = 0;
  std::atomic<int64_t> next = 0;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&] {
      ++ready;
      while (ready < threads) std::this_thread::yield();  // all begin at once
      for (int64_t update = next++; update < updates; update = next++)
        state.end(state.begin(update));
    });
  for (std::thread& each : all) each.join();
  return state.outcome(updates);
}

}  // namespace yotta
