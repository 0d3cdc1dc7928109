// The graded cases of exercise 07: rows and runs against sums that are taken over all keys at once,
// in f64; and where they differ, against what the usual mistakes give.
#include <fmt/format.h>

#include <cmath>

#include "course/cases/graded.hpp"
#include "course/cases/held_memory.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using exercise::CountingMask;
using exercise::expect;
using exercise::Run;
using exercise::solution;
using exercise::Sums;

namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

Numbers numbers(int64_t count, const char* name, double size = 1) {
  Numbers made(static_cast<size_t>(count));
  const Random random(exercise::seed(7), name);
  for (uint64_t i = 0; double& value : made) value = size * random.normal(i++);
  return made;
}

// ---- online rows --------------------------------------------------------------------------------

struct Row {
  Numbers scores, values;
};

struct Result {
  double o, L;
};
Result at_once(const Row& row, double factor) {
  double m = none, l = 0, o = 0;
  for (const double s : row.scores) m = std::max(m, factor * s);
  for (size_t j = 0; j < row.scores.size(); ++j) {
    l += std::exp(factor * row.scores[j] - m);
    o += std::exp(factor * row.scores[j] - m) * row.values[j];
  }
  return {o / l, m + std::log(l)};
}

// What the row gives `n` keys at a time, as the tile loop uses it: P v is added to o afterwards.
template <class TakeKeys>
Result some_at_a_time(const Row& row, size_t n, double factor, TakeKeys&& take) {
  Sums sums;
  double o = 0;
  for (size_t j = 0; j < row.scores.size(); j += n) {
    const size_t end = std::min(j + n, row.scores.size());
    Numbers part(row.scores.begin() + static_cast<int64_t>(j),
                 row.scores.begin() + static_cast<int64_t>(end));
    take(part.data(), std::ssize(part), factor, sums, &o);
    for (size_t i = j; i < end; ++i) o += part[i - j] * row.values[i];
  }
  return {o / sums.l, sums.m + std::log(sums.l)};
}

// The row with one thing left out.
enum class Left { scaling_of_o, scaling_of_l, both };
Result with_mistake(const Row& row, size_t n, double factor, Left left) {
  return some_at_a_time(row, n, factor,
                        [&](double* part, int64_t count, double f, Sums& sums, double* o) {
                          double m = sums.m, sum = 0;
                          for (int64_t i = 0; i < count; ++i) m = std::max(m, f * part[i]);
                          for (int64_t i = 0; i < count; ++i)
                            sum += part[i] = std::exp(f * part[i] - m);
                          const double kept = std::exp(sums.m - m);
                          if (left == Left::scaling_of_l) *o *= kept;
                          sums = {m, (left == Left::scaling_of_o ? kept : 1) * sums.l + sum};
                        });
}

Result by_solution(const Row& row, size_t n, double factor) {
  return some_at_a_time(row, n, factor,
                        [](double* part, int64_t count, double f, Sums& sums, double* o) {
                          solution.online_row(part, count, f, sums, o, 1);
                        });
}

// ---- heads --------------------------------------------------------------------------------------

struct Head {
  int64_t T = exercise::variant("T", 70, 66, 120), d = 8;
  Numbers q = numbers(T * d, "q", 1.5), k = numbers(T * d, "k", 1.5), v = numbers(T * d, "v"),
          dout = numbers(T * d, "dout");

  double factor() const { return 1 / std::sqrt(static_cast<double>(d)); }
  double product(const Numbers& a, int64_t i, const Numbers& b, int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c)
      sum += a[static_cast<size_t>(i * d + c)] * b[static_cast<size_t>(j * d + c)];
    return sum;
  }
};

// Plain attention of one head; `mistake` changes it.
struct Plain {
  Numbers o, L;
  std::vector<Numbers> P;
};
enum class Mistake { nothing, scale_twice, mask_after_softmax, not_divided, m_for_L };
Plain plain(const Head& head, int64_t ahead = 0, Mistake mistake = Mistake::nothing) {
  Plain out;
  const double scale = head.factor() * (mistake == Mistake::scale_twice ? head.factor() : 1);
  for (int64_t t = 0; t < head.T; ++t) {
    double m = none, l = 0;
    Numbers p(static_cast<size_t>(head.T));
    const auto sees = [&](int64_t j) { return j <= t + ahead; };
    const auto counts = [&](int64_t j) {  // in softmax: of hidden keys those in the tile's runs
      const int64_t end = std::min((t / flash_BQ + 1) * flash_BQ, head.T) + ahead;
      return sees(j) || (mistake == Mistake::mask_after_softmax && j < end);
    };
    for (int64_t j = 0; j < head.T; ++j)
      if (counts(j)) m = std::max(m, scale * head.product(head.q, t, head.k, j));
    for (int64_t j = 0; j < head.T; ++j) {
      const double e = std::exp(scale * head.product(head.q, t, head.k, j) - m);
      if (counts(j)) l += e;
      if (sees(j)) p[static_cast<size_t>(j)] = e;
    }
    for (double& each : p) each = l == 0 ? 0 : mistake == Mistake::not_divided ? each : each / l;
    for (int64_t c = 0; c < head.d; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < head.T; ++j)
        sum += p[static_cast<size_t>(j)] * head.v[static_cast<size_t>(j * head.d + c)];
      out.o.push_back(sum);
    }
    out.L.push_back(mistake == Mistake::m_for_L ? m : m + std::log(l));
    out.P.push_back(p);
  }
  return out;
}

struct Forward {
  Numbers o, L;
  int64_t asked = 0;
};
constexpr double untouched = -7;
// With room behind o and L, so that what is written past the last query stays in this memory.
Forward forward(const Head& head, int64_t first, int64_t last, int64_t ahead = 0,
                bool capped = false) {
  Forward out{Numbers(static_cast<size_t>((head.T + flash_BQ) * head.d), untouched),
              Numbers(static_cast<size_t>(head.T + flash_BQ), untouched)};
  const auto in = [&](const Numbers& x) { return row_major(x.data(), head.T, head.d); };
  solution.forward(in(head.q), in(head.k), in(head.v), row_major(out.o.data(), head.T, head.d),
                   out.L.data(), first, last, CountingMask{head.T, ahead, &out.asked}, capped);
  return out;
}
Numbers first_of(const Numbers& x, size_t count) { return {x.data(), x.data() + count}; }

}  // namespace

// ---- 07.1 ---------------------------------------------------------------------------------------

TEST_CASE("07.1: keys some at a time give what all keys give") {
  for (const auto& [name, scores] : {std::pair{"falling scores", Numbers{6, 5, 4, 3, 2, 1, 0}},
                                     {"rising scores", Numbers{0, 1, 2, 3, 4, 5, 6}},
                                     {"mixed scores", numbers(7, "scores", 3)}})
    for (const size_t n : {7u, 3u, 2u, 1u}) {
      const Row row{scores, numbers(7, "values")};
      const double factor = 0.5;
      const Result found = by_solution(row, n, factor), expected = at_once(row, factor);
      Clues clues;
      clues.what = fmt::format("o / l of {}, {} of 7 keys at a time", name, n);
      for (const auto& [left, words] :
           {std::pair{Left::scaling_of_o,
                      "what it is if o is not rescaled: right until the maximum moves. What was "
                      "summed before is worth e^(m - m_new) of itself"},
            {Left::scaling_of_l,
             "what it is if l is not rescaled when the maximum moves: l is a sum of e^(s - m) too"},
            {Left::both, "what it is if neither l nor o is rescaled when the maximum moves"}})
        clues.suspects.push_back({words, {with_mistake(row, n, factor, left).o}});
      expect(compare(Numbers{found.o}, Numbers{expected.o}, 1e-12, clues));
      clues = {};
      clues.what = fmt::format("m + log l of {}, {} of 7 keys at a time", name, n);
      expect(compare(Numbers{found.L}, Numbers{expected.L}, 1e-12, clues));
    }
}

TEST_CASE("07.1: the maximum of all keys so far, not of these alone") {
  for (const Numbers& scores : {Numbers{2000, 0, 1, 2}, Numbers{0, 1, 2000, 3}}) {
    const Row row{scores, {1, 2, 3, 4}};
    const Result found = by_solution(row, 2, 1.0), expected = at_once(row, 1.0);
    expect(
        std::isfinite(found.o) && std::isfinite(found.L),
        fmt::format("scores {}, {}, then {}, {}: o / l is {}. m is the largest score of all keys "
                    "so far: with that of these keys alone e^(m_old - m) may be e^2000",
                    scores[0], scores[1], scores[2], scores[3],
                    std::isnan(found.o) ? "NaN" : "infinite"));
    expect(compare(Numbers{found.o, found.L}, Numbers{expected.o, expected.L}, 1e-12, {}));
  }
}

TEST_CASE("07.1: a query that has seen no key yet") {
  Sums sums;
  double o = 0;
  Numbers hidden = {none, none};
  solution.online_row(hidden.data(), 2, 0.5, sums, &o, 1);
  expect(hidden[0] == 0 && hidden[1] == 0 && sums.l == 0 && o == 0,
         fmt::format("two hidden keys, scores of -inf: e^(s - m) is {}, l {}, o {}; all are 0. "
                     "-inf - -inf is NaN: shift_of(m)",
                     hidden[0], sums.l, o));
  Numbers seen = {2, none};
  solution.online_row(seen.data(), 2, 0.5, sums, &o, 1);
  expect(
      seen[0] == 1 && seen[1] == 0 && sums.l == 1 && sums.m == 1,
      fmt::format("then a key with score 2 times 0.5 and a hidden one: e^(s - m) {} and {}, m {}, "
                  "l {}; expected 1 and 0, 1, 1",
                  seen[0], seen[1], sums.m, sums.l));
}

TEST_CASE("07.1: all d numbers of o are rescaled") {
  Sums sums{1, 2};
  Numbers o = {1, 2, 3}, scores = {6};
  solution.online_row(scores.data(), 1, 0.5, sums, o.data(), 3);
  const double kept = std::exp(1.0 - 3.0);
  Clues clues;
  clues.what = "o (d = 3), 1, 2, 3 with m = 1, after a score of 3";
  clues.suspects = {{"its first number alone rescaled: o has d numbers", {kept, 2, 3}}};
  expect(compare(o, Numbers{kept, 2 * kept, 3 * kept}, 1e-12, clues));
}

// ---- 07.2 ---------------------------------------------------------------------------------------

namespace {
std::string show(double x) { return std::isnan(x) ? "NaN" : fmt::format("{:.6g}", x); }
std::string said(double a, double b, const exercise::Weights& w) {
  return fmt::format("merge_weights({}, {}) gives {}, {} and {}", a, b, show(w.first),
                     show(w.second), show(w.log_sum_exp));
}
}  // namespace

TEST_CASE("07.2: two parts weigh what their sums of e^score do") {
  for (const double a : {0.0, 1.0, -3.0})
    for (const double b : {0.0, 2.5, -700.0}) {
      const exercise::Weights w = solution.merge_weights(a, b);
      const double sum = std::exp(a) + std::exp(b);
      const Numbers expected = {std::exp(a) / sum, std::exp(b) / sum, std::log(sum)};
      Clues clues;
      clues.what = fmt::format("first weight, second weight and log-sum-exp of {} and {}", a, b);
      clues.suspects = {
          {"one half for both parts: the merge lacks log-sum-exp", {0.5, 0.5, w.log_sum_exp}}};
      expect(compare(Numbers{w.first, w.second, w.log_sum_exp}, expected, 1e-13, clues));
    }
}

TEST_CASE("07.2: large scores do not overflow") {
  for (const double shift : {2000.0, -2000.0}) {
    const double e = std::exp(1.0);
    const exercise::Weights w = solution.merge_weights(shift + 1, shift);
    const bool right = std::abs(w.first - e / (e + 1)) <= 1e-12 &&
                       std::abs(w.second - 1 / (e + 1)) <= 1e-12 &&
                       std::abs(w.log_sum_exp - (shift + std::log(e + 1))) <= 1e-9;
    const bool finite = std::isfinite(w.first + w.second + w.log_sum_exp);
    expect(right, said(shift + 1, shift, w) +
                      (finite ? ""
                              : fmt::format(": e^{} is {}. Take the larger of the two out of the "
                                            "exponents first",
                                            shift, shift > 0 ? "infinite" : "0")));
  }
}

TEST_CASE("07.2: a part that saw nothing weighs nothing, and two of them give nothing") {
  const auto check = [](double a, double b, const exercise::Weights& expected) {
    const exercise::Weights w = solution.merge_weights(a, b);
    const bool nan = std::isnan(w.first + w.second) || std::isnan(w.log_sum_exp);
    expect(w.first == expected.first && w.second == expected.second &&
               w.log_sum_exp == expected.log_sum_exp,
           said(a, b, w) +
               (nan ? ": NaN from -inf - -inf. A part that saw no key has log-sum-exp -inf" : ""));
  };
  check(none, 3, {0, 1, 3});
  check(3, none, {1, 0, 3});
  check(none, none, {0, 0, none});
}

// ---- 07.3 ---------------------------------------------------------------------------------------

namespace {
struct Place {
  int64_t keys, ahead, begin, end;
  std::string words() const {
    return fmt::format("queries {} to {}, {} ahead of {} keys", begin, end - 1, ahead, keys);
  }
  std::vector<Run> runs() const { return solution.runs(keys, ahead, begin, end); }
};
std::vector<Place> places() {
  std::vector<Place> all;
  for (const int64_t keys : {1, 64, 70, 256, 300, 700})
    for (const int64_t ahead : {-500, -100, -3, 0, 5, 200, 1000})
      for (const int64_t begin : {0, 64, 640})
        if (begin < keys) all.push_back({keys, ahead, begin, std::min(begin + flash_BQ, keys)});
  return all;
}
}  // namespace

TEST_CASE("07.3: every key that a query sees is in one run, within one tile of keys") {
  for (const Place& at : places()) {
    Numbers times(static_cast<size_t>(at.keys));
    for (const Run& run : at.runs()) {
      expect(run.j >= 0 && run.n >= 0 && run.j + run.n <= at.keys,
             fmt::format("{}: the run of keys {} to {} ends after the last key", at.words(), run.j,
                         run.j + run.n - 1));
      expect(run.n > 0, fmt::format("{}: the run from key {} on has {} keys: hand out none rather "
                                    "than an empty one",
                                    at.words(), run.j, run.n));
      expect(run.j / flash_BK == (run.j + run.n - 1) / flash_BK,
             fmt::format("{}: the run of keys {} to {} is in two tiles of {} keys", at.words(),
                         run.j, run.j + run.n - 1, flash_BK));
      for (int64_t j = run.j; j < run.j + run.n; ++j) ++times[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < at.keys; ++j) {
      const double count = times[static_cast<size_t>(j)];
      expect(count <= 1, fmt::format("{}: key {} is in {} runs", at.words(), j, count));
      expect(
          count == 1 || j > at.end - 1 + at.ahead,
          fmt::format("{}: key {} is in no run, and query {} sees it. Query t sees keys up to t + "
                      "ahead, that one included",
                      at.words(), j, at.end - 1));
    }
  }
}

TEST_CASE("07.3: keys that no query of the tile sees are skipped") {
  for (const Place& at : places())
    for (const Run& run : at.runs()) {
      const int64_t past = run.j + run.n - std::clamp<int64_t>(at.end + at.ahead, 0, at.keys);
      expect(
          past <= 0,
          fmt::format("{}: keys up to {} are handed out, {} more than the last query sees: right, "
                      "but a causal mask then saves nothing",
                      at.words(), run.j + run.n - 1, past));
    }
}

TEST_CASE("07.3: whole is a run of which each query sees each key") {
  for (const Place& at : places())
    for (const Run& run : at.runs()) {
      const bool whole = run.j + run.n - 1 <= at.begin + at.ahead;
      const std::string what =
          fmt::format("{}: the run of keys {} to {}", at.words(), run.j, run.j + run.n - 1);
      expect(whole || !run.whole,
             fmt::format("{} is called whole, but query {} does not see key {}: its mask would not "
                         "be asked",
                         what, at.begin, run.j + run.n - 1));
      expect(run.whole || !whole,
             fmt::format("{} is seen by every query, so it is whole: right, but the mask is asked "
                         "for each of its keys",
                         what));
    }
}

// ---- 07.4 ---------------------------------------------------------------------------------------

TEST_CASE("07.4: o and L are those of plain attention") {
  const Head head;
  const Forward found = forward(head, 0, head.T);
  const Plain expected = plain(head);
  Clues clues;
  clues.what = fmt::format("o of {} tokens", head.T);
  clues.suspects = {
      {"what o is if the scores are scaled twice: change_scores gives back the factor that is left",
       plain(head, 0, Mistake::scale_twice).o},
      {"what o is if the mask comes after softmax: l then has the hidden keys, too",
       plain(head, 0, Mistake::mask_after_softmax).o}};
  expect(compare(first_of(found.o, expected.o.size()), expected.o, 1e-12, clues));
  clues = {};
  clues.what = fmt::format("L of {} tokens", head.T);
  clues.suspects = {{"m alone: L = m + log l", plain(head, 0, Mistake::m_for_L).L}};
  expect(compare(first_of(found.L, expected.L.size()), expected.L, 1e-12, clues));
}

TEST_CASE("07.4: the last tile has fewer queries, and nothing behind them is written") {
  const Head head;
  const Forward found = forward(head, 0, head.T);
  for (size_t i = static_cast<size_t>(head.T); i < found.L.size(); ++i)
    expect(found.L[i] == untouched,
           fmt::format("L({}) of {} queries is written: the last tile is read and written past its "
                       "end; it ends at the last query",
                       i, head.T));
}

TEST_CASE("07.4: queries from the middle, and no others") {
  const Head head;
  const Forward found = forward(head, 5, 66);
  const Plain expected = plain(head);
  for (int64_t t = 0; t < head.T; ++t) {
    const double L = found.L[static_cast<size_t>(t)];
    expect((L != untouched) == (t >= 5 && t < 66),
           fmt::format("queries 5 to 65 of 70 alone: L({}) is {}", t,
                       L == untouched ? "not written" : "written"));
    if (L != untouched)
      expect(std::abs(L - expected.L[static_cast<size_t>(t)]) <= 1e-12,
             fmt::format("queries 5 to 65 of 70 alone: L({}) is {}, expected {}: which query is "
                         "row r of a tile?",
                         t, L, expected.L[static_cast<size_t>(t)]));
  }
}

TEST_CASE("07.4: several tiles of keys, and the mask is asked only where a run is not whole") {
  Head head;
  head = Head{.T = 2 * flash_BK + 9, .d = 3};
  const Forward found = forward(head, 0, head.T);
  const Plain expected = plain(head);
  Clues clues;
  clues.what = fmt::format("o of {} tokens", head.T);
  expect(compare(first_of(found.o, expected.o.size()), expected.o, 1e-12, clues));
  int64_t most = 0;
  for (int64_t begin = 0; begin < head.T; begin += flash_BQ) {
    const int64_t end = std::min(begin + flash_BQ, head.T);
    CountingMask{head.T}.runs(
        begin, end, [&](int64_t, int64_t n, bool whole) { most += whole ? 0 : (end - begin) * n; });
  }
  expect(found.asked <= most,
         fmt::format("{} tokens: the mask is asked {} times, where {} are enough: hand `whole` on",
                     head.T, found.asked, most));
}

TEST_CASE("07.4: scores are held for one run of keys, not for all") {
  const Head head{.T = 255 * flash_BK, .d = 2};
  const exercise::HeldMemory held;
  forward(head, head.T - flash_BQ, head.T);
  const double most = 1e-6 * static_cast<double>(held.most()), limit = 24;
  expect(
      most < limit,
      fmt::format("{} queries over {} keys: {:.1f} MB are held, more than {} MB. k, v, o and the "
                  "scores of one run have room there; all scores of these queries are {:.1f} "
                  "MB: use those of a run before the next one comes, in keys.S",
                  flash_BQ, head.T, most, limit, 8e-6 * static_cast<double>(flash_BQ * head.T)));
}

TEST_CASE("07.4: queries that see no key have o = 0 and L = -infinity") {
  const Head head;
  const Forward found = forward(head, 0, head.T, -20);
  const Plain expected = plain(head, -20);
  for (size_t i = 0; i < 20; ++i)
    expect(found.L[i] == none && found.o[i * static_cast<size_t>(head.d)] == 0,
           fmt::format("query {} sees no key: o is {}, L {}; an empty sum is 0, its logarithm -inf",
                       i, show(found.o[i * static_cast<size_t>(head.d)]), show(found.L[i])));
  Clues clues;
  clues.what = "o where query 0 is 20 positions before key 0";
  expect(compare(first_of(found.o, expected.o.size()), expected.o, 1e-12, clues));
}

TEST_CASE("07.4: scores are changed as `mod` says, before softmax") {
  const Head head;
  const Forward found = forward(head, 0, head.T, 0, true);
  Numbers expected;
  for (int64_t t = 0; t < head.T; ++t) {
    double l = 0;
    Numbers o(static_cast<size_t>(head.d));
    for (int64_t j = 0; j <= t; ++j) {
      const double s = head.factor() * head.product(head.q, t, head.k, j);
      const double p = std::exp(exercise::CappedSlope{}(s, t, j));
      l += p;
      for (int64_t c = 0; c < head.d; ++c)
        o[static_cast<size_t>(c)] += p * head.v[static_cast<size_t>(j * head.d + c)];
    }
    for (const double each : o) expected.push_back(each / l);
  }
  Clues clues;
  clues.what = fmt::format("o of {} tokens, scores capped and with a slope", head.T);
  clues.suspects = {
      {"what it is with scores as they are: hand `mod` on to change_scores", plain(head).o}};
  expect(compare(first_of(found.o, expected.size()), expected, 1e-12, clues));
}

// ---- 07.5 ---------------------------------------------------------------------------------------

namespace {
// P and dS of all rows, by the solution, from raw scores and dP; and by the formulas.
struct Rows {
  Numbers P, dS;
};
enum class Without { nothing, D, L, factor, mask };
Rows rows(const Head& head, const Plain& whole, int64_t ahead, Without without) {
  Rows all;
  for (int64_t t = 0; t < head.T; ++t) {
    double D = 0;
    for (int64_t j = 0; j < head.T; ++j)
      D += whole.P[static_cast<size_t>(t)][static_cast<size_t>(j)] *
           head.product(head.dout, t, head.v, j);
    const double L = whole.L[static_cast<size_t>(t)];
    for (int64_t j = 0; j < head.T; ++j) {
      const double s = head.factor() * head.product(head.q, t, head.k, j);
      const bool seen = j <= t + ahead || without == Without::mask;
      const double p = !seen ? 0 : std::exp(s - (without == Without::L || L == none ? 0 : L));
      const double ds =
          p * (head.product(head.dout, t, head.v, j) - (without == Without::D ? 0 : D));
      all.P.push_back(p);
      all.dS.push_back(without == Without::factor ? ds : head.factor() * ds);
    }
  }
  return all;
}
Rows by_solution(const Head& head, const Plain& whole, int64_t ahead) {
  Rows all;
  for (int64_t t = 0; t < head.T; ++t) {
    Numbers scores, dP;
    double D = 0;
    for (int64_t j = 0; j < head.T; ++j) {
      scores.push_back(head.product(head.q, t, head.k, j));
      dP.push_back(head.product(head.dout, t, head.v, j));
      D += whole.P[static_cast<size_t>(t)][static_cast<size_t>(j)] * dP.back();
    }
    solution.backward_row(scores.data(), dP.data(), t, 0, head.T, false, head.factor(),
                          whole.L[static_cast<size_t>(t)], D, CountingMask{head.T, ahead}, false);
    all.P.insert(all.P.end(), scores.begin(), scores.end());
    all.dS.insert(all.dS.end(), dP.begin(), dP.end());
  }
  return all;
}
}  // namespace

TEST_CASE("07.5: P is made again, and dP becomes dS") {
  const Head head{.T = 21, .d = 4};
  const Plain whole = plain(head);
  const Rows found = by_solution(head, whole, 0), expected = rows(head, whole, 0, Without::nothing);
  Clues clues;
  clues.what = "P of 21 tokens";
  clues.suspects = {{"e^s without L: P = e^(s - L)", rows(head, whole, 0, Without::L).P},
                    {"P without the mask", rows(head, whole, 0, Without::mask).P}};
  expect(compare(found.P, expected.P, 1e-12, clues));
  clues.what = "dS of 21 tokens";
  clues.suspects = {
      {"dS without D: softmax's rows sum to 1, so dS = P (dP - D)",
       rows(head, whole, 0, Without::D).dS},
      {"dS of scaled scores: raw scores were multiplied by 1 / sqrt(d), and so is their gradient",
       rows(head, whole, 0, Without::factor).dS}};
  expect(compare(found.dS, expected.dS, 1e-12, clues));
}

TEST_CASE("07.5: a query that sees no key has no gradient") {
  const Head head{.T = 21, .d = 4};
  const Plain whole = plain(head, -20);
  const Rows found = by_solution(head, whole, -20),
             expected = rows(head, whole, -20, Without::nothing);
  for (size_t i = 0; i < found.P.size(); ++i)
    expect(std::isfinite(found.P[i]) && std::isfinite(found.dS[i]),
           fmt::format("query {} sees no key, L is -inf: P is {} and dS {}; -inf - -inf is NaN: "
                       "shift_of(L)",
                       i / 21, show(found.P[i]), show(found.dS[i])));
  Clues clues;
  clues.what = "dS where all but the last query see no key";
  expect(compare(found.dS, expected.dS, 1e-12, clues));
}

TEST_CASE("07.5: the gradient goes through the change of scores") {
  const exercise::CappedSlope mod;
  const int64_t j = flash_BK, n = 9, t = j + 5;  // the last keys are hidden
  const double factor = 0.5, L = 1.5, D = 0.3;
  const Numbers raw = numbers(n, "raw", 2), dP = numbers(n, "dP");
  Numbers scores = raw, found = dP, P, dS, as_they_are, of_raw, of_local, exchanged;
  scores.push_back(untouched), found.push_back(untouched);  // what lies behind the row
  for (int64_t c = 0; c < n; ++c) {
    const auto i = static_cast<size_t>(c);
    const double s = factor * raw[i];
    P.push_back(j + c <= t ? std::exp(mod(s, t, j + c) - L) : 0);
    const double ds = P[i] * (dP[i] - D);
    dS.push_back(factor * mod.backward(ds, s, t, j + c));
    as_they_are.push_back(factor * ds);
    of_raw.push_back(factor * mod.backward(ds, raw[i], t, j + c));
    of_local.push_back(factor * mod.backward(ds, s, t, c));
    exchanged.push_back(factor * mod.backward(ds, s, j + c, t));
  }
  solution.backward_row(scores.data(), found.data(), t, j, n, false, factor, L, D,
                        CountingMask{2 * flash_BK}, true);
  expect(scores.back() == untouched && found.back() == untouched,
         fmt::format("a row of {} scores: number {} is written, which lies behind it", n, n));
  scores.pop_back(), found.pop_back();
  Clues clues;
  clues.what = fmt::format("P of keys {} to {}, scores capped", j, j + n - 1);
  expect(compare(scores, P, 1e-12, clues));
  clues.what = fmt::format("dS of keys {} to {}, scores capped", j, j + n - 1);
  clues.suspects = {
      {"dS without mod.backward, which makes it the gradient of the score before the change",
       as_they_are},
      {"what it is if mod.backward gets the raw score: the score that mod changed is factor times "
       "it",
       of_raw},
      {"what it is if mod.backward gets the key's place in the run: key c of it is j + c",
       of_local},
      {"what it is if mod.backward gets the key before the query: mod.backward(ds, s, t, j)",
       exchanged}};
  expect(compare(found, dS, 1e-12, clues));
}

TEST_CASE("07.5: the mask is not asked where a run is whole") {
  int64_t asked = 0;
  Numbers scores = numbers(9, "raw"), dP = numbers(9, "dP");
  solution.backward_row(scores.data(), dP.data(), 20, 0, 9, true, 0.5, 1.5, 0.3,
                        CountingMask{40, 0, &asked}, false);
  expect(asked == 0, fmt::format("a whole run of 9 keys: the mask is asked {} times; every query "
                                 "sees every key of it: hand `whole` on",
                                 asked));
}

// ---- 07.6 ---------------------------------------------------------------------------------------

namespace {

constexpr int kernel_tile = 8;  // queries, and keys

struct KernelHead {
  int Tq = exercise::size("Tq", 21, 17, 39), Tk = exercise::size("Tk", 29, 25, 39);
  bool causal = true;  // the last query sees all keys
  Numbers q = numbers(Tq * exercise::kernel_d, "q", 1.5);
  Numbers k = numbers(Tk * exercise::kernel_d, "k", 1.5), v = numbers(Tk * exercise::kernel_d, "v");

  int seen(int query) const { return causal ? std::clamp(query + 1 + Tk - Tq, 0, Tk) : Tk; }
};

std::vector<float> in_f32(const Numbers& x) { return {x.begin(), x.end()}; }
exercise::Kernel by_kernel(const KernelHead& head, uint64_t seed = 1) {
  return solution.kernel(in_f32(head.q), in_f32(head.k), in_f32(head.v), head.Tq, head.Tk,
                         head.causal, seed);
}
Numbers in_f64(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// The step over tiles of keys, query by query, with one thing done wrong.
enum class Step { right, o_not_rescaled, m_not_carried, scaled_twice, divided_each_time };
Plain by_tiles(const KernelHead& head, Step step) {
  constexpr int d = exercise::kernel_d;
  Plain out;
  for (int t = 0; t < head.Tq; ++t) {
    double m = none, l = 0;
    Numbers o(d);
    for (int first = 0; first < head.Tk; first += kernel_tile) {
      Numbers s;
      for (int j = first; j < std::min(first + kernel_tile, head.seen(t)); ++j) {
        double sum = 0;
        for (int c = 0; c < d; ++c)
          sum += head.q[static_cast<size_t>(t * d + c)] * head.k[static_cast<size_t>(j * d + c)];
        s.push_back(sum / std::sqrt(step == Step::scaled_twice ? d * d : d));
      }
      const double before = step == Step::m_not_carried ? none : m;
      m = before;
      for (const double each : s) m = std::max(m, each);
      const double kept = m == none ? 0 : std::exp(before - m);
      l *= kept;
      for (double& each : o) each *= step == Step::o_not_rescaled && first > 0 ? 1 : kept;
      for (size_t i = 0; i < s.size(); ++i) {
        const double p = std::exp(s[i] - m);
        l += p;
        for (int c = 0; c < d; ++c)
          o[static_cast<size_t>(c)] += p * head.v[(static_cast<size_t>(first) + i) * d + c];
      }
      const bool last = first + kernel_tile >= head.Tk;
      if (l > 0 && (last || step == Step::divided_each_time))
        for (double& each : o) each /= l;
    }
    out.o.insert(out.o.end(), o.begin(), o.end());
    out.L.push_back(m + std::log(l));
  }
  return out;
}

}  // namespace

TEST_CASE("07.6: o and L are those of plain attention, over several tiles of keys") {
  for (const bool causal : {false, true}) {
    KernelHead head;
    head.causal = causal;
    const exercise::Kernel found = by_kernel(head);
    const Plain expected = by_tiles(head, Step::right);
    Clues clues;
    clues.what = fmt::format("o of {} queries and {} keys{}, in tiles of {}", head.Tq, head.Tk,
                             causal ? ", causal" : "", kernel_tile);
    clues.shape = {head.Tq, exercise::kernel_d};
    clues.suspects = {
        {"what it is if O is not rescaled: right until the maximum moves; still_worth is what "
         "online_softmax gives back",
         by_tiles(head, Step::o_not_rescaled).o},
        {"what it is with the m of this tile alone: L holds m from tile to tile",
         by_tiles(head, Step::m_not_carried).o},
        {"what it is if scores are scaled twice: those in block.s are scaled already",
         by_tiles(head, Step::scaled_twice).o},
        {"what it is if O is divided by l after each tile: only after the last one",
         by_tiles(head, Step::divided_each_time).o}};
    expect(compare(in_f64(found.o), expected.o, 1e-4, clues));
    clues = {};
    clues.what = fmt::format("L of {} queries", head.Tq);
    Numbers m;
    for (size_t t = 0; t < expected.L.size(); ++t) m.push_back(0);
    for (int t = 0; t < head.Tq; ++t) {
      double most = none;
      for (int j = 0; j < head.seen(t); ++j) {
        double sum = 0;
        for (size_t c = 0; c < exercise::kernel_d; ++c)
          sum += head.q[static_cast<size_t>(t) * exercise::kernel_d + c] *
                 head.k[static_cast<size_t>(j) * exercise::kernel_d + c];
        most = std::max(most, sum / std::sqrt(double{exercise::kernel_d}));
      }
      m[static_cast<size_t>(t)] = most;
    }
    clues.suspects = {{"m alone: after the last tile L = m + log l", m}};
    expect(compare(in_f64(found.L), expected.L, 1e-4, clues));
  }
}

TEST_CASE("07.6: no thread reads what another is writing") {
  const KernelHead head;
  for (const uint64_t seed : {1, 2, 3}) {
    const std::string text = exercise::error_of([&] { by_kernel(head, seed); });
    expect(
        text.find("race") == std::string::npos,
        "O is made from rows of S that other threads turn into P: they have to be finished, by a "
        "__syncthreads() that all threads come to\n    " +
            text);
  }
}

TEST_CASE("07.6: the last tile has fewer queries, and nothing behind them is read or written") {
  const std::string text = exercise::error_of([&] { by_kernel(KernelHead{}); });
  expect(text.find("out of bounds") == std::string::npos,
         "of the last tile there are Tq - query queries, fewer than BQ\n    " + text);
}

TEST_CASE("07.6: nothing is read that was not written") {
  const std::string text = exercise::error_of([&] { by_kernel(KernelHead{}); });
  expect(
      text.find("nobody has written") == std::string::npos,
      "with the first tile of keys nothing has been summed: m is -infinity, l and O are 0\n    " +
          text);
}

TEST_CASE("07.6: queries that see no key have o = 0 and L = -infinity") {
  KernelHead head;
  head.Tk = kernel_tile + 3;
  head.k.resize(static_cast<size_t>(head.Tk * exercise::kernel_d));
  head.v.resize(head.k.size());
  const exercise::Kernel found = by_kernel(head);
  for (int t = 0; head.seen(t) == 0; ++t) {
    const double o = found.o[static_cast<size_t>(t * exercise::kernel_d)];
    const double L = found.L[static_cast<size_t>(t)];
    expect(
        o == 0 && L == none,
        fmt::format("query {} sees no key: o is {}, L {}; an empty sum is 0, its logarithm -inf, "
                    "and there is nothing to divide by",
                    t, show(o), show(L)));
  }
}
