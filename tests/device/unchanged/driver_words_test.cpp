#include "yotta/device/unchanged/driver_words.hpp"

#include <doctest/doctest.h>

TEST_CASE("the driver's function for tensor maps is handed out, and no other one") {
  void* entry = nullptr;
  auto result = cudaDriverEntryPointSymbolNotFound;
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &result) ==
        cudaSuccess);
  CHECK(result == cudaDriverEntryPointSuccess);
  CHECK(entry == reinterpret_cast<void*>(&cuTensorMapEncodeTiled));
  CHECK(cudaGetDriverEntryPointByVersion("cuInit", &entry, 12000, cudaEnableDefault, &result) ==
        cudaSuccess);
  CHECK(result == cudaDriverEntryPointSymbolNotFound);
  CHECK(entry == nullptr);
}
