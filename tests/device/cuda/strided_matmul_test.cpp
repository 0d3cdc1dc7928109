#include "yotta/device/cuda/strided_matmul.hpp"

#include <doctest/doctest.h>

#include "yotta/core/tensor.hpp"

using namespace yotta;

namespace {

Tensor strided_input(int64_t rows, int64_t cols, int first, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * cols; ++i)
    values.push_back(static_cast<double>((i * 7 + first) % 13) - 6);
  return Tensor::from<double>(values, {rows, cols}).to(dtype);
}
DeviceMatrix strided_view(const Tensor& x) {
  return {x.raw(), x.dtype(), x.dim(0), x.dim(1), x.dim(1), 1};
}

// All four ways to lay A and B; whole numbers, so that every order of sums is exact.
void check_strided(int64_t m, int64_t n, int64_t k, DType in, DType out, Into into) {
  for (const bool turn_a : {false, true})
    for (const bool turn_b : {false, true}) {
      const Tensor a = strided_input(turn_a ? k : m, turn_a ? m : k, 1, in);
      const Tensor b = strided_input(turn_b ? n : k, turn_b ? k : n, 5, in);
      const Tensor c = strided_input(m, n, 3, out).to(Device::cuda);
      const Tensor there_a = a.to(Device::cuda), there_b = b.to(Device::cuda);
      const DeviceMatrix left = strided_view(there_a), right = strided_view(there_b);
      course_matmul(turn_a ? transposed(left) : left, turn_b ? transposed(right) : right,
                    strided_view(c), into, Where::current());
      bool right_numbers = true;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = into == Into::accumulate ? strided_input(m, n, 3, out).item({i, j}) : 0;
          for (int64_t l = 0; l < k; ++l)
            sum += (turn_a ? a.item({l, i}) : a.item({i, l})) *
                   (turn_b ? b.item({j, l}) : b.item({l, j}));
          if (out == DType::bf16) sum = static_cast<double>(bfloat16(sum));
          right_numbers = right_numbers && c.item({i, j}) == sum;
        }
      CHECK(right_numbers);
    }
}

}  // namespace

TEST_CASE("the course's matmul on cuda takes any layout, type and size") {
  install_accelerator();
  for (const Into into : {Into::overwrite, Into::accumulate}) {
    check_strided(17, 5, 33, DType::f32, DType::f32, into);
    check_strided(3, 18, 16, DType::f64, DType::f64, into);
    check_strided(4, 9, 7, DType::bf16, DType::f32, into);
    check_strided(1, 1, 1, DType::bf16, DType::bf16, into);
    check_strided(2, 3, 5, DType::f32, DType::bf16, into);
    check_strided(2, 3, 0, DType::f32, DType::f32, into);
    check_strided(0, 3, 2, DType::f32, DType::f32, into);
  }
}
