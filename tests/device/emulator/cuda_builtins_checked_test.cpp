// Wrapped instructions report what they do: accesses are checked and counted as if the kernel had
// made them.
#include "yotta/device/emulator/cuda_builtins.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

// An instruction that copies 16 bytes into shared memory at some later time, like cp.async.
YOTTA_UNSEEN void begin_copy(float* to, const float* from, Where where = Where::current()) {
  emulator::note_read(from, 16, where);
  emulator::note_copy_begins(to, 16, where);
}
YOTTA_UNSEEN void end_copy(float* to, const float* from, Where where = Where::current()) {
  std::memcpy(to, from, 16);
  emulator::note_copy_ends(to, 16, where);
}

enum class Mistake { none, no_wait, no_barrier, before_last_use };

__global__ void copies(const float* x, float* y, Mistake mistake) {
  __shared__ __align__(16) float part[128];
  const unsigned i = threadIdx.x;
  if (mistake == Mistake::before_last_use) {
    part[4 * i] = x[i];
    __syncthreads();
    y[i] = part[124 - 4 * i];
  }
  begin_copy(part + 4 * i, x + 4 * i);  // line: begins
  if (mistake != Mistake::no_wait) end_copy(part + 4 * i, x + 4 * i);
  if (mistake != Mistake::no_barrier) __syncthreads();
  y[i] = part[127 - i];  // line: reads
}

// All lanes read rows of 16 bytes, eight rows a phase, `stride` floats apart.
__global__ void reads_rows(int stride) {
  float* part = dynamic_shared<float>();
  for (unsigned i = threadIdx.x; i < 32u * static_cast<unsigned>(stride); i += 32) part[i] = 1.0f;
  __syncthreads();
  void* row = part + threadIdx.x * static_cast<unsigned>(stride);
  const auto run = [](emulator::Lanes rows) {
    for (int first = 0; first < 32; first += 8) {
      int lanes[8];
      for (int i = 0; i < 8; ++i) lanes[i] = first + i;
      emulator::note_read_group(rows + first, lanes, 8, 16, Where::current());
    }
    emulator::count_instruction("rows.x4", Where::current());
    emulator::count_flops(100, Where::current());
  };
  emulator::warp_rendezvous("rows.x4", 0xffffffffu, row, run, Where::current());
}

std::string error(Mistake mistake) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0f));
  DeviceArray<float> y(32);
  return error_of([&] { launch(copies, 1, 32, 0, nullptr, x.data(), y.data(), mistake); });
}

}  // namespace

TEST_CASE("what a copy in flight will fill is nobody's to touch") {
  CHECK(error(Mistake::none) == "no error");
  check_says(error(Mistake::no_wait), {line_at("reads"), "too early",
                                       "the cp.async of line cuda_builtins_checked_test.cpp:"});
  check_says(error(Mistake::no_barrier), {"part, element"});
  const std::string begins = line_at("begins");
  check_says(error(Mistake::before_last_use),
             {"race: line " + begins.substr(0, begins.size() - 2) + " writes what line", "reads"});
}

TEST_CASE("a phase of eight rows of 16 bytes takes one pass if the rows lie in different banks") {
  Profile profile;
  launch(reads_rows, 1, 32, 32 * 4 * 4, nullptr, 4);
  CHECK(profile.shared_reads().requests == 4);
  CHECK(profile.shared_reads().conflict_free());
  CHECK(profile.instructions("rows.x4") == 1);
  CHECK(profile.flops() == 100);
  Profile apart;
  launch(reads_rows, 1, 32, 32 * 32 * 4, nullptr, 32);
  CHECK(apart.shared_reads().wavefronts_per_request() == 8);
  CHECK_FALSE(apart.shared_reads().conflict_free());
}

TEST_CASE("a group's fault is blamed on the lane that gave the address") {
  check_says(error_of([] { launch(reads_rows, 1, 32, 33 * 3 * 4, nullptr, 3); }),
             {"thread (1, 0, 0)", "not a multiple of 16"});
}
