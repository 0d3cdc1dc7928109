// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/mma.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/mma_input.hpp"
#include "support/not_run.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Thread i reads element (i / 4, i % 4) of a 3 x 2 matrix.
__global__ void read(const bfloat16* x, uint32_t* out) {
  const Bf16Matrix matrix = {x, 3, 2};
  const int i = static_cast<int>(threadIdx.x);
  out[i] = matrix.bits(i / 4, i % 4);
}

// An instruction as a type, for templates.
#define YOTTA_INSTRUCTION(name)                                 \
  struct Call_##name {                                          \
    template <class... Registers>                               \
    __device__ void operator()(Registers&... registers) const { \
      name(registers...);                                       \
    }                                                           \
  };
YOTTA_INSTRUCTION(mma_m16n8k16_f16)
YOTTA_INSTRUCTION(mma_m16n8k16_bf16)
YOTTA_INSTRUCTION(mma_m16n8k8_f16)
YOTTA_INSTRUCTION(mma_m16n8k8_bf16)
YOTTA_INSTRUCTION(mma_m16n8k8_tf32)
YOTTA_INSTRUCTION(mma_m16n8k4_tf32)
YOTTA_INSTRUCTION(mma_m16n8k32_s8)
YOTTA_INSTRUCTION(mma_m8n8k4_f64)
YOTTA_INSTRUCTION(mma_m8n8k4_f16)

// fp8 needs sm_89: on an older GPU these do nothing, and are not called.
struct Call_mma_m16n8k32_e4m3 {
  template <class... Registers>
  __device__ void operator()(Registers&... registers) const {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    mma_m16n8k32_e4m3(registers...);
#endif
  }
};
struct Call_mma_m16n8k32_e5m2 {
  template <class... Registers>
  __device__ void operator()(Registers&... registers) const {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    mma_m16n8k32_e5m2(registers...);
#endif
  }
};
bool has_fp8() {
#if defined(__CUDACC__)
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return 10 * major + minor >= 89;
#else
  return true;
#endif
}

// Loads each lane's registers, executes one instruction, and stores its results.
template <class Instruction, int A, int B, int C, class Register, class Sum>
__global__ void one_instruction(const Register* a, const Register* b, const Sum* c, Sum* d) {
  const unsigned lane = threadIdx.x;
  Register mine_a[A], mine_b[B];
  Sum sum[C];
  for (unsigned i = 0; i < A; ++i) mine_a[i] = a[lane * A + i];
  for (unsigned i = 0; i < B; ++i) mine_b[i] = b[lane * B + i];
  for (unsigned i = 0; i < C; ++i) sum[i] = c[lane * C + i];
  Instruction()(sum, mine_a, mine_b, sum);
  for (unsigned i = 0; i < C; ++i) d[lane * C + i] = sum[i];
}

// The registers of 32 lanes for one operand.
template <class Input>
std::vector<MmaRegister<Input>> registers(int which, int elements, MatrixCell (*cell)(int, int)) {
  const size_t bytes = static_cast<size_t>(elements) * sizeof(Input);
  std::vector<MmaRegister<Input>> all(32 * bytes / sizeof(MmaRegister<Input>));
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < elements; ++i) {
      const Input value = as<Input>(whole(which, cell(lane, i)));
      std::memcpy(reinterpret_cast<char*>(all.data()) + static_cast<size_t>(lane) * bytes +
                      static_cast<size_t>(i) * sizeof(Input),
                  &value, sizeof value);
    }
  return all;
}

template <class Shape, class Input, int A, int B, class Instruction>
void check(const char* name) {
  CAPTURE(std::string(name));
  constexpr int C = Shape::c_elements;
  using Sum = MmaSum<Input>;
  using Register = MmaRegister<Input>;
  const DeviceArray<Register> a(registers<Input>(0, Shape::a_elements, Shape::a));
  const DeviceArray<Register> b(registers<Input>(1, Shape::b_elements, Shape::b));
  std::vector<Sum> start(32 * C);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < C; ++i)
      start[static_cast<size_t>(lane * C + i)] = static_cast<Sum>(whole(2, Shape::c(lane, i)));
  const DeviceArray<Sum> c(start);
  DeviceArray<Sum> d(32 * C);
  launch(one_instruction<Instruction, A, B, C, Register, Sum>, 1, 32, 0, nullptr, a.data(),
         b.data(), c.data(), d.data());
  const std::vector<Sum> result = d.to_host();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < C; ++i) {
      const int expected = expected_element<Shape>(Shape::c(lane, i));
      CHECK(result[static_cast<size_t>(lane * C + i)] == static_cast<Sum>(expected));
    }
}

#if !defined(__CUDACC__)  // a GPU does not say what is wrong
__global__ void half_a_warp(float* out) {
  if (threadIdx.x >= 16) return;
  float sum[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  mma_m16n8k16_bf16(sum, a, b, sum);
  out[threadIdx.x] = sum[0];
}

__global__ void two_different(float* out) {
  float sum[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x % 2 == 0)
    mma_m16n8k16_bf16(sum, a, b, sum);
  else
    mma_m16n8k16_f16(sum, a, b, sum);
  out[threadIdx.x] = sum[0];
}

std::string error_of(void (*kernel)(float*), unsigned threads) {
  DeviceArray<float> out(64);
  try {
    launch(kernel, 1, threads, 0, nullptr, out.data());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
#endif

__global__ void rounds(const float* x, float* y) {
  const uint32_t bits = rounded_to_tf32(x[threadIdx.x]) & 0xffffe000u;  // what an mma sees
  std::memcpy(y + threadIdx.x, &bits, 4);
}

}  // namespace

TEST_CASE("a matrix in rows, zeros around it") {
  std::vector<bfloat16> x;
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}) x.push_back(bfloat16(value));
  const DeviceArray<bfloat16> on_device(x);
  DeviceArray<uint32_t> out(16);
  launch(read, 1, 16, 0, nullptr, on_device.data(), out.data());
  const std::vector<uint32_t> got = out.to_host();
  for (size_t i = 0; i < 16; ++i) {
    const size_t row = i / 4, column = i % 4;
    CHECK(got[i] == (row < 3 && column < 2 ? x[row * 2 + column].bits : 0u));
  }
}

TEST_CASE("the first of two lies in the low half") { CHECK(packed(0x1234, 0xabcd) == 0xabcd1234u); }

TEST_CASE("every instruction multiplies the matrices that the lanes of a warp hold") {
  check<M16N8K16, float16, 4, 2, Call_mma_m16n8k16_f16>("m16n8k16 f16");
  check<M16N8K16, bfloat16, 4, 2, Call_mma_m16n8k16_bf16>("m16n8k16 bf16");
  check<M16N8K8, float16, 2, 1, Call_mma_m16n8k8_f16>("m16n8k8 f16");
  check<M16N8K8, bfloat16, 2, 1, Call_mma_m16n8k8_bf16>("m16n8k8 bf16");
  check<M16N8K8Tf32, Tf32, 4, 2, Call_mma_m16n8k8_tf32>("m16n8k8 tf32");
  check<M16N8K4Tf32, Tf32, 2, 1, Call_mma_m16n8k4_tf32>("m16n8k4 tf32");
  check<M16N8K32, int8_t, 4, 2, Call_mma_m16n8k32_s8>("m16n8k32 s8");
  check<M8N8K4F64, double, 1, 1, Call_mma_m8n8k4_f64>("m8n8k4 f64");
  check<M8N8K4Volta, float16, 2, 2, Call_mma_m8n8k4_f16>("m8n8k4 f16");
}

TEST_CASE("instructions of fp8 too") {
  if (!has_fp8()) YOTTA_NOT_RUN("fp8 needs a GPU of sm_89 or newer");
  check<M16N8K32, float8_e4m3, 4, 2, Call_mma_m16n8k32_e4m3>("e4m3");
  check<M16N8K32, float8_e5m2, 4, 2, Call_mma_m16n8k32_e5m2>("e5m2");
}

#if !defined(__CUDACC__)
TEST_CASE("a warp that is not whole is refused, with the cure") {
  const std::string returned = error_of(half_a_warp, 32), small = error_of(half_a_warp, 16);
  for (const std::string& error : {returned, small}) {
    CAPTURE(error);
    CHECK(error.find("mma_test.cpp:") != std::string::npos);
    CHECK(error.find("mma_m16n8k16_bf16() needs all 32 lanes") != std::string::npos);
    CHECK(error.find("blocks of 32 threads") != std::string::npos);
  }
}

TEST_CASE("lanes that meet in two different instructions are told so") {
  const std::string error = error_of(two_different, 32);
  CAPTURE(error);
  CHECK(error.find("mma_m16n8k16_bf16()") != std::string::npos);
  CHECK(error.find("mma_m16n8k16_f16()") != std::string::npos);
}
#endif

TEST_CASE("tf32: to the nearest, ties away from zero") {
  const float unit = 0x1p-10f, last = 0x1p-23f, huge = 0x1.fffffep127f;
  const DeviceArray<float> x(std::vector<float>{1.0f + unit / 2, -1.0f - unit / 2,
                                                1.0f + unit / 2 - last, 1.0f + 3 * unit / 4, huge,
                                                -huge * 2, 0.0f});
  DeviceArray<float> y(7);
  launch(rounds, 1, 7, 0, nullptr, x.data(), y.data());
  CHECK(y.to_host() == std::vector<float>{1.0f + unit, -1.0f - unit, 1.0f, 1.0f + unit, huge * 2,
                                          -huge * 2, 0.0f});
}
