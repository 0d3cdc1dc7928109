#include "yotta/parallel/expert_cost.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/critical_path.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t C = 16;

MoeOptions mixture(int64_t E, int64_t k, int64_t hidden = 8) {
  MoeOptions o;
  o.router = {.width = C, .experts = E, .top_k = k};
  o.experts = {.hidden = hidden};
  return o;
}

// Forward, or forward and backward, of n tokens on each rank, without numbers.
Timed run_shapes(const Cluster& cluster, int ep, const MoeOptions& options, int64_t n,
                 bool both = false) {
  return run_on(cluster, ep, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    MoeMlp part("mlp", options, {}, {.ep = world});
    Saved saved;
    const Tensor x = Tensor::empty({n, C});
    part.forward(x, saved);
    if (!both) return;
    part.backward_input(x, saved);
    part.backward_weight(saved);
  });
}

// The same with numbers; each router sends every token to expert 0.
Timed run_hot(const Cluster& cluster, int ep, const MoeOptions& options, int64_t n) {
  return run_on(cluster, ep, [&](Communicator& world) {
    MoeMlp part("mlp", options, {}, {.ep = world});
    std::vector<ParameterPtr> own;
    part.add_parameters(own);
    own[0]->value.zero();
    Saved saved;
    part.forward(Tensor::full({n, C}, 1), saved);
  });
}

const char* const exchanges[] = {"ep.dispatch", "ep.combine", "ep.combine_backward",
                                 "ep.dispatch_backward"};

bool equal(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

}  // namespace

TEST_CASE("bytes are those of the rows that leave, on every rank, for each of four exchanges") {
  for (const int ep : {1, 2, 3, 4, 8})
    for (const int64_t k : {1, 2, 4})
      run_ranks(ep, [&](Communicator& world) {
        const int rank = world.rank();
        MoeMlp part("mlp", mixture(8, k), {1, DType::f64}, {.ep = world});
        const Tensor x = random_tensor({5 + rank, C}, "x" + std::to_string(rank));
        Saved saved;
        part.forward(x, saved);
        const Tensor counts = saved.get("counts");
        part.backward_input(x, saved);
        const DispatchPlan plan = dispatch_plan(counts.span<int64_t>(), ep, rank);
        for (const char* label : exchanges) {
          const bool there = label == exchanges[0] || label == exchanges[2];
          const Traffic sent = context().ledger.traffic(label);
          CHECK(sent.bytes_sent == expert_bytes_sent(there ? plan.to : plan.from, rank, C, 8));
          CHECK(sent.messages_sent == expert_messages(ep));
        }
        CHECK(context().ledger.traffic("ep.counts").bytes_sent == (ep - 1) * 8 * 8);
      });
}

TEST_CASE("shapes without data: uniform routing sends n k C (ep-1)/ep numbers") {
  for (const int ep : {1, 2, 4, 8})
    for (const DType dtype : {DType::f32}) {
      const Timed run = run_shapes(ideal(ep), ep, mixture(16, 2), 1024, true);
      for (const RankReport& rank : run.reports)
        for (const char* label : exchanges)
          CHECK(rank.ledger().traffic(label).bytes_sent ==
                uniform_expert_bytes_sent(1024, 2, C, ep, bytes_of(dtype)));
    }
}

TEST_CASE("messages straight and by two hops") {
  CHECK(expert_messages(64) == 63);
  CHECK(expert_messages(64, 8) == 14 + 7);
  CHECK(expert_messages(8, 8) == 14);  // one node: the counts are sent for nothing
}

TEST_CASE("on the virtual clock a forward pass is the counts, dispatch, experts and combine") {
  constexpr double rate = 1e9, bandwidth = 1e6;
  for (const int ep : {2, 4, 8}) {
    const Timed run = run_shapes(ideal(ep, rate, bandwidth), ep, mixture(8, 2), 512);
    const double bytes = 512 * 2 * C * 4;
    const double exchange = all_to_all_pairwise_seconds(ep, bytes, {0, 1 / bandwidth, 0});
    const double counts = (ep - 1) * 8.0 * 8 / bandwidth;
    const double flops = run.reports[0].ledger().total_flops();
    CHECK(equal(run.seconds(), counts + 2 * exchange + flops / rate));
  }
}

TEST_CASE("two nodes of eight H100: two hops are faster, by the formulas' difference") {
  const Cluster cluster = cluster_named("h100x16");
  const auto link = [&](size_t level) {
    return AlphaBeta{cluster.levels[level].alpha, cluster.levels[level].beta, 0};
  };
  for (const int64_t n : {16, 4096}) {
    MoeOptions options = mixture(16, 2);
    const double flat = run_shapes(cluster, 16, options, n).seconds();
    options.comm = {.algorithm = Algorithm::hierarchical, .node = 8};
    const double hops = run_shapes(cluster, 16, options, n).seconds();
    const double bytes = static_cast<double>(n) * 2 * C * 4;
    const double less = all_to_all_pairwise_seconds(16, bytes, link(1)) -
                        all_to_all_v_hierarchical_seconds(16, bytes, 8, link(0), link(1));
    CHECK(less > 0);
    CHECK(std::abs(flat - hops - 2 * less) <= 1e-9 * flat);
  }
}

TEST_CASE("a shared expert that is faster than dispatch costs no time") {
  constexpr double rate = 1e9, bandwidth = 1e6;
  for (const int64_t shared : {16, 64}) {
    MoeOptions options = mixture(8, 2);
    const Timed without = run_shapes(ideal(4, rate, bandwidth), 4, options, 512);
    options.shared_hidden = shared;
    const Timed with = run_shapes(ideal(4, rate, bandwidth), 4, options, 512);
    const double more =
        (with.reports[0].ledger().total_flops() - without.reports[0].ledger().total_flops()) / rate;
    const double adding = 512.0 * C / rate;  // y += shared, after combine
    CHECK(more > 10 * adding);
    CHECK(equal(with.seconds(), without.seconds() + adding));
  }
}

TEST_CASE("a hot expert: one rank computes for all, the others wait for it") {
  constexpr double rate = 1e6;
  constexpr int64_t n = 64, hidden = 32;
  const Cluster fast = ideal(4, rate);
  const double even = run_shapes(fast, 4, mixture(4, 1, hidden), n).seconds();
  const Timed hot = run_hot(fast, 4, mixture(4, 1, hidden), n);
  const double row = 6.0 * C * hidden / rate;  // seconds of a row in its expert
  const std::vector<int64_t> rows = {4 * n, 0, 0, 0};
  CHECK(load_factor(rows) == 4);
  const double longer = (hot.seconds() - even) / row;
  CHECK(longer >= 3 * n);    // rows more on the slowest rank
  CHECK(longer <= 3.2 * n);  // and their activation
  for (const int rank : {1, 2, 3}) {
    const std::vector<WaitedFor> waited = waited_for(hot.trace, rank);
    REQUIRE(!waited.empty());
    CHECK(waited[0].rank == 0);
    CHECK(waited[0].kind == EventKind::op);
    CHECK(waited[0].name == "grouped_linear");
    CHECK(equal(waited[0].seconds, 4 * n * row));
    CHECK(hot.busy_share(rank) < 0.05);
  }
  CHECK(hot.busy_share(0) > 0.99);
}

TEST_CASE("the F at which experts compute as long as their rows travel") {
  const double F = expert_hidden_width(48e6, 1e6, 8, 4);  // 56
  CHECK(F == doctest::Approx(56));
  const Timed run = run_shapes(ideal(8, 48e6, 1e6), 8, mixture(8, 2, 56), 512);
  const double computing = run.reports[0].ledger().op("grouped_linear").flops / 48e6;
  const double travelling =
      2 * static_cast<double>(uniform_expert_bytes_sent(512, 2, C, 8, 4)) / 1e6;
  CHECK(equal(computing, travelling));
  // H100 over 400 Gb/s, bf16, ep 64: experts of DeepSeek-V3 (F = 2048) compute for less time.
  CHECK(expert_hidden_width(989.4e12, 50e9, 64, 2) > 2048);
}

TEST_CASE("the largest load over the mean") {
  CHECK(load_factor(std::vector<int64_t>{3, 3, 3}) == 1);
  CHECK(load_factor(std::vector<int64_t>{6, 3, 0}) == 2);
  CHECK(load_factor(std::vector<int64_t>{0, 0}) == 1);
}

TEST_CASE(
    "one rank stands for its images: the time of a step, and what it sends, are a real rank's") {
  const Cluster cluster = cluster_named("h100x8");
  MoeOptions options = mixture(16, 2);
  options.capacity = 1.25;
  options.router.balance_loss = 0.01;
  const Timed real = run_shapes(cluster, 8, options, 1024, true);
  const Timed mirrored = run_on(cluster, 1, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    MoeMlp part("mlp", options, {}, {.ep = world.mirrored({0, 1, 2, 3, 4, 5, 6, 7})});
    Saved saved;
    const Tensor x = Tensor::empty({1024, C});
    part.forward(x, saved);
    part.backward_input(x, saved);
    part.backward_weight(saved);
  });
  CHECK(equal(mirrored.seconds(), real.seconds()));
  const Ledger &one = mirrored.reports[0].ledger(), &of_eight = real.reports[0].ledger();
  CHECK(one.total_traffic().bytes_sent == of_eight.total_traffic().bytes_sent);
  CHECK(one.total_flops() == of_eight.total_flops());
}
