// The bodies of device/mbarrier.hpp.
#pragma once

#include "yotta/device/mbarrier.hpp"

#include <string>
#include <utility>
#include <vector>

#include "yotta/device/atomics.hpp"
#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// The block of this rank in the cluster of the thread that runs.
inline Block& block_of_rank(const char* word, uint32_t rank, Where where) {
  const std::vector<Block*>& blocks = running_lane(word, where).block->cluster().blocks;
  if (rank >= blocks.size())
    refuse(where, fmt::format("{} for the block of rank {}: the cluster has {} blocks. Is it "
                              "launched by launch_cluster()?",
                              word, rank, blocks.size()));
  return *blocks[rank];
}

// An mbarrier of this block or of another one of its cluster.
struct MbarrierPlace {
  Block& block;
  uint64_t* barrier;  // as that block knows it
  uint64_t* seen;     // as this one sees it
};
inline MbarrierPlace own_place(const char* word, uint64_t* barrier, Where where) {
  return {*running_lane(word, where).block, barrier, barrier};
}
// Of the block that has this rank, where this block has `barrier`.
inline MbarrierPlace place_in_cluster(const char* word, uint64_t* barrier, uint32_t rank,
                                      Where where) {
  Block& self = *running_lane(word, where).block;
  Block& other = block_of_rank(word, rank, where);
  auto* const mine = reinterpret_cast<std::byte*>(barrier);
  std::byte* const seen = self.seen_in(other, mine);
  if (seen == nullptr || other.has_ended())
    refuse(where,
           seen == nullptr
               ? fmt::format("{} of an address that is not in this block's shared memory", word)
               : fmt::format("{} at an mbarrier of block {}, which has ended. Let it wait for "
                             "this, for example in a cluster_sync() before both return",
                             word, text(coordinates(other.number(), self.task().grid))));
  return {other, reinterpret_cast<uint64_t*>(self.known_in(other, mine)),
          reinterpret_cast<uint64_t*>(seen)};
}

// The mbarrier that a thread uses, after all that can be wrong with it.
inline Mbarrier& mbarrier_at(const char* word, const MbarrierPlace& place, Where where) {
  Mbarrier* const found = place.block.mbarriers().find(place.barrier);
  if (found == nullptr)
    refuse(where, fmt::format("{} on an address where no mbarrier is: mbarrier_init() must come "
                              "before it, with a __syncthreads() between, and mbarrier_inval() "
                              "after it",
                              word));
  if (*place.seen != Mbarrier::mark)
    refuse(where,
           fmt::format("{} on an mbarrier whose 64 bits something has overwritten: nothing but "
                       "its own functions may write there. Does an array or a copy reach into "
                       "it?",
                       word));
  this_lane->block->checker().mbarrier_used(place.seen, where);
  return *found;
}
inline Mbarrier& mbarrier_at(const char* word, uint64_t* barrier, Where where) {
  return mbarrier_at(word, own_place(word, barrier, where), where);
}

// Begins the next phase of a block's mbarrier if the current one is complete.
inline void settle(Block& block, Mbarrier& at, const uint64_t* barrier) {
  block.mbarriers().changed();
  if (at.settle()) block.checker().mbarrier_completes(barrier);
}

inline void expect_bytes(const char* word, Mbarrier& at, uint32_t bytes, Where where) {
  at.expected += bytes;
  if (at.expected - at.come > Mbarrier::most)
    refuse(where, fmt::format("{}: {} bytes are expected, and an mbarrier counts at most {}. Use "
                              "several phases or several mbarriers",
                              word, at.expected - at.come, Mbarrier::most));
}

inline uint64_t arrive(const char* word, Mbarrier& at, const MbarrierPlace& place, uint32_t count,
                       Where where) {
  if (count < 1 || count > at.pending)
    refuse(where,
           fmt::format("{}: {} arrivals at once, and {}. mbarrier_init() counts the arrivals of "
                       "a phase",
                       word, count, at.text()));
  const uint64_t state = at.phase;
  Block& self = *this_lane->block;
  if (&place.block == &self)
    self.checker().mbarrier_arrives(place.barrier);
  else
    self.checker().mbarrier_arrives(place.barrier, place.block.checker(), where);
  at.pending -= count;
  settle(place.block, at, place.barrier);
  return state;
}

inline void check_source(const BulkCopy& copy, Copier copier) {
  if (const std::byte* const at = copy.changed(); at != nullptr)
    this_lane->block->checker().bulk_changed(at, copier, copy.where);
}

// The bytes of a load come.
inline void land(size_t index) {
  Block& block = *this_lane->block;
  std::vector<BulkCopy>& loads = block.mbarriers().loads;
  const BulkCopy copy = std::move(loads[index]);
  loads.erase(loads.begin() + static_cast<std::ptrdiff_t>(index));
  check_source(copy, Copier::bulk_load);
  copy.move();
  block.checker().load_lands(copy.time);
  Mbarrier& at = mbarrier_at("a bulk copy completes", copy.barrier, copy.where);
  at.come += static_cast<int64_t>(copy.bytes());
  settle(block, at, copy.barrier);
}

// What a thread does that asks for a phase which is not complete: asks until it is, or maybe not.
enum class Asks { again, once };

// A thread asks whether a phase is complete; if it is not, a copy comes nearer, and the others go
// first.
inline bool ask(const Mbarrier& at, uint64_t* barrier, int parity, bool complete, Asks asks,
                Where where) {
  Block& block = *this_lane->block;
  if (complete) {
    block.checker().mbarrier_passed(barrier, parity);
    if (block.mbarriers().sees(this_lane->index, barrier, at.phase))
      block.comes_further(*this_lane);
    return true;
  }
  if (const std::vector<size_t> loads = block.mbarriers().loads_to(barrier); !loads.empty())
    land(loads[block.draw(static_cast<uint32_t>(loads.size()))]);
  if (asks == Asks::again)
    block.mbarriers().waiters[this_lane->index] = {barrier, block.mbarriers().round(), parity,
                                                   where};
  give_way(where);
  return false;
}

inline bool ask_for_state(const char* word, uint64_t* barrier, uint64_t state, Asks asks,
                          Where where) {
  const UncheckedScope unchecked;
  const Mbarrier& at = mbarrier_at(word, barrier, where);
  if (state > at.phase || at.phase - state > 1)
    refuse(where, fmt::format("{} for a state that is neither of the current phase nor of the one "
                              "before: {}",
                              word, at.text()));
  return ask(at, barrier, static_cast<int>(state & 1), at.phase != state, asks, where);
}

inline bool ask_for_parity(const char* word, uint64_t* barrier, uint32_t parity, Asks asks,
                           Where where) {
  const UncheckedScope unchecked;
  const Mbarrier& at = mbarrier_at(word, barrier, where);
  if (parity > 1)
    refuse(where, fmt::format("{} for parity {}: it is 0 or 1, the last bit of a phase's number",
                              word, parity));
  const int wanted = static_cast<int>(parity);
  return ask(at, barrier, wanted, at.parity() != wanted, asks, where);
}

}  // namespace emulator

YOTTA_INLINE void mbarrier_init(uint64_t* barrier, uint32_t count, Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::Block& block = *emulator::running_lane("mbarrier_init()", where).block;
  if (reinterpret_cast<uintptr_t>(barrier) % 8 != 0)
    emulator::refuse(where, "mbarrier_init(): the address must be a multiple of 8");
  if (count < 1 || count > emulator::Mbarrier::most)
    emulator::refuse(where, fmt::format("mbarrier_init() with {} arrivals of a phase: 1 to {} are "
                                        "possible",
                                        count, emulator::Mbarrier::most));
  if (const auto* const old = block.mbarriers().find(barrier); old != nullptr)
    emulator::refuse(where,
                     fmt::format("mbarrier_init() on the mbarrier that {} has initialised: "
                                 "mbarrier_inval() comes before it. Is it in one thread only?",
                                 at(old->where)));
  block.checker().mbarrier_begins(barrier, where);
  block.mbarriers().add(barrier, count, where);
  *barrier = emulator::Mbarrier::mark;
}

YOTTA_INLINE void mbarrier_inval(uint64_t* barrier, Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::mbarrier_at("mbarrier_inval()", barrier, where);
  emulator::Mbarriers& mbarriers = emulator::this_lane->block->mbarriers();
  if (const auto loads = mbarriers.loads_to(barrier); !loads.empty())
    emulator::refuse(where,
                     fmt::format("mbarrier_inval() while the bulk copy of {} is on its way to "
                                 "this mbarrier. Wait for it first",
                                 at(mbarriers.loads[loads[0]].where)));
  mbarriers.remove(barrier);
}

YOTTA_INLINE uint64_t mbarrier_arrive(uint64_t* barrier, uint32_t count, Where where) {
  const emulator::UncheckedScope unchecked;
  constexpr const char* word = "mbarrier_arrive()";
  const emulator::MbarrierPlace place = emulator::own_place(word, barrier, where);
  return emulator::arrive(word, emulator::mbarrier_at(word, place, where), place, count, where);
}

YOTTA_INLINE uint64_t mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes, Where where) {
  const emulator::UncheckedScope unchecked;
  constexpr const char* word = "mbarrier_arrive_expect_tx()";
  const emulator::MbarrierPlace place = emulator::own_place(word, barrier, where);
  emulator::Mbarrier& at = emulator::mbarrier_at(word, place, where);
  emulator::expect_bytes(word, at, bytes, where);
  return emulator::arrive(word, at, place, 1, where);
}

YOTTA_INLINE void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes, Where where) {
  const emulator::UncheckedScope unchecked;
  constexpr const char* word = "mbarrier_expect_tx()";
  emulator::Mbarrier& at = emulator::mbarrier_at(word, barrier, where);
  emulator::expect_bytes(word, at, bytes, where);
  emulator::this_lane->block->mbarriers().changed();
}

YOTTA_INLINE bool mbarrier_test_wait(uint64_t* barrier, uint64_t state, Where where) {
  return emulator::ask_for_state("mbarrier_test_wait()", barrier, state, emulator::Asks::once,
                                 where);
}
YOTTA_INLINE bool mbarrier_try_wait(uint64_t* barrier, uint64_t state, Where where) {
  return emulator::ask_for_state("mbarrier_try_wait()", barrier, state, emulator::Asks::again,
                                 where);
}
YOTTA_INLINE bool mbarrier_test_wait_parity(uint64_t* barrier, uint32_t parity, Where where) {
  return emulator::ask_for_parity("mbarrier_test_wait_parity()", barrier, parity,
                                  emulator::Asks::once, where);
}
YOTTA_INLINE bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity, Where where) {
  return emulator::ask_for_parity("mbarrier_try_wait_parity()", barrier, parity,
                                  emulator::Asks::again, where);
}

YOTTA_INLINE void fence_mbarrier_init(Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::running_lane("fence_mbarrier_init()", where)
      .block->checker()
      .fence_proxy(emulator::ProxyFence::mbarriers);
}
YOTTA_INLINE void fence_proxy_async(Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::running_lane("fence_proxy_async()", where)
      .block->checker()
      .fence_proxy(emulator::ProxyFence::all);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
