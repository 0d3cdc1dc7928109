// The bodies of device/emulator/scheduler.hpp.
#pragma once

#include "yotta/device/emulator/scheduler.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "yotta/core/context.hpp"
#include "yotta/core/cpu/thread_pool.hpp"
#include "yotta/core/options.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/emulator/access_checker.hpp"
#include "yotta/device/emulator/debug_info.hpp"
#include "yotta/device/emulator/global_memory.hpp"
#include "yotta/device/emulator/lane_faults.hpp"
#include "yotta/device/emulator/lanes.hpp"
#include "yotta/device/emulator/mbarriers.hpp"
#include "yotta/device/emulator/stream_queue.hpp"
#include "yotta/device/emulator/watchdog.hpp"
#include "yotta/device/emulator/wgmmas.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

YOTTA_INLINE EmulatorOptions& emulator_options() {
  static EmulatorOptions options;
  return options;
}

namespace emulator {

// Draws the order in which lanes run: a linear congruential generator, since quality does not
// matter here.
class Shuffler {
 public:
  Shuffler(uint64_t seed, uint64_t block) : state_(Random(seed, "lanes").bits(block)) {}
  uint32_t below(uint32_t bound) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<uint32_t>((uint64_t{state_} * bound) >> 32);
  }

 private:
  uint32_t state_;
};

// Whether lanes take turns by time, too. Not under checks, so that the same seed finds the same
// fault, nor under sanitizers, whose own code may be what a signal interrupts.
#if defined(YOTTA_CHECKED) || YOTTA_TSAN || YOTTA_ASAN
inline constexpr bool takes_slices = false;
#else
inline constexpr bool takes_slices = true;
#endif

// For __activemask(): the lanes of a warp that have come to a line so far.
struct ActiveList {
  uint32_t lanes = 0, left = 0;  // left: have yet to take it
  bool closed = false;
};
using ActivePlace =
    std::tuple<int, const char*, uint32_t, uint32_t, int>;  // warp, line, which time

// Blocks that are there together: their threads meet, and reach each other's shared memory.
struct Cluster {
  std::vector<Block*> blocks = {};  // by rank
  uint64_t threads = 0;
  uint64_t arrivals = 0, phase = 0;  // of threads at its barrier; how often all have met there
  ClusterOrder order = {};

  void starts() { arrivals = phase = 0; }
};

// Whether the __shared__ arrays of a launch's kernel are known.
inline bool knows_arrays(const Task& task) {
  const Image image = image_of(task.kernel);
  return !SharedArrays::of(image).symbol_of(image, task.kernel).empty();
}

class Block {
 public:
  std::map<ActivePlace, ActiveList> active_lists;

  // What has become of a block's turn.
  enum class Turn { ended, waits_for_grid, gives_way };

  Block(const Task& task, Stacks& stacks, CheckedLaunch& launch)
      : task_(task),
        dynamic_shared_(task.shared_bytes),
        checker_(task, dynamic_shared(), stacks, launch),
        image_(image_of(task.kernel)),
        watchdog_(task.patience, image_),
        switch_(stacks) {
    if (dynamic_shared() == nullptr)
      fail(task.where, "no memory for {} bytes of dynamic shared memory", task.shared_bytes);
    lanes_.resize(count_of(task.size));
    warps_.resize((lanes_.size() + 31) / 32);
    for (const SharedArray& each : SharedArrays::of(image_).for_kernel(image_, task.kernel))
      shared_.emplace_back(image_.thread_variables + each.offset, each.bytes);
    shared_.emplace_back(dynamic_shared(), task.shared_bytes);
    for (size_t i = 0; i + 1 < shared_.size(); ++i) {
      saved_at_.push_back(saved_bytes_);
      saved_bytes_ += (shared_[i].second + apart) / apart * apart + apart;
    }
    own_cluster_.blocks = {this};
    own_cluster_.threads = lanes_.size();
  }
  ~Block() { dynamic_shared_.drop(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs all threads of one block to their end; throws what stopped one of them.
  void run(uint64_t number) {
    start(number);
    while (turn() != Turn::ended) continue;
  }

  // Runs the threads until they have ended, wait for the grid, or some only let others go first.
  Turn turn() {
    while (alive_ > 0) {
      bool paused = false;
      for (size_t i = warps_.size(); i > 0; --i) {
        std::swap(warps_[i - 1], warps_[order_.below(static_cast<uint32_t>(i))]);
        if (run_warp(warps_[i - 1], order_)) paused = true;
      }
      if (alive_ == 0) break;
      if (paused) {
        check_waits();
        return Turn::gives_way;
      }
      check_all_at_barrier(lanes_, emulator_options().may_return_early, task_.where);
      if (lanes_that_are(LaneState::at_grid) > 0) return Turn::waits_for_grid;
      release_barrier();
    }
    check_loads_have_come();
    check_registers();
    check_wgmmas_are_whole();
    checker_.block_ends();
    return Turn::ended;
  }
  bool has_ended() const { return alive_ == 0; }

  // ---- Clusters ----
  // The block is the one of this rank from now on; all of them exist, and none has started.
  void joins(Cluster& cluster, int rank) {
    cluster_ = &cluster;
    rank_ = rank;
    saved_.resize(saved_bytes_ / apart);
    checker_.joins(cluster.order, seen_at());
    for (Block* const other : cluster.blocks) {
      if (other == this) continue;
      other->saved_.resize(saved_bytes_ / apart);
      checker_.sees(other->checker_, other->seen_at());
    }
  }
  Cluster& cluster() { return *cluster_; }
  int rank() const { return rank_; }
  // Where this block sees what a block of the cluster has at the place of `mine`; null if that is
  // no shared memory. Static memory of a block that has no turn lies where it is saved. A program
  // without a symbol table does not know its arrays, and has no clusters.
  std::byte* seen_in(Block& other, std::byte* mine) {
    for (size_t i = 0; i < shared_.size(); ++i)
      if (mine >= shared_[i].first && mine < shared_[i].first + shared_[i].second)
        return &other == this ? mine : other.place_for_others(i) + (mine - shared_[i].first);
    return knows_arrays(task_) ? nullptr : mine;
  }
  // The other way round: where this block has what it sees there; null if it is not that block's.
  std::byte* own_of(Block& other, const std::byte* seen) {
    for (size_t i = 0; i < shared_.size(); ++i) {
      const std::byte* const first = &other == this ? shared_[i].first : other.place_for_others(i);
      if (seen >= first && seen < first + shared_[i].second)
        return shared_[i].first + (seen - first);
    }
    return nullptr;
  }
  // The address by which that block knows it.
  std::byte* known_in(const Block& other, std::byte* mine) const {
    const auto offset = static_cast<size_t>(mine - dynamic_shared());
    return offset < task_.shared_bytes ? other.dynamic_shared() + offset : mine;
  }

  // Prepares the threads of a block for their first turn.
  void start(uint64_t number) {
    checker_.block_starts(number);
    if (cluster_ == &own_cluster_) own_cluster_.starts();
    active_lists.clear();
    mbarriers_.clear();
    wgmmas_.clear();
    order_ = Shuffler(task_.seed, number);
    number_ = number;
    for (const auto& [array, bytes] : shared_)
      std::memset(array, 0xff, bytes);  // NaN in every float format
    alive_ = threads();
    for (int i = 0; i < alive_; ++i) {
      Lane& lane = lanes_[static_cast<size_t>(i)];
      lane.block = this;
      lane.index = i;
      lane.in_warp = i % 32;
      lane.thread = coordinates(static_cast<uint64_t>(i), task_.size);
      lane.block_index = coordinates(number, task_.grid);
      lane.block_size = task_.size;
      lane.grid_size = task_.grid;
      lane.state = LaneState::ready;
      lane.copies.clear();
      lane.gave_way_at = Lane::never;
      lane.waits = false;
      lane.barrier = Where();
      lane.ticks = 0;
      lane.looked_at = 0;
      lane.copy_group = 0;
      lane.cluster_arrivals = lane.cluster_waits = 0;
      switch_.start(lane, enter);
    }
    for (size_t i = 0; i < warps_.size(); ++i) warps_[i] = static_cast<int>(i);
  }

  // All wait at a barrier: lets them go on.
  void release_barrier() {
    votes_ = voters_ = 0;
    checker_.all_met();
    for (Lane& lane : lanes_) {
      if (lane.state == LaneState::returned) continue;
      votes_ += lane.vote;
      ++voters_;
      lane.state = LaneState::ready;
    }
  }

  // How often a lane has come further than to let others go first.
  uint64_t progress() const { return progress_; }
  uint64_t number() const { return number_; }
  // A lane that waits for something in memory, or else for others.
  const Lane& waiting_lane() const {
    const auto in = [&](LaneState state) {
      return std::find_if(lanes_.begin(), lanes_.end(),
                          [=](const Lane& each) { return each.state == state; });
    };
    const auto spins = in(LaneState::ready), meets = in(LaneState::at_grid);
    return spins != lanes_.end() ? *spins : meets != lanes_.end() ? *meets : lanes_[0];
  }

  // The contents of static shared memory, which blocks that take turns have in one place.
  void save_static_shared() {
    saved_.resize(saved_bytes_ / apart);
    for (size_t i = 0; i + 1 < shared_.size(); ++i)
      std::memcpy(place_for_others(i), shared_[i].first, shared_[i].second);
    is_saved_ = true;
  }
  void restore_static_shared() {
    if (!is_saved_) return;
    for (size_t i = 0; i + 1 < shared_.size(); ++i)
      std::memcpy(shared_[i].first, place_for_others(i), shared_[i].second);
  }

  int threads() const { return static_cast<int>(lanes_.size()); }
  const Task& task() const { return task_; }
  Lane& lane(int index) { return lanes_[static_cast<size_t>(index)]; }
  std::byte* dynamic_shared() const { return dynamic_shared_.begin(); }

  AccessChecker& checker() { return checker_; }
  const Image& image() const { return image_; }
  Mbarriers& mbarriers() { return mbarriers_; }
  Wgmmas& wgmmas() { return wgmmas_; }
  // The key of a named barrier among the mbarriers.
  uint64_t* named_barrier(int number) { return named_barriers_ + number; }
  // Shared memory by numbers below 2^18, as descriptors have them: its arrays follow each other,
  // each as far behind a multiple of 1024 as it is; one that is too small for a swizzle of that
  // length, behind a smaller power of two.
  uint32_t address_of_shared(const std::byte* pointer) const {
    uint32_t found = 0;
    each_shared([&](uint32_t address, std::byte* begin, size_t bytes) {
      if (pointer >= begin && pointer < begin + bytes)
        found = address + static_cast<uint32_t>(pointer - begin);
    });
    return found;
  }
  // Null: nothing is there.
  std::byte* shared_at(uint32_t wanted) const {
    std::byte* found = nullptr;
    each_shared([&](uint32_t address, std::byte* begin, size_t bytes) {
      if (wanted >= address && wanted < address + bytes) found = begin + (wanted - address);
    });
    return found;
  }
  // A number below `bound`, as the seed has it.
  uint32_t draw(uint32_t bound) { return order_.below(bound); }

  // Waits for all threads of the block; returns how many of them brought a vote.
  int barrier(int vote, Where where) {
    Lane& self = *this_lane;
    self.vote = vote;
    self.barrier = where;
    suspend(LaneState::at_barrier, where);
    return votes_;
  }

  // The cluster's barrier is passed if all threads have arrived, or have returned and may.
  void meet_in_cluster() {
    uint64_t gone = 0;
    if (emulator_options().may_return_early)
      for (const Block* const block : cluster_->blocks)
        for (const Lane& each : block->lanes_)
          gone += each.state == LaneState::returned && each.cluster_arrivals <= cluster_->phase;
    if (cluster_->arrivals == 0 || cluster_->arrivals + gone < cluster_->threads) return;
    cluster_->arrivals = 0;
    ++cluster_->phase;
    checker_.cluster_met();
    for (Block* const each : cluster_->blocks) each->mbarriers_.changed();
  }
  // Waits for all threads of the grid.
  void grid_barrier(Where where) { suspend(LaneState::at_grid, where); }

  // Waits for the lanes of call.mask; when all have arrived, the call is carried out for all of
  // them.
  void warp_call(const WarpCall& call, Where where) {
    can_leave_ = false;
    this_lane->call = call;
    ++lanes_in_;
    suspend(LaneState::in_warp, where);
  }

  // Lets the other lanes go first.
  void pause() { leave(); }
  // This lane has come further than that.
  void comes_further(Lane& lane) {
    ++progress_;
    watchdog_.progress(lane);
    lane.gave_way_at = Lane::never;
    lane.waits = false;
  }
  // Threads that were at the last barrier.
  int voters() const { return voters_; }
  // A lane of another block has come further.
  void others_progress() { watchdog_.others_progress(); }

  // A tick of the CPU time, in the middle of whatever the lane does.
  YOTTA_UNSEEN static void tick(uintptr_t instruction) {
    Lane* const lane = this_lane;
    if (lane == nullptr) return;
    Block& block = *lane->block;
    if (block.watchdog_.late(*lane)) lane_is_late = true;
    if (!block.can_leave_ || !in_kernel() || !block.watchdog_.in_kernel_code(instruction)) return;
    const UncheckedScope unchecked;
    if (lane_is_late) block.give_up(instruction);
    if (takes_slices && block.watchdog_.ends_slice(*lane)) block.leave();
  }
  // What the lane did is the end of it.
  YOTTA_UNSEEN static void leave_for_fault(int signal, uintptr_t address, uintptr_t instruction) {
    if (this_lane == nullptr) return;
    const UncheckedScope unchecked;
    Block& block = *this_lane->block;
    const bool anywhere = signal == SIGABRT;  // which locks nothing
    if (!block.can_leave_ || !(anywhere || block.watchdog_.in_kernel_code(instruction)))
      return say_where(*this_lane);
    const auto stack = reinterpret_cast<uintptr_t>(block.switch_.bottom_of(*this_lane));
    const uintptr_t others = static_cast<uintptr_t>(this_lane->index) * stack_bytes;
    const uintptr_t reach = std::min<uintptr_t>(256 * 1024, others);  // of a large frame
    block.fault_ = {signal, address, instruction,
                    address < stack + page_bytes && address + reach >= stack};
    for (;;) block.leave();
  }
  // Patience is over, at this instruction.
  [[noreturn]] void give_up(uintptr_t instruction) {
    stuck_at_ = instruction;
    for (;;) leave();
  }

  // Ends the launch from code that must not throw; explain() is called outside of the kernel.
  [[noreturn]] void stop(std::function<std::string()> explain) {
    if (carrying_out_) {  // no lane runs
      this_lane = nullptr;
      fail_as<KernelError>(task_.where, "{}", explain());
    }
    explain_ = std::move(explain);
    for (;;) leave();
  }

 private:
  // Runs lanes in random order until all of the warp have returned or wait; true if some only let
  // others go first.
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
      checker_.warp_waits();
      if (lanes_in_ > 0 && finish_calls(warp)) moved = true;
      progress_ += moved;
    }
    return paused;
  }

  // Throws if all threads wait, and one of them for an mbarrier or for the wgmmas of other warps:
  // nothing can happen any more.
  void check_waits() {
    const bool all = std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& each) {
      return each.state != LaneState::ready || mbarriers_.waits(each.index);
    });
    const bool moved = std::exchange(progress_then_, progress_) != progress_;
    if (!mbarriers_.quiet(all && waiter() != nullptr && !moved)) return;
    const std::vector<Block*>& blocks = cluster_->blocks;
    if (std::all_of(blocks.begin(), blocks.end(), [](const Block* each) {
          return each->has_ended() || each->mbarriers_.is_quiet();
        }))
      fail_for_waits();
  }
  // A thread that waits, for an mbarrier if one does; null: none.
  const Lane* waiter() const {
    const Lane* found = nullptr;
    for (const Lane& each : lanes_)
      if (each.state == LaneState::ready && mbarriers_.waited(each.index) &&
          (found == nullptr || mbarriers_.waiters.at(found->index).barrier == nullptr))
        found = &each;
    return found;
  }
  // All blocks of the cluster wait: for an mbarrier, if one does, since that may be why others wait
  // for it.
  [[noreturn]] void fail_for_waits() {
    for (Block* const each : cluster_->blocks) {
      const Lane* const found = each->has_ended() ? nullptr : each->waiter();
      if (found != nullptr && each->mbarriers_.waiters.at(found->index).barrier != nullptr)
        each->fail_for_wait(*found);
    }
    fail_for_wait(*waiter());
  }
  [[noreturn]] void fail_for_wait(const Lane& lane) {
    const Mbarriers::Waiter& waiter = mbarriers_.waiters.at(lane.index);
    if (waiter.barrier == nullptr && !waiter.for_cluster) check_wgmmas_are_whole();
    const Mbarrier* const barrier = mbarriers_.find(waiter.barrier);
    fail_as<KernelError>(
        task_.where, "{}: block {}, thread {}: {}", at(waiter.where), text(lane.block_index),
        text(lane.thread),
        waiter.for_cluster ? explain_cluster_wait()
        : waiter.barrier == nullptr
            ? "waits in wgmma_wait_group() in vain: another warp of its group has not executed "
              "wgmma_commit_group() as often"
        : barrier == nullptr
            ? "waits for an mbarrier that has been invalidated: mbarrier_inval() comes "
              "after all waits"
            : explain_wait(*barrier, waiter.parity));
  }
  // Who has not come to the cluster's barrier.
  std::string explain_cluster_wait() const {
    for (const Block* const block : cluster_->blocks)
      for (const Lane& each : block->lanes_)
        if (each.cluster_arrivals == cluster_->phase &&
            !(each.state == LaneState::returned && emulator_options().may_return_early))
          return fmt::format(
              "waits in cluster_wait() in vain: {} of {} threads of the cluster have arrived, and "
              "block {}, thread {} {}. All threads of all its blocks execute cluster_arrive()",
              cluster_->arrivals, cluster_->threads, text(each.block_index), text(each.thread),
              doing(each));
    return {};
  }
  // Where other blocks see an array of shared memory: static ones where they are saved.
  std::byte* place_for_others(size_t array) {
    if (array + 1 == shared_.size()) return dynamic_shared();
    return reinterpret_cast<std::byte*>(saved_.data()) + saved_at_[array];
  }
  std::vector<uintptr_t> seen_at() {
    std::vector<uintptr_t> all;
    for (size_t i = 0; i < shared_.size(); ++i)
      all.push_back(reinterpret_cast<uintptr_t>(place_for_others(i)));
    return all;
  }
  // visit(address, begin, bytes) for each array of shared memory.
  template <class Visit>
  void each_shared(Visit visit) const {
    size_t end = 1024;  // 0 is no address
    for (const auto& [begin, bytes] : shared_) {
      const size_t period = std::clamp<size_t>(std::bit_ceil(bytes), 16, 1024);
      const size_t address = end + (reinterpret_cast<uintptr_t>(begin) - end) % period;
      visit(static_cast<uint32_t>(address), begin, bytes);
      end = address + bytes;
    }
  }
  void check_registers() const {
    if (const std::string why = wgmmas_.wrong_registers(static_cast<int>(warps_.size()));
        !why.empty())
      fail_as<KernelError>(task_.where, "block {}: {}", text(coordinates(number_, task_.grid)),
                           why);
  }
  void check_wgmmas_are_whole() const {
    const int warp = wgmmas_.missing();
    if (warp < 0) return;
    fail_as<KernelError>(
        task_.where,
        "{}: block {}: warp {} does not execute this wgmma, which others of its group "
        "do. All four warps, 128 threads, execute the same",
        at(wgmmas_.missed_by(warp).where), text(coordinates(number_, task_.grid)), warp);
  }
  // A thread returns: its sums must be finished.
  void finish_wgmmas(const Lane& lane) {
    const auto found = wgmmas_.warps.find(lane.index / 32);
    if (found == wgmmas_.warps.end() || found->second.at_work.empty()) return;
    fail_as<KernelError>(task_.where,
                         "{}: block {}, thread {}: returns while this wgmma is at work. "
                         "wgmma_commit_group() and wgmma_wait_group<0>() come first",
                         at(found->second.at_work[0].where), text(lane.block_index),
                         text(lane.thread));
  }
  void check_loads_have_come() const {
    if (mbarriers_.loads.empty()) return;
    fail_as<KernelError>(
        task_.where,
        "{}: block {}: the block ends while this bulk copy may still be on its way "
        "to shared memory. Let a thread wait for its mbarrier first",
        at(mbarriers_.loads[0].where), text(coordinates(number_, task_.grid)));
  }
  // A thread returns: its stores must have read shared memory, which is the next block's then.
  void finish_stores(const Lane& lane) {
    const auto found = mbarriers_.stores.find(lane.index);
    if (found == mbarriers_.stores.end()) return;
    if (const auto& copies = found->second.copies; !copies.empty())
      fail_as<KernelError>(
          task_.where,
          "{}: block {}, thread {}: returns while this bulk copy may still read shared memory. "
          "Commit it with cp_async_bulk_commit_group() and wait with "
          "cp_async_bulk_wait_group_read<0>()",
          at(copies[0].where), text(lane.block_index), text(lane.thread));
    for (const BulkCopy& copy : found->second.may_write)
      checker_.bulk_written(copy.pieces, copy.time);
  }

  int lanes_that_are(LaneState state) const {
    return static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(),
                                          [=](const Lane& each) { return each.state == state; }));
  }
  // The lanes of a warp in some state, as a mask.
  uint32_t lanes_that_are(LaneState state, int warp) const {
    uint32_t mask = 0;
    for (int i = 32 * warp; i < std::min(32 * warp + 32, threads()); ++i)
      if (lanes_[static_cast<size_t>(i)].state == state) mask |= 1u << (i % 32);
    return mask;
  }

  // Carries out the calls of this warp at which all lanes that have not returned have arrived.
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
    const CarryingOut scope(*this, first);
    first.call.run(mine);
  }
  // Meanwhile this lane stands for its warp, though none runs.
  class CarryingOut {
   public:
    CarryingOut(Block& block, Lane& first) : block_(block) {
      this_lane = &first;
      block_.carrying_out_ = true;
    }
    ~CarryingOut() {
      block_.carrying_out_ = false;
      this_lane = nullptr;
    }
    CarryingOut(const CarryingOut&) = delete;
    CarryingOut& operator=(const CarryingOut&) = delete;

   private:
    Block& block_;
  };

  // Stops the lane that runs until its state is `ready` again.
  void suspend(LaneState state, Where where) {
    can_leave_ = false;
    Lane& self = *this_lane;
    self.where = where;
    self.state = state;
    leave();
  }

  void resume(Lane& lane) {
    lane_is_late = false;
    this_lane = &lane;
    switch_.to_lane(lane);
    this_lane = nullptr;
    if (lane.state == LaneState::returned) {
      --alive_;
      meet_in_cluster();
    }
    if (stuck_at_ != 0) fail_for_patience(lane);
    if (fault_.signal != 0) fail_for_fault(lane);
    if (checker_.two_values())
      fail_as<KernelError>(task_.where, "{}", checker_.explain_two_values());
    if (lane.state != LaneState::ready) comes_further(lane);
    if (explain_) fail_as<KernelError>(task_.where, "{}", explain_());
    if (error_) std::rethrow_exception(error_);
  }
  // "kernel.cpp:17", where debug information has it.
  std::string line_of(uintptr_t instruction) {
    const Line line = checker_.line_of(image_, instruction);
    return line.number > 0 ? line.text() : std::string();
  }
  [[noreturn]] void fail_for_fault(const Lane& lane) {
    const std::string line = line_of(fault_.instruction);
    fail_as<KernelError>(task_.where, "{}kernel {}, block {}, thread {}: {}",
                         line.empty() ? "" : line + ": ", kernel_name(image_, task_.kernel),
                         text(lane.block_index), text(lane.thread), explain(fault_));
  }
  // On stderr, from a signal's handler.
  static void say_where(const Lane& lane) {
    char text[120];
    const auto [x, y, z] = lane.block_index;
    const int length = std::snprintf(
        text, sizeof text, "a kernel has failed: block (%u, %u, %u), thread (%u, %u, %u)\n", x, y,
        z, lane.thread.x, lane.thread.y, lane.thread.z);
    static_cast<void>(::write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0);
  }
  [[noreturn]] void fail_for_patience(const Lane& lane) {
    const bool waits_there = lane.gave_way_at != Lane::never &&
                             lane.ticks - lane.gave_way_at <= 1 && lane.where.line() > 0;
    const std::string where = waits_there ? at(lane.where) : line_of(stuck_at_);
    fail_for_loop(lane, where, kernel_name(image_, task_.kernel), watchdog_.most(), task_.where);
  }
  // No tick may come between, since it would leave once more.
  void leave() {
    can_leave_ = false;
    switch_.to_scheduler(*this_lane);
    can_leave_ = true;
  }

  YOTTA_UNSEEN static void enter(boost::context::detail::transfer_t from) {
    Lane& self = *static_cast<Lane*>(from.data);
    Block& block = *self.block;
    block.switch_.arrived(self, from);
    try {
      block.can_leave_ = true;
      block.checker_.lane_starts();
      block.task_.call(block.task_.arguments);
      block.can_leave_ = false;
      AccessChecker::lane_ends();
      block.finish_stores(self);
      block.finish_wgmmas(self);
    } catch (...) {
      block.can_leave_ = false;
      AccessChecker::lane_ends();
      block.error_ = std::current_exception();
    }
    self.state = LaneState::returned;
    for (;;) block.leave();
  }

  const Task& task_;
  GuardedPages dynamic_shared_;
  std::vector<std::pair<std::byte*, size_t>> shared_;  // all of it, this OS thread's
  std::vector<Lane> lanes_;
  AccessChecker checker_;
  std::vector<int> warps_;  // in the order in which they run
  Shuffler order_{0, 0};
  Mbarriers mbarriers_;
  Wgmmas wgmmas_;
  uint64_t named_barriers_[16] = {};
  uint64_t number_ = 0, progress_ = 0, progress_then_ = 0;
  // Static shared memory, while another block has its place: its arrays, apart from each other.
  static constexpr size_t apart = 128;
  struct alignas(apart) Part {
    std::byte bytes[apart];
  };
  std::vector<Part> saved_;
  std::vector<size_t> saved_at_;
  size_t saved_bytes_ = 0;
  bool is_saved_ = false;
  Cluster own_cluster_;  // of this block alone
  Cluster* cluster_ = &own_cluster_;
  int rank_ = 0;
  int alive_ = 0, votes_ = 0, voters_ = 0;
  volatile bool can_leave_ = false;  // the lane that runs, in the middle of what it does
  int lanes_in_ = 0;                 // lanes in an instruction of their warp
  bool carrying_out_ = false;        // one of those, outside of any lane
  Image image_;
  Watchdog watchdog_;
  uintptr_t stuck_at_ = 0;  // where a lane lost its turn
  LaneFault fault_;
  Switch switch_;
  std::function<std::string()> explain_;
  std::exception_ptr error_;
};

#if defined(YOTTA_CHECKED)
YOTTA_INLINE void stop_lane(std::function<std::string()> explain) {
  this_lane->block->stop(std::move(explain));
}
YOTTA_INLINE Where barrier_of(int lane) {
  const Lane& other = this_lane->block->lane(lane);
  return other.state == LaneState::at_barrier ? other.barrier : Where();
}
YOTTA_INLINE void pause_lane() {
  const UncheckedScope unchecked;
  this_lane->block->pause();
}
YOTTA_INLINE void give_up_lane(const void* at) {
  const UncheckedScope unchecked;
  this_lane->block->give_up(reinterpret_cast<uintptr_t>(at) - 1);
}
#endif

inline constexpr size_t most_shared_bytes = 227 * 1024;  // static and dynamic together
inline constexpr size_t most_static_bytes = 48 * 1024;

// The static arrays of a launch's kernel.
inline std::vector<SharedArray> arrays_of(const Task& task) {
  const Image image = image_of(task.kernel);
  return SharedArrays::of(image).of_kernel(image, task.kernel);
}

inline constexpr uint64_t most_in_cluster = 8;

// What is wrong with the clusters of a launch; empty if nothing is.
inline std::string refused_cluster(const Task& task) {
  const dim3 cluster = task.cluster, grid = task.grid;
  if (count_of(cluster) == 0 || count_of(cluster) > most_in_cluster)
    return fmt::format(
        "a cluster of {} has {} blocks; every GPU of compute capability 9.0 runs 1 to {} (16 is "
        "not portable, and left out here)",
        text(cluster), count_of(cluster), most_in_cluster);
  if (grid.x % cluster.x + grid.y % cluster.y + grid.z % cluster.z > 0)
    return fmt::format(
        "a grid of {} blocks in clusters of {}: the grid must be a multiple of the cluster along "
        "each dimension",
        text(grid), text(cluster));
  return {};
}

// Throws unless a GPU could run this launch.
inline void check_sizes(const Task& task) {
  const auto refuse_launch = [&](const std::string& why) {
    fail_as<KernelError>(task.where, "{}", why);
  };
  const dim3 block = task.size, grid = task.grid;
  const uint64_t threads = count_of(block);
  if (threads == 0 || threads > most_threads || block.z > 64)
    refuse_launch(fmt::format(
        "a block of {} has {} threads; a GPU allows 1 to {}, and 64 along z. Use smaller blocks "
        "and more of them",
        text(block), threads, most_threads));
  if (count_of(grid) == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    refuse_launch(fmt::format(
        "a grid of {} blocks; a GPU allows at least 1 and at most (2147483647, 65535, 65535). "
        "Launch nothing when there is nothing to do, and put the longest side in x",
        text(grid)));
  if (const std::string why = refused_cluster(task); !why.empty()) refuse_launch(why);
  size_t in_arrays = 0;
  std::string arrays;
  for (const SharedArray& each : arrays_of(task)) {
    in_arrays += each.bytes;
    arrays += fmt::format("{}{} {}", arrays.empty() ? "" : ", ", each.name, each.bytes);
  }
  if (in_arrays > most_static_bytes)
    refuse_launch(
        fmt::format("too much shared memory: the kernel's __shared__ arrays take {} bytes ({}), "
                    "and {} (48 KiB) may be "
                    "static. Use smaller tiles, or dynamic_shared<T>() for more",
                    in_arrays, arrays, most_static_bytes));
  if (in_arrays + task.shared_bytes > most_shared_bytes)
    refuse_launch(fmt::format(
        "too much shared memory: {} bytes per block were asked for, {} of them dynamic; "
        "an H100 has {} (227 KiB). "
        "Use smaller tiles or fewer stages",
        in_arrays + task.shared_bytes, task.shared_bytes, most_shared_bytes));
}

// The stacks of one OS thread for the time of a launch.
class BorrowedStacks {
 public:
  explicit BorrowedStacks(int lanes = most_threads, bool guarded = true)
      : stacks_(Stacks::take(lanes, guarded)) {}
  ~BorrowedStacks() { Stacks::give_back(stacks_); }
  BorrowedStacks(const BorrowedStacks&) = delete;
  BorrowedStacks& operator=(const BorrowedStacks&) = delete;
  Stacks& operator*() const { return *stacks_; }

 private:
  Stacks* stacks_;
};

inline uint64_t blocks_of(const Task& task) { return count_of(task.grid); }

// Blocks that are there at once and take turns: as many as fit, or those of one cluster.
class ResidentBlocks {
 public:
  explicit ResidentBlocks(const Task& task)
      : task_(task),
        needs_(needs_of(task.kernel, task.size, task.shared_bytes)),
        sm_(emulator_options().chip),
        fit_(static_cast<uint64_t>(occupancy(sm_, needs_).blocks()) *
             static_cast<uint64_t>(sm_.count)) {
    refuse_what_cannot_be();
  }

  void run() {
    static constexpr CpuTicks::Tick tick = Block::tick;
    const CpuTicks ticks(&tick);
    const LaneFaults faults(Block::leave_for_fault);
    const uint64_t places = count_of_places();
    const bool guarded = places * static_cast<uint64_t>(needs_.threads) <= most_guarded;
    for (uint64_t i = 0; i < places; ++i) {
      stacks_.push_back(std::make_unique<BorrowedStacks>(needs_.threads, guarded));
      blocks_.push_back(std::make_unique<Block>(task_, **stacks_.back(), launch_));
      if (cluster_ > 1) continue;
      give_turn(*blocks_.back());
      blocks_.back()->start(next_++);
    }
    if (cluster_ > 1) start_clusters();
    while (ended_ < blocks_of(task_)) round();
  }

 private:
  static constexpr uint64_t most_guarded = 8192;  // threads whose stacks have guard pages
  static constexpr int most_idle = 1 << 17;       // rounds in which no thread comes further

  uint64_t count_of_places() const {
    const uint64_t all = std::min(fit_, blocks_of(task_));
    const bool one_by_one = cluster_ > 1 && !task_.cooperative && !task_.blocks_at_once;
    return one_by_one ? cluster_ : all / cluster_ * cluster_;
  }
  // The blocks that are there become clusters.
  void start_clusters() {
    for (size_t first = 0; first < blocks_.size(); first += cluster_) {
      Cluster& cluster = clusters_.emplace_back();
      cluster.order.of_many = true;
      for (size_t i = first; i < first + cluster_; ++i) cluster.blocks.push_back(blocks_[i].get());
      cluster.threads = cluster_ * count_of(task_.size);
      for (size_t i = 0; i < cluster_; ++i) cluster.blocks[i]->joins(cluster, static_cast<int>(i));
      start(cluster);
    }
  }
  void start(Cluster& cluster) {
    cluster.starts();
    const uint64_t number = next_ / cluster_;
    for (size_t i = 0; i < cluster_; ++i) {
      give_turn(*cluster.blocks[i]);
      cluster.blocks[i]->start(block_in_cluster(task_, number, i));
    }
    const uint32_t time = launch_.cluster_starts(cluster.order);
    for (Block* const each : cluster.blocks) each->checker().cluster_starts(time);
    next_ += cluster_;
  }

  std::string fits() const {
    return fmt::format("{} blocks fit on {} at once: {}", fit_, sm_.chip,
                       occupancy_report(sm_, needs_));
  }

  void refuse_what_cannot_be() const {
    if (!knows_arrays(task_))
      fail_as<KernelError>(task_.where,
                           "blocks at once need to know the kernel's __shared__ arrays, and this "
                           "program has no symbol table. Build it without -s and strip");
    if (fit_ < cluster_)
      fail_as<KernelError>(task_.where,
                           "a cluster has {} blocks, which must be there together. {}. Use smaller "
                           "clusters, or less shared memory a block",
                           cluster_, fits());
    if (!task_.cooperative || blocks_of(task_) <= fit_) return;
    fail_as<KernelError>(
        task_.where,
        "{}: the grid has {} blocks. {}. Launch no more than fit, and let each block do several "
        "parts of the work",
        cudaGetErrorString(cudaErrorCooperativeLaunchTooLarge), blocks_of(task_), fits());
  }

  void give_turn(Block& block) {
    if (current_ == &block) return;
    if (current_ != nullptr) current_->save_static_shared();
    current_ = &block;
    current_->restore_static_shared();
  }

  // A turn for each block, in random order.
  void round() {
    const uint64_t before = progress();
    for (size_t i = blocks_.size(); i > 0; --i)
      std::swap(blocks_[i - 1], blocks_[order_.below(static_cast<uint32_t>(i))]);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      Block& block = *blocks_[i];
      if (block.has_ended() || waits_.count(&block) > 0) continue;
      give_turn(block);
      const Block::Turn turn = block.turn();
      if (turn == Block::Turn::waits_for_grid) waits_.insert(&block);
      if (turn == Block::Turn::ended && cluster_ > 1)
        end_in_cluster(block.cluster());
      else if (turn == Block::Turn::ended)
        end(i--);
    }
    if (!waits_.empty() && waits_.size() == count_of_living()) return grid_meets();
    idle_ = progress() == before ? idle_ + 1 : 0;
    if (idle_ > most_idle) fail_for_deadlock();
    if (idle_ > 0) return;
    for (const auto& block : blocks_) block->others_progress();
  }

  // Its place goes to the next block that waits for one.
  void end(size_t at) {
    ++ended_;
    if (next_ < blocks_of(task_)) return blocks_[at]->start(next_++);
    ended_progress_ += blocks_[at]->progress();
    if (current_ == blocks_[at].get()) current_ = nullptr;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // A block has ended. The next cluster begins when all of this one have.
  void end_in_cluster(Cluster& cluster) {
    ++ended_;
    const bool all = std::all_of(cluster.blocks.begin(), cluster.blocks.end(),
                                 [](const Block* each) { return each->has_ended(); });
    if (all && next_ < blocks_of(task_)) start(cluster);
  }
  size_t count_of_living() const {
    return static_cast<size_t>(std::count_if(blocks_.begin(), blocks_.end(),
                                             [](const auto& each) { return !each->has_ended(); }));
  }

  void grid_meets() {
    if (ended_ > 0) fail_for_deadlock();
    launch_.grid_met();
    waits_.clear();
    for (const auto& block : blocks_) {
      give_turn(*block);
      block->release_barrier();
    }
  }

  uint64_t progress() const {
    uint64_t sum = ended_progress_ + ended_;
    for (const auto& each : blocks_) sum += each->progress();
    return sum;
  }

  [[noreturn]] void fail_for_deadlock() const {
    const Lane& lane = blocks_[0]->waiting_lane();
    const uint64_t missing = blocks_of(task_) - next_;
    const std::string others =
        missing > 0
            ? fmt::format("{} of {} blocks have not started, and cannot before others end. {}",
                          missing, blocks_of(task_), fits())
            : fmt::format("all {} blocks have started, and {} have ended", blocks_of(task_),
                          ended_);
    fail_as<KernelError>(
        task_.where,
        "{}: deadlock between blocks: block {}, thread {}: {}, and no thread of any block comes "
        "further. {}. Every block that others wait for must be there and set its flag; a grid "
        "meets only if no block has returned",
        lane.where.line() > 0 ? at(lane.where) : "a cuda::atomic", text(lane.block_index),
        text(lane.thread),
        lane.state == LaneState::ready ? "waits for something in memory" : doing(lane), others);
  }

  const Task& task_;
  const uint64_t cluster_ = count_of(task_.cluster);  // blocks in one
  BlockNeeds needs_;
  Multiprocessors sm_;
  uint64_t fit_, next_ = 0, ended_ = 0, ended_progress_ = 0;
  int idle_ = 0;
  Shuffler order_{task_.seed, blocks_of(task_)};
  CheckedLaunch launch_;
  std::vector<std::unique_ptr<BorrowedStacks>> stacks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::deque<Cluster> clusters_;
  std::set<const Block*> waits_;  // for the grid
  Block* current_ = nullptr;      // whose static shared memory is in place
};

// Runs all blocks; throws the error of the first block that failed.
inline void run_blocks(const Task& task) {
  const uint64_t blocks = blocks_of(task);
  std::atomic<uint64_t> next = 0, failed = blocks;
  std::exception_ptr error;
  std::mutex mutex;
  CheckedLaunch launch;
  const auto work = [&](int) {
    static constexpr CpuTicks::Tick tick = Block::tick;
    uint64_t number = blocks;
    try {
      const CpuTicks ticks(&tick);
      const LaneFaults faults(Block::leave_for_fault);
      BorrowedStacks stacks;
      Block block(task, *stacks, launch);
      while ((number = next++) < failed) block.run(number);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (number < failed) {
        failed = number;
        error = std::current_exception();
      }
    }
  };
#if defined(YOTTA_CHECKED)
  const int threads = 1;  // so that checks find the same fault every time
#else
  const int wanted = emulator_options().threads;
#if defined(__CLANG_REPL__)  // a helper that is awake while clang-repl ends runs code that is gone
  const int threads = std::max(1, wanted);
#else
  const int threads = wanted > 0 ? wanted : context().threads;
#endif
#endif
  ThreadPool::instance().run(static_cast<int>(std::min<uint64_t>(threads, blocks)), work);
  if (error) std::rethrow_exception(error);
}

#if defined(YOTTA_CHECKED)
// What the launch that lives as long as this has touched, as its shadows say.
class FootprintOf {
 public:
  explicit FootprintOf(Footprint* out) : out_(out), begin_(access_time()) {}
  ~FootprintOf() {
    if (out_ == nullptr) return;
    for (const auto& [memory, allocation] : DeviceMemory::instance().with_shadows())
      allocation.shadow->each_cell([&](size_t offset, size_t bytes, const Cell& cell) {
        const uintptr_t at = reinterpret_cast<uintptr_t>(memory) + offset;
        const MemoryUse change =
            (cell.write.who & atomic_mark) != 0 ? MemoryUse::atomic : MemoryUse::write;
        if (cell.read.time > begin_) out_->add({at, bytes, MemoryUse::read, cell.read.site});
        if (cell.write.time > begin_) out_->add({at, bytes, change, cell.write.site});
      });
  }
  FootprintOf(const FootprintOf&) = delete;
  FootprintOf& operator=(const FootprintOf&) = delete;

 private:
  Footprint* out_;
  uint32_t begin_;
};
#else
struct FootprintOf {
  explicit FootprintOf(Footprint*) {}
};
#endif

inline void run_all_blocks(const Task& task) {
  check_sizes(task);
  if (task.cooperative || task.blocks_at_once || count_of(task.cluster) > 1)
    return ResidentBlocks(task).run();
  run_blocks(task);
}
YOTTA_INLINE void run_kernel(const Task& task) {
  const FootprintOf noted(task.footprint);
#if !defined(YOTTA_CHECKED)
  DeviceMemory::instance().all_written();
#endif
  try {
    run_all_blocks(task);
  } catch (const OwnCluster& own) {
    Task again = task;
    again.cluster = own.size;
    run_all_blocks(again);
  }
}

YOTTA_INLINE BlockNeeds needs_of(const void* kernel, dim3 block, size_t shared_bytes) {
  const Image image = image_of(kernel);
  for (const SharedArray& each : SharedArrays::of(image).of_kernel(image, kernel))
    shared_bytes += each.bytes;
  return {static_cast<int>(block.x * block.y * block.z), shared_bytes};
}

// A launch as an operation of a stream.
inline StreamOperation operation_of(const Task& task) {
  const std::shared_ptr<const void> arguments(task.keep.copy(task.arguments), task.keep.drop);
  StreamOperation operation{.word = "kernel", .where = task.where};
  task.keep.pointers(arguments.get(), operation.pointers);
  operation.run = [task, arguments](StreamOperation& self) {
    Task own = task;
    own.arguments = arguments.get();
    own.footprint = &self.footprint;
    run_kernel(own);
  };
#if defined(YOTTA_CHECKED)
  operation.in_issue_order = true;
  operation.line_of = [image = image_of(task.kernel)](uint32_t site) {
    return Sites(image).line(site).text();
  };
#endif
  return operation;
}

inline void check_options(const EmulatorOptions& options, Where where) {
  check_option(where, "EmulatorOptions::threads", options, &EmulatorOptions::threads, zero_or_more);
  check_option(where, "EmulatorOptions::patience", options, &EmulatorOptions::patience,
               above_zero_or_endless);
  check_number(where, "EmulatorOptions::chip.count", options.chip.count, one_or_more,
               "; an H100 has 132 multiprocessors");
}

YOTTA_INLINE void launch_on(cudaStream_t stream, const Task& task) {
  check_options(emulator_options(), task.where);
  StreamQueue& streams = StreamQueue::instance();
  ++streams.launches;
  if (stream == nullptr && !streams.in_use()) return run_kernel(task);
  check_sizes(task);
  streams.seed(task.seed);
  const cudaError_t code = streams.submit(stream, operation_of(task));
  if (code != cudaSuccess) fail(task.where, "CUDA: {}", cudaGetErrorString(code));
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
