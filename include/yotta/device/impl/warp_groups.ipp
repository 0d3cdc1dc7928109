// The bodies of device/warp_groups.hpp.
#pragma once

#include "yotta/device/warp_groups.hpp"

#include "yotta/device/impl/mbarrier.ipp"
#include "yotta/device/impl/wgmma.ipp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What the lanes of a warp bring to a named barrier, and the phase in which they have come.
struct NamedBarrierCall {
  const char* word;
  int barrier, threads;
  Where where;
  uint64_t phase = 0;
};

// A named barrier is an mbarrier of the block that is in no memory.
inline Mbarrier& named_barrier(const NamedBarrierCall& call) {
  const auto& [word, barrier, threads, where, phase] = call;
  Block& block = *this_lane->block;
  if (barrier < 1 || barrier > 15 || threads < 32 || threads % 32 != 0 ||
      threads > (block.threads() + 31) / 32 * 32)
    refuse(where,
           fmt::format("{}({}, {}): there are barriers 1 to 15, and 0 is that of __syncthreads(), "
                       "for 32 threads or a multiple of that; the block has {}",
                       word, barrier, threads, block.threads()));
  uint64_t* const key = block.named_barrier(barrier);
  if (block.mbarriers().find(key) == nullptr) block.mbarriers().add(key, threads, where);
  Mbarrier& at = *block.mbarriers().find(key);
  at.named = barrier;
  if (at.pending == at.count) at.count = at.pending = threads;
  if (at.count != threads)
    refuse(where,
           fmt::format("{}({}, {}): other threads wait there for {}. All name the same number",
                       word, barrier, threads, at.count));
  return at;
}

// A warp comes to a named barrier, and counts as 32 threads.
YOTTA_UNSEEN inline void warp_comes(Lanes lanes) {
  Block& block = *this_lane->block;
  const auto& first = *static_cast<const NamedBarrierCall*>(lanes[this_lane->in_warp]);
  uint32_t present = 0;
  for (int i = 0; i < 32; ++i) {
    if (lanes[i] == nullptr) continue;
    present |= 1u << i;
    const auto& each = *static_cast<const NamedBarrierCall*>(lanes[i]);
    if (each.barrier != first.barrier || each.threads != first.threads)
      refuse(first.where,
             fmt::format("{}({}, {}): another lane of the warp names ({}, {})", first.word,
                         first.barrier, first.threads, each.barrier, each.threads));
  }
  block.checker().lanes_met(this_warp(), present);
  Mbarrier& at = named_barrier(first);
  uint64_t* const key = block.named_barrier(first.barrier);
  const uint64_t phase = arrive(first.word, at, {block, key, key}, 32, first.where);
  for (void* const lane : lanes)
    if (lane != nullptr) static_cast<NamedBarrierCall*>(lane)->phase = phase;
}

struct SetRegisters {
  int registers = 0;
  bool more = false;
};
YOTTA_UNSEEN inline void run_set_registers(const SetRegisters (&lanes)[32], Where where) {
  const auto [wanted, more] = lanes[0];
  int& registers = this_lane->block->wgmmas().registers[this_warp()];
  if (registers != 0 && (more ? wanted < registers : wanted > registers))
    refuse(where, fmt::format("setmaxnreg_{}<{}>: the threads of this warp have {} registers",
                              more ? "inc" : "dec", wanted, registers));
  registers = wanted;
}

YOTTA_INLINE void set_registers(int registers, bool more, Where where) {
  whole_warp<SetRegisters>("setmaxnreg", {registers, more}, run_set_registers, where);
}

}  // namespace emulator

YOTTA_INLINE void bar_sync(int barrier, int threads, Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::NamedBarrierCall call{"bar_sync", barrier, threads, where};
  emulator::warp_rendezvous("bar_sync()", 0xffffffffu, &call, emulator::warp_comes, where);
  emulator::Block& block = *emulator::this_lane->block;
  uint64_t* const key = block.named_barrier(barrier);
  const emulator::Mbarrier& at = *block.mbarriers().find(key);
  const int parity = static_cast<int>(call.phase & 1);
  while (!emulator::ask(at, key, parity, at.phase != call.phase, emulator::Asks::again, where))
    continue;
}

YOTTA_INLINE void bar_arrive(int barrier, int threads, Where where) {
  const emulator::UncheckedScope unchecked;
  emulator::NamedBarrierCall call{"bar_arrive", barrier, threads, where};
  emulator::warp_rendezvous("bar_arrive()", 0xffffffffu, &call, emulator::warp_comes, where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
