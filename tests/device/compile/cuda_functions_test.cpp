#include "yotta/device/compile/cuda_functions.hpp"

#include "device/fusion_examples.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/device/compile/lanes.hpp"
#include "yotta/device/compile/shared_object.hpp"
#include "yotta/device/fusion_codegen.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("CUDA has every function that expressions call") {
  const std::string cpu = yotta::lanes_text, cuda = yotta::cuda_functions;
  for (const char* name :
       {" spread(", " count_from(", " load(", " store(", " among(", " infinity(", " larger(",
        " less(", " choose(", " exp_of(", " sqrt_of(", " keep(", " fold_sum(", " fold_max("}) {
    CAPTURE(name);
    CHECK(cpu.find(name) != cpu.npos);
    CHECK(cuda.find(name) != cuda.npos);
  }
}

namespace {

// Launches `fused` in the emulator, on copies in device memory, and counts.
constexpr const char* emulate = R"(
extern "C" void emulate(const Real* const* in, const long* in_counts, Real* const* out,
                        const long* out_counts, long blocks, long* bytes, long* sectors) {
  using yotta::DeviceArray;
  Arrays a;
  std::vector<DeviceArray<Real>> read, written;
  for (const Real*& each : a.in) {
    const size_t i = read.size();
    read.emplace_back(std::vector<Real>(in[i], in[i] + in_counts[i]));
    each = read[i].data();
  }
  for (Real*& each : a.out) {
    written.emplace_back(out_counts[written.size()]);
    each = written.back().data();
  }
  yotta::Profile profile;
  yotta::launch(fused, unsigned(blocks), 256, 0, nullptr, a);
  *bytes = profile.global_reads().bytes + profile.global_writes().bytes;
  *sectors = profile.global_bytes();
  for (size_t i = 0; i < written.size(); ++i) {
    const std::vector<Real> host = written[i].to_host();
    std::copy(host.begin(), host.end(), out[i]);
  }
}
)";
using Emulate = void (*)(const float* const* in, const long* in_counts, float* const* out,
                         const long* out_counts, long blocks, long* bytes, long* sectors);

// Generated source, compiled for the emulator's checks (cmake/kernels.cmake has the flags).
Compiled for_emulator(const std::string& source) {
  const std::string build = YOTTA_BUILD_DIR;
  CompilerOptions options{
      COMPILER, {"-std=c++20", "-O1", "-g1", "-gdwarf-4", "-w"}, build + "/fused_kernels"};
  for (const char* flag : {"-march=native", "-fno-omit-frame-pointer", "-fsanitize=thread",
                           "-DYOTTA_CHECKED", "-DYOTTA_COMPILED", "-I" YOTTA_SOURCE_DIR "/include"})
    options.flags.push_back(flag);
#if defined(__clang__)
  for (const char* flag : {"-tsan-instrument-read-before-write=1",
                           "-tsan-instrument-func-entry-exit=0", "-disable-loop-idiom-all"}) {
    options.flags.push_back("-mllvm");
    options.flags.push_back(flag);
  }
#else
  for (const char* flag : {"-Wno-tsan", "--param=tsan-instrument-func-entry-exit=0"})
    options.flags.push_back(flag);
#endif
  options.flags.push_back("-Wl,--as-needed");  // ThreadSanitizer's own library is not used
  for (const char* part : {"checked", "device", "core"})
    options.libraries.push_back(build + "/libyotta_compiled_" + part + ".a");
  for (const char* library : {"-lfmt", "-lboost_context", "-pthread"})
    options.libraries.push_back(library);
  return compile_source(
      "#include <math.h>\n#include \"yotta/device/device_memory.hpp\"\n"
      "#include \"yotta/device/profile.hpp\"\n" +
          source + emulate,
      options);
}

}  // namespace

TEST_CASE("generated CUDA in the emulator: right, clean, and each byte once") {
  if (YOTTA_ASAN || YOTTA_TSAN)
    YOTTA_NOT_RUN("the emulator's checks and a sanitizer both instrument memory accesses");
  // Rows of 300: a thread of 256 has one or two columns. dropout needs Philox, layernorm two sums.
  const Tensor x = uniform("x", {5, 300}), b = uniform("b", {300}), r = uniform("r", {5, 300});
  const Graph graph = merge_equal(capture_list(
      [](const std::vector<Array>& in) {
        return std::vector<Array>{bias_gelu_dropout_residual(in[0], in[1], in[2]),
                                  layernorm(in[2], in[1], in[1]), masked_softmax(in[2])};
      },
      {x, b, r}));
  const std::vector<Kernel> all = kernels(graph, fuse(graph));
  const std::vector<Launch> launches = foreach (graph, all);
  REQUIRE(launches.size() == 1);
  const LaunchValues values = values_of(launches[0]);
  const std::vector<Tensor> inputs = {x, b, r}, expected = run(graph, inputs);
  std::vector<const float*> in;
  std::vector<float*> out;
  std::vector<long> in_counts, out_counts;
  std::vector<Tensor> results;
  for (const int n : values.reads) {
    in.push_back(inputs[static_cast<size_t>(n)].data<float>());
    in_counts.push_back(graph.node(n).size.count());
  }
  for (const int n : values.writes) {
    results.push_back(Tensor::empty({graph.node(n).size.rows, graph.node(n).size.columns}));
    out.push_back(results.back().data<float>());
    out_counts.push_back(results.back().numel());
  }
  // Never unloaded: the emulator in it has installed handlers of signals.
  const Compiled& compiled = *new Compiled(for_emulator(print_cuda(graph, launches[0])));
  long bytes = 0, sectors = 0;
  reinterpret_cast<Emulate>(compiled.object->function("emulate"))(
      in.data(), in_counts.data(), out.data(), out_counts.data(),
      tasks_of(graph, launches[0], cuda_kernel), &bytes, &sectors);
  for (size_t i = 0; i < values.writes.size(); ++i)
    for (size_t o = 0; o < graph.outputs.size(); ++o)
      if (graph.outputs[o] == values.writes[i]) check_close(results[i], expected[o], 1e-5);
  // Threads ask for a row's bias once a row; from memory it comes once, if the cache keeps it.
  const double repeated = 4 * 300 * (5 - 1) * 2;  // in the two kernels that have one
  CHECK(static_cast<double>(bytes) == bytes_moved(graph, all) + repeated);
}

TEST_CASE("nvcc takes the generated CUDA, in f32 and f64" * doctest::test_suite("long")) {
  const std::string nvcc = NVCC;
  if (nvcc.find("NOTFOUND") != nvcc.npos)
    YOTTA_NOT_RUN("nvcc is not installed (it comes with the CUDA Toolkit)");
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string file = folder / "generated.cu";
    write_file(file, cuda_of_examples(dtype));
    CHECK(std::system((nvcc + " -arch=sm_90 -cubin -o /dev/null " + file).c_str()) == 0);
  }
}
