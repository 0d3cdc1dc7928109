#include "yotta/parallel/expert_parallel.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/layer_check.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/expert_cost.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t N = 13, C = 6;  // 13 tokens divide among 1 rank only
const ParameterOptions in_f64{1, DType::f64};

MoeOptions mixture(int64_t E, int64_t k) {
  MoeOptions o;
  o.router = {.width = C, .experts = E, .top_k = k, .renormalise = k > 1, .initial = normal(1)};
  o.experts = {.hidden = 4, .initial = normal(0.5), .initial_down = normal(0.5)};
  return o;
}

// x (n, 1, C): sequences of one token, of which the first is number `first` of all.
Passes forward_backward(Layer& layer, const Tensor& x, const Tensor& dy, int64_t first = 0) {
  return yotta_test::forward_backward(
      layer, x, dy, {.seed = 3, .step = 1, .first_sequence = first, .training = true});
}

// Scores of all experts from `most` on become equal, and the first of equal experts is chosen: few
// experts get all tokens, the others none.
void favour(const ParameterPtrs& parameters, int64_t most) {
  for (const ParameterPtr& each : parameters)
    if (each->name.ends_with("router.weight"))
      for (int64_t i = most * C; i < each->value.numel(); ++i) each->value.data<double>()[i] = 0;
}

// The gradients of a rank's parameters; each expert has one copy among `data`, unless `copies` says
// more.
void check_gradients_of(const ParameterPtrs& own, const ParameterPtrs& whole,
                        const Communicator& data, int ranks, const Communicator& copies = {}) {
  reduce_moe_gradients(own, copies, data);
  check_parts(own, whole, &Parameter::grad, ranks);
}

// On each number of ranks, each with its chunk of the tokens: all as on one rank.
void check_equals_serial(const MoeOptions& options, std::initializer_list<int> rank_counts,
                         int64_t most = 1000, int64_t tokens = N) {
  const Tensor x = random_tensor({tokens, 1, C}, "x"), dy = random_tensor({tokens, 1, C}, "dy");
  MoeMlp serial("mlp", options, in_f64);
  const ParameterPtrs whole = parameters_of(serial);
  favour(whole, most);
  const Passes expected = forward_backward(serial, x, dy);
  for (const int ep : rank_counts) {
    CAPTURE(ep);
    run_ranks(ep, [&](Communicator& world) {
      MoeMlp part("mlp", options, in_f64, {.ep = world});
      const ParameterPtrs own = parameters_of(part);
      check_parts(own, whole, &Parameter::value, ep, most < 1000 ? 10 : 0);
      favour(own, most);
      const int64_t begin = chunk_begin(tokens, ep, world.rank());
      const int64_t end = begin + chunk_count(tokens, ep, world.rank());
      const Passes out = forward_backward(part, x.rows(begin, end), dy.rows(begin, end), begin);
      check_equal(out.y, expected.y.rows(begin, end), "y", 1e-12, ep);
      check_equal(out.dx, expected.dx.rows(begin, end), "dx", 1e-12, ep);
      check_gradients_of(own, whole, world, ep);
    });
  }
}

}  // namespace

TEST_CASE("the plan of the picture: what leaves, what comes, and its order") {
  const std::vector<int64_t> counts = {1, 1, 1, 0, 0, 1, 1, 1};  // a b c on rank 0, d e f on rank 1
  const DispatchPlan zero = dispatch_plan(counts, 2, 0), one = dispatch_plan(counts, 2, 1);
  CHECK(zero.to == std::vector<int64_t>{2, 1});
  CHECK(zero.from == std::vector<int64_t>{2, 1});
  CHECK(zero.arriving == std::vector<int64_t>{1, 1, 0, 1});
  CHECK(zero.held == std::vector<int64_t>{1, 2});
  CHECK(one.to == std::vector<int64_t>{1, 2});
  CHECK(one.arriving == std::vector<int64_t>{1, 0, 1, 1});
  CHECK(one.held == std::vector<int64_t>{2, 1});
}

TEST_CASE("plans of all ranks fit each other, for experts that do not divide; by expert and back") {
  for (const int ep : {1, 2, 3, 4, 5})
    for (const int64_t E : {5, 8}) {
      std::vector<int64_t> counts;
      for (int64_t i = 0; i < ep * E; ++i) counts.push_back(i * 7 % 4);
      int64_t all = 0;
      for (int rank = 0; rank < ep; ++rank) {
        const DispatchPlan plan = dispatch_plan(counts, ep, rank);
        CHECK(std::ssize(plan.held) == chunk_count(E, ep, rank));
        for (int other = 0; other < ep; ++other)
          CHECK(plan.from[static_cast<size_t>(other)] ==
                dispatch_plan(counts, ep, other).to[static_cast<size_t>(rank)]);
        const int64_t M = std::accumulate(plan.held.begin(), plan.held.end(), int64_t{0});
        CHECK(M == std::accumulate(plan.from.begin(), plan.from.end(), int64_t{0}));
        all += M;
        std::vector<int32_t> expert;  // of each row that arrives
        for (size_t i = 0; i < plan.arriving.size(); ++i)
          expert.insert(expert.end(), static_cast<size_t>(plan.arriving[i]),
                        static_cast<int32_t>(i % plan.held.size()));
        const Tensor rows = Tensor::from(expert, {M, 1}), sorted = plan.by_expert(rows);
        const std::vector<double> order = sorted.values();
        CHECK(std::is_sorted(order.begin(), order.end()));
        CHECK(same_bits(plan.by_rank(sorted), rows));
      }
      CHECK(all == std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    }
}

TEST_CASE(
    "finite differences of the whole layer: dropless, with a capacity, with a shared expert") {
  for (const int64_t k : {1, 2, 4})
    for (const bool gated : {true, false}) {
      MoeOptions options = mixture(4, k);
      options.experts.gated = gated;
      options.capacity = gated ? 0 : 0.75;
      options.shared_hidden = gated ? 3 : 0;
      options.dropout = gated ? 0.2 : 0;
      std::vector<LayerPtr> layers;
      layers.push_back(std::make_unique<MoeMlp>("mlp", options, in_f64));
      check_gradients(layers, random_tensor({7, 1, C}, "x"),
                      {.seed = 3, .step = 1, .training = true});
    }
}

TEST_CASE("each token's y is the weighted sum of its experts' Mlps") {
  const MoeOptions options = mixture(4, 2);
  MoeMlp mixed("mlp", options, in_f64);
  const ParameterPtrs all = parameters_of(mixed);
  const Tensor x = random_tensor({N, C}, "x");
  Saved saved;
  const Tensor y = mixed.forward(x, saved);
  const Tensor logits = linear(x, all[0]->value);
  for (int64_t n = 0; n < N; ++n) {
    std::vector<double> z = logits.rows(n, n + 1).values();
    std::vector<size_t> order = {0, 1, 2, 3};
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
    const double odds = std::exp(z[order[1]] - z[order[0]]), weight = 1 / (1 + odds);
    Tensor sum = Tensor::zeros({1, C}, DType::f64);
    for (const size_t choice : {size_t{0}, size_t{1}}) {
      Mlp expert("e", {MlpKind::swiglu, C, 4, false}, in_f64);
      for (const ParameterPtr& of : parameters_of(expert))
        for (const ParameterPtr& from : all)
          if (from->name == "mlp.experts." + std::to_string(order[choice]) + of->name.substr(1))
            of->value.copy_from(from->value);
      Saved own;
      const Tensor one = expert.forward(x.rows(n, n + 1), own);
      for (int64_t c = 0; c < C; ++c)
        sum.data<double>()[c] += (choice == 0 ? weight : 1 - weight) * one.data<double>()[c];
    }
    check_equal(y.rows(n, n + 1), sum, "y of a token");
  }
}

TEST_CASE("1 to 8 ranks are the serial layer: y, dx, every gradient; top-k 1, 2 and 4") {
  for (const int64_t k : {1, 2, 4}) check_equals_serial(mixture(8, k), {1, 2, 3, 4, 8});
  check_equals_serial(mixture(5, 2), {2, 3, 4, 5});  // experts do not divide
}

TEST_CASE("a shared expert, dropout, gelu, sigmoid scores") {
  MoeOptions options = mixture(8, 2);
  options.shared_hidden = 6;
  options.dropout = 0.3;
  options.experts.gated = false;
  options.router.score = RouterScore::sigmoid;
  check_equals_serial(options, {1, 2, 4});
}

TEST_CASE("hot and empty experts; ranks without a token") {
  check_equals_serial(mixture(8, 1), {2, 3, 8}, 0);  // all to expert 0
  check_equals_serial(mixture(8, 1), {2, 3, 8}, 1);
  check_equals_serial(mixture(8, 2), {2, 4, 8}, 2);
  check_equals_serial(mixture(8, 2), {4, 8}, 1000, 3);  // 3 tokens
}

TEST_CASE("balance loss, z-loss and the bias see the loads of all ranks") {
  MoeOptions options = mixture(8, 2);
  options.router.balance_loss = 0.1;
  options.router.z_loss = 0.01;
  options.router.bias_rate = 0.001;
  check_equals_serial(options, {1, 2, 3, 4, 8});
  options.router.balance_loss = 0;  // the z-loss alone is a mean over all tokens
  check_equals_serial(options, {3});
}

TEST_CASE("with a capacity the ranks drop what one rank would") {
  for (const double capacity : {0.5, 1.0, 1.25}) {
    MoeOptions options = mixture(4, 2);
    options.capacity = capacity;
    check_equals_serial(options, {1, 2, 3, 4});
    check_equals_serial(options, {2, 4}, 1);
  }
}

TEST_CASE("a token that all its experts drop has y 0 and dx of the router's losses alone") {
  MoeOptions options = mixture(4, 1);
  options.capacity = 1.0 / 3;  // of 12 tokens each expert takes one
  MoeMlp mixed("mlp", options, in_f64);
  favour(parameters_of(mixed), 0);  // equal scores: all go to expert 0
  const Passes out =
      forward_backward(mixed, random_tensor({12, 1, C}, "x"), random_tensor({12, 1, C}, "dy"));
  for (int64_t n = 0; n < 12; ++n) {
    CHECK((sum_of_squares(out.y.rows(n, n + 1)) > 0) == (n == 0));
    CHECK((sum_of_squares(out.dx.rows(n, n + 1)) > 0) == (n == 0));
  }
}

TEST_CASE("three copies of each expert: gradients are summed over the copies, and not over ep") {
  MoeOptions options = mixture(4, 2);
  options.router.balance_loss = 0.1;
  options.capacity = 1;
  const Tensor x = random_tensor({N, 1, C}, "x"), dy = random_tensor({N, 1, C}, "dy");
  MoeMlp serial("mlp", options, in_f64);
  const ParameterPtrs whole = parameters_of(serial);
  const Passes expected = forward_backward(serial, x, dy);
  run_ranks(6, [&](Communicator& world) {
    const int rank = world.rank();
    const Communicator ep = world.split(rank / 2, rank), copies = world.split(rank % 2, rank);
    MoeMlp part("mlp", options, in_f64, {.ep = ep, .routed = world});
    const ParameterPtrs own = parameters_of(part);
    const int64_t begin = chunk_begin(N, 6, rank), end = begin + chunk_count(N, 6, rank);
    const Passes out = forward_backward(part, x.rows(begin, end), dy.rows(begin, end), begin);
    check_equal(out.y, expected.y.rows(begin, end), "y", 1e-12, 6);
    check_equal(out.dx, expected.dx.rows(begin, end), "dx", 1e-12, 6);
    check_gradients_of(own, whole, world, 6, copies);
  });
}

TEST_CASE("tp inside the experts, ep outside: outputs and every gradient; tokens cut as well") {
  for (const bool cut : {false, true}) {
    MoeOptions options = mixture(4, 2);
    options.shared_hidden = 6;
    options.dropout = 0.3;
    options.router.balance_loss = 0.1;
    constexpr int64_t T = 4, n = 12;  // 3 sequences of 4 tokens on each rank of ep
    const Tensor x = random_tensor({2 * n / T, T, C}, "x"),
                 dy = random_tensor({2 * n / T, T, C}, "y");
    MoeMlp serial("mlp", options, in_f64);
    const ParameterPtrs whole = parameters_of(serial);
    const Passes expected = forward_backward(serial, x, dy);
    run_ranks(4, [&](Communicator& world) {
      const int rank = world.rank();
      const Communicator tp = world.split(rank / 2, rank), ep = world.split(rank % 2, rank);
      BorderPtr border = std::make_shared<Border>(tp);
      if (cut) border = std::make_shared<SequenceBorder>(tp, T);
      MoeMlp part("mlp", options, in_f64, {.ep = ep, .border = border});
      const ParameterPtrs own = parameters_of(part);
      const auto mine = [&](const Tensor& all) {
        const Tensor of_ep = all.rows(ep.rank() * 3, ep.rank() * 3 + 3);
        const int64_t first = chunk_begin(n, 2, tp.rank());
        return cut ? as_rows(of_ep).rows(first, first + tokens_held(n, tp)) : of_ep;
      };
      const Passes out = forward_backward(part, mine(x), mine(dy), ep.rank() * 3);
      check_equal(out.y, mine(expected.y), "y", 1e-12, 4);
      check_equal(out.dx, mine(expected.dx), "dx", 1e-12, 4);
      check_gradients_of(own, whole, ep, 4);
    });
  }
}

TEST_CASE("inside nodes first, then between them: the same bits in fewer messages") {
  const Tensor x = random_tensor({N, 1, C}, "x"), dy = random_tensor({N, 1, C}, "dy");
  for (const int node : {1, 2, 4, 8}) {
    const auto reports = run_ranks(8, [&](Communicator& ep) {
      const int64_t begin = chunk_begin(N, 8, ep.rank()),
                    end = begin + chunk_count(N, 8, ep.rank());
      MoeOptions options = mixture(8, 2);
      MoeMlp flat("mlp", options, in_f64, {.ep = ep});
      options.comm = {.algorithm = Algorithm::hierarchical, .node = node};
      const Passes a = forward_backward(flat, x.rows(begin, end), dy.rows(begin, end));
      context().ledger.reset();
      MoeMlp hops("mlp", options, in_f64, {.ep = ep});
      const Passes b = forward_backward(hops, x.rows(begin, end), dy.rows(begin, end));
      CHECK(same_bits(a.y, b.y));
      CHECK(same_bits(a.dx, b.dx));
    });
    for (const RankReport& rank : reports)
      for (const char* label : {"ep.dispatch", "ep.combine", "ep.combine_backward"})
        CHECK(rank.ledger().traffic(label).messages_sent == expert_messages(8, node));
  }
}

TEST_CASE("bf16 rows travel in 2 bytes per number; outputs are the serial layer's bits") {
  const ParameterOptions bf16{1, DType::bf16};
  const Tensor x = random_tensor({N, 1, C}, "x", DType::bf16),
               dy = random_tensor({N, 1, C}, "dy", DType::bf16);
  MoeMlp serial("mlp", mixture(4, 2), bf16);
  const Passes expected = forward_backward(serial, x, dy);
  run_ranks(4, [&](Communicator& ep) {
    const int64_t begin = chunk_begin(N, 4, ep.rank()), end = begin + chunk_count(N, 4, ep.rank());
    MoeMlp part("mlp", mixture(4, 2), bf16, {.ep = ep});
    const Passes out = forward_backward(part, x.rows(begin, end), dy.rows(begin, end));
    CHECK(same_bits(out.y, expected.y.rows(begin, end)));
    CHECK(same_bits(out.dx, expected.dx.rows(begin, end)));
    CHECK(context().ledger.traffic("ep.dispatch").bytes_sent % (2 * C) == 0);
  });
}

TEST_CASE("more ranks than experts, and an F that tp does not divide, are refused") {
  const auto error = [](int ranks, bool tp) {
    return error_of<RankFailed>(ranks, [&](Communicator& world) {
      MoeAxes axes;
      if (tp)
        axes.border = std::make_shared<Border>(world);
      else
        axes.ep = world;
      MoeMlp("layers.0.mlp", mixture(4, 2), in_f64, axes);
    });
  };
  check_says(error(5, false), {"layers.0.mlp: 4 experts cannot be shared out among 5 ranks of ep",
                               "take at most 4", "expert_parallel_test.cpp:"});
  check_says(error(3, true), {"layers.0.mlp: 4 hidden numbers of an expert cannot be divided",
                              "the nearest number that can is 3"});
}

TEST_CASE("an x of another type than the weights is refused, before anything is sent") {
  MoeMlp layer("layers.0.mlp", mixture(4, 2), {1, DType::bf16});
  Saved saved;
  const std::string said = message_of([&] { layer.forward(Tensor::zeros({3, C}), saved); });
  check_says(said,
             {"layers.0.mlp: x is (3, 6) f32", "expected bf16", "convert with .to(DType::bf16)"});
}
