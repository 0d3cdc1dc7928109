// The graded cases of exercise 06. Nothing runs here: a queue is a few numbers, and a program is a
// list of calls, which the library's simulate() times.
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/machine/launch_programs.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Queue;
using exercise::solution;
using exercise::Step;

namespace {

constexpr double us = 1e-6, ms = 1e-3;
constexpr int stream = 2;  // of the calls that are graded one by one

bool close(double got, double expected) { return std::abs(got - expected) <= 1e-11; }

// "7.3 us"
std::string time_text(double seconds) { return fmt::format("{:.6g} us", 1e6 * seconds); }

double of_stream(const Queue& queue, int number) {
  const auto found = queue.streams.find(number);
  return found == queue.streams.end() ? 0 : found->second;
}

// ---- 06.2 and 06.3

Queue queue_at(double now, double stream_end, double kernels, double copies) {
  Queue queue;
  queue.now = now, queue.kernels = kernels, queue.copies = copies;
  queue.streams = {{stream, stream_end}, {7, 900 * us}};
  return queue;
}

Queue after_kernel(const Queue& before, double seconds = 10 * us, double gap = 0.9 * us) {
  exercise::HostCall call;
  call.name = "add", call.stream = stream, call.seconds = seconds;
  call.reads = 3, call.writes = 4;
  const Queue after = solution.step(Step::run_kernel, before, call, gap);
  expect(after.spans.size() == 1,
         fmt::format("a kernel leaves one span in `spans`, yours {}", after.spans.size()));
  return after;
}

void expect_begin(double now, double stream_end, double chip, double gap = 0.9 * us) {
  const double ready = std::max({now, stream_end, chip}), expected = ready + gap;
  const double got = after_kernel(queue_at(now, stream_end, chip, 0), 10 * us, gap).spans[0].begin;
  std::string advice = "it begins a gap after the last of the three";
  if (gap != Host{}.gap && close(got, ready + Host{}.gap))
    advice = fmt::format("the argument `gap` is {} here: inside a graph it is not host.gap",
                         time_text(gap));
  else if (close(got, ready))
    advice = "the gap is missing: the chip spends it before every kernel";
  else if (got < now)
    advice = "that is before the host has issued it";
  else if (got < stream_end)
    advice = "work of one stream runs in order";
  else if (got < chip)
    advice = "the chip runs one kernel at a time, of whatever stream";
  expect(close(got, expected),
         fmt::format("the host issues a kernel at {}; its stream is busy until {}, and the chip is "
                     "busy until {}\n    it should begin at {}, yours begins at {}\n    {}",
                     time_text(now), time_text(stream_end), time_text(chip), time_text(expected),
                     time_text(got), advice));
}

Queue after_copy(const Queue& before, double bytes, bool pinned) {
  exercise::HostCall call;
  call.name = "copy", call.stream = stream, call.bytes = bytes, call.pinned = pinned;
  call.writes = 4;
  const Queue after = solution.step(Step::run_copy, before, call, 0);
  expect(after.spans.size() == 1,
         fmt::format("a copy leaves one span in `spans`, yours {}", after.spans.size()));
  return after;
}

void expect_copy_seconds(double bytes, bool pinned) {
  const exercise::Span span = after_copy(queue_at(100 * us, 0, 0, 0), bytes, pinned).spans[0];
  const Host host;
  const double rate = pinned ? host.pinned : host.pageable, got = span.end - span.begin;
  std::string advice;
  if (got == 0) advice = "\n    a copy takes no time here, but its bytes go through a wire";
  expect(close(got, bytes / rate),
         fmt::format("{:.3g} MB from {} memory at {:.0f} GB/s: expected {}, got {}{}", 1e-6 * bytes,
                     pinned ? "pinned" : "pageable", 1e-9 * rate, time_text(bytes / rate),
                     time_text(got), advice));
}

// ---- 06.7

std::vector<HostCall> own(const std::vector<exercise::HostCall>& program) {
  std::vector<HostCall> made;
  for (const exercise::HostCall& c : program) {
    HostCall call;
    call.kind = static_cast<CallKind>(c.kind);
    call.name = call.kind == CallKind::copy ? "copy" : "step";
    call.stream = c.stream, call.seconds = c.seconds, call.bytes = c.bytes;
    call.pinned = c.pinned, call.event = c.event, call.reads = c.reads, call.writes = c.writes;
    made.push_back(call);
  }
  return made;
}

std::vector<HostCall> of_kind(const std::vector<HostCall>& program, CallKind kind) {
  std::vector<HostCall> found;
  for (const HostCall& call : program)
    if (call.kind == kind) found.push_back(call);
  return found;
}

// So many steps of two kernels, 1 ms together, whose copies take so long.
std::vector<HostCall> overlapped(int steps, double copy_seconds) {
  exercise::HostCall half;
  half.name = "step", half.seconds = 0.5 * ms;
  const double bytes = copy_seconds * Host{}.pinned;
  const std::vector<HostCall> program = own(solution.overlapped_steps(bytes, {half, half}, steps));
  const std::vector<HostCall> copies = of_kind(program, CallKind::copy),
                              kernels = of_kind(program, CallKind::kernel);
  expect(copies.size() == static_cast<size_t>(steps) && kernels.size() == 2 * copies.size(),
         fmt::format("{} steps of two kernels: expected {} copies and {} kernels, got {} and {}",
                     steps, steps, 2 * steps, copies.size(), kernels.size()));
  for (const HostCall& copy : copies)
    expect(
        copy.bytes == bytes,
        fmt::format("a batch has {:.0f} bytes, and {:.0f} of them are copied", bytes, copy.bytes));
  for (size_t i = 0; i < kernels.size(); ++i)
    expect(kernels[i].reads == copies[i / 2].writes,
           fmt::format("kernel {} of step {} reads buffer {}, but its batch was copied into {}",
                       i % 2, i / 2, kernels[i].reads, copies[i / 2].writes));
  return program;
}

// What is wrong with the events that this stream waits for; empty if nothing is seen.
std::string about_events(const std::vector<HostCall>& program, int waits) {
  const char* const work[] = {"no copy", "no kernel"};
  for (const HostCall& call : program)
    if (call.kind == CallKind::wait && call.stream == waits)
      for (const HostCall& other : program)
        if (other.kind == CallKind::record && other.event == call.event && other.stream == waits)
          return fmt::format(
              "\n    stream {0} waits for event {1}, which is recorded on stream {0}, which has "
              "{2}: record it where the work is that it stands for",
              waits, call.event, work[waits == 0 ? 0 : 1]);
  return fmt::format("\n    before it, stream {} needs a wait for an event of the other stream",
                     waits);
}

void expect_no_race(int steps, double copy_seconds, const char* later, int waits) {
  const std::vector<HostCall> program = overlapped(steps, copy_seconds);
  const std::string race = first_race(simulate(program).spans);
  expect(!race.starts_with(later), race + about_events(program, waits));
}

// ---- 06.8

constexpr int input = 3;

// What each launch of the graph finds in its buffer: a batch, -1 if nothing was copied there.
void expect_own_batches(int steps) {
  const std::vector<double> batches(static_cast<size_t>(steps), 1e6);
  int copied = 0, inside = -1, replay = 0;
  bool ever = false;
  std::vector<HostCall> program = own(solution.replayed_steps(input, 1e6, batches));
  for (const HostCall& call : program) ever |= call.kind == CallKind::copy && call.writes == input;
  for (const HostCall& call : program) {
    if (call.kind == CallKind::copy) {
      expect(call.bytes == 1e6,
             fmt::format("a batch has 1000000 bytes, and {:.0f} of them are copied", call.bytes));
      if (call.writes == input) inside = copied;
      ++copied;
    }
    if (call.kind != CallKind::graph) continue;
    const std::string advice =
        !ever ? "a graph reads the address that it was captured with: copy the batch there"
              : "the copy of its batch comes before the launch";
    expect(inside == replay,
           inside < 0 ? fmt::format("replay {} reads buffer {}, which nobody wrote\n    {}", replay,
                                    input, advice)
                      : fmt::format("replay {} reads batch {}\n    {}", replay, inside, advice));
    ++replay;
  }
  expect(replay == steps, fmt::format("{} batches, {} launches", steps, replay));
  for (HostCall& call : program)
    if (call.kind == CallKind::graph) call.captured = {kernel("graph", ms, 0, input)};
  const std::string race = first_race(simulate(program).spans);
  expect(race.empty(), race +
                           "\n    the graph is launched on stream 0, and knows nothing of other "
                           "streams: copy on stream 0, or order the two by events");
}

}  // namespace

TEST_CASE("06.1: the chip's time for a kernel is the host's for the next") {
  for (const auto& [framework, launch, gap] :
       {std::tuple{6 * us, 2.2 * us, 0.9 * us}, {0.0, 2 * us, 0.5 * us}, {20 * us, 5 * us, 0.0}}) {
    const double got = solution.hiding_seconds(framework, launch, gap),
                 expected = framework + launch - gap;
    std::string advice;
    if (close(got, framework + launch))
      advice = "\n    the chip spends a gap on every kernel too, so a shorter one will do";
    if (close(got, launch - gap))
      advice = "\n    the framework takes its time before it launches anything";
    expect(close(got, expected),
           fmt::format("framework {}, launch {}, gap {}: expected {}, got {}{}",
                       time_text(framework), time_text(launch), time_text(gap), time_text(expected),
                       time_text(got), advice));
  }
}

TEST_CASE("06.2: the host does not wait for a kernel") {
  const double got = after_kernel(queue_at(100 * us, 50 * us, 80 * us, 0)).now;
  expect(
      close(got, 100 * us),
      fmt::format("the host is at 100 us, and after the launch at {}\n    a launch only puts the "
                  "kernel into a queue: what the host pays for it was added before",
                  time_text(got)));
}

TEST_CASE("06.2: it begins when host, stream and chip are ready") {
  expect_begin(100 * us, 50 * us, 80 * us);
  expect_begin(100 * us, 250 * us, 80 * us);
  expect_begin(100 * us, 50 * us, 300 * us);
  expect_begin(100 * us, 400 * us, 300 * us);
  expect_begin(100 * us, 50 * us, 80 * us, 0.5 * us);
}

TEST_CASE("06.2: stream and chip are busy until it ends") {
  const Queue after = after_kernel(queue_at(100 * us, 50 * us, 80 * us, 70 * us));
  const exercise::Span span = after.spans[0];
  expect(close(span.end - span.begin, 10 * us),
         fmt::format("a kernel of 10 us has a span of {}", time_text(span.end - span.begin)));
  expect(span.name == "add" && span.stream == stream && close(span.issued, 100 * us),
         "its span has its name, its stream, and when the host issued it: `now`");
  expect(span.reads == 3 && span.writes == 4,
         fmt::format("the kernel reads buffer 3 and writes buffer 4, its span says {} and {}\n    "
                     "without them no race is ever found: call.reads, call.writes",
                     span.reads, span.writes));
  expect(close(of_stream(after, stream), span.end),
         fmt::format("the kernel ends at {}, its stream is said to be free at {}",
                     time_text(span.end), time_text(of_stream(after, stream))));
  expect(close(after.kernels, span.end),
         fmt::format("the kernel ends at {}, the chip is said to be free at {}",
                     time_text(span.end), time_text(after.kernels)));
  expect(close(of_stream(after, 7), 900 * us) && close(after.copies, 70 * us),
         "other streams, and the copy engine, are as they were");
}

TEST_CASE("06.3: bytes take their time") {
  for (const int bytes : exercise::sizes<int>({25'000'000, 1000, 0}, 1 << 10, 1 << 20)) {
    expect_copy_seconds(bytes, true);
    expect_copy_seconds(bytes, false);
  }
}

TEST_CASE("06.3: who waits for a copy") {
  const Queue before = queue_at(100 * us, 150 * us, 0, 0);
  const Queue pinned = after_copy(before, 8e6, true), pageable = after_copy(before, 8e6, false);
  expect(
      close(pinned.now, 100 * us),
      fmt::format("the host is at 100 us, and after the copy at {}\n    a copy from pinned memory "
                  "runs by itself: the host goes on",
                  time_text(pinned.now)));
  const double end = pageable.spans[0].end;
  expect(close(pageable.now, end),
         fmt::format("a copy from pageable memory ends at {}; the host goes on at {}\n    through "
                     "such memory the host moves the bytes itself, and goes on when they are there",
                     time_text(end), time_text(pageable.now)));
  expect(close(pageable.spans[0].issued, 100 * us),
         fmt::format("the host, at 100 us, issues a copy from pageable memory; its span says {}"
                     "\n    `now` moves on behind the span",
                     time_text(pageable.spans[0].issued)));
}

TEST_CASE("06.3: a copy runs beside kernels, behind other copies") {
  const auto begin = [](double stream_end, double kernels, double copies) {
    return after_copy(queue_at(100 * us, stream_end, kernels, copies), 25e3, true).spans[0].begin;
  };
  expect(close(begin(0, 500 * us, 0), 100 * us),
         "the chip computes until 500 us, and the copy waits for that: it runs beside kernels");
  expect(close(begin(0, 0, 300 * us), 300 * us),
         "another copy is under way until 300 us, and there is one copy engine");
  expect(close(begin(250 * us, 0, 0), 250 * us),
         "its stream is busy until 250 us: work of one stream runs in order");
  for (const bool pinned : {true, false}) {
    const Queue after = after_copy(queue_at(100 * us, 0, 40 * us, 0), 25e3, pinned);
    const exercise::Span span = after.spans[0];
    expect(close(of_stream(after, stream), span.end) && close(after.copies, span.end),
           fmt::format("a copy from {} memory ends at {}: its stream and the copy engine are busy "
                       "until it ends, yours until {} and {}",
                       pinned ? "pinned" : "pageable", time_text(span.end),
                       time_text(of_stream(after, stream)), time_text(after.copies)));
    expect(close(after.kernels, 40 * us), "a copy leaves the time of the kernels as it was");
    expect(span.writes == 4 && span.reads < 0,
           fmt::format("the copy writes buffer 4 of the chip and reads none, its span says {} and "
                       "{}\n    without it no race is ever found: call.writes",
                       span.writes, span.reads));
    expect(span.is_copy, "its span is not marked as that of a copy, so it counts as computing");
  }
}

TEST_CASE("06.4: an event happens when its stream has got there") {
  exercise::HostCall call;
  call.stream = stream, call.event = 5;
  for (const double stream_end : {400 * us, 20 * us}) {
    const Queue after =
        solution.step(Step::record_event, queue_at(100 * us, stream_end, 0, 0), call, 0);
    const double expected = std::max(100 * us, stream_end);
    expect(after.events.count(5) == 1, "`events` has no entry for event 5");
    const double got = after.events.at(5);
    const char* const advice =
        stream_end > 100 * us ? "an event that is recorded has not happened yet: it stands behind "
                                "all that its stream has been given"
                              : "that is before the host has recorded it";
    expect(
        close(got, expected),
        fmt::format("the host, at 100 us, records event 5 on a stream that is busy until {}\n    "
                    "it happens at {}, yours at {}: {}",
                    time_text(stream_end), time_text(expected), time_text(got), advice));
  }
}

TEST_CASE("06.5: the stream waits, and the host does not") {
  exercise::HostCall call;
  call.stream = stream, call.event = 5;
  for (const double event : {400 * us, 40 * us}) {
    Queue before = queue_at(100 * us, 50 * us, 0, 0);
    before.events = {{5, event}};
    const Queue after = solution.step(Step::wait_event, before, call, 0);
    expect(close(after.now, 100 * us),
           fmt::format("the host has moved from 100 us to {}\n    that would be "
                       "cudaEventSynchronize; with cudaStreamWaitEvent the stream waits alone",
                       time_text(after.now)));
    const double got = of_stream(after, stream), expected = std::max(50 * us, event);
    expect(close(got, expected),
           fmt::format("the stream is busy until 50 us, the event happens at {}: what comes next "
                       "begins at {}, yours at {}{}",
                       time_text(event), time_text(expected), time_text(got),
                       got < 50 * us ? "\n    a stream does not go back in time" : ""));
  }
}

TEST_CASE("06.6: for an event, or for all of a stream") {
  for (const int event : {-1, 5, 0}) {
    Queue before = queue_at(100 * us, 500 * us, 0, 0);
    const int happens = std::max(event, 0);
    before.events = {{happens, 200 * us}};
    exercise::HostCall call;
    call.stream = stream, call.event = event;
    const double got = solution.step(Step::synchronize, before, call, 0).now,
                 done = event < 0 ? 500 * us : 200 * us, expected = done + Host{}.completion;
    std::string advice;
    if (close(got, done)) advice = "\n    then it must notice: host.completion";
    if (event >= 0 && got > 500 * us)
      advice = event == 0
                   ? "\n    event 0 is an event like any other; -1 stands for none"
                   : "\n    it waits for the event alone: what its stream does later is no matter";
    expect(close(got, expected),
           fmt::format("a stream that is busy until 500 us, and event {} at 200 us: the host waits "
                       "for {} and goes on at {}, yours at {}{}",
                       happens, event < 0 ? "the stream" : "the event", time_text(expected),
                       time_text(got), advice));
  }
}

TEST_CASE("06.6: what is over is not waited for") {
  exercise::HostCall call;
  call.stream = stream;
  const double got =
      solution.step(Step::synchronize, queue_at(100 * us, 30 * us, 0, 0), call, 0).now;
  const double expected = 100 * us + Host{}.completion;
  expect(
      close(got, expected),
      fmt::format("the host, at 100 us, waits for a stream that was done at 30 us: it goes on at "
                  "{}, yours at {}{}",
                  time_text(expected), time_text(got),
                  got < 100 * us ? "\n    the host does not go back in time" : ""));
}

TEST_CASE("06.7: no step reads a buffer that is still being written") {
  for (const int steps : exercise::sizes<int>({5, 1, 2}, 3, 12))
    expect_no_race(steps, 2 * ms, "'step'", 0);
}

TEST_CASE("06.7: no copy overwrites a buffer that is still being read") {
  for (const int steps : exercise::sizes<int>({6, 3}, 4, 12))
    expect_no_race(steps, 0.3 * ms, "'copy'", 1);
}

TEST_CASE("06.7: step i uses buffer i % 2") {
  const std::vector<HostCall> copies = of_kind(overlapped(5, 0.5 * ms), CallKind::copy);
  for (size_t i = 0; i < copies.size(); ++i)
    expect(copies[i].writes == static_cast<int>(i % 2),
           fmt::format("batch {} is copied into buffer {}, and not into {}: there are two buffers, "
                       "whose memory was allocated before",
                       i, copies[i].writes, i % 2));
}

TEST_CASE("06.7: copies hide behind steps") {
  const int steps = 8;
  const std::vector<HostCall> program = overlapped(steps, 0.9 * ms);
  const size_t waits = of_kind(program, CallKind::synchronize).size();
  expect(waits == 0,
         fmt::format("the host waits {} times for the chip\n    let the streams wait for "
                     "each other: wait_for(event, stream)",
                     waits));
  const std::vector<HostCall> copies = of_kind(program, CallKind::copy);
  const double got = simulate(program).seconds, expected = 0.9 * ms + steps * ms;
  std::string advice = "\n    look for a wait that is not needed";
  if (copies[0].stream == of_kind(program, CallKind::kernel)[0].stream)
    advice =
        "\n    copies and kernels are on one stream, and a stream does one thing after the other";
  else if (copies[0].writes == copies[1].writes)
    advice = fmt::format("\n    all batches share buffer {}: the next copy must wait for the step",
                         copies[0].writes);
  expect(got < 1.03 * expected,
         fmt::format("{} steps of 1 ms, with copies of 0.9 ms: {:.2f} ms if a copy runs beside the "
                     "step before, {:.2f} ms in yours{}",
                     steps, 1e3 * expected, 1e3 * got, advice));
}

TEST_CASE("06.8: each replay reads its own batch") {
  for (const int steps : exercise::sizes<int>({3, 1}, 2, 9)) expect_own_batches(steps);
}

TEST_CASE("06.8: another shape is refused") {
  for (const double other : {5e5, 2e6}) {
    bool refused = false;
    try {
      solution.replayed_steps(input, 1e6, {1e6, other});
    } catch (const NotDone&) {
      throw;
    } catch (const Error&) {
      refused = true;
    }
    expect(refused,
           fmt::format("a graph that was captured for 1000000 bytes gets a batch of {:.0f}, "
                       "and says nothing\n    its kernels have the sizes of their capture: "
                       "fail(where, ...)",
                       other));
  }
}
