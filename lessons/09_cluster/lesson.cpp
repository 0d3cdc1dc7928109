// Lesson 09: what a cluster is, in numbers: memories, links, the price of a message, and what
// follows.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/cluster_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/comm/torus_rings.hpp"
#include "yotta/machine/critical_path.hpp"
#include "yotta/machine/memory_levels.hpp"
#include "yotta/machine/pictures/timeline.hpp"

using namespace yotta;

namespace {

// 3.35e12 -> "3.35 T"
std::string metric(double value) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  for (; value >= 1000; ++i) value /= 1000;
  return fmt::format("{:.3g} {}", value, prefixes[i]);
}

void memories(Lesson& lesson) {
  const Chip& h100 = chip_named("h100");
  lesson.section("Memories of one H100, and what is beyond it");
  lesson.say("{:<24}{:>12}{:>14}{:>22}", "", "holds", "gives", "FLOPs per byte to pay");
  const auto own = h100_memories();
  std::vector<MemoryLevel> all(own.begin(), own.end());
  all.push_back({"NVLink: 7 more chips", 8 * h100.memory, h100.link, 0});
  all.push_back({"network: 24,576 chips", 24576 * h100.memory, 50e9, 0});
  for (const MemoryLevel& m : all) {
    lesson.say("{:<24}{:>11}B{:>12}B/s{:>21.1f}", m.name, metric(m.bytes), metric(m.bandwidth),
               h100.bf16 / m.bandwidth);
    lesson.number(fmt::format("{}.bandwidth", m.name), m.bandwidth);
  }
}

// llama3-24k, with `oversubscription` in place of its 7 between pods.
void levels(Lesson& lesson, int64_t oversubscription) {
  Cluster c = llama3_24k();
  c.levels.back().beta = c.levels[1].beta * static_cast<double>(oversubscription);
  lesson.section("Two numbers per link: llama3-24k");
  lesson.say("{:<10}{:>8}{:>12}{:>10}{:>14}{:>14}{:>16}", "level", "chips", "alpha, us", "GB/s",
             "8 B, us", "100 MB, us", "half speed, KB");
  for (const Level& level : c.levels) {
    const Link link{level.alpha, level.beta};
    lesson.say("{:<10}{:>8}{:>12.1f}{:>10.1f}{:>14.3f}{:>14.1f}{:>16.1f}", level.name, level.chips,
               1e6 * level.alpha, 1e-9 / level.beta, 1e6 * link.seconds(8), 1e6 * link.seconds(1e8),
               1e-3 * level.alpha / level.beta);
  }
}

void figures(Lesson& lesson) {
  const Cluster c = llama3_24k();
  const double chips = c.size();
  lesson.section("24,576 H100 as one computer");
  lesson.say("{:.1f} EFLOP/s in bf16, dense", 1e-18 * chips * c.chip.bf16);
  lesson.say("{:.0f} million fp32 lanes, {:.1f} million tensor cores", 1e-6 * chips * 132 * 128,
             1e-6 * chips * 132 * 4);
  lesson.say("{:.2f} PB of HBM, read in {:.0f} thousandths of a second",
             1e-15 * chips * c.chip.memory, 1e3 * c.chip.memory / c.chip.bandwidth);
  lesson.say("{:.1f} MW for the chips alone, at 700 W each", 1e-6 * 700 * chips);
  const double failures_a_day = 10.0 / 1000 * chips / 8;
  lesson.say("{:.1f} failures a day, at 10 in 1000 days of a node: one every {:.0f} minutes",
             failures_a_day, 24 * 60 / failures_a_day);
  lesson.say("{:.1f} in 1000 days of a node: 419 failures of 2048 nodes in 54 days",
             419.0 / (2048 * 54) * 1000);
  lesson.number("exaflops", 1e-18 * chips * c.chip.bf16);
  lesson.number("failures_a_day", failures_a_day);
}

// ---- racks.md ----

// NVLink by generation, from NVIDIA's architecture whitepapers (P100, V100, A100, H100, Blackwell):
// links of a GPU, lanes of a link in one direction, and Gbit/s of a lane.
struct NvLink {
  const char* chip;
  int links, lanes;
  double gigabits;
};
constexpr NvLink nvlinks[] = {{"P100", 4, 8, 20},
                              {"V100", 6, 8, 25},
                              {"A100", 12, 4, 50},
                              {"H100", 18, 2, 100},
                              {"B200", 18, 2, 200}};
constexpr double one_way(const NvLink& of) { return of.links * of.lanes * of.gigabits / 8; }

void nvlink_arithmetic(Lesson& lesson) {
  lesson.section("NVLink: links, lanes and gigabits");
  lesson.say("{:<8}{:>8}{:>8}{:>16}{:>14}{:>16}{:>14}", "chip", "links", "lanes", "Gbit/s a lane",
             "GB/s a link", "one direction", "both");
  for (const NvLink& each : nvlinks)
    lesson.say("{:<8}{:>8}{:>8}{:>16.0f}{:>14.0f}{:>16.0f}{:>14.0f}", each.chip, each.links,
               each.lanes, each.gigabits, each.lanes * each.gigabits / 8, one_way(each),
               2 * one_way(each));
  const double b200 = one_way(nvlinks[4]);
  lesson.say("a rack of 72 B200: {:.1f} TB/s in both directions; 18 switches of 72 ports: {:.1f}",
             72 * 2 * b200 / 1e3, 18 * 72 * 2 * b200 / nvlinks[4].links / 1e3);
}

// TPU v4: Jouppi et al. 2023, section 2. Racks are cubes of 4 x 4 x 4 chips, joined by light.
void optical_racks(Lesson& lesson) {
  constexpr int side = 4, cubes = 64, faces = 6, ports = 128;
  constexpr int ends = faces * side * side;  // of a cube
  lesson.section("Optical racks: 4096 TPU v4");
  lesson.say("{} cubes of {} chips: {} optical ends a cube, {} in all", cubes, side * side * side,
             ends, cubes * ends);
  lesson.say("switches of {} ports: {}; each joins one place of two opposite faces of all cubes",
             ports, cubes * ends / ports);
}

// A fat tree of switches of k ports: half of them lead down, but for the top row's.
void fat_trees(Lesson& lesson) {
  lesson.section("Fat trees of switches with so many ports");
  lesson.say("{:>6}{:>18}{:>12}{:>18}{:>12}{:>20}", "ports", "hosts, two rows", "switches",
             "hosts, three rows", "switches", "switches per 1000");
  for (const int64_t k : {32, 64, 128})
    lesson.say("{:>6}{:>18}{:>12}{:>18}{:>12}{:>20.0f}", k, k * k / 2, 3 * k / 2, k * k * k / 4,
               5 * k * k / 4, 1e3 * 5 / static_cast<double>(k));
}

// Bytes per second across the worst cut into two halves, one direction, for 4096 chips.
void bisections(Lesson& lesson) {
  const double card = 50e9, ici = chip_named("v5p").link;
  lesson.section("4096 chips cut in two halves: what goes across, one direction");
  lesson.say("{:<44}{:>8.1f} TB/s", "fat tree, a card of 50 GB/s a chip", 4096 / 2 * card / 1e12);
  lesson.say("{:<44}{:>8.1f} TB/s", "the same, oversubscribed 1:7 at the cut", 2048 * card / 7e12);
  lesson.say("{:<44}{:>8.1f} TB/s", "torus of 16 x 16 x 16, 90 GB/s a link",
             2 * 16 * 16 * ici / 1e12);
}

// Seconds of FSDP's three collectives for 70e9 parameters of 2 bytes, from one live rank of N.
double fsdp_seconds(int N) {
  const Cluster c = ideal(N, 200e12, 200e9);
  std::vector<int> chips(static_cast<size_t>(N));
  for (int i = 0; i < N; ++i) chips[static_cast<size_t>(i)] = i;
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Communicator all = world.mirrored(chips);
    Tensor weights = Tensor::empty({70'000'000'000}, DType::bf16);
    Tensor shard = Tensor::empty({70'000'000'000 / N}, DType::bf16);
    all.all_gather(weights, shard);      // for forward
    all.all_gather(weights, shard);      // for backward
    all.reduce_scatter(shard, weights);  // of gradients
  };
  return run_on(c, 1, body, {.trace = false}).seconds();
}

void crossing(Lesson& lesson) {
  lesson.section(
      "70e9 parameters, 4e6 tokens, 200 TFLOP/s, 200 GB/s: until when does FSDP compute?");
  for (const int N : {1000, 2000, 4000, 5000}) {
    const double compute = 6 * 70e9 * 4e6 / 200e12 / N, communication = fsdp_seconds(N);
    lesson.say("{:>6} GPUs: compute {:.4f}, communication {:.4f}: {} bound", N, compute,
               communication, compute >= communication ? "compute" : "network");
    lesson.number(fmt::format("fsdp.{}.communication_seconds", N), communication);
  }
}

// Seconds in which each chip of a 16 x 16 x 16 pod gathers a weight matrix; one live chip stands
// for all.
double pod_gather_seconds(int axes, int directions, int64_t numbers) {
  const TorusShape shape{std::vector<int>(static_cast<size_t>(axes), 16), directions};
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor weights = Tensor::empty({numbers}, DType::bf16);
    Tensor shard = Tensor::empty({numbers / shape.ranks()}, DType::bf16);
    TorusRings::mirrored(world, shape).all_gather(weights, shard);
  };
  return run_on(torus(chip_named("v5p"), {16, 16, 16}), 1, body, {.trace = false}).seconds();
}

void pod(Lesson& lesson) {
  const Chip& chip = chip_named("v5p");
  const int64_t numbers = int64_t{6} * 4096 * 16384;  // 403 million, in bf16
  lesson.section("A torus: 4,096 TPU v5p, 6 links of 90 GB/s each");
  lesson.say("{:<36}{:>12}{:>28}", "all_gather of 805 MB of weights", "ms",
             "tokens/chip to pay for it");
  for (const auto& [axes, directions, name] :
       {std::tuple{1, 1, "16 chips of one axis, one way round"},
        {1, 2, "16 chips, both ways round"},
        {2, 2, "256 chips on two axes"},
        {3, 2, "4,096 chips on three axes"}}) {
    const double seconds = pod_gather_seconds(axes, directions, numbers);
    // A token multiplies and adds each number once: 2 FLOPs.
    const double tokens = seconds * chip.bf16 / (2.0 * static_cast<double>(numbers));
    lesson.say("{:<36}{:>12.3f}{:>28.0f}", name, 1e3 * seconds, tokens);
    lesson.number(fmt::format("pod.{}_axes_{}_ways.tokens", axes, directions), tokens);
  }
}

// Many small all_reduces on a machine of one's own: 4 H100, and a link whose two numbers vary.
void small_messages(Lesson& lesson) {
  lesson.section(
      "32 all_reduces of 64 KiB on 4 H100, one after the other: both numbers of the link");
  lesson.say("{:>10}{:>10}{:>16}", "alpha, us", "GB/s", "all 32, us");
  for (const auto& [us, gb] : {std::pair{1.0, 300.0}, {10.0, 300.0}, {1.0, 3000.0}}) {
    const Cluster mine{"mine", chip_named("h100"), {{"node", 4, 1e-6 * us, 1e-9 / gb}}, {}};
    const auto body = [](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Tensor gradient = Tensor::empty({1 << 14});
      for (int i = 0; i < 32; ++i) world.all_reduce(gradient, ReduceOp::sum, {Algorithm::ring});
    };
    const double seconds = run_on(mine, 4, body, {.trace = false}).seconds();
    lesson.say("{:>10.0f}{:>10.0f}{:>16.1f}", us, gb, 1e6 * seconds);
  }
}

// A step on 4 chips of a slow node: rank 2 is hot.
Timed straggling() {
  const Cluster c = ideal(4, 1, 1);
  const auto step = [](Communicator& world) {
    std::vector<uint8_t> gradient(8);
    for (int i = 0; i < 2; ++i) {
      charge({"compute", DType::f32, 10, 0, 0});
      world.all_reduce(gradient, ReduceOp::sum, {Algorithm::ring});
    }
  };
  return run_on(c, 4, step, {.stragglers = {.slow_ranks = {{2, 1.5}}}});
}

void straggler(Lesson& lesson) {
  lesson.section("One hot chip of four");
  const Timed run = straggling();
  lesson.show(timeline_text(make_timeline(run.trace), 60, console::colored()));
  for (const WaitedFor& waited : waited_for(run.trace, 0))
    lesson.say("rank 0 waited {:>2} s for {}", waited.seconds, wait_words(waited, 0));
}

void contention(Lesson& lesson) {
  const Cluster c = cluster_named("h100x8");
  const auto body = [](bool two) {
    return [two](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Communicator other = world.split(0, world.rank());
      Tensor x = Tensor::empty({1 << 28}), y = Tensor::empty({1 << 28});
      Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
      Work b = two ? other.all_reduce_async(y, ReduceOp::sum, {Algorithm::ring}) : Work();
      a.wait();
      b.wait();
    };
  };
  lesson.section("Two all_reduces of 1 GiB side by side, in us");
  for (const bool two : {false, true}) {
    const double alone = run_on(c, 8, body(two), {.share = false}).seconds();
    lesson.say("{}: if each had the links to itself {:.0f}, as they share them {:.0f}",
               two ? "two" : "one", 1e6 * alone, 1e6 * run_on(c, 8, body(two)).seconds());
  }
}

void draw_pictures(Lesson& lesson) {
  for (const auto& [file, svg] :
       {std::pair{"torus.svg", torus_svg()}, {"levels.svg", levels_svg()}}) {
    std::ofstream(file) << svg;
    lesson.say("drawn in {}", file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t draw = 0, oversubscription = 7;
  return run_lesson(
      argc, argv, {"09", "Clusters", "memories, links, and the price of a message"},
      [&](Lesson& lesson) {
        if (draw != 0) draw_pictures(lesson);
        memories(lesson);
        levels(lesson, oversubscription);
        figures(lesson);
        crossing(lesson);
        pod(lesson);
        small_messages(lesson);
        straggler(lesson);
        contention(lesson);
        nvlink_arithmetic(lesson);
        optical_racks(lesson);
        fat_trees(lesson);
        bisections(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 09");
      },
      {{"draw", "1: write the pictures torus.svg and levels.svg into this folder", &draw, 0, 1},
       {"oversubscription", "between pods, in the table of levels", &oversubscription, 1, 100}});
}
