#include "course/cases/launch_attention.hpp"

#include "yotta/device/device_memory.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

std::vector<float> launch_attention(const AttentionLaunch& how, const std::vector<float>& q,
                                    const std::vector<float>& k, const std::vector<float>& v,
                                    const AttentionShape& shape, uint64_t seed) {
  const auto rows = static_cast<size_t>(shape.query_rows());
  const DeviceArray<float> on_device_q(q), on_device_k(k), on_device_v(v);
  DeviceArray<float> o(q.size()), L(rows), l(rows);
  o.named("o", static_cast<size_t>(shape.d)), L.named("L"), l.named("l");
  emulator_options().seed = seed;
  emulator_options().patience = 0.1;  // a loop without an end is named before the grader gives up
  try {
    launch(how.kernel, static_cast<unsigned>(shape.B * shape.H), how.threads, how.shared_bytes,
           nullptr, on_device_q.data(), on_device_k.data(), on_device_v.data(), o.data(), L.data(),
           l.data(), shape);
  } catch (const KernelError& error) {  // of the launch, which is not the student's, nothing
    const std::string text = error.what();
    throw KernelError(Error::Verbatim(), error.where(), text.substr(text.find(": ") + 2));
  }
  std::vector<float> all = o.to_host();
  const std::vector<float> sums = L.to_host();
  all.insert(all.end(), sums.begin(), sums.end());
  return all;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
