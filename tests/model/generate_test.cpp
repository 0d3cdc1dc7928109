#include "yotta/model/generate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a draw picks tokens as often as the softmax says") {
  const std::vector<float> logits{std::log(1.0f), std::log(6.0f), std::log(3.0f)};
  const Random random(1, "test");
  const int draws = 20000;
  const auto shares = [&](const SampleOptions& options) {
    std::vector<double> count(3);
    for (uint64_t i = 0; i < draws; ++i)
      count[sample_token(logits, options, random.uniform(i))] += 1.0 / draws;
    return count;
  };
  const auto near = [](double a, double b) { return std::abs(a - b) <= 0.015; };
  const std::vector<double> plain = shares({});
  CHECK(near(plain[0], 0.1));
  CHECK(near(plain[1], 0.6));
  CHECK(near(plain[2], 0.3));
  const std::vector<double> bold = shares({.temperature = 0.5});  // squares: 1, 36, 9
  CHECK(near(bold[0], 1 / 46.0));
  CHECK(near(bold[1], 36 / 46.0));
  const std::vector<double> two = shares({.top_k = 2});
  CHECK(two[0] == 0);
  CHECK(near(two[1], 6 / 9.0));
}

TEST_CASE("greedy takes the likeliest, the first of equals") {
  const std::vector<float> logits{1, 5, 2, 5};
  CHECK(sample_token(logits, {.temperature = 0}, 0.99) == 1);
  CHECK(sample_token(logits, {.top_k = 1}, 0.99) == 1);
  CHECK(sample_token(logits, {.top_k = 100}, 0) == 1);
  CHECK(sample_token(logits, {}, std::nextafter(1.0, 0.0)) == 0);  // the least likely comes last
  CHECK(sample_token(std::vector<float>{3}, {}, 0.5) == 0);
}

TEST_CASE("large logits do not overflow, broken ones are refused") {
  CHECK(sample_token(std::vector<float>{3e38f, -3e38f}, {}, 0.999) == 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto message = [](const std::vector<float>& logits, const SampleOptions& options) {
    return message_of([&] { sample_token(logits, options, 0.5); });
  };
  CHECK(contains(message({1, nan}, {}), "no logits, or some of its 2 are infinite or NaN"));
  CHECK(contains(message({1, nan}, {.temperature = 0}), "it has diverged"));
  CHECK(contains(message({}, {}), "no logits, or some of its 0"));
}

TEST_CASE("the window slides, and only the last row of the logits counts") {
  std::vector<std::string> seen;
  // The next byte is one more than the last; other rows say 0.
  const auto counting = [&](const Tensor& ids) {
    const int64_t n = ids.dim(1);
    std::string window;
    for (const int32_t id : ids.span<int32_t>()) window += static_cast<char>(id);
    seen.push_back(window);
    Tensor logits = Tensor::zeros({1, n, 256});
    logits.data<float>()[(n - 1) * 256 + ids.data<int32_t>()[n - 1] + 1] = 50;
    return logits;
  };
  CHECK(generate(counting, "ab", 4, 3) == "cdef");
  CHECK(seen == std::vector<std::string>{"ab", "abc", "bcd", "cde"});
  CHECK(generate(counting, "ab", 0, 3).empty());
  CHECK(generate(counting, "\xC3", 1, 3) == "\xC4");
  CHECK(contains(message_of([&] { generate(counting, "", 1, 3); }), "at least one byte"));
}

TEST_CASE("the same seed writes the same text, another one another") {
  const auto even = [](const Tensor&) { return Tensor::zeros({1, 256}); };
  const std::string text = generate(even, "x", 32, 8, {.seed = 5});
  CHECK(std::set<char>(text.begin(), text.end()).size() > 20);  // every byte is drawn anew
  CHECK(generate(even, "x", 32, 8, {.seed = 5}) == text);
  CHECK(generate(even, "x", 16, 8, {.seed = 5}) == text.substr(0, 16));
  CHECK(generate(even, "x", 32, 8, {.seed = 6}) != text);
  const auto wide = [](const Tensor&) {
    Tensor logits = Tensor::zeros({1, 300});
    logits.data<float>()[299] = 99;
    return logits;
  };
  CHECK(contains(message_of([&] { generate(wide, "x", 1, 8); }), "token 299 is not a byte"));
}

TEST_CASE("tokens that are no bytes are continued, too") {
  std::vector<std::vector<int32_t>> seen;
  const auto counting = [&](const Tensor& ids) {
    const std::span<const int32_t> window = ids.span<int32_t>();
    seen.emplace_back(window.begin(), window.end());
    Tensor logits = Tensor::zeros({1, ids.dim(1), 1000});
    logits.data<float>()[(ids.dim(1) - 1) * 1000 + window.back() + 1] = 50;
    return logits;
  };
  CHECK(generate_tokens(counting, {500, 501}, 3, 2) == std::vector<int32_t>{502, 503, 504});
  CHECK(seen == std::vector<std::vector<int32_t>>{{500, 501}, {501, 502}, {502, 503}});
  CHECK(contains(message_of([&] { generate_tokens(counting, {}, 1, 3); }), "at least one token"));
}
