// The graded cases of exercise 31. Workers train a weight or two whose path is known, so that every
// mean, every outer step and every byte can be said beforehand.
#include <cmath>
#include <functional>

#include "course/shared/graded_ranks.hpp"
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
// The words before a case that is the same without bits and with 8.
std::string in_bits(int bits) { return bits > 0 ? fmt::format("{} bits, ", bits) : ""; }

void expect_walk(const Numbers& actual, const Numbers& expected, const std::string& what,
                 double most = 1e-9) {
  bool same = actual.size() == expected.size();
  for (size_t i = 0; same && i < actual.size(); ++i) same = near(actual[i], expected[i], most);
  expect(same, fmt::format("{}: after each step the weight is {}; it should be {}", what,
                           in_words(actual), in_words(expected)));
}

// Three rounds of 6 steps of a second each on the virtual clock, where a message takes 2 s: a mean
// is one message, and in few bits two.
double seconds_of_rounds(int64_t overlap, int bits) {
  Cluster machine = ideal(2, 1e9);
  machine.levels = {{"cities", 2, 2, 0}};  // few bytes: each sends the other one message
  double seconds = 0;
  run_on(machine, 2, [&](Communicator& world) {
    const ParameterPtr w = weights(1);
    Sgd sgd({w});
    Options options = plain(6);
    options.overlap = overlap, options.bits = bits;
    const auto diloco = solution.make(sgd, world, options);
    world.barrier();
    const double start = context().clock->now(compute_lane).end;
    for (int step = 0; step < 18; ++step) {
      charge({"inner step", DType::f64, 1e9, 0, 0});
      diloco->after_step(1);
    }
    if (world.rank() == 0) seconds = context().clock->now(compute_lane).end - start;
    diloco->synchronise();
  });
  return seconds;
}

// Bytes under the label "diloco.mean" that rank 0 sends for one mean of 10 weights.
int64_t labelled_bytes(int bits) {
  const auto reports = run_ranks(2, [&](Communicator& world) {
    const ParameterPtr w = weights(10);
    Sgd sgd({w});
    Options options = plain(1);
    options.bits = bits;
    solution.make(sgd, world, options)->after_step(1);
  });
  return reports[0].ledger().traffic("diloco.mean").bytes_sent;
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
  // Number i is i % 8 times 1 + rank: a multiple of a 7th of the largest, so nothing is rounded.
  constexpr int64_t n = 300;
  for (const int k : {1, 2, 3, 4}) {
    run(k, [&](Communicator& world) {
      Tensor x = Tensor::zeros({n}, DType::f64);
      for (int64_t i = 0; i < n; ++i)
        x.data<double>()[i] = static_cast<double>((i % 8) * (1 + world.rank()));
      Lost lost;
      world.collective(
          "mean", [&](Channel& c) { solution.quantised_mean(c, x, 1 + world.rank(), 4, lost); });
      const double mean = (2 * k + 1) / 3.0;  // of 1 + rank, with those weights
      const double equal = (k + 1) / 2.0;
      const double* const found = x.data<double>();
      require(k == 1 || !near(found[7], 7 * equal, 1e-5),
              fmt::format("{} ranks: {:.4f} is the mean with equal weights; each counts with its "
                          "own, {:.4f}",
                          k, found[7], 7 * mean));
      for (int64_t i = 0; i < n; ++i)
        require(near(found[i], static_cast<double>(i % 8) * mean, 1e-5),
                fmt::format("{} ranks: number {} of the mean is {:.4f}, not {:.4f}. It is in chunk "
                            "{}: what comes from rank r is the mean of chunk r",
                            k, i, found[i], static_cast<double>(i % 8) * mean,
                            chunk_of_number(n, k, i)));
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

TEST_CASE("31.5: the sum of the weights divides, whatever it is") {
  // Where a worker is away the weights of the others do not add up to their number.
  const auto pace = [](int rank) { return rank == 0 ? 1.0 : 4.0; };
  const auto weight = [](int rank) { return rank == 0 ? 2.0 : 1.0; };
  expect_walk(walk(2, 1, plain(1), 2, pace, weight), {2, 4},
              "weights 2 and 1, steps of 1 and 4: the mean step is 6/3, for number n of `moving` "
              "is each worker's weight, and their sum is 3");
}

TEST_CASE("31.5: each fragment travels by itself") {
  run(2, [](Communicator& world) {
    const double pace = 1 + 2 * world.rank();  // 1 and 3
    const ParameterPtr first = weights(2, "first"), second = weights(2, "second");
    first->grad.fill(-pace);
    second->grad.fill(-10 * pace);
    Sgd sgd({first, second});
    Options options = plain(2);
    options.fragments = 2;
    const auto diloco = solution.make(sgd, world, options);
    for (int step = 0; step < 4; ++step) sgd.step(1), diloco->after_step(1);
    diloco->synchronise();
    const double found[] = {first->value.item({0}), second->value.item({0})};
    require(near(found[0], 8) && near(found[1], 80),
            fmt::format("two fragments, of weights that take mean steps of 2 and 20: after 4 steps "
                        "and synchronise() worker {} has {} and {}, not 8 and 80. send() is about "
                        "the fragment that it is given",
                        world.rank(), found[0], found[1]));
  });
  CHECK(true);
}

TEST_CASE("31.5: a worker counts by its tokens in few bits too") {
  const auto pace = [](int rank) { return rank == 0 ? 1.0 : 4.0; };
  const auto weight = [](int rank) { return rank == 0 ? 2.0 : 1.0; };
  Options options = plain(1);
  options.bits = 8;
  expect_walk(walk(2, 0, options, 2, pace, weight), {2, 4},
              "8 bits, weights 2 and 1, steps of 1 and 4: quantised_mean is told the weight, and "
              "multiplies by it; the mean step is 6/3",
              1e-5);
}

TEST_CASE("31.5: the fragment keeps what rounding takes off") {
  run(2, [](Communicator& world) {
    const ParameterPtr w = weights(4);
    for (int i = 0; i < 4; ++i) w->grad.data<double>()[i] = i % 2 == 0 ? -1 : -0.03;
    Sgd sgd({w});
    Options options = plain(1);
    options.bits = 4;
    const auto diloco = solution.make(sgd, world, options);
    for (int round = 0; round < 60; ++round) sgd.step(1), diloco->after_step(1);
    require(near(w->value.item({1}), 1.8, 0.25),
            fmt::format("in 60 rounds of 4 bits a weight that takes steps of 0.03 beside one of 1 "
                        "goes from 0 to {:.2f}, not to 1.8: give quantised_mean fragment.lost, "
                        "which stays from round to round",
                        w->value.item({1})));
  });
  CHECK(true);
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
  for (const int bits : {0, 8}) {
    const double whole = seconds_of_rounds(0, bits), hidden = seconds_of_rounds(5, bits);
    const double mean = bits > 0 ? 4 : 2;
    const std::string kind = bits > 0 ? ", with 8 bits" : "";
    expect(whole > 18 + 3 * mean - 1,
           fmt::format("three rounds of 6 s, whose means take {} s each{}, take {:.0f} s and not "
                       "{}: no mean was made",
                       mean, kind, whole, 18 + 3 * mean));
    expect(
        hidden < 18.5,
        fmt::format("three rounds of 6 s, with 5 steps for a mean to arrive{}, take {:.0f} s and "
                    "not 18: start the mean ({}), and leave the waiting to arrive()",
                    kind, hidden, bits > 0 ? "collective_async" : "all_reduce_async"));
  }
}

TEST_CASE("31.5: what travels has its label") {
  const int64_t whole = labelled_bytes(0), few = labelled_bytes(8);
  expect(whole >= 80, fmt::format("{} bytes are in the ledger under diloco.mean, for a mean of 10 "
                                  "weights: options_.comm.labelled(\"diloco.mean\")",
                                  whole));
  expect(few >= 10, fmt::format("{} bytes are in the ledger under diloco.mean, for a mean of 10 "
                                "weights with 8 bits: collective_async(\"diloco.mean\", ...)",
                                few));
}

TEST_CASE("31.6: the outer step, with its momentum, in rounds") {
  // H = 1, each step adds 1. Round 1: g = -1, v = -1, w = 0.7 (1 + 0.9) = 1.33. Round 2: g = -1,
  // v = -1.9, w = 1.33 + 0.7 (1 + 1.71) = 3.227.
  for (const int bits : {0, 8})
    expect_walk(walk(2, 0, {.inner = 1, .bits = bits}, 2, [](int) { return 1.0; }), {1.33, 3.227},
                in_bits(bits) + "H = 1, steps of 1", bits > 0 ? 1e-5 : 1e-9);
}

TEST_CASE("31.6: a mean that is late leaves a share of what was trained meanwhile") {
  // After step 4 the mean is 4, g = v = -4, and outer = 0.5 (4 + 3.6) = 3.8. It is there after step
  // 6, at a weight of 6, which becomes 6/4 + 3.8 * 3/4.
  for (const int bits : {0, 8}) {
    Options late = {.inner = 4, .rate = 0.5, .overlap = 2, .keep = 0.25};
    late.bits = bits;
    expect_walk(walk(2, 1, late, 8, [](int) { return 1.0; }), {1, 2, 3, 4, 5, 4.35, 5.35, 6.35},
                in_bits(bits) + "H = 4, 2 steps late, a quarter of its own weights stays",
                bits > 0 ? 1e-5 : 1e-9);
  }
}

TEST_CASE("31.6: the inner optimizer keeps its state") {
  const auto check = [](Communicator& world, int bits) {
    const ParameterPtr w = weights(1);
    w->grad.fill(1 + world.rank());
    AdamW adamw({w});
    Options options = plain(1);
    options.bits = bits;
    const auto diloco = solution.make(adamw, world, options);
    adamw.step(0.1);
    const auto moments = [&] {
      Numbers all;
      for (const Tensor& each : adamw.slots()[0].state) all.push_back(each.item({0}));
      return all;
    };
    const Numbers before = moments();
    diloco->after_step(1);
    const Numbers now = moments();
    for (size_t i = 0; i < now.size(); ++i)
      require(now[i] == before[i],
              fmt::format("worker {}: AdamW's {} moment was {:g} before the outer step and is {:g} "
                          "after it. It belongs to the worker's own path: leave it alone",
                          world.rank(), i == 0 ? "first" : "second", before[i], now[i]));
  };
  for (const int bits : {0, 8}) run(2, [&](Communicator& world) { check(world, bits); });
  CHECK(true);
}
