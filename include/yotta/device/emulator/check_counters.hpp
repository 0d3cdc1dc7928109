// Counters: turns the accesses of single lanes into requests of a warp, and counts sectors and wavefronts.
//
//     lane 0   line 41 at 1000, line 44 at 64, ...        request 1 = line 41: 1000, 1004, ..., 1124   4 sectors
//     lane 1   line 41 at 1004, line 44 at 64, ...        request 2 = line 44: 64, 64, ..., 64         1 wavefront
//     ...
//
// A GPU runs the lanes of a warp in step; here each runs ahead until it must wait. So each writes a log, and when all
// lanes of the warp stand, entries of one line that are the first, second, ... in their lane's log are one request.
// For lanes in step, that is simply the same place in all logs.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "yotta/device/emulator/check_faults.hpp"
#include "yotta/device/profile.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

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

// 8-byte accesses are served half a warp at a time, 16-byte ones a quarter.
YOTTA_UNSEEN inline int lanes_a_phase(size_t bytes) {
  return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
}

class Counters {
 public:
  static constexpr size_t log_length = 4096;

  // Writes down an access of a lane; true if its log is full then.
  YOTTA_UNSEEN bool add(int lane, const LogEntry& entry) {
    LogEntry*& log = logs_[lane];
    if (log == nullptr) log = new LogEntry[log_length];
    log[lengths_[lane]++] = entry;
    return lengths_[lane] == log_length;
  }

  // All lanes of a warp stand: their logs become requests.
  YOTTA_UNSEEN void read_logs() {
    size_t longest = 0;
    for (const size_t length : lengths_) longest = length > longest ? length : longest;
    if (longest == 0) return;
    size_t in_step = 0;
    while (in_step < longest && take_in_step(in_step)) ++in_step;
    if (in_step < longest) take_out_of_step(in_step);
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
    const int step = lanes_a_phase(kind.bytes);
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
    profile.add_launch();
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

  // The entries at this place of all logs that are as long, if they are of one kind.
  YOTTA_UNSEEN bool take_in_step(size_t place) {
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

  // Lanes went different ways: the n-th entry of a kind in each log.
  void take_out_of_step(size_t from) {
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

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
