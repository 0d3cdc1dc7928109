#include "course/book/figures/figure.hpp"
#include "yotta/device/matmul_register_tiles.hpp"
#include "yotta/machine/roofline.hpp"

namespace book {
namespace {

// A product of two n x n matrices in f32, by blocks of threads that have a tile of C each.
Data data(const std::vector<double>& at) {
  const auto n = static_cast<int64_t>(at[0]);
  const int tile = static_cast<int>(at[1]), mine = static_cast<int>(std::min(at[2], at[1]));
  const yotta::Roofline roof = yotta::roofline_of(yotta::chip_named("h100"), yotta::DType::f32);
  const auto bytes_of = [&](int side) {
    return yotta::bytes_loaded(n, n, n,
                               {side, side, 8, std::min(mine, side), std::min(mine, side)});
  };
  const double flops = 2.0 * at[0] * at[0] * at[0];
  const yotta::LoadedBytes bytes = bytes_of(tile);
  Data made;
  made.numbers = {{"read from global memory", "GB", bytes.global / 1e9},
                  {"FLOPs for each of these bytes", "", flops / bytes.global},
                  {"a chip asks for", "FLOPs per byte", roof.ridge()},
                  {"reading takes", "ms", 1e3 * bytes.global / roof.bandwidth},
                  {"multiplying takes", "ms", 1e3 * flops / roof.peak},
                  {"read from shared memory", "GB", bytes.shared / 1e9},
                  {"numbers of C in a thread's registers", "", double(mine) * mine, 6}};
  made.rows = {{"sizes", {at[0], at[1], double(mine), 1e3 * flops / roof.peak}, {}},
               curve("ms by tile", multiplied(1, 256, 2), [&](double side) {
                 return std::vector{1e3 * bytes_of(static_cast<int>(side)).global / roof.bandwidth};
               })};
  made.code = fmt::format(
      "const yotta::TileSizes tile{{{0}, {0}, 8, {1}, {1}}};\n"
      "const yotta::LoadedBytes bytes = yotta::bytes_loaded({2}, {2}, {2}, tile);\n"
      "fmt::print(\"{{}} bytes, {{}} of shared memory\\n\", bytes.global, bytes.shared);",
      tile, mine, n);
  return made;
}

}  // namespace

Figure tiles_figure() {
  return {"03_tiles",
          "A block of threads computes a tile of C. How large must the tile be before memory no "
          "longer limits a product in f32 on an H100?",
          {{"n, rows and columns of each matrix", "", multiplied(256, 16384, 2), 4},
           {"tile of a block, its side", "", multiplied(1, 256, 2), 4},
           {"tile of a thread, its side", "", multiplied(1, 16, 2), 0}},
          data};
}

}  // namespace book
