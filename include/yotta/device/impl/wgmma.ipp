// The bodies of device/wgmma.hpp.
#pragma once

#include "yotta/device/wgmma.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "yotta/device/atomics.hpp"
#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/emulator/mma_arithmetic.hpp"
#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

constexpr int rows_of_warp = 16;

inline int this_warp() { return this_lane->index / 32; }
inline WgmmaWarp& wgmmas_of_warp() { return this_lane->block->wgmmas().warps[this_warp()]; }

// ---- Operands ----
struct Descriptor {
  uint32_t address = 0;
  WgmmaTile tile;
};
inline Descriptor decoded(uint64_t bits, Major major) {
  constexpr Swizzle by_code[] = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};
  const auto field = [&](int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) << 4; };
  return {field(0), {major, field(16), field(32), by_code[bits >> 62]}};
}

// Where `rows` rows of k lie, from row `first` on: (rows, k), numbers of so many bytes. Swizzles
// are of addresses.
inline std::vector<const std::byte*> places(const Descriptor& at, int first, int rows, int bytes,
                                            Where where) {
  std::vector<const std::byte*> all;
  for (int row = first; row < first + rows; ++row)
    for (int k = 0; k < 32 / bytes; ++k) {
      const uint32_t linear =
          at.address + wgmma_byte(at.tile, static_cast<uint32_t>(row), static_cast<uint32_t>(k),
                                  static_cast<uint32_t>(bytes));
      const uint32_t address = swizzled_byte(linear, at.tile.swizzle);
      all.push_back(this_lane->block->shared_at(address));
      if (all.back() == nullptr)
        refuse(where,
               fmt::format(
                   "wgmma(): the descriptor leads to address {} of shared memory, where nothing "
                   "is: row {}, k {} of a tile at {} with leading {} and stride {}. Is it made "
                   "by wgmma_descriptor()?",
                   address, row, k, at.address, at.tile.leading, at.tile.stride));
    }
  return all;
}
inline std::vector<uint32_t> bits_at(const std::vector<const std::byte*>& places, int bytes) {
  std::vector<uint32_t> bits(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(&bits[i], places[i], static_cast<size_t>(bytes));
  return bits;
}
template <class Input>
std::vector<uint32_t> bits_in_registers(const WgmmaLane (&lanes)[32]) {
  constexpr int k = wgmma_k<Input>, bits_of_one = 8 * static_cast<int>(sizeof(Input)),
                per_register = 32 / bits_of_one;
  std::vector<uint32_t> bits(rows_of_warp * k);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4 * per_register; ++i) {
      const MatrixCell at = wgmma_a_cell<Input>(lane, i);
      const uint32_t word = lanes[lane].registers[i / per_register];
      bits[static_cast<size_t>(at.row * k + at.column)] =
          word >> (bits_of_one * (i % per_register)) & (0xffffffffu >> (32 - bits_of_one));
    }
  return bits;
}
// The numbers of a matrix (rows, columns), or of its transpose.
template <class Input>
std::vector<MmaSum<Input>> numbers(const std::vector<uint32_t>& bits, int rows, bool transposed) {
  const size_t m = static_cast<size_t>(rows), n = bits.size() / m;
  std::vector<MmaSum<Input>> all(bits.size());
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      all[transposed ? j * m + i : i * n + j] = element_of<Input>(&bits[i * n + j], 0);
  return all;
}
// Sum: what d holds. Sums in f16 are rounded once, after the whole of k.
template <class Input, class Sum>
void multiply_numbers(int n, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                      std::vector<uint32_t>& sums) {
  std::vector<MmaSum<Input>> d = numbers<Sum>(sums, rows_of_warp, false);
  const auto rows = numbers<Input>(a, rows_of_warp, false);
  const auto columns = numbers<Input>(b, n, true);
  const int k = static_cast<int>(a.size()) / rows_of_warp;
  multiply_accumulate(rows_of_warp, n, k, rows.data(), columns.data(), d.data(), d.data());
  for (size_t i = 0; i < d.size(); ++i)
    if constexpr (std::is_same_v<Sum, float16>)
      sums[i] = float16(d[i]).bits;
    else
      sums[i] = std::bit_cast<uint32_t>(d[i]);
}

// A type of input: its numbers in memory and in registers, and their product, in sums of 32 bits
// and in f16.
struct WgmmaType {
  int bytes;
  std::vector<uint32_t> (*in_registers)(const WgmmaLane (&lanes)[32]);
  decltype(Wgmma::multiply) multiply, multiply_to_f16;
};
template <class Input, class Number = Input>
constexpr WgmmaType wgmma_type() {
  WgmmaType type{sizeof(Input), bits_in_registers<Input>, multiply_numbers<Number, WgmmaSum<Input>>,
                 nullptr};
  if constexpr (is_wgmma_sum<Input, uint32_t>)
    type.multiply_to_f16 = multiply_numbers<Number, float16>;
  return type;
}
inline const WgmmaType& type_of(WgmmaInput input) {
  static constexpr WgmmaType all[] = {wgmma_type<bfloat16>(),    wgmma_type<float16>(),
                                      wgmma_type<float, Tf32>(), wgmma_type<float8_e4m3>(),
                                      wgmma_type<float8_e5m2>(), wgmma_type<int8_t>(),
                                      wgmma_type<uint8_t>()};
  return all[static_cast<size_t>(input)];
}

// ---- Registers ----
inline uint32_t sum_at(const WgmmaSums& sums, int lane, int i) {
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(sums.d[lane]) + sums.bytes * i,
              static_cast<size_t>(sums.bytes));
  return bits;
}
inline void set_sum(const WgmmaSums& sums, int lane, int i, uint32_t bits) {
  std::memcpy(static_cast<std::byte*>(sums.d[lane]) + sums.bytes * i, &bits,
              static_cast<size_t>(sums.bytes));
}
inline uint32_t unfinished(const WgmmaSums& sums) {
  return sums.bytes == 2 ? unfinished_f16 : unfinished_sum;
}
inline std::vector<uint32_t> bits_of_sums(const WgmmaSums& sums) {
  std::vector<uint32_t> bits;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < sums.n / 2; ++i) bits.push_back(sum_at(sums, lane, i));
  return bits;
}

// Registers that were changed must pass a fence before a wgmma uses them.
inline void check_fence(WgmmaWarp& warp, const void* registers, std::vector<uint32_t> bits,
                        const char* what, Where where) {
  const auto [known, is_new] = warp.registers.try_emplace(registers);
  const bool missing =
      is_new ? warp.fences == 0 : known->second.bits != bits && known->second.fences == warp.fences;
  if (missing)
    refuse(where,
           fmt::format("wgmma(): {} was written after the last wgmma_fence(), so the tensor core "
                       "may see what was there before. Call it between the two",
                       what));
  known->second = {std::move(bits), warp.fences};
}

// d of the warp, which is in flight from now on.
inline WgmmaSums& sums_of(WgmmaWarp& warp, const WgmmaLane (&lanes)[32], Where where) {
  WgmmaSums& sums = warp.sums[lanes[0].d];
  const int n = lanes[0].n, bytes = lanes[0].sum_bytes;
  if (sums.at_work++ > 0) {
    if (sums.n != n || sums.bytes != bytes)
      refuse(where,
             fmt::format("wgmma(): d is still in flight, of the wgmma of {} with another n or type "
                         "of sums. Wait for that first",
                         at(sums.where)));
    return sums;
  }
  sums.n = n;
  sums.bytes = bytes;
  sums.where = where;
  sums.values.assign(static_cast<size_t>(rows_of_warp * n), 0);
  for (int lane = 0; lane < 32; ++lane) sums.d[lane] = lanes[lane].d;
  check_fence(warp, lanes[0].d, bits_of_sums(sums), "d", where);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < n / 2; ++i) {
      const MatrixCell cell = wgmma_cell(lane, i);
      sums.values[static_cast<size_t>(cell.row * n + cell.column)] = sum_at(sums, lane, i);
      set_sum(sums, lane, i, unfinished(sums));
    }
  for (int lane = 0; lane < 32; ++lane)
    this_lane->block->checker().sums_begin(32 * this_warp() + lane, sums.d[lane],
                                           static_cast<size_t>(n / 2 * bytes), where);
  return sums;
}

// No wgmma adds to d any more: it gets its numbers.
inline void finish_sums(WgmmaWarp& warp, WgmmaSums& sums) {
  for (int lane = 0; lane < 32; ++lane) {
    this_lane->block->checker().sums_end(32 * this_warp() + lane, sums.d[lane]);
    for (int i = 0; i < sums.n / 2; ++i) {
      if (sum_at(sums, lane, i) != unfinished(sums))
        refuse(sums.where,
               fmt::format("d[{}] of lane {} was written while this wgmma was at work on it. "
                           "wgmma_commit_group() and wgmma_wait_group<0>() come first",
                           i, lane));
      const MatrixCell cell = wgmma_cell(lane, i);
      set_sum(sums, lane, i, sums.values[static_cast<size_t>(cell.row * sums.n + cell.column)]);
    }
  }
  warp.registers[sums.d[0]] = {bits_of_sums(sums), warp.fences};
}

// ---- The instruction ----
inline void check_group(const WgmmaLane (&lanes)[32], Where where) {
  Block& block = *this_lane->block;
  if ((this_warp() / 4 + 1) * 128 > block.threads())
    refuse(where,
           fmt::format("wgmma() needs four warps, 128 threads from a multiple of 128 on; the "
                       "block has {} threads",
                       block.threads()));
  const WgmmaLane& mine = lanes[0];
  for (const WgmmaLane& each : lanes)
    if (each.a != mine.a || each.b != mine.b || each.accumulate != mine.accumulate)
      refuse(where,
             "wgmma(): the lanes of a warp bring different descriptors, or only some add to d");
  const WgmmaStep& step = block.wgmmas().next(this_warp(), {where, mine.a, mine.b});
  if (!same_line(step.where, where) || step.a != mine.a || step.b != mine.b)
    refuse(where,
           fmt::format("wgmma(): the warps of a group execute different ones, or bring different "
                       "descriptors: another one is at {}. All four execute the same",
                       at(step.where)));
}

// A in these registers is what it was for those at work that read it there.
inline void check_registers_kept(const WgmmaWarp& warp, const Wgmma& one) {
  for (const Wgmma& each : warp.at_work)
    if (each.registers == one.registers && each.a_bits != one.a_bits)
      refuse(one.where, fmt::format("wgmma(): A in registers was changed while the wgmma of {} may "
                                    "read it. wgmma_wait_group comes before the change",
                                    at(each.where)));
}

YOTTA_UNSEEN inline void run_wgmma(const WgmmaLane (&lanes)[32], Where where) {
  const WgmmaLane& mine = lanes[0];
  check_group(lanes, where);
  WgmmaWarp& warp = wgmmas_of_warp();
  const WgmmaType& type = type_of(mine.input);
  Wgmma one{.n = mine.n, .group = warp.group, .bytes = type.bytes, .accumulate = mine.accumulate};
  one.multiply = mine.sum_bytes == 2 ? type.multiply_to_f16 : type.multiply;
  one.where = where;
  const Descriptor a = decoded(mine.a, mine.a_major), b = decoded(mine.b, mine.b_major);
  if (mine.registers == nullptr) {
    one.a = places(a, this_warp() % 4 * rows_of_warp, rows_of_warp, type.bytes, where);
    one.a_bits = bits_at(one.a, type.bytes);
  } else {
    std::vector<uint32_t> bits;
    for (const WgmmaLane& each : lanes) bits.insert(bits.end(), each.registers, each.registers + 4);
    check_fence(warp, mine.registers, std::move(bits), "A in registers", where);
    one.registers = mine.registers;
    one.a_bits = type.in_registers(lanes);
    check_registers_kept(warp, one);
  }
  one.b = places(b, 0, mine.n, type.bytes, where);
  one.b_bits = bits_at(one.b, type.bytes);
  AccessChecker& checker = this_lane->block->checker();
  checker.wgmma_reads(one.a, type.bytes, static_cast<int>(a.tile.swizzle), where);
  checker.wgmma_reads(one.b, type.bytes, static_cast<int>(b.tile.swizzle), where);
  checker.count_wgmma(one.a, type.bytes, mine.a_major == Major::k, where);
  if (this_warp() % 4 == 0)  // B comes once, for all four warps
    checker.count_wgmma(one.b, type.bytes, mine.b_major == Major::k, where);
  sums_of(warp, lanes, where);
  one.sums = mine.d;
  count_flops(int64_t{2} * rows_of_warp * mine.n * (32 / type.bytes), where);
  warp.at_work.push_back(std::move(one));
}

YOTTA_INLINE void start_wgmma(const WgmmaLane& lane, Where where) {
  whole_warp("wgmma()", lane, run_wgmma, where);
}

// A tile must be what it was when the wgmma began.
inline void check_unchanged(const Wgmma& one, const std::vector<const std::byte*>& places,
                            const std::vector<uint32_t>& then) {
  if (places.empty()) return;
  const std::vector<uint32_t> now = bits_at(places, one.bytes);
  const auto [was, is] = std::mismatch(then.begin(), then.end(), now.begin());
  if (was == then.end()) return;
  const std::byte* const place = places[static_cast<size_t>(was - then.begin())];
  this_lane->block->checker().wgmma_changed(place, one.bytes, one.where);
  refuse(one.where,
         "a tile of this wgmma was overwritten while it was at work. Replace it after "
         "wgmma_wait_group");
}

// Multiplies one of a warp, which is done.
inline void multiply(WgmmaWarp& warp, Wgmma& one) {
  one.done = true;
  check_unchanged(one, one.a, one.a_bits);
  check_unchanged(one, one.b, one.b_bits);
  this_lane->block->checker().wgmma_has_read(one.a, one.bytes, one.where);
  this_lane->block->checker().wgmma_has_read(one.b, one.bytes, one.where);
  std::vector<uint32_t>& sums = warp.sums.at(one.sums).values;
  if (!one.accumulate) std::fill(sums.begin(), sums.end(), 0);
  one.multiply(one.n, one.a_bits, one.b_bits, sums);
}

// How many groups must be done before this warp goes on.
inline int groups_awaited(int pending) {
  const WgmmaWarp& warp = wgmmas_of_warp();
  const int groups = warp.group - pending;
  return warp.at_work.empty() || warp.at_work[0].group >= groups ? 0 : groups;
}
// Multiplies what all four warps have committed in so many groups.
inline void multiply_groups(int groups) {
  AccessChecker& checker = this_lane->block->checker();
  bool any = false;
  for (int warp = this_warp() / 4 * 4; warp < this_warp() / 4 * 4 + 4; ++warp) {
    WgmmaWarp& each = this_lane->block->wgmmas().warps[warp];
    for (Wgmma& one : each.at_work) {
      if (one.done || one.group >= groups) continue;
      multiply(each, one);
      any = true;
    }
  }
  if (any) checker.wgmmas_done(this_warp() / 4);
}

YOTTA_UNSEEN inline void run_wait(const int (&pending)[32], Where) {
  WgmmaWarp& warp = wgmmas_of_warp();
  const int groups = groups_awaited(pending[0]);
  if (groups == 0) return;
  multiply_groups(groups);
  this_lane->block->checker().wgmmas_awaited(this_warp());
  for (const Wgmma& each : warp.at_work) {
    if (each.group >= groups) break;
    WgmmaSums& sums = warp.sums.at(each.sums);
    if (--sums.at_work == 0) finish_sums(warp, sums);
  }
  std::erase_if(warp.at_work, [&](const Wgmma& each) { return each.group < groups; });
  std::erase_if(warp.sums, [](const auto& each) { return each.second.at_work == 0; });
}

// The four warps of a group multiply together, so each waits until all have committed.
YOTTA_INLINE void wait_for_wgmmas(int pending, Where where) {
  const UncheckedScope unchecked;
  Mbarriers& mbarriers = running_lane("wgmma_wait_group()", where).block->mbarriers();
  const Wgmmas& wgmmas = this_lane->block->wgmmas();
  for (const int groups = groups_awaited(pending); !wgmmas.committed(this_warp(), groups);) {
    mbarriers.waiters[this_lane->index] = {nullptr, mbarriers.round(), 0, where};
    give_way(where);
  }
  whole_warp("wgmma_wait_group()", pending, run_wait, where);
}

}  // namespace emulator

YOTTA_INLINE uint64_t wgmma_descriptor(const void* tile, uint32_t leading, uint32_t stride,
                                       Swizzle swizzle, Where where) {
  const emulator::UncheckedScope unchecked;
  const uint32_t address = emulator::running_lane("wgmma_descriptor()", where)
                               .block->address_of_shared(static_cast<const std::byte*>(tile));
  if (address >= 1 << 18)
    emulator::refuse(where,
                     "wgmma_descriptor(): a descriptor has no number for this place of shared "
                     "memory. The emulator keeps arrays apart, so that many static ones and much "
                     "dynamic memory do not fit below 2^18: use fewer static arrays");
  return descriptor_bits(address, leading, stride, swizzle);
}

YOTTA_INLINE void wgmma_fence(Where where) {
  const auto run = [](const int(&)[32], Where) { ++emulator::wgmmas_of_warp().fences; };
  whole_warp<int>("wgmma_fence()", 0, run, where);
}

YOTTA_INLINE void wgmma_commit_group(Where where) {
  const auto run = [](const int(&)[32], Where) {
    ++emulator::wgmmas_of_warp().group;
    emulator::this_lane->block->checker().wgmmas_begin(emulator::this_warp() / 4);
  };
  whole_warp<int>("wgmma_commit_group()", 0, run, where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
