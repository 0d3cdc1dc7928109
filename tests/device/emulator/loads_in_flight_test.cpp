#include "yotta/device/emulator/loads_in_flight.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"
#include "yotta/machine/latency_hiding.hpp"

using namespace yotta;
using yotta_test::near;

namespace {

// What a run on a chip of so many SMs counts.
int counted(int sms, int threads, size_t shared, int bytes_a_load) {
  emulator_options().chip.count = sms;
  const int bytes = emulator::loads_in_flight(threads, shared, bytes_a_load);
  emulator_options() = {};
  return bytes;
}
// Latency times the bandwidth that so many SMs of an H100 get with the warps that fit.
double by_the_law(int sms, int threads, size_t shared, int bytes_a_load) {
  const Multiprocessors& h100 = multiprocessors_of("h100");
  const int warps = occupancy(h100, {threads, shared, 0}).warps();
  return load_latency(h100) * bandwidth_reached(h100, warps, bytes_a_load) * sms / h100.count;
}

}  // namespace

TEST_CASE("Little's law by a run: bytes in flight are latency times bandwidth") {
  constexpr size_t KiB = 1024;
  for (const int sms : {1, 2})
    for (const size_t shared : {48 * KiB, 100 * KiB, 200 * KiB}) {  // 4, 2 and 1 blocks an SM
      CAPTURE(shared);
      CHECK(counted(sms, 128, shared, 4) == near(by_the_law(sms, 128, shared, 4)));
    }
  CHECK(counted(1, 128, 200 * KiB, 4) == 512);
  CHECK(counted(2, 64, 200 * KiB, 16) == near(by_the_law(2, 64, 200 * KiB, 16)));
}

TEST_CASE("an SM that is full has more in flight than the law asks for: the rest only waits") {
  const double needed = bytes_in_flight(multiprocessors_of("h100"));
  CHECK(counted(1, 256, 0, 4) == 64 * 32 * 4);  // limited by threads
  CHECK(counted(1, 256, 0, 4) > needed);
  CHECK(by_the_law(1, 256, 0, 4) == near(needed));
}
