// One solution of exercise 41 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include "yotta/device/device_memory.hpp"

#include YOTTA_SOLUTION

namespace {

using namespace yotta;
using exercise::Bits;

DeviceArray<bfloat16> on_device(const Bits& bits) {
  std::vector<bfloat16> numbers(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) numbers[i].bits = bits[i];
  return DeviceArray<bfloat16>(numbers);
}

// Maps of A and B, for tiles of `rows` x 64 and 64 x 64.
struct Maps {
  DeviceArray<bfloat16> device_a, device_b;
  CUtensorMap a, b;
  Maps(const Bits& of_a, const Bits& of_b, exercise::Sizes sizes, int rows)
      : device_a(on_device(of_a)),
        device_b(on_device(of_b)),
        a(map_of_a(device_a.data(), sizes.m, sizes.k, rows)),
        b(map_of_b(device_b.data(), sizes.k, sizes.n)) {}
};
constexpr double patience = 2;  // seconds; a wait that can never end is named at once
int steps_of(exercise::Sizes sizes) { return (sizes.k + hopper_BK - 1) / hopper_BK; }

// The solution's producer; 128 threads take what comes, and give the places back.
template <int places>
__global__ void producer(const __grid_constant__ CUtensorMap a,
                         const __grid_constant__ CUtensorMap b, int row, int column, int steps,
                         uint16_t* out) {
  using Ring = student::HopperRing<64, places, 1>;
  constexpr int tile = 64 * 64;
  __shared__ uint64_t full[places], empty[places];
  const Ring ring = student::make_ring<Ring>(full, empty);
  if (threadIdx.x == 0)
    for (int step = 0; step < steps; ++step)
      student::fill_place(ring, step, &a, &b, row, column, step * hopper_BK);
  if (threadIdx.x < 128) return;
  for (int step = 0; step < steps; ++step) {
    const auto parity = static_cast<uint32_t>(step / places % 2);
    while (!mbarrier_try_wait_parity(full + step % places, parity)) continue;
    for (int i = static_cast<int>(threadIdx.x) - 128; i < 2 * tile; i += 128) {
      const char* const from = i < tile ? ring.a_at(step % places) : ring.b_at(step % places);
      const uint32_t byte = swizzled_byte(static_cast<uint32_t>(i % tile * 2), Swizzle::b128);
      out[2 * tile * step + i] = *reinterpret_cast<const uint16_t*>(from + byte);
    }
    mbarrier_arrive(empty + step % places);
  }
}

// The solution's consumers, two groups; a producer that is right.
template <int places>
__global__ void consumers(const __grid_constant__ CUtensorMap a,
                          const __grid_constant__ CUtensorMap b, int m, int n, int steps,
                          float* c) {
  using Ring = student::HopperRing<64, places, 2>;
  __shared__ uint64_t full[places], empty[places];
  const Ring ring = student::make_ring<Ring>(full, empty);
  for (int step = 0; threadIdx.x == 0 && step < steps; ++step) {
    const auto parity = static_cast<uint32_t>(step / places % 2);
    while (!mbarrier_try_wait_parity(empty + step % places, 1 - parity)) continue;
    mbarrier_arrive_expect_tx(full + step % places, Ring::step_bytes);
    copy_tiles(ring, step % places, &a, &b, 0, 0, step * hopper_BK);
  }
  if (threadIdx.x < 128) return;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  float d[32] = {};
  for (int step = 0; step < steps; ++step) student::empty_place(ring, step, d, group);
  store_group<64>(d, c, m, n, 64 * group, 0);
}

Bits run_producer(const Bits& a, const Bits& b, exercise::Sizes sizes, int row, int column,
                  int places) {
  const Maps maps(a, b, sizes, 64);
  const int steps = steps_of(sizes);
  DeviceArray<uint16_t> out(static_cast<size_t>(2 * 64 * 64 * steps));
  emulator_options().patience = patience;
  const auto run = [&](auto kernel, size_t bytes) {
    launch(kernel, 1, 256, bytes, nullptr, maps.a, maps.b, row, column, steps, out.data());
  };
  if (places == 1) run(producer<1>, TileRing<64, 64, 1>::bytes);
  if (places == 3) run(producer<3>, TileRing<64, 64, 3>::bytes);
  return out.to_host();
}

std::vector<float> run_consumers(const Bits& a, const Bits& b, exercise::Sizes sizes, int places) {
  const Maps maps(a, b, sizes, 128);
  DeviceArray<float> c(static_cast<size_t>(sizes.m * sizes.n));
  emulator_options().patience = patience;
  const auto run = [&](auto kernel, size_t bytes) {
    launch(kernel, 1, 384, bytes, nullptr, maps.a, maps.b, sizes.m, sizes.n, steps_of(sizes),
           c.data());
  };
  if (places == 1) run(consumers<1>, TileRing<128, 64, 1>::bytes);
  if (places == 3) run(consumers<3>, TileRing<128, 64, 3>::bytes);
  return c.to_host();
}

}  // namespace

const exercise::Solution exercise::solution = {
    yotta::student::dot_by_halves<64>, yotta::student::dot_by_pieces<64>,
    yotta::student::transpose_by_tiles<32>, run_producer, run_consumers};
