#include "yotta/parallel/expert_share.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Choices of n tokens, k different ones of E each.
Tensor choices(int64_t n, int64_t k, int64_t E) {
  Tensor expert = Tensor::empty({n, k}, DType::i32);
  const Random random(5, "choices");
  for (int64_t a = 0; a < n * k; ++a) {
    const auto first = static_cast<int64_t>(random.uniform(static_cast<uint64_t>(a / k)) * 1.6);
    expert.data<int32_t>()[a] = static_cast<int32_t>((first + a % k) % E);
  }
  return expert;
}

}  // namespace

TEST_CASE("experts and their hidden numbers, shared out") {
  MoeOptions options;
  options.router = {.width = 6, .experts = 5, .top_k = 2};
  options.experts = {.hidden = 8, .experts = 77};
  run_ranks(4, [&](Communicator& world) {
    const Communicator tp = world.split(world.rank() / 2, world.rank());
    const Communicator ep = world.split(world.rank() % 2, world.rank());
    const ExpertsOptions held =
        held_experts(options, {.ep = ep, .border = std::make_shared<Border>(tp)}, "mlp");
    CHECK(held.experts == 5);
    CHECK(held.width == 6);
    CHECK(held.first_expert == (ep.rank() == 0 ? 0 : 3));
    CHECK(held.held_experts == (ep.rank() == 0 ? 3 : 2));
    CHECK(held.held_hidden == 4);
    CHECK(held.first_hidden == 4 * tp.rank());
  });
  const ExpertsOptions all = held_experts(options, {}, "mlp");
  CHECK(all.held_experts == 5);
  CHECK(all.held_hidden == 8);
}

TEST_CASE(
    "a shared expert without numbers and a capacity below 0 are refused where they are made") {
  MoeOptions options;
  options.shared_hidden = -1;
  CHECK(contains(message_of([&] { shared_expert(options); }), "expert_share_test.cpp"));
  CHECK(contains(message_of([&] { shared_expert(options); }),
                 "the shared expert has -1 hidden numbers"));
  options.capacity = -0.5;
  CHECK(contains(message_of([&] { held_experts(options, {}, "mlp"); }),
                 "the capacity factor of experts is -0.5"));
}

TEST_CASE("ranks keep the rows that one rank with all tokens would") {
  constexpr int64_t n = 23, k = 2, E = 4;
  const Tensor all = choices(n, k, E);
  for (const double factor : {0.0, 0.5, 1.0, 1.5}) {
    MoeOptions options;
    options.router = {.experts = E, .top_k = k};
    options.capacity = factor;
    const ExpertRows whole = rows_within_capacity(all, options, {});
    if (factor > 0)
      for (const int64_t rows : whole.counts) CHECK(rows <= expert_capacity(factor, n, k, E));
    for (const int ranks : {1, 2, 3, 8}) {
      std::vector<std::vector<int64_t>> kept(static_cast<size_t>(ranks));
      std::vector<std::vector<double>> assignments(static_cast<size_t>(ranks));
      run_ranks(ranks, [&](Communicator& world) {
        const int64_t begin = chunk_begin(n, ranks, world.rank());
        const Tensor mine = all.rows(begin, begin + chunk_count(n, ranks, world.rank()));
        const ExpertRows rows = rows_within_capacity(mine, options, world);
        kept[static_cast<size_t>(world.rank())] = rows.counts;
        for (const double a : rows.assignment.values())
          assignments[static_cast<size_t>(world.rank())].push_back(a +
                                                                   static_cast<double>(begin * k));
        CHECK(context().ledger.traffic("ep.capacity").bytes_sent ==
              (factor > 0 ? (ranks - 1) * E * 8 : 0));
      });
      // Expert by expert, the rows of all ranks are those of the whole, in the same order.
      std::vector<double> put_together;
      for (size_t e = 0; e < E; ++e)
        for (size_t r = 0; r < kept.size(); ++r) {
          int64_t first = 0;
          for (size_t i = 0; i < e; ++i) first += kept[r][i];
          const auto from = assignments[r].begin() + first;
          put_together.insert(put_together.end(), from, from + kept[r][e]);
        }
      CHECK(put_together == whole.assignment.values());
    }
  }
}

TEST_CASE("the share that is dropped falls with the capacity") {
  const std::vector<int64_t> even = {4, 4, 4, 4}, hot = {10, 4, 2, 0};
  CHECK(dropped_share(even, 1) == 0);
  CHECK(dropped_share(even, 0.5) == 0.5);
  CHECK(dropped_share(hot, 1) == 6.0 / 16);
  CHECK(dropped_share(hot, 2) == 2.0 / 16);
  CHECK(dropped_share(hot, 2.5) == 0);
  CHECK(dropped_share(hot, 0) == 0);  // no capacity
  CHECK(dropped_share(std::vector<int64_t>{0, 0}, 1) == 0);
}
