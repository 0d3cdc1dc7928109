// The CUDA ladder under all checks of the emulator, and its counters against the table's
// arithmetic.
#include "device/matmul_cases.hpp"
#include "yotta/device/matmul_rungs.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

void run(const MatmulRung& rung, yotta_test::MatmulSize size) {
  yotta_test::check_matmul(rung.name, size, [&](auto a, auto b, auto c, int m, int n, int k) {
    rung.run(a, b, c, m, n, k, nullptr);
  });
}

const MatmulRung& named(std::string_view name) {
  for (const MatmulRung& rung : matmul_rungs)
    if (rung.name == name) return rung;
  fail(Where::current(), "no rung is called {}", name);
}

}  // namespace

TEST_CASE("no rung races, reads what nobody wrote, or leaves its arrays, at any size and seed") {
  for (const MatmulRung& rung : matmul_rungs)
    for (const auto& size :
         {yotta_test::MatmulSize{1, 1, 1}, {33, 7, 9}, {65, 130, 37}, {132, 64, 12}})
      for (const uint64_t seed : {1, 2}) {
        emulator_options().seed = seed;
        run(rung, size);
      }
  emulator_options().seed = 1;
}

TEST_CASE("sectors and wavefronts a multiply-add are those of the table") {
  const yotta_test::MatmulSize size = {128, 128, 32};
  const double fmas = matmul_flops(size.m, size.n, size.k) / 64;
  for (const MatmulRung& rung : matmul_rungs) {
    CAPTURE(rung.name);
    Profile profile;
    run(rung, size);
    CHECK(static_cast<double>(profile.global_reads().sectors) / fmas == rung.sectors);
    CHECK(static_cast<double>(profile.shared_reads().wavefronts) / fmas == rung.wavefronts);
  }
}

TEST_CASE("coalesced means 4 sectors for 32 neighbouring floats, 16 for 32 float4") {
  const auto reads = [](const char* name) {
    Profile profile;
    run(named(name), {128, 128, 32});
    return profile.global_reads().sectors_per_request();
  };
  CHECK(reads("naive") == 16.5);     // A: 32, B: 1
  CHECK(reads("coalesced") == 2.5);  // A: 1, B: 4
  for (const char* name : {"shared tile", "register column", "register tile"})
    CHECK(reads(name) == 4);
  for (const char* name : {"vectorised", "double-buffered", "warp tile"}) CHECK(reads(name) == 16);
}

TEST_CASE("stores into shared memory never conflict; loads do not in the last rung") {
  for (const MatmulRung& rung : matmul_rungs) {
    CAPTURE(rung.name);
    Profile profile;
    run(rung, {128, 128, 32});
    CHECK(profile.shared_writes().conflict_free());
    const bool conflicts = rung.TN > 1 && std::string_view(rung.name) != "warp tile";
    CHECK(profile.shared_reads().conflict_free() == !conflicts);
  }
}

TEST_CASE("bytes from global memory: the shared tile's are those that predict() says") {
  for (const auto& size : {yotta_test::MatmulSize{64, 96, 32}, {65, 33, 40}}) {
    Profile profile;
    run(named("shared tile"), size);
    const double counted =
        static_cast<double>(profile.global_reads().bytes + profile.global_writes().bytes);
    CHECK(counted == predict(size.m, size.n, size.k, 32, 4, {1, 1}).bytes);
  }
}

TEST_CASE("bytes that the tiles load: as bytes_loaded says, at the edges too") {
  for (const char* name : {"shared tile", "register column", "register tile"})
    for (const auto& size : {yotta_test::MatmulSize{128, 128, 32}, {65, 33, 40}, {70, 130, 11}}) {
      CAPTURE(std::string(name));
      const MatmulRung& rung = named(name);
      Profile profile;
      run(rung, size);
      const LoadedBytes bytes =
          bytes_loaded(size.m, size.n, size.k, {rung.BM, rung.BN, rung.BK, rung.TM, rung.TN});
      CHECK(static_cast<double>(profile.global_reads().bytes) == bytes.global);
      CHECK(static_cast<double>(profile.shared_reads().bytes) == bytes.shared);
      CHECK(profile.shared_writes().bytes ==
            shared_bytes_written(size.m, size.n, size.k,
                                 {rung.BM, rung.BN, rung.BK, rung.TM, rung.TN}));
    }
}
