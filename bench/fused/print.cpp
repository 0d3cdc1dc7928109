// print_fused FILE: lesson 05's kernels as CUDA, each in a namespace of its own, for the emulator's
// counts (gpu_counters). A GPU gets the same text through NVRTC.
#include <cstdio>
#include <exception>

#include "bench/fused_chains.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/device/fusion_codegen.hpp"

namespace {

using namespace yotta;

std::string all_kernels() {
  std::string text = "#pragma GCC system_header\n#include <math.h>\n", calls;
  for (size_t c = 0; const bench::Chain& chain : bench::chains) {
    const bench::FusedChain fused = bench::counted(chain);
    if (fused.launches.size() != 1)
      fail(Where::current(), "{}: {} launches; one is expected", chain.name, fused.launches.size());
    const std::string kernel = print_cuda(fused.graph, fused.launches[0]);
    text += fmt::format("namespace chain{} {{\n{}}}\n", c, replaced(kernel, "extern \"C\" ", ""));
    calls += fmt::format(
        "  run(yotta::bench::chains[{0}], chain{0}::fused, chain{0}::Arrays{{}});\n", c++);
  }
  return text + "template <class Run>\nvoid for_each_fused(Run run) {\n" + calls + "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) fail(Where::current(), "usage: print_fused FILE");
    write_file(argv[1], all_kernels());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
