// The bodies of machine/chip.hpp.
#pragma once

#include "yotta/machine/chip.hpp"

#include <span>
#include <string>

namespace yotta {

YOTTA_INLINE double peak(const Chip& chip, DType dtype, Where where) {
  double flops = chip.f32;
  if (dtype == DType::f64) flops = chip.f64;
  if (dtype == DType::bf16 || dtype == DType::f16) flops = chip.bf16;
  if (dtype == DType::fp8_e5m2 || dtype == DType::fp8_e4m3) flops = chip.fp8;
  if (dtype == DType::u8) flops = chip.int8;
  if (flops == 0) fail(where, "{} does not compute in {}", chip.name, name(dtype));
  return flops;
}

YOTTA_INLINE const Chip& chip_named(std::string_view name, Where where) {
  std::string known;
  for (const std::span<const Chip> some :
       {std::span<const Chip>(known_chips), std::span<const Chip>(more_chips)})
    for (const Chip& chip : some) {
      if (chip.name == name) return chip;
      known += fmt::format(" {}", chip.name);
    }
  fail(where, "no chip is called '{}'; known are{}", name, known);
}

}  // namespace yotta
