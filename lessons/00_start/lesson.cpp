// Lesson 00: four ranks, one number each, and what it costs to add them up.
#include "course/shared/lesson.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {

// Each rank holds its own number; all_reduce leaves the sum on every rank.
void add_up(Lesson& lesson, int ranks) {
  std::vector<float> before(static_cast<size_t>(ranks)), after(static_cast<size_t>(ranks));
  const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& world) {
    std::vector<float> x = {static_cast<float>(world.rank())};
    before[static_cast<size_t>(world.rank())] = x[0];
    world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring});
    after[static_cast<size_t>(world.rank())] = x[0];
  });
  lesson.section("Every rank has a number; all_reduce adds them up");
  for (size_t r = 0; r < before.size(); ++r)
    lesson.say("rank {}: {} -> {}", r, before[r], after[r]);
  const Traffic sent = reports[0].ledger().total_traffic();
  lesson.section("The ledger saw it");
  lesson.say("rank 0 sent {} messages, {} bytes", sent.messages_sent, sent.bytes_sent);
  lesson.number("sum", after[0]);
  lesson.number("rank0.messages_sent", static_cast<double>(sent.messages_sent));
  lesson.number("rank0.bytes_sent", static_cast<double>(sent.bytes_sent));
}

// Nothing is shared, so there is nothing to race for: count alone, then add up.
void count_without_a_race(Lesson& lesson, int ranks, int64_t count) {
  std::vector<int64_t> totals(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    std::vector<int64_t> counter = {0};
    for (int64_t i = 0; i < count; ++i) ++counter[0];
    world.all_reduce(counter);
    totals[static_cast<size_t>(world.rank())] = counter[0];
  });
  lesson.section("Counting together without a race");
  lesson.say("each of {} ranks counted {}; the sum on every rank is {}", ranks, count, totals[0]);
  lesson.number("count", static_cast<double>(totals[0]));
}

}  // namespace

int main(int argc, char** argv) {
  int64_t ranks = 4, count = 100'000;
  return run_lesson(argc, argv,
                    {"00", "Start here", "what a rank is and what it costs to add up four numbers"},
                    [&](Lesson& lesson) {
                      add_up(lesson, static_cast<int>(ranks));
                      count_without_a_race(lesson, static_cast<int>(ranks), count);
                      lesson.say("\nNext: ./yotta lesson 10");
                    },
                    {{"ranks", "how many ranks", &ranks, 1, 64},
                     {"count", "how far each rank counts", &count, 0, 100'000'000}});
}
