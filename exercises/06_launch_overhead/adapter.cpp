// One solution of exercise 06 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::HostCall own(const exercise::HostCall& c) {
  student::HostCall made;
  made.kind = static_cast<student::CallKind>(c.kind);
  made.name = c.name, made.stream = c.stream, made.seconds = c.seconds, made.bytes = c.bytes;
  made.pinned = c.pinned, made.event = c.event, made.reads = c.reads, made.writes = c.writes;
  return made;
}
exercise::HostCall plain(const student::HostCall& c) {
  return {static_cast<int>(c.kind),
          c.name,
          c.stream,
          c.seconds,
          c.bytes,
          c.pinned,
          c.event,
          c.reads,
          c.writes};
}
std::vector<exercise::HostCall> plain(const std::vector<student::HostCall>& program) {
  std::vector<exercise::HostCall> made;
  for (const student::HostCall& call : program) made.push_back(plain(call));
  return made;
}

double hiding_seconds(double framework, double launch, double gap) {
  student::Host host;
  host.framework = framework, host.launch = launch, host.gap = gap;
  return student::hiding_seconds(host);
}

exercise::Queue step(exercise::Step which, exercise::Queue before, const exercise::HostCall& call,
                     double gap) {
  student::LaunchQueue queue;
  queue.now = before.now, queue.kernels = before.kernels, queue.copies = before.copies;
  queue.streams = before.streams, queue.events = before.events;
  const student::HostCall own_call = own(call);
  if (which == exercise::Step::run_kernel) queue.run_kernel(own_call, gap);
  if (which == exercise::Step::run_copy) queue.run_copy(own_call);
  if (which == exercise::Step::record_event) queue.record_event(own_call);
  if (which == exercise::Step::wait_event) queue.wait_event(own_call);
  if (which == exercise::Step::synchronize) queue.synchronize(own_call);
  exercise::Queue after = {queue.now, queue.kernels, queue.copies, queue.streams, queue.events, {}};
  for (const student::Span& span : queue.spans)
    after.spans.push_back({span.name, span.stream, span.issued, span.begin, span.end, span.reads,
                           span.writes, span.is_copy});
  return after;
}

std::vector<exercise::HostCall> overlapped_steps(double bytes,
                                                 const std::vector<exercise::HostCall>& step,
                                                 int steps) {
  std::vector<student::HostCall> kernels;
  for (const exercise::HostCall& call : step) kernels.push_back(own(call));
  return plain(student::overlapped_steps(bytes, kernels, steps));
}

std::vector<exercise::HostCall> replayed_steps(int input, double bytes,
                                               const std::vector<double>& batches) {
  student::LaunchGraph graph;
  graph.launch.kind = student::CallKind::graph, graph.launch.name = "graph";
  graph.input = input, graph.bytes = bytes;
  return plain(student::replayed_steps(graph, batches));
}

}  // namespace

const exercise::Solution exercise::solution = {hiding_seconds, step, overlapped_steps,
                                               replayed_steps};
