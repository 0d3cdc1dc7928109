#include "yotta/device/unchanged/wmma.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;
namespace wmma = nvcuda::wmma;

namespace {

template <class T, class LayoutA, class LayoutB, class Sum>
__global__ void product(const T* a, const T* b, const Sum* c, Sum* d, wmma::layout_t layout) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LayoutA> of_a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LayoutB> of_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum;
  wmma::load_matrix_sync(of_a, a, 24);
  wmma::load_matrix_sync(of_b, b, 24);
  wmma::load_matrix_sync(sum, c, 24, layout);
  wmma::mma_sync(sum, of_a, of_b, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] * Sum(2.0f);
  wmma::store_matrix_sync(d, sum, 24, layout);
}

// Small integers, so that all sums are exact.
template <class T, class LayoutA, class LayoutB, class Sum>
void check(wmma::layout_t layout) {
  std::vector<T> a(384), b(384);
  std::vector<Sum> c(384);
  for (size_t i = 0; i < 384; ++i)
    a[i] = static_cast<int>(i * 7 % 11) - 5, b[i] = static_cast<int>(i * 5 % 9) - 4;
  for (size_t i = 0; i < 384; ++i) c[i] = static_cast<float>(i % 13);
  const DeviceArray<T> of_a(a), of_b(b);
  const DeviceArray<Sum> of_c(c);
  DeviceArray<Sum> d(384);
  launch(product<T, LayoutA, LayoutB, Sum>, 1, 32, 0, nullptr, of_a.data(), of_b.data(),
         of_c.data(), d.data(), layout);
  const std::vector<Sum> got = d.to_host();
  const auto at = [](bool by_columns, size_t row, size_t column, size_t stride) {
    return by_columns ? column * stride + row : row * stride + column;
  };
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j) {
      const size_t place = at(layout == wmma::mem_col_major, i, j, 24);
      float sum = static_cast<float>(c[place]);
      for (size_t k = 0; k < 16; ++k)
        sum += static_cast<float>(a[at(std::is_same_v<LayoutA, wmma::col_major>, i, k, 24)]) *
               static_cast<float>(b[at(std::is_same_v<LayoutB, wmma::col_major>, k, j, 24)]);
      CHECK(static_cast<float>(got[place]) == 2 * sum);
    }
}

__global__ void loads(const __half* x, unsigned stride) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> tile;
  wmma::load_matrix_sync(tile, x, stride);
}
__global__ void stores(float* y, unsigned stride) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 1.0f);
  wmma::store_matrix_sync(y, sum, stride, wmma::mem_row_major);
}

}  // namespace

TEST_CASE("tiles of every layout are multiplied and added") {
  check<__half, wmma::row_major, wmma::row_major, float>(wmma::mem_row_major);
  check<__half, wmma::col_major, wmma::row_major, float>(wmma::mem_col_major);
  check<__nv_bfloat16, wmma::row_major, wmma::col_major, float>(wmma::mem_row_major);
  check<__half, wmma::row_major, wmma::col_major, __half>(wmma::mem_row_major);
}

TEST_CASE("strides and addresses that tensor cores do not take are refused") {
  const DeviceArray<__half> x(384);
  DeviceArray<float> y(384);
  const auto load = [&](size_t begin, unsigned stride) {
    return message_of([&] { launch(loads, 1, 32, 0, nullptr, x.data() + begin, stride); });
  };
  const auto store = [&](size_t begin, unsigned stride) {
    return message_of([&] { launch(stores, 1, 32, 0, nullptr, y.data() + begin, stride); });
  };
  CHECK(contains(load(0, 20), "a multiple of 8 elements, and got 20"));
  CHECK(contains(load(8, 16), "begins at a multiple of 32 bytes"));
  CHECK(contains(store(0, 18), "a multiple of 4 elements, and got 18"));
  CHECK(contains(store(4, 20), "begins at a multiple of 32 bytes"));
  launch(loads, 1, 32, 0, nullptr, x.data() + 16, 16u);
  launch(stores, 1, 32, 0, nullptr, y.data() + 8, 20u);
  CHECK(y.to_host()[8] == 1.0f);
}
