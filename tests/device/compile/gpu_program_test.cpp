#include "yotta/device/compile/gpu_program.hpp"

#include <cstring>
#include <functional>

#include "device/fusion_examples.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/device/compile/interpreter.hpp"
#include "yotta/device/compile/nvrtc.hpp"
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

using namespace yotta;
using namespace yotta_test;

namespace {

// A driver whose memory is the host's and whose kernels are interpreted. It counts what is held.
struct Stage {
  int held = 0, modules = 0, code_of_launch = 0;
  void* context = nullptr;
  std::string function;
  std::vector<unsigned> blocks, threads;  // of each launch
  Graph graph;
  std::vector<Launch> launches;
} stage;

// What launch number l computes, on the arrays that its kernel is given.
void play(size_t l, void** arrays) {
  const Launch& launch = stage.launches[l];
  const LaunchValues values = values_of(launch);
  std::map<int, void*> memory;
  for (const int n : values.reads) memory[n] = *arrays++;
  if (values.reads.empty()) ++arrays;  // C++ has no array of none
  for (const int n : values.writes) memory[n] = *arrays++;
  for (const Kernel& kernel : launch) {
    const Walk walk = walk_of(stage.graph, kernel);
    interpret(stage.graph, walk, lines_of(stage.graph, kernel, walk), memory);
  }
}

GpuDriver standing_in() {
  GpuDriver driver{};
  driver.device_name = [](char* name, int size, int) {
    std::snprintf(name, static_cast<size_t>(size), "%s", "a stand-in");
    return 0;
  };
  driver.attribute = [](int* value, int attribute, int) {
    *value = attribute == 75 ? 9 : 0;
    return 0;
  };
  driver.retain_context = [](void** context, int) {
    *context = &stage;
    return 0;
  };
  driver.set_context = [](void* context) {
    stage.context = context;
    return 0;
  };
  driver.synchronize = [] { return 0; };
  driver.load_module = [](void** module, const void* image) {
    ++stage.modules;
    *module = &stage;
    return std::memcmp(image, "\177ELF", 4) == 0 ? 0 : 200;
  };
  driver.unload_module = [](void*) {
    --stage.modules;
    return 0;
  };
  driver.get_function = [](void** function, void* module, const char* name) {
    *function = module;
    stage.function = name;
    return 0;
  };
  driver.allocate = [](unsigned long long* memory, size_t bytes) {
    ++stage.held;
    *memory = reinterpret_cast<unsigned long long>(::operator new(bytes));
    return 0;
  };
  driver.release = [](unsigned long long memory) {
    --stage.held;
    ::operator delete(reinterpret_cast<void*>(memory));
    return 0;
  };
  driver.copy_in = [](unsigned long long to, const void* from, size_t bytes) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
  };
  driver.copy_out = [](void* to, unsigned long long from, size_t bytes) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return 0;
  };
  driver.launch = [](void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                     unsigned, unsigned, void*, void** parameters, void**) {
    play(stage.blocks.size(), static_cast<void**>(parameters[0]));
    stage.blocks.push_back(blocks);
    stage.threads.push_back(threads);
    return stage.code_of_launch;
  };
  driver.error_name = [](int, const char** name) {
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
    return 0;
  };
  return driver;
}

GpuProgram on_stage(const Graph& graph, const std::vector<Launch>& launches) {
  static const GpuDriver driver = standing_in();
  stage = {};
  stage.graph = graph;
  stage.launches = launches;
  return GpuProgram(graph, launches, driver);
}

std::vector<Launch> apart(const Graph& graph) {
  return one_launch_each(kernels(graph, one_kernel_each(graph)));
}
std::vector<Launch> fused(const Graph& graph) {
  return foreach (graph, kernels(graph, fuse(graph)));
}

// Rows of 300: a thread of 256 has one or two columns.
struct Example {
  std::vector<Tensor> in = {uniform("x", {5, 300}), uniform("b", {300}), uniform("r", {5, 300})};
  Graph graph = merge_equal(capture_list(
      [](const std::vector<Array>& x) {
        return std::vector<Array>{bias_gelu_dropout_residual(x[0], x[1], x[2]),
                                  layernorm(x[2], x[1], x[1]), masked_softmax(x[2])};
      },
      in));
};

}  // namespace

TEST_CASE("with a driver that plays a GPU: a block a task, arrays in order, results come back") {
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  const Example example;
  const std::vector<Tensor> expected = run(example.graph, example.in);
  for (const std::vector<Launch>& launches : {fused(example.graph), apart(example.graph)}) {
    {
      const GpuProgram program = on_stage(example.graph, launches);
      const std::vector<Tensor> got = program(example.in);
      for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i]);
      CHECK(stage.function == "fused");
      CHECK(stage.context == &stage);
      REQUIRE(stage.blocks.size() == launches.size());
      for (size_t l = 0; l < launches.size(); ++l) {
        CHECK(stage.blocks[l] == tasks_of(example.graph, launches[l], cuda_kernel));
        CHECK(stage.threads[l] == cuda_threads);
      }
      CHECK(stage.modules == std::ssize(launches));
    }
    CHECK(stage.modules == 0);  // and nothing is held any more
    CHECK(stage.held == 0);
  }
}

TEST_CASE("what a GPU program cannot do is said") {
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  const Tensor x = uniform("x", {8, 8});
  const Graph doubled = capture([](const Array& a) { return a * 2; }, x);
  const GpuProgram program = on_stage(doubled, fused(doubled));
  stage.code_of_launch = 700;
  CHECK(message_of([&] {
          program({x});
        }).find("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)") != std::string::npos);
  CHECK(message_of([&] {
          program({uniform("x", {8, 9})});
        }).find("argument 0 is (8, 9)") != std::string::npos);
  const Graph product = capture([](const Array& a) { return matmul(a, a); }, x);
  CHECK(message_of([&] {
          on_stage(product, fused(product));
        }).find("a matmul is no kernel by rows") != std::string::npos);
}

TEST_CASE("on a GPU: the same numbers as on the CPU, fused and apart") {
  if (!why_no_gpu().empty()) YOTTA_NOT_RUN(why_no_gpu());
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  const Example example;
  const std::vector<Tensor> expected = run(example.graph, example.in);
  for (const std::vector<Launch>& launches : {fused(example.graph), apart(example.graph)}) {
    const GpuProgram program(example.graph, launches);
    const std::vector<Tensor> got = program(example.in);
    for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], 1e-5);
    CHECK(program.seconds(3) > 0);
  }
}

#if __has_include(<cuda.h>)
namespace {
// Whether two functions are called alike: as many arguments, each of the same size, and a pointer
// in both or in neither.
template <class F, class G>
constexpr bool called_alike = false;
template <class R, class... A, class Q, class... B>
requires(sizeof...(A) == sizeof...(B)) constexpr bool called_alike<R (*)(A...), Q (*)(B...)> =
    sizeof(R) == sizeof(Q) &&
    ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
}  // namespace
#define YOTTA_SAME(ours, theirs) \
  static_assert(called_alike<decltype(GpuDriver::ours), decltype(&::theirs)>)
YOTTA_SAME(init, cuInit);
YOTTA_SAME(device_count, cuDeviceGetCount);
YOTTA_SAME(device_name, cuDeviceGetName);
YOTTA_SAME(attribute, cuDeviceGetAttribute);
YOTTA_SAME(retain_context, cuDevicePrimaryCtxRetain);
YOTTA_SAME(set_context, cuCtxSetCurrent);
YOTTA_SAME(synchronize, cuCtxSynchronize);
YOTTA_SAME(load_module, cuModuleLoadData);
YOTTA_SAME(unload_module, cuModuleUnload);
YOTTA_SAME(get_function, cuModuleGetFunction);
YOTTA_SAME(allocate, cuMemAlloc);
YOTTA_SAME(release, cuMemFree);
YOTTA_SAME(copy_in, cuMemcpyHtoD);
YOTTA_SAME(copy_out, cuMemcpyDtoH);
YOTTA_SAME(launch, cuLaunchKernel);
YOTTA_SAME(error_name, cuGetErrorName);
#undef YOTTA_SAME
#endif
