// The mbarriers of a block, and the bulk copies that its threads have started.
//
//     mbarrier   phase 0: 2 arrivals, 512 bytes expected    phase 1 ...
//                ├ arrive ├ arrive, expect 512 ├ 512 bytes come ┤ 0 pending, all bytes: next phase
//
// The 64 bits in shared memory hold a mark; what an mbarrier counts is kept here, by its address.
//
// A load lands as late as it can: when a thread asks for the phase that it belongs to, one of the
// copies that are on their way to that mbarrier lands, drawn at random, and the thread asks again.
// A store reads its source when its thread waits for that.
//
// A thread that asks in vain lets the others go first. When all threads of a block wait, and at
// least one of them for an mbarrier, nothing can change: the error says what its phase lacks. Who
// only tests (test_wait) may do something else next, so that is no wait.
// References: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier" (Phase
// of the mbarrier object, Tracking asynchronous operations), "cp.async.bulk".
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/device_build.hpp"
#include "yotta/device/emulator/lanes.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

struct Mbarrier {
  static constexpr int64_t most = (1 << 20) - 1;  // arrivals of a phase, and bytes on their way
  static constexpr uint64_t mark = 0x8a17b1e5f0cade42u;

  int64_t count = 0, pending = 0;  // arrivals: of each phase, and still to come
  int64_t expected = 0, come = 0;  // bytes of this phase
  uint64_t phase = 0;              // that is not complete
  int named = -1;                  // of bar_sync(), which is in no memory; -1: in shared memory
  Where where = {};                // of its initialisation

  int parity() const { return static_cast<int>(phase & 1); }
  // Begins the next phase if this one is complete.
  bool settle() {
    if (pending > 0 || expected != come) return false;
    ++phase;
    pending = count;
    expected = come = 0;
    return true;
  }
  // "phase 3 (parity 1) has 1 of 2 arrivals, and 0 of 512 bytes have come".
  std::string text() const {
    return fmt::format("phase {} (parity {}) has {} of {} arrivals, and {} of {} bytes have come",
                       phase, parity(), count - pending, count, come, expected);
  }
};

struct BulkCopy {
  using Add = void (*)(std::byte* to, const std::byte* from, size_t bytes);

  std::vector<CopyPiece> pieces = {};
  uint64_t* barrier = nullptr;  // of a load
  int group = 0;                // of a store: committed with this group
  int swizzle = -1;             // of a box of a tensor: its span in bytes
  uint32_t time = 0;            // by which the checks know its bytes
  Add add = nullptr;            // of a reduction: adds to the numbers that are there
  Where where = {};
  std::vector<std::byte> source = {};  // under checks: what it read when it began

  size_t bytes() const {
    size_t sum = 0;
    for (const CopyPiece& each : pieces) sum += each.bytes;
    return sum;
  }
  void move() const {
    for (const CopyPiece& each : pieces)
      if (each.from == nullptr)
        std::memset(each.to, 0, each.bytes);
      else if (add != nullptr)
        add(each.to, each.from, each.bytes);
      else
        std::memcpy(each.to, each.from, each.bytes);
  }
  void remember_source() {
#if defined(YOTTA_CHECKED)
    for (const CopyPiece& each : pieces)
      if (each.from != nullptr) source.insert(source.end(), each.from, each.from + each.bytes);
#endif
  }
  // The first byte of the source that is no longer what it was; null: all are.
  const std::byte* changed() const {
    if (source.empty()) return nullptr;
    const std::byte* then = source.data();
    for (const CopyPiece& each : pieces) {
      if (each.from == nullptr) continue;
      const auto [was, is] = std::mismatch(then, then + each.bytes, each.from);
      if (was != then + each.bytes) return is;
      then += each.bytes;
    }
    return nullptr;
  }
};

// The stores of one thread, in their order.
struct BulkStores {
  std::vector<BulkCopy> copies;     // that may read their source
  std::vector<BulkCopy> may_write;  // have read it, and may still write
  int group = 0;                    // of the next one

  // The beginning of `all` that is in groups before the last `pending` ones.
  std::vector<BulkCopy>::iterator end_of_groups(std::vector<BulkCopy>& all, int pending) const {
    return std::partition_point(all.begin(), all.end(),
                                [&](const BulkCopy& each) { return each.group + pending < group; });
  }
};

class Mbarriers {
 public:
  // A thread that asks for a phase in vain, and where it stands.
  struct Waiter {
    const uint64_t* barrier = nullptr;
    uint64_t round = 0;  // in which it last asked
    int parity = 0;      // that it asks for
    Where where = {};
    bool for_cluster = false;  // else, without an mbarrier, for wgmmas of other warps
  };

  std::vector<BulkCopy> loads;       // on their way
  std::map<int, BulkStores> stores;  // by thread
  std::map<int, Waiter> waiters;     // by thread

  void clear() {
    all_.clear();
    loads.clear();
    stores.clear();
    waiters.clear();
    seen_.clear();
  }
  Mbarrier* find(const uint64_t* barrier) {
    const auto found = all_.find(barrier);
    return found == all_.end() ? nullptr : &found->second;
  }
  void add(const uint64_t* barrier, int64_t count, Where where) {
    all_[barrier] = {.count = count, .pending = count, .where = where};
    changed();
  }
  void remove(const uint64_t* barrier) {
    all_.erase(barrier);
    changed();
  }
  // The loads that are on their way to an mbarrier, as indices of `loads`.
  std::vector<size_t> loads_to(const uint64_t* barrier) const {
    std::vector<size_t> some;
    for (size_t i = 0; i < loads.size(); ++i)
      if (loads[i].barrier == barrier) some.push_back(i);
    return some;
  }

  // Whether a thread sees for the first time that phases before this one are complete.
  bool sees(int thread, const uint64_t* barrier, uint64_t phase) {
    return std::exchange(seen_[{thread, barrier}], phase) != phase;
  }
  // Something has happened for which threads may wait.
  void changed() { quiet_ = 0; }
  // The warps have had their turns. Whether nothing has happened for so long that nothing will.
  bool quiet(bool all_wait) {
    ++round_;
    quiet_ = all_wait ? quiet_ + 1 : 0;
    return is_quiet();
  }
  bool is_quiet() const { return quiet_ > most_quiet; }
  uint64_t round() const { return round_; }
  bool waits(int thread) const {
    const auto found = waiters.find(thread);
    return found != waiters.end() && found->second.round == round_;
  }
  // The same in this round or the one before.
  bool waited(int thread) const {
    const auto found = waiters.find(thread);
    return found != waiters.end() && found->second.round + 1 >= round_;
  }

 private:
  static constexpr int most_quiet = 256;  // rounds

  std::map<const uint64_t*, Mbarrier> all_;
  std::map<std::pair<int, const uint64_t*>, uint64_t> seen_;  // phases, by thread and mbarrier
  uint64_t round_ = 1;
  int quiet_ = 0;
};

// What is missing, and why that may be.
inline std::string explain_wait(const Mbarrier& at, int parity) {
  if (at.named >= 0)
    return fmt::format(
        "waits in bar_sync({}, {}) in vain: {} threads have come. Does each of the others "
        "execute it, or bar_arrive()?",
        at.named, at.count, at.count - at.pending);
  std::string why;
  if (at.pending > 0 && at.pending == at.count && at.expected == 0 && at.phase > 0)
    why = fmt::format(
        "No thread arrives any more. Phase {} has completed, with parity {}: is the parity that "
        "this "
        "thread waits for right",
        at.phase - 1, 1 - at.parity());
  else if (at.pending > 0)
    why = fmt::format("{} arrivals are missing: do all {} that mbarrier_init counts come",
                      at.pending, at.count);
  else
    why =
        "The bytes that mbarrier_arrive_expect_tx announces must be those that copies bring in the "
        "same phase: do they";
  return fmt::format("waits for parity {} of the mbarrier that {} initialised, in vain: {}. {}?",
                     parity, yotta::at(at.where), at.text(), why);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
