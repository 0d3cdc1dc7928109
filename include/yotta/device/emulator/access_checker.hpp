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
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
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
YOTTA_UNSEEN inline int wavefronts_of_phase(const uintptr_t* addresses, int lanes, size_t bytes) {
  uintptr_t words[32][32];
  int in_bank[32] = {}, most = 0;
  for (int i = 0; i < lanes; ++i)
    for (uintptr_t word = addresses[i] / 4; word <= (addresses[i] + bytes - 1) / 4; ++word) {
      const uintptr_t bank = word % 32;
      int at = in_bank[bank];
      while (at > 0 && words[bank][at - 1] != word) --at;
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
  static constexpr size_t log_length = 4096;

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
      counts.wavefronts += wavefronts_of_phase(request.addresses + first, lanes, kind.bytes);
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
    const uint64_t key = uint64_t{kind.site} << 8 | uint64_t{kind.shared} << 1 |
                         uint64_t{kind.access != Access::read};
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
  void grid_met() { order_.all_met(); }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::lock_guard<std::mutex> lock_;
  LaunchOrder order_;
};

class AccessChecker {
 public:
  AccessChecker(const Task& task, std::byte* dynamic_shared, const Stacks& stacks,
                CheckedLaunch& launch)
      : task_(task),
        stacks_(reinterpret_cast<uintptr_t>(stacks.bottom(0))),
        stack_bytes_(stacks.bytes()),
        image_(image_of(task.kernel)),
        sites_(image_),
        regions_(image_, SharedArrays::of(image_).for_kernel(image_, task.kernel), dynamic_shared,
                 task.shared_bytes),
        order_(launch.order()),
        profile_(Profile::current()) {}
  ~AccessChecker() {
    if (profile_ != nullptr) counters_.report(*profile_, sites_);
  }
  AccessChecker(const AccessChecker&) = delete;
  AccessChecker& operator=(const AccessChecker&) = delete;

  // What the scheduler tells it.
  void block_starts(uint64_t number, const std::vector<Lane>& lanes) {
    order_.block_starts(number);
    lanes_ = reinterpret_cast<uintptr_t>(lanes.data());
    lane_bytes_ = lanes.size() * sizeof(Lane);
  }
  YOTTA_UNSEEN void lane_starts() { active_checker = this; }
  YOTTA_UNSEEN static void lane_ends() { active_checker = nullptr; }
  void all_met() {
    report_uninitialised();
    order_.all_met();
  }
  void block_ends() { report_uninitialised(); }
  void lanes_met(int warp, uint32_t mask) { order_.lanes_met(warp, mask); }
  void warp_waits() { counters_.read_logs(); }
  void fence() { order_.fence(); }

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
    last_site_ = site;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address - stacks_ < stack_bytes_) return;  // a local variable
    if (address - lanes_ < lane_bytes_) return;    // threadIdx and its like
    Region* const region = check_place(address, bytes, kind, site);
    if (region == nullptr) return;
    check_order(*region, address - region->begin, bytes, kind, site, 0);
    if (profile_ == nullptr) return;
    const LogEntry entry{address, site, static_cast<uint8_t>(bytes), kind, region->shared};
    if (counters_.add(this_lane->index % 32, entry)) pause_lane();
  }

  // Bounds, alignment and order of an access by a lane, not counted; `mark` is added to the
  // thread's number.
  YOTTA_UNSEEN void check(const Lane& lane, const void* pointer, size_t bytes, Access kind,
                          uint32_t site, uint32_t mark) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Lane* const running = this_lane;
    this_lane = const_cast<Lane*>(&lane);
    Region* const region = check_place(address, bytes, kind, site);
    if (region != nullptr) check_order(*region, address - region->begin, bytes, kind, site, mark);
    this_lane = running;
  }
  // The lane that runs computes an index beyond its array's type.
  void beyond_extent(const char* array_type, int64_t index, uint32_t site) {
    Incident incident{.fault = Fault::extent, .site = site};
    incident.array_type = array_type;
    incident.index = index;
    report_fault(incident);
  }
  // A copy of this lane has filled these bytes: they are no longer in flight.
  void finish_copy(const Lane& lane, const void* pointer, size_t bytes, uint32_t site) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    for (Cell& cell : region->shadow->cells(address - region->begin, bytes))
      cell.write = {order_.now(), order_.number_of(lane.index),
                    (cell.write.who & in_flight_mark) != 0 ? cell.write.site : site};
  }

 private:
  // The region of an access that lies in one and is aligned; null for the program's own variables.
  YOTTA_UNSEEN __attribute__((always_inline)) inline Region* check_place(uintptr_t address,
                                                                         size_t bytes, Access kind,
                                                                         uint32_t site) {
    Region* const region = regions_.find(address, site);
    if (region == nullptr) {
      const bool argument =
          address - reinterpret_cast<uintptr_t>(task_.arguments) < task_.argument_bytes;
      if (!argument && !regions_.in_program(address))
        report_fault({Fault::outside, kind, address, bytes, site});
      return nullptr;
    }
    if (address - region->begin + bytes > region->bytes)
      report_fault({Fault::outside, kind, address, bytes, site});
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (power_of_two && bytes <= 16 && (address & (bytes - 1)) != 0)
      report_fault({Fault::misaligned, kind, address, bytes, site});
    return region;
  }

  // Compares an access with what its cells remember, and records it there.
  YOTTA_UNSEEN __attribute__((always_inline)) inline void check_order(Region& region, size_t offset,
                                                                      size_t bytes, Access kind,
                                                                      uint32_t site,
                                                                      uint32_t mark) {
    const uint32_t me =
        order_.number_of(this_lane->index) | mark | (kind == Access::atomic ? atomic_mark : 0);
    const Touch touch{order_.now(), me, site};
    const uint32_t since = order_.oldest_rival(region.shared),
                   valid = order_.oldest_value(region.shared);
    if (kind == Access::atomic) order_.acquire();
    for (Cell& cell : region.shadow->cells(offset, bytes)) {
      const Touch& write = cell.write;
      if (write.who != me && (write.time >= since || (write.who & in_flight_mark) != 0))
        check_against_write(write, {Fault::race, kind, region.begin + offset, bytes, site}, me,
                            since);
      if (write.time < valid && kind != Access::write)
        report_fault({Fault::uninitialised, kind, region.begin + offset, bytes, site});
      if (kind == Access::read) {
        if (cell.read.who != me) cell.other_read = cell.read;
        cell.read = touch;
        continue;
      }
      for (const Touch* read : {&cell.read, &cell.other_read})
        if (read->time >= since && read->who != me)
          check_against_read(*read, {Fault::race, kind, region.begin + offset, bytes, site}, me);
      cell.write = touch;
    }
  }

  // Another thread's access that may race with this one.
  void check_against_write(const Touch& write, Incident incident, uint32_t me, uint32_t since) {
    incident.other = write;
    incident.other_access = (write.who & atomic_mark) != 0 ? Access::atomic : Access::write;
    const bool in_flight = order_.in_flight(write);
    if (in_flight) incident.fault = Fault::in_flight;
    if (in_flight || (write.time >= since && order_.races(write, me))) report_fault(incident);
  }
  void check_against_read(const Touch& read, Incident incident, uint32_t me) {
    incident.other = read;
    incident.other_access = (read.who & atomic_mark) != 0 ? Access::atomic : Access::read;
    if (order_.races(read, me)) report_fault(incident);
  }
  void report_fault(Incident incident) {
    incident.block = this_lane->block_index;
    incident.thread = this_lane->thread;
    incident.other_block = coordinates(block_of(incident.other.who), task_.grid);
    incident.other_thread = coordinates(thread_of(incident.other.who), task_.size);
    incident.region = regions_.at_or_before(incident.address);
    incident.next = regions_.after(incident.address);
    if (incident.fault == Fault::uninitialised) {
      if (!uninitialised_) uninitialised_ = incident;
      return;
    }
    if (uninitialised_ && incident.fault != Fault::race)
      incident = *uninitialised_;  // it caused what followed
    stop_lane([this, incident] { return explain(incident, sites_); });
  }
  // A read of uninitialised memory is reported at the next barrier: if another thread writes there
  // before that, it is a race.
  void report_uninitialised() {
    if (uninitialised_) fail_as<KernelError>(task_.where, "{}", explain(*uninitialised_, sites_));
  }

  const Task& task_;
  uintptr_t stacks_, lanes_ = 0;
  size_t stack_bytes_, lane_bytes_ = 0;
  Image image_;
  Sites sites_;
  Regions regions_;
  Order order_;
  uint32_t last_site_ = 0;
  std::optional<Incident> uninitialised_;  // the first read of uninitialised memory
  Profile* profile_;
  Counters counters_;
};

#else

struct CheckedLaunch {
  void grid_met() {}
};

class AccessChecker {
 public:
  AccessChecker(const Task&, std::byte* /*dynamic_shared*/, const Stacks&, CheckedLaunch&) {}
  void block_starts(uint64_t /*number*/, const std::vector<Lane>& /*lanes*/) {}
  void block_ends() {}
  void lane_starts() {}
  static void lane_ends() {}
  void all_met() {}                                   // at the block's barrier
  void lanes_met(int /*warp*/, uint32_t /*mask*/) {}  // in __syncwarp()
  void warp_waits() {}                                // all its lanes wait or have returned
  void fence() {}                                     // __threadfence()
  // Of an instruction at which a lane was stopped; only programs with debug information know.
  static Line line_of(const Image& image, uintptr_t instruction) {
    return Sites(image).line_of(instruction);
  }
};

// While one of these lives, the lane that runs is in the emulator's code, not in the kernel's.
struct UncheckedScope {
  UncheckedScope() {}
};
inline bool in_kernel() { return true; }  // unknown here

#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
