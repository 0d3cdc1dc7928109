// The bodies of device/emulator/stream_queue.hpp.
#pragma once

#include "yotta/device/emulator/stream_queue.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "yotta/core/random.hpp"
#include "yotta/device/emulator/global_memory.hpp"

namespace yotta {

// ---- What is said ----

// Two uses of the same bytes that nothing orders.
struct StreamRace {
  std::string first, first_line, second, second_line;  // names and lines, as they were issued
  MemoryUse first_use, second_use;
  uintptr_t begin;
  size_t bytes;
};

inline std::string cure_of(const StreamRace& race, bool host) {
  if (host)
    return "Let the host wait first: cudaStreamSynchronize of that stream, or cudaEventSynchronize "
           "of an event recorded after it";
  if (race.first_use == MemoryUse::allocate)
    return "Memory of cudaMallocAsync exists from there on in the order of its stream: record an "
           "event after it, and let the other stream wait for it";
  if (race.second_use == MemoryUse::free)
    return "Free it on the stream that uses it last, or let this stream wait for an event recorded "
           "after the last use";
  return "Record an event after the first on its stream (cudaEventRecord), and let the second's "
         "stream wait for it (cudaStreamWaitEvent)";
}

[[noreturn]] inline void fail_for_race(const StreamRace& race, bool host, Where where) {
  fail_as<StreamError>(
      where, "race{}: line {} {} {} what line {} {} {}: {}. Nothing orders the two. {}",
      host ? " between host and stream" : " between streams", race.second_line, race.second,
      verb(race.second_use), race.first_line, race.first, verb(race.first_use),
      DeviceMemory::instance().describe(reinterpret_cast<const void*>(race.begin), race.bytes),
      cure_of(race, host));
}

// The bytes that two stretches share.
inline std::pair<uintptr_t, size_t> common(const Stretch& a, const Stretch& b) {
  const uintptr_t begin = std::max(a.begin, b.begin);
  return {begin, std::min(a.end(), b.end()) - begin};
}

// Fails if the two, issued in this order, touch the same bytes in a way that needs an order.
inline void check_unordered(const StreamOperation& first, const StreamOperation& second) {
  const auto [a, b] = conflict(first.footprint, second.footprint);
  if (a == nullptr) return;
  const auto [begin, bytes] = common(*a, *b);
  fail_for_race(
      {first.name(), first.line(*a), second.name(), second.line(*b), a->use, b->use, begin, bytes},
      false, second.where);
}

inline void check_with_host(const StreamOperation& first, const HostAccess& second) {
  Footprint host;
  host.add(second.at);
  const auto [a, b] = conflict(first.footprint, host);
  if (a == nullptr) return;
  const auto [begin, bytes] = common(*a, *b);
  fail_for_race({first.name(), first.line(*a), "(the host)", second.line_of(second.code), a->use,
                 b->use, begin, bytes},
                true, first.where);
}

// Fails if `second`, which comes after, uses what `first` has freed.
inline void check_freed(const StreamOperation& first, const StreamOperation& second) {
  if (first.footprint.writes.empty() || first.footprint.writes[0].use != MemoryUse::free) return;
  const auto [a, b] = conflict(first.footprint, second.footprint);
  if (a == nullptr) return;
  const auto [begin, bytes] = common(*a, *b);
  fail_as<StreamError>(
      second.where,
      "line {} {} {} memory that line {} {} has freed: {}. Free it after its last use",
      second.line(*b), second.name(), verb(b->use), first.line(*a), first.name(),
      DeviceMemory::instance().describe(reinterpret_cast<const void*>(begin), bytes));
}

// ---- Streams ----

// An error in a capture: it will not become a graph. False if there is no capture.
inline bool void_capture(const std::shared_ptr<Capture>& capture) {
  if (capture) capture->is_void = true;
  return capture != nullptr;
}

YOTTA_INLINE StreamQueue& StreamQueue::instance() {
  static auto* one = new StreamQueue;  // never destroyed: arrays may outlive main()
  return *one;
}

YOTTA_INLINE cudaStream_t StreamQueue::create(bool blocking, int priority) {
  const LockedWork lock(mutex_);
  auto stream = std::make_unique<CUstream_st>();
  stream->place = places_++;
  stream->name = fmt::format("stream {}", stream->place);
  stream->blocking = blocking;
  stream->priority = priority;
  const cudaStream_t handle = streams_.add(std::move(stream));
  update_use();
  return handle;
}

YOTTA_INLINE cudaError_t StreamQueue::priority(cudaStream_t stream, int* number) {
  const LockedWork lock(mutex_);
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  *number = of(stream).priority;
  return cudaSuccess;
}

// What was issued on it still runs.
YOTTA_INLINE cudaError_t StreamQueue::destroy(cudaStream_t stream) {
  const LockedWork lock(mutex_);
  if (!streams_.destroy(stream)) return cudaErrorInvalidResourceHandle;
  if (stream->blocking) {
    legacy_.clock.join(stream->clock);
    legacy_.after.insert(legacy_.after.end(), stream->after.begin(), stream->after.end());
  }
  if (Capture* const capture = stream->capture.get())
    capture->left.insert(capture->left.end(), stream->nodes.begin(), stream->nodes.end());
  stream->after.clear();
  stream->capture = nullptr;
  update_use();
  return cudaSuccess;
}

YOTTA_INLINE bool StreamQueue::synchronise_quietly() noexcept {
  const LockedWork lock(mutex_);
  try {
    run_until([&] { return pending_.empty(); });
    host_has_seen_all();
    return true;
  } catch (...) {
    if (!held_) held_ = std::current_exception();
    return false;
  }
}

YOTTA_INLINE void StreamQueue::pinned_changes(int by) {
  const LockedWork lock(mutex_);
  pinned_ += static_cast<size_t>(by);
  update_use();
}

YOTTA_INLINE void StreamQueue::update_use() {
  in_use_ = !streams_.empty() || !pending_.empty() || !execs_.empty() || pinned_ > 0;
  if (in_use_) return;
  forget_all();
  places_ = 1;
  steps_ = 0;
  ++epoch_;
  host_ = {};
  legacy_ = {.name = legacy_.name};
}

// ---- Issuing ----

// The legacy default stream comes after all blocking streams.
YOTTA_INLINE void StreamQueue::meet_blocking_streams() {
  for (const cudaStream_t stream : streams_) {
    if (!stream->blocking) continue;
    legacy_.clock.join(stream->clock);
    legacy_.after.insert(legacy_.after.end(), stream->after.begin(), stream->after.end());
  }
}

YOTTA_INLINE auto StreamQueue::issue(CUstream_st& stream, StreamOperation operation) -> Shared {
  const auto shared = std::make_shared<StreamOperation>(std::move(operation));
  stream.clock.join(host_);
  if (stream.blocking && &stream != &legacy_) stream.clock.join(legacy_.clock);
  shared->stream = stream.place;
  shared->stream_name = stream.name;
  shared->number = ++stream.issued;
  stream.clock.set(stream.place, shared->number);
  shared->clock = stream.clock;
  shared->waits = std::exchange(stream.after, {shared});
  append(shared);
  return shared;
}

YOTTA_INLINE void StreamQueue::append(const Shared& operation) {
  operation->sequence = ++sequence_;
  pending_.push_back(operation);
  update_use();
}

YOTTA_INLINE cudaError_t StreamQueue::submit(cudaStream_t stream, StreamOperation operation) {
  const LockedWork lock(mutex_);
  throw_held();
  if (of_function_ != nullptr) return cudaErrorNotPermitted;
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (of(stream).capture) return record_node(of(stream), std::move(operation));
  if (stream == nullptr && default_stream_is_captured()) return cudaErrorStreamCaptureImplicit;
  constexpr size_t most_pending = 1024;  // then a launch waits, as on a GPU
  run_until([&] { return pending_.size() < most_pending; });
  if (stream == nullptr) meet_blocking_streams();
  const Shared shared = issue(of(stream), std::move(operation));
  if (stream == nullptr) run_until([&] { return shared->done; });
  return cudaSuccess;
}

YOTTA_INLINE cudaEvent_t StreamQueue::create_event() {
  const LockedWork lock(mutex_);
  return events_.add(std::make_unique<CUevent_st>());
}

YOTTA_INLINE cudaError_t StreamQueue::destroy(cudaEvent_t event) {
  const LockedWork lock(mutex_);
  if (!events_.destroy(event)) return cudaErrorInvalidResourceHandle;
  *event = {};
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::record(cudaEvent_t event, cudaStream_t stream) {
  const LockedWork lock(mutex_);
  if (!known(stream) || !events_.living(event)) return cudaErrorInvalidResourceHandle;
  if (stream == nullptr && default_stream_is_captured()) return cudaErrorStreamCaptureImplicit;
  if (stream == nullptr) meet_blocking_streams();
  const CUstream_st& recorded = of(stream);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  *event = {recorded.clock, recorded.after, recorded.capture,
            recorded.nodes, epoch_,         std::chrono::nanoseconds(now).count()};
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::elapsed(float* milliseconds, cudaEvent_t begin,
                                              cudaEvent_t end) {
  const LockedWork lock(mutex_);
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  for (const cudaEvent_t each : {begin, end})
    if (!events_.living(each) || each->recorded == 0) return cudaErrorInvalidResourceHandle;
  *milliseconds = static_cast<float>(end->recorded - begin->recorded) * 1e-6f;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::wait(cudaStream_t stream, cudaEvent_t event) {
  const LockedWork lock(mutex_);
  if (!known(stream) || !events_.living(event)) return cudaErrorInvalidResourceHandle;
  CUstream_st& waiting = of(stream);
  if (event->epoch != epoch_) return cudaSuccess;  // it has happened, or was never recorded
  if (waiting.capture || event->capture) return wait_in_capture(waiting, *event);
  waiting.clock.join(event->clock);
  waiting.after.insert(waiting.after.end(), event->after.begin(), event->after.end());
  return cudaSuccess;
}

// ---- Capture and graphs ----

YOTTA_INLINE bool StreamQueue::captures(cudaStream_t stream) {
  const LockedWork lock(mutex_);
  return stream != nullptr && known(stream) && stream->capture != nullptr;
}

// Whether the default stream would have to wait for what is only recorded; that is an error.
YOTTA_INLINE bool StreamQueue::default_stream_is_captured() {
  return std::any_of(streams_.begin(), streams_.end(), [](const cudaStream_t each) {
    return each->blocking && void_capture(each->capture);
  });
}

YOTTA_INLINE cudaError_t StreamQueue::host_work() {
  const LockedWork lock(mutex_);
  if (of_function_ != nullptr) return cudaErrorNotPermitted;
  for (const cudaStream_t each : streams_)
    if (each->capture && !each->capture->relaxed && void_capture(each->capture))
      return cudaErrorStreamCaptureUnsupported;
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::begin_capture(cudaStream_t stream, bool relaxed) {
  const LockedWork lock(mutex_);
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->relaxed = relaxed;
  stream->nodes.clear();
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::record_node(CUstream_st& stream, StreamOperation operation) {
  Capture& capture = *stream.capture;
  if (capture.is_void) return cudaErrorStreamCaptureInvalidated;
  GraphNode node{std::move(operation), std::exchange(stream.nodes, {capture.nodes.size()}), {}};
  for (const void* each : node.operation.pointers)
    if (const uint64_t serial = DeviceMemory::instance().serial_of(each); serial != 0)
      node.allocations.emplace_back(each, serial);
  capture.nodes.push_back(std::move(node));
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::wait_in_capture(CUstream_st& stream,
                                                      const CUevent_st& event) {
  if (!event.capture && event.after.empty()) return cudaSuccess;  // its stream was empty
  if (event.capture && event.capture->ended) return cudaErrorCapturedEvent;
  if (!event.capture) {
    void_capture(stream.capture);
    return cudaErrorStreamCaptureIsolation;
  }
  if (&stream == &legacy_ && void_capture(event.capture)) return cudaErrorStreamCaptureImplicit;
  if (stream.capture && stream.capture != event.capture) {
    void_capture(stream.capture);
    void_capture(event.capture);
    return cudaErrorStreamCaptureMerge;
  }
  if (!stream.capture) stream.nodes.clear();
  stream.capture = event.capture;
  stream.nodes.insert(stream.nodes.end(), event.nodes.begin(), event.nodes.end());
  return cudaSuccess;
}

// All nodes that end before one that comes after `last` begins.
inline std::set<size_t> all_before(const std::vector<GraphNode>& nodes,
                                   const std::vector<size_t>& last) {
  std::set<size_t> all(last.begin(), last.end());
  for (size_t i = nodes.size(); i-- > 0;)
    if (all.count(i) > 0) all.insert(nodes[i].after.begin(), nodes[i].after.end());
  return all;
}

YOTTA_INLINE cudaError_t StreamQueue::end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  const LockedWork lock(mutex_);
  *graph = nullptr;
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (stream == nullptr || !stream->capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  const std::set<size_t> joined = all_before(capture->nodes, stream->nodes);
  std::vector<size_t> ends = capture->left;
  for (const cudaStream_t each : streams_) {
    if (each->capture != capture) continue;
    ends.insert(ends.end(), each->nodes.begin(), each->nodes.end());
    each->capture = nullptr;
  }
  const bool all_joined =
      std::all_of(ends.begin(), ends.end(), [&](size_t node) { return joined.count(node) > 0; });
  capture->ended = true;
  if (capture->is_void) return cudaErrorStreamCaptureInvalidated;
  if (!all_joined) return cudaErrorStreamCaptureUnjoined;
  *graph = graphs_.add(std::make_unique<CUgraph_st>(std::move(capture->nodes)));
  return cudaSuccess;
}

// A node goes into the lane whose last node is the first that it comes after, or into a new one.
YOTTA_INLINE cudaGraphExec_t StreamQueue::instantiate(const CUgraph_st& graph) {
  const LockedWork lock(mutex_);
  auto exec = std::make_unique<CUgraphExec_st>(graph.nodes);
  std::set<size_t> ends;  // nodes at the end of their lane
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<size_t>& after = graph.nodes[i].after;
    const bool goes_on = !after.empty() && ends.erase(after[0]) > 0;
    exec->places.push_back(goes_on ? exec->places[after[0]] : places_++);
    ends.insert(i);
  }
  exec->issued.resize(places_);
  const cudaGraphExec_t handle = execs_.add(std::move(exec));
  update_use();
  return handle;
}

YOTTA_INLINE cudaError_t StreamQueue::destroy(cudaGraph_t graph) {
  const LockedWork lock(mutex_);
  if (!graphs_.destroy(graph)) return cudaErrorInvalidValue;
  graph->nodes.clear();
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::destroy(cudaGraphExec_t exec) {
  const LockedWork lock(mutex_);
  if (!execs_.destroy(exec)) return cudaErrorInvalidValue;
  exec->nodes.clear();
  exec->last = nullptr;
  update_use();
  return cudaSuccess;
}

// Fails if a node would use memory that has been freed since it was captured.
inline void check_pointers(const CUgraphExec_st& exec, Where where) {
  for (const GraphNode& node : exec.nodes)
    for (const auto& [pointer, serial] : node.allocations)
      if (DeviceMemory::instance().serial_of(pointer) != serial)
        fail_as<StreamError>(
            where,
            "stale pointer: the graph repeats the {} of {} with the pointers of its capture, and "
            "the memory at {} has been freed since then. Keep the memory as long as the graph and "
            "copy new data into it, or capture again and call cudaGraphExecUpdate",
            node.operation.word, yotta::at(node.operation.where), pointer);
}

// Appends the nodes of a graph, all of them after `begin`; the stream goes on after all of them.
YOTTA_INLINE void StreamQueue::append_nodes(CUgraphExec_st& exec, CUstream_st& stream,
                                            const Shared& begin) {
  std::vector<Shared> issued;
  for (size_t i = 0; i < exec.nodes.size(); ++i) {
    const auto node = std::make_shared<StreamOperation>(exec.nodes[i].operation);
    node->waits = {begin};
    node->clock = begin->clock;
    for (const size_t before : exec.nodes[i].after) {
      node->waits.push_back(issued[before]);
      node->clock.join(issued[before]->clock);
    }
    node->stream = exec.places[i];
    node->stream_name = "a graph on " + stream.name;
    node->number = ++exec.issued[node->stream];
    node->clock.set(node->stream, node->number);
    append(node);
    issued.push_back(node);
    stream.clock.join(node->clock);
    stream.after.push_back(node);
  }
}

YOTTA_INLINE cudaError_t StreamQueue::launch(cudaGraphExec_t exec, cudaStream_t stream,
                                             Where where) {
  const LockedWork lock(mutex_);
  throw_held();
  if (of_function_ != nullptr) return cudaErrorNotPermitted;
  if (!known(stream) || !known(exec)) return cudaErrorInvalidResourceHandle;
  if (of(stream).capture) return cudaErrorNotSupported;
  if (stream == nullptr && default_stream_is_captured()) return cudaErrorStreamCaptureImplicit;
  check_pointers(*exec, where);
  if (stream == nullptr) meet_blocking_streams();
  CUstream_st& in = of(stream);
  if (exec->last) {  // a graph does not overlap with itself
    in.clock.join(exec->last->clock);
    in.after.push_back(exec->last);
  }
  const StreamOperation mark{
      .word = "cudaGraphLaunch", .where = where, .run = [](StreamOperation&) {}};
  append_nodes(*exec, in, issue(in, mark));
  exec->last = issue(in, mark);
  if (stream == nullptr) run_until([&] { return exec->last->done; });
  return cudaSuccess;
}

// ---- Running ----

inline bool all_done(const std::vector<std::shared_ptr<StreamOperation>>& operations) {
  return std::all_of(operations.begin(), operations.end(), [](auto& each) { return each->done; });
}

// Runs one of the operations that may go next.
YOTTA_INLINE void StreamQueue::step() {
  std::vector<Shared> ready;
  bool checked = false;
  for (const Shared& each : pending_) {
    checked = checked || each->in_issue_order;
    if (all_done(each->waits)) ready.push_back(each);
  }
  const auto count = static_cast<uint32_t>(ready.size());
  execute(ready[checked ? 0 : Random(seed_, "streams").below(steps_++, count)]);
}

template <class Ended>
void StreamQueue::run_until(Ended ended) {
  while (!ended()) step();
}

YOTTA_INLINE void StreamQueue::execute(const Shared& operation) {
  std::exception_ptr error;
  try {
    operation->run(*operation);
  } catch (...) {
    error = std::current_exception();
  }
  operation->done = true;
  operation->waits.clear();
  std::erase(pending_, operation);
  try {
    check(*operation);  // a race may be why it failed
  } catch (...) {
    error = std::current_exception();
  }
  if (!operation->footprint.empty()) history_.push_back(operation);
  if (history_.size() > most_history) forget_oldest();
  if (error) {
    abandon();
    std::rethrow_exception(error);
  }
  update_use();
}

YOTTA_INLINE void StreamQueue::check(const StreamOperation& operation) {
  if (operation.footprint.empty()) return;
  for (size_t i = history_.size(); i-- > 0;) {  // the latest first
    const StreamOperation& other = *history_[i];
    if (other.before(operation.clock)) {
      check_freed(other, operation);
    } else if (other.sequence < operation.sequence) {
      check_unordered(other, operation);
    } else {
      check_unordered(operation, other);
    }
  }
  for (const HostAccess& access : host_accesses_)
    if (access.sequence > operation.sequence && !operation.before(access.clock))
      check_with_host(operation, access);
}

// Drops what was queued: after a failure its values mean nothing.
YOTTA_INLINE void StreamQueue::abandon() {
  for (const Shared& each : pending_) {
    each->done = true;
    each->waits.clear();
    history_.push_back(each);
  }
  pending_.clear();
  forget_all();
  update_use();
}

YOTTA_INLINE void StreamQueue::forget_oldest() {
  if (history_[0]->forgotten) history_[0]->forgotten();
  history_.erase(history_.begin());
}

YOTTA_INLINE void StreamQueue::forget_all() {
  for (const Shared& each : history_)
    if (each->forgotten) each->forgotten();
  history_.clear();
  host_accesses_.clear();
}

// ---- Waiting ----

YOTTA_INLINE void StreamQueue::throw_held() {
  if (held_ && std::uncaught_exceptions() == 0)
    std::rethrow_exception(std::exchange(held_, nullptr));
}

YOTTA_INLINE void StreamQueue::host_has_seen(const StreamClock& clock) {
  host_.join(clock);
  forget_what_is_over();
}

// What is before everything that is still to run, and known to the host, races with nothing.
YOTTA_INLINE void StreamQueue::forget_what_is_over() {
  std::erase_if(history_, [&](const Shared& each) {
    const bool over =
        each->before(host_) && std::all_of(pending_.begin(), pending_.end(),
                                           [&](auto& other) { return each->before(other->clock); });
    if (over && each->forgotten) each->forgotten();
    return over;
  });
  if (history_.empty() && pending_.empty()) host_accesses_.clear();
}

YOTTA_INLINE cudaError_t StreamQueue::synchronise(cudaStream_t stream) {
  const LockedWork lock(mutex_);
  throw_held();
  if (of_function_ != nullptr) return cudaErrorNotPermitted;
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (void_capture(of(stream).capture)) return cudaErrorStreamCaptureUnsupported;
  if (stream == nullptr && default_stream_is_captured()) return cudaErrorStreamCaptureImplicit;
  if (stream == nullptr) meet_blocking_streams();
  CUstream_st& waited = of(stream);
  run_until([&] { return all_done(waited.after); });
  host_has_seen(waited.clock);
  throw_held();
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::synchronise(cudaEvent_t event) {
  const LockedWork lock(mutex_);
  throw_held();
  if (of_function_ != nullptr) return cudaErrorNotPermitted;
  if (!events_.living(event)) return cudaErrorInvalidResourceHandle;
  if (event->epoch != epoch_) return cudaSuccess;
  if (void_capture(event->capture)) return cudaErrorCapturedEvent;
  run_until([&] { return all_done(event->after); });
  host_has_seen(event->clock);
  return cudaSuccess;
}

YOTTA_INLINE cudaError_t StreamQueue::synchronise_all() {
  const LockedWork lock(mutex_);
  throw_held();
  if (const cudaError_t code = host_work(); code != cudaSuccess) return code;
  run_until([&] { return pending_.empty(); });
  host_has_seen_all();
  throw_held();
  return cudaSuccess;
}

YOTTA_INLINE void StreamQueue::host_has_seen_all() {
  for (const cudaStream_t stream : streams_) host_.join(stream->clock);
  for (const Shared& each : history_) host_.join(each->clock);
  host_has_seen(legacy_.clock);
}

YOTTA_INLINE cudaError_t StreamQueue::query(cudaStream_t stream) {
  const LockedWork lock(mutex_);
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (of(stream).capture) return synchronise(stream);
  if (stream == nullptr) meet_blocking_streams();
  if (all_done(of(stream).after)) return synchronise(stream);
  step();
  return cudaErrorNotReady;
}

YOTTA_INLINE cudaError_t StreamQueue::query(cudaEvent_t event) {
  const LockedWork lock(mutex_);
  if (!events_.living(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture || all_done(event->after)) return synchronise(event);
  step();
  return cudaErrorNotReady;
}

// ---- The host's own accesses ----

// Appends an access, or lets the last one grow if it goes on where that one ended.
inline void append_access(std::vector<HostAccess>& all, HostAccess access) {
  if (!all.empty()) {
    HostAccess& last = all.back();
    const bool same = last.code == access.code && last.at.use == access.at.use &&
                      last.sequence + 1 == access.sequence;
    if (same && last.at.begin <= access.at.begin && access.at.begin <= last.at.end()) {
      last.at.bytes = std::max(last.at.end(), access.at.end()) - last.at.begin;
      last.sequence = access.sequence;
      return;
    }
  }
  all.push_back(std::move(access));
}

// Gives an operation the accesses of its function as footprint.
inline void note_accesses(StreamOperation& operation, std::vector<HostAccess> accesses) {
  if (accesses.empty()) return;
  std::vector<const void*> codes;
  for (HostAccess& each : accesses) {
    const auto found = std::find(codes.begin(), codes.end(), each.code);
    each.at.site = static_cast<uint32_t>(found - codes.begin() + 1);
    if (found == codes.end()) codes.push_back(each.code);
  }
  std::sort(accesses.begin(), accesses.end(), [](const HostAccess& a, const HostAccess& b) {
    return std::pair(a.at.begin, a.sequence) < std::pair(b.at.begin, b.sequence);
  });
  Footprint& all = operation.footprint;
  for (const HostAccess& each : accesses) {  // what is left of it behind those before it
    const auto& list = each.at.use == MemoryUse::read ? all.reads : all.writes;
    const uintptr_t begin = list.empty() ? 0 : list.back().end();
    Stretch rest = each.at;
    rest.begin = std::max(begin, each.at.begin);
    if (rest.begin >= each.at.end()) continue;
    rest.bytes = each.at.end() - rest.begin;
    all.add(rest);
  }
  operation.line_of = [codes, line_of = accesses[0].line_of](uint32_t site) {
    return line_of(codes[site - 1]);
  };
}

YOTTA_INLINE void StreamQueue::run_host_function(void (*function)(void*), void* data,
                                                 StreamOperation& self) {
  std::vector<HostAccess> accesses;
  of_function_ = &accesses;
  try {
    const HostProgram program;
    function(data);
  } catch (...) {
    of_function_ = nullptr;
    throw;
  }
  of_function_ = nullptr;
  note_accesses(self, std::move(accesses));
}

YOTTA_INLINE void StreamQueue::host_access(HostAccess access) {
  const LockedWork lock(mutex_);
  if (of_function_ != nullptr) {
    access.sequence = ++sequence_;
    return append_access(*of_function_, std::move(access));
  }
  if (history_.empty() && pending_.empty()) return;  // nothing is under way
  access.clock = host_;
  access.sequence = ++sequence_;
  try {
    for (const Shared& each : history_)
      if (!each->before(host_)) check_with_host(*each, access);
  } catch (const StreamError&) {
    if (!held_) held_ = std::current_exception();
  }
  append_access(host_accesses_, std::move(access));
}

}  // namespace yotta
