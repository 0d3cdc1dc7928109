// The graded cases of exercise 31. Workers train a few weights towards targets of their own, so that every mean can be
// worked out without ranks; bytes are read from the ledger, and overlap from the virtual clock.
#include "course/shared/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using exercise::AnyDiloco;
using exercise::expect;
using exercise::plain;
using exercise::run;
using exercise::Settings;
using exercise::solution;

namespace {

using Numbers = std::vector<double>;

constexpr int64_t n = 6;
constexpr double rate = 0.1;

// For checks that a rank makes: they throw, so that the other ranks end as well.
void require(bool right, const std::string& what_is_wrong, Where where = Where::current()) {
  if (!right) fail(where, "{}", what_is_wrong);
}

double gap(const Numbers& a, const Numbers& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// What worker `rank` is drawn to in a step: data of its own.
Numbers target(int rank, int64_t step) {
  const Random random(static_cast<uint64_t>(step), "target");
  Numbers made;
  for (int64_t i = 0; i < n; ++i)
    made.push_back(random.normal(static_cast<uint64_t>(rank * n + i)) + 2);
  return made;
}

// A worker: two arrays of weights, so that there can be two fragments, and its inner optimizer.
template <class Inner>
struct Worker {
  std::vector<ParameterPtr> all = {make_parameter("w0", {1, n / 2}, false, zeros(), 0, DType::f64),
                                   make_parameter("w1", {1, n / 2}, false, zeros(), 0, DType::f64)};
  Inner inner{all};

  Numbers weights() const {
    Numbers values;
    for (const ParameterPtr& each : all)
      for (const double value : each->value.values()) values.push_back(value);
    return values;
  }
  void step(int rank, int64_t step) {
    const Numbers to = target(rank, step);
    for (size_t i = 0; i < to.size(); ++i) {
      Parameter& w = *all[i / (n / 2)];
      const auto at = static_cast<int64_t>(i % (n / 2));
      w.gradient().template data<double>()[at] = w.value.template data<double>()[at] - to[i];
    }
    inner.step(rate);
  }
};

// Runs k workers; check(rank, worker, diloco, step) after each step.
template <class Inner, class Check>
void train(int k, const Settings& settings, int64_t steps, const Numbers& shares, Check check) {
  run(k, [&](Communicator& world) {
    Worker<Inner> worker;
    const auto diloco = solution.make(worker.inner, world, settings);
    const auto rank = static_cast<size_t>(world.rank());
    for (int64_t step = 0; step < steps; ++step) {
      worker.step(world.rank(), step);
      diloco->after_step(shares.empty() ? 1 : shares[rank]);
      check(world.rank(), worker, *diloco, step + 1);
    }
    diloco->synchronise();
  });
}

// One round without ranks: what SGD makes of `from` on each worker, and the mean.
Numbers mean_after(const Numbers& from, int k, int64_t first, int64_t steps,
                   const Numbers& shares) {
  Numbers mean(from.size());
  double all = 0;
  for (int rank = 0; rank < k; ++rank) all += shares[static_cast<size_t>(rank)];
  for (int rank = 0; rank < k; ++rank) {
    Numbers w = from;
    for (int64_t step = first; step < first + steps; ++step) {
      const Numbers to = target(rank, step);
      for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * (w[i] - to[i]);
    }
    for (size_t i = 0; i < w.size(); ++i) mean[i] += shares[static_cast<size_t>(rank)] / all * w[i];
  }
  return mean;
}

std::string turns(int64_t inner, int fragments) {
  std::string text;
  for (int64_t step = 1; step <= 2 * inner; ++step) {
    const int due = solution.fragment_due(step, inner, fragments);
    text += due < 0 ? '.' : static_cast<char>('0' + due);
  }
  return text;
}

void expect_turns(int64_t inner, int fragments, const std::string& right, const char* why) {
  const std::string found = turns(inner, fragments);
  expect(found == right,
         fmt::format("{} fragments, H = {}: after the steps of two rounds the turns are {} and not "
                     "{}: {}",
                     fragments, inner, found, right, why));
}

// One number through an outer step.
std::pair<double, double> outer_stepped(double w, double v, double mean, const Settings& settings) {
  Tensor outer = Tensor::full({1}, w, DType::f64), momentum = Tensor::full({1}, v, DType::f64);
  solution.outer_step(outer, momentum, Tensor::full({1}, mean, DType::f64), settings);
  return {outer.item({0}), momentum.item({0})};
}

// What k workers send into a quantised mean: numbers from -1 to 1.
Tensor sent_by(int rank, int64_t count) {
  Tensor x = Tensor::empty({count}, DType::f64);
  const Random random(static_cast<uint64_t>(rank), "sent");
  for (int64_t i = 0; i < count; ++i)
    x.data<double>()[i] = 2 * random.uniform(static_cast<uint64_t>(i)) - 1;
  return x;
}

// Seconds of 3 rounds of 4 steps of a second each, with means that take 2 s, on the virtual clock.
double seconds_of_rounds(int64_t overlap) {
  Cluster machine = ideal(2, 1e9);
  machine.levels = {{"cities", 2, 2.0 / 2, 0}};  // a ring of 2: two messages, one after the other
  double start = 0, end = 0;
  run_on(machine, 2, [&](Communicator& world) {
    context().threads = 1;
    Worker<Sgd> worker;
    const auto diloco = solution.make(
        worker.inner, world,
        {.inner = 4, .rate = 1, .momentum = 0, .overlap = overlap, .keep = overlap > 0 ? 0.5 : 0});
    world.barrier();
    if (world.rank() == 0) start = context().clock->now(compute_lane).end;
    for (int64_t step = 0; step < 12; ++step) {
      charge({"inner", DType::f64, 1e9, 0, 0});
      diloco->after_step(1);
    }
    if (world.rank() == 0) end = context().clock->now(compute_lane).end;
    diloco->synchronise();
  });
  return end - start;
}

}  // namespace

TEST_CASE("31.1: one fragment has its turn at the end of a round") {
  for (const int64_t inner : {1, 4, 5}) {
    const std::string round = std::string(static_cast<size_t>(inner - 1), '.') + "0";
    expect_turns(inner, 1, round + round, "(f + 1) H / F steps of a round are done, in each round");
  }
}

TEST_CASE("31.1: the turns of several fragments are spread over the round") {
  expect_turns(4, 2, ".0.1.0.1", "each fragment has a turn of its own");
  expect_turns(7, 3, ".0.1..2.0.1..2", "H / F is rounded down after the product, not before it");
  expect_turns(3, 3, "012012", "each fragment has a turn of its own");
}

TEST_CASE("31.2: a rate of 1 and no momentum leave nothing but the mean, to the last bit") {
  const Random random(3, "outer");
  for (uint64_t i = 0; i < 200; ++i) {
    const double w = random.normal(3 * i), mean = random.normal(3 * i + 1);
    const auto [stepped, v] = outer_stepped(w, 0, mean, plain(1));
    expect(
        std::abs(stepped - mean) < 1e-9,
        fmt::format("w = {:.3f} and a mean of {:.3f}: with a rate of 1 and no momentum w becomes "
                    "{:.3f} and not the mean",
                    w, mean, stepped));
    expect(stepped == mean,
           fmt::format("w - (w - mean) is rounded twice: {:.17g} is not the mean {:.17g}. Begin "
                       "with the mean and add what is left of the outer gradient",
                       stepped, mean));
  }
}

TEST_CASE("31.2: Nesterov's step, by hand") {
  // w = 1, a mean of 0.5: g = 0.5, v = 0.5, w = 1 - 0.7 (0.5 + 0.9 0.5). Then a mean of 0.
  const auto [w, v] = outer_stepped(1, 0, 0.5, {});
  expect(w < 1, fmt::format("w = 1 and a mean of 0.5: w becomes {:.3f}, further from the mean. The "
                            "outer gradient is w minus the mean: a step goes down it",
                            w));
  expect(std::abs(v - 0.5) < 1e-12,
         fmt::format("the momentum is {:.3f} and not 0.5: v = mu v + g, nothing is damped", v));
  expect(std::abs(w - 0.335) < 1e-12,
         fmt::format("w becomes {:.4f} and not 1 - 0.7 (0.5 + 0.9 * 0.5) = 0.335: Nesterov's step "
                     "counts the new gradient and mu times the new momentum",
                     w));
  const auto [next, u] = outer_stepped(w, v, 0, {});
  expect(std::abs(u - 0.785) < 1e-12,
         fmt::format("the second momentum is {:.3f} and not 0.9 * 0.5 + 0.335 = 0.785", u));
  expect(std::abs(next - (0.335 - 0.7 * (0.335 + 0.9 * 0.785))) < 1e-12,
         fmt::format("the second step ends at {:.4f}", next));
}

TEST_CASE("31.3: the mean over the workers, each with its weight, within the rounding") {
  for (const int k : {1, 2, 3}) {
    const int64_t count = 300;
    Numbers exact(static_cast<size_t>(count)), alike(static_cast<size_t>(count));
    for (int r = 0; r < k; ++r) {
      const Numbers x = sent_by(r, count).values();
      for (size_t i = 0; i < x.size(); ++i) {
        exact[i] += (1 + r) * x[i] / (k * (k + 1) / 2.0);
        alike[i] += x[i] / k;
      }
    }
    std::vector<Numbers> means(static_cast<size_t>(k));
    run(k, [&](Communicator& world) {
      Tensor x = sent_by(world.rank(), count);
      Lost lost;
      world.collective("mean", [&](Channel& channel) {
        solution.quantised_mean(channel, x, 1 + world.rank(), 8, lost);
      });
      means[static_cast<size_t>(world.rank())] = x.values();
    });
    expect(k == 1 || gap(means[0], alike) > 2.0 / 127,
           fmt::format("{} workers with weights 1, 2, ...: the mean counts all alike", k));
    for (const Numbers& mean : means)
      expect(gap(mean, exact) <= 2.0 / 127,
             fmt::format("{} workers: the mean is off by {:.4f}, and two roundings to 8 bits by "
                         "{:.4f} at most",
                         k, gap(mean, exact), 2.0 / 127));
    for (const Numbers& mean : means)
      expect(mean == means[0],
             "the workers end with different means: who averages a chunk keeps what it has "
             "rounded and sent, like everybody else");
  }
}

TEST_CASE("31.3: every number travels twice, packed") {
  const int k = 3;
  const int64_t count = 300;
  const auto reports = run_ranks(k, [&](Communicator& world) {
    Tensor x = sent_by(world.rank(), count);
    Lost lost;
    world.collective("mean",
                     [&](Channel& channel) { solution.quantised_mean(channel, x, 1, 4, lost); });
  });
  int64_t sent = 0, right = 0;
  for (const RankReport& each : reports) sent += each.ledger().traffic("mean").bytes_sent;
  for (int chunk = 0; chunk < k; ++chunk)
    right += (k - 1) * (message_bytes(chunk_count(count, k, chunk), 4) +
                        packed_bytes(chunk_count(count, k, chunk), 4));
  expect(sent == right,
         fmt::format("3 workers sent {} bytes for 300 numbers of 4 bits, not {}: a chunk goes to "
                     "the rank that averages it, and its mean from there to all",
                     sent, right));
}

TEST_CASE("31.3: what rounding takes off arrives in later rounds") {
  double sum = 0;
  run(2, [&](Communicator& world) {
    Lost lost = {Tensor::zeros({4}, DType::f64), Tensor::zeros({2}, DType::f64)};
    for (int round = 0; round < 50; ++round) {
      Tensor x = Tensor::from<double>({1, 0.03, 1, 0.03}, {4});
      world.collective("mean",
                       [&](Channel& channel) { solution.quantised_mean(channel, x, 1, 4, lost); });
      if (world.rank() == 0) sum += x.item({1});
    }
  });
  expect(std::abs(sum - 1.5) <= 0.2,
         fmt::format("0.03 beside a 1, fifty times in 4 bits: {:.2f} has arrived in all, not 1.5. "
                     "Rounding takes it off each time: pack_with_feedback for the mean, and "
                     "lost.sent for what is sent",
                     sum));
}

TEST_CASE("31.4: the mean counts a worker with its tokens") {
  const Numbers shares = {1.5, 1, 0.5};
  const Numbers right = mean_after(Numbers(n), 3, 0, 2, shares),
                alike = mean_after(Numbers(n), 3, 0, 2, {1, 1, 1}),
                first = mean_after(Numbers(n), 1, 0, 2, {1});
  train<Sgd>(3, plain(2), 2, shares, [&](int rank, const auto& worker, AnyDiloco&, int64_t step) {
    if (step < 2) return;
    const Numbers w = worker.weights();
    require(gap(w, alike) > 1e-9,
            "workers with 1.5, 1 and 0.5 times the mean worker's tokens count alike: all_reduce "
            "the weighted weights, and their weight beside them");
    require(gap(w, first) > 1e-9,
            "all workers hold worker 0's weights, as if all had seen the same data: the mean is "
            "over what each has learned from its own");
    require(gap(w, right) <= 1e-9,
            fmt::format("worker {}: off by {:.4f} from the mean over the workers", rank,
                        gap(w, right)));
  });
  CHECK(true);
}

TEST_CASE("31.4: a mean with an overlap is started and not waited for") {
  const double whole = seconds_of_rounds(0), hidden = seconds_of_rounds(3);
  expect(whole > 13, fmt::format("three rounds of 4 s without overlap take {:.0f} s: the means "
                                 "cost nothing, so none were made",
                                 whole));
  expect(hidden <= 12.01,
         fmt::format("three rounds of 4 s, with 3 steps for a mean to arrive, take {:.0f} s: start "
                     "it (all_reduce_async) and let arrive() wait",
                     hidden));
}

TEST_CASE("31.4: with bits, outer gradients travel and not weights") {
  // From round to round w is near 1.9 and moves by a hundredth: in 8 bits only the move is precise.
  const Settings settings = {.inner = 2, .rate = 1, .momentum = 0, .bits = 8};
  Numbers right(n);
  for (int64_t round = 0; round < 30; ++round) right = mean_after(right, 2, 2 * round, 2, {1, 1});
  train<Sgd>(2, settings, 60, {}, [&](int, const auto& worker, AnyDiloco&, int64_t step) {
    if (step == 60)
      require(gap(worker.weights(), right) < 0.004,
              fmt::format("after 30 rounds in 8 bits the weights are off by {:.4f}: what travels "
                          "has to be small, so send weights minus fragment.outer, and add it "
                          "again in arrive()",
                          gap(worker.weights(), right)));
  });
  CHECK(true);
}

TEST_CASE("31.4: the traffic has its label") {
  const auto reports = run_ranks(2, [](Communicator& world) {
    Worker<Sgd> worker;
    const auto diloco = solution.make(worker.inner, world, plain(1));
    worker.step(world.rank(), 0);
    diloco->after_step(1);
  });
  const int64_t sent = reports[0].ledger().traffic("diloco.mean").bytes_sent;
  expect(sent >= n * 8, fmt::format("{} bytes are in the ledger under diloco.mean, for a mean of 6 "
                                    "weights: options_.comm.labelled(\"diloco.mean\")",
                                    sent));
}

TEST_CASE("31.5: H = 1, inner SGD, a rate of 1 and no momentum: DDP") {
  for (const int k : {1, 2, 4}) {
    const Numbers shares(static_cast<size_t>(k), 1);
    Numbers right(n);
    for (int64_t step = 0; step < 5; ++step) right = mean_after(right, k, step, 1, shares);
    train<Sgd>(k, plain(1), 5, {}, [&](int rank, const auto& worker, AnyDiloco&, int64_t step) {
      if (step < 5) return;
      const double off = gap(worker.weights(), right);
      require(off <= 1e-9, fmt::format("worker {} of {}: off by {:.4f} from DDP's weights. The sum "
                                       "is over the workers: divide by the sum of their weights",
                                       rank, k, off));
    });
  }
  CHECK(true);
}

TEST_CASE("31.5: one worker with AdamW inside: one rank, to the last bit") {
  Worker<AdamW> alone;
  for (int64_t step = 0; step < 9; ++step) alone.step(0, step);
  train<AdamW>(1, plain(3), 9, {}, [&](int, const auto& worker, AnyDiloco&, int64_t step) {
    if (step < 9) return;
    require(
        worker.weights() == alone.weights(),
        fmt::format("one worker, a rate of 1, no momentum, AdamW inside: off by {:.2g} from one "
                    "rank's weights. A worker keeps the state of its inner optimizer from "
                    "round to round",
                    gap(worker.weights(), alone.weights())));
  });
  CHECK(true);
}

TEST_CASE("31.5: all workers hold the same weights and the same momentum after a round") {
  std::vector<Numbers> weights(3), momenta(3);
  train<Sgd>(3, {.inner = 2}, 4, {}, [&](int rank, const auto& worker, AnyDiloco& diloco, int64_t) {
    weights[static_cast<size_t>(rank)] = worker.weights();
    momenta[static_cast<size_t>(rank)] = diloco.fragments()[0].momentum.values();
  });
  Numbers w(n), v(n);  // the same rounds without ranks
  for (int64_t round = 0; round < 2; ++round) {
    const Numbers mean = mean_after(w, 3, 2 * round, 2, {1, 1, 1});
    for (size_t i = 0; i < w.size(); ++i) {
      v[i] = 0.9 * v[i] + w[i] - mean[i];
      w[i] -= 0.7 * (w[i] - mean[i] + 0.9 * v[i]);
    }
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    expect(momenta[rank] == momenta[0],
           "the workers' momenta differ: average first, then take one outer step that is the same "
           "everywhere");
    expect(gap(weights[rank], w) <= 1e-9,
           fmt::format("worker {}: off by {:.4f} after two rounds with momentum", rank,
                       gap(weights[rank], w)));
  }
}

TEST_CASE("31.5: a mean that comes late leaves a worker a share of its own weights") {
  // The weights at the end of round one, and two more steps; then the mean arrives.
  Numbers right;
  const Numbers mean = mean_after(Numbers(n), 2, 0, 3, {1, 1}),
                own = mean_after(Numbers(n), 1, 0, 5, {1});
  for (size_t i = 0; i < mean.size(); ++i) right.push_back(0.25 * own[i] + 0.75 * mean[i]);
  const Settings settings = {.inner = 3, .rate = 1, .momentum = 0, .overlap = 2, .keep = 0.25};
  train<Sgd>(2, settings, 6, {}, [&](int rank, const auto& worker, AnyDiloco&, int64_t step) {
    if (rank != 0 || step != 5) return;
    require(gap(worker.weights(), right) <= 1e-9,
            "H = 3, a mean that arrives 2 steps later, keep = 0.25: a worker goes on with a "
            "quarter of its own weights and the rest of the new ones: set_weights(options_.keep)");
  });
  CHECK(true);
}
