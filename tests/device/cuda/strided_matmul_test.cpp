// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/cuda/strided_matmul.hpp"

#include <doctest/doctest.h>

#include "support/launch_count.hpp"
#include "yotta/core/tensor.hpp"

using namespace yotta;
using yotta_test::LaunchCount;

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

void multiply_alone(const DeviceProduct& product) {
  course_matmul({&product, 1}, Where::current());
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
      multiply_alone({turn_a ? transposed(left) : left, turn_b ? transposed(right) : right,
                      strided_view(c), into});
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

TEST_CASE("the ladder's best rung takes what begins on 16 bytes and is counted in ints") {
  alignas(16) float numbers[20] = {};
  CHECK(ladder_takes({numbers, DType::f32, 4, 4, 4, 1}));
  CHECK_FALSE(ladder_takes({numbers + 1, DType::f32, 4, 4, 4, 1}));  // an FSDP view, for example
  CHECK(ladder_takes({numbers, DType::f32, 1 << 15, (1 << 16) - 1, (1 << 16) - 1, 1}));
  CHECK_FALSE(ladder_takes({numbers, DType::f32, 1 << 15, 1 << 16, 1 << 16, 1}));
  CHECK_FALSE(ladder_takes({numbers, DType::f32, 4, 4, 1, 4}));
  CHECK_FALSE(ladder_takes({numbers, DType::bf16, 4, 4, 4, 1}));
}

TEST_CASE("a view that begins amid four numbers is multiplied too") {
  install_accelerator();
  const DeviceScope scope(Device::cuda);
  const Tensor flat = strided_input(1, 33, 2, DType::f32).to(Device::cuda);
  Tensor c = Tensor::empty({4, 4});
  const DeviceMatrix a{static_cast<float*>(flat.raw()) + 1, DType::f32, 4, 4, 4, 1};
  multiply_alone({a, a, strided_view(c)});
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < 4; ++l)
        sum += flat.item({0, 1 + 4 * i + l}) * flat.item({0, 1 + 4 * l + j});
      CHECK(c.item({i, j}) == sum);
    }
}

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

namespace {

// a (m, k) b (n, k)', in double.
double product_at(const Tensor& a, const Tensor& b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < a.dim(1); ++l) sum += a.item({i, l}) * b.item({j, l});
  return sum;
}

}  // namespace

TEST_CASE("q, k and v are one launch, each of its own width and with its bias") {
  install_accelerator();
  const DeviceScope scope(Device::cuda);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = strided_input(18, 7, 1, dtype).to(Device::cuda);
    std::vector<Tensor> w, y, bias;
    std::vector<DeviceProduct> products;
    for (const int64_t n : {33, 5, 5}) {
      w.push_back(strided_input(n, 7, static_cast<int>(w.size()), dtype).to(Device::cuda));
      bias.push_back(strided_input(1, n, 4, dtype).to(Device::cuda));
      y.push_back(Tensor::empty({18, n}, dtype));
      products.push_back({strided_view(x), transposed(strided_view(w.back())),
                          strided_view(y.back()), Into::overwrite, bias.back().raw()});
    }
    products[2].bias = nullptr;
    const LaunchCount launched;
    course_matmul(products, Where::current());
    CHECK(launched.is(1));
    for (size_t p = 0; p < y.size(); ++p)
      for (int64_t i = 0; i < 18; ++i)
        for (int64_t j = 0; j < y[p].dim(1); ++j) {
          double sum = product_at(x, w[p], i, j) + (p == 2 ? 0 : bias[p].item({0, j}));
          if (dtype == DType::bf16) sum = static_cast<double>(bfloat16(sum));
          CHECK(y[p].item({i, j}) == sum);
        }
  }
}

TEST_CASE(
    "terms of one sum are one launch; so are other results beside it, four products at most") {
  install_accelerator();
  const DeviceScope scope(Device::cuda);
  const Tensor a = strided_input(6, 9, 1, DType::f32).to(Device::cuda),
               b = strided_input(4, 9, 3, DType::f32).to(Device::cuda), sum = Tensor::zeros({6, 4}),
               other = Tensor::zeros({6, 4});
  const auto product = [&](const Tensor& c, Into into) {
    return DeviceProduct{strided_view(a), transposed(strided_view(b)), strided_view(c), into};
  };
  std::vector<DeviceProduct> products = {product(other, Into::accumulate),
                                         product(sum, Into::overwrite)};
  for (const auto& [more, launches] : {std::pair{2, 1}, {1, 2}}) {
    for (int i = 0; i < more; ++i) products.push_back(product(sum, Into::accumulate));
    // One block for each number of a sum: two that add to it at once would lose a term.
    const auto gathered = gather_products<float, float>({products.data(), 4});
    CHECK(gathered.results == 2);
    CHECK((gathered.end[0] == 1 && gathered.end[1] == 4));
    const LaunchCount launched;
    course_matmul(products, Where::current());
    CHECK(launched.is(static_cast<uint64_t>(launches)));
    const auto terms = static_cast<double>(products.size() - 1);
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        CHECK(sum.item({i, j}) == terms * product_at(a, b, i, j));
        CHECK(other.item({i, j}) == (launches == 1 ? 1 : 2) * product_at(a, b, i, j));
      }
  }
}
