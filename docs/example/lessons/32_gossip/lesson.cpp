// Lesson 32: ranks agree on a mean by talking to their neighbours.
#include "course/lesson/lesson.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/gossip.hpp"

using namespace yotta;

namespace {

// What every rank has after so many rounds, if rank 0 starts with p and the others with 0: the mean
// is 1.
std::vector<double> after(int p, int rounds) {
  std::vector<double> numbers(static_cast<size_t>(p));
  run_ranks(p, [&](Communicator& world) {
    Tensor x = Tensor::full({1}, world.rank() == 0 ? p : 0, DType::f64);
    gossip(x, world, rounds);
    numbers[static_cast<size_t>(world.rank())] = x.item({0});
  });
  return numbers;
}

void rounds(Lesson& lesson, int p) {
  lesson.section(fmt::format("{} ranks in a ring; the mean is 1", p));
  for (const int rounds : {0, 1, 2, 4, 8, 16}) {
    std::string line;
    for (const double number : after(p, rounds)) line += fmt::format("{:7.3f}", number);
    lesson.say("round {:>2} {}", rounds, line);
    lesson.numbers(fmt::format("after_{}", rounds), after(p, rounds));
  }
}

void factors(Lesson& lesson) {
  lesson.section("What a round leaves of the differences, at most");
  for (const int p : {2, 3, 4, 8, 64, 1024}) {
    lesson.say("{:>5} ranks: {:.6f}", p, gossip_factor(p));
    lesson.number(fmt::format("factor.{}", p), gossip_factor(p));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t ranks = 8;
  return run_lesson(argc, argv, {"32", "Gossip", "a mean without an all_reduce"},
                    [&](Lesson& lesson) {
                      rounds(lesson, static_cast<int>(ranks));
                      factors(lesson);
                    },
                    {{"ranks", "in the ring", &ranks, 2, 64}});
}
