// Profile: what kernels did to memory, line by line, as a profiler's source view shows it.
//
//     Profile profile;                      counts every launch of this thread while it lives
//     launch(kernel, ...);
//     fmt::print("{}", profile.table());
//
//     line           access         requests  sectors/request  wavefronts/request     bytes   FLOPs
//     matmul.hpp:41  read  global       2048              4.0                   -    262144       -
//     matmul.hpp:44  read  shared      65536                -                 1.0   8388608       -
//
// request       one instruction of a warp: the accesses of its lanes together
// sector        32 bytes of global memory, the smallest piece that is fetched. 32 lanes that read
//               4-byte neighbours need 4 sectors: coalesced. Lanes that walk down a column need 32.
// wavefront     one pass over the 32 banks of shared memory, each 4 bytes wide. Two words in one
//               bank need two: a bank conflict. Lanes that read the same word share it. 16-byte
//               reads need 4 passes at best.
//
// The counts come from kernels of the checked build (emulator/device_build.hpp); others leave the
// profile empty. They say what a GPU would be asked to do, not how long it takes; caches are not
// modelled.
// Reference: NVIDIA, Nsight Compute documentation, "Memory Tables".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/system/build.hpp"

namespace yotta {

// What one line did; a line that reads and writes, or touches both memories, has several.
struct LineCounts {
  std::string file;
  int line = 0;
  bool shared = false;  // else global memory
  bool write = false;   // else read; atomic operations count as writes
  int64_t requests = 0;
  int64_t accesses = 0;          // of single threads
  int64_t bytes = 0;             // that threads asked for
  int64_t sectors = 0;           // global memory: fetched or written, 32 bytes each
  int64_t wavefronts = 0;        // shared memory
  int64_t ideal_wavefronts = 0;  // without bank conflicts
  int64_t flops = 0;

  double sectors_per_request() const { return ratio(sectors, requests); }
  double wavefronts_per_request() const { return ratio(wavefronts, requests); }
  bool conflict_free() const { return wavefronts == ideal_wavefronts; }

 private:
  static double ratio(int64_t a, int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  }
};

class Profile {
 public:
  Profile() : outer_(std::exchange(current(), this)) {}
  ~Profile() { current() = outer_; }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // The profile that counts this thread's launches, or null.
  YOTTA_API static Profile*& current();

  // Sorted by file and line.
  const std::vector<LineCounts>& lines() const { return lines_; }
  const std::map<std::string, int64_t>& instructions() const { return instructions_; }
  int launches() const { return launches_; }

  // Sums over lines that satisfy wanted(line).
  template <class Wanted>
  LineCounts sum(Wanted wanted) const {
    LineCounts total;
    for (const LineCounts& each : lines_)
      if (wanted(each)) add(total, each);
    return total;
  }
  YOTTA_API LineCounts global_reads() const;
  YOTTA_API LineCounts global_writes() const;
  YOTTA_API LineCounts shared_reads() const;
  YOTTA_API LineCounts shared_writes() const;
  // Bytes that travel from and to global memory, whole sectors.
  YOTTA_API int64_t global_bytes() const;
  YOTTA_API int64_t flops() const;
  YOTTA_API int64_t instructions(const std::string& name) const;

  // For a terminal.
  YOTTA_API std::string table() const;

  // For the emulator.
  YOTTA_API void add(const LineCounts& counts);
  void add_instructions(const std::string& name, int64_t count) { instructions_[name] += count; }
  void add_launch() { ++launches_; }

 private:
  YOTTA_API static void add(LineCounts& to, const LineCounts& from);

  std::vector<LineCounts> lines_;
  std::map<std::string, int64_t> instructions_;
  int launches_ = 0;
  Profile* outer_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(device)

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace yotta {

Profile*& Profile::current() {
  static thread_local Profile* profile = nullptr;
  return profile;
}

LineCounts Profile::global_reads() const {
  return sum([](auto& x) { return !x.shared && !x.write; });
}

LineCounts Profile::global_writes() const {
  return sum([](auto& x) { return !x.shared && x.write; });
}

LineCounts Profile::shared_reads() const {
  return sum([](auto& x) { return x.shared && !x.write; });
}

LineCounts Profile::shared_writes() const {
  return sum([](auto& x) { return x.shared && x.write; });
}

int64_t Profile::global_bytes() const {
  return 32 * (global_reads().sectors + global_writes().sectors);
}

int64_t Profile::flops() const {
  return sum([](auto&) { return true; }).flops;
}

int64_t Profile::instructions(const std::string& name) const {
  const auto found = instructions_.find(name);
  return found == instructions_.end() ? 0 : found->second;
}

inline std::string row_of(const LineCounts& x) {
  const auto number = [](double value, bool has) {
    return has ? fmt::format("{:.1f}", value) : std::string("-");
  };
  const auto count = [](int64_t value) {
    return value > 0 ? fmt::format("{}", value) : std::string("-");
  };
  const bool memory = x.requests > 0;
  const std::string access =
      memory ? fmt::format("{:<5} {}", x.write ? "write" : "read", x.shared ? "shared" : "global")
             : "";
  return fmt::format(
      "{:<24} {:<13} {:>9} {:>15} {:>18} {:>10} {:>10}\n", fmt::format("{}:{}", x.file, x.line),
      access, count(x.requests), number(x.sectors_per_request(), memory && !x.shared),
      number(x.wavefronts_per_request(), memory && x.shared), count(x.bytes), count(x.flops));
}

std::string Profile::table() const {
  std::string text =
      fmt::format("{:<24} {:<13} {:>9} {:>15} {:>18} {:>10} {:>10}\n", "line", "access", "requests",
                  "sectors/request", "wavefronts/request", "bytes", "FLOPs");
  for (const LineCounts& each : lines_) text += row_of(each);
  for (const auto& [name, count] : instructions_)
    text += fmt::format("{:<38} {:>9}\n", name, count);
  return text;
}

// The order of a profile.
inline auto key(const LineCounts& x) {
  return std::tuple(std::string_view(x.file), x.line, x.shared, x.write);
}

void Profile::add(const LineCounts& counts) {
  const auto before = [](const LineCounts& a, const LineCounts& b) { return key(a) < key(b); };
  const auto at = std::lower_bound(lines_.begin(), lines_.end(), counts, before);
  if (at != lines_.end() && key(*at) == key(counts)) return add(*at, counts);
  lines_.insert(at, counts);
}

void Profile::add(LineCounts& to, const LineCounts& from) {
  to.requests += from.requests;
  to.accesses += from.accesses;
  to.bytes += from.bytes;
  to.sectors += from.sectors;
  to.wavefronts += from.wavefronts;
  to.ideal_wavefronts += from.ideal_wavefronts;
  to.flops += from.flops;
}

}  // namespace yotta

#endif  // YOTTA_BODIES
