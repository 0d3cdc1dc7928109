// The order of operations on streams: which of two kernels, copies or accesses of the host happen
// first whatever the timing, and which two touch the same bytes without any order.
//
//     host      launch f ── launch g ─ record e ─────── wait e ── launch h ───── synchronise ──
//     stream 1  [f: 1 0]   [g: 2 0] ──── e ────┐
//     stream 2                                 └─────────────── [h: 2 1]
//
// A clock counts, for each stream, the operations that have ended. An operation carries the clock
// of all that ends before it, itself included: h's is (2, 1), since event e has told stream 2 of
// both operations of stream 1. f happens before h, since h's clock has at least f's number in f's
// place. Without e, h's clock is (0, 1), and neither happens before the other.
//
// A footprint is what an operation touches: stretches of memory, each with the line that did it.
// Two operations without an order race if one writes (or allocates, or frees) what the other
// touches. Two atomic operations do not race.
//
// Cost: comparing two footprints takes time in proportion to the number of their stretches.
// References: Lamport, "Time, clocks, and the ordering of events in a distributed system", 1978;
// Mattern, "Virtual time and global states of distributed systems", 1989.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

// How many operations of each stream have ended.
class StreamClock {
 public:
  uint32_t of(size_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }
  void set(size_t stream, uint32_t count) {
    if (stream >= counts_.size()) counts_.resize(stream + 1);
    counts_[stream] = count;
  }
  // What either has seen.
  void join(const StreamClock& other) {
    for (size_t i = 0; i < other.counts_.size(); ++i) set(i, std::max(of(i), other.counts_[i]));
  }

 private:
  std::vector<uint32_t> counts_;
};

// What is done to a stretch of memory.
enum class MemoryUse : uint8_t { read, write, atomic, allocate, free };

struct Stretch {
  uintptr_t begin = 0;
  size_t bytes = 0;
  MemoryUse use = MemoryUse::read;
  uint32_t site = 0;  // the line: StreamOperation::line_of says which
  uintptr_t end() const { return begin + bytes; }
};

// All that an operation touches. Each list is sorted, and its stretches do not overlap.
struct Footprint {
  std::vector<Stretch> reads, writes;

  bool empty() const { return reads.empty() && writes.empty(); }
  void add(const Stretch& each) {
    std::vector<Stretch>& list = each.use == MemoryUse::read ? reads : writes;
    const bool grows = !list.empty() && list.back().end() == each.begin &&
                       list.back().use == each.use && list.back().site == each.site;
    if (grows)
      list.back().bytes += each.bytes;
    else
      list.push_back(each);
  }
};

// The first stretches of two sorted lists that overlap and may not be used at the same time.
inline std::pair<const Stretch*, const Stretch*> first_conflict(const std::vector<Stretch>& a,
                                                                const std::vector<Stretch>& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const bool apart = a[i].end() <= b[j].begin || b[j].end() <= a[i].begin;
    const bool atomic = a[i].use == MemoryUse::atomic && b[j].use == MemoryUse::atomic;
    if (!apart && !atomic) return {&a[i], &b[j]};
    ++(a[i].end() <= b[j].end() ? i : j);
  }
  return {};
}

// The same for two footprints: {of a, of b}, or two nulls.
inline std::pair<const Stretch*, const Stretch*> conflict(const Footprint& a, const Footprint& b) {
  if (const auto found = first_conflict(a.writes, b.writes); found.first != nullptr) return found;
  if (const auto found = first_conflict(a.writes, b.reads); found.first != nullptr) return found;
  return first_conflict(a.reads, b.writes);
}

// A kernel, a copy or another piece of work of a stream.
struct StreamOperation {
  std::string word;  // "cudaMemcpyAsync", "kernel"
  Where where;       // the line of the call
  std::function<void(StreamOperation&)> run = {};
  Footprint footprint = {};  // of a kernel: known once it has run, in the checked build
  std::function<std::string(uint32_t site)> line_of = {};  // of a kernel: "smooth.hpp:12"
  std::vector<const void*> pointers = {};                  // that it was given
  std::function<void()> forgotten = {};  // called when nothing can race with it any more
  bool in_issue_order = false;           // run after all that was issued before

  // Of its place among the others, when it has been issued:
  size_t stream = 0;             // its place in clocks
  uint32_t number = 0;           // in its stream, from 1
  uint64_t sequence = 0;         // among all
  std::string stream_name = {};  // for messages: "stream 2"
  StreamClock clock = {};
  std::vector<std::shared_ptr<StreamOperation>> waits = {};  // have ended before it begins
  bool done = false;

  bool before(const StreamClock& other) const { return other.of(stream) >= number; }
  std::string line(const Stretch& at) const {
    return line_of != nullptr && at.site != 0 ? line_of(at.site) : yotta::at(where);
  }
  // "(a kernel that x.cpp:12 launches, stream 1)"
  std::string name() const {
    if (line_of == nullptr) return fmt::format("({}, {})", word, stream_name);
    if (word != "kernel") return fmt::format("({} of {}, {})", word, yotta::at(where), stream_name);
    return fmt::format("(a kernel that {} launches, {})", yotta::at(where), stream_name);
  }
};

inline const char* verb(MemoryUse use) {
  switch (use) {
    case MemoryUse::read: return "reads";
    case MemoryUse::write: return "writes";
    case MemoryUse::atomic: return "changes atomically";
    case MemoryUse::allocate: return "allocates";
    case MemoryUse::free: return "frees";
  }
  return "?";
}

}  // namespace yotta
