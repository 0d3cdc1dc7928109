// nvcuda::wmma, products of 16 x 16 tiles by a whole warp, on the CPU.
//
//     wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
//     wmma::load_matrix_sync(a, pointer, columns);
//     wmma::mma_sync(d, a, b, c);                       two mma.sync of 16 x 8 x 16
//
//              b left │ b right          a lane's elements: 8 of a, 4 + 4 of b, 4 + 4 of c, placed
//     a  ────  d left │ d right          as mma_fragments.hpp says
//
// Which lane holds which element is not specified by CUDA, so a program cannot rely on it; on a GPU
// a fragment may hold an element twice.
// Not here: other shapes than 16 x 16 x 16, and tf32, f64 and integer fragments; mma.hpp has them.
// Reference: CUDA C++ Programming Guide, "Warp Matrix Functions".
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <type_traits>

#include "yotta/device/mma.hpp"
#include "yotta/device/unchanged/half_types.hpp"
#include "yotta/device/unchanged/warp_words.hpp"

namespace nvcuda::wmma {
inline namespace YOTTA_DEVICE_BUILD {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment {
 public:
  static_assert(
      M == 16 && N == 16 && K == 16,
      "the emulator's wmma has tiles of 16 x 16 x 16; other shapes: yotta/device/mma.hpp");
  static_assert(
      std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> ||
          (std::is_same_v<T, float> && std::is_same_v<Use, accumulator>),
      "the emulator's wmma has half, bf16 and sums in float; others: yotta/device/mma.hpp");
  static constexpr int num_elements = 8;
  static constexpr bool by_columns = std::is_same_v<Layout, col_major>;
  using element_type = T;
  T x[num_elements];

  // Where element i of this lane lies in the tile.
  static constexpr yotta::MatrixCell cell(int lane, int i) {
    using Shape = yotta::M16N8K16;
    if constexpr (std::is_same_v<Use, matrix_a>) return Shape::a(lane, i);
    yotta::MatrixCell at =
        std::is_same_v<Use, matrix_b> ? Shape::b(lane, i % 4) : Shape::c(lane, i % 4);
    at.column += 8 * (i / 4);
    return at;
  }
};

template <class Fragment>
constexpr unsigned offset_of(int i, unsigned stride, bool by_columns) {
  const yotta::MatrixCell at = Fragment::cell(yotta::emulator::lane_index(), i);
  const auto row = static_cast<unsigned>(at.row), column = static_cast<unsigned>(at.column);
  return by_columns ? column * stride + row : row * stride + column;
}

// Rows or columns lie a multiple of 16 bytes apart, and a tile begins at a multiple of 32.
template <class T>
void check_tile_place(const T* at, unsigned stride, yotta::Where where) {
  constexpr unsigned step = 16 / sizeof(T);
  if (stride % step != 0 || reinterpret_cast<uintptr_t>(at) % 32 != 0)
    yotta::emulator::refuse_tile_place(at, stride, step, where);
}

template <class Use, int M, int N, int K, class T, class Layout>
void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const std::type_identity_t<T>& value) {
  for (T& each : f.x) each = value;
}
template <class Use, int M, int N, int K, class T, class Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const T* from, unsigned stride,
                      yotta::Where where = yotta::Where::current()) {
  using Fragment = fragment<Use, M, N, K, T, Layout>;
  check_tile_place(from, stride, where);
  __syncwarp(0xffffffffu, where);
  for (int i = 0; i < 8; ++i) f.x[i] = from[offset_of<Fragment>(i, stride, Fragment::by_columns)];
}
template <int M, int N, int K, class T>
void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* from, unsigned stride,
                      layout_t layout, yotta::Where where = yotta::Where::current()) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  check_tile_place(from, stride, where);
  __syncwarp(0xffffffffu, where);
  for (int i = 0; i < 8; ++i)
    f.x[i] = from[offset_of<Fragment>(i, stride, layout == mem_col_major)];
}
template <int M, int N, int K, class T>
void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                       layout_t layout, yotta::Where where = yotta::Where::current()) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  check_tile_place(to, stride, where);
  for (int i = 0; i < 8; ++i) to[offset_of<Fragment>(i, stride, layout == mem_col_major)] = f.x[i];
  __syncwarp(0xffffffffu, where);
}

template <int M, int N, int K, class T, class A, class B, class Sum, class Result>
void mma_sync(fragment<accumulator, M, N, K, Result>& d, const fragment<matrix_a, M, N, K, T, A>& a,
              const fragment<matrix_b, M, N, K, T, B>& b,
              const fragment<accumulator, M, N, K, Sum>& c,
              yotta::Where where = yotta::Where::current()) {
  uint32_t of_a[4], of_b[2];
  float sums[4];
  for (int i = 0; i < 4; ++i) of_a[i] = yotta::packed(a.x[2 * i].bits(), a.x[2 * i + 1].bits());
  for (int half = 0; half < 8; half += 4) {
    for (int i = 0; i < 2; ++i)
      of_b[i] = yotta::packed(b.x[half + 2 * i].bits(), b.x[half + 2 * i + 1].bits());
    for (int i = 0; i < 4; ++i) sums[i] = static_cast<float>(c.x[half + i]);
    if constexpr (std::is_same_v<T, __half>)
      yotta::mma_m16n8k16_f16(sums, of_a, of_b, sums, where);
    else
      yotta::mma_m16n8k16_bf16(sums, of_a, of_b, sums, where);
    for (int i = 0; i < 4; ++i) d.x[half + i] = static_cast<Result>(sums[i]);
  }
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace nvcuda::wmma

#endif
