#include "counts.hpp"

#include "yotta/device/device_memory.hpp"
#include "yotta/device/matmul_kernels.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/roofline_matmul.hpp"

namespace yotta {
namespace {

// Launches run(a, b, c) on matrices of ones.
template <class Run>
TileCounts count(int m, int n, int k, Run run) {
  const DeviceArray<float> a(std::vector<float>(static_cast<size_t>(m * k), 1.0f));
  const DeviceArray<float> b(std::vector<float>(static_cast<size_t>(k * n), 1.0f));
  DeviceArray<float> c(static_cast<size_t>(m * n));
  Profile profile;
  run(a.data(), b.data(), c.data());
  const LineCounts reads = profile.global_reads();
  return {reads.requests, reads.sectors, reads.bytes + profile.global_writes().bytes,
          profile.table()};
}

unsigned blocks(int size) { return static_cast<unsigned>((size + 31) / 32); }

// matmul_shared_tile for one block, without its second barrier.
__global__ void no_second_barrier(const float* a, const float* b, float* c, int k) {
  __shared__ float a_tile[32][32], b_tile[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (int start = 0; start < k; start += 32) {
    a_tile[y][x] = a[y * k + start + x];
    b_tile[y][x] = b[(start + y) * 32 + x];
    __syncthreads();
    for (int l = 0; l < 32; ++l) sum += a_tile[y][l] * b_tile[l][x];
  }
  c[y * 32 + x] = sum;
}

}  // namespace

TileCounts count_shared_tile(int m, int n, int k) {
  return count(m, n, k, [&](auto a, auto b, auto c) {
    launch(matmul_shared_tile<32>, {blocks(n), blocks(m)}, {32, 32}, 0, nullptr, a, b, c, m, n, k);
  });
}

TileCounts count_lanes(int size, bool down_a_column) {
  return count(size, size, size, [&](auto a, auto b, auto c) {
    launch(down_a_column ? matmul_uncoalesced<32> : matmul_coalesced<32>,
           {blocks(size), blocks(size)}, {32, 32}, 0, nullptr, a, b, c, size, size, size);
  });
}

std::string report_of_missing_barrier() {
  try {
    count(32, 32, 64, [](auto a, auto b, auto c) {
      launch(no_second_barrier, 1, {32, 32}, 0, nullptr, a, b, c, 64);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was found";
}

}  // namespace yotta
