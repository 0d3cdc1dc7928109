// The bodies of device/cp_async_bulk.hpp.
#pragma once

#include "yotta/device/cp_async_bulk.hpp"

#include <utility>

#include "yotta/device/impl/mbarrier.ipp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

inline void check_multiples_of_16(const void* to, const void* from, size_t bytes, Where where) {
  running_lane("cp_async_bulk()", where);
  const std::pair<const char*, uintptr_t> all[] = {
      {"the address that it writes", reinterpret_cast<uintptr_t>(to)},
      {"the address that it reads", reinterpret_cast<uintptr_t>(from)},
      {"the number of bytes", bytes}};
  for (const auto& [what, number] : all)
    if (number % 16 != 0)
      refuse(where,
             fmt::format("cp_async_bulk(): {} must be a multiple of 16, and is {} too large. "
                         "Align shared arrays with __align__(16), and pad rows",
                         what, number % 16));
}

// A load of these pieces begins.
inline void start_load(const char* word, BulkCopy copy) {
  Block& block = *this_lane->block;
  AccessChecker& checker = block.checker();
  const Mbarrier& at = mbarrier_at(word, copy.barrier, copy.where);
  if (!checker.copies_know(copy.barrier))
    refuse(copy.where,
           fmt::format("{}: copies do not know the mbarrier that {} has initialised: no "
                       "fence_mbarrier_init() follows in that thread. Call it, then "
                       "__syncthreads()",
                       word, yotta::at(at.where)));
  checker.bulk_reads(copy.pieces, Copier::bulk_load, copy.where);
  copy.time = checker.load_begins(copy.barrier, at.parity(), copy.swizzle);
  checker.bulk_writes(copy.pieces, Copier::bulk_load, copy.where);
  checker.load_has_begun();
  copy.remember_source();
  count_instruction(word, copy.where);
  block.mbarriers().loads.push_back(std::move(copy));
  block.mbarriers().changed();
}

// A store of these pieces begins.
inline void start_store(const char* word, BulkCopy copy) {
  Block& block = *this_lane->block;
  AccessChecker& checker = block.checker();
  checker.bulk_reads(copy.pieces, Copier::bulk_store, copy.where);
  checker.bulk_writes(copy.pieces, Copier::bulk_store, copy.where);
  copy.remember_source();
  count_instruction(word, copy.where);
  BulkStores& stores = block.mbarriers().stores[this_lane->index];
  copy.group = stores.group;
  stores.copies.push_back(std::move(copy));
}

YOTTA_INLINE void wait_for_bulk_stores(int pending, bool written, Where where) {
  const UncheckedScope unchecked;
  Block& block = *running_lane("cp_async_bulk_wait_group()", where).block;
  BulkStores& stores = block.mbarriers().stores[this_lane->index];
  for (BulkCopy& copy : stores.copies) {
    if (copy.group + pending >= stores.group) continue;
    if (!std::exchange(copy.done, true)) {
      check_source(copy, Copier::bulk_store);
      copy.move();
    }
    if (!written) continue;
    for (const CopyPiece& each : copy.pieces)
      block.checker().bulk_written(each.to, each.bytes, copy.where);
  }
  if (written)
    std::erase_if(stores.copies,
                  [&](const BulkCopy& each) { return each.group + pending < stores.group; });
}

}  // namespace emulator

YOTTA_INLINE void cp_async_bulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::check_multiples_of_16(to, from, bytes, where);
  emulator::BulkCopy copy{.barrier = barrier, .where = where};
  copy.pieces = {{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes}};
  emulator::start_load("cp_async_bulk()", std::move(copy));
}

YOTTA_INLINE void cp_async_bulk(void* to, const void* from, uint32_t bytes, Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::check_multiples_of_16(to, from, bytes, where);
  emulator::BulkCopy copy{.where = where};
  copy.pieces = {{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes}};
  emulator::start_store("cp_async_bulk()", std::move(copy));
}

YOTTA_INLINE void cp_async_bulk_commit_group(Where where) {
  const emulator::UncheckedScope unchecked;
  const emulator::Lane& self = emulator::running_lane("cp_async_bulk_commit_group()", where);
  ++self.block->mbarriers().stores[self.index].group;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
