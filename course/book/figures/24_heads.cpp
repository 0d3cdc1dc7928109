#include "course/book/figures/figure.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/parallel/ulysses.hpp"

namespace book {
namespace {

constexpr int64_t heads = 32, width = 128;  // of queries; numbers of a head, in bf16

// Bytes that a rank sends forward, for T tokens in all.
double by_ulysses(int64_t ranks, int64_t T, int64_t kv_heads) {
  return static_cast<double>(
      yotta::ulysses_bytes(ranks, 2 * T * heads * width, 2 * T * kv_heads * width));
}
double by_ring(int64_t ranks, int64_t T, int64_t kv_heads) {
  return static_cast<double>(
      yotta::ring_bytes(static_cast<int>(ranks), 2 * 2 * T * kv_heads * width / ranks));
}

Data data(const std::vector<double>& at) {
  const auto ranks = static_cast<int64_t>(at[0]), kv_heads = static_cast<int64_t>(at[1]);
  const auto T = static_cast<int64_t>(at[2]) * 1024;
  const bool divides = kv_heads % ranks == 0;
  Data made;
  if (divides)
    made.numbers = {{"Ulysses: a rank sends", "MB", by_ulysses(ranks, T, kv_heads) / 1e6}};
  for (const Number& each : std::initializer_list<Number>{
           {"a ring: a rank sends", "MB", by_ring(ranks, T, kv_heads) / 1e6},
           {"tokens of a rank outside attention", "", double(T / ranks), 7},
           {"heads of queries of a rank", "", double(heads) / double(ranks)},
           {"heads of keys of a rank", "", double(kv_heads) / double(ranks)}})
    made.numbers.push_back(each);
  const Row by_ranks = curve("MB by ranks", multiplied(2, 32, 2), [&](double each) {
    const auto p = static_cast<int64_t>(each);
    return std::vector{by_ulysses(p, T, kv_heads) / 1e6, by_ring(p, T, kv_heads) / 1e6,
                       kv_heads % p == 0 ? 1.0 : 0.0};
  });
  made.rows = {{"sizes", {at[0], double(heads), at[1], divides ? 1.0 : 0.0}, {}}, by_ranks};
  made.code = fmt::format(
      "const int64_t q = {0}, k = {1};  // bytes of all ranks\n"
      "{3}\n"
      "fmt::print(\"a ring: {{}} bytes\\n\", yotta::ring_bytes({2}, 2 * k / {2}));",
      2 * T * heads * width, 2 * T * kv_heads * width, ranks,
      divides
          ? fmt::format("fmt::print(\"Ulysses: {{}} bytes\\n\", yotta::ulysses_bytes({}, q, k));",
                        ranks)
          : "// no Ulysses: so few heads of keys cannot be shared out");
  return made;
}

}  // namespace

Figure heads_figure() {
  return {"24_heads",
          "Ulysses gives each rank all tokens of some heads. With more ranks it sends less, and a "
          "ring does not: why does it end nevertheless, and where?",
          {{"cp, ranks", "", multiplied(2, 32, 2), 1},
           {"heads of keys (32 of queries)", "", multiplied(1, 32, 2), 3},
           {"T, tokens of all ranks", "thousand", multiplied(8, 1024, 2), 3}},
          data};
}

}  // namespace book
