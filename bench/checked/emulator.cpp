#include "bench/emulator.hpp"

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/roofline_matmul.hpp"

namespace yotta::bench {

bool checked_matmul(int size) {
  const std::vector<float> ones(static_cast<size_t>(size) * static_cast<size_t>(size), 1.0f);
  const auto blocks = static_cast<unsigned>((size + 31) / 32);
  const DeviceArray<float> a(ones), b(ones);
  DeviceArray<float> c(ones.size());
  const Profile profile;
  launch(matmul_shared_tile<32>, {blocks, blocks}, {32, 32}, 0, nullptr, a.data(), b.data(),
         c.data(), size, size, size);
  return c.to_host() == std::vector<float>(ones.size(), static_cast<float>(size));
}

}  // namespace yotta::bench
