#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"

namespace book {
namespace {

using Seconds = double (*)(int, double, yotta::AlphaBeta);
struct Way {
  const char* name;
  const char* function;
  Seconds seconds;
};
const Way ways[] = {
    {"naive", "all_reduce_naive_seconds", yotta::all_reduce_naive_seconds},
    {"tree", "all_reduce_tree_seconds", yotta::all_reduce_tree_seconds},
    {"recursive doubling", "all_reduce_recursive_doubling_seconds",
     yotta::all_reduce_recursive_doubling_seconds},
    {"Rabenseifner", "all_reduce_rabenseifner_seconds", yotta::all_reduce_rabenseifner_seconds},
    {"ring", "all_reduce_ring_seconds", yotta::all_reduce_ring_seconds}};

Data data(const std::vector<double>& at) {
  const int p = static_cast<int>(at[0]);
  const yotta::AlphaBeta link{at[1] * 1e-6, 1 / (at[2] * 1e9), 0};
  Data made;
  Row sizes{"bytes", multiplied(256, 1 << 30, 2), {}};
  made.rows = {{"chosen", {at[3]}, {}}, sizes};
  for (const Way& way : ways) {
    Row row{way.name};
    for (const double bytes : sizes.values) row.values.push_back(way.seconds(p, bytes, link));
    made.rows.push_back(row);
    made.numbers.push_back({way.name, "us", way.seconds(p, at[3], link) * 1e6, 4});
  }
  const Way& best = *std::min_element(std::begin(ways), std::end(ways), [&](auto& a, auto& b) {
    return a.seconds(p, at[3], link) < b.seconds(p, at[3], link);
  });
  made.code = fmt::format(
      "const yotta::AlphaBeta link{{{}e-6, 1 / {}e9}};\n"
      "const double seconds = yotta::{}({}, {:.0f}, link);\n"
      "fmt::print(\"{}: {{}} s\\n\", seconds);",
      at[1], at[2], best.function, p, at[3], best.name);
  return made;
}

}  // namespace

Figure crossover_figure() {
  return {"10_crossover",
          "From which size on is a ring as good as anything, and why is it not good for small "
          "arrays?",
          {{"p, ranks", "", multiplied(2, 1024, 2), 4},
           {"alpha, of a message", "us", {0.5, 1, 2, 3, 5, 8, 12, 20, 50}, 4},
           {"bandwidth", "GB/s", {3, 6, 12.5, 25, 50, 100, 200, 450, 900}, 4},
           {"array", "bytes", multiplied(256, 1 << 30, 2), 10}},
          data};
}

}  // namespace book
