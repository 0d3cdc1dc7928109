#include "course/cases/launch_matmul.hpp"

#include "yotta/device/device_memory.hpp"

namespace yotta {

std::vector<float> launch_matmul(const MatmulLaunch& how, const std::vector<float>& a,
                                 const std::vector<float>& b, int m, int n, int k, uint64_t seed) {
  const auto blocks = [&](int size) {
    return static_cast<unsigned>((size + how.tile - 1) / how.tile);
  };
  DeviceArray<float> on_device_a(a), on_device_b(b), c(static_cast<size_t>(m * n));
  on_device_a.named("a", static_cast<size_t>(k));
  on_device_b.named("b", static_cast<size_t>(n));
  c.named("c", static_cast<size_t>(n));
  emulator_options().seed = seed;
  emulator_options().patience = 0.1;  // a loop without an end is named before the grader gives up
  try {
    launch(how.kernel, {blocks(n), blocks(m)}, {how.threads_x, how.threads_y}, 0, nullptr,
           on_device_a.data(), on_device_b.data(), c.data(), m, n, k);
  } catch (const KernelError&
               error) {  // of the launch, which is not the student's, nothing need be said
    const std::string text = error.what();
    throw KernelError(Error::Verbatim(), error.where(), text.substr(text.find(": ") + 2));
  }
  return c.to_host();
}

}  // namespace yotta
