#include "yotta/nn/cpu/step_gate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace yotta;

namespace {

// A team of one.
struct GateTeam {
  template <class Term>
  double sum(int64_t n, Term term) const {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += term(i, OneLane{});
    return total;
  }
  template <class Do>
  void once(Do one) const {
    one();
  }
};
constexpr double endless = std::numeric_limits<double>::infinity();

StepNumbers gated(double loss, double limit, double clip, std::vector<double> squares,
                  LateFinding finding = {}) {
  StepNumbers now;
  now.loss = loss, now.limit = limit, now.clip = clip;
  StepGate{std::ssize(squares), squares.data(), &finding, &now}(0, GateTeam{});
  return now;
}

struct Doubling {
  double* w;
  double rate = 0;
  Doubling with(const StepNumbers& now, double decay) const { return {w, now.rate * decay}; }
  void operator()(int64_t i, OneLane) const { w[i] += rate; }
};

}  // namespace

TEST_CASE("the gate finds the norm and the factor that clips it") {
  StepNumbers now = gated(2, endless, 1, {9, 16});
  CHECK(now.norm == 5);
  CHECK(now.scale == 0.2);
  CHECK(now.taken == 1);
  now = gated(2, endless, 6, {9, 16});
  CHECK(now.scale == 1);
  CHECK(gated(2, endless, 0, {9, 16}).scale == 1);  // no clipping
}

TEST_CASE("a step is not taken with a wrong id, a number that is not finite, or a loss too high") {
  CHECK(gated(2, 2, 1, {1}).taken == 1);
  CHECK(gated(2.1, 2, 1, {1}).taken == 0);
  for (const double loss : {double{NAN}, endless, -endless})
    CHECK(gated(loss, endless, 1, {1}).taken == 0);
  for (const double square : {double{NAN}, endless})
    CHECK(gated(2, endless, 1, {1, square}).taken == 0);
  CHECK(gated(2, endless, 1, {1}, {7, 0, 0}).taken == 0);
}

TEST_CASE("a rule has its factors from the device, and does nothing in a step that is not taken") {
  std::vector<double> w = {1, 1};
  StepNumbers now;
  now.rate = 3;
  const OnDevice<Doubling> body{{w.data()}, &now, 0.5};
  body(1, OneLane{});
  CHECK(w == std::vector<double>{1, 1});
  now.taken = 1;
  body(1, OneLane{});
  CHECK(w == std::vector<double>{1, 2.5});
}
