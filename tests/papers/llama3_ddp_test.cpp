// Llama 3 at its own sizes (arXiv 2407.21783, table 3): the real transformer under DDP, on tensors
// without data, one live rank for 128 replicas. What travels is exact, and what the step takes is
// held between its two bounds.
#include <doctest/doctest.h>

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;

namespace {

struct Step {
  double seconds = 0;
  int64_t bytes_sent = 0, messages_sent = 0, buckets = 0;
};

std::vector<int> every(int stride, int count) {
  std::vector<int> chips;
  for (int i = 0; i < count; ++i) chips.push_back(i * stride);
  return chips;
}

// Forward, backward, gradients summed over the replicas: one sequence each.
Step step(const TransformerConfig& c, int64_t T, Communicator* dp) {
  const DeviceScope meta(Device::meta);
  Step found;
  const Transformer model(c);
  std::unique_ptr<Ddp> ddp;
  if (dp != nullptr)
    ddp = std::make_unique<Ddp>(parameters(model.stack()), *dp, DdpOptions{1 << 30});
  if (dp != nullptr) found.buckets = ddp->buckets();
  context().clock->wait(compute_lane, {0, 1});  // all begin together
  Saved saved;
  forward(model.stack(), Tensor::empty({1, T}, DType::i32), saved);
  backward(model.stack(), Tensor::empty({1, T, c.vocabulary}), saved);
  if (ddp) ddp->finish();
  found.seconds = context().clock->now(compute_lane).end - 1;
  found.bytes_sent = context().ledger.traffic("ddp.gradients").bytes_sent;
  found.messages_sent = context().ledger.traffic("ddp.gradients").messages_sent;
  return found;
}

Step alone(const Cluster& cluster, const TransformerConfig& c, int64_t T) {
  Step found;
  run_on(cluster, 1, [&](Communicator&) { found = step(c, T, nullptr); }, {.trace = false});
  return found;
}
Step mirrored(const Cluster& cluster, const TransformerConfig& c, int64_t T,
              const std::vector<int>& chips) {
  Step found;
  const auto body = [&](Communicator& world) {
    Communicator dp = world.mirrored(chips);
    found = step(c, T, &dp);
  };
  run_on(cluster, 1, body, {.trace = false});
  return found;
}

}  // namespace

TEST_CASE("8B and 405B under DDP on 128 replicas of 16,384 H100: bytes, messages, and the step") {
  const Cluster c = cluster_named("h100x16384");
  const AlphaBeta network{c.levels[1].alpha, c.levels[1].beta, 0};
  const int p = 128;
  for (const auto& [config, N] : {std::pair{llama3_8b(), int64_t{8'030'261'248}},
                                  {llama3_405b(), int64_t{405'853'388'800}}}) {
    const double compute = alone(c, config, 8192).seconds;
    const Step ddp = mirrored(c, config, 8192, every(128, p));
    CAPTURE(N);
    CAPTURE(compute);
    CAPTURE(ddp.seconds);
    CHECK(ddp.bytes_sent == 2 * (p - 1) * (4 * N / p));
    CHECK(ddp.messages_sent == 2 * (p - 1) * ddp.buckets);
    const double whole = 4.0 * static_cast<double>(N);
    const double communication = 2 * (p - 1) * static_cast<double>(ddp.buckets) * network.alpha +
                                 2.0 * (p - 1) / p * whole * network.beta;
    // Nothing hides the last bucket, the embedding's table; the one before may still be on its way.
    const double largest = all_reduce_ring_seconds(
        p, 4.0 * static_cast<double>(config.vocabulary * config.width), network);
    CHECK(ddp.seconds > std::max(compute, communication));
    CHECK(ddp.seconds < std::max(compute, communication + compute / 3) + 2 * largest);
  }
}

TEST_CASE("a small Llama: one live rank takes as long as four, to the last bit") {
  const TransformerConfig small = llama_config(2, 64, 128, 4, 2, 32, 128);
  const Cluster c = cluster_named("h100x8");
  const Step one = mirrored(c, small, 32, every(1, 4));
  std::vector<Step> all(4);
  run_on(c, 4, [&](Communicator& world) {
    all[static_cast<size_t>(world.rank())] = step(small, 32, &world);
  });
  for (const Step& each : all) {
    CHECK(each.seconds == one.seconds);
    CHECK(each.bytes_sent == one.bytes_sent);
    CHECK(each.messages_sent == one.messages_sent);
  }
}
