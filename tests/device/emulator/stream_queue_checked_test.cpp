// Programs that forget an event or a wait, and the same programs without the mistake: each mistake
// is found with every seed, with both lines, and nothing is found in what is right.
#include "yotta/device/emulator/stream_queue.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/streams.hpp"

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
};

// "queue_test.cpp:17" becomes "(mark)" where that line is marked.
std::string with_marks(std::string message) {
  for (const char* mark : {"sets", "adds", "host reads", "host writes"}) {
    const std::string place = line_at(mark), line = place.substr(0, place.size() - 2);
    for (size_t at; (at = message.find(line + " ")) != std::string::npos;)
      message.replace(at, line.size(), fmt::format("({})", mark));
  }
  return message;
}

std::string outcome(const Program& program, bool right, uint64_t seed) {
  emulator_options().seed = seed;
  World world;
  const std::string message = error_of([&] {
    program.run(world, right);
    check_cuda(cudaDeviceSynchronize());
  });
  emulator_options().seed = 1;
  return with_marks(message);
}

}  // namespace

TEST_CASE("programs without mistakes pass with every order") {
  for (const Program& program : programs) {
    CAPTURE(program.name);
    for (uint64_t seed = 1; seed <= 4; ++seed) CHECK(outcome(program, true, seed) == "no error");
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
