// The SIMT emulator: how long a matmul with shared tiles of 32 x 32 takes on it, unchecked and
// under all checks. The aims: 256 cubed in 0.05 s unchecked and in 1 s checked, so that a kernel
// can be studied without waiting.
//
// CPU time of this process, the shortest of some tries: one that other programs do not change much.
#include <ctime>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "course/options/usage.hpp"
#include "emulator.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/roofline_matmul.hpp"

namespace {

using namespace yotta;

// The shortest CPU time of a body, in seconds.
template <class Body>
double shortest_cpu_seconds(int tries, Body body) {
  double shortest = 1e9;
  for (int i = 0; i < tries; ++i) {
    const std::clock_t begin = std::clock();
    body();
    shortest = std::min(shortest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return shortest;
}

int run(int size, int tries, const std::string& json) {
  const std::vector<float> ones(static_cast<size_t>(size) * static_cast<size_t>(size), 1.0f);
  const auto blocks = static_cast<unsigned>((size + 31) / 32);
  const DeviceArray<float> a(ones), b(ones);
  DeviceArray<float> c(ones.size());
  emulator_options().threads = 1;
  const double unchecked = shortest_cpu_seconds(tries, [&] {
    launch(matmul_shared_tile<32>, {blocks, blocks}, {32, 32}, 0, nullptr, a.data(), b.data(),
           c.data(), size, size, size);
  });
  bool right = c.to_host() == std::vector<float>(ones.size(), static_cast<float>(size));
  const double checked =
      shortest_cpu_seconds(tries, [&] { right = bench::checked_matmul(size) && right; });
  console::Table table(
      {fmt::format("{}^3, tiles of 32 x 32, one OS thread", size), "CPU seconds", "aim at 256"});
  table.row({"unchecked", fmt::format("{:.4f}", unchecked), "0.05"});
  table.row({"all checks and counters", fmt::format("{:.4f}", checked), "1"});
  fmt::print("{}", table.text());
  if (!right) fmt::print(stderr, "the product is wrong\n");
  const int written = json.empty() ? 0
                                   : bench::write_json(json, {{"benchmark", "emulator"},
                                                              {"size", size},
                                                              {"unchecked_seconds", unchecked},
                                                              {"checked_seconds", checked}});
  return right ? written : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The emulator's speed: a tiled matmul, unchecked and checked"};
  int size = 256, tries = 5;
  std::string json;
  app.add_option("--size", size, "of the square matrices")->check(CLI::Range(1, 2048));
  app.add_option("--tries", tries, "the shortest counts")->check(CLI::Range(1, 1000));
  app.add_option("--json", json, "also write the times to this file");
  return bench::run_benchmark(app, argc, argv, [&] { return run(size, tries, json); });
}
