#include "yotta/device/capture.hpp"

#include "device/fusion_examples.hpp"
#include "support/message_of.hpp"
#include "yotta/core/compare.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("operations run at once on arrays with numbers") {
  const Tensor x = uniform("x", {5, 37}, DType::f64), bias = uniform("b", {37}, DType::f64);
  const Tensor gain = uniform("g", {37}, DType::f64);
  const Tensor y = layernorm(Array(x), Array(gain), Array(bias)).tensor();
  for (int64_t r = 0; r < 5; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < 37; ++c) mean += x.item({r, c}) / 37;
    for (int64_t c = 0; c < 37; ++c) variance += std::pow(x.item({r, c}) - mean, 2) / 37;
    for (int64_t c = 0; c < 37; ++c)
      CHECK(y.item({r, c}) ==
            doctest::Approx((x.item({r, c}) - mean) / std::sqrt(variance + 1e-5) * gain.item({c}) +
                            bias.item({c})));
  }
}

TEST_CASE("a captured graph computes what the function computes") {
  const Tensor x = uniform("x", {6, 20}), b = uniform("b", {20}), r = uniform("r", {6, 20});
  const Graph graph = capture(bias_gelu_dropout_residual, x, b, r);
  check_close(run(graph, {x, b, r})[0],
              bias_gelu_dropout_residual(Array(x), Array(b), Array(r)).tensor(), 0);
  const Graph masked = capture(masked_softmax, x);
  const Tensor y = run(masked, {x})[0];
  check_close(y, masked_softmax(Array(x)).tensor(), 0);
  CHECK(y.item({0, 0}) == 1);
  CHECK(y.item({2, 3}) == 0);
}

TEST_CASE("keep_mask is the mask of dropout: which bits are below p 2^32") {
  const Tensor x = uniform("x", {3, 50});
  const Tensor mask = keep_mask(Array(x), 0.3, (uint64_t{9} << 32) + 4, "mlp.dropout").tensor();
  const Random random((uint64_t{9} << 32) + 4, "mlp.dropout");
  for (int64_t i = 0; i < 150; ++i)
    CHECK((mask.item({i / 50, i % 50}) == 1) ==
          (random.bits(static_cast<uint64_t>(i)) >= keep_threshold(0.3)));
}

TEST_CASE("running at once costs each operand and each result, once an operation") {
  const Tensor x = uniform("x", {4, 32}), b = uniform("b", {32});
  context().ledger.reset();
  const Array sum = Array(x) + Array(b);
  exp(sum * sum) * 2.0;
  const auto cost = [](const char* op) { return context().ledger.op(op); };
  CHECK(cost("add").bytes_read == 4 * (4 * 32 + 32));
  CHECK(cost("add").bytes_written == 4 * 4 * 32);
  CHECK(cost("multiply").calls == 2);  // sum is read once, a number with the call
  CHECK(cost("multiply").bytes_read == 2 * 4 * 4 * 32);
  CHECK(cost("exp").flops == 4 * 32);
}

TEST_CASE("what tracing cannot see is refused, with its line") {
  const Tensor x = uniform("x", {4, 4});
  int line = 0;
  const auto message = [&](auto f) { return message_of([&] { capture(f, x); }); };
  const auto says = [&](const std::string& text, const char* words) {
    CAPTURE(text);
    CHECK(text.find(fmt::format("capture_test.cpp:{}: ", line)) == 0);
    CHECK(text.find(words) != text.npos);
  };
  const std::string branch = message([&](const Array& a) {
    line = __LINE__ + 1;
    const Array large = row_max(a) < 3;
    return large ? a : a * 2;
  });
  says(branch, "a branch on a value that is computed here cannot be captured");
  const std::string reading = message([&](const Array& a) {
    line = __LINE__ + 1;
    return a * row_sum(a).item();
  });
  says(reading, "reading a number cannot be captured");
  const std::string printing = message([&](const Array& a) {
    line = __LINE__ + 1;
    fmt::print("{}", (a + 1).tensor().numel());
    return a;
  });
  says(printing, "reading an array cannot be captured");
  const std::string outside = message([&](const Array& a) {
    line = __LINE__ + 1;
    return a + Array(x);
  });
  says(outside, "pass it as an argument");
}

TEST_CASE("an array lives no longer than its capture, and in no other") {
  const Tensor x = uniform("x", {4, 4});
  Array kept(0.0);
  capture(
      [&](const Array& a) {
        kept = a * 2;
        return a + 1;
      },
      x);
  const char* ended = "when its capture has ended";
  CHECK(message_of([&] { kept + 1; }).find(ended) != std::string::npos);
  CHECK(message_of([&] { capture([&](const Array& a) { return a + kept; }, x); }).find(ended) !=
        std::string::npos);
  const std::string nested = message_of([&] {
    capture(
        [&](const Array& a) {
          capture([&](const Array& b) { return b + a; }, x);
          return a;
        },
        x);
  });
  CHECK(nested.find("an array of one captured function is used inside of another") !=
        std::string::npos);
}

TEST_CASE("arrays without numbers, and chances that are none, are refused") {
  CHECK(message_of([] {
          Array(Tensor::zeros({0, 4})).size();
        }).find("a tensor (0, 4)") != std::string::npos);
  CHECK(message_of([] {
          capture(softmax, Tensor::zeros({4, 0}));
        }).find("a tensor (4, 0)") != std::string::npos);
  CHECK(message_of([] { Array(Tensor()).size(); }).find("undefined") != std::string::npos);
  const Array x(uniform("x", {2, 2}));
  for (const double p : {1.0, -0.1, std::nan("")})
    CHECK(message_of([&] { keep_mask(x, p, 1, "drop"); }).find("keep_mask: p = ") !=
          std::string::npos);
}

TEST_CASE("a branch on many numbers is no branch") {
  const Array x(uniform("x", {3, 2}));
  CHECK(message_of([&] {
          static_cast<void>(static_cast<bool>(row_max(x) < 2));
        }).find("an array of (3, 1) is no single number") != std::string::npos);
}

TEST_CASE("a branch on numbers that are there is followed") {
  const Array x(uniform("x", {1, 1}));
  CHECK(static_cast<bool>(x < 2));
  CHECK_FALSE(static_cast<bool>(x < -2));
}

TEST_CASE("guards: sizes, type and number of arguments") {
  const Tensor x = uniform("x", {4, 8});
  const Graph graph = capture(softmax, x);
  check_guards(graph, {uniform("y", {4, 8})});
  check_guards(graph, {uniform("y", {2, 2, 8})});  // the same matrix
  const auto message = [&](std::vector<Tensor> in) {
    return message_of([&] { check_guards(graph, in); });
  };
  CHECK(message({uniform("x", {8, 4})})
            .find("argument 0 is (8, 4) f32, and the graph was captured "
                  "for (4, 8) f32") != std::string::npos);
  CHECK(message({uniform("x", {4, 8}, DType::f64)}).find("is (4, 8) f64") != std::string::npos);
  CHECK(message({x, x}).find("has 1 arguments, got 2") != std::string::npos);
}
