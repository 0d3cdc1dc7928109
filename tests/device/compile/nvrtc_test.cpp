#include "yotta/device/compile/nvrtc.hpp"

#include "device/fusion_examples.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/device/fusion_codegen.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("NVRTC takes the generated CUDA, in f32 and f64, for A100 and H100") {
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string source = cuda_of_examples(dtype);
    for (const char* target : {"sm_80", "sm_90"}) {
      const std::string cubin = compile_cuda(source, target);
      CHECK(cubin.substr(1, 3) == "ELF");
      CHECK(cubin.find("fused") != cubin.npos);  // the kernel's name, as the driver asks for it
    }
  }
}

TEST_CASE("PTX says which chip it is for, and for which type") {
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  const Graph graph = capture([](const Array& a) { return sqrt(a); }, uniform("x", {4, 8}));
  const std::string ptx =
      compile_cuda(print_cuda(graph, {kernels(graph, fuse(graph))[0]}), "compute_80");
  CHECK(ptx.find(".target sm_80") != ptx.npos);
  CHECK(ptx.find(".entry fused") != ptx.npos);
  CHECK(ptx.find("sqrt.rn.f32") != ptx.npos);
}

TEST_CASE("what NVRTC does not take is said with its line") {
  if (!why_no_nvrtc().empty()) YOTTA_NOT_RUN(why_no_nvrtc());
  const std::string message = message_of(
      [] { compile_cuda("__global__ void f(float* x) {\n  x[0] = v3 + 1;\n}\n", "sm_90"); });
  CAPTURE(message);
  CHECK(message.find("nvrtc_test.cpp:") == 0);
  CHECK(message.find("does not compile a generated source for sm_90") != message.npos);
  CHECK(message.find("identifier \"v3\" is undefined") != message.npos);
  CHECK(message.find("    2 |   x[0] = v3 + 1;\n") != message.npos);
  const std::string target = message_of([] { compile_cuda("", "sm_10"); });
  CHECK(target.find("sm_10") != target.npos);
}
