#include "yotta/device/emulator/access_faults.hpp"

#include <doctest/doctest.h>

#include "support/kernel_error.hpp"
#include "yotta/core/system/build.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta::emulator;

namespace {

int variable_of_the_program = 1;

Region region{
    .begin = 4096, .bytes = 400, .shared = true, .shadow = nullptr, .name = "tile", .columns = 0};

std::string message(Incident incident) {
  Sites sites(image_of(&region));
  const Where where = Where::current();
  incident.site = incident.other.site = sites.of(where);
  incident.block = incident.other_block = {1, 0, 0};
  incident.thread = {2, 0, 0};
  incident.region = &region;
  return explain(incident, sites);
}

}  // namespace

TEST_CASE("an address belongs to an array, to shared memory, to the program, or to nobody") {
  DeviceArray<float> x(10), y(20);
  x.named("x");
  y.named("y", 5);
  alignas(128) std::byte dynamic[256] = {};
  ProgramRegions variables;
  emulator::Regions regions(image_of(&variable_of_the_program), {}, dynamic, 100, variables);
  const auto find = [&](const void* p) { return regions.find(reinterpret_cast<uintptr_t>(p), 0); };
  for (int twice = 0; twice < 2; ++twice) {
    REQUIRE(find(x.data() + 9) != nullptr);
    CHECK(find(x.data() + 9)->name == "x");
    CHECK(find(y.data())->columns == 5);
    CHECK(find(x.data() + 10) == nullptr);
    CHECK(find(dynamic + 99)->shared);
    CHECK(find(dynamic + 100) == nullptr);
    CHECK(find(nullptr) == nullptr);
  }
  const auto before_y = reinterpret_cast<uintptr_t>(y.data()) - 4;
  CHECK(regions.after(before_y)->name == "y");
  CHECK(regions.at_or_before(reinterpret_cast<uintptr_t>(x.data() + 10))->name == "x");
  CHECK(regions.in_program(reinterpret_cast<uintptr_t>(&variable_of_the_program)));
  REQUIRE(find(&variable_of_the_program) != nullptr);
  CHECK(find(&variable_of_the_program)->name == "variable_of_the_program");
  // AddressSanitizer adds a red zone to each variable.
  CHECK(find(&variable_of_the_program)->bytes == (YOTTA_ASAN ? 32 : sizeof(int)));
  CHECK_FALSE(regions.in_program(reinterpret_cast<uintptr_t>(x.data())));
}

TEST_CASE("every fault names line, block, thread, place and cure") {
  check_says(message({Fault::outside, Access::write, 4500, 4}),
             {"access_faults_test.cpp:", "block (1, 0, 0), thread (2, 0, 0)",
              "writes 4 bytes out of bounds: tile, element 101 of 100", "Guard"});
  check_says(message({Fault::misaligned, Access::read, 4100, 16}),
             {"multiple of 16", "4 bytes too far", "pad the rows"});
  check_says(message({Fault::uninitialised, Access::read, 4100, 4}),
             {"nobody has written: tile, element 1 of 100", "Write it first"});
  check_says(message({Fault::in_flight, Access::read, 4112, 16}),
             {"reads tile, element 1 of 25 too early", "cp.async", "cp_async_wait"});
  Incident race{Fault::race, Access::read, 4100, 4};
  race.other_access = Access::write;
  check_says(message(race), {"race: line access_faults_test.cpp:", " writes what line ", " reads",
                             "__syncthreads()"});
  race.access = Access::write;
  check_says(message(race), {"use an atomic operation"});
}

TEST_CASE("far from all memory, the pointer is in doubt and not the index") {
  const size_t far = 4096 + 400 + GuardedPages::margin;
  check_says(message({Fault::outside, Access::read, far, 4}), {"there is no memory", "never set"});
  check_says(message({Fault::outside, Access::read, 8, 4}), {"through a null pointer"});
}
