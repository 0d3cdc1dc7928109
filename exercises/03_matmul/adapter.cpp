// One solution of exercise 03 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

// Each block copies its tile of a (m - 3, k) through shared memory into c (m, n).
__global__ void copy(const float* a, const float*, float* c, int m, int n, int k) {
  __shared__ float tile[32][32];
  const int top = blockIdx.y * 32, left = blockIdx.x * 32, col = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < 32; row += 4) tile[row][col] = exercise::untouched;
  __syncthreads();
  student::load_tile<32, 32, 128>(tile, a, m - 3, k, top, left);
  __syncthreads();
  for (int row = threadIdx.x / 32; row < 32; row += 4)
    c[(top + row) * n + left + col] = tile[row][col];
}

std::array<double, 2> bytes_loaded(int64_t m, int64_t n, int64_t k,
                                   const std::array<int, 5>& sizes) {
  const student::LoadedBytes bytes =
      student::bytes_loaded(m, n, k, {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]});
  return {bytes.global, bytes.shared};
}

int64_t bytes_written(int64_t m, int64_t n, int64_t k, const std::array<int, 5>& sizes) {
  return student::shared_bytes_written(m, n, k, {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]});
}

}  // namespace

const exercise::Solution exercise::solution = {copy, student::matmul_register_column<32, 32, 8, 8>,
                                               student::matmul_register_tile<32, 32, 8, 8, 4>,
                                               bytes_loaded, bytes_written};
