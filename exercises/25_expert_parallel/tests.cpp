// The graded cases of exercise 25: one token by hand and against differences; then what ranks do,
// mixtures in f64 on 1 to 4 ranks against one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "course/cases/graded_ranks.hpp"
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
constexpr double nan_behind = std::numeric_limits<double>::quiet_NaN();
const ParameterOptions in_f64{1, DType::f64};

Tensor numbers(const Shape& shape, const std::string& name) {
  return exercise::normal_numbers(shape, 25, name);
}

using List = std::vector<int64_t>;
template <class Number>
std::string text_of(const std::vector<Number>& list) {
  return fmt::format("{{{}}}", fmt::join(list, " "));
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

namespace {

using Numbers = std::vector<double>;

std::string text_of(Numbers numbers) {
  for (double& each : numbers)
    if (std::abs(each) < 1e-9) each = 0;  // what a difference quotient has for 0
  return fmt::format("{{{:.3g}}}", fmt::join(numbers, " "));
}

bool near(const Numbers& a, const Numbers& b, double tolerance = 1e-12) {
  const auto equal = [&](double x, double y) { return std::abs(x - y) <= tolerance; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

// What numbers are that are not the right ones: those of a known mistake, and what to say of it.
struct Mistake {
  Numbers numbers;
  const char* said;
};

// `of`: of which input, at the end of the message.
void expect_numbers(const Numbers& got, const Numbers& right, const std::string& what,
                    const std::vector<Mistake>& mistakes, const std::string& of,
                    double tolerance = 1e-12) {
  std::string why;
  for (const auto& [numbers, said] : mistakes)
    if (why.empty() && near(got, numbers, tolerance)) why = std::string(". ") + said;
  const auto is_nan = [](double one) { return std::isnan(one); };
  if (why.empty() && std::any_of(got.begin(), got.end(), is_nan))
    why = ". Behind the last number of each list lies a NaN: does a loop go one step too far?";
  expect(near(got, right, tolerance),
         fmt::format("{} is {}, expected {}{} ({})", what, text_of(got), text_of(right), why, of));
}

// One token's scores, the bias or none, and how its experts are weighed.
struct Token {
  Numbers s, b = {};
  size_t k = 2;
  bool renormalise = true;

  std::string text() const {
    return fmt::format("scores {}{}, k = {}", text_of(s), b.empty() ? "" : ", bias " + text_of(b),
                       k);
  }
};

struct Chosen {
  std::vector<int32_t> expert;
  Numbers weight;
};

template <class Choose>
Chosen choice(Choose choose, const Token& t) {
  Chosen to{std::vector<int32_t>(t.k, -1), Numbers(t.k)};
  choose(t.s, t.b, t.renormalise, to.expert, to.weight);
  return to;
}
Chosen right_choice(const Token& t) { return choice(choose_experts<double>, t); }

// Of each chosen expert its score, with the bias or without, over their sum or not.
Numbers weights_of(const Token& t, bool with_bias, bool renormalise) {
  Numbers weight;
  double sum = 0;
  for (const int32_t each : right_choice(t).expert) {
    const auto e = static_cast<size_t>(each);
    weight.push_back(t.s[e] + (with_bias && !t.b.empty() ? t.b[e] : 0));
    sum += weight.back();
  }
  if (renormalise)
    for (double& each : weight) each /= sum;
  return weight;
}

void expect_choice(const Token& t, const char* why = "") {
  const Chosen right = right_choice(t), mine = choice(solution.choose, t);
  expect(mine.expert == right.expert,
         fmt::format("{}: the experts are {}, expected {}{}", t.text(), text_of(mine.expert),
                     text_of(right.expert), why));
  std::vector<Mistake> mistakes = {
      {weights_of(t, true, t.renormalise),
       "The bias is in them. It only chooses: a weight is made of s[e], not of value(e)"},
      {weights_of(t, false, !t.renormalise),
       t.renormalise ? "These are the scores. Divide each by the sum of the chosen scores"
                     : "`renormalise` is false here: the weights are the scores themselves"}};
  expect_numbers(mine.weight, right.weight, "weight", mistakes, t.text());
}

}  // namespace

TEST_CASE("25.1: the k largest scores, the largest first, with weights that add up to 1") {
  for (size_t k = 1; k <= 4; ++k) {
    expect_choice({{0.1, 0.4, 0.3, 0.2}, {}, k});
    expect_choice({{0.75, 0.5, 0.25, 0.875, 0.125}, {}, k});
  }
}

TEST_CASE("25.1: of equal scores the first") {
  const char* const why =
      ". Of equal ones the first is chosen, on every rank alike: a later one must be larger, not "
      "as "
      "large";
  expect_choice({{0.25, 0.25, 0.25, 0.25}, {}, 3}, why);
  expect_choice({{0.125, 0.375, 0.125, 0.375}, {}, 3}, why);
}

TEST_CASE("25.1: a bias chooses, and is in no weight") {
  const char* const why = ". With a bias the largest value(e) = s[e] + b[e] are chosen";
  expect_choice({{0.5, 0.25, 0.125, 0.25}, {-1, 0, 0.5, 0.25}}, why);
  expect_choice({{0.5, 0.25, 0.125, 0.25}, {-1, 0, 0.5, 0.25}, 3, false}, why);
}

TEST_CASE("25.1: scores with a bias may all be below zero") {
  const char* const why =
      ". value(e) may be as small as a bias makes it: begin with the first expert that is not "
      "taken, and not with a number";
  for (const size_t k : {1, 2, 4})
    expect_choice({{0.5, 0.25, 0.125, 0.125}, {-3, -2, -4, -2.5}, k}, why);
}

TEST_CASE("25.1: without renormalising, the weights are the scores") {
  for (size_t k = 1; k <= 3; ++k) expect_choice({{0.1, 0.4, 0.3, 0.2}, {}, k, false});
}

namespace {

Numbers scores_of(const Numbers& z, RouterScore score) {
  Numbers s;
  double sum = 0;
  for (const double each : z) sum += std::exp(each);
  for (const double each : z)
    s.push_back(score == RouterScore::softmax ? std::exp(each) / sum : 1 / (1 + std::exp(-each)));
  return s;
}

double along(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Routed {  // what a token's loss is made of
  RouterScore score;
  bool renormalise;
  size_t k;
  Numbers elsewhere = Numbers(4);  // the gradient that scores get besides

  // sum of dw_j w_j + sum of elsewhere_e s_e, of logits z.
  double loss(const Numbers& z, const Numbers& dw) const {
    const Numbers s = scores_of(z, score);
    return along(right_choice({s, {}, k, renormalise}).weight, dw) + along(s, elsewhere);
  }
  // The logits' gradient by differences.
  Numbers gradient(Numbers z, const Numbers& dw) const {
    Numbers d;
    for (double& each : z) {
      const double is = each, h = 1e-5;
      each = is + h;
      const double above = loss(z, dw);
      each = is - h;
      d.push_back((above - loss(z, dw)) / (2 * h));
      each = is;
    }
    return d;
  }
  // dlogits with one thing wrong.
  enum Wrong { none, no_renormalisation, no_sum, other_score, nothing_elsewhere };
  Numbers with(Wrong wrong, const Numbers& s, const std::vector<int32_t>& expert,
               const Numbers& dw) const {
    Numbers ds = wrong == nothing_elsewhere ? Numbers(4) : elsewhere;
    double S = 0, A = 0;
    for (size_t j = 0; j < k; ++j) S += s[static_cast<size_t>(expert[j])];
    for (size_t j = 0; j < k; ++j) A += dw[j] * s[static_cast<size_t>(expert[j])] / S;
    if (wrong == no_renormalisation) A = 0;
    for (size_t j = 0; j < k; ++j)
      ds[static_cast<size_t>(expert[j])] += renormalise ? (dw[j] - A) / S : dw[j];
    const double B = wrong == no_sum ? 0 : along(ds, s);
    const bool softmax = (score == RouterScore::softmax) != (wrong == other_score);
    for (size_t e = 0; e < 4; ++e) ds[e] = softmax ? s[e] * (ds[e] - B) : ds[e] * s[e] * (1 - s[e]);
    return ds;
  }
};

void expect_gradient(const Routed& r) {
  const Numbers z = {0.3, -0.7, 1.1, 0.6}, all = {0.9, -0.4, 0.7, 0.2};
  const Numbers dw(all.begin(), all.begin() + static_cast<int64_t>(r.k));
  const Numbers s = scores_of(z, r.score);
  const std::vector<int32_t> expert = right_choice({s, {}, r.k}).expert;
  Numbers ds = r.elsewhere, behind = s;
  ds.push_back(7), behind.push_back(nan_behind);
  solution.choose_backward(std::span(behind).first(s.size()), expert, dw, r.score, r.renormalise,
                           std::span(ds).first(s.size()));
  expect(ds.back() == 7,
         "the number behind the last gradient was 7 and was written over: a loop "
         "goes one step too far");
  ds.pop_back();
  const auto with = [&](Routed::Wrong wrong) { return r.with(wrong, s, expert, dw); };
  const bool softmax = r.score == RouterScore::softmax;
  const std::vector<Mistake> mistakes = {
      {with(Routed::nothing_elsewhere), "What ds held before is lost: add to it"},
      {with(Routed::other_score),
       softmax ? "That is a sigmoid's gradient. With softmax each logit moves all scores"
               : "That is a softmax's gradient. A sigmoid's score is its own logit's alone"},
      {with(Routed::no_sum), "Each logit moves all scores, as they add up to 1: subtract B"},
      {with(Routed::no_renormalisation),
       "Where is A? A score that grows makes the other weights smaller, by S"}};
  expect_numbers(ds, r.gradient(z, dw), "the logits' gradient", mistakes,
                 fmt::format("{} scores {}, {}, experts {}, dweight {}, ds {}", name(r.score),
                             text_of(s), r.renormalise ? "renormalised" : "not renormalised",
                             text_of(expert), text_of(dw), text_of(r.elsewhere)),
                 1e-8);
}

}  // namespace

TEST_CASE("25.2: a softmax whose scores are the weights") {
  for (size_t k = 1; k <= 4; ++k) expect_gradient({RouterScore::softmax, false, k});
}

TEST_CASE("25.2: a softmax with renormalised weights") {
  for (size_t k = 2; k <= 4; ++k) expect_gradient({RouterScore::softmax, true, k});
}

TEST_CASE("25.2: a sigmoid's scores, as they are and renormalised") {
  for (size_t k = 2; k <= 4; ++k)
    for (const bool renormalise : {false, true})
      expect_gradient({RouterScore::sigmoid, renormalise, k});
}

TEST_CASE("25.2: the gradient that scores get from elsewhere goes the same way") {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool renormalise : {false, true})
      expect_gradient({score, renormalise, 2, {0.5, 0.1, -0.6, 0.3}});
}

namespace {

// Rows 0 to 2, between rows of numbers that nobody should read.
const Numbers guarded = {1e6, 1e6, 1, 2, 10, 20, 100, 200, 1e6, 1e6};

void expect_sum(const std::vector<int64_t>& row_of, const Numbers& weight) {
  const size_t k = row_of.size();
  const auto sum_with = [&](auto factor, int64_t of_dropped) {
    Numbers sum(2);
    for (size_t j = 0; j < k; ++j) {
      const int64_t row = row_of[j] < 0 ? of_dropped : row_of[j];
      for (size_t c = 0; c < 2 && row != -2; ++c)
        sum[c] += factor(j) * guarded[static_cast<size_t>(2 * row + 2) + c];
    }
    return sum;
  };
  const auto weights = [&](size_t j) { return weight[j]; };
  const double each = 1 / static_cast<double>(k);
  Numbers sum(2), weights_behind = weight;
  std::vector<int64_t> rows_behind = row_of;
  weights_behind.push_back(nan_behind), rows_behind.push_back(0);
  solution.combine(guarded.data() + 2, std::span(rows_behind).first(k),
                   std::span(weights_behind).first(k), sum);
  const char* const mean = "The sum is divided by k. It is a sum: the weights are the router's";
  expect_numbers(
      sum, sum_with(weights, -2), "the sum",
      {{sum_with([](size_t) { return 1; }, -2),
        "Each row counts with weight 1: the router's choice is in the weights, and through them it "
        "learns"},
       {sum_with([&](size_t) { return each; }, -2), mean},
       {sum_with([&](size_t j) { return weight[j] * each; }, -2), mean},
       {sum_with(weights, 0),
        "row_of[j] = -1 is no row: that expert has dropped the token. Here row 0 is in the sum, "
        "which is another token's"},
       {sum_with(weights, -1),
        "row_of[j] = -1 is no row: that expert has dropped the token. Here what lies before row 0 "
        "is in the sum"}},
      fmt::format("rows {{1 2}}, {{10 20}}, {{100 200}}; row_of {}, weight {}", text_of(row_of),
                  text_of(weight)));
}

}  // namespace

TEST_CASE("25.3: a token's sum is that of its rows, each times its weight") {
  expect_sum({2, 0}, {0.25, 0.75});
  expect_sum({0, 1, 2}, {0.5, 0.375, 0.25});
  expect_sum({1}, {0.5});
}

TEST_CASE("25.3: a dropped row is missing, and the other weights stay as they are") {
  expect_sum({-1, 1}, {0.25, 0.75});
  expect_sum({2, -1, 1}, {0.5, 0.375, 0.25});
  expect_sum({-1, -1}, {0.25, 0.75});
}

TEST_CASE("25.3: the sum is added to, in Computed<Number>") {
  const auto sum_of = [](double weight, double begin) {
    Numbers sum(2, begin);
    solution.combine(guarded.data() + 2, List{1, 0}, Numbers{weight, weight}, sum);
    return sum[0];
  };
  const double added = sum_of(0.5, 100), third = 1.0 / 3;
  expect(added == 105.5, fmt::format("a sum that holds 100 before is {:g} with rows 10 and 1, each "
                                     "times 0.5, and should be 105.5: it is added to",
                                     added));
  const double thirds = sum_of(third, 0), right = 10 * third + third;
  expect(std::abs(thirds - right) < 1e-14,
         fmt::format("rows 10 and 1, each times a third, in f64, make {:.17g} and not {:.17g}: "
                     "weights and sums are Computed<Number>, here double",
                     thirds, right));
  // 1 + 1/512 is no number of 8 bits.
  const float narrow = solution.combine_bf16(1, 1, 1.0F / 512);
  expect(narrow == 1 + 1.0F / 512,
         fmt::format("rows of bf16, 1 and 1, with weights 1 and 1/512 make {} and not {}: add up "
                     "in Computed<Number>, which is float, and round nothing on the way",
                     narrow, 1 + 1.0F / 512));
  // 1 + 1/128 is a number of bf16, and seven tenths of it is none.
  const float product = solution.combine_bf16(0, 1 + 1.0F / 128, 0.7F),
              exact = (1 + 1.0F / 128) * 0.7F;
  expect(std::abs(product - exact) < 1e-6F,
         fmt::format("a row of bf16, {}, with weight 0.7 makes {} and not {}: a product is "
                     "Computed<Number> too, and is not rounded to bf16",
                     1 + 1.0F / 128, product, exact));
}

TEST_CASE("25.4: what leaves for each rank, and what comes from it") {
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

TEST_CASE("25.4: what arrives, by rank and expert, and how many rows each expert held gets") {
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

TEST_CASE("25.5: rows that arrived rank by rank are sorted by expert, and back again") {
  const std::pair<List, int> cases[] = {
      {{1, 2, 2, 1}, 2}, {{2, 1, 1, 0, 3, 1}, 2}, {{1, 1, 0, 2, 1, 0}, 3}};
  for (const auto& [arriving, ep] : cases) {
    const auto held = static_cast<int64_t>(arriving.size()) / ep;
    const int64_t M = std::accumulate(arriving.begin(), arriving.end(), int64_t{0});
    Plan plan{{}, List(static_cast<size_t>(ep)), arriving, List(static_cast<size_t>(held))};
    Tensor rows = Tensor::empty({M, 2}, DType::f64), sorted = rows.clone();
    // A row says its rank, its expert and its place: 10 r + e + place / 10.
    std::vector<double> order;
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

TEST_CASE("25.6: each rank gets the rows that the others have for it, in the order of ranks") {
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

TEST_CASE("25.6: rows keep their type") {
  run(2, [](Communicator& ep) {
    const List each = {1, 1};
    const Tensor rows = numbers({2, C}, "rows").to(DType::f32);
    Tensor got;
    const std::string error =
        error_of([&] { got = solution.exchange(rows, each, each, ep, [] {}); });
    if (!error.empty() || got.dtype() != DType::f32)
      fail(Where::current(),
           "rows of f32: {}. What comes is of the type of `rows`: empty_beside(rows, {{M, C}}, "
           "rows.dtype(), ...)",
           error.empty() ? fmt::format("they come as {}", name(got.dtype())) : error);
  });
  CHECK(true);
}

TEST_CASE("25.6: the exchange is in flight: the rank computes meanwhile") {
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
// With `forwards`, counts there that forward has ended, and begins backward when it has on all of
// ep.
Outcome run_layer(Layer& layer, const Tensor& x, const Tensor& dy = {},
                  std::atomic<int>* forwards = nullptr, const Communicator& ep = {}) {
  Saved saved;
  Outcome out{layer.forward(x, saved), {}};
  if (!saved.has("counts"))
    fail(Where::current(), "forward has kept no \"counts\", which backward will ask for");
  if (forwards != nullptr) ++*forwards;
  if (axis_size(ep) > 1) ep.barrier();
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
  const Tensor unshared = without_shared(options, x);
  for (const int p : {1, 2, 3, 4}) {
    const std::string error = error_of([&] {
      run(p, [&](Communicator& ep) {
        const LayerPtr layer = solution.make_layer(options, {.ep = ep});
        expect_equal(run_layer(*layer, own(x, ep)).y, own(y, ep),
                     fmt::format("y of {} on rank {} of {}", what, ep.rank(), p), p,
                     {{"the sum without the shared expert", own(unshared, ep).values()}});
      });
    });
    const bool known = error.find(diagnosis.words) != std::string::npos;
    expect(error.empty(), (known ? diagnosis.why : "") + error);
  }
}

// Of a forward pass on 4 ranks on the virtual clock, or of a step.
double seconds_of(int64_t shared, bool library, bool backward, int64_t experts = 4) {
  MoeOptions options = mixture(experts, 2);
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
      const LayerPtr layer =
          solution.make_layer(options, {.border = std::make_shared<SequenceBorder>(tp, T)});
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

TEST_CASE("25.7: y of 1 to 4 ranks is y of one rank: k 1, 2 and 3") {
  for (const int64_t k : {1, 2, 3}) expect_forward(mixture(5, k), "11 tokens", ranks_disagree);
}

TEST_CASE("25.7: with a capacity, and tokens that no expert keeps") {
  MoeOptions options = mixture(4, 1);
  options.capacity = 0.5;
  expect_forward(options, "11 tokens with a capacity", ranks_disagree);
}

TEST_CASE("25.7: the shared expert is added, and runs while rows are on their way") {
  MoeOptions options = mixture(4, 2);
  options.shared_hidden = 5;
  expect_forward(options, "11 tokens with a shared expert", ranks_disagree);
  const double mine = seconds_of(4096, false, false), right = seconds_of(4096, true, false),
               none = seconds_of(0, true, false);
  expect(mine <= right + 1e-4,
         fmt::format("right values, but a forward pass takes {:.2f} ms on the virtual clock, and "
                     "{:.2f} ms if the shared expert runs while the rows travel ({:.2f} ms without "
                     "it): start it after send() and before wait(), "
                     "and let 25.6's exchange be in flight, by all_to_all_v_async",
                     1e3 * mine, 1e3 * right, 1e3 * none));
}

TEST_CASE("25.7: two exchanges, under their labels") {
  expect_exchanges(false, {"ep.dispatch", "ep.combine"});
}

TEST_CASE("25.7: tokens that tp shares out: the shared expert gets x as it came") {
  const std::string without = error_with_cut_tokens(0, false);
  expect(without.empty(), "already without a shared expert: " + without);
  const std::string error = error_with_cut_tokens(4, false);
  expect(error.empty(),
         "right without a shared expert. The shared expert gathers the tokens of tp itself: give "
         "it x, and not the gathered tokens. With it: " +
             error);
}

TEST_CASE("25.8: dx and every gradient of 1 to 4 ranks are those of one rank") {
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
            Outcome out = run_layer(*layer, own(x, ep), own(dy, ep), &forwards, ep);
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
                       "router's weights: run_router_back(d, saved)",
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

TEST_CASE("25.8: two exchanges, under their labels") {
  expect_exchanges(true, {"ep.combine_backward", "ep.dispatch_backward"});
}

TEST_CASE("25.8: the shared expert runs back while gradients are on their way") {
  const auto backward = [](int64_t shared, bool library) {
    return seconds_of(shared, library, true) - seconds_of(shared, library, false);
  };
  const double mine = backward(4096, false), right = backward(4096, true);
  expect(mine <= right + 1e-4,
         fmt::format("right values, but a backward pass takes {:.2f} ms on the virtual clock, and "
                     "{:.2f} ms if the shared expert runs while d.drows travel: run it back after "
                     "send() and before wait(), and let 25.6's exchange be in flight",
                     1e3 * mine, 1e3 * right));
}

TEST_CASE("25.8: the router runs back while what experts return is on its way") {
  constexpr int64_t experts = 1024;  // so that the router has something to do
  const auto backward = [](bool library) {
    return seconds_of(0, library, true, experts) - seconds_of(0, library, false, experts);
  };
  const double mine = backward(false), right = backward(true);
  expect(mine <= right + 1e-4,
         fmt::format("right values, but a backward pass with {} experts takes {:.2f} ms on the "
                     "virtual clock, and {:.2f} ms if the router runs back while the gradients of "
                     "rows travel: after send_back() and before its wait()",
                     experts, 1e3 * mine, 1e3 * right));
}

TEST_CASE("25.8: with tp, the router gets the whole gradient of its weights") {
  const MoeOptions options = mixture(4, 2);
  const Tensor x = numbers({7, C}, "x"), dy = numbers({7, C}, "dy");
  MoeMlp serial("mlp", options, in_f64);
  const Outcome expected = run_layer(serial, x, dy);
  const std::string error = error_of([&] {
    run(2, [&](Communicator& tp) {
      const LayerPtr layer = solution.make_layer(options, {.border = std::make_shared<Border>(tp)});
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
                           "part of d.dweight: run_router_back() adds it up over tp "
                           "before the router runs back"
                         : ""));
}

TEST_CASE("25.8: tokens that tp shares out: the shared expert gets dsum as it came") {
  expect(error_with_cut_tokens(4, false).empty(), "the forward pass comes first: see 25.7");
  const std::string without = error_with_cut_tokens(0, true);
  expect(without.empty(), "already without a shared expert: " + without);
  const std::string error = error_with_cut_tokens(4, true);
  expect(error.empty(),
         "right without a shared expert. The shared expert gathers the gradient of tp itself: "
         "give it dsum, and not the gathered one. With it: " +
             error);
}

TEST_CASE(
    "25.9: experts' gradients are summed over the ranks that hold them, all others over all") {
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
    const int64_t before = context().ledger.total_traffic().bytes_sent;
    solution.reduce_gradients(parameters, copies, world);
    const int64_t sent = context().ledger.total_traffic().bytes_sent - before,
                  labelled = context().ledger.traffic("ep.gradients").bytes_sent;
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
    if (labelled != sent)
      fail(Where::current(),
           "right, but of {} bytes that rank {} sent {} are in the ledger under \"ep.gradients\": "
           "all_reduce(..., {{.label = \"ep.gradients\"}})",
           sent, rank, labelled);
  });
  CHECK(true);
}

// The library's layer is asked for its parameters.
TEST_CASE("25.10: the weights that a token meets") {
  for (const auto& [E, k] : {std::array{4, 2}, {8, 1}, {3, 3}}) {
    MoeMlp layer("mlp", mixture(E, k), in_f64);
    int64_t experts = 0, router = 0;
    for (const ParameterPtr& each : parameters_of(layer))
      (is_expert_parameter(*each) ? experts : router) += each->value.numel();
    const int64_t met = router + experts / E * k, got = solution.weights_met(C, 4, E, k);
    std::string why;
    if (got == router + experts)
      why = ": that is what the layer holds; a token runs through k experts";
    if (got == met - router) why = ": the router multiplies each token with a row for every expert";
    if (got == met - router + C * k) why = ": the router scores all experts, before k are chosen";
    expect(got == met,
           fmt::format("width {}, hidden width 4, {} experts, {} of a token: your answer "
                       "is {}, expected {}{}",
                       C, E, k, got, met, why));
  }
}
