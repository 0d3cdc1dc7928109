// Time-outs and phi-accrual on seeded heartbeats, hangs against crashes, stragglers from arrival
// times.
#include "yotta/resilience/failure_detection.hpp"

#include <doctest/doctest.h>

#include <limits>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {
Watched watched(const HeartbeatPath& path, const Patience& patience) {
  return watch(heartbeat_arrivals(path, 20000, 7), patience);
}
}  // namespace

TEST_CASE("phi is -log10 of a normal distribution's tail") {
  CHECK(phi(1, 1, 0.1) == doctest::Approx(std::log10(2)));
  CHECK(phi(1.3, 1, 0.1) == doctest::Approx(-std::log10(1.3498980e-3)).epsilon(1e-6));  // 3 sigma
  const std::vector<double> gaps = {0.9, 1.1, 0.9, 1.1};
  const double patience = phi_accrual(8)(gaps);
  CHECK(phi(patience, 1, 0.1) == doctest::Approx(8).epsilon(1e-6));
  CHECK(phi_accrual(8)({}) == std::numeric_limits<double>::infinity());  // it knows nothing
  CHECK(phi_accrual(8, 0.5)(gaps) == doctest::Approx(1 + 5 * (patience - 1)));
}

TEST_CASE("heartbeats arrive in order, after they were sent, and the same ones for a seed") {
  const HeartbeatPath path{0.3, 0.01, 5};
  const std::vector<double> arrivals = heartbeat_arrivals(path, 1000, 3);
  for (size_t i = 0; i < arrivals.size(); ++i) {
    CHECK(arrivals[i] >= static_cast<double>(i));
    if (i > 0) CHECK(arrivals[i] >= arrivals[i - 1]);
  }
  CHECK(arrivals == heartbeat_arrivals(path, 1000, 3));
  CHECK(arrivals != heartbeat_arrivals(path, 1000, 4));
}

TEST_CASE("one time-out does not suit every path; phi takes its patience from the path") {
  const HeartbeatPath quiet{0.01, 0, 0}, busy{0.2, 0, 0};
  CHECK(watched(quiet, time_out(1.5)).false_alarms == 0);
  CHECK(watched(busy, time_out(1.5)).false_alarms > 500);
  for (const HeartbeatPath& path : {quiet, busy})
    CHECK(watched(path, phi_accrual(8)).false_alarms == 0);
  CHECK(watched(busy, time_out(5)).false_alarms == 0);  // and 4 s too long for the quiet one
  CHECK(watched(quiet, phi_accrual(8)).seconds_to_notice < 1.2);
  CHECK(watched(busy, phi_accrual(8)).seconds_to_notice > 2);
}

TEST_CASE("pauses are not normally distributed: phi gives many more false alarms than 10^-8") {
  const HeartbeatPath pauses{0.01, 0.001, 5};
  const int64_t alarms = watched(pauses, phi_accrual(8)).false_alarms;
  CHECK(alarms > 5);
  CHECK(alarms < 100);
  CHECK(watched(pauses, time_out(8)).false_alarms == 0);
}

TEST_CASE("a watcher says nothing before its window is full") {
  const std::vector<double> arrivals = {0, 1, 2, 50, 51};
  CHECK(watch(arrivals, time_out(3), 100).false_alarms == 0);
  CHECK(watch(arrivals, time_out(3), 2).false_alarms == 1);
  CHECK(watch(arrivals, time_out(48), 2).false_alarms == 0);
}

TEST_CASE("patience follows from the gaps before, and not from the one that is waited for") {
  const Patience twice = [](std::span<const double> gaps) { return 2 * gaps.back(); };
  const std::vector<double> arrivals = {0, 1, 2, 10};
  CHECK(watch(arrivals, twice, 2).false_alarms == 1);
  CHECK(watch(arrivals, twice, 2).seconds_to_notice == 16);
}

TEST_CASE("who is behind hangs, who is silent has crashed, the others wait") {
  using enum Health;
  const auto diagnosis = [](const std::vector<RankState>& ranks) { return diagnose_hang(ranks); };
  CHECK(diagnosis({{true, 8}, {true, 7}, {true, 8}}) == std::vector{waits, hangs, waits});
  CHECK(diagnosis({{true, 8}, {false, 8}, {true, 8}}) == std::vector{waits, crashed, waits});
  CHECK(diagnosis({{true, 8}, {false, 6}, {true, 7}}) == std::vector{waits, crashed, hangs});
  CHECK(diagnosis({{true, 8}, {true, 8}, {true, 8}}) == std::vector{waits, waits, waits});
}

TEST_CASE("thread ranks: the counts of collectives name the rank that stays away") {
  std::array<std::atomic<int64_t>, 4> entered{};
  const auto body = [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    for (int step = 0; step < 5; ++step) {
      if (rank == 2 && step == 3) {  // the others wait for it in their fourth all_reduce
        while (entered[0] < 4 || entered[1] < 4 || entered[3] < 4) std::this_thread::yield();
        return;
      }
      ++entered[rank];
      std::vector<float> x(4);
      world.all_reduce(x);
    }
  };
  CHECK_THROWS_AS(run_ranks(4, body), Deadlock);
  std::vector<RankState> ranks;
  for (const auto& each : entered) ranks.push_back({true, each});
  const std::vector<Health> health = diagnose_hang(ranks);
  for (size_t rank = 0; rank < 4; ++rank)
    CHECK(health[rank] == (rank == 2 ? Health::hangs : Health::waits));
}

namespace {
Arrivals arrivals_with(const Stragglers& stragglers) {
  const Timed run = run_on(switched(ideal_chip(1), 8), 8,
                           [](Communicator& world) {
                             for (int step = 0; step < 20; ++step) {
                               std::vector<float> x(8);
                               charge({"work", DType::f32, 100, 0, 0});
                               world.all_reduce(x);
                             }
                           },
                           {.stragglers = stragglers});
  return arrivals_of(run.trace);
}
}  // namespace

TEST_CASE("stragglers are found from arrival times, with jitter and two of them") {
  CHECK(find_stragglers(arrivals_with({})).empty());
  CHECK(find_stragglers(arrivals_with({.jitter = 0.2})).empty());
  const Stragglers two{.jitter = 0.1, .slow_ranks = {{2, 1.5}, {5, 1.2}}};
  const Arrivals arrivals = arrivals_with(two);
  CHECK(find_stragglers(arrivals) == std::vector{2, 5});
  const std::vector<double> slow = slowness(arrivals);
  CHECK(slow[2] == doctest::Approx(1.5).epsilon(0.05));
  CHECK(slow[5] == doctest::Approx(1.2).epsilon(0.05));
  CHECK(contains(message_of([] { slowness({{1, 2}}); }), "1 collectives say nothing"));
}
