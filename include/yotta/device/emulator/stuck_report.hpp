// When lanes of a block cannot go on: who waits where, and what to do about it.
//
// A barrier is for all threads of a block, and an instruction of a warp for all lanes of its mask. If some
// have returned, or wait at another line, a GPU does something undefined: it hangs, or lets the others
// through too early. Here it is an error that names both sides.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "yotta/device/emulator/source_lines.hpp"
#include "yotta/device/emulator/simt_lane.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A kernel did something that a GPU forbids. The message begins with the line of the launch.
class KernelError : public Error {
  using Error::Error;
};

namespace emulator {

inline std::string text(const uint3& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

// "waits in __syncthreads() at tile.hpp:17"
inline std::string doing(const Lane& lane) {
  switch (lane.state) {
    case LaneState::returned: return "has returned";
    case LaneState::at_barrier:
      return fmt::format("waits in __syncthreads() at {}", at(lane.where));
    case LaneState::in_warp:
      return fmt::format("waits in {} at {}", lane.call.name, at(lane.where));
    case LaneState::ready: break;
  }
  return "still runs";
}

inline bool same_line(Where a, Where b) {
  const bool same_file =
      a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name();
  return same_file && a.line() == b.line() && a.column() == b.column();
}

// Throws unless all lanes execute one instruction: same name, same mask, same line.
inline void check_same_call(const Lane& one, const Lane& other, Where launch) {
  const WarpCall &a = one.call, &b = other.call;
  const bool same_name = std::string_view(a.name) == b.name;
  if (same_name && a.mask == b.mask && same_line(one.where, other.where)) return;
  fail_as<KernelError>(launch,
                       "{}: lanes of a warp meet in different instructions: thread {} {} with mask "
                       "{:#010x}, thread {} "
                       "{} with mask {:#010x}. All lanes of the mask must execute the same one: "
                       "move it out of the branch, "
                       "or give each branch the mask of its own lanes",
                       at(one.where), text(one.thread), doing(one), a.mask, text(other.thread),
                       doing(other), b.mask);
}

// A lane waits in an instruction of its warp for one that will not come.
[[noreturn]] inline void complain_of_warp(const std::vector<Lane>& lanes, const Lane& waiting,
                                          Where launch) {
  const Lane* missing = &waiting;
  const size_t first = static_cast<size_t>(waiting.index) / 32 * 32;
  for (size_t i = first; i < std::min(first + 32, lanes.size()); ++i) {
    const bool named = (waiting.call.mask >> (i % 32) & 1) != 0;
    if (named && lanes[i].state == LaneState::at_barrier) missing = &lanes[i];
  }
  fail_as<KernelError>(launch,
                       "{}: thread {} waits in {} for the lanes of mask {:#010x}, but thread {} "
                       "(lane {}) {}. Let every "
                       "lane that the mask names execute it, or leave the lane out of the mask",
                       at(waiting.where), text(waiting.thread), waiting.call.name,
                       waiting.call.mask, text(missing->thread), missing->index % 32,
                       doing(*missing));
}

// No lane can run: throws unless all wait at the same barrier.
inline void check_all_at_barrier(const std::vector<Lane>& lanes, Where launch) {
  const Lane* waiting = nullptr;  // in a barrier
  for (const Lane& lane : lanes) {
    if (lane.state == LaneState::in_warp) complain_of_warp(lanes, lane, launch);
    if (lane.state == LaneState::at_barrier && waiting == nullptr) waiting = &lane;
  }
  const Lane* absent = nullptr;
  int present = 0;
  for (const Lane& lane : lanes) {
    const bool here = lane.state == LaneState::at_barrier && same_line(lane.where, waiting->where);
    present += here;
    if (!here && absent == nullptr) absent = &lane;
  }
  if (absent == nullptr) return;
  fail_as<KernelError>(launch,
                       "{}: divergent barrier: {} of {} threads, thread {} among them, wait in "
                       "__syncthreads(), but thread "
                       "{} {}. All threads of a block must reach the same barrier: put the "
                       "condition around the work, not "
                       "around the barrier",
                       at(waiting->where), present, lanes.size(), text(waiting->thread),
                       text(absent->thread), doing(*absent));
}

// "smooth<32>" of "void smooth[abi:yotta_kernel]<32>(float*)".
inline std::string kernel_name(const Image& image, const void* kernel) {
  const std::string tag = "[abi:yotta_kernel]",
                    symbol = SharedArrays::of(image).symbol_of(image, kernel);
  std::string name = demangled(symbol);
  if (const size_t begin = name.find(tag); begin != std::string::npos)
    name.erase(begin, tag.size());
  name.resize(std::min(name.size(), name.rfind('(')));
  return name.starts_with("void ") ? name.substr(5) : name;
}

// A lane has been at this line, or in its loop, for so many seconds.
[[noreturn]] inline void complain_of_loop(const Lane& lane, const Line& line,
                                          const std::string& kernel, double seconds, Where launch) {
  fail_as<KernelError>(launch,
                       "{}{}block {}, thread {}: has run for {} seconds and has neither returned "
                       "nor come to a barrier. A loop whose "
                       "condition never changes? If it waits for another thread's flag: threads "
                       "take turns here, and the other "
                       "runs when this one waits in __syncthreads(), __syncwarp(), __nanosleep(), "
                       "atomicCAS() or atomicExch(). A kernel "
                       "that needs longer: emulator_options().patience",
                       line.number > 0 ? line.text() + ": " : "",
                       kernel.empty() ? "" : "kernel " + kernel + ", ", text(lane.block_index),
                       text(lane.thread), seconds);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
