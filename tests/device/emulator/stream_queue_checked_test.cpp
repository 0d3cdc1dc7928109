// Programs that forget an event or a wait, and the same programs without the mistake: each mistake
// is found with every seed, with both lines, and nothing is found in what is right.
#include "yotta/device/emulator/stream_queue.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/cooperative_groups.hpp"
#include "yotta/device/graphs.hpp"

using namespace yotta;

namespace {

constexpr int n = 200;
constexpr size_t bytes = n * sizeof(int);

__global__ void set(int* y, int value) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = value;  // line: sets
}
__global__ void add_one(const int* x, int* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;  // line: adds
}
__global__ void count(int* total) {
  atomicAdd(total, 1);  // line: counts
}

// Two streams and what the programs work on.
struct World {
  Stream a, b;
  Event event, other;
  DeviceArray<int> x{std::vector<int>(n, 1)}, y{std::vector<int>(n, 2)}, z{std::vector<int>(n, 3)};
  PinnedArray<int> host{n};
  World() {
    x.named("x"), y.named("y"), z.named("z");
    for (int i = 0; i < n; ++i) host.data()[i] = i;
  }
  void b_waits_for_a() {
    check_cuda(cudaEventRecord(event, a));
    check_cuda(cudaStreamWaitEvent(b, event));
  }
};

void read_too_early(World& w, bool right) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  if (right) w.b_waits_for_a();
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void overwritten_too_early(World& w, bool right) {
  launch(add_one, 2, 128, 0, w.a, w.x.data(), w.y.data());
  if (right) w.b_waits_for_a();
  check_cuda(cudaMemcpyAsync(w.x.data(), w.host.data(), bytes, cudaMemcpyHostToDevice, w.b));
}
void written_twice(World& w, bool right) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  launch(set, 2, 128, 0, right ? w.a : w.b, w.x.data(), 6);
}
void host_reads_early(World& w, bool right) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  if (right) check_cuda(cudaStreamSynchronize(w.a));
  const int value = w.host.data()[7];  // line: host reads
  CHECK(value >= 0);
}
void host_refills_early(World& w, bool right) {
  check_cuda(cudaMemcpyAsync(w.x.data(), w.host.data(), bytes, cudaMemcpyHostToDevice, w.a));
  check_cuda(cudaEventRecord(w.event, w.a));
  launch(set, 2, 128, 0, w.a, w.y.data(), 5);
  if (right) check_cuda(cudaEventSynchronize(w.event));
  w.host.data()[3] = 8;  // line: host writes
}
void recorded_too_early(World& w, bool right) {
  if (!right) w.b_waits_for_a();
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  if (right) w.b_waits_for_a();
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void recorded_on_the_wrong_stream(World& w, bool right) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  check_cuda(cudaEventRecord(w.event, right ? w.a : w.b));
  check_cuda(cudaStreamWaitEvent(w.b, w.event));
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void waits_for_the_other_event(World& w, bool right) {
  check_cuda(cudaEventRecord(w.other, w.a));
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  check_cuda(cudaEventRecord(w.event, w.a));
  check_cuda(cudaStreamWaitEvent(w.b, right ? w.event : w.other));
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.b));
}
void freed_elsewhere(World& w, bool right) {
  int* p = nullptr;
  check_cuda(cudaMallocAsync(&p, bytes, w.a));
  launch(set, 2, 128, 0, w.a, p, 5);
  if (right) w.b_waits_for_a();
  check_cuda(cudaFreeAsync(p, w.b));
}
void used_before_its_allocation(World& w, bool right) {
  int* p = nullptr;
  check_cuda(cudaMallocAsync(&p, bytes, w.a));
  if (right) w.b_waits_for_a();
  launch(set, 2, 128, 0, w.b, p, 5);
  check_cuda(cudaFreeAsync(p, w.b));
}
void used_after_free(World& w, bool right) {
  int* p = nullptr;
  check_cuda(cudaMallocAsync(&p, bytes, w.a));
  if (!right) check_cuda(cudaFreeAsync(p, w.a));
  launch(set, 2, 128, 0, w.a, p, 5);
  if (right) check_cuda(cudaFreeAsync(p, w.a));
}
void no_order_with_the_default_stream(World& w, bool right) {
  cudaStream_t free = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&free, right ? cudaStreamDefault : cudaStreamNonBlocking));
  launch(set, 2, 128, 0, nullptr, w.x.data(), 5);
  launch(add_one, 2, 128, 0, free, w.x.data(), w.y.data());
  check_cuda(cudaStreamDestroy(free));
}
void one_buffer_too_few(World& w, bool right) {
  for (int step = 0; step < 3; ++step) {
    if (right && step > 0) check_cuda(cudaStreamWaitEvent(w.a, w.other));
    check_cuda(cudaMemcpyAsync(w.x.data(), w.host.data(), bytes, cudaMemcpyHostToDevice, w.a));
    w.b_waits_for_a();
    launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
    check_cuda(cudaEventRecord(w.other, w.b));
  }
}

// A stream that knows nothing of the default stream.
struct FreeStream {
  cudaStream_t stream = nullptr;
  FreeStream() { check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~FreeStream() { static_cast<void>(cudaStreamDestroy(stream)); }
};

void waits_for_the_wrong_stream(World& w, bool right) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  check_cuda(cudaStreamSynchronize(right ? w.a : w.b));
  const int value = w.host.data()[7];  // line: host reads 2
  CHECK(value >= 0);
}
void query_not_looked_at(World& w, bool right) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  launch(set, 2, 128, 0, w.a, w.y.data(), 5);
  while (cudaStreamQuery(w.a) == cudaErrorNotReady && right) continue;
  CHECK(w.host.data()[7] >= 0);
}
void copied_by_the_default_stream(World& w, bool right) {
  FreeStream free;
  launch(set, 2, 128, 0, free.stream, w.x.data(), 5);
  if (right) check_cuda(cudaStreamSynchronize(free.stream));
  const std::vector<int> values = w.x.to_host();  // cudaMemcpy
  CHECK(values[0] > 0);
}
void recorded_anew_before_the_wait(World& w, bool right) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  check_cuda(cudaEventRecord(w.event, w.a));
  check_cuda(cudaEventRecord(right ? w.other : w.event, w.b));
  check_cuda(cudaStreamWaitEvent(w.b, w.event));
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void destroyed_is_not_ended(World& w, bool right) {
  {
    FreeStream free;
    check_cuda(
        cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, free.stream));
    if (right) check_cuda(cudaStreamSynchronize(free.stream));
  }
  CHECK(w.host.data()[7] >= 0);
}
void kernel_reads_pinned_memory(World& w, bool right) {
  launch(add_one, 2, 128, 0, w.a, w.host.data(), w.x.data());
  if (right) check_cuda(cudaDeviceSynchronize());
  w.host.data()[0] = 8;
}
void one_side_of_a_diamond(World& w, bool right) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  w.b_waits_for_a();
  launch(add_one, 2, 128, 0, w.a, w.x.data(), w.y.data());
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.z.data());
  check_cuda(cudaEventRecord(w.other, w.b));
  if (right) check_cuda(cudaStreamWaitEvent(w.a, w.other));
  launch(add_one, 2, 128, 0, w.a, w.z.data(), w.x.data());
}
void host_function_too_early(World& w, bool right) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  const auto look = [](void* data) {
    const int value = *static_cast<int*>(data);  // line: function reads
    CHECK(value > 0);
  };
  check_cuda(cudaLaunchHostFunc(right ? w.a : w.b, look, w.host.data()));
}
void graph_not_awaited(World& w, bool right) {
  CudaGraph graph(w.a, [&](cudaStream_t s) { launch(set, 2, 128, 0, s, w.x.data(), 5); });
  graph.launch(w.a);
  if (right) w.b_waits_for_a();
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void branches_of_a_graph_unordered(World& w, bool right) {
  CudaGraph graph(w.a, [&](cudaStream_t) {
    if (!right) w.b_waits_for_a();
    launch(set, 2, 128, 0, w.a, w.x.data(), 5);
    if (right) w.b_waits_for_a();
    launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
    check_cuda(cudaEventRecord(w.other, w.b));
    check_cuda(cudaStreamWaitEvent(w.a, w.other));
  });
  graph.launch(w.a);
}
void two_graphs_write(World& w, bool right) {
  const auto body = [&](cudaStream_t s) { launch(set, 2, 128, 0, s, w.x.data(), 5); };
  CudaGraph one(w.a, body), two(w.b, body);
  one.launch(w.a);
  if (right) w.b_waits_for_a();
  two.launch(w.b);
}
void refilled_between_replays(World& w, bool right) {
  CudaGraph graph(w.a, [&](cudaStream_t s) {
    check_cuda(cudaMemcpyAsync(w.x.data(), w.host.data(), bytes, cudaMemcpyHostToDevice, s));
    launch(add_one, 2, 128, 0, s, w.x.data(), w.y.data());
  });
  for (int step = 0; step < 2; ++step) {
    w.host.data()[0] = step;
    graph.launch(w.a);
    if (right) check_cuda(cudaStreamSynchronize(w.a));
  }
}

// ---- What looks dangerous, and is right ----

void default_stream_joins(World& w) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  launch(add_one, 2, 128, 0, nullptr, w.x.data(), w.y.data());
  launch(add_one, 2, 128, 0, w.b, w.y.data(), w.x.data());
}
void free_stream_with_events(World& w) {
  FreeStream free;
  launch(set, 2, 128, 0, nullptr, w.x.data(), 5);
  check_cuda(cudaEventRecord(w.event, nullptr));
  check_cuda(cudaStreamWaitEvent(free.stream, w.event));
  launch(add_one, 2, 128, 0, free.stream, w.x.data(), w.y.data());
  check_cuda(cudaEventRecord(w.event, free.stream));  // again
  check_cuda(cudaStreamWaitEvent(nullptr, w.event));
  launch(add_one, 2, 128, 0, nullptr, w.y.data(), w.x.data());
}
void both_only_read(World& w) {
  launch(add_one, 2, 128, 0, w.a, w.x.data(), w.y.data());
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.z.data());
}
void there_and_back(World& w) {  // a, b, a: and w.event means another moment each time
  for (int step = 0; step < 3; ++step) {
    launch(add_one, 2, 128, 0, w.a, w.x.data(), w.y.data());
    w.b_waits_for_a();
    launch(add_one, 2, 128, 0, w.b, w.y.data(), w.x.data());
    check_cuda(cudaEventRecord(w.event, w.b));
    check_cuda(cudaStreamWaitEvent(w.a, w.event));
  }
}
void event_destroyed_after_its_use(World& w) {
  launch(set, 2, 128, 0, w.a, w.x.data(), 5);
  {
    Event event;
    check_cuda(cudaEventRecord(event, w.a));
    check_cuda(cudaStreamWaitEvent(w.b, event));
  }
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void order_survives_a_stream(World& w) {
  {
    FreeStream free;
    launch(set, 2, 128, 0, free.stream, w.x.data(), 5);
    check_cuda(cudaEventRecord(w.event, free.stream));
  }
  check_cuda(cudaStreamWaitEvent(w.b, w.event));
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.y.data());
}
void host_asks_until_it_is_done(World& w) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  check_cuda(cudaEventRecord(w.event, w.a));
  launch(set, 2, 128, 0, w.a, w.y.data(), 5);
  while (cudaEventQuery(w.event) == cudaErrorNotReady) continue;
  w.host.data()[3] = 1;
}
void graph_updated_and_replayed(World& w) {
  const auto body = [&](int* to) {
    return [=](cudaStream_t s) { launch(set, 2, 128, 0, s, to, 5); };
  };
  CudaGraph graph(w.a, body(w.x.data()));
  graph.launch(w.a);
  graph.launch(w.b);  // not before the first has ended
  CHECK(graph.update(w.a, body(w.y.data())));
  launch(add_one, 2, 128, 0, w.b, w.x.data(), w.z.data());
  graph.launch(w.a);  // writes y only
}
void freed_where_it_was_used_last(World& w) {
  int* p = nullptr;
  check_cuda(cudaMallocAsync(&p, bytes, w.a));
  w.b_waits_for_a();
  launch(set, 2, 128, 0, w.b, p, 5);
  check_cuda(cudaEventRecord(w.other, w.b));
  check_cuda(cudaStreamWaitEvent(w.a, w.other));
  check_cuda(cudaFreeAsync(p, w.a));
}
void function_between_copies(World& w) {
  check_cuda(cudaMemcpyAsync(w.host.data(), w.x.data(), bytes, cudaMemcpyDeviceToHost, w.a));
  const auto change = [](void* data) { static_cast<int*>(data)[5] += 1; };
  check_cuda(cudaLaunchHostFunc(w.a, change, w.host.data()));
  check_cuda(cudaMemcpyAsync(w.y.data(), w.host.data(), bytes, cudaMemcpyHostToDevice, w.a));
  check_cuda(cudaStreamSynchronize(w.a));
  w.host.data()[5] = 0;
}
__global__ void meets(int* y) {
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) y[blockIdx.x] = 1;
}
void grid_as_large_as_fits(World& w) {
  emulator_options().chip.count = 2;
  launch_cooperative(meets, 4, 1024, 0, w.a, w.x.data());
  check_cuda(cudaStreamSynchronize(w.a));
  emulator_options().chip.count = 132;
}

struct RightProgram {
  const char* name;
  void (*run)(World&);
};
const std::vector<RightProgram> right_programs = {
    {"the default stream comes between two blocking streams", default_stream_joins},
    {"a non-blocking stream, and events to and from the default stream", free_stream_with_events},
    {"two streams read", both_only_read},
    {"an event that is recorded many times", there_and_back},
    {"an event that is destroyed after the wait", event_destroyed_after_its_use},
    {"a stream that is destroyed after its event", order_survives_a_stream},
    {"the host asks until an event has happened", host_asks_until_it_is_done},
    {"a graph on two streams, updated", graph_updated_and_replayed},
    {"memory freed on its first stream after its last use", freed_where_it_was_used_last},
    {"a function of the host between two copies", function_between_copies},
    {"a cooperative grid of as many blocks as fit", grid_as_large_as_fits},
};

struct Program {
  const char* name;
  void (*run)(World&, bool right);
  std::vector<std::string> says;  // of the mistake
};

const std::vector<Program> programs = {
    {"a kernel reads what another stream's kernel writes",
     read_too_early,
     {"race between streams", "(adds)", "reads what", "(sets)", "x, bytes 0 to 799 of 800",
      "cudaStreamWaitEvent"}},
    {"a copy overwrites what another stream's kernel reads",
     overwritten_too_early,
     {"(cudaMemcpyAsync, stream 2) writes what", "(adds)", "reads: x"}},
    {"two streams write", written_twice, {"writes what", "(sets)"}},
    {"the host reads before a copy has ended",
     host_reads_early,
     {"race between host and stream", "(host reads) (the host) reads what", "cudaMemcpyAsync",
      "pinned memory, bytes 28 to 31", "cudaStreamSynchronize"}},
    {"the host refills a buffer that is being copied",
     host_refills_early,
     {"(host writes) (the host) writes what", "(cudaMemcpyAsync, stream 1) reads"}},
    {"an event recorded before the launch", recorded_too_early, {"race between streams", "(sets)"}},
    {"an event recorded on the wrong stream",
     recorded_on_the_wrong_stream,
     {"race between streams", "(adds)"}},
    {"a wait for another event",
     waits_for_the_other_event,
     {"(cudaMemcpyAsync, stream 2) reads what", "(sets)", "writes: x"}},
    {"memory freed on a stream that does not wait for its last use",
     freed_elsewhere,
     {"(cudaFreeAsync, stream 2) frees what", "(sets)", "on the stream that uses it last"}},
    {"memory used on a stream that does not wait for its allocation",
     used_before_its_allocation,
     {"(sets)", "writes what", "(cudaMallocAsync, stream 1) allocates"}},
    {"memory used after it was freed",
     used_after_free,
     {"(sets)", "writes memory that", "cudaFreeAsync", "has freed"}},
    {"a non-blocking stream and the default stream",
     no_order_with_the_default_stream,
     {"race between streams", "the legacy default stream"}},
    {"one buffer, and no wait for the kernel that reads it",
     one_buffer_too_few,
     {"(cudaMemcpyAsync, stream 1) writes what", "(adds)", "reads: x"}},
    {"the host waits for another stream",
     waits_for_the_wrong_stream,
     {"(host reads 2) (the host) reads what", "(cudaMemcpyAsync, stream 1) writes"}},
    {"the host asks, and does not look at the answer",
     query_not_looked_at,
     {"race between host and stream", "(cudaMemcpyAsync, stream 1) writes"}},
    {"cudaMemcpy of what a non-blocking stream writes",
     copied_by_the_default_stream,
     {"(cudaMemcpy, the legacy default stream) reads what", "(sets)", "writes: x"}},
    {"an event that is recorded again before the wait",
     recorded_anew_before_the_wait,
     {"race between streams", "(adds)", "(sets)"}},
    {"a stream that is destroyed has not ended",
     destroyed_is_not_ended,
     {"race between host and stream", "(cudaMemcpyAsync, stream 3) writes"}},
    {"the host changes pinned memory that a kernel reads",
     kernel_reads_pinned_memory,
     {"race between host and stream", "(the host) writes what", "(adds)", "pinned memory"}},
    {"one side of a diamond is not joined",
     one_side_of_a_diamond,
     {"race between streams", "(adds)", "stream 2"}},
    {"a function of the host on another stream",
     host_function_too_early,
     {"(function reads) (cudaLaunchHostFunc of", "stream 2) reads what",
      "(cudaMemcpyAsync, stream 1) writes: pinned memory"}},
    {"a graph's result is read on another stream",
     graph_not_awaited,
     {"(adds)", "reads what", "(sets)", "a graph on stream 1"}},
    {"a branch of a graph does not wait for what it reads",
     branches_of_a_graph_unordered,
     {"(adds)", "reads what", "(sets)", "a graph on stream 1"}},
    {"two graphs write the same array",
     two_graphs_write,
     {"a graph on stream 2) writes what", "a graph on stream 1) writes: x"}},
    {"the host refills a graph's input before it is read",
     refilled_between_replays,
     {"race between host and stream", "(the host) writes what",
      "(cudaMemcpyAsync, a graph on stream 1) reads: pinned memory, bytes 0 to 3"}},
};

// "queue_test.cpp:17" becomes "(mark)" where that line is marked.
std::string with_marks(std::string message) {
  for (const char* mark :
       {"sets", "adds", "host reads", "host writes", "host reads 2", "function reads"}) {
    const std::string place = line_at(mark), line = place.substr(0, place.size() - 2);
    for (size_t at; (at = message.find(line + " ")) != std::string::npos;)
      message.replace(at, line.size(), fmt::format("({})", mark));
  }
  return message;
}

template <class Run>
std::string outcome(Run run, uint64_t seed) {
  emulator_options().seed = seed;
  World world;
  const std::string message = error_of([&] {
    run(world);
    check_cuda(cudaDeviceSynchronize());
  });
  emulator_options().seed = 1;
  return with_marks(message);
}
std::string outcome(const Program& program, bool right, uint64_t seed) {
  return outcome([&](World& world) { program.run(world, right); }, seed);
}

}  // namespace

TEST_CASE("programs without mistakes pass with every order") {
  for (const Program& program : programs) {
    CAPTURE(program.name);
    for (uint64_t seed = 1; seed <= 4; ++seed) CHECK(outcome(program, true, seed) == "no error");
  }
}

TEST_CASE("programs that look dangerous pass with every order") {
  for (const RightProgram& program : right_programs) {
    CAPTURE(program.name);
    for (uint64_t seed = 1; seed <= 4; ++seed) CHECK(outcome(program.run, seed) == "no error");
  }
}

TEST_CASE("each mistake is found with every order, and named with both lines") {
  for (const Program& program : programs) {
    CAPTURE(program.name);
    for (uint64_t seed = 1; seed <= 4; ++seed)
      for (const std::string& words : program.says)
        check_says(outcome(program, false, seed), {words});
  }
}

TEST_CASE("atomic operations of two streams do not race") {
  World w;
  launch(count, 2, 32, 0, w.a, w.x.data());
  launch(count, 2, 32, 0, w.b, w.x.data());
  check_cuda(cudaDeviceSynchronize());
  CHECK(w.x.to_host()[0] == 129);
}

TEST_CASE("the page's pipeline is clean") {
  PinnedArray<float> in(600), out(600);
  for (size_t i = 0; i < in.size(); ++i) in.data()[i] = 0.5f;
  run_overlapped({in.data(), out.data(), 5, 120, 3});
  CHECK(out.data()[599] == -0.30859375f);
}
