// Shadow memory and order: what is remembered of accesses to shared and global memory, which of two
// accesses to the same place happen in a known order, and which race.
//
//     memory   | x[0]  | x[1]  | x[2]  | ...
//     shadow   | write: time 17, thread 3, line ..  read: time 18, thread 5  other read: thread 9 |
//
// For every four bytes, the shadow says who wrote and who read them last, and when. Two readers are
// remembered, the last one and one that has least to do with it: of another block, or else of
// another warp. A cell whose write has time 0 was never written:
// reading it is reading garbage.
//
//     thread 0   write x ─┐                     same thread                                ordered
//     ──────────────────── __syncthreads()      a barrier between them                     ordered
//     thread 1            └─ read x             same warp, a __syncwarp() of both between  ordered
//
// Everything else within a block races if one of the two is a write, unless both are atomic or
// volatile, or both write the same value (access_checker.hpp). Blocks are not ordered at all,
// though here they run one after the other. What fences and atomic operations order, in a block and
// between blocks, is in releases.hpp. In a cooperative launch this_grid().sync() orders what comes
// before it and what comes after it.
//
// Blocks of a cluster may touch each other's shared memory. Their barrier orders what was before
// its arrivals and what follows its waits, as an mbarrier does at which threads of several blocks
// arrive. So does a block's end: what others do in its shared memory must be ordered before it.
//
// An mbarrier orders what was before its arrivals and what follows in a thread that has seen the
// phase complete. A bulk copy is nobody's access: its bytes are on their way for each thread that
// has not seen the phase in which they landed. What it reads must have passed a fence of the
// threads' memory accesses and the copies' (fence_proxy_async).
//
// Time is a counter that moves at barriers and at __syncwarp(), and never stops: the shadow of
// global memory outlives a launch.
//
// Cost: 36 bytes per cell, taken from the system only where memory is touched. Cells cover 4 bytes
// until an access is smaller or crosses cells (half, char); then the array's cells are split to 2
// bytes or 1.
// References: Serebryany and Iskhodzhanov, "ThreadSanitizer: data race detection in practice", WBIA
// 2009; barriers make it simpler here: intervals instead of vector clocks. CUDA C++ Programming
// Guide, "Memory Fence Functions" (its example is the sum over blocks).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yotta/device/emulator/lanes.hpp"
#include "yotta/device/emulator/releases.hpp"
#include "yotta/device/emulator/task.hpp"

namespace yotta {

// One access.
struct Touch {
  uint32_t time = 0;  // 0: there was none
  uint32_t who = 0;   // thread_number() below
  uint32_t site = 0;  // the line: debug_info.hpp
};

struct Cell {
  Touch write, read, other_read;  // the last; readers are two different threads
};

inline constexpr uint32_t host_time = 1;  // of what the host wrote; kernels come later
inline constexpr uint32_t host_site = 0;

// The cells of one stretch of memory.
class Shadow {
 public:
  explicit Shadow(size_t bytes) : bytes_(bytes), cells_(allocate(count())) {}
  ~Shadow() { std::free(cells_); }
  Shadow(Shadow&& other) noexcept
      : bytes_(other.bytes_), shift_(other.shift_), cells_(std::exchange(other.cells_, nullptr)) {}
  Shadow& operator=(Shadow&&) = delete;

  struct Cells {
    Cell *first, *last;
    YOTTA_UNSEEN Cell* begin() const { return first; }
    YOTTA_UNSEEN Cell* end() const { return last; }
  };
  // The cells of [offset, offset + bytes), which lies inside.
  YOTTA_UNSEEN Cells cells(size_t offset, size_t bytes) {
    const size_t mask = (size_t{1} << shift_) - 1;
    if (((offset | bytes) & mask) != 0) split(offset | bytes);
    return {cells_ + (offset >> shift_), cells_ + ((offset + bytes) >> shift_)};
  }

  // How many make four bytes.
  YOTTA_UNSEEN size_t cells_of_word() const { return size_t{4} >> shift_; }
  // visit(offset, bytes, cell) for every cell.
  template <class Visit>
  void each_cell(Visit visit) const {
    const size_t width = size_t{1} << shift_;
    for (size_t at = 0; at < bytes_; at += width)
      visit(at, std::min(width, bytes_ - at), cells_[at >> shift_]);
  }

  // The host wrote these bytes.
  void write_by_host(size_t offset, size_t bytes) {
    for (Cell& cell : cells(offset, bytes)) cell = {{host_time, 0, host_site}, {}, {}};
  }

 private:
  size_t count() const { return (bytes_ >> shift_) + 1; }
  static Cell* allocate(size_t cells) {
    void* memory =
        std::calloc(cells, sizeof(Cell));  // of pages that the system gives when they are touched
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Cell*>(memory);
  }
  // Finer cells, so that one begins or ends where this offset and size do.
  void split(size_t offset_and_size) {
    const int finer = std::countr_zero(offset_and_size);
    const size_t parts = size_t{1} << (shift_ - finer), cells = count();
    Cell* const old = cells_;
    shift_ = finer;
    cells_ = allocate(count() + parts);
    for (size_t i = 0; i < cells; ++i)
      if (old[i].write.time != 0 || old[i].read.time != 0)
        std::fill_n(cells_ + i * parts, parts, old[i]);
    std::free(old);
  }

  size_t bytes_;
  int shift_ = 2;  // a cell covers 2^shift bytes
  Cell* cells_;
};

inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// Numbers of threads in a Touch: the block's number, the thread's in it, and two marks.
inline constexpr uint32_t atomic_mark = 0x80000000u;     // an atomic operation
inline constexpr uint32_t in_flight_mark = 0x40000000u;  // a cp.async that has not been waited for
YOTTA_UNSEEN constexpr uint32_t thread_number(uint64_t block, int thread) {
  return static_cast<uint32_t>(block % (1 << 20)) << 10 | static_cast<uint32_t>(thread);
}
YOTTA_UNSEEN constexpr uint32_t block_of(uint32_t who) { return who >> 10 & 0xfffff; }
YOTTA_UNSEEN constexpr uint32_t thread_of(uint32_t who) { return who & 1023; }

// A counter that only grows: every access from now on has a later time.
inline uint32_t& access_time() {
  static uint32_t now = host_time;
  return now;
}

// What the blocks of a launch share.
struct LaunchOrder {
  uint32_t begin = ++access_time();  // of the launch, or the last time that the grid has met
  ReleasesByAddress releases = {};
  std::deque<ReleasesByAddress> of_ended_blocks = {};  // which `releases` may refer to

  void all_met() { begin = ++access_time(); }
  // These are of a block or cluster that has ended.
  void keep(ReleasesByAddress& all) {
    if (!all.empty() && !releases.empty()) of_ended_blocks.push_back(std::move(all));
    all.clear();
  }
};

// Of a barrier, when its last phase completed.
struct Completed {
  size_t releases = 0;
  Acquired inherited = {};
};
// A bulk copy that completes on an mbarrier.
struct BulkLoad {
  const void* barrier = nullptr;
  Releases* releases = nullptr;  // on that mbarrier
  int parity = 0, swizzle = -1;
  size_t release = 0;  // by which it has landed; 0: it has not
};

// What the blocks of a cluster share.
struct ClusterOrder {
  ReleasesByAddress barrier = {};  // by 0: there is one
  Completed completed = {};
  std::unordered_map<uint32_t, BulkLoad> loads = {};  // by time
  bool of_many = false;                               // blocks

  void starts(LaunchOrder& launch) {
    launch.keep(barrier);
    completed = {};
    loads.clear();
  }
};

class Order {
 public:
  Order(LaunchOrder& launch, int threads)
      : launch_(launch),
        block_(launch.begin),
        interval_(launch.begin),
        now_(launch.begin),
        threads_(static_cast<size_t>(threads)) {}

  ~Order() { block_ends(); }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  void block_starts(uint64_t number) {
    number_ = number;
    block_ends();
    block_ = interval_ = now_ = ++access_time();
    ended_ = touched_ = false;
    acquired_.clear();
    for (auto& each : fenced_) each.clear();
    if (cluster_ == &own_cluster_) own_cluster_.starts(launch_);
    for (auto& each : proxy_fences_) each.clear();
    if (std::exchange(has_fences_, false))
      for (Thread& each : threads_) {
        each.fence[0] = each.fence[1] = {};
        each.acquired.clear();
      }
  }
  void all_met() {
    if (has_fences_) {
      keep_fences();
      share_acquired();
    }
    interval_ = now_ = ++access_time();
  }
  void lanes_met(int warp, uint32_t mask) {
    now_ = ++access_time();
    Thread together;
    each_of(warp, mask, [&](int lane, const Thread& thread) {
      for (int i = 0; i < 32; ++i) together.met[i] = std::max(together.met[i], thread.met[i]);
      acquire_also(together.acquired, thread.acquired);
      together.met[lane] = now_;
    });
    each_of(warp, mask, [&](int, Thread& thread) {
      std::copy_n(together.met, 32, thread.met);
      thread.acquired = together.acquired;
    });
  }
  void fence(int thread, FenceScope scope) {
    now_ = ++access_time();
    has_fences_ = true;
    Thread& self = threads_[static_cast<size_t>(thread)];
    self.fence[0] = {now_, interval_};
    std::copy_n(self.met, 32, self.fence[0].met);
    if (scope == FenceScope::device) self.fence[1] = self.fence[0];
  }
  // An atomic or volatile access: acquires what was released there, and releases.
  void meet(int thread, uintptr_t address) {
    const Thread& self = threads_[static_cast<size_t>(thread)];
    const auto meet_in = [&](ReleasesByAddress& all, const Fence& fence, FenceScope scope) {
      meet(thread, address, all, fence, fenced(scope));
    };
    if (has_fences_) meet_in(in_block_, of_block_only(self), FenceScope::block);
    if (has_fences_ || !launch_.releases.empty())
      meet_in(launch_.releases, self.fence[1], FenceScope::device);
  }

  // ---- mbarriers and bulk copies ----
  // A thread arrives at an mbarrier of the block with this order: it releases what it did before.
  void arrive(int thread, uintptr_t barrier, Order& owner) {
    release(thread, owner.mbarriers_[barrier]);
  }
  void arrive(int thread, uintptr_t barrier) { arrive(thread, barrier, *this); }
  // Its phase completes: whoever sees that acquires what was released until now.
  void complete(uintptr_t barrier) {
    const Releases& all = mbarriers_[barrier];
    completed_[barrier] = {all.count(), all.inherited()};
  }
  // A thread sees that a phase of this parity has completed.
  void pass(int thread, uintptr_t barrier, int parity) {
    acquire(thread, mbarriers_[barrier], completed_[barrier]);
    passed_[{barrier, thread}] = parity;
  }
  // A copy begins that will complete on this mbarrier of the block with this order, in a phase of
  // this parity; its time tells its bytes.
  void load_begins(uintptr_t barrier, int parity, int swizzle, Order& owner) {
    now_ = ++access_time();
    cluster_->loads[now_] = {reinterpret_cast<const void*>(barrier), &owner.mbarriers_[barrier],
                             parity, swizzle};
  }
  // What follows is later than all before it; returns the time.
  uint32_t moves_on() { return now_ = ++access_time(); }
  void load_lands(uint32_t time) {
    BulkLoad& load = cluster_->loads[time];
    load.releases->add({}, {});
    load.release = load.releases->count();
  }
  // Whether a thread knows that the copy which writes here has landed.
  bool has_landed(const Touch& write, uint32_t thread) const {
    const auto load = cluster_->loads.find(write.time);
    if (load == cluster_->loads.end() || load->second.release == 0) return false;
    const auto counts = [&](const Acquired& acquired) {
      const auto found = acquired.find(load->second.releases);
      return found != acquired.end() && found->second >= load->second.release;
    };
    return counts(threads_[thread].acquired) || counts(acquired_);
  }
  // The swizzle with which a copy has written here, in bytes; -1: it is no box of a tensor.
  int swizzle_of(const Touch& write) const {
    const auto load = cluster_->loads.find(write.time);
    return load == cluster_->loads.end() || (write.who & in_flight_mark) == 0
               ? -1
               : load->second.swizzle;
  }
  // What is known of a copy that completes on an mbarrier.
  struct Load {
    int parity = 0;   // of its phase
    int passed = -1;  // the parity of which the thread has last seen a phase complete; -1: none
  };
  // Nothing if the write is no such copy.
  std::optional<Load> load_of(const Touch& write, int thread) const {
    const auto load = cluster_->loads.find(write.time);
    if (load == cluster_->loads.end()) return {};
    const auto barrier = reinterpret_cast<uintptr_t>(load->second.barrier);
    const auto mine = mbarriers_.find(barrier);  // else it is one of another block
    const bool own = mine != mbarriers_.end() && &mine->second == load->second.releases;
    const auto passed = own ? passed_.find({barrier, thread}) : passed_.end();
    return Load{load->second.parity, passed == passed_.end() ? -1 : passed->second};
  }

  // ---- Clusters ----
  // The block is one of a cluster from now on.
  void joins(ClusterOrder& cluster) { cluster_ = &cluster; }
  // All its blocks start at this time, so that none takes what another does for older than itself.
  void cluster_starts(uint32_t time) { block_ = interval_ = now_ = time; }
  // A thread arrives at the cluster's barrier; all have; a thread has waited for that.
  void arrive_at_cluster(int thread) { release(thread, cluster_->barrier[0]); }
  void cluster_met() {
    const Releases& all = cluster_->barrier[0];
    cluster_->completed = {all.count(), all.inherited()};
  }
  void pass_cluster(int thread) { acquire(thread, cluster_->barrier[0], cluster_->completed); }
  // Another block of the cluster has touched this one's shared memory.
  void touched() { touched_ = true; }
  bool is_touched() const { return touched_; }
  void ends() { ended_ = true; }
  bool has_ended() const { return ended_; }
  // Whether an access by another block was before this one's end; `by_end` is ends_knowing().
  bool before_end(const Touch& other, const Acquired& by_end) const {
    return other.time < block_ || same_block(other, number_of(0)) || known(other, by_end);
  }
  // What any thread of the block has acquired.
  Acquired ends_knowing() const {
    Acquired all = acquired_;
    for (const Thread& each : threads_) acquire_also(all, each.acquired);
    return all;
  }

  void fence_proxy(int thread, ProxyFence kind) {
    now_ = ++access_time();
    Thread& self = threads_[static_cast<size_t>(thread)];
    ProxyFences& fences = proxy_fences_[static_cast<size_t>(kind)][thread];
    fences.times.push_back(now_);
    fences.interval = interval_;
    std::copy_n(self.met, 32, fences.met);
    fences.acquired = acquired_;
    acquire_also(fences.acquired, self.acquired);
  }
  // Whether a copy that this thread starts sees the write to shared memory of the block with the
  // order `owner`: a fence is between the two, of the thread that wrote to its own block's memory
  // or of this one.
  bool reaches_copies(const Touch& write, int thread, ProxyFence kind, const Order& owner) const {
    const auto& fences = owner.proxy_fences_[static_cast<size_t>(kind)];
    const auto writer = static_cast<int>(thread_of(write.who));
    const uint32_t me = number_of(thread);
    const auto of_writer = owner.in_this_block(write) ? fences.find(writer) : fences.end();
    if (of_writer != fences.end()) {
      const auto& times = of_writer->second.times;
      const auto next = std::upper_bound(times.begin(), times.end(), write.time);
      if (next != times.end() && !races({*next, owner.number_of(writer), 0}, me)) return true;
    }
    const auto& own = proxy_fences_[static_cast<size_t>(kind)];
    const auto mine = own.find(thread);
    return mine != own.end() && ordered_before(write, me, mine->second);
  }

  YOTTA_UNSEEN uint32_t now() const { return now_; }
  // Values in shared memory were written since the block started; what may race there happened
  // since the last barrier.
  YOTTA_UNSEEN uint32_t oldest_value(bool shared) const { return shared ? block_ : host_time; }
  YOTTA_UNSEEN uint32_t oldest_rival(bool shared) const {
    return shared ? interval_ : launch_.begin;
  }
  // Whether an access since oldest_rival() may race; in a cluster, one of another block since it
  // started.
  YOTTA_UNSEEN bool may_race(const Touch& other, uint32_t oldest) const {
    return other.time >= oldest || (cluster_->of_many && other.time >= block_ &&
                                    block_of(other.who) != block_of(number_of(0)));
  }
  YOTTA_UNSEEN uint32_t number_of(int thread) const { return thread_number(number_, thread); }
  YOTTA_UNSEEN uint64_t block() const { return number_; }
  YOTTA_UNSEEN bool in_this_block(const Touch& other) const {
    return same_block(other, number_of(0));
  }
  // In this block, and still on its way.
  YOTTA_UNSEEN bool in_flight(const Touch& other) const {
    return (other.who & in_flight_mark) != 0 && other.time >= block_;
  }
  // Whether it is this thread's. Numbers of blocks come again after 2^20.
  YOTTA_UNSEEN bool is_own(const Touch& other, uint32_t me) const {
    return other.who == me && other.time >= block_;
  }
  // How far another access is from one of `me`: 2 in another block, 1 in another warp, 0 in this
  // warp. What a barrier or the launch's beginning has ordered is 0 too.
  YOTTA_UNSEEN int distance(const Touch& other, uint32_t me) const {
    if (!same_block(other, me)) return other.time >= launch_.begin ? 2 : 0;
    return other.time >= interval_ && thread_of(other.who) / 32 != thread_of(me) / 32 ? 1 : 0;
  }

  // Whether another access, since oldest_rival(), and one that this thread makes now are unordered.
  bool races(const Touch& other, uint32_t me) const {
    if ((other.who & me & atomic_mark) != 0) return false;
    const Thread& self = threads_[thread_of(me)];
    if (same_block(other, me) && met_before(other, me, interval_, self.met)) return false;
    return !known(other, self.acquired) && !known(other, acquired_);
  }

 private:
  struct Fence {
    uint32_t time = 0, interval = 0;  // 0: there was none
    uint32_t met[32] = {};            // the thread's, at the fence
  };
  struct Thread {
    // Of each lane of its warp: what it did before this time is ordered. It need not be reset
    // between blocks, since times only grow.
    uint32_t met[32] = {};
    Fence fence[2];     // the last one, of the block and of the device
    Acquired acquired;  // since the last barrier
  };

  // Of one thread.
  struct ProxyFences {
    std::vector<uint32_t> times;
    uint32_t interval = 0, met[32] = {};  // as in Fence, at the last one
    Acquired acquired;
  };

  void block_ends() {
    launch_.keep(in_block_);
    launch_.keep(mbarriers_);
    completed_.clear();
    passed_.clear();
  }
  // A thread releases what it did before.
  void release(int thread, Releases& at) {
    now_ = ++access_time();
    has_fences_ = true;
    const Thread& self = threads_[static_cast<size_t>(thread)];
    Fence here{now_, interval_};
    std::copy_n(self.met, 32, here.met);
    Acquired acquired = acquired_;
    acquire_also(acquired, self.acquired);
    at.add(before(thread, here), acquired);
  }
  void acquire(int thread, const Releases& at, const Completed& completed) {
    Thread& self = threads_[static_cast<size_t>(thread)];
    has_fences_ = true;
    acquire_also(self.acquired, completed.inherited);
    acquire_also(self.acquired, {{&at, completed.releases}});
  }
  // Whether a barrier, or one of the warp, is between a thread of this block and what it meets.
  static bool met_before(const Touch& other, uint32_t me, uint32_t interval, const uint32_t* met) {
    const uint32_t thread = thread_of(me), rival = thread_of(other.who);
    return thread == rival || other.time < interval ||
           (thread / 32 == rival / 32 && other.time < met[rival % 32]);
  }
  // Whether a write was before the last of these fences of `me`.
  bool ordered_before(const Touch& write, uint32_t me, const ProxyFences& fences) const {
    if (write.time >= fences.times.back()) return false;
    return met_before(write, me, fences.interval, fences.met) || known(write, fences.acquired);
  }
  // The last fence of the block, if it is none of the device, which reaches further.
  static Fence of_block_only(const Thread& thread) {
    return thread.fence[0].time == thread.fence[1].time ? Fence() : thread.fence[0];
  }

  using Fenced = std::map<uint32_t, uint32_t>;  // by thread: the time of its last fence

  template <class Visit>
  void each_of(int warp, uint32_t mask, Visit visit) {
    for (int lane = 0; lane < 32; ++lane)
      if ((mask >> lane & 1) != 0) visit(lane, threads_[static_cast<size_t>(32 * warp + lane)]);
  }
  // Numbers of blocks repeat after 2^20, times do not.
  YOTTA_UNSEEN bool same_block(const Touch& other, uint32_t me) const {
    return block_of(other.who) == block_of(me) && other.time >= block_;
  }
  static constexpr uint32_t whole_block = 1u << 31;  // no thread has this number

  bool known(const Touch& other, const Acquired& acquired) const {
    const uint32_t thread = other.who & ~(atomic_mark | in_flight_mark);
    return std::any_of(acquired.begin(), acquired.end(), [&](const auto& each) {
      return each.first->cover(thread, block_of(thread) | whole_block, other.time, each.second);
    });
  }

  // All threads meet: what each did before its fence is released by any of them from now on.
  void keep_fences() {
    for (const FenceScope scope : {FenceScope::block, FenceScope::device})
      for (size_t i = 0; i < threads_.size(); ++i)
        if (const Fence fence =
                scope == FenceScope::block ? of_block_only(threads_[i]) : threads_[i].fence[1];
            fence.time > interval_)
          fenced(scope)[number_of(static_cast<int>(i))] = fence.time;
  }
  void share_acquired() {
    for (Thread& each : threads_) {
      if (each.acquired.empty()) continue;
      acquire_also(acquired_, each.acquired);
      each.acquired.clear();
    }
  }
  Fenced& fenced(FenceScope scope) { return fenced_[static_cast<size_t>(scope)]; }

  void meet(int thread, uintptr_t address, ReleasesByAddress& all, Fence fence,
            const Fenced& fenced) {
    Thread& self = threads_[static_cast<size_t>(thread)];
    if (const auto found = all.find(address); found != all.end()) {
      acquire_also(self.acquired, found->second.inherited());
      self.acquired[&found->second] = found->second.count();
      has_fences_ = true;
    }
    if (fence.time == 0 && fenced.empty()) return;
    Acquired acquired = acquired_;
    acquire_also(acquired, self.acquired);
    auto released = before(thread, fence);
    released.insert(released.end(), fenced.begin(), fenced.end());
    all[address].add(released, acquired);
  }
  // What a thread releases that has passed this fence.
  std::vector<Releases::Before> before(int thread, Fence fence) const {
    const uint32_t block = block_of(number_of(thread));
    std::vector<Releases::Before> all = {{number_of(thread), fence.time},
                                         {block | whole_block, fence.interval}};
    for (int lane = 0; lane < 32; ++lane)
      if (fence.met[lane] > fence.interval)
        all.emplace_back(number_of(thread / 32 * 32 + lane), fence.met[lane]);
    return all;
  }

  uint64_t number_ = 0;  // of the block
  LaunchOrder& launch_;
  uint32_t block_, interval_, now_;
  std::vector<Thread> threads_;
  ReleasesByAddress in_block_;  // to threads of this block only
  Acquired acquired_;           // by all threads of the block, before the last barrier
  Fenced fenced_[2];            // before the last barrier; of the block and of the device
  bool has_fences_ = false;     // passed in this block, or acquired by it
  ReleasesByAddress mbarriers_;
  std::map<uintptr_t, Completed> completed_;         // by mbarrier
  std::map<std::pair<uintptr_t, int>, int> passed_;  // by mbarrier and thread: a parity
  std::map<int, ProxyFences> proxy_fences_[2];       // by kind and thread
  ClusterOrder own_cluster_;                         // of this block alone
  ClusterOrder* cluster_ = &own_cluster_;
  bool ended_ = false, touched_ = false;  // all threads have returned; by another block
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
