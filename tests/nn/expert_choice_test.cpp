#include "yotta/nn/expert_choice.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

using namespace yotta;

namespace {

using Numbers = std::vector<double>;

struct Chosen {
  std::vector<int32_t> expert;
  Numbers weight;
};

Chosen choose(const Numbers& s, size_t k, bool renormalise = true, const Numbers& b = {}) {
  Chosen to{std::vector<int32_t>(k), Numbers(k)};
  choose_experts<double>(s, b, renormalise, to.expert, to.weight);
  return to;
}

Numbers scores_of(const Numbers& z, RouterScore score) {
  Numbers s;
  double sum = 0;
  for (const double each : z) sum += std::exp(each);
  for (const double each : z)
    s.push_back(score == RouterScore::softmax ? std::exp(each) / sum : 1 / (1 + std::exp(-each)));
  return s;
}

double along(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The gradient of loss(x), by differences.
Numbers differences(Numbers x, const std::function<double(const Numbers&)>& loss) {
  Numbers d;
  for (double& each : x) {
    const double is = each, h = 1e-5;
    each = is + h;
    const double above = loss(x);
    each = is - h;
    d.push_back((above - loss(x)) / (2 * h));
    each = is;
  }
  return d;
}

void check_near(const Numbers& a, const Numbers& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance);
}

}  // namespace

TEST_CASE("the page's token: experts 1 and 2, with weights 4/7 and 3/7") {
  const Numbers s = {0.1, 0.4, 0.3, 0.2};
  CHECK(choose(s, 2).expert == std::vector<int32_t>{1, 2});
  check_near(choose(s, 2).weight, {4.0 / 7, 3.0 / 7}, 1e-15);
  CHECK(choose(s, 2, false).weight == Numbers{0.4, 0.3});
  CHECK(choose(s, 4).expert == std::vector<int32_t>{1, 2, 3, 0});
  CHECK(choose(s, 1).weight == Numbers{1});
}

TEST_CASE("equal scores: the first is chosen, also where a bias makes them equal") {
  CHECK(choose({0.25, 0.25, 0.25, 0.25}, 3).expert == std::vector<int32_t>{0, 1, 2});
  CHECK(choose({0.5, 0.25, 0.25}, 2, true, {0, 0.25, 0.25}).expert == std::vector<int32_t>{0, 1});
}

TEST_CASE("a bias chooses, and is in no weight; a score with its bias may be negative") {
  const Chosen to = choose({0.5, 0.25, 0.125}, 2, true, {-1, -0.5, 0.5});
  CHECK(to.expert == std::vector<int32_t>{2, 1});
  check_near(to.weight, {1.0 / 3, 2.0 / 3}, 1e-15);
}

TEST_CASE("gradients of the page's token: what one logit gains the other loses") {
  const Numbers s = {0.1, 0.4, 0.3, 0.2}, dweight = {1, 0};
  const std::vector<int32_t> expert = {1, 2};
  Numbers ds(4);
  choose_experts_backward<double>(s, expert, dweight, RouterScore::softmax, true, ds);
  const double A = 4.0 / 7;
  check_near(ds, {0, 0.4 * (1 - A) / 0.7, -0.3 * A / 0.7, 0}, 1e-15);
}

TEST_CASE(
    "gradients of logits against differences: both scores, k 1 to 4, with what s has besides") {
  const Numbers z = {0.3, -0.7, 1.1, 0.6}, dw = {0.9, -0.4, 0.7, 0.2},
                other = {0.5, 0.1, -0.6, 0.3};
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (size_t k = 1; k <= 4; ++k)
      for (const bool renormalise : {true, false}) {
        CAPTURE(std::string(name(score)));
        CAPTURE(k);
        const Numbers dweight(dw.begin(), dw.begin() + static_cast<int64_t>(k));
        const auto loss = [&](const Numbers& logits) {
          const Numbers s = scores_of(logits, score);
          return along(choose(s, k, renormalise).weight, dweight) + along(s, other);
        };
        const Numbers s = scores_of(z, score);
        Numbers ds = other;
        choose_experts_backward<double>(s, choose(s, k).expert, dweight, score, renormalise, ds);
        check_near(ds, differences(z, loss), 1e-9);
      }
}

TEST_CASE("a token's sum: its rows times their weights, those of dropped ones missing") {
  const Numbers rows = {1, 2, 10, 20, 100, 200};
  Numbers sum = {0, 0};
  combine_token<double>(rows.data(), std::vector<int64_t>{2, 0}, Numbers{0.25, 0.75}, sum);
  CHECK(sum == Numbers{25.75, 51.5});
  sum = {0, 0};
  combine_token<double>(rows.data(), std::vector<int64_t>{-1, 1}, Numbers{0.25, 0.75}, sum);
  CHECK(sum == Numbers{7.5, 15});
  combine_token<double>(rows.data(), std::vector<int64_t>{-1, -1}, Numbers{0.25, 0.75}, sum);
  CHECK(sum == Numbers{7.5, 15});
}

TEST_CASE("gradients of a row and of its weight, against differences") {
  const Numbers row = {0.5, -2, 3}, dy = {1, 0.25, -0.75};
  const double weight = 0.375;
  const auto sum_of = [](const Numbers& r, double w) {
    Numbers sum(r.size());
    combine_token<double>(r.data(), std::vector<int64_t>{0}, Numbers{w}, sum);
    return sum;
  };
  Numbers drow(3);
  const double dweight = combine_token_backward<double>(dy, row, weight, drow);
  check_near(drow, differences(row, [&](const Numbers& r) { return along(sum_of(r, weight), dy); }),
             1e-9);
  check_near({dweight},
             differences({weight}, [&](const Numbers& w) { return along(sum_of(row, w[0]), dy); }),
             1e-9);
}

TEST_CASE("bf16 rows are summed in f32") {
  const std::vector<bfloat16> rows = {static_cast<bfloat16>(256.0f), static_cast<bfloat16>(1.0f)};
  std::vector<float> sum = {0};
  combine_token<bfloat16>(rows.data(), std::vector<int64_t>{0, 1}, std::vector<float>{1, 1}, sum);
  CHECK(sum[0] == 257);  // bf16 has 8 bits
  std::vector<bfloat16> drow(1);
  const std::vector<bfloat16> dy = {static_cast<bfloat16>(3.0f)};
  CHECK(combine_token_backward<bfloat16>(dy, {&rows[0], 1}, 0.5f, drow) == 768);
  CHECK(static_cast<float>(drow[0]) == 1.5f);
}

TEST_CASE("a token of Mixtral meets the router and two of eight experts") {
  static_assert(weights_met(4096, 14336, 8, 2) == 4096 * 8 + 2 * 3 * int64_t{4096} * 14336);
  CHECK(weights_met(3, 4, 4, 2) == 12 + 72);
}
