// The access checker of the checked build: checks and counts every access of a kernel.
//
//     access(address, bytes)   on this lane's own stack?    nothing to check
//                              in a region, and aligned?    else out of bounds, misaligned
//                              written before it is read?   else uninitialised, or a copy in flight
//                              ordered after the others'?   else a race
//
// One launch is checked at a time, on one OS thread, so the same seed finds the same fault. A fault
// leaves the lane where it stopped, and the message is put together outside of the kernel: the
// compiler assumes that the hooks do not throw.
//
// Counters turn the accesses of single lanes into requests of a warp, and count sectors and
// wavefronts:
//
//     lane 0  line 41 at 1000, line 44 at 64  request 1, line 41: 1000, 1004, ..., 1124   4 sectors
//     lane 1  line 41 at 1004, line 44 at 64  request 2, line 44: 64, 64, ..., 64     1 wavefront
//     ...
//
// A GPU runs the lanes of a warp in step; here each runs ahead until it must wait. So each writes a
// log, and when all lanes of the warp wait or have returned, entries of one line that are the
// first, second, ... in their lane's log make one request. For lanes in step, that is simply the
// same position in all logs.
//
// In the unchecked build the checker does nothing.
#pragma once

#include "yotta/device/emulator/lanes.hpp"
#if defined(YOTTA_CHECKED)
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yotta/device/emulator/access_faults.hpp"
#include "yotta/device/emulator/happens_before.hpp"
#include "yotta/device/profile.hpp"
#else
#include "yotta/device/emulator/debug_info.hpp"
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

#if defined(YOTTA_CHECKED)

struct LogEntry {
  uintptr_t address = 0;
  uint32_t site = 0;
  uint8_t bytes = 0;
  Access access = Access::read;
  bool shared = false;
};

// What the lanes of a warp did at one site at one time.
struct Request {
  uintptr_t addresses[32];
  int lanes = 0;
};

// Distinct 32-byte sectors.
YOTTA_UNSEEN inline int sectors_of(const Request& request, size_t bytes) {
  uintptr_t seen[64];
  int count = 0;
  for (int i = 0; i < request.lanes; ++i) {
    const uintptr_t first = request.addresses[i] / 32,
                    last = (request.addresses[i] + bytes - 1) / 32;
    for (uintptr_t sector = first; sector <= last && count < 64; ++sector) {
      int at = count;
      while (at > 0 && seen[at - 1] != sector) --at;
      if (at == 0) seen[count++] = sector;
    }
  }
  return count;
}

// Passes over the banks for some lanes: the largest number of different words in one bank.
// Atomic operations on one word come one after the other.
YOTTA_UNSEEN inline int wavefronts_of_phase(const uintptr_t* addresses, int lanes, size_t bytes,
                                            bool atomic) {
  uintptr_t words[32][32];
  int in_bank[32] = {}, most = 0;
  for (int i = 0; i < lanes; ++i)
    for (uintptr_t word = addresses[i] / 4; word <= (addresses[i] + bytes - 1) / 4; ++word) {
      const uintptr_t bank = word % 32;
      int at = in_bank[bank];
      while (at > 0 && (atomic || words[bank][at - 1] != word)) --at;
      if (at > 0 || in_bank[bank] == 32) continue;
      words[bank][in_bank[bank]++] = word;
      if (in_bank[bank] > most) most = in_bank[bank];
    }
  return most;
}

// 8-byte accesses are served half a warp at a time, 16-byte ones a quarter of a warp.
YOTTA_UNSEEN inline int lanes_per_phase(size_t bytes) {
  return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
}

class Counters {
 public:
  // A power of two would put the same places of all logs into the same few sets of the caches.
  static constexpr size_t log_length = 4096 + 68;

  // Records an access of a lane; true if its log is full then.
  YOTTA_UNSEEN bool add(int lane, const LogEntry& entry) {
    LogEntry*& log = logs_[lane];
    if (log == nullptr) log = new LogEntry[log_length];
    log[lengths_[lane]++] = entry;
    return lengths_[lane] == log_length;
  }

  // All lanes of a warp wait or have returned: their logs become requests.
  YOTTA_UNSEEN void read_logs() {
    size_t longest = 0;
    for (const size_t length : lengths_) longest = length > longest ? length : longest;
    if (longest == 0) return;
    size_t in_step = 0;
    while (in_step < longest && count_in_step(in_step)) ++in_step;
    if (in_step < longest) count_out_of_step(in_step);
    for (size_t& length : lengths_) length = 0;
  }

  // A request that a wrapped instruction made as a whole.
  YOTTA_UNSEEN void count(const LogEntry& kind, const Request& request) {
    LineCounts& counts = counts_of(kind);
    ++counts.requests;
    counts.accesses += request.lanes;
    counts.bytes += request.lanes * static_cast<int64_t>(kind.bytes);
    if (!kind.shared) {
      counts.sectors += sectors_of(request, kind.bytes);
      return;
    }
    const int step = lanes_per_phase(kind.bytes);
    for (int first = 0; first < request.lanes; first += step) {
      const int lanes = request.lanes - first < step ? request.lanes - first : step;
      counts.wavefronts += wavefronts_of_phase(request.addresses + first, lanes, kind.bytes,
                                               kind.access == Access::atomic);
      ++counts.ideal_wavefronts;
    }
  }
  void count_flops(uint32_t site, int64_t flops) { counts_of({0, site}).flops += flops; }
  void count_instruction(const char* name) { ++instructions_[name]; }

  // Everything counted, by line.
  void report(Profile& profile, Sites& sites) {
    std::vector<uint32_t> all;
    for (const auto& [key, counts] : counts_) all.push_back(static_cast<uint32_t>(key >> 8));
    sites.look_up(all);
    for (auto& [key, counts] : counts_) {
      const Line line = sites.line(static_cast<uint32_t>(key >> 8));
      counts.file = line.file;
      counts.line = line.number;
      profile.add(counts);
    }
    for (const auto& [name, count] : instructions_) profile.add_instructions(name, count);
  }

  Counters() = default;
  ~Counters() {
    for (LogEntry* log : logs_) delete[] log;
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

 private:
  YOTTA_UNSEEN static bool same_kind(const LogEntry& a, const LogEntry& b) {
    return a.site == b.site && a.bytes == b.bytes && a.access == b.access && a.shared == b.shared;
  }

  // The entries at this position in all logs that reach it, if they are of one kind.
  YOTTA_UNSEEN bool count_in_step(size_t place) {
    Request request;
    const LogEntry* first = nullptr;
    for (int lane = 0; lane < 32; ++lane) {
      if (lengths_[lane] <= place) continue;
      const LogEntry& entry = logs_[lane][place];
      if (first == nullptr) first = &entry;
      if (!same_kind(*first, entry)) return false;
      request.addresses[request.lanes++] = entry.address;
    }
    count(*first, request);
    return true;
  }

  // Lanes took different branches: the n-th entries of a kind in all logs make a request.
  void count_out_of_step(size_t from) {
    std::vector<bool> taken[32];
    size_t begins[32];  // before it, all are taken
    for (int lane = 0; lane < 32; ++lane) {
      taken[lane].assign(lengths_[lane], false);
      begins[lane] = from;
    }
    for (int lane = 0; lane < 32; ++lane)
      for (size_t place = from; place < lengths_[lane]; ++place) {
        if (taken[lane][place]) continue;
        const LogEntry kind = logs_[lane][place];
        Request request;
        for (int other = lane; other < 32; ++other) {
          size_t& begin = begins[other];
          while (begin < lengths_[other] && taken[other][begin]) ++begin;
          size_t at = begin;
          while (at < lengths_[other] && (taken[other][at] || !same_kind(kind, logs_[other][at])))
            ++at;
          if (at == lengths_[other]) continue;
          taken[other][at] = true;
          request.addresses[request.lanes++] = logs_[other][at].address;
        }
        count(kind, request);
      }
  }

  YOTTA_UNSEEN LineCounts& counts_of(const LogEntry& kind) {
    const uint64_t key =
        uint64_t{kind.site} << 8 | uint64_t{kind.shared} << 1 | uint64_t{!only_reads(kind.access)};
    Recent& recent = recent_[kind.site % recents];
    if (recent.counts == nullptr || recent.key != key) recent = {key, &make(key)};
    return *recent.counts;
  }
  LineCounts& make(uint64_t key) {
    LineCounts& counts = counts_[key];
    counts.shared = (key & 2) != 0;
    counts.write = (key & 1) != 0;
    return counts;
  }

  struct Recent {
    uint64_t key = 0;
    LineCounts* counts = nullptr;
  };
  static constexpr size_t recents = 256;
  LogEntry* logs_[32] = {};
  size_t lengths_[32] = {};
  Recent recent_[recents];
  std::unordered_map<uint64_t, LineCounts> counts_;
  std::map<std::string, int64_t> instructions_;
};

class AccessChecker;

// The checker while a lane runs the kernel's own code on this OS thread; null in the emulator's
// code and outside of kernels.
YOTTA_THREAD_LOCAL AccessChecker* active_checker = nullptr;

YOTTA_UNSEEN inline bool in_kernel() { return active_checker != nullptr; }

// While one of these lives, the lane that runs is in the emulator's code, not in the kernel's.
class UncheckedScope {
 public:
  YOTTA_UNSEEN UncheckedScope() : before_(active_checker) { active_checker = nullptr; }
  YOTTA_UNSEEN ~UncheckedScope() { active_checker = before_; }
  UncheckedScope(const UncheckedScope&) = delete;
  UncheckedScope& operator=(const UncheckedScope&) = delete;

 private:
  AccessChecker* before_;
};

// Defined in scheduler.hpp.
[[noreturn]] void stop_lane(std::function<std::string()> explain);
YOTTA_UNSEEN void pause_lane();
Where barrier_of(int lane);  // of this block, at which it waits; line 0: it does not
[[noreturn]] void give_up_lane(const void* at);

// What the checkers of a launch's blocks share. One launch is checked at a time.
class CheckedLaunch {
 public:
  CheckedLaunch() : lock_(mutex()) {}
  ~CheckedLaunch() {
    if (Profile* const profile = Profile::current(); profile != nullptr) profile->add_launch();
  }
  CheckedLaunch(const CheckedLaunch&) = delete;
  CheckedLaunch& operator=(const CheckedLaunch&) = delete;

  LaunchOrder& order() { return order_; }
  ProgramRegions& variables() { return variables_; }
  void grid_met() { order_.all_met(); }
  // All blocks of a cluster have started; returns the time.
  uint32_t cluster_starts(ClusterOrder& cluster) {
    cluster.starts(order_);
    return ++access_time();
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::lock_guard<std::mutex> lock_;
  LaunchOrder order_;
  ProgramRegions variables_;
};

class AccessChecker {
 public:
  AccessChecker(const Task& task, std::byte* dynamic_shared, const Stacks& stacks,
                CheckedLaunch& launch)
      : task_(task),
        stacks_(reinterpret_cast<uintptr_t>(stacks.bottom(0))),
        all_stacks_(stacks.bytes()),
        image_(image_of(task.kernel)),
        sites_(image_),
        regions_(image_, SharedArrays::of(image_).for_kernel(image_, task.kernel), dynamic_shared,
                 task.shared_bytes, launch.variables()),
        order_(launch.order(), static_cast<int>(task.size.x * task.size.y * task.size.z)),
        profile_(Profile::current()) {}
  ~AccessChecker() {
    if (profile_ != nullptr) counters_.report(*profile_, sites_);
  }
  AccessChecker(const AccessChecker&) = delete;
  AccessChecker& operator=(const AccessChecker&) = delete;

  // What the scheduler tells it.
  void block_starts(uint64_t number) {
    order_.block_starts(number);
    sums_.clear();
    reductions_.clear();
    arrivals_.clear();
  }
  YOTTA_UNSEEN void lane_starts() { active_checker = this; }
  YOTTA_UNSEEN static void lane_ends() { active_checker = nullptr; }
  void all_met() {
    report_uninitialised();
    order_.all_met();
  }
  void block_ends() {
    report_uninitialised();
    if (order_.is_touched()) check_others_are_done();
    order_.ends();
  }
  // ---- Clusters: blocks that touch each other's shared memory ----
  // The block is one of a cluster; its arrays are seen by the others at these addresses.
  void joins(ClusterOrder& cluster, const std::vector<uintptr_t>& places) {
    order_.joins(cluster);
    regions_.are_seen_at(places);
  }
  void sees(AccessChecker& other, const std::vector<uintptr_t>& places) {
    regions_.add_of_other(other.regions_, places, other.order_);
  }
  void cluster_starts(uint32_t time) { order_.cluster_starts(time); }
  void arrives_at_cluster() { order_.arrive_at_cluster(this_lane->index); }
  void cluster_met() { order_.cluster_met(); }
  void passes_cluster() { order_.pass_cluster(this_lane->index); }
  void lanes_met(int warp, uint32_t mask) { order_.lanes_met(warp, mask); }
  void warp_waits() { counters_.read_logs(); }
  void fence(FenceScope scope) { order_.fence(this_lane->index, scope); }

  // The line at which a lane was stopped. If the instruction is on no line of the kernel, that of
  // the last access.
  Line line_of(const Image&, uintptr_t instruction) {
    const Line line = sites_.line_of(instruction);
    return line.number > 0 ? line : sites_.line(last_site_);
  }

  YOTTA_UNSEEN uint32_t site(const void* return_address) const { return sites_.of(return_address); }
  uint32_t site(Where where) { return sites_.of(where); }
  Counters& counters() { return counters_; }

  // An access of the lane that runs.
  YOTTA_UNSEEN void access(const void* pointer, size_t bytes, Access kind, uint32_t site) {
    if (two_values()) stop_lane([this] { return explain_two_values(); });
    last_site_ = site;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Lane& self = *this_lane;                             // read once: in a library it is a call
    if (address - stack_of(self.index) < stack_bytes) {  // its own local variable
      if (!sums_.empty()) check_sums(address, bytes, kind, site);
      return;
    }
    if (only_reads(kind) && address - reinterpret_cast<uintptr_t>(&self) < sizeof(Lane))
      return;  // threadIdx and its like
    let_others_go(self, kind, address);
    Region* const region = check_place(address, bytes, kind, site);
    if (region == nullptr) return;
    check_order(self, *region, address - region->begin, bytes, kind, site, 0);
    if (profile_ == nullptr) return;
    const LogEntry entry{address, site, static_cast<uint8_t>(bytes), kind, region->shared};
    if (counters_.add(self.in_warp, entry)) pause_lane();
  }

  // Bounds, alignment and order of an access by a lane, not counted; `mark` is added to the
  // thread's number.
  YOTTA_UNSEEN void check(const Lane& lane, const void* pointer, size_t bytes, Access kind,
                          uint32_t site, uint32_t mark) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Lane* const running = this_lane;
    this_lane = const_cast<Lane*>(&lane);
    Region* const region = check_place(address, bytes, kind, site);
    if (region != nullptr)
      check_order(lane, *region, address - region->begin, bytes, kind, site, mark);
    this_lane = running;
  }
  // Two writes that nothing orders are a race unless they write the same value; the second one has
  // happened. Whether they are one.
  YOTTA_UNSEEN bool two_values() {
    if (!two_writes_) return false;
    const auto* const now = reinterpret_cast<const void*>(two_writes_->address);
    if (std::memcmp(now, before_, two_writes_->bytes) != 0) return true;
    two_writes_.reset();
    return false;
  }
  std::string explain_two_values() { return explain(*two_writes_, sites_); }
  // The lane that runs computes an index beyond its array's type.
  void beyond_extent(const char* array_type, int64_t index, uint32_t site) {
    Incident incident{.fault = Fault::extent, .site = site};
    incident.array_type = array_type;
    incident.index = index;
    report_fault(incident);
  }
  // The lane that runs copies a struct: some of its words may be padding.
  YOTTA_UNSEEN void copies_struct(const void* pointer, size_t bytes) {
    struct_ = {this_lane->index, reinterpret_cast<uintptr_t>(pointer), bytes};
  }
  // An instruction of this lane that takes one kind of memory only.
  void check_space(const Lane& lane, const void* pointer, size_t bytes, Access kind, uint32_t site,
                   bool shared) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const Region* const region = regions_.find(address, site);
    const bool local = address - stack_of(0) < all_stacks_;
    const bool well = region != nullptr ? region->shared == shared
                                        : !local && regions_.variable(address, site) == nullptr;
    if (well) return;
    Lane* const running = this_lane;
    this_lane = const_cast<Lane*>(&lane);
    Incident incident{Fault::space, kind, address, bytes, site};
    incident.wants_shared = shared;
    incident.copier = copier_;
    report_fault(incident);
    this_lane = running;
  }
  // A copy of this lane will read `bytes` here; the address must be a multiple of `whole`.
  void begin_copy_from(const Lane& lane, const void* from, size_t bytes, size_t whole,
                       uint32_t site) {
    check_space(lane, from, bytes, Access::read, site, false);
    const auto address = reinterpret_cast<uintptr_t>(from);
    if (address % whole != 0 && regions_.find(address, site) != nullptr)
      report_fault({Fault::misaligned, Access::read, address, whole, site});
  }
  // A copy of this lane will fill these bytes of shared memory; no other one of its own may.
  void begin_copy(const Lane& lane, const void* to, size_t bytes, uint32_t site) {
    check_space(lane, to, bytes, Access::write, site, true);
    const auto address = reinterpret_cast<uintptr_t>(to);
    Region* const region = regions_.find(address, site);
    const size_t offset = region == nullptr ? 0 : address - region->begin;
    Incident incident{Fault::in_flight, Access::write, address, bytes, site};
    if (region != nullptr && offset + bytes <= region->bytes && address % bytes == 0)
      for (const Cell& cell : region->shadow->cells(offset, bytes)) {
        incident.other = cell.write;
        if (order_.in_flight(cell.write) &&
            thread_of(cell.write.who) == static_cast<uint32_t>(lane.index))
          report_fault(incident);
      }
    check(lane, to, bytes, Access::write, site, in_flight_mark);
  }
  // What a copy of this lane reads is not what it was when the copy began.
  void copy_changed(const void* from, size_t bytes, uint32_t site,
                    Copier copier = Copier::cp_async) {
    const auto address = reinterpret_cast<uintptr_t>(from);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    Incident incident{Fault::changed_in_flight, Access::read, address, bytes, site};
    incident.copier = copier;
    for (const Cell& cell : region->shadow->cells(address - region->begin, bytes))
      if (cell.write.time >= incident.other.time) incident.other = cell.write;
    report_fault(incident);
  }
  // A copy of this lane has filled these bytes: they are no longer in flight.
  void finish_copy(const Lane& lane, const void* pointer, size_t bytes, uint32_t site) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    for (Cell& cell : region->shadow->cells(address - region->begin, bytes))
      cell.write = {order_.now(), order_.number_of(lane.index) | (cell.write.who & atomic_mark),
                    (cell.write.who & in_flight_mark) != 0 ? cell.write.site : site};
  }

  // ---- mbarriers (mbarrier.hpp), by the lane that runs ----
  void mbarrier_begins(const void* barrier, Where where) {
    check_space(*this_lane, barrier, 8, Access::write, site(where), true);
    check(*this_lane, barrier, 8, Access::write, site(where), 0);
  }
  // The thread uses an mbarrier: it must come after its initialisation.
  void mbarrier_used(const void* barrier, Where where) {
    const auto address = reinterpret_cast<uintptr_t>(barrier);
    Region* const region = regions_.find(address, site(where));
    if (region == nullptr) return;
    for (const Cell& cell : region->shadow->cells(address - region->begin, 8))
      check_against_write(cell.write, {Fault::race, Access::atomic, address, 8, site(where)},
                          order_.number_of(this_lane->index), order_.oldest_rival(true));
  }
  void mbarrier_arrives(const void* barrier) {
    order_.arrive(this_lane->index, reinterpret_cast<uintptr_t>(barrier));
  }
  // At an mbarrier of another block of the cluster, at its own address.
  void mbarrier_arrives(const void* barrier, AccessChecker& owner, Where where) {
    const uint32_t me = order_.number_of(this_lane->index);
    const auto address = reinterpret_cast<uintptr_t>(barrier);
    owner.order_.touched();
    owner.arrivals_[me] = {{order_.now(), me, site(where)}, address};
    order_.arrive(this_lane->index, address, owner.order_);
  }
  void mbarrier_completes(const void* barrier) {
    order_.complete(reinterpret_cast<uintptr_t>(barrier));
  }
  void mbarrier_passed(const void* barrier, int parity) {
    order_.pass(this_lane->index, reinterpret_cast<uintptr_t>(barrier), parity);
  }
  void fence_proxy(ProxyFence kind) { order_.fence_proxy(this_lane->index, kind); }
  // Whether bulk copies of this lane know an mbarrier: whether a fence follows its initialisation.
  bool copies_know(const void* barrier) {
    const auto address = reinterpret_cast<uintptr_t>(barrier);
    Region* const region = regions_.find(address, 0);
    if (region == nullptr) return true;
    const Touch written = region->shadow->cells(address - region->begin, 8).first->write;
    const Order& owner = region->owner == nullptr ? order_ : *region->owner;
    return order_.reaches_copies(written, this_lane->index, ProxyFence::all, owner) ||
           order_.reaches_copies(written, this_lane->index, ProxyFence::mbarriers, owner);
  }

  // ---- bulk copies (cp_async_bulk.hpp) of the lane that runs ----
  // The time tells its bytes. The mbarrier of a load is of the block with the checker `owner`.
  uint32_t load_begins(const void* barrier, int parity, int swizzle, AccessChecker& owner) {
    order_.load_begins(reinterpret_cast<uintptr_t>(barrier), parity, swizzle, owner.order_);
    return order_.now();
  }
  uint32_t store_begins() { return order_.moves_on(); }
  void copy_has_begun() { order_.moves_on(); }
  void load_lands(uint32_t time) { order_.load_lands(time); }
  // It will read these bytes; what threads wrote to shared memory must have passed a fence.
  void bulk_reads(const std::vector<CopyPiece>& pieces, Copier copier, Where where) {
    const uint32_t at = site(where);
    for (const CopyPiece& each : pieces) {
      if (each.from == nullptr) continue;
      check_space_of_bulk(each.from, each.bytes, Access::read, copier, at);
      each_word(each.from, each.bytes, [&](const std::byte* word, size_t bytes) {
        check(*this_lane, word, bytes, Access::read, at, 0);
        if (copier == Copier::bulk_store) check_proxy_fence(word, bytes, at);
      });
    }
    count_bulk(pieces, Access::read, copier == Copier::bulk_store, at);
  }
  // It will write these bytes, or add to the numbers there.
  void bulk_writes(const std::vector<CopyPiece>& pieces, Copier copier, Where where,
                   bool adds = false) {
    const uint32_t at = site(where);
    const Access kind = adds ? Access::atomic : Access::write;
    for (const CopyPiece& each : pieces) {
      check_space_of_bulk(each.to, each.bytes, Access::write, copier, at);
      copier_ = copier;
      each_word(each.to, each.bytes, [&](const std::byte* word, size_t bytes) {
        check_own_copies(word, bytes, at, adds ? atomic_mark : 0);
        check(*this_lane, word, bytes, kind, at, in_flight_mark);
      });
      copier_ = Copier::cp_async;
    }
    if (adds) {
      const uint32_t me = order_.number_of(this_lane->index) | in_flight_mark | atomic_mark;
      reductions_.push_back({{order_.now(), me, at}, pieces});
    }
    count_bulk(pieces, Access::write, copier == Copier::bulk_load, at);
  }
  // ---- wgmmas (wgmma.hpp) of the lane that runs, for its warp ----
  // One begins to read its tiles, numbers of so many bytes, by a descriptor that names this
  // swizzle.
  void wgmma_reads(const std::vector<const std::byte*>& places, int bytes, int swizzle,
                   Where where) {
    const uint32_t at = site(where);
    each_number(places, bytes, [&](const std::byte* place, size_t size) {
      check(*this_lane, place, size, Access::read, at, 0);
      check_proxy_fence(place, size, at, Copier::wgmma);
      check_swizzle(place, swizzle, at);
    });
  }
  // What that asks of shared memory: blocks of 8 chunks of 16 bytes, a row or a k each.
  void count_wgmma(const std::vector<const std::byte*>& places, int bytes, bool rows_of_k,
                   Where where) {
    if (profile_ == nullptr) return;
    const size_t length = 32 / static_cast<size_t>(bytes), chunk = length / 2;
    const LogEntry kind{0, site(where), 16, Access::read, true};
    Request request;
    for (size_t row = 0; row < places.size() / length; row += 8)
      for (size_t k = 0; k < length; k += chunk) {
        for (size_t i = 0; i < 8; ++i)
          request.addresses[request.lanes++] = reinterpret_cast<uintptr_t>(
              places[rows_of_k ? (row + i) * length + k : row * length + k + i]);
        if (request.lanes == 32) {
          counters_.count(kind, request);
          request.lanes = 0;
        }
      }
    if (request.lanes > 0) counters_.count(kind, request);
  }
  // It is done with them.
  void wgmma_has_read(const std::vector<const std::byte*>& places, int bytes, Where where) {
    const uint32_t at = site(where);
    by_wgmma_ = true;
    each_number(places, bytes, [&](const std::byte* place, size_t size) {
      check(*this_lane, place, size, Access::read, at, 0);
    });
    by_wgmma_ = false;
  }
  // The warp commits wgmmas that its warp group, of this number, executes.
  void wgmmas_begin(int group) { order_.arrive(this_lane->index, key_of_group(group)); }
  // The group's four warps have committed, and this one has noted what was read.
  void wgmmas_done(int group) {
    wgmmas_begin(group);
    order_.complete(key_of_group(group));
  }
  // All lanes of a warp know that.
  void wgmmas_awaited(int warp) {
    order_.pass(this_lane->index, key_of_group(warp / 4), 0);
    order_.lanes_met(warp, ~0u);
  }
  // One of its numbers has changed meanwhile.
  void wgmma_changed(const std::byte* place, int bytes, Where where) {
    if (bytes == 1) return bulk_changed(place, Copier::wgmma, where);
    copy_changed(place, static_cast<size_t>(bytes), site(where), Copier::wgmma);
  }
  // d of a lane is in flight, and no longer.
  void sums_begin(int lane, const void* d, size_t bytes, Where where) {
    sums_[lane].push_back({reinterpret_cast<uintptr_t>(d), bytes, site(where)});
  }
  void sums_end(int lane, const void* d) {
    const auto found = sums_.find(lane);
    if (found == sums_.end()) return;
    std::erase_if(found->second, [&](const SumsInFlight& each) {
      return each.begin == reinterpret_cast<uintptr_t>(d);
    });
    if (found->second.empty()) sums_.erase(found);
  }

  // The store that began at this time has written these bytes, and this lane knows it. A reduction
  // into the same numbers that is still on its way comes into view again.
  void bulk_written(const std::vector<CopyPiece>& pieces, uint32_t time) {
    std::erase_if(reductions_, [=](const Reduction& each) { return each.touch.time == time; });
    const std::vector<Reduced> others = reduced_within(pieces);
    for (const CopyPiece& piece : pieces) {
      const auto address = reinterpret_cast<uintptr_t>(piece.to);
      Region* const region = regions_.find(address, 0);
      if (region == nullptr) continue;
      std::vector<Reduced> here;
      std::copy_if(others.begin(), others.end(), std::back_inserter(here),
                   [&](const Reduced& each) { return each.overlaps(address, piece.bytes); });
      const auto cells = region->shadow->cells(address - region->begin, piece.bytes);
      const size_t width = piece.bytes / static_cast<size_t>(cells.last - cells.first);
      for (Cell& cell : cells)
        if (cell.write.time == time)
          cell.write = after_bulk_write(
              cell.write, address + width * static_cast<size_t>(&cell - cells.first), here);
    }
  }
  // What it reads is not what it was when it began.
  void bulk_changed(const void* byte, Copier copier, Where where) {
    const auto word = reinterpret_cast<uintptr_t>(byte) / 4 * 4;
    copy_changed(reinterpret_cast<const void*>(word), 4, site(where), copier);
  }

 private:
  // Among the addresses of mbarriers, for which it is too small.
  static uintptr_t key_of_group(int group) { return static_cast<uintptr_t>(group) + 1; }
  // visit(place, bytes) for each number of a wgmma's tile; four of one byte, which lie in a word,
  // at once.
  template <class Visit>
  static void each_number(const std::vector<const std::byte*>& places, int bytes, Visit visit) {
    const size_t step = bytes == 1 ? 4 : 1;
    for (size_t i = 0; i < places.size(); i += step)
      visit(places[i], step * static_cast<size_t>(bytes));
  }
  // Bytes that a reduction on its way will come to.
  struct Reduced {
    uintptr_t begin;
    size_t bytes;
    Touch touch;
    bool overlaps(uintptr_t from, size_t length) const {
      return begin < from + length && from < begin + bytes;
    }
  };
  // Those between the first and the last of these bytes, in the order in which they began.
  std::vector<Reduced> reduced_within(const std::vector<CopyPiece>& pieces) const {
    std::vector<Reduced> all;
    if (reductions_.empty()) return all;
    uintptr_t first = UINTPTR_MAX, last = 0;
    for (const CopyPiece& each : pieces) {
      const auto begin = reinterpret_cast<uintptr_t>(each.to);
      first = std::min(first, begin), last = std::max(last, begin + each.bytes);
    }
    for (const Reduction& each : reductions_)
      for (const CopyPiece& piece : each.pieces) {
        const Reduced one{reinterpret_cast<uintptr_t>(piece.to), piece.bytes, each.touch};
        if (first < last && one.overlaps(first, last - first)) all.push_back(one);
      }
    return all;
  }
  // What a place remembers when this lane's store has come there, and others go where it lies.
  Touch after_bulk_write(const Touch& store, uintptr_t place,
                         const std::vector<Reduced>& others) const {
    for (const Reduced& each : others)
      if (each.overlaps(place, 1)) return each.touch;
    return {order_.now(), order_.number_of(this_lane->index) | (store.who & atomic_mark),
            store.site};
  }
  // visit(begin, bytes) for each word, and for the halves and bytes at both ends.
  template <class Visit>
  static void each_word(const std::byte* begin, size_t bytes, Visit visit) {
    for (size_t step = 0; bytes > 0; begin += step, bytes -= step) {
      step = 4;
      while (step > bytes || reinterpret_cast<uintptr_t>(begin) % step != 0) step /= 2;
      visit(begin, step);
    }
  }
  void check_space_of_bulk(const void* pointer, size_t bytes, Access kind, Copier copier,
                           uint32_t site) {
    copier_ = copier;
    check_space(*this_lane, pointer, bytes, kind, site,
                (kind == Access::write) == (copier == Copier::bulk_load));
    copier_ = Copier::cp_async;
  }
  // Another copy of this lane that writes here and may be on its way.
  void check_own_copies(const void* word, size_t bytes, uint32_t site, uint32_t mark) {
    const auto address = reinterpret_cast<uintptr_t>(word);
    Region* const region = regions_.find(address, site);
    if (region == nullptr || address - region->begin + bytes > region->bytes) return;
    for (const Cell& cell : region->shadow->cells(address - region->begin, bytes))
      if (order_.in_flight(cell.write))
        check_against_write(cell.write, {Fault::race, Access::write, address, bytes, site},
                            order_.number_of(this_lane->index) | in_flight_mark | mark, 0);
  }
  void check_proxy_fence(const void* word, size_t bytes, uint32_t site,
                         Copier copier = Copier::bulk_store) {
    const auto address = reinterpret_cast<uintptr_t>(word);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    for (const Cell& cell : region->shadow->cells(address - region->begin, bytes)) {
      if ((cell.write.who & in_flight_mark) != 0 || cell.write.time < order_.oldest_value(true) ||
          order_.reaches_copies(cell.write, this_lane->index, ProxyFence::all, order_))
        continue;
      Incident incident{Fault::no_proxy_fence, Access::read, address, bytes, site};
      incident.copier = copier;
      incident.other = cell.write;
      report_fault(incident);
    }
  }
  void check_swizzle(const void* place, int swizzle, uint32_t site) {
    const auto address = reinterpret_cast<uintptr_t>(place);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    const Touch write = region->shadow->cells(address - region->begin, 2).first->write;
    const int written = order_.swizzle_of(write);
    if (written < 0 || written == swizzle) return;
    Incident incident{Fault::swizzle, Access::read, address, 2, site};
    incident.other = write;
    incident.swizzles[0] = written;
    incident.swizzles[1] = swizzle;
    report_fault(incident);
  }
  // The lane that runs touches a local variable.
  void check_sums(uintptr_t address, size_t bytes, Access kind, uint32_t site) {
    const auto found = sums_.find(this_lane->index);
    if (found == sums_.end()) return;
    for (const SumsInFlight& each : found->second) {
      if (address >= each.begin + each.bytes || address + bytes <= each.begin) continue;
      Incident incident{Fault::sum_in_flight, kind, address, bytes, site};
      incident.other.site = each.site;
      report_fault(incident);
    }
  }
  // Its bytes on one side, 16 at a time, as requests of 32 of those.
  void count_bulk(const std::vector<CopyPiece>& pieces, Access kind, bool shared, uint32_t site) {
    if (profile_ == nullptr) return;
    Request request;
    const auto count = [&] {
      counters_.count({0, site, 16, kind, shared}, request);
      request.lanes = 0;
    };
    for (const CopyPiece& each : pieces) {
      const std::byte* const begin = kind == Access::read ? each.from : each.to;
      if (begin == nullptr) continue;
      for (size_t at = 0; at < each.bytes; at += 16) {
        request.addresses[request.lanes++] = reinterpret_cast<uintptr_t>(begin) + at;
        if (request.lanes == 32) count();
      }
    }
    if (request.lanes > 0) count();
  }

  // The region of an access that lies in one and is aligned; null for constants of the program.
  YOTTA_UNSEEN __attribute__((always_inline)) inline Region* check_place(uintptr_t address,
                                                                         size_t bytes, Access kind,
                                                                         uint32_t site) {
    Region* const region = regions_.find(address, site);
    if (region == nullptr) {
      const bool argument =
          address - reinterpret_cast<uintptr_t>(task_.arguments) < task_.argument_bytes;
      const bool local = address - stack_of(0) < all_stacks_;
      if (regions_.in_program(address))
        check_constant(address, bytes, kind, site);
      else if (!argument)
        report_fault({local ? Fault::local : Fault::outside, kind, address, bytes, site});
      return nullptr;
    }
    check_inside(*region, address, bytes, kind, site);
    return region;
  }
  YOTTA_UNSEEN __attribute__((always_inline)) inline void check_inside(const Region& region,
                                                                       uintptr_t address,
                                                                       size_t bytes, Access kind,
                                                                       uint32_t site) {
    if (address - region.begin + bytes > region.bytes)
      report_fault({Fault::outside, kind, address, bytes, site});
    if (region.owner != nullptr) touch_other(*region.owner, kind, address, bytes, site);
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (power_of_two && bytes <= 16 && (address & (bytes - 1)) != 0)
      report_fault({Fault::misaligned, kind, address, bytes, site});
  }

  // An access to another block's shared memory.
  void touch_other(Order& owner, Access kind, uintptr_t address, size_t bytes, uint32_t site) {
    if (owner.has_ended()) report_fault({Fault::block_ended, kind, address, bytes, site});
    owner.touched();
  }
  // An access to the program's own memory that is to no variable which a kernel may write.
  void check_constant(uintptr_t address, size_t bytes, Access kind, uint32_t site) {
    if (const Region* const variable = regions_.variable(address, site)) {
      check_inside(*variable, address, bytes, kind, site);
      if (!only_reads(kind)) report_fault({Fault::constant, kind, address, bytes, site});
    } else if (regions_.in_gap(address)) {
      report_fault({Fault::outside, kind, address, bytes, site});
    }
  }

  // Compares an access with what its cells remember, and records it there.
  YOTTA_UNSEEN __attribute__((always_inline)) inline void check_order(const Lane& self,
                                                                      Region& region, size_t offset,
                                                                      size_t bytes, Access kind,
                                                                      uint32_t site,
                                                                      uint32_t mark) {
    const uint32_t me = order_.number_of(self.index) | mark | (is_strong(kind) ? atomic_mark : 0);
    const Touch touch{order_.now(), me, site};
    const uint32_t since = order_.oldest_rival(region.shared),
                   valid = order_.oldest_value(region.shared);
    const auto cells = region.shadow->cells(offset, bytes);
    size_t unwritten = 0;  // cells in a row
    const size_t whole =
        std::min(region.shadow->cells_of_word(), static_cast<size_t>(cells.last - cells.first));
    const uintptr_t place = region.place == 0 ? region.begin : region.place;
    if (is_strong(kind) && (mark & in_flight_mark) == 0)  // a reduction may come much later
      order_.meet(self.index, place + offset);
    for (Cell& cell : cells) {
      const Touch& write = cell.write;
      if (!order_.is_own(write, me) &&
          (order_.may_race(write, since) || (write.who & in_flight_mark) != 0))
        check_against_write(write, {Fault::race, kind, region.begin + offset, bytes, site}, me,
                            since);
      unwritten = write.time < valid ? unwritten + 1 : 0;
      if (unwritten == whole && kind != Access::write && kind != Access::volatile_write)
        report_fault({Fault::uninitialised, kind, region.begin + offset, bytes, site});
      if (only_reads(kind)) {
        if (!order_.is_own(cell.read, me) &&
            order_.distance(cell.read, me) >= order_.distance(cell.other_read, me))
          cell.other_read = cell.read;
        cell.read = touch;
        continue;
      }
      for (const Touch* read : {&cell.read, &cell.other_read})
        if (order_.may_race(*read, since) && !order_.is_own(*read, me))
          check_against_read(*read, {Fault::race, kind, region.begin + offset, bytes, site}, me);
      cell.write = touch;
    }
  }

  // A thread that reads a volatile variable again waits for it to change.
  YOTTA_UNSEEN void let_others_go(Lane& self, Access kind, uintptr_t address) {
    const uintptr_t looked_at = std::exchange(self.looked_at, 0);
    if (kind != Access::volatile_read) return;
    if (looked_at == address) {
      self.waits = true;
      const auto copied = struct_;
      pause_lane();
      struct_ = copied;
    }
    self.looked_at = address;
  }

  YOTTA_UNSEEN uintptr_t stack_of(int lane) const {
    return stacks_ + static_cast<size_t>(lane) * stack_bytes;
  }

  // Another thread's access that may race with this one.
  void check_against_write(const Touch& write, Incident incident, uint32_t me, uint32_t since) {
    if ((write.who & me & atomic_mark) != 0) return;
    incident.other = write;
    incident.other_access = (write.who & atomic_mark) != 0 ? Access::atomic : Access::write;
    const bool in_flight = order_.in_flight(write);
    if (in_flight && order_.has_landed(write, thread_of(me))) return;
    if (in_flight) name_copy(write, incident, me);
    if (!in_flight && (!order_.may_race(write, since) || !order_.races(write, me))) return;
    const bool both_write = incident.access == Access::write &&
                            incident.other_access == Access::write && (me & in_flight_mark) == 0;
    if (in_flight || !both_write) return report_fault(incident);
    if (two_writes_) return;
    complete(incident);
    std::memcpy(before_, reinterpret_cast<const void*>(incident.address), incident.bytes);
    two_writes_ = incident;
  }
  // It is a copy's.
  void name_copy(const Touch& write, Incident& incident, uint32_t me) {
    incident.fault = Fault::in_flight;
    if (by_wgmma_) {
      incident.copier = Copier::wgmma;
    } else if (const auto load = order_.load_of(write, static_cast<int>(thread_of(me)))) {
      incident.copier = Copier::bulk_load;
      incident.load = *load;
    } else if (const Region* region = regions_.find(incident.address, incident.site);
               region != nullptr && !region->shared) {
      incident.copier = Copier::bulk_store;
    }
  }
  void check_against_read(const Touch& read, Incident incident, uint32_t me) {
    incident.copier = copier_;
    incident.other = read;
    incident.other_access = (read.who & atomic_mark) != 0 ? Access::atomic : Access::read;
    if (order_.races(read, me)) report_fault(incident);
  }
  // Adds what is known of the threads and the place.
  void complete(Incident& incident) {
    incident.block = this_lane->block_index;
    incident.thread = this_lane->thread;
    incident.other_block = coordinates(block_of(incident.other.who), task_.grid);
    incident.other_thread = coordinates(thread_of(incident.other.who), task_.size);
    incident.region = regions_.in_program(incident.address)
                          ? regions_.variable_at_or_before(incident.address)
                          : regions_.at_or_before(incident.address);
    if (incident.address - stack_of(0) < all_stacks_) incident.region = nullptr;
    if (incident.region != nullptr && incident.region->owner != nullptr) name_other(incident);
    if (incident.fault == Fault::race && order_.in_this_block(incident.other)) {
      const Where barrier = barrier_of(static_cast<int>(thread_of(incident.other.who)));
      const Where mine = this_lane->barrier;
      if (barrier.line() != 0 &&
          (barrier.line() != mine.line() || barrier.file_name() != mine.file_name()))
        incident.barrier = sites_.of(barrier);
    }
    incident.next = regions_.after(incident.address);
    if (incident.fault == Fault::local)
      incident.other_thread =
          coordinates((incident.address - stack_of(0)) / stack_bytes, task_.size);
  }
  void report_fault(Incident incident) {
    complete(incident);
    if (incident.fault == Fault::uninitialised) {
      if (is_padding(incident)) return;
      if (!uninitialised_) uninitialised_ = incident;
      return;
    }
    if (uninitialised_ && incident.fault != Fault::race)
      incident = *uninitialised_;  // it caused what followed
    stop_lane([this, incident] { return explain(incident, sites_); });
  }
  // "tile of block (1, 0, 0)".
  void name_other(Incident& incident) {
    others_ = *incident.region;
    others_.name +=
        fmt::format(" of block {}", text(coordinates(incident.region->owner->block(), task_.grid)));
    incident.region = &others_;
  }
  // The block ends: what others did in its shared memory must be before that.
  void check_others_are_done() {
    const Acquired known = order_.ends_knowing();
    for (const OwnShared& array : regions_.shared())
      array.shadow->each_cell([&](size_t offset, size_t bytes, const Cell& cell) {
        for (const Touch* read : {&cell.read, &cell.other_read})
          check_before_end(*read, Access::read, array.begin + offset, bytes, known);
        if ((cell.write.who & in_flight_mark) == 0)
          check_before_end(cell.write, Access::write, array.begin + offset, bytes, known);
      });
    for (const auto& [who, arrival] : arrivals_)
      check_before_end(arrival.touch, Access::atomic, arrival.address, 8, known);
  }
  void check_before_end(const Touch& touch, Access kind, uintptr_t address, size_t bytes,
                        const Acquired& known) {
    if (order_.before_end(touch, known)) return;
    Incident incident{Fault::block_ended, kind, address, bytes, touch.site};
    incident.block = coordinates(block_of(touch.who), task_.grid);
    incident.thread = coordinates(thread_of(touch.who), task_.size);
    Region region = *regions_.at_or_before(address);
    region.name += fmt::format(" of block {}", text(coordinates(order_.block(), task_.grid)));
    incident.region = &region;
    fail_as<KernelError>(task_.where, "{}", explain(incident, sites_));
  }
  // A word of a struct that is copied as a whole: padding if something of the same 16 bytes was
  // written, since no struct is aligned to more.
  bool is_padding(const Incident& incident) const {
    const uintptr_t offset = incident.address - struct_.begin;
    if (struct_.lane != this_lane->index || offset >= struct_.bytes) return false;
    const size_t first = offset / 16 * 16;
    const uint32_t valid = order_.oldest_value(incident.region->shared);
    const auto cells =
        incident.region->shadow->cells(struct_.begin + first - incident.region->begin,
                                       std::min<size_t>(16, struct_.bytes - first));
    return std::any_of(cells.begin(), cells.end(),
                       [&](const Cell& cell) { return cell.write.time >= valid; });
  }
  // A read of uninitialised memory is reported at the next barrier: if another thread writes there
  // before that, it is a race.
  void report_uninitialised() {
    if (uninitialised_) fail_as<KernelError>(task_.where, "{}", explain(*uninitialised_, sites_));
  }

  const Task& task_;
  uintptr_t stacks_;
  size_t all_stacks_;
  Image image_;
  Sites sites_;
  Regions regions_;
  Order order_;
  uint32_t last_site_ = 0;
  Copier copier_ = Copier::cp_async;  // of the copy that begins
  bool by_wgmma_ = false;             // what is checked was read by one that is done
  struct SumsInFlight {
    uintptr_t begin = 0;
    size_t bytes = 0;
    uint32_t site = 0;
  };
  std::map<int, std::vector<SumsInFlight>> sums_;  // by lane
  // Reductions of this block that are on their way: a cell remembers one of them.
  struct Reduction {
    Touch touch;
    std::vector<CopyPiece> pieces;
  };
  std::vector<Reduction> reductions_;
  std::optional<Incident> uninitialised_;  // the first read of uninitialised memory
  std::optional<Incident> two_writes_;     // of one place, the second about to happen
  std::byte before_[16] = {};              // what the first one left there
  struct {
    int lane = -1;
    uintptr_t begin = 0;
    size_t bytes = 0;
  } struct_;  // that is copied
  // The last arrivals of threads of other blocks at mbarriers of this one, by thread.
  struct Arrival {
    Touch touch;
    uintptr_t address = 0;
  };
  std::map<uint32_t, Arrival> arrivals_;
  Region others_;  // of a message
  Profile* profile_;
  Counters counters_;
};

#else

struct ClusterOrder;
struct CheckedLaunch {
  void grid_met() {}
  uint32_t cluster_starts(ClusterOrder&) { return 0; }
};

// Whether the lane that runs is in the emulator's code, which no tick may leave: what it changes is
// the block's.
YOTTA_THREAD_LOCAL volatile bool in_emulator = false;
inline bool in_kernel() { return !in_emulator; }

class AccessChecker {
 public:
  AccessChecker(const Task&, std::byte* /*dynamic_shared*/, const Stacks&, CheckedLaunch&) {}
  void block_starts(uint64_t /*number*/) {}
  void block_ends() {}
  static void lane_starts() { in_emulator = false; }
  static void lane_ends() {}
  static bool two_values() { return false; }
  static std::string explain_two_values() { return {}; }
  void all_met() {}                                   // at the block's barrier
  void lanes_met(int /*warp*/, uint32_t /*mask*/) {}  // in __syncwarp()
  void warp_waits() {}                                // all its lanes wait or have returned
  void fence(FenceScope) {}                           // __threadfence()
  // Clusters.
  void joins(ClusterOrder&, const std::vector<uintptr_t>&) {}
  void sees(AccessChecker&, const std::vector<uintptr_t>&) {}
  void cluster_starts(uint32_t /*time*/) {}
  void arrives_at_cluster() {}
  void cluster_met() {}
  void passes_cluster() {}
  void mbarrier_arrives(const void*, AccessChecker&, Where) {}
  // mbarriers and bulk copies.
  void mbarrier_begins(const void*, Where) {}
  void mbarrier_used(const void*, Where) {}
  void mbarrier_arrives(const void*) {}
  void mbarrier_completes(const void*) {}
  void mbarrier_passed(const void*, int) {}
  void fence_proxy(ProxyFence) {}
  static bool copies_know(const void*) { return true; }
  static uint32_t load_begins(const void*, int, int, AccessChecker&) { return 0; }
  static uint32_t store_begins() { return 0; }
  void copy_has_begun() {}
  void load_lands(uint32_t) {}
  void bulk_reads(const std::vector<CopyPiece>&, Copier, Where) {}
  void bulk_writes(const std::vector<CopyPiece>&, Copier, Where, bool = false) {}
  void bulk_written(const std::vector<CopyPiece>&, uint32_t) {}
  void bulk_changed(const void*, Copier, Where) {}
  // wgmmas.
  void wgmma_reads(const std::vector<const std::byte*>&, int, int, Where) {}
  void count_wgmma(const std::vector<const std::byte*>&, int, bool, Where) {}
  void wgmma_has_read(const std::vector<const std::byte*>&, int, Where) {}
  void wgmmas_begin(int /*group*/) {}
  void wgmmas_done(int /*group*/) {}
  void wgmmas_awaited(int /*warp*/) {}
  void wgmma_changed(const std::byte*, int, Where) {}
  void sums_begin(int, const void*, size_t, Where) {}
  void sums_end(int, const void*) {}
  // Of an instruction at which a lane was stopped; only programs with debug information know.
  static Line line_of(const Image& image, uintptr_t instruction) {
    return Sites(image).line_of(instruction);
  }
};

// While one of these lives, the lane that runs is in the emulator's code, not in the kernel's.
class UncheckedScope {
 public:
  UncheckedScope() : before_(in_emulator) { in_emulator = true; }
  ~UncheckedScope() { in_emulator = before_; }
  UncheckedScope(const UncheckedScope&) = delete;
  UncheckedScope& operator=(const UncheckedScope&) = delete;

 private:
  bool before_;
};

#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
