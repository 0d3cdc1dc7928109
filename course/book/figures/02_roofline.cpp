#include "course/book/figures/figure.hpp"
#include "yotta/machine/roofline.hpp"

namespace book {
namespace {

const std::vector<std::string> chips = {"a100", "h100", "h200", "b200", "v5p", "rtx4090"};

Data data(const std::vector<double>& at) {
  const std::string& chip = chips[static_cast<size_t>(at[3])];
  const yotta::Roofline roof = yotta::roofline_of(yotta::chip_named(chip));
  const auto whole = [&](size_t i) { return static_cast<int64_t>(at[i]); };
  const yotta::Workload work = yotta::matmul_workload(whole(0), whole(1), whole(2));
  const double seconds = roof.seconds(work.flops, work.bytes), rate = work.flops / seconds;
  Data made;
  made.numbers = {{"intensity", "FLOPs per byte", work.intensity()},
                  {"ridge", "FLOPs per byte", roof.ridge()},
                  {"at least", "us", seconds * 1e6},
                  {"at most", "TFLOP/s", rate / 1e12},
                  {"of the peak", "%", 100 * rate / roof.peak}};
  made.rows = {{"roof", {roof.bandwidth, roof.peak, roof.ridge()}, {}},
               {"point", {work.intensity(), rate}, {}}};
  Row path{"rows of A from 1 to 16384"};
  for (const double m : multiplied(1, 16384, 2)) {
    const yotta::Workload w = yotta::matmul_workload(static_cast<int64_t>(m), whole(1), whole(2));
    path.values.push_back(w.intensity());
    path.values.push_back(w.flops / roof.seconds(w.flops, w.bytes));
  }
  made.rows.push_back(path);
  made.code = fmt::format(
      "const yotta::Workload work = yotta::matmul_workload({}, {}, {});\n"
      "const yotta::Roofline roof = yotta::roofline_of(yotta::chip_named(\"{}\"));\n"
      "fmt::print(\"{{}} FLOPs per byte, {{}} s\\n\", work.intensity(), "
      "roof.seconds(work.flops, work.bytes));",
      whole(0), whole(1), whole(2), chip);
  return made;
}

}  // namespace

Figure roofline_figure() {
  const std::vector<double> sizes = multiplied(1, 16384, 2);
  return {"02_roofline",
          "How many rows (tokens) must A have before the chip no longer waits for its memory?",
          {{"m, rows of A", "", sizes, 3},
           {"n, columns of B", "", sizes, 12},
           {"k, columns of A", "", sizes, 12},
           choice("chip", chips, 1)},
          data};
}

}  // namespace book
