// The graded cases of exercise 25: six tokens on two ranks by hand, then mixtures in f64 on 1 to 4 ranks against one.
#include <atomic>
#include <map>
#include <numeric>

#include "course/shared/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;
using exercise::error_of;
using exercise::expect;
using exercise::Plan;
using exercise::run;
using exercise::solution;

namespace {

constexpr int64_t C = 3;
const ParameterOptions in_f64{1, DType::f64};

Tensor numbers(const Shape& shape, const std::string& name) {
  return exercise::normal_numbers(shape, 25, name);
}

using List = std::vector<int64_t>;
std::string text_of(const List& list) {
  std::string text;
  for (const int64_t each : list) text += (text.empty() ? "" : " ") + std::to_string(each);
  return "{" + text + "}";
}

void expect_list(const List& got, const List& expected, const std::string& what,
                 const std::string& why = "") {
  if (got != expected)
    fail(Where::current(), "{} is {}, expected {}{}", what, text_of(got), text_of(expected), why);
}

void expect_equal(const Tensor& actual, const Tensor& expected, const std::string& what, int p,
                  std::vector<Suspect> suspects = {}) {
  exercise::expect_equal(actual, expected, what, p, std::move(suspects), 1e-11);
}

// Counts (ep, E) without a pattern; some are 0.
List counts_of(int ep, int64_t E) {
  List counts;
  for (int64_t i = 0; i < ep * E; ++i) counts.push_back((i * 7 + i / 3) % 5);
  return counts;
}

}  // namespace

TEST_CASE("25.1: what leaves for each rank, and what comes from it") {
  for (const int ep : {1, 2, 3, 4})
    for (const int64_t E : {4, 5}) {
      const List counts = counts_of(ep, E);
      for (int rank = 0; rank < ep; ++rank) {
        const Plan plan = solution.dispatch_plan(counts, ep, rank);
        const DispatchPlan right = dispatch_plan(counts, ep, rank);
        const std::string of = fmt::format("on rank {} of {}, with {} experts: ", rank, ep, E);
        const bool mirrored = rank < ep && plan.from == right.to && plan.from != right.from;
        expect_list(plan.to, right.to, of + "plan.to",
                    E % ep != 0 ? fmt::format(" (ep does not divide E: rank r's experts begin at "
                                              "chunk_begin(E, ep, r), here {} of them on rank 0)",
                                              chunk_count(E, ep, 0))
                                : "");
        expect_list(plan.from, right.from, of + "plan.from",
                    mirrored ? ". Yours is what leaves. What comes is decided by the other ranks' "
                               "routers: their rows of counts"
                             : "");
      }
    }
  CHECK(true);
}

TEST_CASE("25.1: what arrives, by rank and expert, and how many rows each expert held gets") {
  for (const int ep : {1, 2, 3, 4})
    for (const int64_t E : {4, 5}) {
      const List counts = counts_of(ep, E);
      for (int rank = 0; rank < ep; ++rank) {
        const Plan plan = solution.dispatch_plan(counts, ep, rank);
        const DispatchPlan right = dispatch_plan(counts, ep, rank);
        const std::string of = fmt::format("on rank {} of {}, with {} experts: ", rank, ep, E);
        expect_list(plan.arriving, right.arriving, of + "plan.arriving");
        expect_list(plan.held, right.held, of + "plan.held");
      }
    }
  CHECK(true);
}

TEST_CASE("25.2: rows that arrived rank by rank are sorted by expert, and back again") {
  const std::pair<List, int> cases[] = {
      {{1, 2, 2, 1}, 2}, {{2, 1, 1, 0, 3, 1}, 2}, {{1, 1, 0, 2, 1, 0}, 3}};
  for (const auto& [arriving, ep] : cases) {
    const auto held = static_cast<int64_t>(arriving.size()) / ep;
    const int64_t M = std::accumulate(arriving.begin(), arriving.end(), int64_t{0});
    Plan plan{{}, List(static_cast<size_t>(ep)), arriving, List(static_cast<size_t>(held))};
    Tensor rows = Tensor::empty({M, 2}, DType::f64), sorted = rows.clone();
    std::vector<double>
        order;  // a row says its rank, its expert and its place: 10 r + e + place / 10
    std::vector<std::vector<double>> by_expert(static_cast<size_t>(held));
    for (size_t i = 0; i < arriving.size(); ++i)
      for (int64_t j = 0; j < arriving[i]; ++j) {
        const size_t r = i / static_cast<size_t>(held), e = i % static_cast<size_t>(held);
        order.push_back(static_cast<double>(10 * r + e) + 0.1 * static_cast<double>(j));
        by_expert[e].push_back(order.back());
      }
    std::vector<double> expected;
    for (const auto& each : by_expert) expected.insert(expected.end(), each.begin(), each.end());
    for (int64_t i = 0; i < M; ++i)
      for (int64_t c = 0; c < 2; ++c) {
        rows.data<double>()[2 * i + c] = order[static_cast<size_t>(i)];
        sorted.data<double>()[2 * i + c] = expected[static_cast<size_t>(i)];
      }
    const std::string runs =
        fmt::format("runs of {} rows from {} ranks for {} experts", text_of(arriving), ep, held);
    expect_equal(solution.by_expert(plan, rows), sorted, runs + ", sorted by expert", ep,
                 {{"the rows as they arrived, rank by rank: nothing moved", rows.values()}});
    expect_equal(solution.by_rank(plan, sorted), rows, runs + ", put back by rank", ep,
                 {{"the rows as they were, by expert: nothing moved", sorted.values()}});
  }
  CHECK(true);
}

namespace {

// Rank r sends r + 2 s + 1 rows to rank s, but none to itself if it is the last.
int64_t rows_between(int from, int to, int p) {
  return from == to && from == p - 1 ? 0 : from + 2 * to + 1;
}

Tensor rows_for(int from, int to, int p) {
  return numbers({rows_between(from, to, p), C}, fmt::format("{} to {}", from, to));
}

}  // namespace

TEST_CASE("25.3: each rank gets the rows that the others have for it, in the order of ranks") {
  for (const int p : {1, 2, 3, 4}) {
    std::vector<RankReport> reports;
    const std::string error = error_of([&] {
      reports = run(p, [&](Communicator& ep) {
        const int rank = ep.rank();
        List to, from;
        std::vector<Tensor> leaving, coming;
        for (int r = 0; r < p; ++r) {
          to.push_back(p == 1 ? 2 : rows_between(rank, r, p));
          from.push_back(p == 1 ? 2 : rows_between(r, rank, p));
          leaving.push_back(p == 1 ? numbers({2, C}, "own") : rows_for(rank, r, p));
          coming.push_back(p == 1 ? leaving.back() : rows_for(r, rank, p));
        }
        const Tensor got = solution.exchange(cat(leaving, 0), to, from, ep, [] {});
        expect_equal(got, cat(coming, 0), fmt::format("what came to rank {} of {}", rank, p), p);
      });
    });
    if (!error.empty() && error.find("what came to") == std::string::npos)
      fail(Where::current(),
           "on {} ranks the exchange fails. It needs room for the rows that come, the sum of "
           "`from`; and its counts are numbers, {} of them a row of {}. It says: {}",
           p, C, C, error);
    expect(error.empty(), error);
    int64_t sent = 0, expected = 0;
    for (int r = 0; r < p; ++r) {
      sent += reports[static_cast<size_t>(r)].ledger().traffic("ep.rows").bytes_sent;
      for (int s = 0; s < p; ++s) expected += r == s ? 0 : 8 * C * rows_between(r, s, p);
    }
    expect(sent == expected,
           fmt::format("right, but {} bytes were sent under \"ep.rows\" on {} ranks, and the rows "
                       "that leave their rank have {}: pass `comm`, which holds the label",
                       sent, p, expected));
  }
}

TEST_CASE("25.3: the exchange is in flight: the rank computes meanwhile") {
  constexpr double travelling = 100 * C * 8 / 1e5, computing = 0.01;  // seconds
  const double mine = run_on(ideal(2, 1e9, 1e5), 2, [&](Communicator& ep) {
                        const DeviceScope meta(Device::meta);
                        const List each = {100, 100};
                        solution.exchange(Tensor::empty({200, C}, DType::f64), each, each, ep, [&] {
                          charge(OpCost{"work", DType::f64, 1e9 * computing, 0, 0});
                        });
                      }).seconds();
  expect(mine < travelling + computing / 2,
         fmt::format("right rows, but the exchange takes {:.0f} ms, {:.0f} ms of work fit beside "
                     "it, and both take {:.0f} ms: begin it with all_to_all_v_async, keep the Work "
                     "in work_, and leave the waiting to wait()",
                     1e3 * travelling, 1e3 * computing, 1e3 * mine));
}

namespace {

MoeOptions mixture(int64_t E, int64_t k) {
  MoeOptions o;
  o.router = {.width = C, .experts = E, .top_k = k, .initial = normal(1)};
  o.experts = {.hidden = 4, .initial = normal(0.5), .initial_down = normal(0.5)};
  return o;
}

struct Outcome {
  Tensor y, dx;
  std::map<std::string, Tensor> gradients = {};
};

std::vector<ParameterPtr> parameters_of(Layer& layer) {
  std::vector<ParameterPtr> all;
  layer.add_parameters(all);
  return all;
}

// Forward, and if there is a dy backward, of x's rows.
Outcome run_layer(Layer& layer, const Tensor& x, const Tensor& dy = {},
                  std::atomic<int>* forwards = nullptr) {
  Saved saved;
  Outcome out{layer.forward(x, saved), {}};
  for (const char* kept : {"counts", "results"})
    if (!saved.has(kept))
      fail(Where::current(), "forward has kept no \"{}\", which backward will ask for", kept);
  if (forwards != nullptr) ++*forwards;
  if (!dy.defined()) return out;
  out.dx = layer.backward_input(dy, saved);
  layer.backward_weight(saved);
  for (const ParameterPtr& each : parameters_of(layer))
    out.gradients[each->name] = each->gradient().clone();
  return out;
}

Tensor own(const Tensor& all, const Communicator& ep) {
  const int64_t n = all.dim(0);
  return all.rows(chunk_begin(n, ep.size(), ep.rank()), chunk_begin(n, ep.size(), ep.rank() + 1));
}

// Which rows of y are of tokens that no expert kept.
int64_t rows_of_zeros(const Tensor& y) {
  int64_t rows = 0;
  const std::vector<double> values = y.values();
  for (int64_t i = 0; i < y.dim(0); ++i) {
    bool zero = true;
    for (int64_t c = 0; c < C; ++c) zero = zero && values[static_cast<size_t>(i * C + c)] == 0;
    rows += zero ? 1 : 0;
  }
  return rows;
}

// The sum of each token's experts without their weights.
Tensor unweighted(const MoeOptions& options, const Tensor& x) {
  MoeMlp layer("mlp", options, in_f64);
  Saved saved;
  layer.forward(x, saved);
  const Tensor results = saved.get("results"), assignment = saved.get("assignment");
  return combine_rows(results, assignment,
                      Tensor::full(saved.get("weight").shape(), 1, DType::f64));
}

Tensor without_shared(MoeOptions options, const Tensor& x) {
  options.shared_hidden = 0;
  MoeMlp layer("mlp", options, in_f64);
  return run_layer(layer, x).y;
}

// What an error of the layer's own means: `why` stands before it if it holds these words.
struct Diagnosis {
  const char* words;
  std::string why;
};

// On 1 to 4 ranks as on one.
void expect_forward(const MoeOptions& options, const char* what, const Diagnosis& diagnosis) {
  const Tensor x = numbers({11, C}, "x");
  MoeMlp serial("mlp", options, in_f64);
  const Tensor y = run_layer(serial, x).y;
  const bool shared = options.shared_hidden > 0;
  const char* const half_done =
      shared
          ? "the sum without the shared expert"
          : "the sum of the experts' results, each with weight 1: combine_rows takes the router's "
            "weights";
  const Tensor suspect = shared ? without_shared(options, x) : unweighted(options, x);
  for (const int p : {1, 2, 3, 4}) {
    const std::string error = error_of([&] {
      run(p, [&](Communicator& ep) {
        const LayerPtr layer = solution.make_layer(options, {.ep = ep});
        expect_equal(run_layer(*layer, own(x, ep)).y, own(y, ep),
                     fmt::format("y of {} on rank {} of {}", what, ep.rank(), p), p,
                     {{half_done, own(suspect, ep).values()}});
      });
    });
    const bool known = error.find(diagnosis.words) != std::string::npos;
    expect(error.empty(), (known ? diagnosis.why : "") + error);
  }
}

// Of a forward pass on 4 ranks on the virtual clock, or of a step.
double seconds_of(int64_t shared, bool library, bool backward) {
  MoeOptions options = mixture(4, 2);
  options.shared_hidden = shared;
  return run_on(ideal(4, 1e9, 1e5), 4,
                [&](Communicator& ep) {
                  const DeviceScope meta(Device::meta);
                  const MoeAxes axes{.ep = ep};
                  const LayerPtr layer =
                      library ? std::make_unique<MoeMlp>("mlp", options, in_f64, axes)
                              : solution.make_layer(options, axes);
                  Saved saved;
                  const Tensor x = Tensor::empty({64, C}, DType::f64);
                  layer->forward(x, saved);
                  if (backward) layer->backward_input(x, saved);
                })
      .seconds();
}

// On 2 ranks of tp that share out the tokens of 3 sequences: y, or dx, as on one rank.
std::string error_with_cut_tokens(int64_t shared, bool backward) {
  constexpr int64_t T = 4, n = 3 * T;
  MoeOptions options = mixture(4, 2);
  options.shared_hidden = shared;
  const Tensor x = numbers({n, C}, "x"), dy = numbers({n, C}, "dy");
  MoeMlp serial("mlp", options, in_f64);
  const Outcome expected = run_layer(serial, x, dy);
  return error_of([&] {
    run(2, [&](Communicator& tp) {
      const LayerPtr layer = solution.make_layer(options, {.tp = tp, .sequence = SequenceCut{T}});
      const Outcome out = run_layer(*layer, own(x, tp), backward ? own(dy, tp) : Tensor());
      const std::string of = fmt::format(" on rank {} of 2 of tp", tp.rank());
      if (backward)
        expect_equal(out.dx, own(expected.dx, tp), "dx" + of, 2);
      else
        expect_equal(out.y, own(expected.y, tp), "y" + of, 2);
    });
  });
}

// What rank 0 of 3 sends under each of these labels, in a forward pass or a step: one exchange.
void expect_exchanges(bool backward, const std::vector<const char*>& labels) {
  const Tensor x = numbers({12, C}, "x");
  const auto reports = run(3, [&](Communicator& ep) {
    const LayerPtr layer = solution.make_layer(mixture(6, 2), {.ep = ep});
    run_layer(*layer, own(x, ep), backward ? own(x, ep) : Tensor());
  });
  for (const char* label : labels) {
    const auto messages = reports[0].ledger().traffic(label).messages_sent;
    expect(messages == 2,
           fmt::format("right, but rank 0 of 3 sent {} messages under \"{}\", and one "
                       "exchange sends 2",
                       messages, label));
  }
}

const Diagnosis ranks_disagree = {
    "which expects",
    "the ranks do not agree on how many rows travel: all_counts() comes first, and the plan is "
    "made of what it returns. "};

}  // namespace

TEST_CASE("25.4: y of 1 to 4 ranks is y of one rank: k 1, 2 and 3") {
  for (const int64_t k : {1, 2, 3}) expect_forward(mixture(5, k), "11 tokens", ranks_disagree);
}

TEST_CASE("25.4: with a capacity, a token that no expert keeps has y 0") {
  MoeOptions options = mixture(4, 1);
  options.capacity = 0.5;
  MoeMlp serial("mlp", options, in_f64);
  const int64_t dropped = rows_of_zeros(run_layer(serial, numbers({11, C}, "x")).y);
  expect_forward(
      options, "11 tokens with a capacity",
      {"do not reshape",
       fmt::format("the capacity drops {} of 11 tokens. They have a row in y all the same, "
                   "of zeros: the residual stream around the layer carries them on. The "
                   "layer says: ",
                   dropped)});
}

TEST_CASE("25.4: the shared expert is added, and runs while rows are on their way") {
  MoeOptions options = mixture(4, 2);
  options.shared_hidden = 5;
  expect_forward(options, "11 tokens with a shared expert", ranks_disagree);
  const double mine = seconds_of(4096, false, false), right = seconds_of(4096, true, false),
               none = seconds_of(0, true, false);
  expect(mine <= right + 1e-4,
         fmt::format("right values, but a forward pass takes {:.2f} ms on the virtual clock, and "
                     "{:.2f} ms if the shared expert runs while the rows travel ({:.2f} ms without "
                     "it): start it after send() and before wait(), "
                     "and let 25.3's exchange be in flight, by all_to_all_v_async",
                     1e3 * mine, 1e3 * right, 1e3 * none));
}

TEST_CASE("25.4: forward keeps the results as they came back, and labels both exchanges") {
  const MoeOptions options = mixture(5, 2);
  const Tensor x = numbers({11, C}, "x");
  for (const int p : {1, 2, 3})
    run(p, [&](Communicator& ep) {
      MoeMlp right("mlp", options, in_f64, {.ep = ep});
      const LayerPtr layer = solution.make_layer(options, {.ep = ep});
      Saved expected, saved;
      layer->forward(own(x, ep), saved);
      right.forward(own(x, ep), expected);
      if (!saved.has("results"))
        fail(Where::current(), "forward has kept no \"results\", which backward will ask for");
      expect_equal(saved.get("results"), expected.get("results"),
                   fmt::format("\"results\", which backward takes for the rows that came back from "
                               "the experts, on rank {} of {}",
                               ep.rank(), p),
                   p);
    });
  expect_exchanges(false, {"ep.dispatch", "ep.combine"});
}

TEST_CASE("25.4: tokens that tp shares out: the shared expert gets x as it came") {
  const std::string without = error_with_cut_tokens(0, false);
  expect(without.empty(), "already without a shared expert: " + without);
  const std::string error = error_with_cut_tokens(4, false);
  expect(error.empty(),
         "right without a shared expert. The shared expert gathers the tokens of tp itself: give "
         "it x, and not the gathered tokens. With it: " +
             error);
}

TEST_CASE("25.5: dx and every gradient of 1 to 4 ranks are those of one rank") {
  for (const int64_t k : {1, 2, 3})
    for (const bool shared : {false, true}) {
      MoeOptions options = mixture(5, k);
      options.shared_hidden = shared ? 4 : 0;
      options.capacity = shared ? 0.75 : 0;
      options.router.renormalise = k > 1;
      options.router.balance_loss = shared ? 0.1 : 0;
      const Tensor x = numbers({11, C}, "x"), dy = numbers({11, C}, "dy");
      MoeMlp serial("mlp", options, in_f64);
      const Outcome expected = run_layer(serial, x, dy);
      for (const int p : {1, 2, 3, 4}) {
        std::atomic<int> forwards = 0;
        const std::string error = error_of([&] {
          run(p, [&](Communicator& ep) {
            const LayerPtr layer = solution.make_layer(options, {.ep = ep});
            Outcome out = run_layer(*layer, own(x, ep), own(dy, ep), &forwards);
            const std::string of = fmt::format(" on rank {} of {}, k = {}", ep.rank(), p, k);
            for (auto& [name, gradient] : out.gradients) {
              if (name.find(".experts.") == std::string::npos && p > 1)
                ep.all_reduce(gradient, ReduceOp::sum);
              if (name == "mlp.router.weight") {
                const std::vector<double> got = gradient.values(),
                                          all = expected.gradients.at(name).values();
                const auto zero = [](double each) { return each == 0; };
                if (std::all_of(got.begin(), got.end(), zero) &&
                    !std::all_of(all.begin(), all.end(), zero))
                  fail(Where::current(),
                       "gradient: mlp.router.weight has none{}. d.dweight is the gradient of the "
                       "router's weights: run_back(router_, d.dweight, saved)",
                       of);
              }
              expect_equal(gradient, expected.gradients.at(name), "gradient: " + name + of, p);
            }
            expect_equal(out.dx, own(expected.dx, ep), "gradient: dx" + of, p);
          });
        });
        if (forwards == p && !error.empty() && error.find("gradient: ") == std::string::npos)
          fail(Where::current(),
               "the backward pass fails. d.drows travel as tokens did, by send(), and what the "
               "experts return as results did, by send_back(). It says: {}",
               error);
        expect(error.empty(), error);
      }
    }
}

TEST_CASE("25.5: two exchanges, under their labels") {
  expect_exchanges(true, {"ep.combine_backward", "ep.dispatch_backward"});
}

TEST_CASE("25.5: the shared expert runs back while gradients are on their way") {
  const auto backward = [](int64_t shared, bool library) {
    return seconds_of(shared, library, true) - seconds_of(shared, library, false);
  };
  const double mine = backward(4096, false), right = backward(4096, true);
  expect(mine <= right + 1e-4,
         fmt::format("right values, but a backward pass takes {:.2f} ms on the virtual clock, and "
                     "{:.2f} ms if the shared expert runs while d.drows travel: run it back after "
                     "send() and before wait(), and let 25.3's exchange be in flight",
                     1e3 * mine, 1e3 * right));
}

TEST_CASE("25.5: with tp, the router gets the whole gradient of its weights") {
  const MoeOptions options = mixture(4, 2);
  const Tensor x = numbers({7, C}, "x"), dy = numbers({7, C}, "dy");
  MoeMlp serial("mlp", options, in_f64);
  const Outcome expected = run_layer(serial, x, dy);
  const std::string error = error_of([&] {
    run(2, [&](Communicator& tp) {
      const LayerPtr layer = solution.make_layer(options, {.tp = tp});
      const Outcome out = run_layer(*layer, x, dy);
      const char* const router = "mlp.router.weight";
      expect_equal(out.gradients.at(router), expected.gradients.at(router),
                   fmt::format("{} on rank {} of 2 of tp", router, tp.rank()), 2);
      expect_equal(out.dx, expected.dx, fmt::format("dx on rank {} of 2 of tp", tp.rank()), 2);
    });
  });
  const bool values = error.find("mlp.router.weight") != std::string::npos;
  expect(error.empty(),
         error + (values ? "\nWith tp each rank has a part of every result, and so a "
                           "part of d.dweight: add it up over axes_.tp before the "
                           "router runs back"
                         : ""));
}

TEST_CASE("25.5: tokens that tp shares out: the shared expert gets dsum as it came") {
  expect(error_with_cut_tokens(4, false).empty(), "the forward pass comes first: see 25.4");
  const std::string without = error_with_cut_tokens(0, true);
  expect(without.empty(), "already without a shared expert: " + without);
  const std::string error = error_with_cut_tokens(4, true);
  expect(error.empty(),
         "right without a shared expert. The shared expert gathers the gradient of tp itself: "
         "give it dsum, and not the gathered one. With it: " +
             error);
}

TEST_CASE(
    "25.6: experts' gradients are summed over the ranks that hold them, all others over all") {
  constexpr int p = 4;  // ep = 2: ranks 0 and 2 hold experts 0 and 1, ranks 1 and 3 the others
  run(p, [&](Communicator& world) {
    const int rank = world.rank();
    const Communicator copies = world.split(rank % 2, rank);
    std::vector<ParameterPtr> parameters;
    const auto add = [&](const std::string& name, int64_t length) {
      parameters.push_back(make_parameter(name, {1, length}, false, ones(), 1, DType::f64));
      parameters.back()->gradient().fill(std::pow(10, rank));
    };
    add("mlp.router.weight", 4);
    for (const int e : {0, 1}) add(fmt::format("mlp.experts.{}.up.weight", 2 * (rank % 2) + e), 3);
    add("mlp.shared.up.weight", 2);
    solution.reduce_gradients(parameters, copies, world);
    for (const ParameterPtr& each : parameters) {
      const bool expert = is_expert_parameter(*each);
      const double got = each->gradient().values()[0];
      const double sum = !expert ? 1111 : rank % 2 == 0 ? 101 : 1010;
      const std::string gradient =
          fmt::format("each rank r had 10^r. {} on rank {} is now {}", each->name, rank, got);
      if (got == sum) continue;
      if (expert && (got == 1111 || got == 1111.0 / p))
        fail(Where::current(),
             "{}: numbers of all 4 ranks are in it, but ranks {} and {} hold other experts. Theirs "
             "are "
             "gradients of other weights; expected {}",
             gradient, 1 - rank % 2, 3 - rank % 2, sum);
      if (expert && got == sum / 2)
        fail(Where::current(),
             "{}, half of {}: averaged. An expert has seen the rows of all ranks of ep already, "
             "so what the ranks that hold it have is added up and divided by nothing",
             gradient, sum);
      if (!expert && (got == 101 || got == 1010))
        fail(Where::current(),
             "{}: ranks {} and {} are left out. Every rank holds this weight, and each has other "
             "tokens; expected {}",
             gradient, got == 101 ? 1 : 0, got == 101 ? 3 : 2, sum);
      if (got == std::pow(10, rank))
        fail(Where::current(), "{}: this rank's own. Nothing was added up; expected {}", gradient,
             sum);
      fail(Where::current(), "{}, expected {}", gradient, sum);
    }
  });
  CHECK(true);
}
