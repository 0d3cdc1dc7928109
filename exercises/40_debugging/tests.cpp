// The graded cases of exercise 40. Each looks for what its report describes, and then at what
// worked before.
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Files;
using exercise::Gradients;
using exercise::run;
using exercise::solution;
using exercise::Values;

namespace {

std::string list(const std::vector<int64_t>& rows) {
  return fmt::format("{}", fmt::join(rows, ", "));
}

// What each of p ranks reads in a step of an order of 24 rows, three each.
std::vector<std::vector<int64_t>> rows_read(const std::vector<int64_t>& order, int p,
                                            int64_t step) {
  std::vector<std::vector<int64_t>> by_rank(static_cast<size_t>(p));
  run(p, [&](const Communicator& dp) {
    by_rank[static_cast<size_t>(dp.rank())] = solution.rows_of_step(order, step, 3, dp);
  });
  return by_rank;
}

Values random_values(int64_t count, const std::string& name) {
  const Tensor made = exercise::normal_numbers({count}, 40, name);
  return made.values();
}

// The world of tp x dp ranks, tp innermost, and what gradient_norm says on each rank.
Values norms(int tp, int dp, double parts, double copies) {
  Values found(static_cast<size_t>(tp * dp));
  run(tp * dp, [&](const Communicator& world) {
    const Communicator own = world.split(world.rank() / tp, world.rank());
    const double mine = parts * (1 + world.rank() % tp);  // ranks of tp hold different parts
    found[static_cast<size_t>(world.rank())] = solution.gradient_norm(mine, copies, own, world);
  });
  return found;
}

// The ranks met once a step, however many microbatches there are.
void expect_one_reduction() {
  const auto sent = [](const exercise::Accumulate& accumulate) {
    int64_t bytes = 0;
    for (const RankReport& each : run(2, [&](const Communicator& dp) {
           accumulate(std::vector<Values>(4, Values(5, 1.0)), dp);
         }))
      bytes += each.ledger().total_traffic().bytes_sent;
    return bytes;
  };
  const int64_t once = sent([](const std::vector<Values>& own, const Communicator& dp) {
    Values sum = own.front();
    dp.all_reduce(sum);
    return sum;
  });
  const int64_t got = sent(solution.accumulated);
  expect(got < 2 * once, fmt::format("4 microbatches on 2 ranks send {} bytes, and one all_reduce "
                                     "sends {}: add up on the rank first, then reduce once",
                                     got, once));
}

}  // namespace

TEST_CASE("40.1: the ranks of a step read what one rank would, each row once") {
  std::vector<int64_t> order(24);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>((7 * i + 5) % 24);
  for (const int p : exercise::ranks({2, 4, 1, 3}))
    for (const int64_t step : {0, 1, 5}) {
      const auto by_rank = rows_read(order, p, step);
      std::vector<int64_t> all, expected;
      for (const auto& rows : by_rank) all.insert(all.end(), rows.begin(), rows.end());
      for (int64_t i = 0; i < 3 * p; ++i)
        expected.push_back(order[static_cast<size_t>((step * 3 * p + i) % 24)]);
      for (int r = 1; r < p; ++r)
        for (const int64_t row : by_rank[static_cast<size_t>(r)])
          expect(std::count(by_rank[0].begin(), by_rank[0].end(), row) == 0,
                 fmt::format("step {} on {} ranks: rank 0 reads rows {}, and rank {} reads {}: "
                             "row {} is read by both",
                             step, p, list(by_rank[0]), r, list(by_rank[static_cast<size_t>(r)]),
                             row));
      std::sort(all.begin(), all.end());
      std::sort(expected.begin(), expected.end());
      expect(all == expected, fmt::format("step {} on {} ranks: together they read rows {}; one "
                                          "rank with as large a batch reads {}",
                                          step, p, list(all), list(expected)));
    }
}

TEST_CASE("40.2: the gradient is the mean over all microbatches of all ranks") {
  for (const int p : exercise::ranks({2, 1, 4}))
    for (const int microbatches : {4, 1, 3}) {
      std::vector<Values> left(static_cast<size_t>(p));
      run(p, [&](const Communicator& dp) {
        std::vector<Values> own;
        for (int m = 0; m < microbatches; ++m)
          own.push_back(random_values(5, fmt::format("rank {} microbatch {}", dp.rank(), m)));
        left[static_cast<size_t>(dp.rank())] = solution.accumulated(own, dp);
      });
      Values expected(5);
      for (int r = 0; r < p; ++r)
        for (int m = 0; m < microbatches; ++m) {
          const Values one = random_values(5, fmt::format("rank {} microbatch {}", r, m));
          for (size_t i = 0; i < 5; ++i) expected[i] += one[i] / (p * microbatches);
        }
      Clues clues;
      clues.what = fmt::format("the gradient of {} ranks, {} microbatches each", p, microbatches);
      clues.ranks = p;
      for (const Values& each : left) expect(compare(each, expected, 1e-12, clues));
    }
  expect_one_reduction();
}

TEST_CASE("40.3: every row of a batch counts, and each as much as the others") {
  for (const auto& [rows, size] : {std::pair<int64_t, int64_t>{10, 4}, {8, 4}, {3, 4}, {9, 1}}) {
    const std::string what = fmt::format("{} rows in microbatches of {}", rows, size);
    int64_t next = 0;
    for (const exercise::Part& each : solution.microbatches_of(rows, size)) {
      expect(each.end - each.begin <= size,
             fmt::format("{}: rows {} to {} are {} in one microbatch, and at most {} fit", what,
                         each.begin, each.end - 1, each.end - each.begin, size));
      expect(each.begin == next && each.end > each.begin,
             fmt::format("{}: rows {} to {} come after row {}", what, each.begin, each.end - 1,
                         next - 1));
      const double weight = static_cast<double>(each.end - each.begin) / static_cast<double>(rows);
      expect(std::abs(each.weight - weight) <= 1e-12,
             fmt::format("{}: rows {} to {} weigh {:.4g} in the batch's mean, and {} of {} rows "
                         "weigh {:.4g}",
                         what, each.begin, each.end - 1, each.weight, each.end - each.begin, rows,
                         weight));
      next = each.end;
    }
    expect(next == rows,
           fmt::format("{}: rows {} to {} are in no microbatch", what, next, rows - 1));
  }
}

// What train_until returns on each rank; losses[rank].
std::vector<Values> means_of(const std::vector<Values>& losses, const std::string& what) {
  std::vector<Values> means(losses.size());
  try {
    run(static_cast<int>(losses.size()), [&](const Communicator& dp) {
      const auto r = static_cast<size_t>(dp.rank());
      means[r] = solution.train_until(losses[r], dp);
    });
  } catch (const Error& error) {
    FAIL("the run of ranks whose losses are "
         << what << " never ends: one rank has left the loop, and the others wait for it\n    "
         << std::string(error.what()));
  }
  return means;
}

TEST_CASE("40.4: all ranks stop at the same step, and none waits") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<Values>> runs = {
      {{4, 3, nan, 2}, {4, 5, 6, 7}},
      {{1, 2, 3}, {3, 2, 1}},
      {{nan, 1}, {1, nan}},
      {{4, 3, 2}, {4, infinite, 1}},
      {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, nan, 4}, {5, 6, 7, 8}},
  };
  for (const std::vector<Values>& losses : runs) {
    std::string what;
    for (const Values& own : losses)
      what += fmt::format("{}{}", what.empty() ? "" : " and ", fmt::join(own, ", "));
    const std::vector<Values> means = means_of(losses, what);
    Values expected;
    for (size_t step = 0; step < losses[0].size(); ++step) {
      double sum = 0;
      for (const Values& own : losses) sum += own[step];
      if (!std::isfinite(sum)) break;
      expected.push_back(sum / static_cast<double>(losses.size()));
    }
    for (const Values& each : means)
      expect(each == expected,
             fmt::format("losses {}: the mean losses are {}, expected {}: all ranks stop where the "
                         "first loss of any of them is not finite",
                         what, fmt::join(each, ", "), fmt::join(expected, ", ")));
  }
}

TEST_CASE("40.5: a bf16 weight moves as far as an f32 weight, but for its last rounding") {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor weight = Tensor::full({3}, 1, DType::f32).to(dtype);
    const Values gradient = {0.3, 1, -2};
    const int steps = 200;
    const Tensor moved = solution.trained(weight, gradient, 1e-4, steps);
    expect(moved.dtype() == dtype, fmt::format("the weight has become {}", moved.describe()));
    Values expected;
    double momentum = 0, sum = 0;
    for (int i = 0; i < steps; ++i) sum += momentum = 0.9 * momentum + 1;
    for (const double g : gradient) expected.push_back(1 - 1e-4 * g * sum);
    for (size_t i = 0; i < 3; ++i) {
      const double got = moved.values()[i], far = std::abs(got - expected[i]);
      const double allowed = dtype == DType::bf16 ? 0.005 : 1e-5;
      expect(far <= allowed,
             fmt::format("{} steps of a gradient of {} with a rate of 1e-4: the {} weight went "
                         "from 1 to {:.6g}, expected {:.6g}. Near 1 two neighbours in bf16 are "
                         "0.004 apart: what is less than half of it changes nothing, and is not "
                         "remembered either",
                         steps, gradient[i], name(dtype), got, expected[i]));
    }
  }
}

TEST_CASE("40.6: the norm is the whole gradient's, on any mesh") {
  for (const auto& [tp, dp] : {std::pair{2, 3}, {1, 4}, {4, 1}, {2, 2}, {1, 1}}) {
    const double parts = 5, copies = 7;
    double whole = copies;
    for (int r = 0; r < tp; ++r) whole += parts * (1 + r);
    for (const double got : norms(tp, dp, parts, copies)) {
      const double times = got * got / whole;
      expect(std::abs(got - std::sqrt(whole)) <= 1e-12 * whole,
             fmt::format("tp = {}, dp = {}: the squares add up to {:.6g}, {:.3g} times the whole "
                         "gradient's, {:.6g}. Who holds a part of it, and who a copy?",
                         tp, dp, got * got, times, whole));
    }
  }
}

namespace {

// The checkpoint that p ranks save, each two shards; the last rank comes late. `waited`: nobody
// went on before it.
Files saved_by(int p, bool& waited) {
  std::vector<Files> by_rank(static_cast<size_t>(p));
  std::atomic<int> begun{0};
  std::atomic<bool> early{false};
  run(p, [&](const Communicator& dp) {
    if (dp.rank() == p - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Files& own = by_rank[static_cast<size_t>(dp.rank())];
    ++begun;
    for (const char* name : {"momentum", "variance"})
      solution.save_shard(own, name, random_values(3, fmt::format("{} {}", name, dp.rank())), dp);
    if (begun < p) early = true;
  });
  Files all;
  for (const Files& own : by_rank) all.insert(own.begin(), own.end());
  waited = !early;
  return all;
}

std::string names_of(const Files& files) {
  std::string names;
  for (const auto& [name, values] : files) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

TEST_CASE("40.7: a checkpoint holds the shards of all ranks") {
  for (const int p : exercise::ranks({4, 1, 3})) {
    bool waited = false;
    const Files files = saved_by(p, waited);
    expect(std::ssize(files) == 2 * p,
           fmt::format("{} ranks with two shards each, and the checkpoint has {} file{}: {}", p,
                       files.size(), files.size() == 1 ? "" : "s", names_of(files)));
    for (const char* name : {"momentum", "variance"}) {
      Values expected;
      for (int r = 0; r < p; ++r)
        for (const double value : random_values(3, fmt::format("{} {}", name, r)))
          expected.push_back(value);
      Clues clues;
      clues.what = fmt::format("what is restored of {} from {} shards", name, p);
      clues.ranks = p;
      expect(compare(solution.restored(files, name, p, 3), expected, 0, clues));
    }
    expect(waited,
           fmt::format("{} ranks: one went on while another had not saved its shard yet. Whoever "
                       "stops then leaves a checkpoint that misses a shard: keep the barrier",
                       p));
  }
}

TEST_CASE("40.8: all that belongs to a norm is summed over tp, and nothing else") {
  const std::vector<std::string> names = {
      "block 0.norm.bias", "block 0.norm.weight", "block 0.up.bias",    "block 0.up.weight",
      "final norm.bias",   "final norm.weight",   "block 1.down.weight"};
  const auto of_rank = [](const std::string& name, int r) {
    return random_values(3, fmt::format("{} on {}", name, r));
  };
  for (const int p : exercise::ranks({2, 1, 4})) {
    std::vector<Gradients> left(static_cast<size_t>(p));
    run(p, [&](const Communicator& tp) {
      Gradients& mine = left[static_cast<size_t>(tp.rank())];
      for (const std::string& name : names) mine[name] = of_rank(name, tp.rank());
      solution.finish_gradients(mine, tp);
    });
    for (int rank = 0; rank < p; ++rank)
      for (const std::string& name : names) {
        const bool of_a_norm = name.find("norm") != std::string::npos;
        Values expected(3);
        for (int r = 0; r < p; ++r)
          for (size_t i = 0; i < 3; ++i)
            if (of_a_norm || r == rank) expected[i] += of_rank(name, r)[i];
        Clues clues;
        clues.what = fmt::format("the gradient of {} on rank {} of {}", name, rank, p);
        clues.suspects = {
            {"this rank's own: the other ranks' tokens are not in it", of_rank(name, rank)}};
        expect(compare(left[static_cast<size_t>(rank)].at(name), expected, 1e-12, clues));
      }
  }
}
