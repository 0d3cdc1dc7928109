// The graded cases of exercise 30: small jobs, whose right answers can be worked out by hand.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/resilience/failure_arithmetic.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Have;
using exercise::Healed;
using exercise::Jobs;
using exercise::Share;
using exercise::solution;
using exercise::Way;

namespace {

using Ints = std::vector<int>;

std::string list(const Ints& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ", ")); }

std::vector<bool> all_but(int places, const Ints& lost) {
  std::vector<bool> ready(static_cast<size_t>(places), true);
  for (const int place : lost) ready[static_cast<size_t>(place)] = false;
  return ready;
}
constexpr Jobs job{4, 2};  // 4 replicas of 2 parts: places 0 1, 2 3, 4 5, 6 7

}  // namespace

// ---- 30.1 ----

TEST_CASE("30.1: a snapshot costs as much as the work that is done again") {
  for (const double save : {1.0, 10.0, 100.0}) {
    const double young = solution.intervals(save, 7200).young;
    const double snapshots = save / young, again = young / (2 * 7200);
    expect(
        std::abs(snapshots - again) < 1e-9,
        fmt::format("a snapshot of {} s, a failure every 7200 s: with Young's interval of {:.1f} s "
                    "snapshots cost {:.4f} of the time, and failures, which lose half an interval "
                    "each, {:.4f}. The sum is least where both are equal",
                    save, young, snapshots, again));
  }
}

TEST_CASE("30.1: a time that is not above 0 is an error") {
  for (const auto& [save, mean] :
       {std::pair{0.0, 7200.0}, {-1.0, 7200.0}, {10.0, 0.0}, {10.0, -1.0}})
    expect(
        !exercise::error_of([&] { solution.intervals(save, mean); }).empty(),
        fmt::format("a snapshot of {} s and a failure every {} s have an interval by your answer: "
                    "it is an error",
                    save, mean));
  expect(solution.intervals(0.01, 0.5).young > 0, "half a second between failures is a time too");
}

TEST_CASE("30.1: no interval is better than Daly's") {
  for (const double save : {10.0, 300.0, 1000.0}) {
    const auto wasted = [&](double interval) {
      return 1 - expected_goodput({interval, save, 0}, 3600);
    };
    double best = 1;
    for (double interval = 1; interval < 1e4; interval *= 1.002)
      if (wasted(interval) < wasted(best)) best = interval;
    const double daly = solution.intervals(save, 3600).daly;
    expect(wasted(daly) < wasted(best) + 5e-4,
           fmt::format("a snapshot of {} s, a failure every 3600 s: Daly's interval of {:.0f} s "
                       "wastes more ({:.4f} of the time) than {:.0f} s ({:.4f}). The series: "
                       "young (1 + root(x) / 3 + x / 9) - save, with x = save / (2 mean)",
                       save, daly, wasted(daly), best, wasted(best)));
  }
}

TEST_CASE("30.1: Daly's series has three terms") {
  for (const double save : {10.0, 300.0, 3000.0}) {
    const exercise::Best best = solution.intervals(save, 3600);
    const double x = save / 7200,
                 right = std::sqrt(7200 * save) * (1 + std::sqrt(x) / 3 + x / 9) - save;
    expect(std::abs(best.daly - right) < 1e-9 * right,
           fmt::format("a snapshot of {} s, a failure every 3600 s: {:.3f} s, and the series gives "
                       "{:.3f} s. Its three terms are 1, root(x) / 3 and x / 9, with "
                       "x = save / (2 mean)",
                       save, best.daly, right));
  }
}

TEST_CASE(
    "30.1: the series holds for snapshots shorter than 2 mean, and mean is taken from there") {
  for (const double save : {4000.0, 7000.0}) {
    const double x = save / 7200, daly = solution.intervals(save, 3600).daly,
                 right = std::sqrt(7200 * save) * (1 + std::sqrt(x) / 3 + x / 9) - save;
    expect(std::abs(daly - right) < 1e-9 * right,
           fmt::format("a snapshot of {} s, a failure every 3600 s: {:.0f} s, and the series gives "
                       "{:.0f} s. It holds up to save = 2 mean, which is 7200 s here",
                       save, daly, right));
  }
  for (const double save : {7200.0, 10000.0}) {
    const double daly = solution.intervals(save, 3600).daly;
    expect(daly == 3600,
           fmt::format("a snapshot of {} s, a failure every 3600 s: {:.0f} s, and not "
                       "3600 s. From save = 2 mean on the series does not hold, and "
                       "Daly takes the mean",
                       save, daly));
  }
}

// ---- 30.2 ----

TEST_CASE("30.2: a replica that misses a part is not whole") {
  const auto check = [](const Jobs& places, const Ints& lost, const Ints& right,
                        const std::string& why) {
    const Ints found = solution.whole(places, all_but(places.replicas * places.parts, lost));
    expect(found == right,
           fmt::format("{} replicas of {} parts, places {} lost: whole are {}, not {}{}",
                       places.replicas, places.parts, list(lost), list(found), list(right), why));
  };
  check(job, {3}, {0, 2, 3}, ". Replica 1 misses part 1 of the model");
  check(job, {0, 1, 6}, {1, 2}, "");
  check(job, {}, {0, 1, 2, 3}, "");
  check({3, 1}, {1}, {0, 2}, "");
  check({1, 4}, {2}, {}, ". Its first and its last part are there, and part 2 is not");
}

// ---- 30.3 ----

namespace {
void check_epoch(Way way, const Ints& lost, int quorum, const Ints& right, const std::string& why) {
  constexpr const char* names[] = {"restart", "drop", "replay"};
  const Ints found = solution.epoch(way, job, all_but(8, lost), quorum);
  expect(found == right, fmt::format("{}, quorum {}, places {} lost: {} take part, not {}. {}",
                                     names[static_cast<int>(way)], quorum, list(lost), list(found),
                                     list(right), why));
}
}  // namespace

TEST_CASE("30.3: only whole replicas take part") {
  check_epoch(Way::drop, {}, 1, {0, 1, 2, 3, 4, 5, 6, 7}, "All are there");
  for (const Way way : {Way::drop, Way::replay})
    check_epoch(way, {3}, 1, {0, 1, 4, 5, 6, 7},
                "place 2 is there, but its replica misses a part: it cannot train");
}

TEST_CASE("30.3: the quorum counts whole replicas") {
  for (const Way way : {Way::drop, Way::replay}) {
    check_epoch(way, {1, 2, 5}, 1, {6, 7}, "1 whole replica is enough");
    check_epoch(way, {1, 2, 5}, 2, {},
                "Only 1 whole replica is left, and 2 are needed: all wait, so nobody takes part");
    check_epoch(way, {1, 2}, 2, {4, 5, 6, 7}, "2 whole replicas are as many as are needed");
  }
}

TEST_CASE("30.3: with no replica left nobody takes part, whatever the quorum") {
  for (const int quorum : {0, 1})
    check_epoch(Way::drop, {1, 2, 5, 6}, quorum, {}, "Nobody is left");
}

TEST_CASE("30.3: restart waits for all") {
  check_epoch(Way::restart, {3}, 1, {},
              "restart computes what a run without failures computes, on the same ranks: it waits "
              "until every place has a member");
  check_epoch(Way::restart, {}, 1, {0, 1, 2, 3, 4, 5, 6, 7}, "All are there");
}

// ---- 30.4 ----

namespace {
const Ints two_by_two = {0, 1, 0, 1};  // two replicas of two ranks

Healed heal(const std::vector<Have>& offers, const Ints& parts = two_by_two) {
  Healed found = solution.heal(offers, parts);
  expect(found.sources.size() == parts.size(),
         fmt::format("{} ranks take part, and sources has {} entries", parts.size(),
                     found.sources.size()));
  return found;
}
void check_sources(const Healed& found, const Ints& right, const std::string& why) {
  expect(found.sources == right,
         fmt::format("sources {}, not {}. {}", list(found.sources), list(right), why));
}
}  // namespace

TEST_CASE("30.4: half a checkpoint is none") {
  const Healed found = heal({{0, 0, 7}, {0, 0, 8}, {1, 1, 7}, {1, 1, 6}, {2, 0, 8}, {3, 1, 7}});
  const char* const why = found.step == 8
                              ? "Part 1 after step 8 is nowhere, as in a checkpoint of which half "
                                "was written"
                              : "7 is the newest step that both parts are there after";
  expect(found.step == 7, fmt::format("part 0 is there after steps 7 and 8, part 1 after 6 and 7: "
                                      "all go on after step {}, not 7. {}",
                                      found.step, why));
  check_sources(found, {0, 1, 0, 3}, "Rank 2 has its part after step 8 alone");
  const Healed of_three = heal({{0, 0, 4}, {1, 1, 4}, {2, 2, 4}, {0, 0, 5}, {1, 1, 5}}, {0, 1, 2});
  expect(
      of_three.step == 4,
      fmt::format("three parts: 0 and 1 are there after steps 4 and 5, part 2 after 4 alone: all "
                  "go on after step {}, not 4. Every number in parts must be there",
                  of_three.step));
}

TEST_CASE("30.4: the newest step of each part is not enough") {
  const Healed found = heal({{0, 0, 6}, {0, 0, 8}, {1, 1, 6}, {1, 1, 7}});
  expect(found.step == 6,
         fmt::format("part 0 is there after steps 6 and 8, part 1 after 6 and 7: all go on after "
                     "step {}, not 6, the only step that both parts are there after",
                     found.step));
}

TEST_CASE("30.4: who is behind gets the step that all go on from") {
  const Healed found =
      heal({{0, 0, 7}, {0, 0, 8}, {1, 1, 7}, {1, 1, 8}, {2, 0, 6}, {2, 0, 7}, {3, 1, 8}});
  expect(found.step == 8,
         fmt::format("every part is there after step 7, and after step 8: all go on "
                     "after the newest, and not after {}",
                     found.step));
  expect(
      found.sources[2] == 0,
      fmt::format("rank 2 has its part after steps 6 and 7, and all go on after step 8: its source "
                  "is {}, not 0. With what it has it would join in the middle of what the others "
                  "have done",
                  found.sources[2]));
  const Healed few =
      heal({{0, 0, 7}, {0, 0, 8}, {1, 1, 7}, {1, 1, 8}, {2, 0, 7}, {3, 1, 7}, {4, 0, 7}, {5, 1, 7}},
           {0, 1, 0, 1, 0, 1});
  expect(
      few.step == 8,
      fmt::format("all six ranks have their part after step 7, and ranks 0 and 1 theirs after "
                  "step 8 as well: all go on after step {}, not 8. That most are behind does not "
                  "matter: every part is there after the newest step",
                  few.step));
}

TEST_CASE("30.4: the data go on where the weights do") {
  const Healed found = heal({{0, 0, 5}, {1, 1, 5}});
  expect(found.step == 5,
         fmt::format("weights after step 5, and the count of steps is {}: a step's "
                     "number says on which sequences it trains, so the run would "
                     "train on the same sequences again",
                     found.step));
}

TEST_CASE("30.4: who has its part keeps it") {
  const Healed found = heal({{3, 1, 4}, {2, 0, 4}, {1, 1, 4}});
  for (const int rank : {1, 2, 3})
    expect(found.sources[static_cast<size_t>(rank)] == rank,
           fmt::format("rank {} has part {} after step 4, and gets it from rank {}", rank, rank % 2,
                       found.sources[static_cast<size_t>(rank)]));
  expect(found.sources[0] == 2,
         fmt::format("rank 0 is new: it gets part 0 from rank 2, the only one "
                     "that has it, not from {}",
                     found.sources[0]));
}

TEST_CASE("30.4: a copy of another rank's part counts, too") {
  const Healed found = heal({{0, 0, 4}, {0, 1, 4}});
  expect(found.step == 4,
         fmt::format("rank 0 has its own part 0 and a copy of part 1, both after step 4: all go on "
                     "after step {}, not 4",
                     found.step));
  check_sources(found, {0, 0, 0, 0}, "Rank 0 has both parts, and the others are new");
  check_sources(heal({{1, 0, 4}, {3, 1, 4}}), {1, 3, 1, 3},
                "Rank 1 has a copy of part 0, and not its own part 1: it is not its own source");
}

TEST_CASE("30.4: of several that have a part the lowest rank gives it") {
  check_sources(heal({{3, 0, 4}, {2, 0, 4}, {3, 1, 4}}), {2, 3, 2, 3},
                "Part 0 is with ranks 3 and 2, in this order of the offers: rank 0 gets it from 2, "
                "the lowest");
  check_sources(heal({{0, 0, 6}, {2, 0, 6}, {3, 1, 6}}, {0, 1, 0, 1, 0, 1}), {0, 3, 2, 3, 0, 3},
                "Part 0 is with ranks 0 and 2: rank 4 gets it from 0, the lowest, and not from the "
                "nearest");
  check_sources(heal({{5, 2, 9}, {4, 1, 9}, {3, 0, 9}, {0, 0, 9}}, {0, 1, 2, 0, 1, 2}),
                {0, 4, 5, 3, 4, 5}, "Two replicas of three ranks; ranks 1 and 2 are new");
}

TEST_CASE("30.4: nothing is left: all begin again") {
  for (const std::vector<Have>& offers : {std::vector<Have>{}, {{0, 0, 4}, {2, 0, 4}}}) {
    const Healed found = heal(offers);
    expect(found.step == 0 && found.sources == Ints{-1, -1, -1, -1},
           fmt::format("part 1 is in no memory: step {} and sources {}, not 0 and all -1",
                       found.step, list(found.sources)));
  }
}

// ---- 30.5 ----

namespace {
struct Model {
  std::vector<ParameterPtr> parameters;
  AdamW optimizer;

  Model(uint64_t seed, DType dtype)
      : parameters({make_parameter("a", {2, 3}, true, normal(1), seed, dtype),
                    make_parameter("b", {1, 4}, false, normal(1), seed, dtype)}),
        optimizer(parameters) {}
  void step(int64_t step) {
    for (const ParameterPtr& each : parameters)
      each->grad = Tensor::full(each->value.shape(), 0.01 * static_cast<double>(1 + step % 3));
    optimizer.step(0.01);
  }
};

void check_healed(DType dtype, const char* why) {
  Model peer(1, dtype), healed(2, dtype);
  for (int64_t step = 0; step < 5; ++step) peer.step(step);
  const auto from = solution.memory(peer.optimizer), to = solution.memory(healed.optimizer);
  expect(from.size() == to.size(), "two optimizers of the same model lie in different pieces");
  for (size_t i = 0; i < from.size(); ++i) {
    expect(from[i].size() == to[i].size(), "pieces of two optimizers have different sizes");
    std::memcpy(to[i].data(), from[i].data(), from[i].size());
  }
  healed.optimizer.set_steps(peer.optimizer.steps());
  for (size_t i = 0; i < peer.parameters.size(); ++i)
    expect(peer.parameters[i]->value.values() == healed.parameters[i]->value.values(),
           fmt::format("a rank gets from its peer what memory_of lists, {} pieces, and then their "
                       "weights {} differ. The next forward pass reads each slot's "
                       "parameter->value, also where there is an f32 master",
                       from.size(), peer.parameters[i]->name));
  for (int64_t step = 5; step < 8; ++step) {
    peer.step(step), healed.step(step);
    for (size_t i = 0; i < peer.parameters.size(); ++i)
      expect(
          peer.parameters[i]->value.values() == healed.parameters[i]->value.values(),
          fmt::format("a rank gets from its peer what memory_of lists, {} pieces. In step {} both "
                      "take the same gradient, and then their weights {} differ. {}",
                      from.size(), step, peer.parameters[i]->name, why));
  }
}
}  // namespace

TEST_CASE("30.5: a healed rank's next step is its peer's") {
  check_healed(DType::f32, "AdamW's moments belong to it: each slot's state");
}

TEST_CASE("30.5: with bf16 weights, too") {
  check_healed(DType::bf16, "The step is taken on the f32 master of a bf16 weight");
}

// ---- 30.6 ----

namespace {
// The shares of all living ranks, by replica and then index.
std::vector<Share> shares(Way way, int64_t batch, int ranks, int replicas, const Ints& living) {
  std::vector<Share> all;
  for (int own = 0; own < static_cast<int>(living.size()); ++own)
    for (int index = 0; index < ranks; ++index)
      all.push_back(solution.share(way, batch, ranks, index, replicas, living, own));
  return all;
}
int64_t trained(const std::vector<Share>& all) {
  int64_t sequences = 0;
  for (const Share& each : all) sequences += each.end - each.begin;
  return sequences;
}
}  // namespace

TEST_CASE("30.6: drop: the mean is over what is trained on") {
  for (const int64_t batch : exercise::sizes<int64_t>({8, 10, 13, 24}, 5, 40))
    for (const int ranks : {2, 1, 3})
      for (const Ints& living : {Ints{0, 2, 3}, Ints{1}, Ints{0, 1, 2, 3}}) {
        const std::vector<Share> all = shares(Way::drop, batch, ranks, 4, living);
        for (const Share& each : all)
          expect(each.all == trained(all),
                 fmt::format("batch {}, replicas {} of 4 left, ranks in each: {}; they train on {} "
                             "sequences, and the gradient is divided by {}. On average it is then "
                             "too small or too large",
                             batch, list(living), ranks, trained(all), each.all));
      }
}

TEST_CASE("30.6: without a loss each rank has the sequences that it always has") {
  for (const Way way : {Way::restart, Way::drop, Way::replay})
    for (const int ranks : {2, 1, 3}) {
      const std::vector<Share> all = shares(way, 13, ranks, 4, {0, 1, 2, 3});
      for (size_t i = 0; i < all.size(); ++i) {
        const auto rank = static_cast<int>(i);
        const BatchShard right = batch_shard(13, 4 * ranks, rank);
        expect(all[i].begin == right.begin && all[i].end == right.end && all[i].all == 13,
               fmt::format("batch 13, 4 replicas, ranks in each: {}, all there: rank {} of replica "
                           "{} trains on sequences {} to {} of {}, not {} to {} of 13. Each of the "
                           "{} ranks has its own sequences",
                           ranks, rank % ranks, rank / ranks, all[i].begin, all[i].end, all[i].all,
                           right.begin, right.end, 4 * ranks));
      }
    }
}

TEST_CASE("30.6: reroute: any microbatch may come, so a rank has the whole batch") {
  for (const Share& each : shares(Way::reroute, 10, 2, 4, {0, 2, 3}))
    expect(
        each.begin == 0 && each.end == 10 && each.all == 10,
        fmt::format("batch 10, reroute: a rank has sequences {} to {}, of {}; it should have 0 to "
                    "10, of 10",
                    each.begin, each.end, each.all));
}

TEST_CASE("30.6: drop: each keeps its own sequences") {
  const std::vector<Share> left = shares(Way::drop, 10, 2, 4, {0, 2, 3});
  const int same[] = {0, 1, 4, 5, 6, 7};
  for (size_t i = 0; i < left.size(); ++i) {
    const BatchShard whole = batch_shard(10, 8, same[i]);
    expect(left[i].begin == whole.begin && left[i].end == whole.end,
           fmt::format("batch 10, 4 replicas of 2 ranks, replica 1 is lost: rank {} of replica {} "
                       "trains on sequences {} to {}, and on {} to {} when all are there. With "
                       "drop each keeps its own sequences, and those of the lost are left out",
                       i % 2, same[i] / 2, left[i].begin, left[i].end, whole.begin, whole.end));
  }
}

TEST_CASE("30.6: replay: each sequence once") {
  for (const int64_t batch : exercise::sizes<int64_t>({8, 10, 13, 24}, 5, 40))
    for (const Ints& living : {Ints{0, 2, 3}, Ints{1}, Ints{0, 1, 2, 3}}) {
      Ints times(static_cast<size_t>(batch));
      for (const Share& each : shares(Way::replay, batch, 2, 4, living)) {
        expect(each.all == batch,
               fmt::format("replay trains on all {} sequences, not {}", batch, each.all));
        for (int64_t i = each.begin; i < each.end; ++i) ++times[static_cast<size_t>(i)];
      }
      for (size_t i = 0; i < times.size(); ++i)
        expect(times[i] == 1,
               fmt::format("batch {}, replicas {} of 4 left: sequence {} is trained on "
                           "by {}. Replay shares out the whole batch anew",
                           batch, list(living), i, times[i] == 0 ? "nobody" : "several"));
    }
}

// ---- 30.7 ----

// Where little is lost, it is what the library's expected goodput lacks.
TEST_CASE("30.7: what is lost to snapshots, and to work that is done twice") {
  for (const auto& [interval, save] : {std::array{600.0, 1.0}, {60.0, 1.0}, {1200.0, 0.5}}) {
    const double mean = 1e6, expected = 1 - expected_goodput({interval, save, 0}, mean);
    const double got = solution.lost(interval, save, mean);
    const auto near = [&](double lost) { return std::abs(got - lost) <= 1e-9; };
    const double saving = save / interval, redone = interval / (2 * mean);
    std::string why;
    if (near(saving + 2 * redone))
      why = ": a failure comes, on average, halfway to the next snapshot";
    if (near(saving)) why = ": failures cost something, too";
    if (near(redone)) why = ": snapshots cost something, too";
    if (near(save / mean + redone)) why = ": a snapshot is taken each interval, failure or not";
    expect(std::abs(got - expected) <= 0.02 * expected,
           fmt::format(
               "a snapshot of {} s every {} s, a failure every {} s: your answer is {:.3g}, and "
               "{:.3g} is lost{}",
               save, interval, mean, got, expected, why));
  }
}

// ---- 30.8 ----

namespace {

using Names = std::vector<std::string>;

std::string told(const std::vector<exercise::Seen>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i)
    text += fmt::format("{}rank {}{} has entered {}", i > 0 ? ", " : "", i,
                        ranks[i].heartbeat ? "" : " (no heartbeat)", ranks[i].entered);
  return text;
}

void expect_diagnosis(const std::vector<exercise::Seen>& ranks, const Names& right,
                      const char* why) {
  const Names found = solution.diagnosis(ranks);
  expect(found == right, fmt::format("{}: your answer is {}, and it should be {}. {}", told(ranks),
                                     fmt::join(found, " "), fmt::join(right, " "), why));
}

}  // namespace

TEST_CASE("30.8: who has entered fewer collectives hangs, and the others wait for it") {
  const char* why = "The others wait in a collective that this rank has not entered";
  expect_diagnosis({{true, 4}, {true, 4}, {true, 3}, {true, 4}},
                   {"waits", "waits", "hangs", "waits"}, why);
  expect_diagnosis({{true, 3}, {true, 4}, {true, 4}}, {"hangs", "waits", "waits"}, why);
  expect_diagnosis({{true, 9}, {true, 7}, {true, 9}, {true, 8}},
                   {"waits", "hangs", "waits", "hangs"},
                   "Two ranks may hang, at different collectives");
  for (const int last : exercise::ranks({2, 5})) {
    std::vector<exercise::Seen> ranks(static_cast<size_t>(last), {true, 100});
    Names right(ranks.size(), "waits");
    ranks.back().entered = 12, right.back() = "hangs";
    expect_diagnosis(ranks, right, why);
  }
}

TEST_CASE("30.8: if all have entered the same collective, no rank is late") {
  expect_diagnosis({{true, 5}, {true, 5}, {true, 5}}, {"waits", "waits", "waits"},
                   "Nobody is behind: the network is to blame, or the call itself");
  expect_diagnosis({{true, 0}}, {"waits"}, "A single rank is not behind itself");
}

TEST_CASE("30.8: who sends no heartbeat has crashed, whatever it had entered") {
  const char* why = "Without a heartbeat the process is dead. Counts say nothing more about it";
  expect_diagnosis({{true, 4}, {false, 3}, {true, 4}}, {"waits", "crashed", "waits"}, why);
  expect_diagnosis({{true, 4}, {false, 4}, {true, 4}}, {"waits", "crashed", "waits"}, why);
  expect_diagnosis({{true, 4}, {false, 5}, {true, 5}}, {"hangs", "crashed", "waits"}, why);
  expect_diagnosis(
      {{true, 4}, {false, 5}}, {"hangs", "crashed"},
      "A rank may have entered a collective and then died. Who lives and has not come so "
      "far is late all the same");
}
