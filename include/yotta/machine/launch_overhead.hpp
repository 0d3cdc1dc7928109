// Launch overhead: a host issues kernels, a chip runs them, and the slower of the two sets the
// pace.
//
// A call such as matmul(a, b) does not compute. The host prepares it, puts a kernel into a queue, a
// stream, and goes on. The chip takes kernels from the queue. With large kernels the host is ahead
// and its cost is hidden; with small ones the chip waits for the host:
//
//     host       [a][b][c][d]                    host       [ a ][ b ][ c ][ d ]
//     stream 0      [  a  ][  b  ][  c  ]...     stream 0        [a]··[b]··[c]··[d]
//                large: the chip is the limit               small: the host is the limit
//
// Cost of n kernels of s seconds: about n max(s + gap, framework + launch). What makes it less is
// in launch_programs.hpp; what makes it more is a synchronisation, which empties the queue.
//
// The program is data, a list of calls, and simulate() is a pure function of it. Contract:
//   - work of one stream runs in order; streams wait for each other only through events;
//   - the chip runs one kernel at a time, and one copy beside it, each in the order of issue;
//   - record and wait cost the host nothing; no queue is ever full.
//
// References: NVIDIA, "Getting Started with CUDA Graphs" (2019): kernels of 2.9 us take 9.6 us each
// with a synchronisation after each, 3.8 us without, 3.4 us as a graph. NVIDIA, CUDA Programming
// Guide, "Asynchronous Concurrent Execution".
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/machine/roofline.hpp"

namespace yotta {

// What a host and the way to its chip cost. Fitted to NVIDIA's figures above: launch + completion
// to the first, gap to the second, graph_gap to the third. The others are assumptions.
struct Host {
  double framework = 6e-6;      // seconds an op, before its launch: PyTorch takes some 5 to 10 us
  double launch = 2.2e-6;       // seconds that the host is busy with one launch
  double completion = 3.6e-6;   // from the end of what a host waits for until it goes on
  double graph_launch = 10e-6;  // seconds of one launch of a whole graph
  double gap = 0.9e-6;          // of the chip, before each kernel: Chip::launch_overhead
  double graph_gap = 0.5e-6;    // the same inside a graph
  double pinned = 25e9;         // bytes/s from pinned memory: PCIe 4.0 x16
  double pageable = 8e9;        // bytes/s from ordinary memory, through a pinned buffer
};

// ---- The program ----
enum class CallKind : uint8_t { kernel, copy, record, wait, synchronize, work, graph };

// One call of the host. Buffers and events are numbers; -1: none. CUDA's names stand with the
// functions below.
struct HostCall {
  CallKind kind = CallKind::kernel;
  std::string name = {};
  int stream = 0;
  double seconds = 0;                   // of a kernel, on the chip; of work, on the host
  double bytes = 0;                     // of a copy to the chip
  bool pinned = true;                   // of a copy: its source
  int event = -1;                       // of record, wait and synchronize
  int reads = -1, writes = -1;          // buffers on the chip
  std::vector<HostCall> captured = {};  // of a graph
};

inline HostCall kernel(std::string name, double seconds, int stream = 0, int reads = -1) {
  return {.name = std::move(name), .stream = stream, .seconds = seconds, .reads = reads};
}
// cudaMemcpyAsync, from the host into a buffer.
inline HostCall copy_to(int buffer, std::string name, double bytes, int stream = 0,
                        bool pinned = true) {
  return {.kind = CallKind::copy,
          .name = std::move(name),
          .stream = stream,
          .bytes = bytes,
          .pinned = pinned,
          .writes = buffer};
}
// cudaEventRecord: the event happens when all that the stream was given so far is done.
inline HostCall record(int event, int stream) {
  return {.kind = CallKind::record, .stream = stream, .event = event};
}
// cudaStreamWaitEvent: what the stream is given from now on begins after the event.
inline HostCall wait_for(int event, int stream) {
  return {.kind = CallKind::wait, .stream = stream, .event = event};
}
// cudaStreamSynchronize, or with an event cudaEventSynchronize: the host waits.
inline HostCall synchronize(int stream = 0, int event = -1) {
  return {.kind = CallKind::synchronize, .name = "wait", .stream = stream, .event = event};
}
// The host's own work: reading a file, counting tokens.
inline HostCall host_work(std::string name, double seconds) {
  return {.kind = CallKind::work, .name = std::move(name), .seconds = seconds};
}

// ---- Its run ----
struct Span {
  std::string name;
  int stream;  // host_row: of the host
  double issued, begin, end;
  int reads = -1, writes = -1;
  bool is_copy = false;
};
inline constexpr int host_row = -1;

// The state of host and chip while a program runs.
struct LaunchQueue {
  Host host = {};
  double now = 0;                      // how far the host has come
  double kernels = 0, copies = 0;      // until when the chip's two engines are busy
  std::map<int, double> streams = {};  // when a stream will have done all that it was given
  std::map<int, double> events = {};   // when a recorded event happens
  std::vector<Span> spans = {};        // in the order of issue

  // The chip's part of a kernel that is issued now: it begins when its stream and the chip are
  // free, a gap later.
  void run_kernel(const HostCall& call, double gap) {
    double& stream = streams[call.stream];
    const double begin = std::max({now, stream, kernels}) + gap;
    stream = kernels = begin + call.seconds;
    spans.push_back({call.name, call.stream, now, begin, stream, call.reads, call.writes});
  }

  // A copy runs beside kernels. From pageable memory the host itself moves the bytes, and waits.
  void run_copy(const HostCall& call) {
    double& stream = streams[call.stream];
    const double begin = std::max({now, stream, copies});
    stream = copies = begin + call.bytes / (call.pinned ? host.pinned : host.pageable);
    spans.push_back({call.name, call.stream, now, begin, stream, -1, call.writes, true});
    if (!call.pinned) now = stream;
  }

  void record_event(const HostCall& call) {
    events[call.event] = std::max(now, streams[call.stream]);
  }

  // An event that was never recorded has happened already, as in CUDA.
  void wait_event(const HostCall& call) {
    double& stream = streams[call.stream];
    stream = std::max(stream, events[call.event]);
  }

  // The host stands still until the stream, or the event, has come; then it must notice.
  void synchronize(const HostCall& call) {
    const double done = call.event >= 0 ? events[call.event] : streams[call.stream];
    now = std::max(now, done) + host.completion;
  }

  // One launch for all that was captured. Events inside keep their order.
  void replay(const HostCall& graph) {
    for (const HostCall& call : graph.captured) {
      if (call.kind == CallKind::kernel) run_kernel(call, host.graph_gap);
      if (call.kind == CallKind::copy) run_copy(call);
      if (call.kind == CallKind::record) record_event(call);
      if (call.kind == CallKind::wait) wait_event(call);
    }
  }

  void issue(const HostCall& call) {
    const double before = now;
    if (call.kind == CallKind::kernel || call.kind == CallKind::copy)
      now += host.framework + host.launch;
    if (call.kind == CallKind::graph) now += host.graph_launch;
    if (call.kind == CallKind::work) now += call.seconds;
    if (call.kind == CallKind::kernel) run_kernel(call, host.gap);
    if (call.kind == CallKind::copy) run_copy(call);
    if (call.kind == CallKind::record) record_event(call);
    if (call.kind == CallKind::wait) wait_event(call);
    if (call.kind == CallKind::synchronize) synchronize(call);
    if (call.kind == CallKind::graph) replay(call);
    if (now > before) spans.push_back({call.name, host_row, before, before, now});
  }
};

struct LaunchRun {
  std::vector<Span> spans;
  double seconds = 0;  // until host and chip have ended
  double host = 0;     // until the host has issued all
  double busy = 0;     // in which a kernel computed
  double busy_share() const { return busy / seconds; }
};

inline LaunchRun simulate(std::span<const HostCall> program, const Host& host = {}) {
  LaunchQueue queue{host};
  for (const HostCall& call : program) queue.issue(call);
  LaunchRun run{std::move(queue.spans), queue.now, queue.now, 0};
  for (const Span& span : run.spans) {
    run.seconds = std::max(run.seconds, span.end);
    if (span.stream != host_row && !span.is_copy) run.busy += span.end - span.begin;
  }
  return run;
}

// ---- The size at which overhead disappears ----
// A kernel of this many seconds keeps the chip busy for as long as the host needs to issue the
// next: s + gap = framework + launch. Shorter ones leave it idle.
constexpr double hiding_seconds(const Host& host) {
  return host.framework + host.launch - host.gap;
}
// As bytes that a memory-bound kernel moves, and as the side of a square matmul.
constexpr double hiding_bytes(const Host& host, const Roofline& chip) {
  return hiding_seconds(host) * chip.bandwidth;
}
inline double hiding_matmul(const Host& host, const Roofline& chip) {
  return std::cbrt(hiding_seconds(host) * chip.peak / 2);
}
// Seconds of n equal kernels, one after the other: the slower of host and chip, then the other's
// last part.
constexpr double launched_seconds(const Host& host, double n, double seconds) {
  const double issue = host.framework + host.launch, run = host.gap + seconds;
  return n * std::max(issue, run) + std::min(issue, run);
}

// ---- A picture ----
// One row for the host and one a stream, `width` cells for `seconds` from the beginning. A cell
// shows the first letter of what happens in its middle; '·' is idle.
inline std::string timeline_rows(std::span<const Span> spans, double seconds, int width = 72) {
  std::map<int, std::vector<std::string>> rows;
  for (const Span& span : spans) {
    auto& cells = rows.try_emplace(span.stream, static_cast<size_t>(width), "·").first->second;
    for (int i = 0; i < width; ++i) {
      const double middle = seconds * (i + 0.5) / width;
      if (span.begin <= middle && middle < span.end)
        cells[static_cast<size_t>(i)] = span.name.substr(0, 1);
    }
  }
  std::string text;
  for (const auto& [stream, cells] : rows) {
    text += stream == host_row ? "host      " : fmt::format("stream {}  ", stream);
    for (const std::string& cell : cells) text += cell;
    text += '\n';
  }
  return text;
}

}  // namespace yotta
