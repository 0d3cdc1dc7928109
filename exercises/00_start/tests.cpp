// The graded cases of exercise 00. Sends are unbuffered: an order that works only by luck shows.
// The shared counter keeps the virtual clock's time, so whether two ranks race for it does not
// depend on luck either.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <tuple>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

constexpr const char* about_sends =
    "Here a send waits until its receiver is there. send_recv(out, to, in, from) sends and "
    "receives "
    "at once.";

// body(world) on p ranks of a machine on which an operation of one FLOP takes a second. A deadlock
// is told once, with what to try.
void run(int p, const RankBody& body) {
  RunOptions options;
  options.buffered_sends = false;
  options.timeout = 3;
  options.threads = 1;
  try {
    run_on(ideal(p), p, body, {}, options);
  } catch (const RankFailed& error) {
    exercise::rethrow_not_done(error.cause());
    expect(false, fmt::format("with {} ranks: {}", p, error.what()));
  } catch (const Deadlock& error) {
    expect(false, fmt::format("with {} {}: {}\n{}", p, p == 1 ? "rank" : "ranks", error.what(),
                              about_sends));
  }
}

// One call of the counter, which takes a second of the clock.
struct Access {
  double begin, end;
  int rank;
  bool writes;
};

// A counter that remembers who used it when. A write takes a second, a read one or more.
class WatchedCounter : public SharedCounter {
 public:
  WatchedCounter(int64_t value, std::vector<double> read_seconds)
      : value_(value), read_seconds_(std::move(read_seconds)) {}

  int64_t read() override {
    const std::lock_guard lock(mutex_);
    note(false, read_seconds_.at(static_cast<size_t>(context().rank)));
    return value_;
  }
  void write(int64_t value) override {
    const std::lock_guard lock(mutex_);
    note(true, 1);
    value_ = value;
  }

  int64_t value() const { return value_; }
  // In the order of the clock.
  std::vector<Access> accesses() const {
    std::vector<Access> sorted = accesses_;
    std::sort(sorted.begin(), sorted.end(), [](const Access& a, const Access& b) {
      return std::tie(a.begin, a.rank) < std::tie(b.begin, b.rank);
    });
    return sorted;
  }

 private:
  void note(bool writes, double seconds) {
    const auto now = [] { return context().clock->now(compute_lane).end; };
    const double begin = now();
    charge({"use the counter", DType::f32, seconds, 0, 0});
    accesses_.push_back({begin, now(), context().rank, writes});
  }

  std::mutex mutex_;
  int64_t value_;
  std::vector<double> read_seconds_;  // by rank
  std::vector<Access> accesses_;
};

// From a rank's read to its write no other rank may write. Returns what happened where one does;
// empty: none does.
std::string race_of(const std::vector<Access>& all) {
  for (const Access& mine : all) {
    if (!mine.writes) continue;
    double since = mine.begin;  // when this rank has begun the last read before its write
    for (const Access& read : all)
      if (read.rank == mine.rank && !read.writes && read.end <= mine.begin) since = read.begin;
    for (const Access& other : all)
      if (other.rank != mine.rank && other.writes && other.end > since && other.begin < mine.end)
        return fmt::format(
            "ranks {0} and {1} race for the counter, and one of the two additions is lost:\n"
            "  rank {0} reads it at {2:.0f} s of the clock, and has written it at {3:.0f} s\n"
            "  rank {1} writes it in between, from {4:.0f} s to {5:.0f} s",
            mine.rank, other.rank, since, mine.end, other.begin, other.end);
  }
  return "";
}

// A read that is a rank's last use of the counter tells it the new value, or is over before anybody
// writes. Returns what happened where a rank reads while another one writes; empty: none does.
std::string early_read_of(const std::vector<Access>& all) {
  for (const Access& read : all) {
    const bool is_last = std::none_of(all.begin(), all.end(), [&](const Access& other) {
      return other.rank == read.rank && other.begin > read.begin;
    });
    if (read.writes || !is_last) continue;
    for (const Access& write : all)
      if (write.writes && write.rank != read.rank && write.end > read.begin &&
          write.begin < read.end)
        return fmt::format(
            "rank {} reads the counter at {:.0f} s of the clock, before rank {} has written it at "
            "{:.0f} s",
            read.rank, read.begin, write.rank, write.end);
  }
  return "";
}

// What is wrong with the counter after `ranks` ranks have found `found` things in all; empty:
// nothing.
std::string wrong_count(int64_t before, int64_t after, int64_t found, int ranks) {
  const int64_t right = before + found;
  if (after == right) return "";
  std::string why;
  if (after == before + ranks * found) why = ": every rank has added the sum of all ranks";
  if (after == found) why = ": what it was before is lost";
  if (after == before) why = ": nobody has written it";
  return fmt::format("the counter was {} and is {}; the ranks have found {}, so it should be {}{}",
                     before, after, found, right, why);
}

// "with 4 ranks: "
std::string ranks_text(int p) { return fmt::format("with {} {}: ", p, p == 1 ? "rank" : "ranks"); }

// How long each of p ranks takes to read the counter: all a second; or each of them 10 more than
// the one before, or than the one after, which shows who reads while another one may write.
enum class Readers { equal, last_is_slowest, first_is_slowest };
std::vector<double> read_seconds(int p, Readers readers) {
  std::vector<double> seconds(static_cast<size_t>(p), 1);
  for (int r = 0; r < p && readers != Readers::equal; ++r)
    seconds[static_cast<size_t>(r)] += 10 * (readers == Readers::last_is_slowest ? r : p - 1 - r);
  return seconds;
}

// add_to_counter on p ranks, which find 1, 2, ... things; the counter was 100. A race fails at
// once.
struct Counted {
  int64_t counter;
  std::vector<int64_t> returned;  // by each rank
  std::string early_read;
};
Counted count_on(int p, Readers readers = Readers::equal) {
  WatchedCounter counter(100, read_seconds(p, readers));
  std::vector<int64_t> returned(static_cast<size_t>(p));
  run(p, [&](Communicator& world) {
    returned[static_cast<size_t>(world.rank())] =
        solution.add_to_counter(world, counter, 1 + world.rank());
  });
  const std::string race = race_of(counter.accesses());
  expect(race.empty(), ranks_text(p) + race);
  return {counter.value(), returned, early_read_of(counter.accesses())};
}

}  // namespace

TEST_CASE("00.1: every rank ends with the mean of all ranks' numbers") {
  for (const int p : exercise::ranks({4, 1, 2, 3, 8})) {
    std::vector<std::vector<float>> x(static_cast<size_t>(p));
    Numbers mean(5, 0.0);
    for (size_t r = 0; r < x.size(); ++r)
      for (size_t i = 0; i < mean.size(); ++i) {
        x[r].push_back(static_cast<float>(i * i + 3 * r + 1));
        mean[i] += x[r][i] / static_cast<double>(p);
      }
    const auto before = x;
    run(p, [&](Communicator& world) {
      solution.mean_over_ranks(world, x[static_cast<size_t>(world.rank())]);
    });
    for (size_t r = 0; r < x.size(); ++r) {
      Clues clues;
      clues.what = fmt::format("with {} {}: rank {}'s numbers", p, p == 1 ? "rank" : "ranks", r);
      clues.ranks = p;
      clues.before.assign(before[r].begin(), before[r].end());
      expect(compare(Numbers(x[r].begin(), x[r].end()), mean, 1e-6, clues));
    }
  }
}

TEST_CASE("00.1: one all_reduce is enough") {
  const auto messages = [](const auto& reduce) {
    int64_t sent = 0;
    run(4, [&](Communicator& world) {
      std::vector<float> x(8, 1);
      reduce(world, x);
      if (world.rank() == 0) sent = context().ledger.total_traffic().messages_sent;
    });
    return sent;
  };
  const int64_t one = messages([](Communicator& world, auto& x) { world.all_reduce(x); });
  const int64_t yours =
      messages([](Communicator& world, auto& x) { solution.mean_over_ranks(world, x); });
  expect(yours == one,
         fmt::format("rank 0 of 4 sends {} messages for 8 numbers; one all_reduce of the whole "
                     "vector sends {}",
                     yours, one));
}

TEST_CASE("00.2: every rank gets the numbers of the rank on its left") {
  for (const int p : exercise::ranks({2, 3, 4, 5, 1})) {
    std::vector<std::vector<float>> got(static_cast<size_t>(p));
    run(p, [&](Communicator& world) {
      const auto mine = static_cast<float>(world.rank());
      got[static_cast<size_t>(world.rank())] = solution.pass_right(world, {mine, mine});
    });
    for (int r = 0; r < p; ++r) {
      const std::vector<float>& theirs = got[static_cast<size_t>(r)];
      const auto left = static_cast<float>((r + p - 1) % p),
                 right = static_cast<float>((r + 1) % p);
      const std::string where = fmt::format("with {} ranks: rank {} ", p, r);
      expect(theirs.size() == 2, fmt::format("{}returns {} numbers, not 2", where, theirs.size()));
      const bool turned = p > 2 && theirs == std::vector<float>{right, right};
      expect(!turned,
             fmt::format("{}has got the numbers of rank {}, which is on its right", where, right));
      expect(theirs == std::vector<float>{left, left},
             fmt::format("{}has got {:g} and {:g}; rank {} has {:g} and {:g}", where, theirs[0],
                         theirs[1], left, left, left));
    }
  }
}

TEST_CASE("00.3: the counter grows by what all ranks have found, and no two ranks race for it") {
  for (const int p : exercise::ranks({2, 3, 4, 8, 1})) {
    const Counted counted = count_on(p);
    const std::string wrong = wrong_count(100, counted.counter, p * (p + 1) / 2, p);
    expect(wrong.empty(), ranks_text(p) + wrong);
  }
}

TEST_CASE("00.3: every rank returns what the counter is then") {
  for (const int p : exercise::ranks({2, 3, 4, 8, 1})) {
    const Counted all[] = {count_on(p, Readers::first_is_slowest),
                           count_on(p, Readers::last_is_slowest)};
    for (const Counted& counted : all)
      expect(counted.early_read.empty(), ranks_text(p) + counted.early_read);
    for (const Counted& counted : all)
      for (int r = 0; r < p; ++r) {
        const int64_t got = counted.returned[static_cast<size_t>(r)];
        expect(got == counted.counter,
               fmt::format("{}rank {} returns {}, and the counter is {}: a rank that knows the new "
                           "value can tell the others with one broadcast",
                           ranks_text(p), r, got, counted.counter));
      }
  }
}
