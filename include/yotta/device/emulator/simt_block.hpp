// A block of CUDA threads on the CPU: runs its lanes in a random order from barrier to barrier.
//
//     warp 2, lanes 5 0 9 ... | warp 0, lanes 7 3 1 ... | warp 1 ...  -> barrier ->  warp 1, ... | warp 2 ...
//
// The order of warps, and of lanes in a warp, is drawn anew for each pass from a seed: a kernel that forgets a
// barrier goes wrong, and goes wrong again in the same way with the same seed. A warp runs until all its lanes
// have returned or wait for the block.
//
// Never hangs: when no lane can go on, the block says who waits where (stuck_report.hpp), and a lane that never ends its
// turn loses it (watchdog.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/device/emulator/simt_lane.hpp"
#include "yotta/device/emulator/watchdog.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"
#include "yotta/device/emulator/stuck_report.hpp"
#include "yotta/device/emulator/simt_switch.hpp"
#include "yotta/device/emulator/simt_watch.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// Draws the order in which lanes run: a linear congruential generator, since quality does not matter here.
class Shuffler {
 public:
  explicit Shuffler(uint64_t seed, uint64_t block) : state_(Random(seed, "lanes").bits(block)) {}
  uint32_t below(uint32_t bound) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<uint32_t>((uint64_t{state_} * bound) >> 32);
  }

 private:
  uint32_t state_;
};

class Block {
 public:
  Block(const Task& task, Stacks& stacks)
      : task_(task),
        dynamic_shared_(task.shared_bytes + 128),
        watch_(task, dynamic_shared(), stacks),
        image_(image_of(task.kernel)),
        patience_(task.patience, image_),
        switch_(stacks) {
    lanes_.resize(task.size.x * task.size.y * task.size.z);
    warps_.resize((lanes_.size() + 31) / 32);
    for (const SharedArray& each : SharedArrays::of(image_).for_kernel(image_, task.kernel))
      shared_.emplace_back(image_.thread_variables + each.offset, each.bytes);
    shared_.emplace_back(dynamic_shared_.data(), dynamic_shared_.size());
  }

  // Runs all threads of one block to their end; throws what stopped one of them.
  void run(uint64_t number) {
    watch_.block_starts(number, lanes_);
    start(number);
    Shuffler order(task_.seed, number);
    while (alive_ > 0) {
      bool paused = false;
      for (size_t i = warps_.size(); i > 0; --i) {
        std::swap(warps_[i - 1], warps_[order.below(static_cast<uint32_t>(i))]);
        if (run_warp(warps_[i - 1], order)) paused = true;
      }
      if (alive_ > 0 && !paused) release_barrier();
    }
    watch_.block_ends();
  }

  int threads() const { return static_cast<int>(lanes_.size()); }
  const Task& task() const { return task_; }
  Lane& lane(int index) { return lanes_[static_cast<size_t>(index)]; }
  std::byte* dynamic_shared() { return align(dynamic_shared_.data()); }

  AccessChecker& watch() { return watch_; }

  // Waits for all threads of the block; returns how many of them brought a vote.
  int barrier(int vote, Where where) {
    Lane& self = *this_lane;
    self.vote = vote;
    suspend(LaneState::at_barrier, where);
    return votes_;
  }

  // Waits for the lanes of call.mask; the last to come has carried out the call for all of them.
  void warp_call(const WarpCall& call, Where where) {
    this_lane->call = call;
    ++lanes_in_;
    suspend(LaneState::in_warp, where);
  }

  // Lets the other lanes go first.
  void pause() { leave(); }

  // A tick of the CPU's time, in the middle of whatever the lane does.
  YOTTA_UNSEEN static void tick(uintptr_t instruction) {
    Lane* const lane = this_lane;
    if (lane == nullptr || !in_kernel() || !lane->block->patience_.over(instruction)) return;
    const UncheckedScope aside;
    lane->block->stuck_at_ = instruction;
    for (;;) lane->block->leave();
  }

  // Ends the launch from a place that must not throw; explain() is called outside the kernel.
  [[noreturn]] void stop(std::function<std::string()> explain) {
    if (carrying_out_) {  // no lane runs
      this_lane = nullptr;
      fail_as<KernelError>(task_.where, "{}", explain());
    }
    explain_ = std::move(explain);
    for (;;) leave();
  }

 private:
  static std::byte* align(std::byte* at) {
    return at + (128 - reinterpret_cast<uintptr_t>(at) % 128) % 128;
  }

  void start(uint64_t number) {
    for (const auto& [array, bytes] : shared_)
      std::memset(array, 0xff, bytes);  // NaN in every float format
    alive_ = threads();
    for (int i = 0; i < alive_; ++i) {
      Lane& lane = lanes_[static_cast<size_t>(i)];
      lane.block = this;
      lane.index = i;
      lane.thread = coordinates(static_cast<uint64_t>(i), task_.size);
      lane.block_index = coordinates(number, task_.grid);
      lane.block_size = task_.size;
      lane.grid_size = task_.grid;
      lane.state = LaneState::ready;
      lane.copies.clear();
      lane.waits = 0;
      lane.copy_group = 0;
      switch_.start(lane, enter);
    }
    for (size_t i = 0; i < warps_.size(); ++i) warps_[i] = static_cast<int>(i);
  }

  // Lanes in random order, until all of the warp have returned or wait; true if some only let others go first.
  bool run_warp(int warp, Shuffler& order) {
    bool paused = false;
    for (bool moved = true; moved;) {
      moved = paused = false;
      const uint32_t start = order.below(32), step = 2 * order.below(16) + 1;
      for (uint32_t i = 0; i < 32; ++i) {
        const int index = 32 * warp + static_cast<int>((start + i * step) % 32);
        if (index >= threads() || lane(index).state != LaneState::ready) continue;
        resume(lane(index));
        (lane(index).state == LaneState::ready ? paused : moved) = true;
      }
      watch_.warp_stands();
      if (lanes_in_ > 0 && finish_calls(warp)) moved = true;
    }
    return paused;
  }

  // The lanes of a warp in some state, as a mask.
  uint32_t lanes_that_are(LaneState state, int warp) const {
    uint32_t mask = 0;
    for (int i = 32 * warp; i < std::min(32 * warp + 32, threads()); ++i)
      if (lanes_[static_cast<size_t>(i)].state == state) mask |= 1u << (i % 32);
    return mask;
  }

  // Calls of this warp for which all have come, lanes that have returned apart, are carried out.
  bool finish_calls(int warp) {
    const uint32_t waiting = lanes_that_are(LaneState::in_warp, warp);
    const uint32_t returned = lanes_that_are(LaneState::returned, warp);
    const int existing = std::min(32, threads() - 32 * warp);
    const uint32_t living = (0xffffffffu >> (32 - existing)) & ~returned;
    uint32_t finished = 0;
    for (uint32_t left = waiting; left != 0; left &= ~finished & (left - 1)) {
      const int first = std::countr_zero(left);
      const uint32_t wanted = lane(32 * warp + first).call.mask & living;
      if ((wanted & ~waiting) != 0 || (wanted & finished) != 0) continue;
      finish_call(warp, wanted);
      finished |= wanted;
    }
    return finished != 0;
  }

  void finish_call(int warp, uint32_t mask) {
    void* mine[32] = {};
    Lane& first = lane(32 * warp + std::countr_zero(mask));
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      const Lane& each = lane(32 * warp + i);
      check_same_call(first, each, task_.where);
      mine[i] = each.call.mine;
    }
    for (int i = 0; i < 32; ++i)
      if ((mask >> i & 1) != 0) lane(32 * warp + i).state = LaneState::ready;
    lanes_in_ -= std::popcount(mask);
    this_lane = &first;
    carrying_out_ = true;
    first.call.run(mine);
    carrying_out_ = false;
    this_lane = nullptr;
  }

  void release_barrier() {
    votes_ = 0;
    check_all_at_barrier(lanes_, task_.where);
    watch_.all_met();
    for (Lane& lane : lanes_) {
      votes_ += lane.vote;
      lane.state = LaneState::ready;
    }
  }

  // Stops the lane that runs until its state is `ready` again.
  void suspend(LaneState state, Where where) {
    Lane& self = *this_lane;
    self.state = state;
    self.where = where;
    leave();
  }

  void resume(Lane& lane) {
    patience_.lane_resumes();
    this_lane = &lane;
    switch_.to_lane(lane);
    this_lane = nullptr;
    if (lane.state == LaneState::returned) --alive_;
    if (stuck_at_ != 0)
      complain_of_loop(lane, watch_.line_of(image_, stuck_at_), kernel_name(image_, task_.kernel),
                       patience_.most(), task_.where);
    if (explain_) fail_as<KernelError>(task_.where, "{}", explain_());
    if (error_) std::rethrow_exception(error_);
  }
  void leave() { switch_.to_scheduler(*this_lane); }

  YOTTA_UNSEEN static void enter(boost::context::detail::transfer_t from) {
    Lane& self = *static_cast<Lane*>(from.data);
    Block& block = *self.block;
    block.switch_.arrived(from);
    try {
      block.watch_.lane_starts();
      block.task_.call(block.task_.arguments);
      AccessChecker::lane_ends();
    } catch (...) {
      AccessChecker::lane_ends();
      block.error_ = std::current_exception();
    }
    self.state = LaneState::returned;
    for (;;) block.leave();
  }

  const Task& task_;
  std::vector<std::byte> dynamic_shared_;
  std::vector<std::pair<std::byte*, size_t>> shared_;  // all of it, this OS thread's
  std::vector<Lane> lanes_;
  AccessChecker watch_;
  std::vector<int> warps_;  // in the order in which they run
  int alive_ = 0, votes_ = 0;
  int lanes_in_ = 0;           // lanes in an instruction of their warp
  bool carrying_out_ = false;  // one of those, outside of any lane
  Image image_;
  Watchdog patience_;
  uintptr_t stuck_at_ = 0;  // where a lane lost its turn
  Switch switch_;
  std::function<std::string()> explain_;
  std::exception_ptr error_;
};

#if defined(YOTTA_CHECKED)
inline void stop_lane(std::function<std::string()> explain) {
  this_lane->block->stop(std::move(explain));
}
YOTTA_UNSEEN inline void pause_lane() {
  const UncheckedScope aside;
  this_lane->block->pause();
}
#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
