// The watch of the checked build: judges every access of a kernel.
//
//     access(address, bytes)     this lane's own stack?            nothing to say
//                                in a region, and aligned?         else out of bounds, misaligned
//                                written before it is read?        else uninitialised, or a copy in flight
//                                ordered after the others'?        else a race
//
// One launch is watched at a time, on one OS thread, so the same seed finds the same fault. A fault leaves the lane where
// it stands, and the message is put together outside of the kernel: the compiler believes that the hooks do not throw.
#pragma once

#if defined(YOTTA_CHECKED)

#include <functional>
#include <mutex>
#include <optional>

#include "yotta/device/emulator/check_counters.hpp"
#include "yotta/device/emulator/check_faults.hpp"
#include "yotta/device/emulator/happens_before.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

class AccessChecker;

// The watch while a lane runs the kernel's own code on this OS thread; null in the emulator's code and outside.
YOTTA_THREAD_LOCAL AccessChecker* on_duty = nullptr;

YOTTA_UNSEEN inline bool in_kernel() { return on_duty != nullptr; }

// While one of these lives, the lane that runs is in the emulator's code, not in the kernel's.
class UncheckedScope {
 public:
  YOTTA_UNSEEN UncheckedScope() : before_(on_duty) { on_duty = nullptr; }
  YOTTA_UNSEEN ~UncheckedScope() { on_duty = before_; }
  UncheckedScope(const UncheckedScope&) = delete;
  UncheckedScope& operator=(const UncheckedScope&) = delete;

  AccessChecker* watch() const { return before_; }

 private:
  AccessChecker* before_;
};

[[noreturn]] void stop_lane(std::function<std::string()> explain);  // simt_block.hpp
void pause_lane();

class AccessChecker {
 public:
  AccessChecker(const Task& task, std::byte* dynamic_shared, const Stacks& stacks)
      : lock_(mutex()),
        task_(task),
        stacks_(reinterpret_cast<uintptr_t>(stacks.bottom(0))),
        image_(image_of(task.kernel)),
        sites_(image_),
        regions_(image_, SharedArrays::of(image_).for_kernel(image_, task.kernel), dynamic_shared,
                 task.shared_bytes),
        profile_(Profile::current()) {}
  ~AccessChecker() {
    if (profile_ != nullptr) counters_.report(*profile_, sites_);
  }
  AccessChecker(const AccessChecker&) = delete;
  AccessChecker& operator=(const AccessChecker&) = delete;

  // What the block tells.
  void block_starts(uint64_t number, const std::vector<Lane>& lanes) {
    order_.block_starts(number);
    lanes_ = reinterpret_cast<uintptr_t>(lanes.data());
    lane_bytes_ = lanes.size() * sizeof(Lane);
  }
  YOTTA_UNSEEN void lane_starts() { on_duty = this; }
  YOTTA_UNSEEN static void lane_ends() { on_duty = nullptr; }
  void all_met() {
    report_garbage();
    order_.all_met();
  }
  void block_ends() { report_garbage(); }
  void lanes_met(int warp, uint32_t mask) { order_.lanes_met(warp, mask); }
  void warp_stands() { counters_.read_logs(); }
  void fence() { order_.fence(); }

  // Where a lane was stopped at this instruction: if that is no line of the kernel's, at its last access.
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
    if (address - stacks_ < most_threads * stack_bytes) return;  // a local variable
    if (address - lanes_ < lane_bytes_) return;                  // threadIdx and its like
    Region* const region = check_place(address, bytes, kind, site);
    if (region == nullptr) return;
    judge(*region, address - region->begin, bytes, kind, site, 0);
    if (profile_ == nullptr) return;
    const LogEntry entry{address, site, static_cast<uint8_t>(bytes), kind, region->shared};
    if (counters_.add(this_lane->index % 32, entry)) pause_lane();
  }

  // Bounds, alignment and order of an access by a lane, not counted; `mark` is added to the thread's number.
  YOTTA_UNSEEN void check(const Lane& lane, const void* pointer, size_t bytes, Access kind,
                          uint32_t site, uint32_t mark) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Lane* const running = this_lane;
    this_lane = const_cast<Lane*>(&lane);
    Region* const region = check_place(address, bytes, kind, site);
    if (region != nullptr) judge(*region, address - region->begin, bytes, kind, site, mark);
    this_lane = running;
  }
  // The lane that runs computes an index beyond its array's type.
  void beyond_extent(const char* array_type, int64_t index, uint32_t site) {
    Incident incident{.fault = Fault::extent, .site = site};
    incident.array_type = array_type;
    incident.index = index;
    blame(incident);
  }
  // These bytes hold what a lane wrote just now, whatever they were marked.
  void settle(const Lane& lane, const void* pointer, size_t bytes, uint32_t site) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Region* const region = regions_.find(address, site);
    if (region == nullptr) return;
    for (Cell& cell : region->shadow->cells(address - region->begin, bytes))
      cell.write = {order_.now(), order_.number_of(lane.index),
                    (cell.write.who & in_flight_mark) != 0 ? cell.write.site : site};
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  // The region of an access that lies in one and is aligned; null for the program's own variables.
  YOTTA_UNSEEN __attribute__((always_inline)) inline Region* check_place(uintptr_t address,
                                                                         size_t bytes, Access kind,
                                                                         uint32_t site) {
    Region* const region = regions_.find(address, site);
    if (region == nullptr) {
      const bool argument =
          address - reinterpret_cast<uintptr_t>(task_.arguments) < task_.argument_bytes;
      if (!argument && !regions_.in_program(address))
        blame({Fault::outside, kind, address, bytes, site});
      return nullptr;
    }
    if (address - region->begin + bytes > region->bytes)
      blame({Fault::outside, kind, address, bytes, site});
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (power_of_two && bytes <= 16 && (address & (bytes - 1)) != 0)
      blame({Fault::misaligned, kind, address, bytes, site});
    return region;
  }

  // Looks at the cells of an access, and remembers it there.
  YOTTA_UNSEEN __attribute__((always_inline)) inline void judge(Region& region, size_t offset,
                                                                size_t bytes, Access kind,
                                                                uint32_t site, uint32_t mark) {
    const uint32_t me =
        order_.number_of(this_lane->index) | mark | (kind == Access::atomic ? atomic_mark : 0);
    const Touch touch{order_.now(), me, site};
    const uint32_t since = order_.oldest_rival(region.shared),
                   valid = order_.oldest_value(region.shared);
    if (kind == Access::atomic) order_.acquire();
    for (Cell& cell : region.shadow->cells(offset, bytes)) {
      const Touch& write = cell.write;
      if (write.who != me && (write.time >= since || (write.who & in_flight_mark) != 0))
        suspect_write(write, {Fault::race, kind, region.begin + offset, bytes, site}, me, since);
      if (write.time < valid && kind != Access::write)
        blame({Fault::uninitialised, kind, region.begin + offset, bytes, site});
      if (kind == Access::read) {
        if (cell.read.who != me) cell.other_read = cell.read;
        cell.read = touch;
        continue;
      }
      for (const Touch* read : {&cell.read, &cell.other_read})
        if (read->time >= since && read->who != me)
          suspect_read(*read, {Fault::race, kind, region.begin + offset, bytes, site}, me);
      cell.write = touch;
    }
  }

  // Another thread's access that may race with this one.
  void suspect_write(const Touch& write, Incident incident, uint32_t me, uint32_t since) {
    incident.other = write;
    incident.other_access = (write.who & atomic_mark) != 0 ? Access::atomic : Access::write;
    const bool flies = order_.in_flight(write);
    if (flies) incident.fault = Fault::in_flight;
    if (flies || (write.time >= since && order_.races(write, me))) blame(incident);
  }
  void suspect_read(const Touch& read, Incident incident, uint32_t me) {
    incident.other = read;
    incident.other_access = (read.who & atomic_mark) != 0 ? Access::atomic : Access::read;
    if (order_.races(read, me)) blame(incident);
  }
  void blame(Incident incident) {
    incident.block = this_lane->block_index;
    incident.thread = this_lane->thread;
    incident.other_block = coordinates(block_of(incident.other.who), task_.grid);
    incident.other_thread = coordinates(thread_of(incident.other.who), task_.size);
    incident.region = regions_.at_or_before(incident.address);
    incident.next = regions_.after(incident.address);
    if (incident.fault == Fault::uninitialised) {
      if (!garbage_) garbage_ = incident;
      return;
    }
    if (garbage_ && incident.fault != Fault::race)
      incident = *garbage_;  // the cause of what followed
    stop_lane([this, incident] { return explain(incident, sites_); });
  }
  // A read of garbage waits for the next barrier: if another thread writes the place until then, it is a race.
  void report_garbage() {
    if (garbage_) fail_as<KernelError>(task_.where, "{}", explain(*garbage_, sites_));
  }

  std::lock_guard<std::mutex> lock_;
  const Task& task_;
  uintptr_t stacks_, lanes_ = 0;
  size_t lane_bytes_ = 0;
  Image image_;
  Sites sites_;
  Regions regions_;
  Order order_;
  uint32_t last_site_ = 0;
  std::optional<Incident> garbage_;  // the first read of garbage
  Profile* profile_;
  Counters counters_;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif
