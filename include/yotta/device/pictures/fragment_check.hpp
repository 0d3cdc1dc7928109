// Compares what a kernel loads into its registers with the fragments of mma, and says which element
// lies where another belongs.
//
//     A(0, 8) = 8, its column          lane 0  a[1], low half: holds (0, 8); the PTX ISA has (8, 0)
//     A(8, 0) = 8, its row             there: a[1] and a[2] are exchanged
//
// A test runs the kernel's loads twice and copies the registers to the host: once from a matrix
// whose elements are their row numbers, once from one of column numbers, both from
// fragment_probe().
//
//     const auto rows = run(fragment_probe<uint16_t>(shape.a, FragmentAxis::row)), columns = ...;
//     CHECK(fragment_mistake(shape.a, rows, columns) == "");
//
// For operands of 8, 16 and 32 bits, packed into registers of 32.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "yotta/device/mma_fragments.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

enum class FragmentAxis { row, column };

// A row-major matrix of the fragment's size, of one of these numbers at each element.
template <class Bits>
std::vector<Bits> fragment_probe(const Fragment& fragment, FragmentAxis axis) {
  std::vector<Bits> matrix;
  for (int row = 0; row < fragment.rows; ++row)
    for (int column = 0; column < fragment.columns; ++column)
      matrix.push_back(static_cast<Bits>(axis == FragmentAxis::row ? row : column));
  return matrix;
}

// "lane 0, a[1] (bits 0 to 15)".
inline std::string register_text(const Fragment& fragment, const Holder& at) {
  const int bits = 32 / fragment.per_register, part = at.element % fragment.per_register;
  return fmt::format("lane {}, {}[{}] (bits {} to {})", at.lane,
                     static_cast<char>(fragment.name - 'A' + 'a'),
                     at.element / fragment.per_register, bits * part, bits * part + bits - 1);
}

// The registers of lane 0, then of lane 1, ..., loaded from the two probes. Empty if all is in
// place.
inline std::string fragment_mistake(const Fragment& fragment, const std::vector<uint32_t>& rows,
                                    const std::vector<uint32_t>& columns) {
  const int per = fragment.per_register, bits = 32 / per;
  const auto number = [&](const std::vector<uint32_t>& registers, int lane, int i) {
    const uint32_t word = registers.at(static_cast<size_t>((lane * fragment.elements + i) / per));
    return static_cast<int>(word >> (bits * (i % per)) & (0xffffffffu >> (32 - bits)));
  };
  std::string first;
  int wrong = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < fragment.elements; ++i) {
      const MatrixCell got{number(rows, lane, i), number(columns, lane, i)};
      const MatrixCell wanted = fragment.cell(lane, i);
      if (got == wanted || ++wrong > 1) continue;
      const Holder home = holder_of(fragment, got);
      first = fmt::format("{} holds {}({}, {}), and must hold ({}, {}); ({}, {}) belongs into {}",
                          register_text(fragment, {lane, i}), fragment.name, got.row, got.column,
                          wanted.row, wanted.column, got.row, got.column,
                          home.lane < 0 ? "no register" : register_text(fragment, home));
    }
  if (wrong == 0) return {};
  return fmt::format("{}. {} of {} elements are in the wrong place", first, wrong,
                     32 * fragment.elements);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
