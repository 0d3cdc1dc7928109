#include "course/book/figures/figure.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/machine/memory_levels.hpp"

namespace book {
namespace {

// A place where numbers are, and what it is made of.
struct Place {
  std::string name;
  double bytes, bandwidth, latency;  // latency 0: not known
  double parts;
  std::string part, more;  // one of its parts, and what is to be said of them
};

std::vector<Place> all_places() {
  const yotta::Cluster cluster = yotta::llama3_24k();
  const yotta::Multiprocessors& sms = yotta::multiprocessors_of("h100");
  const double count = sms.count, warps = sms.warps;
  const auto memories = yotta::h100_memories();
  std::vector<Place> all;
  for (const yotta::MemoryLevel& each : memories) {
    const bool of_sm = all.size() < 2;
    all.push_back({each.name, each.bytes, each.bandwidth, each.latency, of_sm ? warps : count,
                   of_sm ? "warp" : "SM", of_sm ? "of one SM" : "of the chip"});
  }
  double inner = 1;
  const char* part = "chip";
  for (const yotta::Level& each : cluster.levels) {
    all.push_back({each.name, each.chips * cluster.chip.memory, 1 / each.beta, each.alpha,
                   each.chips / inner, part, ""});
    inner = each.chips;
    part = each.name.c_str();
  }
  return all;
}

std::string code(size_t level) {
  if (level < 4)
    return fmt::format(
        "const yotta::MemoryLevel level = yotta::h100_memories()[{}];\n"
        "fmt::print(\"{{}} bytes/s\\n\", level.bandwidth);",
        level);
  return fmt::format(
      "const yotta::Level level = yotta::llama3_24k().levels[{}];\n"
      "fmt::print(\"{{}} bytes/s after {{}} s\\n\", 1 / level.beta, level.alpha);",
      level - 4);
}

Data data(const std::vector<double>& at) {
  const std::vector<Place> all = all_places();
  const auto chosen = static_cast<size_t>(at[0]);
  const Place& here = all[chosen];
  Data made;
  made.numbers = {
      {"holds", "GB", here.bytes / 1e9},
      {"gives a chip", "GB/s", here.bandwidth / 1e9},
      {"FLOPs per byte to pay", "", yotta::chip_named("h100").bf16 / here.bandwidth, 4}};
  if (here.latency > 0) made.numbers.push_back({"latency", "us", here.latency * 1e6});
  for (const Place& each : all)
    made.rows.push_back(
        {each.name, {each.bytes, each.bandwidth, each.parts}, {each.part, each.more}});
  made.rows.push_back({"chosen", {at[0]}, {}});
  made.code = code(chosen);
  return made;
}

}  // namespace

Figure zoom_figure() {
  std::vector<std::string> names;
  for (const Place& each : all_places()) names.push_back(each.name);
  return {"09_zoom",
          "From a register to the data centre: how much is there at each level, and how many FLOPs "
          "must a chip do with a byte that comes from there? Zoom out.",
          {choice("level", names, 4)},
          data};
}

}  // namespace book
