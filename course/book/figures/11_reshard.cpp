#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/sharding/resharding.hpp"

namespace book {
namespace {

const std::vector<std::string> places = {"nothing (copies)", "rows, I", "columns, J",
                                         "sums (parts)"};

// Where X and Y stand, as a text: "[I_XY, J]".
std::string spread_text(double x, double y) {
  std::string axes[4];
  axes[static_cast<size_t>(x)] += 'X';
  axes[static_cast<size_t>(y)] += 'Y';
  const auto cut = [](const char* dim, const std::string& by) {
    return by.empty() ? std::string(dim) : fmt::format("{}_{}", dim, by);
  };
  return fmt::format("[{}, {}]{}", cut("I", axes[1]), cut("J", axes[2]),
                     axes[3].empty() ? "" : "{U_" + axes[3] + "}");
}

// The rows and columns that each rank holds: first row, last + 1, first column, last + 1.
Row boxes_of(const char* name, const yotta::Spread& spread, const yotta::NamedMesh& mesh,
             const yotta::Shape& shape) {
  Row row{name, {}, {yotta::str(spread)}};
  for (int rank = 0; rank < yotta::ranks_of(mesh); ++rank)
    for (size_t d = 0; d < 2; ++d) {
      const yotta::IndexRange held = yotta::held_range(shape[d], spread.dims[d].axes, mesh, rank);
      row.values.insert(row.values.end(), {double(held.begin), double(held.end)});
    }
  return row;
}

Data data(const std::vector<double>& at) {
  const yotta::NamedMesh mesh{{{'X', static_cast<int>(at[4])}, {'Y', static_cast<int>(at[5])}}};
  const auto side = static_cast<int64_t>(at[6]);
  const yotta::WholeTensor whole{{side, side}, yotta::DType::bf16};
  const yotta::TorusLinks links = yotta::links_of(yotta::chip_named("v5p"));
  const std::string from_text = spread_text(at[0], at[1]), to_text = spread_text(at[2], at[3]);
  const yotta::Spread from = yotta::parse_spread(from_text, mesh);
  const yotta::Spread to = yotta::parse_spread(to_text, mesh);
  Data made;
  made.rows = {{"sizes", {double(side), at[4], at[5]}, {}},
               boxes_of("before", from, mesh, whole.shape),
               boxes_of("after", to, mesh, whole.shape)};
  const auto held = [&](const yotta::Spread& spread) {
    return double(yotta::held_bytes(whole.shape, whole.dtype, spread, mesh, 0)) / 1e6;
  };
  made.numbers = {{"a rank holds before", "MB", held(from)}, {"and after", "MB", held(to)}};
  if (const std::string undone = yotta::without(to.unreduced, from.unreduced); !undone.empty()) {
    made.rows.push_back({"why not",
                         {},
                         {"Only a product makes parts of a sum over " + undone +
                          ". No collective does: ask for it summed."}});
    made.code = "// there is no such step";
    return made;
  }
  const yotta::ReshardPlan plan = yotta::cheapest_reshard(from, to, whole, mesh, links);
  Row steps{"steps"};
  yotta::Spread now = from;
  for (const yotta::Step& step : plan.steps) {
    const yotta::StepCost cost = yotta::cost_of(step, now, whole, mesh, links);
    now = yotta::after(now, step);
    steps.words.push_back(
        fmt::format("{} over {}: {}", yotta::name(step.move), step.axes, yotta::str(now)));
    steps.values.push_back(cost.seconds * 1e6);
  }
  made.rows.push_back(steps);
  made.numbers.push_back({"it sends", "MB", double(plan.cost.bytes) / 1e6});
  made.numbers.push_back({"which takes", "us", plan.cost.seconds * 1e6});
  made.code = fmt::format(
      "const yotta::NamedMesh mesh = yotta::parse_mesh(\"X {}, Y {}\");\n"
      "const yotta::WholeTensor whole{{{{{}, {}}}, yotta::DType::bf16}};\n"
      "const auto links = yotta::links_of(yotta::chip_named(\"v5p\"));\n"
      "const auto plan = yotta::cheapest_reshard(yotta::parse_spread(\"{}\", mesh),\n"
      "                                          yotta::parse_spread(\"{}\", mesh), whole, mesh, "
      "links);\n"
      "for (const auto& step : plan.steps) fmt::print(\"{{}} over {{}}\\n\", "
      "yotta::name(step.move), "
      "step.axes);\n"
      "fmt::print(\"{{}} bytes, {{}} s\\n\", plan.cost.bytes, plan.cost.seconds);",
      at[4], at[5], side, side, from_text, to_text);
  return made;
}

}  // namespace

Figure reshard_figure() {
  return {"11_reshard",
          "A mesh has two axes, X and Y. Drag each onto the rows, the columns or nothing, before "
          "and after: which collective changes one spread into the other?",
          {choice("before, X cuts", places, 1),
           choice("before, Y cuts", places, 1),
           choice("after, X cuts", places, 2),
           choice("after, Y cuts", places, 0),
           {"ranks along X", "", {2, 3, 4}, 2},
           {"ranks along Y", "", {2, 3, 4}, 2},
           {"rows and columns of the matrix", "", multiplied(1024, 16384, 2), 3}},
          data};
}

}  // namespace book
