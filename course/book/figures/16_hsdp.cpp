#include "course/book/figures/figure.hpp"
#include "yotta/parallel/hsdp_cost.hpp"

namespace book {
namespace {

yotta::Cluster cluster_of(int ranks, double card) {
  yotta::Cluster cluster = yotta::cluster_named(fmt::format("h100x{}", ranks));
  if (cluster.levels.size() > 1) cluster.levels[1].beta = 1 / (card * 1e9);
  return cluster;
}

Data data(const std::vector<double>& at) {
  const int ranks = static_cast<int>(at[0]);
  const yotta::HsdpWork work{.parameters = at[1] * 1e9, .units = 32, .tokens = at[2] * 1024};
  const std::vector<yotta::HsdpGroup> sweep =
      yotta::hsdp_sweep(cluster_of(ranks, at[3]), ranks, work);
  Data made;
  Row groups{"groups"};
  const yotta::HsdpGroup* best = nullptr;
  for (const yotta::HsdpGroup& each : sweep) {
    groups.values.insert(
        groups.values.end(),
        {double(each.p), each.seconds, (each.held + each.borrowed) / 1e9, each.fits ? 1.0 : 0.0});
    if (each.fits && (best == nullptr || each.seconds < best->seconds)) best = &each;
  }
  const yotta::HsdpGroup& all = sweep.back();
  if (best != nullptr)
    made.numbers = {{"the best group has", "ranks", double(best->p), 6},
                    {"a step with it", "s", best->seconds},
                    {"a rank holds", "GB", (best->held + best->borrowed) / 1e9}};
  made.numbers.push_back({"a step with FSDP over all", "s", all.seconds});
  made.rows = {{"best", {best == nullptr ? 0.0 : double(best->p)}, {}}, groups};
  made.code = fmt::format(
      "yotta::Cluster cluster = yotta::cluster_named(\"h100x{0}\");\n{1}"
      "const yotta::HsdpWork work{{.parameters = {2}, .units = 32, .tokens = {3}}};\n"
      "for (const auto& group : yotta::hsdp_sweep(cluster, {0}, work))\n"
      "  fmt::print(\"{{}} ranks: {{}} s\\n\", group.p, group.seconds);",
      ranks, ranks > 8 ? fmt::format("cluster.levels[1].beta = 1 / {}e9;\n", at[3]) : "",
      work.parameters, work.tokens);
  return made;
}

}  // namespace

Figure hsdp_figure() {
  return {"16_hsdp",
          "How large should a group be that shares one copy of the weights? Small groups gather "
          "fast; large ones hold less.",
          {{"GPUs (H100, 8 in a node)", "", {8, 16, 32, 64, 128, 256, 512}, 3},
           {"parameters", "billion", {0.5, 1.5, 3, 7, 13, 30, 70}, 3},
           {"tokens of a rank", "thousand", {1, 2, 4, 8, 16}, 2},
           {"a network card", "GB/s", {5, 12.5, 25, 50, 100}, 2}},
          data};
}

}  // namespace book
