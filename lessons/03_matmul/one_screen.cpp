// Matmul: the same multiplications in the order of the definition, and in blocks and tiles.
// Only the order differs. A number that is read is used many times while it is still near.
#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "yotta/core/matmul.hpp"

using namespace yotta;

template <class Call>
double seconds(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main() {
  const int64_t n = 256;  // C (n, n) = A (n, n) B (n, n), of small whole numbers: sums are exact
  std::vector<float> a(n * n), b(n * n), c(n * n), expected(n * n);
  for (int64_t i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 7);
    b[i] = static_cast<float>(i % 5);
  }
  const auto view = [&](std::vector<float>& x) { return row_major(x.data(), n, n); };
  const double naive =
      seconds([&] { matmul_naive(view(a), view(b), view(expected), Into::overwrite); });
  const double tiled = seconds([&] { matmul(view(a), view(b), view(c), Into::overwrite); });
  fmt::print("the same {} sums: {:.1f} ms, and in tiles {:.1f} ms\n", n * n, 1e3 * naive,
             1e3 * tiled);
  if (c != expected || !(tiled < naive)) {
    fmt::print("the sums must be the same, and the tiles faster\n");
    return 1;
  }
}
