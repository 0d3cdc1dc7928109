#include "course/book/figures/figure.hpp"
#include "yotta/machine/cluster.hpp"

namespace book {
namespace {

Data data(const std::vector<double>& at) {
  const yotta::Cluster cluster = yotta::llama3_24k();
  const int other = static_cast<int>(at[0]);
  const yotta::Link link = cluster.link(0, other);
  const yotta::Level& level = cluster.levels[static_cast<size_t>(link.level)];
  const double bytes = at[1], seconds = link.seconds(bytes);
  Data made;
  made.numbers = {{fmt::format("over the {}", level.name), "us", seconds * 1e6},
                  {"of it latency", "%", 100 * link.alpha / seconds},
                  {"bytes that take as long as the latency", "kB", link.alpha / link.beta / 1e3},
                  {"the chip does meanwhile", "MFLOP", seconds * cluster.chip.bf16 / 1e6}};
  for (const yotta::Level& each : cluster.levels)
    made.rows.push_back({each.name,
                         {static_cast<double>(each.chips), each.alpha * 1e6, 1e-9 / each.beta,
                          (each.alpha + bytes * each.beta) * 1e6},
                         {}});
  made.rows.push_back({"chosen", {static_cast<double>(link.level)}, {}});
  made.code = fmt::format(
      "const yotta::Cluster cluster = yotta::llama3_24k();\n"
      "const yotta::Link link = cluster.link(0, {});\n"
      "fmt::print(\"{{}} s\\n\", link.seconds({:.0f}));",
      other, bytes);
  return made;
}

}  // namespace

Figure links_figure() {
  return {"09_links",
          "You send a message from chip 0 to another chip. When does the distance matter, and when "
          "only the size?",
          {{"to chip", "", {1, 4, 7, 8, 15, 16, 100, 1000, 3071, 3072, 10000, 24575}, 3},
           {"message", "bytes", multiplied(64, 1 << 28, 4), 5}},
          data};
}

}  // namespace book
