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
  static Profile*& current();

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
  LineCounts global_reads() const;
  LineCounts global_writes() const;
  LineCounts shared_reads() const;
  LineCounts shared_writes() const;
  // Bytes that travel from and to global memory, whole sectors.
  int64_t global_bytes() const;
  int64_t flops() const;
  int64_t instructions(const std::string& name) const;

  // For a terminal.
  std::string table() const;

  // For the emulator.
  void add(const LineCounts& counts);
  void add_instructions(const std::string& name, int64_t count) { instructions_[name] += count; }
  void add_launch() { ++launches_; }

 private:
  static void add(LineCounts& to, const LineCounts& from);

  std::vector<LineCounts> lines_;
  std::map<std::string, int64_t> instructions_;
  int launches_ = 0;
  Profile* outer_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/impl/profile.ipp"
#endif
