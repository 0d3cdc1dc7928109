#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/device/mma_fragments.hpp"

namespace book {
namespace {

constexpr int shapes = 6;  // without Volta's, which is four products

Data data(const std::vector<double>& at) {
  const yotta::MmaShape& shape = yotta::mma_shapes[static_cast<size_t>(at[0])];
  const int lane = static_cast<int>(at[1]);
  Data made;
  for (const yotta::Fragment* f : {&shape.a, &shape.b, &shape.c}) {
    Row sizes{fmt::format("{} sizes", f->name),
              {static_cast<double>(f->rows), static_cast<double>(f->columns),
               static_cast<double>(f->per_register)}};
    Row cells{fmt::format("{} cells", f->name)};
    for (int i = 0; i < f->elements; ++i) {
      const yotta::MatrixCell cell = f->cell(lane, i);
      cells.values.insert(cells.values.end(), {double(cell.row), double(cell.column)});
    }
    made.rows.push_back(sizes);
    made.rows.push_back(cells);
    made.numbers.push_back({fmt::format("registers of a lane for {}", f->name), "",
                            std::max(1.0, double(f->elements) / f->per_register)});
  }
  made.numbers.push_back({"FLOPs of the instruction", "", 2.0 * shape.m * shape.n * shape.k, 6});
  made.code = fmt::format(
      "const yotta::Fragment& a = yotta::mma_shapes[{}].a;\n"
      "for (int i = 0; i < a.elements; ++i)\n"
      "  fmt::print(\"row {{}}, column {{}}\\n\", a.cell({}, i).row, a.cell({}, i).column);",
      at[0], lane, lane);
  return made;
}

}  // namespace

Figure lanes_figure() {
  std::vector<std::string> names;
  for (int i = 0; i < shapes; ++i)
    names.push_back(
        fmt::format("{} of {}", yotta::mma_shapes[i].name, yotta::mma_shapes[i].inputs));
  return {
      "04_lanes",
      "A tensor core's matrices lie in the registers of 32 lanes. Which cells does a lane have, "
      "and why are they not a block?",
      {choice("instruction", names), {"lane", "", counted(0, 31), 5}},
      data};
}

}  // namespace book
