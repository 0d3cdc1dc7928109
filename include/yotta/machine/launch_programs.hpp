// Programs that hide launch overhead: copies beside kernels, fewer and larger kernels, and graphs.
//
//     one stream   [copy 0][ step 0 ][copy 1][ step 1 ]
//
//     stream 1     [copy 0][copy 1]·······[copy 2]         two buffers, and two events for each:
//     stream 0             [ step 0 ][ step 1 ]            arrived: the step may read it
//                                                          used: the next copy may write it
//
//     graph        host  [g]              [g]              one launch replays what was captured,
//                  chip     [a][b][c][d]     [a][b][c][d]  with the same sizes and addresses
//
// Each function here makes a list of calls; simulate() of launch_overhead.hpp says how long it
// takes. Costs: overlapped steps take max(copy, step) each, not the sum; merging k kernels saves
// the host k - 1 times framework + launch, and the chip k - 1 gaps; a graph costs one launch.
//
// Contract: a missing event is no error on a chip, but a wrong value now and then: first_race()
// names it. A graph cannot hold what the host decides while it runs: capture() and
// replayed_steps() refuse that.
//
// References: NVIDIA, CUDA Programming Guide, "CUDA Graphs"; PyTorch, "CUDA semantics", CUDA graphs
// and their constraints.
#pragma once

#include "yotta/core/context.hpp"
#include "yotta/machine/launch_overhead.hpp"

namespace yotta {

// ---- The ops of real code ----
// Seconds of an op's kernel by the roofline, without its gap.
inline double kernel_seconds(const Chip& chip, const OpCost& cost) {
  const double compute = cost.flops > 0 ? cost.flops / peak(chip, cost.dtype) : 0;
  return std::max(compute, (cost.bytes_read + cost.bytes_written) / chip.bandwidth);
}

// Takes the place of a rank's clock, and writes down what is charged: a kernel an op.
class KernelList : public CostSink {
 public:
  explicit KernelList(const Chip& chip) : chip_(chip) {}
  void op(const OpCost& cost) override {
    calls.push_back(kernel(cost.name, kernel_seconds(chip_, cost)));
  }
  EventStamp send(const MessageCost&) override { return {}; }
  void receive(const MessageCost&, const EventStamp&) override {}
  EventStamp now(int) override { return {}; }
  void wait(int, const EventStamp&) override {}

  std::vector<HostCall> calls;

 private:
  const Chip& chip_;
};

// The kernels of what `body` does on this thread.
template <class Body>
std::vector<HostCall> recorded_kernels(const Chip& chip, Body&& body) {
  KernelList list(chip);
  CostSink* const before = std::exchange(context().clock, &list);
  body();
  context().clock = before;
  return list.calls;
}

// ---- Copies beside kernels ----
// Steps that need a batch each, naively: the step's kernels wait for the copy, the next copy for
// the kernels.
inline std::vector<HostCall> serial_steps(double bytes, std::span<const HostCall> step, int steps) {
  std::vector<HostCall> program;
  for (int done = 0; done < steps; ++done) {
    program.push_back(copy_to(0, "copy", bytes));
    for (HostCall call : step) {
      call.reads = 0;
      program.push_back(std::move(call));
    }
  }
  return program;
}

// The same with the copies on stream 1 and two buffers: batch i + 1 comes while step i computes.
// Two events a buffer keep them apart: its batch has arrived, and its batch has been used.
inline std::vector<HostCall> overlapped_steps(double bytes, std::span<const HostCall> step,
                                              int steps) {
  std::vector<HostCall> program;
  for (int i = 0; i < steps; ++i) {
    const int buffer = i % 2, arrived = buffer, used = 2 + buffer;
    program.push_back(wait_for(used, 1));
    program.push_back(copy_to(buffer, "copy", bytes, 1));
    program.push_back(record(arrived, 1));
    program.push_back(wait_for(arrived, 0));
    for (HostCall call : step) {
      call.reads = buffer;
      program.push_back(std::move(call));
    }
    program.push_back(record(used, 0));
  }
  return program;
}

// What an event was missing for: two spans that touch one buffer, at least one of them writing,
// where the one issued later began before the other had ended. Empty if there are none.
inline std::string first_race(std::span<const Span> spans) {
  for (size_t later = 0; later < spans.size(); ++later)
    for (size_t i = 0; i < later; ++i) {
      const Span &a = spans[i], &b = spans[later];
      const bool meet = (a.writes >= 0 && (a.writes == b.reads || a.writes == b.writes)) ||
                        (b.writes >= 0 && a.reads == b.writes);
      if (meet && b.begin < a.end)
        return fmt::format(
            "'{}' on stream {} begins at {:.2f} us, while '{}' on stream {} still "
            "uses buffer {}, until {:.2f} us",
            b.name, b.stream, 1e6 * b.begin, a.name, a.stream, std::max(a.writes, b.writes),
            1e6 * a.end);
    }
  return "";
}

// ---- Fewer, larger ops ----
// Kernels of one name that follow each other become one, which does the work of all: what foreach
// and fused optimizers do with one kernel a parameter.
inline std::vector<HostCall> merged(std::span<const HostCall> program, const std::string& name) {
  std::vector<HostCall> out;
  for (const HostCall& call : program) {
    const auto is_one = [&](const HostCall& c) {
      return c.kind == CallKind::kernel && c.name == name;
    };
    if (!out.empty() && is_one(call) && is_one(out.back()) && call.stream == out.back().stream)
      out.back().seconds += call.seconds;
    else
      out.push_back(call);
  }
  return out;
}

// ---- Graphs ----
// A recorded program that one call launches. It keeps what it was captured with: which kernels, how
// large, and where they read.
struct LaunchGraph {
  HostCall launch;
  int input = -1;    // the buffer that its first kernel reads
  double bytes = 0;  // that a batch has there
};

// Errors: what cannot be recorded, because the host would need an answer while nothing runs.
inline LaunchGraph capture(std::span<const HostCall> program, double bytes,
                           Where where = Where::current()) {
  LaunchGraph graph{{.kind = CallKind::graph, .name = "graph"}, -1, bytes};
  for (const HostCall& call : program) {
    if (call.kind == CallKind::synchronize)
      fail(where,
           "cudaErrorStreamCaptureUnsupported: the host waits for stream {} while it is captured, "
           "but a captured kernel does not run yet, so this would wait for ever\n    read the "
           "result after the launch of the graph",
           call.stream);
    if (call.kind == CallKind::graph)
      fail(where, "a graph inside a graph is not modelled here: capture its kernels");
    if (call.kind == CallKind::work) continue;  // happened once, while capturing: not in the graph
    if (graph.input < 0) graph.input = call.reads;
    graph.launch.captured.push_back(call);
  }
  return graph;
}

// Steps by replay. A graph reads the address that it was captured with, so each batch is copied
// there. Errors: a batch of another size, which a captured kernel does not know.
inline std::vector<HostCall> replayed_steps(const LaunchGraph& graph,
                                            std::span<const double> batches,
                                            Where where = Where::current()) {
  std::vector<HostCall> program;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i] != graph.bytes)
      fail(where,
           "batch {} has {} bytes, and the graph was captured with {}\n    pad the batch, or "
           "capture a graph for its shape",
           i, batches[i], graph.bytes);
    program.push_back(copy_to(graph.input, fmt::format("batch {}", i), batches[i]));
    program.push_back(graph.launch);
  }
  return program;
}

}  // namespace yotta
