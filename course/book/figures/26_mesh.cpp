#include "course/book/figures/figure.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/machine/cluster.hpp"

namespace book {
namespace {

constexpr yotta::Axis axes[] = {yotta::Axis::tp, yotta::Axis::cp, yotta::Axis::pp,
                                yotta::Axis::dp_shard};

Data data(const std::vector<double>& at) {
  const yotta::MeshShape shape{.tp = static_cast<int>(at[0]),
                               .cp = static_cast<int>(at[1]),
                               .pp = static_cast<int>(at[2]),
                               .dp_shard = static_cast<int>(at[3])};
  const yotta::Axis axis = axes[static_cast<size_t>(at[4])];
  const int ranks = static_cast<int>(shape.ranks()), mine = static_cast<int>(at[5]) % ranks;
  const yotta::Cluster cluster = yotta::cluster_named(fmt::format("h100x{}", ranks));
  Row group{"group"}, places{"places"};
  int furthest = mine;
  for (int rank = 0; rank < ranks; ++rank) {
    bool same = true;
    for (const yotta::Axis each : axes)
      same &= each == axis ||
              yotta::coordinate(shape, rank, each) == yotta::coordinate(shape, mine, each);
    group.values.push_back(same ? 1 : 0);
    places.words.push_back(fmt::format(
        "tp {} cp {} pp {} fsdp {}", yotta::coordinate(shape, rank, axes[0]),
        yotta::coordinate(shape, rank, axes[1]), yotta::coordinate(shape, rank, axes[2]),
        yotta::coordinate(shape, rank, axes[3])));
    if (same && std::abs(rank - mine) > std::abs(furthest - mine)) furthest = rank;
  }
  const yotta::Link link = cluster.link(mine, furthest);
  Data made;
  made.numbers = {{"ranks", "", double(ranks), 6},
                  {"this rank's group has", "ranks", double(shape[axis]), 6},
                  {"two neighbours are apart by", "", double(yotta::stride(shape, axis)), 6}};
  if (furthest != mine) made.numbers.push_back({"its slowest link has", "GB/s", 1e-9 / link.beta});
  made.rows = {{"sizes", {double(ranks), double(mine)}, {}}, group, places};
  made.code = fmt::format(
      "const yotta::MeshShape shape{{.tp = {}, .cp = {}, .pp = {}, .dp_shard = {}}};\n"
      "const yotta::Axis axis = yotta::Axis::{};\n"
      "fmt::print(\"{{}} ranks, groups of {{}}\\n\", shape.ranks(), shape[axis]);\n"
      "fmt::print(\"neighbours are {{}} apart\\n\", yotta::stride(shape, axis));",
      at[0], at[1], at[2], at[3], yotta::name(axis));
  return made;
}

}  // namespace

Figure mesh_figure() {
  return {"26_mesh",
          "Nodes have 8 GPUs. For which axes do a rank's partners stay in its node, and how large "
          "may the axes inside them become before they leave it?",
          {{"tp", "", {1, 2, 4, 8}, 1},
           {"cp", "", {1, 2, 4}, 1},
           {"pp", "", {1, 2, 4}, 1},
           {"fsdp", "", {1, 2, 4, 8}, 2},
           choice("show the group along", {"tp", "cp", "pp", "fsdp"}),
           {"of rank", "", counted(0, 63), 5}},
          data};
}

}  // namespace book
