// Lesson 00: ranks that add up a number each, what it costs, and a race, step by step. It is one
// plain file and the headers of the library, as your own programs are; later lessons share a frame
// for options and timelines.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "course/pictures/latency_picture.hpp"
#include "course/pictures/race_picture.hpp"
#include "yotta/comm/race.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {

// Each rank holds its own number; all_reduce leaves the sum on every rank.
void add_up(int ranks) {
  std::vector<float> before(static_cast<size_t>(ranks)), after(static_cast<size_t>(ranks));
  const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& world) {
    std::vector<float> x = {static_cast<float>(world.rank())};
    before[static_cast<size_t>(world.rank())] = x[0];
    world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring});
    after[static_cast<size_t>(world.rank())] = x[0];
  });
  fmt::print("\n== Every rank has a number; all_reduce adds them up\n");
  for (size_t r = 0; r < before.size(); ++r)
    fmt::print("rank {}: {} -> {}\n", r, before[r], after[r]);
  const Traffic sent = reports[0].ledger().total_traffic();
  fmt::print("\n== The ledger saw it\nrank 0 sent {} messages, {} bytes\n", sent.messages_sent,
             sent.bytes_sent);
}

// A race, whose steps come in this order.
void show_race(const char* order) {
  const int64_t start = 41;
  const std::vector<RaceStep> steps = play_race(order, start);
  fmt::print("step   rank 0        rank 1        counter\n");
  int number = 0;
  for (const RaceStep& step : steps)
    fmt::print("{:>4}   {:<14}{:<14}{}\n", ++number,
               step.rank == 0 ? race_picture::words(step) : "",
               step.rank == 1 ? race_picture::words(step) : "", step.counter);
  fmt::print("2 additions, and the counter has grown by {}\n", steps.back().counter - start);
}

void races() {
  fmt::print("\n== A race: both ranks read before one has written\n");
  show_race("010101");
  fmt::print("\n== No race: rank 0, then rank 1\n");
  show_race("000111");
  const RaceOrders two = count_race_orders(2), three = count_race_orders(3);
  fmt::print("\n== How many orders are right?\n");
  fmt::print("2 ranks: {} orders of their {} steps, {} of them right\n", two.all, 6, two.right);
  fmt::print("3 ranks: {} orders of their {} steps, {} of them right\n", three.all, 9, three.right);
}

// Nothing is shared, so there is nothing to race for: count alone, then add up.
void count_without_a_race(int ranks, int64_t count) {
  std::vector<int64_t> totals(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    std::vector<int64_t> counter = {0};
    for (int64_t i = 0; i < count; ++i) ++counter[0];
    world.all_reduce(counter);
    totals[static_cast<size_t>(world.rank())] = counter[0];
  });
  fmt::print("\n== Counting together without a race\n");
  fmt::print("each of {} ranks counted {}; the sum on every rank is {}\n", ranks, count, totals[0]);
}

void draw(const char* path, const std::string& svg) {
  std::ofstream file(path);
  file << svg;
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path));
}

constexpr const char* usage =
    "Lesson 00: ranks that add up a number each, what it costs, and a race.\n"
    "  --ranks N   how many ranks, 1 to 64 (4)\n"
    "  --count N   how far each rank counts, 0 to 100000000 (100000)\n"
    "  --draw 1    write the pictures race.svg and latency_lags.svg into this folder\n";

// A wrong command line.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  int64_t ranks = 4, count = 100'000, draw = 0;
};

// --ranks 8 or --ranks=8. Throws Wrong.
Settings settings_of(int argc, char** argv) {
  Settings all;
  const struct {
    std::string_view name;
    int64_t least, most;
    int64_t* value;
  } options[] = {{"--ranks", 1, 64, &all.ranks},
                 {"--count", 0, 100'000'000, &all.count},
                 {"--draw", 0, 1, &all.draw}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i], name = word.substr(0, word.find('='));
    const auto option = std::find_if(std::begin(options), std::end(options),
                                     [&](const auto& each) { return each.name == name; });
    if (option == std::end(options)) throw Wrong(fmt::format("there is no option {}", name));
    const std::string_view text = name != word ? word.substr(name.size() + 1)
                                  : ++i < argc ? argv[i]
                                               : "";
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, *option->value);
    if (error != std::errc() || end != last || *option->value < option->least ||
        *option->value > option->most)
      throw Wrong(fmt::format("{} takes a number from {} to {}, not '{}'", name, option->least,
                              option->most, text));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") return fmt::print("{}", usage), 0;
  try {
    const Settings settings = settings_of(argc, argv);
    if (settings.draw == 1) {
      draw("race.svg", race_svg());
      draw("latency_lags.svg", latency_svg());
    }
    fmt::print("Lesson 00  Start here\n");
    add_up(static_cast<int>(settings.ranks));
    races();
    count_without_a_race(static_cast<int>(settings.ranks), settings.count);
    fmt::print("\nNext: ./yotta learn 00, then ./yotta lesson 01\n");
    return 0;
  } catch (const Wrong& error) {
    fmt::print(stderr, "{}\n\n{}", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
