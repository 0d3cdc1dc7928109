#include "course/book/figures/figure.hpp"
#include "yotta/device/roofline_matmul.hpp"

namespace book {
namespace {

// A chain of elementwise ops on f32 arrays; each reads one array and writes one. The first `fused`
// are one kernel.
Data data(const std::vector<double>& at) {
  const auto ops = static_cast<size_t>(at[0]), fused = std::min(static_cast<size_t>(at[1]), ops);
  const double numbers = at[2] * 1e6, array = 4 * numbers;
  const yotta::Roofline roof = yotta::roofline_of(yotta::chip_named("h100"), yotta::DType::f32);
  std::vector<yotta::KernelStep> steps(ops, {at[3] * numbers, 2 * array, array});
  steps.back().passes_on = 0;
  std::vector<yotta::KernelStep> joined(steps.begin(), steps.begin() + static_cast<long>(fused));
  joined.back().passes_on = 0;
  const std::span<const yotta::KernelStep> rest = std::span(steps).subspan(fused);
  const double seconds = yotta::fuse(joined, roof).fused + yotta::fuse(rest, roof).apart;
  const double apart = yotta::fuse(steps, roof).apart;
  const double kernels = 1 + static_cast<double>(rest.size());
  Data made;
  made.numbers = {{"kernels", "", kernels, 6},
                  {"bytes moved", "MB", kernels * 2 * array / 1e6},
                  {"at least", "us", seconds * 1e6},
                  {"faster than apart", "times", apart / seconds}};
  made.rows = {{"sizes", {at[0], static_cast<double>(fused), array / 1e6}, {}}};
  made.code = fmt::format(
      "const auto roof = yotta::roofline_of(yotta::chip_named(\"h100\"), yotta::DType::f32);\n"
      "const yotta::KernelStep step{{{0}, {1}, {2}}}, last{{{0}, {1}, 0}};  // FLOPs, bytes, "
      "passed on\n"
      "std::vector<yotta::KernelStep> joined({3}, step), rest({4}, step);\n"
      "joined.back() = last;\n{5}"
      "const double seconds = yotta::fuse(joined, roof).fused + yotta::fuse(rest, roof).apart;\n"
      "fmt::print(\"{{}} s\\n\", seconds);",
      at[3] * numbers, 2 * array, array, fused, rest.size(),
      rest.empty() ? "" : "rest.back() = last;\n");
  return made;
}

}  // namespace

Figure fusion_figure() {
  return {"05_fusion",
          "Each op alone reads an array and writes one. How much faster is one kernel for several, "
          "and when does that stop?",
          {{"ops in a row", "", counted(1, 12), 5},
           {"of them in one kernel", "", counted(1, 12), 2},
           {"numbers in an array", "million", {1, 4, 16, 64, 256}, 2},
           {"FLOPs of an op and number", "", {1, 4, 16, 64, 256}, 0}},
          data};
}

}  // namespace book
