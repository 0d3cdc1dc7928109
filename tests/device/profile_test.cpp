#include "yotta/device/profile.hpp"

#include <doctest/doctest.h>

#include <string>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

LineCounts counts(const char* file, int line, bool write, int64_t sectors) {
  LineCounts one;
  one.file = file;
  one.line = line;
  one.write = write;
  one.requests = 2;
  one.accesses = 64;
  one.bytes = 256;
  one.sectors = sectors;
  return one;
}

}  // namespace

TEST_CASE("a profile sums what is added, sorted by line") {
  Profile profile;
  profile.add(counts("b.hpp", 3, false, 8));
  profile.add(counts("a.hpp", 9, true, 64));
  profile.add(counts("b.hpp", 3, false, 8));
  profile.add_instructions("mma.sync.m16n8k16", 5);
  REQUIRE(profile.lines().size() == 2);
  CHECK(profile.lines()[0].file == "a.hpp");
  CHECK(profile.lines()[1].requests == 4);
  CHECK(profile.global_reads().sectors_per_request() == 4.0);
  CHECK(profile.global_writes().sectors_per_request() == 32.0);
  CHECK(profile.global_bytes() == 32 * (16 + 64));
  CHECK(profile.instructions("mma.sync.m16n8k16") == 5);
  CHECK(profile.instructions("ldmatrix") == 0);
  const std::string table = profile.table();
  INFO(table);
  CHECK(table.find("b.hpp:3                  read  global          4             4.0               "
                   "   -        512") != std::string::npos);
  CHECK(table.find("mma.sync.m16n8k16") != std::string::npos);
}

TEST_CASE("the innermost profile that lives counts this thread's launches") {
  const DeviceArray<float> x(std::vector<float>(64, 1.0f));
  DeviceArray<float> y(64);
  const auto run = [&] { launch(copy, 1, 64, 0, nullptr, x.data(), y.data()); };
  run();
  const Profile outer;
  run();
  {
    const Profile inner;
    run();
    run();
    CHECK(inner.launches() == 2);
    CHECK(inner.global_reads().requests == 4);
  }
  run();
  CHECK(outer.launches() == 2);
  CHECK(outer.global_reads().requests == 4);
  REQUIRE(outer.lines().size() == 2);
  CHECK(outer.lines()[0].file == "profile_test.cpp");
  CHECK(outer.lines()[0].line == outer.lines()[1].line);
}
