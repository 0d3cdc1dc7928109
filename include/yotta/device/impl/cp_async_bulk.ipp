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

// The mbarrier of a load, which copies know.
inline const Mbarrier& mbarrier_of_load(const char* word, const MbarrierPlace& place, Where where) {
  const Mbarrier& at = mbarrier_at(word, place, where);
  if (!this_lane->block->checker().copies_know(place.seen))
    refuse(where,
           fmt::format("{}: copies do not know the mbarrier that {} has initialised: no "
                       "fence_mbarrier_init() follows in that thread. Call it, then {}",
                       word, yotta::at(at.where),
                       &place.block == this_lane->block ? "__syncthreads()" : "cluster_sync()"));
  return at;
}
// Its pieces, with the places in shared memory moved so far.
inline std::vector<CopyPiece> moved(std::vector<CopyPiece> pieces, std::ptrdiff_t by) {
  for (CopyPiece& each : pieces) each.to += by;
  return pieces;
}
// A load begins into the shared memory of the block that has this mbarrier, at the places where
// this one has those of its pieces.
inline void start_load_into(const MbarrierPlace& place, BulkCopy copy, const Mbarrier& at) {
  Block& self = *this_lane->block;
  Block& block = place.block;
  AccessChecker& checker = self.checker();
  std::byte* const first = copy.pieces[0].to;
  const std::byte* const seen = self.seen_in(block, first);
  if (seen == nullptr) {
    checker.bulk_writes(copy.pieces, Copier::bulk_load, copy.where);  // which names the array
    refuse(copy.where,
           "a bulk copy with an mbarrier goes to shared memory, and its destination is not in this "
           "block's");
  }
  copy.barrier = place.barrier;
  copy.time = checker.load_begins(copy.barrier, at.parity(), copy.swizzle, block.checker());
  checker.bulk_writes(moved(copy.pieces, seen - first), Copier::bulk_load, copy.where);
  checker.copy_has_begun();
  copy.pieces = moved(std::move(copy.pieces), self.known_in(block, first) - first);
  block.mbarriers().loads.push_back(std::move(copy));
  block.mbarriers().changed();
}

// A load of these pieces begins, into this block or those whose ranks are bits of `blocks`.
inline void start_load(const char* word, BulkCopy copy, uint32_t blocks = 0) {
  std::vector<std::pair<MbarrierPlace, const Mbarrier*>> all;
  const auto add = [&](const MbarrierPlace& place) {
    all.emplace_back(place, &mbarrier_of_load(word, place, copy.where));
  };
  if (blocks == 0) add(own_place(word, copy.barrier, copy.where));
  for (uint32_t rank = 0; blocks >> rank != 0; ++rank)
    if ((blocks >> rank & 1) != 0) add(place_in_cluster(word, copy.barrier, rank, copy.where));
  this_lane->block->checker().bulk_reads(copy.pieces, Copier::bulk_load, copy.where);
  copy.remember_source();
  for (const auto& [place, at] : all) start_load_into(place, copy, *at);
  count_instruction(word, copy.where);
}

// A store of these pieces begins.
inline void start_store(const char* word, BulkCopy copy) {
  Block& block = *this_lane->block;
  AccessChecker& checker = block.checker();
  checker.bulk_reads(copy.pieces, Copier::bulk_store, copy.where);
  copy.time = checker.store_begins();
  checker.bulk_writes(copy.pieces, Copier::bulk_store, copy.where, copy.add != nullptr);
  checker.copy_has_begun();
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
  const auto read = stores.end_of_groups(stores.copies, pending);
  for (auto copy = stores.copies.begin(); copy != read; ++copy) {
    check_source(*copy, Copier::bulk_store);
    copy->move();
    copy->source.clear();
    stores.may_write.push_back(std::move(*copy));
  }
  stores.copies.erase(stores.copies.begin(), read);
  if (!written) return;
  const auto done = stores.end_of_groups(stores.may_write, pending);
  for (auto copy = stores.may_write.begin(); copy != done; ++copy)
    block.checker().bulk_written(copy->pieces, copy->time);
  stores.may_write.erase(stores.may_write.begin(), done);
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
