// The graded cases of exercise 31. Workers train a weight or two whose path is known, so that every mean, every outer step
// and every byte can be said beforehand.
#include <cmath>

#include "course/shared/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Options;
using exercise::run;
using exercise::Share;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

// For checks that a rank makes: they throw, so that the other ranks end as well.
void require(bool right, const std::string& what_is_wrong, Where where = Where::current()) {
  if (!right) fail(where, "{}", what_is_wrong);
}
bool near(double a, double b, double most = 1e-9) { return std::abs(a - b) <= most; }

ParameterPtr weights(int64_t n, const char* name = "w") {
  const ParameterPtr made = make_parameter(name, {1, n}, false, zeros(), 0, DType::f64);
  made->gradient();
  return made;
}

constexpr Options plain(int64_t inner) { return {.inner = inner, .rate = 1, .momentum = 0}; }

// What `rank`'s one weight is after each of `steps` inner steps. Each adds pace(rank) to it.
Numbers walk(
    int k, int rank, const Options& options, int64_t steps, double (*pace)(int),
    double (*weight)(int) = [](int) { return 1.0; }) {
  Numbers seen;
  run(k, [&](Communicator& world) {
    const ParameterPtr w = weights(1);
    w->grad.fill(-pace(world.rank()));
    Sgd sgd({w});
    const auto diloco = solution.make(sgd, world, options);
    for (int64_t step = 0; step < steps; ++step) {
      sgd.step(1);
      diloco->after_step(weight(world.rank()));
      if (world.rank() == rank) seen.push_back(w->value.item({0}));
    }
    diloco->synchronise();
  });
  return seen;
}

std::string in_words(const Numbers& numbers) {
  std::string text;
  for (const double each : numbers) text += fmt::format("{}{:g}", text.empty() ? "" : ", ", each);
  return text;
}
void expect_walk(const Numbers& actual, const Numbers& expected, const std::string& what) {
  bool same = actual.size() == expected.size();
  for (size_t i = 0; same && i < actual.size(); ++i) same = near(actual[i], expected[i]);
  expect(same, fmt::format("{}: after each step the weight is {}; it should be {}", what,
                           in_words(actual), in_words(expected)));
}

// Three rounds of 4 steps of a second each, with means that take 2 s, on the virtual clock.
double seconds_of_rounds(int64_t overlap) {
  Cluster machine = ideal(2, 1e9);
  machine.levels = {{"cities", 2, 2, 0}};  // few bytes: each sends the other one message
  double seconds = 0;
  run_on(machine, 2, [&](Communicator& world) {
    const ParameterPtr w = weights(1);
    Sgd sgd({w});
    Options options = plain(4);
    options.overlap = overlap;
    const auto diloco = solution.make(sgd, world, options);
    world.barrier();
    const double start = context().clock->now(compute_lane).end;
    for (int step = 0; step < 12; ++step) {
      charge({"inner step", DType::f64, 1e9, 0, 0});
      diloco->after_step(1);
    }
    if (world.rank() == 0) seconds = context().clock->now(compute_lane).end - start;
    diloco->synchronise();
  });
  return seconds;
}

Tensor one(double value) { return Tensor::full({1}, value, DType::f64); }

}  // namespace

TEST_CASE("31.1: workers see different sequences, each of the batch once") {
  for (const int k : {1, 2, 3, 4})
    for (const int64_t batch : {8, 13}) {
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
}

TEST_CASE("31.3: plain averaging: with rate 1 and no momentum the mean, to the last bit") {
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
      expect(found == to, fmt::format("from {} the step ends {:.1e} beside the mean of {}: one "
                                      "worker should train as one rank, to the last bit. Begin "
                                      "with the mean and add what is left",
                                      from, found - to, to));
    }
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

TEST_CASE("31.4: the weighted mean, on every rank the same") {
  for (const int k : {1, 2, 3, 4}) {
    Numbers first;
    run(k, [&](Communicator& world) {
      // whole multiples of a 7th of the largest: nothing is rounded
      Tensor x = Tensor::full({300}, 7 * (1 + world.rank()), DType::f64);
      Lost lost;
      world.collective(
          "mean", [&](Channel& c) { solution.quantised_mean(c, x, 1 + world.rank(), 4, lost); });
      double sum = 0, all = 0, equal = 0;
      for (int r = 0; r < k; ++r) {
        sum += 7.0 * (1 + r) * (1 + r), all += 1 + r, equal += 7.0 * (1 + r) / k;
      }
      for (const double each : x.values()) {
        require(k == 1 || !near(each, equal, 1e-5),
                fmt::format("{} ranks: {:.4f} is the mean with equal weights; each counts with its "
                            "own, {:.4f}",
                            k, each, sum / all));
        require(near(each, sum / all, 1e-5),
                fmt::format("{} ranks: a number of the mean is {:.4f}, not {:.4f}", k, each,
                            sum / all));
      }
    });
  }
  CHECK(true);
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

TEST_CASE("31.4: what rounding takes off arrives later") {
  // 0.03 beside 1 is rounded to nothing by 4 bits, in every round.
  Numbers sums(2);
  run(2, [&](Communicator& world) {
    Lost lost = {Tensor::zeros({4}, DType::f64), Tensor::zeros({2}, DType::f64)};
    double sum = 0;
    for (int round = 0; round < 60; ++round) {
      Tensor x = Tensor::from<double>({1, 0.03, 1, 0.03}, {4});
      world.collective("mean", [&](Channel& c) { solution.quantised_mean(c, x, 1, 4, lost); });
      sum += x.item({1});
    }
    sums[static_cast<size_t>(world.rank())] = sum;
  });
  expect(sums[0] != 0,
         "60 outer gradients of 0.03 beside 1 arrive as 0: what rounding takes off is "
         "lost. pack_with_feedback keeps it, for what is sent and for the mean");
  expect(near(sums[0], 1.8, 0.25), fmt::format("60 outer gradients of 0.03 arrive as {:.2f}, not "
                                               "1.8: is all that rounding takes off kept, on both "
                                               "ways?",
                                               sums[0]));
  expect(sums[0] == sums[1], "two workers have two means");
}

TEST_CASE("31.5: all workers go on from their mean") {
  const auto pace = [](int rank) { return 1.0 + 2 * rank; };  // 1 and 3
  for (const int rank : {0, 1})
    expect_walk(walk(2, rank, plain(2), 4, pace),
                rank == 0 ? Numbers{1, 4, 5, 8} : Numbers{3, 4, 7, 8},
                fmt::format("worker {} of 2, H = 2, steps of 1 and 3", rank));
}

TEST_CASE("31.5: a worker counts by its tokens") {
  const auto weight = [](int rank) { return rank == 0 ? 1.5 : 0.5; };
  expect_walk(walk(
                  2, 0, plain(1), 2, [](int rank) { return rank == 0 ? 1.0 : 3.0; }, weight),
              {1.5, 3}, "weights 1.5 and 0.5, steps of 1 and 3: the mean step is 1.5");
}

TEST_CASE("31.5: in few bits it is the outer gradient that travels") {
  // Weights far from zero: packed weights would be off by more than their steps.
  run(2, [](Communicator& world) {
    const ParameterPtr w = weights(256);
    for (int64_t i = 0; i < 256; ++i) w->value.data<double>()[i] = 1000 + static_cast<double>(i);
    w->grad.fill(-1);
    Sgd sgd({w});
    Options options = plain(1);
    options.bits = 8;
    const auto diloco = solution.make(sgd, world, options);
    sgd.step(1);
    diloco->after_step(1);
    for (int64_t i = 0; i < 256; ++i)
      require(near(w->value.item({i}), 1001 + static_cast<double>(i), 0.02),
              fmt::format("both workers went from {} to {}, and their mean with 8 bits is {:.2f}: "
                          "pack how far they have gone, w - mean, not the weights",
                          1000 + i, 1001 + i, w->value.item({i})));
  });
  CHECK(true);
}

TEST_CASE("31.5: a mean that may be late is started, and not waited for") {
  const double whole = seconds_of_rounds(0), hidden = seconds_of_rounds(3);
  expect(whole > 17,
         fmt::format("three rounds of 4 s, whose means take 2 s each, take {:.0f} s and "
                     "not 18: no mean was made",
                     whole));
  expect(
      hidden < 12.5,
      fmt::format("three rounds of 4 s, with 3 steps for a mean to arrive, take {:.0f} s and not "
                  "12: start the mean (all_reduce_async), and leave the waiting to arrive()",
                  hidden));
}

TEST_CASE("31.5: what travels has its label") {
  const auto reports = run_ranks(2, [](Communicator& world) {
    const ParameterPtr w = weights(10);
    Sgd sgd({w});
    solution.make(sgd, world, plain(1))->after_step(1);
  });
  const int64_t sent = reports[0].ledger().traffic("diloco.mean").bytes_sent;
  expect(sent >= 80, fmt::format("{} bytes are in the ledger under diloco.mean, for a mean of 10 "
                                 "weights: options_.comm.labelled(\"diloco.mean\")",
                                 sent));
}

TEST_CASE("31.6: the outer step, with its momentum, in rounds") {
  // H = 1, each step adds 1. Round 1: g = -1, v = -1, w = 0.7 (1 + 0.9) = 1.33. Round 2: g = -1,
  // v = -1.9, w = 1.33 + 0.7 (1 + 1.71) = 3.227.
  expect_walk(walk(2, 0, {.inner = 1}, 2, [](int) { return 1.0; }), {1.33, 3.227},
              "H = 1, steps of 1");
}

TEST_CASE("31.6: a mean that is late leaves a share of what was trained meanwhile") {
  Options late = plain(4);
  late.overlap = 2, late.keep = 0.5;
  expect_walk(walk(2, 1, late, 8, [](int) { return 1.0; }), {1, 2, 3, 4, 5, 5, 6, 7},
              "H = 4, 2 steps late, half of its own weights stays");
}

TEST_CASE("31.6: the inner optimizer keeps its state") {
  run(2, [](Communicator& world) {
    const ParameterPtr w = weights(1);
    w->grad.fill(1 + world.rank());
    AdamW adamw({w});
    const auto diloco = solution.make(adamw, world, plain(1));
    adamw.step(0.1);
    const double mean = adamw.slots()[0].state[0].item({0});
    diloco->after_step(1);
    const double now = adamw.slots()[0].state[0].item({0});
    require(now == mean, fmt::format("worker {}: AdamW's first moment was {:.3f} before the outer "
                                     "step and is {:.3f} after it. It belongs to the worker's own "
                                     "path: leave it alone",
                                     world.rank(), mean, now));
  });
  CHECK(true);
}
