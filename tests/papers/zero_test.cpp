// ZeRO (Rajbhandari et al., SC 2020): table 1, the memory that model states take on each device;
// section 7, what is sent. First what the formulas say, then that training holds and sends exactly
// that.
#include "yotta/parallel/zero.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

using namespace yotta;

namespace {

constexpr int64_t billion = 1'000'000'000;

// GB (1e9 bytes) as the table prints them: three digits at most.
double gigabytes(int stage, int64_t ranks, int64_t parameters) {
  return static_cast<double>(zero_bytes_held(stage, ranks, parameters, zero_paper_bytes)) / 1e9;
}
void check_row(int64_t ranks, int64_t parameters, double pos, double pos_g, double pos_g_p,
               double printed_to) {
  CHECK(std::abs(gigabytes(1, ranks, parameters) - pos) <= printed_to);
  CHECK(std::abs(gigabytes(2, ranks, parameters) - pos_g) <= printed_to);
  CHECK(std::abs(gigabytes(3, ranks, parameters) - pos_g_p) <= printed_to);
}

// What a rank holds after a step of a linear net with N = 8 x 16^2 = 2048 parameters, which 1, 2, 4
// and 8 ranks divide.
constexpr LinearNetConfig net = {8, 16};
constexpr int64_t N = net.layers * net.width * net.width;

int64_t held() {
  const MemoryCount& memory = *context().ledger.memory();
  CHECK(memory.live(MemoryKind::buffers) == 0);
  return memory.live(MemoryKind::parameters) + memory.live(MemoryKind::gradients) +
         memory.live(MemoryKind::optimizer);
}

// A pass that makes a gradient for every parameter.
void one_pass(Layers layers) {
  Saved saved({0, 0, 0, 0, true});
  const MemoryScope memory(MemoryKind::activations);
  const Tensor y = forward(layers, Tensor::full({2, net.width}, 1), saved);
  backward(layers, y, saved);
}

// One step of stage 1, 2 or 3 on this rank; returns bytes held after it and elements sent in it.
struct Counted {
  int64_t held, bytes_sent;
};
Counted one_step(Communicator& world, int stage, DType dtype) {
  const std::vector<LayerPtr> model = make_linear_net(net, {1, dtype});
  const Ledger& ledger = context().ledger;
  if (stage == 3) {
    Fsdp fsdp(model, world);
    AdamW optimizer(parameters(fsdp.stack()));
    one_pass(fsdp.stack());
    fsdp.finish();
    optimizer.step(0.01);
    return {held(), ledger.total_traffic().bytes_sent};
  }
  const std::vector<ParameterPtr> all = parameters(Layers(model));
  Zero zero(all, world, {.stage = stage, .bucket_bytes = 600, .gradients = dtype});
  AdamW optimizer(zero.shards());
  one_pass(model);
  zero.finish();
  optimizer.step(0.01);
  zero.gather();
  return {held(), ledger.total_traffic().bytes_sent};
}

}  // namespace

TEST_CASE("table 1: GB per device by stage, model and degree of data parallelism") {
  CHECK(gigabytes(0, 1, 7'500'000'000) == 120);
  CHECK(gigabytes(0, 1, 128 * billion) == 2048);
  check_row(1, 7'500'000'000, 120, 120, 120, 0);
  check_row(4, 7'500'000'000, 52.5, 41.3, 30, 0.05);
  check_row(16, 7'500'000'000, 35.6, 21.6, 7.5, 0.05);
  check_row(64, 7'500'000'000, 31.4, 16.6, 1.88, 0.05);
  check_row(256, 7'500'000'000, 30.4, 15.4, 0.47, 0.05);
  check_row(1024, 7'500'000'000, 30.1, 15.1, 0.12, 0.05);
  check_row(1, 128 * billion, 2048, 2048, 2048, 0);
  check_row(4, 128 * billion, 896, 704, 512, 0);
  check_row(64, 128 * billion, 536, 284, 32, 0);
}

TEST_CASE("stages 1 and 2 hold 4N + 12N/p and 2N + 14N/p bytes with bf16 weights and gradients") {
  for (const int ranks : {1, 2, 4, 8})
    for (const int stage : {1, 2})
      run_ranks(ranks, [&](Communicator& world) {
        const Counted counted = one_step(world, stage, DType::bf16);
        CHECK(counted.held == (stage == 1 ? 4 * N + 12 * N / ranks : 2 * N + 14 * N / ranks));
        CHECK(counted.held == zero_bytes_held(stage, ranks, N, zero_paper_bytes));
        CHECK(counted.bytes_sent == 2 * zero_elements_sent(ranks, N));
      });
}

TEST_CASE("stage 3 holds 16N/p bytes: 4 + 4 + 8 in f32, as many as 2 + 2 + 12") {
  for (const int ranks : {1, 2, 4, 8})
    run_ranks(ranks, [&](Communicator& world) {
      const Counted counted = one_step(world, 3, DType::f32);
      CHECK(counted.held == 16 * N / ranks);
      CHECK(counted.held == zero_bytes_held(3, ranks, N, zero_paper_bytes));
      CHECK(counted.bytes_sent == 4 * fsdp_elements_sent(ranks, N, 0));
    });
}

TEST_CASE("the same stages in f32 throughout hold 8N + 8N/p and 4N + 12N/p") {
  for (const int ranks : {1, 2, 4, 8})
    for (const int stage : {1, 2})
      run_ranks(ranks, [&](Communicator& world) {
        const Counted counted = one_step(world, stage, DType::f32);
        CHECK(counted.held == zero_bytes_held(stage, ranks, N, f32_bytes));
        CHECK(counted.held == (stage == 1 ? 8 * N + 8 * N / ranks : 4 * N + 12 * N / ranks));
      });
}

TEST_CASE("section 7: stages 1 and 2 send 2N like DDP, stage 3 sends 3N, times (p-1)/p") {
  for (const int64_t p : {1, 2, 4, 8}) {
    CHECK(zero_elements_sent(p, N) == 2 * N * (p - 1) / p);
    CHECK(fsdp_elements_sent(p, N, 0) == 3 * N * (p - 1) / p);
  }
}
