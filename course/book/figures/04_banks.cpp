#include <array>

#include "course/book/figures/figure.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"

namespace book {
namespace {

const std::vector<std::string> kinds = {"a row", "a column", "a diagonal", "8 rows of 4"};

// The word of shared memory that a lane reads, in a matrix with so many words from row to row.
int word_of(int kind, int lane, int pitch) {
  if (kind == 0) return lane;
  if (kind == 1) return lane * pitch;
  if (kind == 2) return lane * pitch + lane;
  return lane / 4 * pitch + lane % 4;
}

Data data(const std::vector<double>& at) {
  const int kind = static_cast<int>(at[0]), width = static_cast<int>(at[1]);
  const int padding = static_cast<int>(at[2]), pitch = width + padding;
  std::array<int, 32> words = {};
  for (int lane = 0; lane < 32; ++lane)
    words[static_cast<size_t>(lane)] = word_of(kind, lane, pitch);
  const int passes = yotta::bank_passes(words);
  Data made;
  made.numbers = {{"passes over the banks", "", double(passes), 6},
                  {"of the bandwidth is used", "%", 100.0 / passes},
                  {"shared memory is", "% larger", 100.0 * padding / width}};
  made.rows = {{"sizes", {double(pitch), double(passes)}, {}},
               {"words", {words.begin(), words.end()}, {}}};
  const char* const code[] = {"lane", "lane * {0}", "lane * {0} + lane",
                              "lane / 4 * {0} + lane % 4"};
  made.code = fmt::format(
      "std::array<int, 32> words = {{}};\n"
      "for (int lane = 0; lane < 32; ++lane) words[lane] = {};\n"
      "fmt::print(\"{{}} passes\\n\", yotta::bank_passes(words));",
      fmt::format(fmt::runtime(code[kind]), pitch));
  return made;
}

}  // namespace

Figure banks_figure() {
  return {"04_banks",
          "Shared memory has 32 banks, and each gives one word at a time. 32 lanes read from a "
          "matrix: how much padding per row makes that one pass?",
          {choice("the lanes read", kinds, 1),
           {"words of a row", "", {8, 16, 32, 64}, 2},
           {"padding of a row", "words", counted(0, 8), 0}},
          data};
}

}  // namespace book
