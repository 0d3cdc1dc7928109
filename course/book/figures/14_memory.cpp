#include "course/book/figures/figure.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/parallel/zero.hpp"

namespace book {
namespace {

const std::vector<std::string> chips = {"a100-40gb", "h100", "h200", "b200"};

Data data(const std::vector<double>& at) {
  const auto ranks = static_cast<int64_t>(at[1]);
  const int64_t N = static_cast<int64_t>(at[0] * 1e9) / 1024 * 1024;  // divides by all ranks
  const yotta::StateBytes bytes = yotta::zero_paper_bytes;
  const yotta::Chip& chip = yotta::chip_named(chips[static_cast<size_t>(at[2])]);
  Data made;
  made.rows = {{"memory", {chip.memory / 1e9}, {chip.name}}};
  for (int stage = 0; stage <= 3; ++stage) {
    const auto held = [&](yotta::StateBytes each) {
      return static_cast<double>(yotta::zero_bytes_held(stage, ranks, N, each)) / 1e9;
    };
    const std::string name = stage == 0 ? "DDP" : fmt::format("ZeRO-{}", stage);
    made.numbers.push_back({name, "GB", held(bytes), 4});
    made.rows.push_back({name,
                         {held({bytes.weights, 0, 0}), held({0, bytes.gradients, 0}),
                          held({0, 0, bytes.optimizer})},
                         {"weights", "gradients", "optimizer"}});
  }
  made.code = fmt::format(
      "const int64_t N = {};\n"
      "for (int stage = 0; stage <= 3; ++stage)\n"
      "  fmt::print(\"{{}}\\n\", yotta::zero_bytes_held(stage, {}, N, yotta::zero_paper_bytes));",
      N, ranks);
  return made;
}

}  // namespace

Figure memory_figure() {
  return {"14_memory",
          "Which stage is the first with which a model fits, and for which do more ranks not help?",
          {{"N, parameters", "billion", {0.5, 1.5, 3, 7, 13, 30, 70, 175, 405}, 3},
           {"ranks", "", multiplied(1, 1024, 2), 3},
           choice("chip", chips, 1)},
          data};
}

}  // namespace book
