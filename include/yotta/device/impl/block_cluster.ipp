// The bodies of device/block_cluster.hpp.
#pragma once

#include "yotta/device/block_cluster.hpp"

#include "yotta/device/atomics.hpp"
#include "yotta/device/impl/mbarrier.ipp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_INLINE void* map_shared(void* pointer, uint32_t rank, Where where) {
  const UncheckedScope unchecked;
  Block& other = block_of_rank("map_shared()", rank, where);
  std::byte* const there = this_lane->block->seen_in(other, static_cast<std::byte*>(pointer));
  if (there == nullptr)
    refuse(where, "map_shared() of an address that is not in this block's shared memory");
  return there;
}

YOTTA_INLINE SharedOwner owner_of_shared(const char* word, const void* pointer, Where where) {
  const UncheckedScope unchecked;
  Block& self = *running_lane(word, where).block;
  const std::vector<Block*>& blocks = self.cluster().blocks;
  for (uint32_t rank = 0; rank < blocks.size(); ++rank)
    if (void* const mine = self.own_of(*blocks[rank], static_cast<const std::byte*>(pointer)))
      return {rank, mine};
  refuse(where, fmt::format("{} of an address that is in no shared memory of the cluster", word));
}

YOTTA_INLINE dim3 cluster_shape(Where where) {
  const UncheckedScope unchecked;
  return running_lane("cluster_shape()", where).block->task().cluster;
}

}  // namespace emulator

YOTTA_INLINE uint32_t cluster_rank(Where where) {
  const emulator::UncheckedScope unchecked;
  return static_cast<uint32_t>(emulator::running_lane("cluster_rank()", where).block->rank());
}

YOTTA_INLINE uint32_t cluster_size(Where where) {
  const emulator::UncheckedScope unchecked;
  const emulator::Lane& self = emulator::running_lane("cluster_size()", where);
  return static_cast<uint32_t>(self.block->cluster().blocks.size());
}

YOTTA_INLINE void cluster_arrive(Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::Lane& self = emulator::running_lane("cluster_arrive()", where);
  if (self.cluster_arrivals != self.cluster_waits)
    emulator::refuse(where,
                     "cluster_arrive() for the second time, without a cluster_wait() between");
  ++self.cluster_arrivals;
  ++self.block->cluster().arrivals;
  self.block->checker().arrives_at_cluster();
  self.block->meet_in_cluster();
}

YOTTA_INLINE void cluster_wait(Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::Lane& self = emulator::running_lane("cluster_wait()", where);
  if (self.cluster_arrivals == self.cluster_waits)
    emulator::refuse(where, "cluster_wait() without a cluster_arrive() before it");
  emulator::Mbarriers& mbarriers = self.block->mbarriers();
  while (self.block->cluster().phase < self.cluster_arrivals) {
    mbarriers.waiters[self.index] = {nullptr, mbarriers.round(), 0, where, true};
    emulator::give_way(where);
  }
  ++self.cluster_waits;
  self.block->checker().passes_cluster();
  self.block->comes_further(self);
}

YOTTA_INLINE void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank, uint32_t count,
                                     Where where) {
  const emulator::UncheckedScope unchecked;
  constexpr const char* word = "mbarrier_arrive_at()";
  const auto place = emulator::place_in_cluster(word, barrier, rank, where);
  emulator::arrive(word, emulator::mbarrier_at(word, place, where), place, count, where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
