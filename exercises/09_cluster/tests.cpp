// The graded cases of exercise 09. No rank runs here: a machine is numbers, and so is the price of
// a message.
#include <algorithm>
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/machine/cluster.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Machine;
using exercise::solution;

namespace {

constexpr double us = 1e-6, nvlink = 1 / 450e9, network = 1 / 50e9;

bool close(double got, double expected) {
  return std::abs(got - expected) <= 1e-12 * std::abs(expected);
}

// "3 us"
std::string time_text(double seconds) { return fmt::format("{:.6g} us", 1e6 * seconds); }
// "50 GB/s"
std::string bandwidth_text(double beta) { return fmt::format("{:.4g} GB/s", 1e-9 / beta); }

// "4 x 4 x 2"
std::string grid_text(const std::vector<int>& axes) {
  std::string text;
  for (const int length : axes) text += fmt::format("{}{}", text.empty() ? "" : " x ", length);
  return text;
}

// " (3, 1)": where a chip is in a torus; on a ring, that is its number.
std::string place_text(const std::vector<int>& axes, int chip) {
  if (axes.size() == 1) return "";
  std::string text;
  for (const int length : axes) {
    text += fmt::format("{}{}", text.empty() ? " (" : ", ", chip % length);
    chip /= length;
  }
  return text + ")";
}

Machine machine_of(const Cluster& cluster) {
  Machine made{{}, cluster.torus};
  for (const auto& [name, chips, alpha, beta] : cluster.levels)
    made.levels.push_back({name, chips, alpha, beta});
  return made;
}

// ---- 09.1

void expect_seconds(double alpha, double beta, double bytes) {
  const double got = solution.seconds(alpha, beta, bytes), expected = alpha + bytes * beta;
  std::string advice;
  if (close(got, bytes * beta))
    advice = "\n    the latency is missing: even the first byte is on its way for alpha";
  if (close(got, alpha + bytes / beta))
    advice = "\n    beta is one over the bandwidth already, seconds a byte: multiply by it";
  if (close(got, bytes * (alpha + beta)))
    advice = "\n    alpha is paid once per message, not once per byte";
  if (close(got, alpha + beta))
    advice = "\n    that is one byte: each of them comes beta after the one before";
  expect(close(got, expected),
         fmt::format("{:.6g} bytes, alpha {}, {}: expected {}, got {}{}", bytes, time_text(alpha),
                     bandwidth_text(beta), time_text(expected), time_text(got), advice));
}

// ---- 09.2

void expect_hops(const std::vector<int>& axes, int from, int to) {
  const int got = solution.torus_hops(axes, from, to), expected = torus_hops(axes, from, to);
  int longest = 0, one_way = 0;
  for (int a = from, b = to; const int length : axes) {
    longest = std::max(longest, torus_hops({length}, a % length, b % length));
    one_way += std::abs(a % length - b % length);
    a /= length;
    b /= length;
  }
  std::string advice;
  if (got == longest)
    advice = "\n    cables run along the axes, none runs diagonally: the axes' hops add up";
  if (got == one_way)
    advice =
        "\n    that is the long way round: an axis is a ring, and its last chip is next to its "
        "first";
  expect(got == expected,
         fmt::format("hops from chip {}{} to chip {}{} in a torus of {}: expected {}, got {}{}",
                     from, place_text(axes, from), to, place_text(axes, to), grid_text(axes),
                     expected, got, advice));
}

// ---- 09.3

// Why two chips are at a level, in words.
std::string about_levels(const Machine& machine, int from, int to, int got, int expected) {
  if (got < 0 || got >= static_cast<int>(machine.levels.size())) return "there is no such level";
  const exercise::Level& said = machine.levels[static_cast<size_t>(got)];
  if (got > expected)
    return fmt::format(
        "the {} holds both, but so does the {}, and a smaller group has the better link", said.name,
        machine.levels[static_cast<size_t>(expected)].name);
  return fmt::format("chips {} and {} are {}in two {}s: {} / {} is {}, {} / {} is {}", from, to,
                     std::abs(from - to) == 1 ? "neighbours by number, and " : "", said.name, from,
                     said.chips, from / said.chips, to, said.chips, to / said.chips);
}

void expect_level(const Machine& machine, int from, int to, int level) {
  const exercise::Link got = solution.link(machine, from, to);
  const exercise::Level& expected = machine.levels[static_cast<size_t>(level)];
  expect(got.level == level,
         fmt::format("chips {} and {} talk over level {} ({}), you say {}\n    {}", from, to, level,
                     expected.name, got.level, about_levels(machine, from, to, got.level, level)));
  expect(close(got.alpha, expected.alpha) && close(got.beta, expected.beta),
         fmt::format("chips {} and {} talk over the {}, {} and {}; you give {} and {}", from, to,
                     expected.name, time_text(expected.alpha), bandwidth_text(expected.beta),
                     time_text(got.alpha), bandwidth_text(got.beta)));
}

void expect_torus_link(const Machine& machine, int from, int to) {
  const exercise::Link got = solution.link(machine, from, to);
  const exercise::Level& level = machine.levels[0];
  const int hops = solution.torus_hops(machine.torus, from, to);  // a mistake there is 09.2's
  expect(close(got.alpha, hops * level.alpha),
         fmt::format("chips {} and {} are {} hops apart in a torus of {}, at {} a hop: expected a "
                     "latency of {}, got {}\n    a message pays alpha once per hop",
                     from, to, hops, grid_text(machine.torus), time_text(level.alpha),
                     time_text(hops * level.alpha), time_text(got.alpha)));
  expect(close(got.beta, level.beta),
         fmt::format("chips {} and {}, {} hops apart: expected {}, got {}\n    bytes flow through "
                     "the chips between without waiting for each other: only alpha is paid once a "
                     "hop",
                     from, to, hops, bandwidth_text(level.beta), bandwidth_text(got.beta)));
  expect(got.level == 0, fmt::format("the torus is level 0, you say {}", got.level));
}

// ---- 09.4 and 09.5

void expect_levels(const Machine& got, const Cluster& expected, size_t how_many) {
  const std::string& machine = expected.name;
  for (size_t i = 0; i < how_many; ++i) {
    const Level& right = expected.levels[i];
    expect(i < got.levels.size(), fmt::format("{}: level {}, the {}, is missing; you have {}",
                                              machine, i, right.name, got.levels.size()));
    const exercise::Level& level = got.levels[i];
    expect(level.name == right.name && level.chips == right.chips,
           fmt::format("{}, level {}: expected a {} of {} chips, got a {} of {}", machine, i,
                       right.name, right.chips, level.name, level.chips));
    expect(close(level.alpha, right.alpha),
           fmt::format("{}, level {}, the {}: alpha is {:.3g} s, you have {:.3g}", machine, i,
                       right.name, right.alpha, level.alpha));
    expect(
        close(level.beta, right.beta),
        fmt::format("{}, level {}, the {}: expected a beta of {:.3g} s a byte, got {:.3g}{}",
                    machine, i, right.name, right.beta, level.beta,
                    close(level.beta, 1 / right.beta)
                        ? "\n    that is the bandwidth; beta is one over it, how much later each "
                          "byte comes"
                        : ""));
  }
}

// What `count` of a chip are; the same count, whatever a node could hold.
void expect_switched(const char* chip, int count) {
  const Machine got = solution.switched(chip_named(chip), count);
  const Cluster expected = switched(chip_named(chip), count);
  const size_t levels = expected.levels.size();
  expect(!got.levels.empty(),
         fmt::format("{} has no levels; the first is the node", expected.name));
  if (levels == 2)
    expect(got.levels.size() > 1,
           fmt::format("{} has one level, but NVLink reaches {} chips: chips {} and {} have none "
                       "between them, and need a level of their own",
                       expected.name, chip_named(chip).domain, chip_named(chip).domain - 1,
                       chip_named(chip).domain));
  const int size = got.levels.back().chips;
  expect(size == count,
         fmt::format("{} has {} chips, and your last level {}{}", expected.name, count, size,
                     size > count ? ": a node is no larger than the machine" : ""));
  expect(got.levels.size() == levels,
         fmt::format("{}: {} levels, expected {}: one node holds all chips", expected.name,
                     got.levels.size(), levels));
  expect_levels(got, expected, levels);
}

// ---- 09.6

int product(const std::vector<int>& axes) {
  int count = 1;
  for (const int length : axes) count *= length;
  return count;
}

// Hops between the two chips of a torus that are farthest apart.
int farthest(const std::vector<int>& axes) {
  int hops = 0;
  for (const int length : axes) hops += length / 2;
  return hops;
}

// ---- 09.7

// A ring of chips of a machine, and what an all_gather of 800 MB takes on it.
struct RingOf {
  std::string what;
  Machine machine;
  std::vector<int> chips;
  double bytes = 800e6;

  double p() const { return static_cast<double>(chips.size()); }
  // The messages of one step, each with `part` bytes. The links are the solution's: a mistake there
  // is 09.3's.
  std::vector<double> messages(double part) const {
    std::vector<double> all;
    for (size_t i = 0; i < chips.size(); ++i) {
      const exercise::Link next = solution.link(machine, chips[i], chips[(i + 1) % chips.size()]);
      all.push_back(solution.seconds(next.alpha, next.beta, part));
    }
    return all;
  }
  double step(double part) const {
    const std::vector<double> all = messages(part);
    return *std::max_element(all.begin(), all.end());
  }
};

// What a wrong number of seconds is.
std::string about_ring(const RingOf& ring, double got) {
  const double part = ring.bytes / ring.p(), steps = ring.p() - 1;
  std::vector<double> open = ring.messages(part);
  double sum = 0;
  for (const double seconds : open) sum += seconds;
  const double first = open.front();
  exercise::Link worst = {};
  for (size_t i = 0; i < ring.chips.size(); ++i) {
    const exercise::Link next =
        solution.link(ring.machine, ring.chips[i], ring.chips[(i + 1) % ring.chips.size()]);
    worst = {std::max(worst.alpha, next.alpha), std::max(worst.beta, next.beta), next.level};
  }
  open.pop_back();
  if (close(got, steps * ring.step(ring.bytes)))
    return "that sends the whole array in every step: a chip sends a p-th of it";
  if (close(got, ring.p() * ring.step(part)))
    return "that is p steps: a chip has its own part already, so p - 1 bring the others";
  if (close(got, steps * sum))
    return "the messages of a step are added up, but all chips send at once";
  if (close(got, steps * *std::max_element(open.begin(), open.end())))
    return "that is without the link from the last chip to the first, which closes the ring";
  if (close(got, steps * (worst.alpha + part * worst.beta)))
    return "the largest alpha and the largest beta are those of two links here: a message has one";
  if (close(got, steps * first))
    return fmt::format(
        "that takes the first link for all of them. Here chips {} and {} share a slower one",
        ring.chips[7 % ring.chips.size()], ring.chips[8 % ring.chips.size()]);
  return "each of p - 1 steps takes as long as the slowest message, with a p-th of the bytes";
}

void expect_ring(const RingOf& ring) {
  const double got = solution.ring(ring.machine, ring.chips, ring.bytes);
  const double expected = (ring.p() - 1) * ring.step(ring.bytes / ring.p());
  expect(close(got, expected),
         fmt::format("all_gather of {:.3g} bytes round a ring of {}: expected {}, got {}\n    {}",
                     ring.bytes, ring.what, time_text(expected), time_text(got),
                     about_ring(ring, got)));
}

std::vector<int> first_chips(int count) {
  std::vector<int> chips;
  for (int chip = 0; chip < count; ++chip) chips.push_back(chip);
  return chips;
}

}  // namespace

TEST_CASE("09.1: latency once, and then byte after byte") {
  for (const double bytes : {8.0, 0.0, 450e3, 5e9}) {
    expect_seconds(us, nvlink, bytes);
    expect_seconds(5 * us, network, bytes);
  }
}

TEST_CASE("09.2: on a ring, the shorter way round") {
  for (const int length : exercise::ranks({4, 1, 2, 5, 8}))
    for (int from = 0; from < length; ++from)
      for (int to = 0; to < length; ++to) expect_hops({length}, from, to);
}

TEST_CASE("09.2: along one axis, then along the next") {
  expect_hops({4, 4}, 0, 5);
  for (const std::vector<int>& axes : {std::vector{4, 4}, {3, 5}, {2, 3, 4}, {4, 4, 4}})
    for (int to = 0; to < product(axes); ++to) {
      expect_hops(axes, 0, to);
      expect_hops(axes, product(axes) / 3, to);
    }
}

TEST_CASE("09.3: the smallest group that holds both") {
  const Machine llama = machine_of(llama3_24k());
  expect_level(llama, 7, 8, 1);
  expect_level(llama, 8, 7, 1);
  expect_level(llama, 0, 7, 0);
  expect_level(llama, 0, 15, 1);
  expect_level(llama, 15, 16, 2);
  expect_level(llama, 16, 23, 0);
  expect_level(llama, 0, 3071, 2);
  expect_level(llama, 3071, 3072, 3);
  expect_level(llama, 24575, 0, 3);
  const Machine small = {{{"node", 3, us, nvlink}, {"rack", 6, 2 * us, network}}, {}};
  expect_level(small, 2, 3, 1);
  expect_level(small, 3, 5, 0);
}

TEST_CASE("09.3: in a torus a message pays alpha once per hop") {
  const Machine flat = {{{"torus", 16, us, 1 / 90e9}}, {4, 4}};
  expect_torus_link(flat, 0, 1);
  expect_torus_link(flat, 0, 10);
  expect_torus_link(flat, 3, 0);
  const Machine slices = {{{"slice", 16, us, 1 / 90e9}, {"pod", 64, 7 * us, network}}, {4, 4}};
  expect_torus_link(slices, 16, 31);
  expect_level(slices, 0, 26, 1);  // between slices there is a switch, and no hop
}

TEST_CASE("09.4: chips that fit into one node") {
  expect_switched("h100", 8);
  expect_switched("h100", 4);
  expect_switched("b200", 1);
  expect_switched("h100-pcie", 2);
}

TEST_CASE("09.4: more chips than a node has") {
  expect_switched("h100", 16);
  expect_switched("h100", 12);  // a node and a half
  expect_switched("a100", 16384);
  expect_switched("h100-pcie", 4);
}

TEST_CASE("09.5: nodes of 8, racks of 16, pods of 3072") {
  const Machine got = solution.llama3_24k();
  expect_levels(got, llama3_24k(), 3);
  expect(got.levels.size() == 4 && got.levels[3].name == "cluster" && got.levels[3].chips == 24576,
         "the fourth and last level is the cluster, of 24576 chips");
  expect(close(got.levels[3].alpha, 7 * us), "between pods alpha is 7 us");
}

TEST_CASE("09.5: 1:7 between pods") {
  const Machine got = solution.llama3_24k();
  expect(got.levels.size() == 4, fmt::format("{} levels, expected 4", got.levels.size()));
  const double beta = got.levels[3].beta;
  std::string advice = "expected 7 times the beta inside a pod";
  if (close(beta, network))
    advice =
        "as inside a pod: the oversubscription is forgotten. 1:7 says that 7 share what one had, "
        "so each byte takes 7 times as long";
  if (close(beta, network / 7))
    advice = "that is faster than inside a pod; 7 share what one had, so each byte takes longer";
  expect(close(beta, 7 * network),
         fmt::format("between pods each chip gets {} ({:.3g} s a byte)\n    {}",
                     bandwidth_text(beta), beta, advice));
}

TEST_CASE("09.6: no chip is left out") {
  for (const int axes : {2, 3})
    for (int count = 1; count <= 300; ++count) {
      const std::vector<int> got = solution.nearly_cubic(count, axes);
      expect(product(got) == count,
             fmt::format("{} chips on {} axes: {} are {} chips\n    the length of an axis divides "
                         "the number of chips, or some are left out",
                         count, axes, grid_text(got), product(got)));
    }
}

TEST_CASE("09.6: as nearly a cube as can be") {
  for (const int axes : {3, 2})
    for (const int count :
         exercise::sizes<int>({64, 256, 12, 8, 7, 1, 4096, 8960, 1000}, 100, 2000)) {
      const std::vector<int> got = solution.nearly_cubic(count, axes);
      const std::vector<int> expected = nearly_cubic(count, axes);
      expect(
          got == expected,
          fmt::format("{} chips on {} axes: expected {}, got {}\n    the farthest two chips are {} "
                      "hops apart, and could be {}",
                      count, axes, grid_text(expected), grid_text(got), farthest(got),
                      farthest(expected)));
    }
}

TEST_CASE("09.7: p - 1 steps, each with a p-th of the bytes") {
  const Machine node = machine_of(switched(chip_named("h100"), 8));
  expect_ring({"8 chips of one node", node, first_chips(8)});
  expect_ring({"2 chips of one node", node, {3, 5}});
  const double alone = solution.ring(node, {4}, 800e6);
  expect(alone == 0, fmt::format("one chip has everything: expected 0, got {}", time_text(alone)));
}

TEST_CASE("09.7: a step takes what its slowest link takes") {
  expect_ring(
      {"16 chips of two nodes", machine_of(switched(chip_named("h100"), 16)), first_chips(16)});
  const Machine llama = machine_of(llama3_24k());
  std::vector<int> over_pods = first_chips(12);
  over_pods.back() = 3072;
  expect_ring({"11 chips of a pod and one of another", llama, over_pods});
  const Machine far = {{{"node", 2, us, network}, {"cable", 4, 5000 * us, nvlink}}, {}};
  expect_ring({"two nodes of 2 and a long cable with much bandwidth", far, {0, 1, 2, 3}});
}

TEST_CASE("09.7: the last chip sends to the first") {
  const Machine ring = {{{"torus", 8, us, 1 / 90e9}}, {8}};
  expect_ring({"4 neighbours in a torus of 8", ring, {0, 1, 2, 3}, 8});
  expect_ring({"all 8 chips of a torus", ring, first_chips(8)});
}
