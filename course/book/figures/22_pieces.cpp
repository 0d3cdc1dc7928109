#include "course/book/figures/figure.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace book {
namespace {

using yotta::Pieces;

// Seconds of a gather of p pieces and its product: a piece's matmul takes M, its hop H.
struct Times {
  double M, H, whole, one_way, both_ways;
};
Times times_of(int p, double M, double H) {
  return {M, H, yotta::gather_matmul_seconds(p, Pieces::none, M, 0) + (p - 1) * H,
          yotta::gather_matmul_seconds(p, Pieces::one_way, M, H),
          yotta::gather_matmul_seconds(p, Pieces::both_ways, M, H)};
}

Data data(const std::vector<double>& at) {
  const int p = static_cast<int>(at[0]);
  const double tokens = at[1] * 1024 / at[0], width = at[2], bandwidth = at[4] * 1e9;
  const double rate = yotta::chip_named("h100").bf16 / 2;
  const auto times = [&](double outputs) {
    return times_of(p, 2 * tokens * width * outputs / rate, 2 * tokens * width / bandwidth);
  };
  const Times now = times(at[3]);
  const double hidden = yotta::async_tp_hidden_width(rate, bandwidth, 2);
  Data made;
  made.numbers = {{"first gather, then multiply", "us", now.whole * 1e6},
                  {"in pieces, one way", "us", now.one_way * 1e6},
                  {"in pieces, both ways", "us", now.both_ways * 1e6},
                  {"multiplying alone", "us", p * now.M * 1e6},
                  {"hops hide from so many outputs on", "", hidden, 4}};
  const Row by_outputs = curve("us by outputs", multiplied(128, 16384, 2), [&](double outputs) {
    const Times t = times(outputs);
    return std::vector{t.whole * 1e6, t.one_way * 1e6, t.both_ways * 1e6};
  });
  made.rows = {{"pieces", {at[0], now.M * 1e6, now.H * 1e6}, {}},
               {"chosen", {at[3], now.one_way * 1e6, hidden}, {}},
               by_outputs};
  made.code = fmt::format(
      "const double M = {}, H = {};  // seconds of a piece's matmul, and of its hop\n"
      "fmt::print(\"{{}} s\\n\", yotta::gather_matmul_seconds({}, yotta::Pieces::one_way, M, H));\n"
      "fmt::print(\"{{}} outputs\\n\", yotta::async_tp_hidden_width({}, {}, 2));",
      now.M, now.H, p, rate, bandwidth);
  return made;
}

}  // namespace

Figure pieces_figure() {
  return {
      "22_pieces",
      "Tokens of other ranks arrive piece by piece while those that are there are multiplied. "
      "How wide must a rank's matrix be before the wire is hidden? H100s at half of their peak.",
      {{"tp, ranks", "", {2, 4, 8, 16}, 2},
       {"tokens of all ranks", "thousand", {1, 2, 4, 8, 16, 32}, 3},
       {"C, width", "", multiplied(1024, 16384, 2), 2},
       {"outputs of a rank's matrix", "", multiplied(128, 16384, 2), 3},
       {"bandwidth", "GB/s", {25, 50, 100, 200, 450, 900}, 4}},
      data};
}

}  // namespace book
