#include "yotta/core/cpu/convert.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace yotta;

TEST_CASE("numbers of any type become numbers of any other") {
  const std::vector<DType> types = {DType::f64, DType::f32,      DType::bf16,
                                    DType::f16, DType::fp8_e5m2, DType::fp8_e4m3,
                                    DType::i64, DType::i32,      DType::u8};
  for (const DType from : types)
    for (const DType to : types)
      for (const int64_t n : {0, 1, 255, 256, 600}) {  // across the blocks of 256
        std::vector<int64_t> source(static_cast<size_t>(n)), target(source.size());  // wide enough
        std::vector<double> values(source.size()), back(source.size());
        for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<double>(i % 9);
        convert(source.data(), from, values.data(), DType::f64, n);
        convert(target.data(), to, source.data(), from, n);
        convert(back.data(), DType::f64, target.data(), to, n);
        CAPTURE(std::string(name(from)));
        CAPTURE(std::string(name(to)));
        CHECK(back == values);
      }
}

TEST_CASE("f32 to bf16 rounds to nearest, ties to even") {
  const float from[] = {1.00390625f, 1.01171875f, 3.3895314e38f};
  bfloat16 to[3];
  convert(to, DType::bf16, from, DType::f32, 3);
  CHECK(static_cast<float>(to[0]) == 1.0f);
  CHECK(static_cast<float>(to[1]) == 1.015625f);
  CHECK(to[2].bits == 0x7f7f);
  bfloat16 body[3];
  const Conversion<bfloat16, float> conversion{body, from};
  for (int i = 0; i < 3; ++i) conversion(i, OneLane{});
  CHECK(body[1].bits == to[1].bits);
}

TEST_CASE("registers of f32 and bf16: every bf16 is widened, and bits of all kinds are rounded") {
  std::vector<bfloat16> all(1 << 16), back(all.size());
  std::vector<float> wide(all.size());
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  widen_numbers(wide.data(), all.data(), std::ssize(all));
  round_numbers(back.data(), wide.data(), std::ssize(all));
  int wrong = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const float one = static_cast<float>(all[i]);
    wrong += std::bit_cast<uint32_t>(wide[i]) != std::bit_cast<uint32_t>(one);
    wrong += back[i].bits != bfloat16(one).bits;
  }
  // Every sign and exponent, with the low bits that decide: zeros, about a half, ones; odd and
  // even.
  std::vector<float> numbers;
  for (uint32_t upper = 0; upper < (1 << 16); ++upper)
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      numbers.push_back(std::bit_cast<float>(upper << 16 | low));
  std::vector<bfloat16> narrow(numbers.size());
  round_numbers(narrow.data(), numbers.data(), std::ssize(numbers));
  for (size_t i = 0; i < numbers.size(); ++i) wrong += narrow[i].bits != bfloat16(numbers[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("lengths that are no whole registers are converted to their end and not beyond") {
  for (int64_t n = 0; n < 40; ++n) {
    std::vector<float> from(static_cast<size_t>(n)), back(static_cast<size_t>(n) + 1, -7.0f);
    for (int64_t i = 0; i < n; ++i) from[static_cast<size_t>(i)] = static_cast<float>(i);
    std::vector<bfloat16> to(static_cast<size_t>(n) + 1, bfloat16(-7.0f));
    copy_numbers(to.data(), static_cast<const float*>(from.data()), n);
    copy_numbers(back.data(), static_cast<const bfloat16*>(to.data()), n);
    for (int64_t i = 0; i < n; ++i)
      CHECK(back[static_cast<size_t>(i)] == from[static_cast<size_t>(i)]);
    CHECK(static_cast<float>(to.back()) == -7.0f);
    CHECK(back.back() == -7.0f);
  }
}
