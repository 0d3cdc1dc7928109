// The graded cases of exercise 31. Workers train a weight or two whose path is known, so that every
// mean, every outer step and every byte can be said beforehand.
#include <cmath>
#include <functional>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Options;
using exercise::require;
using exercise::run;
using exercise::Share;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

bool near(double a, double b, double most = 1e-9) { return std::abs(a - b) <= most; }

// Which of k chunks of n numbers has number i.
int chunk_of_number(int64_t n, int k, int64_t i) {
  int chunk = 0;
  while (chunk_begin(n, k, chunk + 1) <= i) ++chunk;
  return chunk;
}

ParameterPtr weights(int64_t n, const char* name = "w") {
  const ParameterPtr made = make_parameter(name, {1, n}, false, zeros(), 0, DType::f64);
  made->gradient();
  return made;
}

constexpr Options plain(int64_t inner) { return {.inner = inner, .rate = 1, .momentum = 0}; }

std::string in_words(const Numbers& numbers) {
  std::string text;
  for (const double each : numbers) text += fmt::format("{}{:g}", text.empty() ? "" : ", ", each);
  return text;
}

// The sums of 60 means with 4 bits over three ranks, whose numbers stay as they are: `small` beside
// a 1 in each of three chunks. 4 bits round such a number to nothing.
Numbers sixty_means(const std::function<double(int rank, int chunk)>& small) {
  Numbers sums(3);
  run(3, [&](Communicator& world) {
    Lost lost = {Tensor::zeros({6}, DType::f64), Tensor::zeros({2}, DType::f64)};
    Numbers found(3);
    for (int round = 0; round < 60; ++round) {
      Tensor x = Tensor::full({6}, 1, DType::f64);
      for (int chunk = 0; chunk < 3; ++chunk)
        x.data<double>()[2 * chunk + 1] = small(world.rank(), chunk);
      world.collective("mean", [&](Channel& c) { solution.quantised_mean(c, x, 1, 4, lost); });
      for (size_t chunk = 0; chunk < 3; ++chunk) found[chunk] += x.data<double>()[2 * chunk + 1];
    }
    if (world.rank() == 0) sums = found;
    world.barrier();
    require(found == sums, fmt::format("worker {} has other means than worker 0", world.rank()));
  });
  return sums;
}

Tensor one(double value) { return Tensor::full({1}, value, DType::f64); }

}  // namespace

TEST_CASE("31.1: workers see different sequences, each of the batch once") {
  for (const int k : {1, 2, 3, 4})
    for (const int64_t batch : exercise::sizes<int64_t>({8, 13}, 9, 29)) {
      int64_t next = 0;
      for (int worker = 0; worker < k; ++worker) {
        const Share share = solution.worker_share(batch, k, worker);
        if (worker > 0 && share.begin == 0)
          expect(false,
                 fmt::format("workers 0 and {} of {} train on the same sequences: their mean "
                             "is what one of them has learned",
                             worker, k));
        expect(share.begin == next, fmt::format("a batch of {}, {} workers: worker {} begins with "
                                                "sequence {}, not {}",
                                                batch, k, worker, share.begin, next));
        next = share.end;
      }
      expect(next == batch, fmt::format("{} workers train on {} of {} sequences", k, next, batch));
    }
}

TEST_CASE("31.1: a worker's weight is its rows beside the mean worker's") {
  const Share first = solution.worker_share(7, 2, 0), second = solution.worker_share(7, 2, 1);
  expect(near(first.weight, 8.0 / 7),
         fmt::format("4 of 7 rows with 2 workers: the mean worker has 3.5, so the weight is 8/7 = "
                     "1.143, not {:.3f}",
                     first.weight));
  expect(near(second.weight, 6.0 / 7),
         fmt::format("3 of 7 rows with 2 workers: the weight is 6/7 = "
                     "0.857, not {:.3f}",
                     second.weight));
  expect(solution.worker_share(7, 1, 0).weight == 1, "one worker has weight 1");
}

TEST_CASE("31.2: each fragment has one turn in a round, and the last is at its end") {
  const auto turns = [](int64_t inner, int fragments) {
    std::string text;
    for (int64_t step = 1; step <= 2 * inner; ++step) {
      const int due = solution.fragment_due(step, inner, fragments);
      text += due < 0 ? '.' : static_cast<char>('0' + due);
    }
    return text;
  };
  const auto check = [&](int64_t inner, int fragments, const std::string& expected) {
    const std::string actual = turns(inner, fragments);
    expect(actual == expected,
           fmt::format("H = {}, {} fragments: the turns of two rounds, a letter for each step, are "
                       "{}; they should be {}",
                       inner, fragments, actual, expected));
  };
  check(4, 1, "...0...0");
  check(4, 2, ".0.1.0.1");
  check(7, 3, ".0.1..2.0.1..2");
  check(3, 3, "012012");
  expect(
      solution.fragment_due(1, 4, 2) == -1,
      fmt::format("it is nobody's turn after step 1 of 4 with 2 fragments, and that is -1, not {}",
                  solution.fragment_due(1, 4, 2)));
}

TEST_CASE("31.3: plain averaging: with rate 1 and no momentum the mean") {
  for (const double from : {1.0, 0.1, -3e-7})
    for (const double to : {0.3, 1e-9, 2.7}) {
      Tensor w = one(from), v = one(0);
      solution.outer_step(w, v, one(to), plain(1));
      const double found = w.item({0});
      const double away = 2 * from - to;
      expect(!near(found, away, 1e-12) || near(away, to, 1e-12),
             fmt::format("from {} with a mean of {} the step goes to {}: away from the mean. The "
                         "outer gradient is w - mean",
                         from, to, found));
      expect(near(found, to, 1e-12),
             fmt::format("from {} with a mean of {} the step goes to {}", from, to, found));
    }
}

TEST_CASE("31.3: in the type of the weights") {
  const double third = 1.0 / 3;
  Tensor w = one(1), v = one(0);
  solution.outer_step(w, v, one(1 - third), Options{});
  const double right = 1 - 0.7 * (third + 0.9 * third);
  expect(near(w.item({0}), right, 1e-14) || !near(w.item({0}), right, 1e-6),
         fmt::format("in f64 the step goes to {:.12f} and not to {:.12f}: a float between keeps 7 "
                     "digits. Compute in `Real`",
                     w.item({0}), right));
  expect(
      near(w.item({0}), right, 1e-6),
      fmt::format("a step with an outer gradient of a third goes from 1 to {:.4f}, not to {:.4f}",
                  w.item({0}), right));
}

TEST_CASE("31.3: Nesterov's momentum") {
  // g = 0.5 twice: v = 0.5, 0.95; w = 1 - 0.7 (0.5 + 0.45), then - 0.7 (0.5 + 0.855)
  Tensor w = one(1), v = one(0);
  const Options usual;
  const Numbers right = {1 - 0.7 * 0.95, 1 - 0.7 * 0.95 - 0.7 * 1.355};
  const Numbers heavy = {1 - 0.7 * 0.5, 1 - 0.7 * 0.5 - 0.7 * 0.95};
  Numbers found;
  for (int step = 0; step < 2; ++step) {
    solution.outer_step(w, v, one(w.item({0}) - 0.5), usual);
    found.push_back(w.item({0}));
  }
  expect(!near(found[0], heavy[0]) || !near(found[1], heavy[1]),
         fmt::format("two steps go to {:.4f} and {:.4f}: that is plain momentum, w - rate v. "
                     "Nesterov's looks ahead: w - rate (g + mu v)",
                     found[0], found[1]));
  expect(
      near(found[0], right[0]) && near(found[1], right[1]),
      fmt::format("two steps with outer gradients of 0.5 go to {:.4f} and {:.4f}, not {:.4f} and "
                  "{:.4f}. v = mu v + g comes first",
                  found[0], found[1], right[0], right[1]));
  expect(near(v.item({0}), 0.95),
         fmt::format("v is {:.3f} after two steps, not 0.95", v.item({0})));
}

namespace {

// The mean of n numbers over k ranks that count 1, 2, ... Number i is i % 8 times 1 + rank: a
// multiple of a 7th of the largest, so nothing is rounded.
void check_mean(int k, int64_t n) {
  run(k, [&](Communicator& world) {
    Tensor x = Tensor::zeros({n}, DType::f64);
    for (int64_t i = 0; i < n; ++i)
      x.data<double>()[i] = static_cast<double>((i % 8) * (1 + world.rank()));
    Lost lost;
    world.collective("mean",
                     [&](Channel& c) { solution.quantised_mean(c, x, 1 + world.rank(), 4, lost); });
    const double mean = (2 * k + 1) / 3.0;  // of 1 + rank, with those weights
    const double equal = (k + 1) / 2.0;     // and the mean weight
    const double* const found = x.data<double>();
    require(k == 1 || !near(found[7], 7 * equal, 1e-5),
            fmt::format("{} ranks: {:.4f} is the mean with equal weights; each counts with its "
                        "own, {:.4f}",
                        k, found[7], 7 * mean));
    require(k == 1 || !near(found[7], 7 * mean * equal, 1e-5),
            fmt::format("{} ranks whose weights add up to {}: {:.4f} is the sum over the number of "
                        "ranks. The sum of the weights divides, add_message returns each: {:.4f}",
                        k, k * equal, found[7], 7 * mean));
    for (int64_t i = 0; i < n; ++i)
      require(
          near(found[i], static_cast<double>(i % 8) * mean, 1e-5),
          fmt::format("{} ranks: number {} of the mean is {:.4f}, not {:.4f}. It is in chunk "
                      "{}: what comes from rank r is the mean of chunk r",
                      k, i, found[i], static_cast<double>(i % 8) * mean, chunk_of_number(n, k, i)));
  });
}

}  // namespace

TEST_CASE("31.4: the weighted mean, on every rank the same") {
  for (const int k : {1, 2, 3, 4}) check_mean(k, 300);
  CHECK(true);
}

TEST_CASE("31.4: numbers that do not divide among the ranks") {
  for (const int k : {2, 3, 4}) {
    const std::string error = exercise::error_of([&] { check_mean(k, 299); });
    expect(error.empty(),
           fmt::format("299 numbers on {} ranks: one chunk is shorter. What comes for this rank's "
                       "chunk has message_bytes(mean.numel(), bits), and the mean that comes from "
                       "rank r is as long as chunk r. {}",
                       k, error));
  }
}

TEST_CASE("31.4: each number travels twice, in few bits") {
  constexpr int k = 4;
  constexpr int64_t n = 512;
  run(k, [](Communicator& world) {
    Tensor x = Tensor::full({n}, 1, DType::f64);
    Lost lost;
    world.collective("mean", [&](Channel& c) { solution.quantised_mean(c, x, 1, 4, lost); });
    const int64_t sent = context().ledger.total_traffic().bytes_sent;
    const int64_t right = (k - 1) * (message_bytes(n / k, 4) + packed_bytes(n / k, 4));
    require(sent <= right, fmt::format("rank {} sent {} bytes, and {} are enough: a chunk to the "
                                       "rank that averages it, then that mean to the others",
                                       world.rank(), sent, right));
  });
  CHECK(true);
}

TEST_CASE("31.4: as many bits as were asked for") {
  // 1 beside 127: 8 bits say it exactly, 4 bits round it to nothing.
  run(2, [](Communicator& world) {
    Tensor x = Tensor::full({8}, 127, DType::f64);
    for (int64_t i = 0; i < 8; i += 2) x.data<double>()[i] = 1;
    Lost lost;
    world.collective("mean", [&](Channel& c) { solution.quantised_mean(c, x, 1, 8, lost); });
    require(near(x.item({0}), 1, 1e-5),
            fmt::format("with 8 bits the mean of 1 and 1, beside 127, is {:.2f} and not 1: pack "
                        "and unpack with `bits`, which may be 8 or 4",
                        x.item({0})));
  });
  CHECK(true);
}

TEST_CASE("31.4: what rounding takes off arrives later") {
  const Numbers sums = sixty_means([](int, int) { return 0.03; });
  expect(sums[0] != 0,
         "60 outer gradients of 0.03 beside 1 arrive as 0: what rounding takes off is "
         "lost. pack_with_feedback keeps it, for what is sent and for the mean");
  for (const double sum : sums)
    expect(near(sum, 1.8, 0.25), fmt::format("60 outer gradients of 0.03 arrive as {:.2f}, not "
                                             "1.8: is all that rounding takes off kept, on both "
                                             "ways?",
                                             sum));
}

TEST_CASE("31.4: what rounding takes off the mean arrives later too") {
  // One of three ranks has the number, so its mean is a third of what 4 bits can say.
  const Numbers sums = sixty_means([](int rank, int) { return rank == 0 ? 0.09 : 0; });
  for (const double sum : sums) {
    expect(!near(sum, 0, 0.2),
           fmt::format("one of three workers sends 0.09 beside 1 in 60 rounds, and {:.2f} arrives, "
                       "not 1.8: the mean is rounded as well, and lost.mean keeps what that takes "
                       "off",
                       sum));
    expect(near(sum, 1.8, 0.3), fmt::format("one of three workers sends 0.09 in 60 rounds, and "
                                            "{:.2f} arrives, not 1.8",
                                            sum));
  }
}

TEST_CASE("31.4: each chunk has its own rest of the rounding") {
  const double small[] = {0.06, -0.06, 0};
  const Numbers sums = sixty_means([&](int, int chunk) { return small[chunk]; });
  for (size_t chunk = 0; chunk < 3; ++chunk)
    expect(near(sums[chunk], 60 * small[chunk], 0.25),
           fmt::format("60 times {} in chunk {} arrive as {:.2f}, not {:.2f}, with {} in chunk {}: "
                       "what was lost of a chunk belongs to that chunk, chunk_of(lost.sent, p, to)",
                       small[chunk], chunk, sums[chunk], 60 * small[chunk], small[(chunk + 1) % 3],
                       (chunk + 1) % 3));
}

namespace {

// A worker with two weights of `n` numbers, a fragment each, which start at 100 and 1000.
struct Worker {
  Worker(const Communicator& all, int64_t n, int bits = 0)
      : world(all), first(weights(n, "first")), second(weights(n, "second")), sgd({first, second}) {
    first->value.fill(100), second->value.fill(1000);
    Options options = plain(2);
    options.fragments = 2, options.overlap = 1, options.bits = bits;
    diloco = solution.make(sgd, world, options);
  }
  double tokens() const { return 1 + world.rank(); }
  // Training has added this to number i of both weights: 1 to worker 0's first number, then more.
  double path(int64_t i) const { return (1 + world.rank()) * (i % 2 == 0 ? 1 : 0.03); }
  void train() const {
    for (int64_t i = 0; i < first->value.numel(); ++i) {
      first->value.data<double>()[i] += path(i);
      second->value.data<double>()[i] += path(i);
    }
  }
  // Steps pass until the mean of a fragment is on its way: send() has run, and arrive() has not.
  // Task 31.2 says whose turn it is.
  OuterFragment& send() const {
    for (int step = 0; step < 8; ++step) {
      diloco->after_step(tokens());
      for (OuterFragment& each : diloco->fragments())
        if (each.left > 0) return each;
    }
    fail(Where::current(), "in 8 steps of rounds of 2 no fragment had its turn: 31.2 comes first");
  }

  Communicator world;
  ParameterPtr first, second;
  Sgd sgd;
  std::unique_ptr<exercise::AnyDiloco> diloco;
};

bool is_first(const OuterFragment& fragment) {
  return fragment.slots.front()->parameter->name == "first";
}

// What should travel in few bits is what quantised_mean, also the solution's own, makes of this.
struct Packed {
  Packed(const Worker& worker, int64_t n, int bits)
      : x(Tensor::zeros({n}, DType::f64)),
        lost{Tensor::zeros({n}, DType::f64),
             Tensor::zeros({chunk_count(n, worker.world.size(), worker.world.rank())}, DType::f64)},
        bits_(bits) {}
  void mean(const Communicator& world, double weight) {
    world.collective("check",
                     [&](Channel& c) { solution.quantised_mean(c, x, weight, bits_, lost); });
  }
  Tensor x;
  Lost lost;

 private:
  int bits_;
};
// Of `scale` times the outer gradient plus `more`, counted with this weight.
Tensor packed_mean(const Worker& worker, int64_t n, int bits, double scale, double weight,
                   double more = 0) {
  Packed packed(worker, n, bits);
  for (int64_t i = 0; i < n; ++i) packed.x.data<double>()[i] = more - scale * worker.path(i);
  packed.mean(worker.world, weight);
  return packed.x;
}

bool same(const Tensor& a, const Tensor& b, double most = 1e-9) {
  if (!a.defined() || a.shape() != b.shape()) return false;
  bool equal = true;
  for (int64_t i = 0; i < a.numel(); ++i) equal = equal && near(a.item({i}), b.item({i}), most);
  return equal;
}

// On the virtual clock, where a message takes 2 s: seconds in which send() returns, and until the
// mean is there if the worker computes for `busy` seconds meanwhile.
std::pair<double, double> seconds_of_mean(int bits, double busy) {
  Cluster machine = ideal(2, 1e9);
  machine.levels = {{"cities", 2, 2, 0}};  // few bytes: each sends the other one message
  std::pair<double, double> seconds;
  run_on(machine, 2, [&](Communicator& world) {
    const Worker worker(world, 2, bits);
    world.barrier();
    const auto now = [] { return context().clock->now(compute_lane).end; };
    const double start = now();
    OuterFragment& fragment = worker.send();
    const double sent = now();
    charge({"inner step", DType::f64, busy * 1e9, 0, 0});
    fragment.work.wait();
    if (world.rank() == 0) seconds = {sent - start, now() - start};
    world.barrier();
  });
  return seconds;
}

// Bytes of all ranks for one mean: under its label, and in all.
std::pair<int64_t, int64_t> bytes_of_mean(int k, int64_t n, int bits) {
  std::vector<std::pair<int64_t, int64_t>> sent(static_cast<size_t>(k));
  run(k, [&](Communicator& world) {
    const Worker worker(world, n, bits);
    const Ledger& ledger = context().ledger;
    const int64_t before = ledger.total_traffic().bytes_sent;
    worker.send().work.wait();
    sent[static_cast<size_t>(world.rank())] = {ledger.traffic("diloco.mean").bytes_sent,
                                               ledger.total_traffic().bytes_sent - before};
  });
  std::pair<int64_t, int64_t> all;
  for (const auto& [labelled, total] : sent) all.first += labelled, all.second += total;
  return all;
}
// And of the solution's quantised_mean.
int64_t bytes_of_packed(int k, int64_t n, int bits) {
  std::vector<int64_t> sent(static_cast<size_t>(k));
  run(k, [&](Communicator& world) {
    const Worker worker(world, n, bits);
    const int64_t before = context().ledger.total_traffic().bytes_sent;
    packed_mean(worker, n, bits, 1, 1);
    sent[static_cast<size_t>(world.rank())] = context().ledger.total_traffic().bytes_sent - before;
  });
  int64_t all = 0;
  for (const int64_t each : sent) all += each;
  return all;
}

}  // namespace

TEST_CASE("31.5: weights travel, and a worker counts by its tokens") {
  for (const int k : {2, 1, 3})
    run(k, [](Communicator& world) {
      const Worker worker(world, 3);
      worker.train();
      OuterFragment& fragment = worker.send();
      fragment.work.wait();
      const int p = world.size();
      // Worker r went 1 + r, and counts 1 + r: the sum of the squares over the sum.
      const double equal = (p + 1) / 2.0, right = (2 * p + 1) / 3.0;
      const double start = is_first(fragment) ? 100 : 1000, total = fragment.moving.item({3});
      const double found = fragment.moving.item({0}) / total - start;
      require(
          p == 1 || !near(found, equal, 1e-6),
          fmt::format("{} workers that train 1, 2, ... tokens have gone 1, 2, ...: {:.4f} is "
                      "their mean if all count alike. Each counts with `weight`, in the sum and "
                      "in number n, so that the mean is {:.4f}",
                      p, found, right));
      require(near(found, right, 1e-6),
              fmt::format("{} workers that train 1, 2, ... tokens have gone 1, 2, ... from {}: the "
                          "sum of `moving` over its number n says {:.4f}, and their mean is "
                          "{:.4f}. Number n is each worker's weight",
                          p, start, found, right));
    });
  CHECK(true);
}

TEST_CASE("31.5: in few bits the outer gradient travels, with the worker's weight") {
  constexpr int64_t n = 60;
  for (const int k : {2, 3})
    run(k, [](Communicator& world) {
      constexpr int bits = 4;
      const Worker worker(world, n, bits);
      worker.train();
      OuterFragment& fragment = worker.send();
      fragment.work.wait();
      const double weight = worker.tokens(), start = is_first(fragment) ? 100 : 1000;
      const Tensor found = fragment.moving;
      require(near(fragment.outer.item({0}), start),
              fmt::format("`outer` was {:g} and is {:g} after send(): it stays where the workers "
                          "last agreed, and `moving` becomes the outer gradient",
                          start, fragment.outer.item({0})));
      const auto is = [&](double scale, double counted, double more = 0) {
        return same(found, packed_mean(worker, n, bits, scale, counted, more));
      };
      // Whole weights, or what is left of `outer` when their mean is taken off.
      Tensor whole = packed_mean(worker, n, bits, -1, weight, start);
      bool weights_sent = same(found, whole);
      combine(whole, -1, Tensor::full({n}, start, DType::f64), 1);
      weights_sent = weights_sent || same(found, whole);
      const bool right = is(1, weight);
      const char* const why =
          is(-1, weight) ? "that is the mean of w - `outer`: the outer gradient is `outer` - w"
          : is(1, 1)
              ? "all workers count alike: quantised_mean is told the weight, and multiplies by it"
          : is(weight, weight) || is(weight, 1)
              ? "the weight counts twice: quantised_mean is told the weight, and multiplies by it"
          : weights_sent
              ? "whole weights travel: pack how far they have gone, `outer` - w"
              : "it should be quantised_mean's of `outer` - w and `weight`, which is gone when "
                "send() returns: let the collective keep a copy";
      require(right, fmt::format("{} workers, 4 bits: number 0 of `moving` is {:.4f} when it is "
                                 "there: {}",
                                 world.size(), found.defined() ? found.item({0}) : 0.0, why));
    });
  CHECK(true);
}

TEST_CASE("31.5: each fragment travels by itself") {
  for (const int bits : {0, 8})
    run(2, [&](Communicator& world) {
      const Worker worker(world, 4, bits);
      worker.second->value.fill(2000);  // far from where the first one is
      worker.diloco->fragments()[1].outer.fill(1999);
      std::vector<bool> sent(2);
      for (int turn = 0; turn < 8 && !(sent[0] && sent[1]); ++turn) {
        OuterFragment& fragment = worker.send();
        fragment.work.wait();
        const bool first = is_first(fragment);
        const double found = fragment.moving.item({0}) / (bits > 0 ? 1 : fragment.moving.item({4}));
        // In few bits the first one has gone nowhere, and the second one 1.
        Packed packed(worker, 4, 8);
        packed.x.fill(first ? 0 : -1);
        if (bits > 0) packed.mean(world, worker.tokens());
        const double right = bits > 0 ? packed.x.item({0}) : first ? 100 : 2000;
        require(near(found, right, 1e-5),
                fmt::format("the {} of two fragments is sent, and {:g} travels in place of {:g}: "
                            "send() is about the fragment that it is given",
                            first ? "first" : "second", found, right));
        sent[first ? 0 : 1] = true;
        fragment.left = 0, fragment.moving = {};  // as if it had arrived
      }
    });
  CHECK(true);
}

TEST_CASE("31.5: the fragment keeps what rounding takes off") {
  run(2, [](Communicator& world) {
    constexpr int64_t n = 60;
    const Worker worker(world, n, 4);
    worker.train();
    OuterFragment& fragment = worker.send();
    fragment.work.wait();
    Packed right(worker, n, 4);
    for (int64_t i = 0; i < n; ++i) right.x.data<double>()[i] = -worker.path(i);
    right.mean(world, worker.tokens());
    require(same(fragment.lost.sent, right.lost.sent) && same(fragment.lost.mean, right.lost.mean),
            fmt::format("4 bits round a number of 0.03 beside 1 to nothing, and {:g} of it is in "
                        "fragment.lost, not {:g}: give quantised_mean fragment.lost, which stays "
                        "from round to round",
                        fragment.lost.sent.item({1}), right.lost.sent.item({1})));
  });
  CHECK(true);
}

TEST_CASE("31.5: a mean that may be late is started, and not waited for") {
  for (const int bits : {0, 8}) {
    const auto [sending, alone] = seconds_of_mean(bits, 0);
    const std::string kind = bits > 0 ? " in 8 bits" : "";
    expect(alone > 1.9, fmt::format("a mean{} is there after {:.1f} s, and a message takes 2 s: no "
                                    "mean was made",
                                    kind, alone));
    expect(sending < 0.1,
           fmt::format("send() of a mean{} takes {:.1f} s: start it ({}), and leave the waiting to "
                       "arrive()",
                       kind, sending, bits > 0 ? "collective_async" : "all_reduce_async"));
    const double busy = seconds_of_mean(bits, 100).second;
    expect(busy < 100.1, fmt::format("a worker that computes for 100 s while its mean{} is on its "
                                     "way has it after {:.1f} s",
                                     kind, busy));
  }
}

TEST_CASE("31.5: one mean travels, under its label") {
  constexpr int64_t n = 9;
  for (const int bits : {0, 8}) {
    const int64_t right = bits > 0 ? bytes_of_packed(3, n, bits) : 2 * 2 * (n + 1) * 8;
    const auto [labelled, all] = bytes_of_mean(3, n, bits);
    const char* const call = bits > 0 ? "collective_async(\"diloco.mean\", ...)"
                                      : "options_.comm.labelled(\"diloco.mean\")";
    expect(
        labelled >= right || all > right,
        fmt::format("{} bytes are in the ledger under diloco.mean, of {} that three workers send "
                    "for a mean of {} weights{}: {}",
                    labelled, all, n, bits > 0 ? " in 8 bits" : "", call));
    expect(all <= right,
           fmt::format(
               "right, but three workers send {} bytes for a mean of {} weights{}, and {} "
               "are enough: {}",
               all, n, bits > 0 ? " in 8 bits" : "", right,
               bits > 0 ? "one quantised_mean" : "one all_reduce of n weights and their count"));
  }
}

namespace {

// A worker with one weight of 2 numbers. Its rounds have 1000 steps, so that only what the case
// lets arrive does.
struct MeanArrives {
  MeanArrives(const Communicator& world, Options options, Optimizer& inner, ParameterPtr weight)
      : w(std::move(weight)),
        right_outer(w->value.reshape({2}).clone()),
        right_momentum(Tensor::zeros({2}, DType::f64)),
        options_(options) {
    options_.inner = 1000;
    diloco = solution.make(inner, world, options_);
  }
  OuterFragment& fragment() const { return diloco->fragments().front(); }

  // This mean is on its way to all workers, whose weights add up to 3.
  void start(const Numbers& mean) {
    const bool packed = options_.bits > 0;
    Tensor moving = Tensor::full({packed ? 2 : 3}, 3, DType::f64);
    for (int64_t i = 0; i < 2; ++i) {
      const double each = mean[static_cast<size_t>(i)];
      moving.data<double>()[i] = packed ? right_outer.item({i}) - each : 3 * each;
    }
    fragment().moving = moving;
    fragment().left = 1;
    Tensor to = Tensor::zeros({2}, DType::f64);
    std::copy(mean.begin(), mean.end(), to.data<double>());
    solution.outer_step(right_outer, right_momentum, to, options_);
  }
  // After arrive(): `outer`, momentum and weights are right, or this says what is not.
  std::string wrong(const Tensor& right_weights) const {
    const auto list = [](const Tensor& x) { return in_words(x.reshape({2}).values()); };
    const auto off = [&](const char* what, const Tensor& found, const Tensor& right) {
      return same(found.reshape({2}), right.reshape({2}))
                 ? ""
                 : fmt::format("{} is {} and should be {}", what, list(found), list(right));
    };
    std::string text = off("`outer`", fragment().outer, right_outer);
    if (text.empty()) text = off("`momentum`", fragment().momentum, right_momentum);
    if (text.empty()) text = off("the weight", w->value, right_weights);
    return text;
  }

  ParameterPtr w;
  Tensor right_outer, right_momentum;
  std::unique_ptr<exercise::AnyDiloco> diloco;

 private:
  Options options_;
};

}  // namespace

TEST_CASE("31.6: the outer step, with its momentum, in rounds") {
  for (const int bits : {0, 8})
    run(2, [&](Communicator& world) {
      Options options;
      options.bits = bits;
      const ParameterPtr w = weights(2);
      Sgd sgd({w});
      MeanArrives worker(world, options, sgd, w);
      const Numbers means[] = {{1, -2}, {2, -3}, {4, 0}};
      for (int round = 0; round < 3; ++round) {
        const Tensor before = worker.fragment().outer.clone();
        worker.start(means[round]);
        worker.diloco->synchronise();
        const Tensor found = worker.fragment().outer;
        const double mean = means[round][0], first = before.item({0});
        const bool plain_mean = near(found.item({0}), mean, 1e-6);
        const std::string what = worker.wrong(worker.right_outer);
        require(
            what.empty(),
            fmt::format("round {}{}: workers began at {:g} and their mean is {:g}; after it {}. "
                        "{}",
                        round + 1, bits > 0 ? ", 8 bits" : "", first, mean, what,
                        plain_mean ? "outer_step comes between the mean and the weights"
                        : bits > 0 ? "`moving` is the mean of `outer` - w: the mean of the "
                                     "weights is `outer` - `moving`; outer_step to it, then "
                                     "set_weights"
                                   : "The mean is the sum over number n; outer_step to it, "
                                     "then set_weights"));
      }
    });
  CHECK(true);
}

TEST_CASE("31.6: the sum of the weights divides, whatever it is") {
  // Where a worker is away the weights of the others do not add up to their number.
  run(2, [](Communicator& world) {
    const ParameterPtr w = weights(2);
    Sgd sgd({w});
    MeanArrives worker(world, plain(1), sgd, w);
    worker.start({2, 4});
    worker.diloco->synchronise();
    require(near(w->value.item({0}), 2),
            fmt::format("two workers with weights 2 and 1: `moving` is 6, 12, 3, so the mean is 2, "
                        "4, and the weight is {}. Number n of `moving` divides, not the number of "
                        "workers",
                        in_words(w->value.reshape({2}).values())));
  });
  CHECK(true);
}

TEST_CASE("31.6: a mean that is late leaves a share of what was trained meanwhile") {
  for (const int bits : {0, 8})
    run(2, [&](Communicator& world) {
      Options options = {.rate = 0.5, .keep = 0.25};
      options.bits = bits;
      const ParameterPtr w = weights(2);
      Sgd sgd({w});
      MeanArrives worker(world, options, sgd, w);
      worker.start({4, 8});
      w->value.fill(6);  // meanwhile
      worker.diloco->after_step(1);
      const Tensor& to = worker.right_outer;
      Tensor right = Tensor::full({2}, 1.5, DType::f64);
      for (int64_t i = 0; i < 2; ++i) right.data<double>()[i] += 0.75 * to.item({i});
      const std::string what = worker.wrong(right);
      require(what.empty(),
              fmt::format("the mean is there when the weight is 6, a quarter of its own weights "
                          "stays, and three quarters are the new `outer`, {:g}: {}{}",
                          to.item({0}), what, bits > 0 ? " (8 bits)" : ""));
    });
  CHECK(true);
}

TEST_CASE("31.6: the inner optimizer keeps its state, and nothing is sent") {
  const auto check = [](Communicator& world, int bits) {
    const ParameterPtr w = weights(2);
    w->grad.fill(1 + world.rank());
    AdamW adamw({w});
    Options options;
    options.bits = bits;
    MeanArrives worker(world, options, adamw, w);
    adamw.step(0.1);
    const auto moments = [&] {
      Numbers all;
      for (const Tensor& each : adamw.slots()[0].state) all.push_back(each.values()[0]);
      return all;
    };
    const Numbers before = moments();
    const int64_t sent = context().ledger.total_traffic().bytes_sent;
    worker.start({1, 1});
    worker.diloco->synchronise();
    const Numbers now = moments();
    for (size_t i = 0; i < now.size(); ++i)
      require(now[i] == before[i],
              fmt::format("worker {}: AdamW's {} moment was {:g} before the outer step and is {:g} "
                          "after it. It belongs to the worker's own path: leave it alone",
                          world.rank(), i == 0 ? "first" : "second", before[i], now[i]));
    require(adamw.steps() == 1, "AdamW counts its steps anew: leave the inner optimizer alone");
    const int64_t more = context().ledger.total_traffic().bytes_sent - sent;
    require(more == 0, fmt::format("{} bytes are sent when the mean has arrived: all have the same "
                                   "mean, `outer` and `momentum`, so nothing else need travel",
                                   more));
  };
  for (const int bits : {0, 8}) run(2, [&](Communicator& world) { check(world, bits); });
  CHECK(true);
}
