// What hopper.md compares: Hopper's rungs counted, tiles by the same arithmetic, the rungs as
// timelines, and what a store costs that nothing hides.
#pragma once

#include <filesystem>
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/hopper_picture.hpp"
#include "hopper_counts.hpp"
#include "yotta/device/tensor_cores_hopper_rungs.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta::hopper_page {

inline void rungs(Lesson& lesson) {
  constexpr int m = 256, n = 256, k = 128;
  lesson.section(fmt::format(
      "Hopper's rungs on {} x {} x {}: what is asked of an SM for 4096 FLOPs", m, n, k));
  lesson.say("{:<12} {:>6} {:>7} {:>8} {:>11} {:>9} {:>10}", "", "wgmma", "copies", "sectors",
             "wavefronts", "of them C", "roof H100");
  for (const HopperCounts& rung : count_hopper_rungs(m, n, k)) {
    lesson.say("{:<12} {:>6} {:>7} {:>8.2f} {:>11.2f} {:>9.2f} {:>9.1f}%", rung.name, rung.wgmmas,
               rung.copies, rung.sectors, rung.wavefronts, rung.of_c, 100 * rung.on_h100);
    lesson.number(rung.name + ".wavefronts", rung.wavefronts);
  }
}

template <int BN, int consumers>
void tile(Lesson& lesson) {
  using T = HopperTiles<BN, 1, consumers>;
  const TensorCoreCost& cost = hopper_costs<T>[2];
  lesson.say("{:<11} {:>13} {:>8.3f} {:>9.3f} {:>8.3f} {:>10.1f}%",
             fmt::format("{} x {}", T::Ring::BM, BN), BN / 2, wgmma_wavefronts<BN>(),
             write_wavefronts<typename T::Ring>(), cost.wavefronts, 100 * cost.attainable());
}
inline void tiles(Lesson& lesson) {
  lesson.section("Tiles of a block, a warp group for each 64 rows: wavefronts for 4096 FLOPs");
  lesson.say("{:<11} {:>13} {:>8} {:>9} {:>8} {:>11}", "", "sums a thread", "wgmma", "writing",
             "all", "roof H100");
  tile<64, 1>(lesson);
  tile<128, 1>(lesson);
  tile<256, 1>(lesson);
  tile<128, 2>(lesson);
  tile<256, 2>(lesson);
}

inline void timelines(Lesson& lesson, bool draw) {
  lesson.section("Two tiles of C on one SM, a model: in multiplications of a step");
  lesson.say("{:<12} {:>6} {:>22}", "", "time", "tensor cores at work");
  for (const HopperTimeline& each : hopper_picture::timelines())
    lesson.say("{:<12} {:>6.1f} {:>21.0f}%", each.name, each.end(), 100 * each.share());
  if (!draw) return;
  std::ofstream("hopper_rungs.svg") << hopper_svg();
  lesson.say("drawn: {}", (std::filesystem::current_path() / "hopper_rungs.svg").string());
}

inline void stores(Lesson& lesson) {
  const Chip& h100 = chip_named("h100");
  lesson.section("A store of C that nothing hides, on an H100: its time over that to multiply");
  for (const double k : {1024, 4096, 8192, 16384})
    lesson.say("k = {:>5.0f} {:>7.1f}%", k, 100 * exposed_store(h100.bf16 / h100.bandwidth, k));
}

inline void all(Lesson& lesson, bool draw) {
  rungs(lesson);
  tiles(lesson);
  timelines(lesson, draw);
  stores(lesson);
}

inline void mistake(Lesson& lesson) {
  lesson.section("Mistake: a place is given back before its wgmma is done");
  lesson.say("{}", freed_too_early());
}

}  // namespace yotta::hopper_page
