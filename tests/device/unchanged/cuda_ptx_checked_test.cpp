// A proxy fence of one space under the emulator's checks.
#include <doctest/doctest.h>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/unchanged/cuda_ptx.hpp"

using namespace yotta;
namespace ptx = cuda::ptx;

namespace {

template <ptx::dot_space space>
__global__ void stores(int* y) {
  __shared__ __align__(16) int tile[32];
  tile[threadIdx.x] = 1;
  ptx::fence_proxy_async(ptx::space_t<space>{});
  __syncthreads();
  if (threadIdx.x > 0) return;
  ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, tile, sizeof tile);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
template <ptx::dot_space space>
std::string stored() {
  DeviceArray<int> y(32);
  return error_of([&] { launch(stores<space>, 1, 32, 0, nullptr, y.data()); });
}

}  // namespace

TEST_CASE("a proxy fence of global memory is none of shared memory") {
  CHECK(stored<ptx::dot_space::shared>() == "no error");
  CHECK(stored<ptx::dot_space::global>().find("no fence_proxy_async()") != std::string::npos);
}
