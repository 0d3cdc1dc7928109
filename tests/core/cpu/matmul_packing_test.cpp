#include "yotta/core/cpu/matmul_packing.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/core/dtype.hpp"

using namespace yotta;

namespace {

// Every panel member in its place, zeros beyond `count`; `padding` proves nothing else is written.
template <int Width, class Real, class T>
void check_pack(int64_t across, int64_t along, int64_t step, int64_t count, int64_t depth) {
  CAPTURE(Width);
  CAPTURE(across);
  CAPTURE(along);
  CAPTURE(count);
  CAPTURE(depth);
  // Exactly the memory of the matrix: a sanitizer sees a read beyond it.
  const int64_t elements =
      count == 0 || depth == 0 ? 0 : (count - 1) * across + (depth - 1) * along + 1;
  std::vector<T> from(static_cast<size_t>(elements));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(static_cast<float>(i % 251));
  const int64_t panels = (count + step - 1) / step, padding = 5;
  std::vector<Real> out(static_cast<size_t>(panels * Width * depth + padding), Real(-1));
  pack_panels<Width>(from.data(), across, along, step, panels, count, depth, out.data());
  int wrong = 0;
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t l = 0; l < depth; ++l)
      for (int64_t i = 0; i < Width; ++i) {
        const int64_t member = p * step + i;
        const Real expected =
            member < count
                ? static_cast<Real>(from[static_cast<size_t>(member * across + l * along)])
                : Real(0);
        wrong += !(out[static_cast<size_t>((p * depth + l) * Width + i)] == expected);
      }
  CHECK(wrong == 0);
  for (int64_t i = 0; i < padding; ++i) CHECK(out[out.size() - 1 - static_cast<size_t>(i)] == -1);
}

template <class Real, class T>
void check_all() {
  using Shape = TileShape<Real>;
  constexpr int TM = Shape::TM, TN = Shape::TN, pitch = Shape::pitch;
  for (const int64_t depth : {0, 1, 16, 37})
    for (const int64_t count : {1, TM - 1, TM, TN, TN + 1, 3 * TN, 2 * TN + 7}) {
      check_pack<TN, Real, T>(1, count + 3, TN, count, depth);      // rows of B
      check_pack<TN, Real, T>(depth + 2, 1, TN, count, depth);      // B stored (n, k)
      check_pack<TN, Real, T>(2 * depth + 1, 2, TN, count, depth);  // neither runs along memory
      check_pack<pitch, Real, T>(depth + 2, 1, TM, count, depth);   // rows of A
      check_pack<pitch, Real, T>(1, count + 3, TM, count, depth);   // A stored (k, m)
    }
}

}  // namespace

TEST_CASE("panels of float and double") {
  check_all<float, float>();
  check_all<double, double>();
}

TEST_CASE("16-bit numbers are widened on the way") {
  check_all<float, bfloat16>();
  check_all<float, float16>();
  check_all<double, float>();
}
