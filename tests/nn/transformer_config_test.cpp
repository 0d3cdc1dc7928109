#include "yotta/nn/transformer_config.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

// Published totals: Llama 3 report and its checkpoints; GPT-2's smallest checkpoint.
TEST_CASE("the count of parameters is the published one") {
  static_assert(parameters(gpt2_124m()) == 124'439'808);
  static_assert(parameters(llama3_8b()) == 8'030'261'248);
  CHECK(parameters(llama3_70b()) == 70'553'706'496);
  CHECK(parameters(llama3_405b()) == 405'853'388'800);
}

// The rule "10 C^2 a block" of a lecture, against what Llama 3's blocks have.
TEST_CASE("a Llama 3 block has 13, 12.75 and 11.875 times C^2 parameters, norms apart") {
  const auto in_squares = [](const TransformerConfig& c) {
    const int64_t weights = block_parameters(c) - 2 * norm_parameters(c);
    return static_cast<double>(weights) / static_cast<double>(c.width * c.width);
  };
  CHECK(in_squares(llama3_8b()) == 13.0);
  CHECK(in_squares(llama3_70b()) == 12.75);
  CHECK(in_squares(llama3_405b()) == 11.875);
}

// PaLM 540B: 6 N + 12 L H Q T FLOPs per token; 238.3k tokens/s on 6144 chips of 275 TFLOP/s is
// 46.2%.
TEST_CASE("model FLOPs of a step are 6 N n + 12 L C T n") {
  const TransformerConfig c = gpt2_config(6, 384, 6, 256, 256);
  const double n = 8 * 256;
  CHECK(step_flops(c, 8, 256) ==
        6.0 * static_cast<double>(parameters(c)) * n + 12.0 * 6 * 384 * 256 * n);
}

TEST_CASE("a configuration that cannot be built says which rule it breaks") {
  const auto message = [](auto&& change) -> std::string {
    TransformerConfig c = llama_config(2, 64, 96, 4, 2, 32, 100);
    change(c);
    try {
      c.check();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  using C = TransformerConfig&;
  const auto says = [&](auto&& change, const char* part) {
    return message(change).find(part) != std::string::npos;
  };
  CHECK(message([](C) {}) == "accepted");
  CHECK(says([](C c) { c.width = 66; }, "66 cannot be divided among 4 heads"));
  CHECK(says([](C c) { c.kv_heads = 3; }, "cannot share 3"));
  CHECK(says([](C c) { c.width = 60; }, "must be even"));
  CHECK(says([](C c) { c.dropout = 1; }, "dropout 1"));
  CHECK(says([](C c) { c.dtype = DType::f16; }, "not f16"));
  CHECK(says([](C c) { c.context = 0; }, "at least 1"));
  CHECK(says([](C c) { c.dialect = Dialect::gpt2; }, "GPT-2 has a key/value head"));
}

TEST_CASE("the width that a refusal names is accepted, and none that is accepted is nearer") {
  const auto refusal = [](const TransformerConfig& config) -> std::string {
    try {
      config.check();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto named = [&](TransformerConfig config, int64_t width) -> int64_t {
    config.width = width;
    const std::string text = refusal(config), before = "nearest width that works is ";
    const size_t at = text.find(before);
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + before.size()));
  };
  for (const int64_t heads : {1, 2, 3, 4, 7}) {
    for (TransformerConfig config :
         {gpt2_config(1, 1, heads, 8, 16), llama_config(1, 1, 8, heads, heads, 8, 16)}) {
      CAPTURE(std::string(name(config.dialect)));
      CAPTURE(heads);
      std::vector<int64_t> accepted;
      for (config.width = 1; config.width <= 100; ++config.width)
        if (refusal(config).empty()) accepted.push_back(config.width);
      for (int64_t width = 1; width <= 64; ++width) {
        if (std::count(accepted.begin(), accepted.end(), width) > 0) continue;
        CAPTURE(width);
        const int64_t nearest = named(config, width);
        CHECK(std::count(accepted.begin(), accepted.end(), nearest) == 1);
        for (const int64_t each : accepted)
          CHECK(std::abs(each - width) >= std::abs(nearest - width));
      }
    }
  }
  TransformerConfig config = gpt2_config(1, 1, 4, 8, 16);
  CHECK(named(config, 65) == 64);  // 68 is farther
  CHECK(named(config, 67) == 68);
  CHECK(named(config, 66) == 64);  // both are as near: the smaller
  CHECK(named(config, 2) == 4);    // not 0
  config = llama_config(1, 1, 8, 4, 4, 8, 16);
  CHECK(named(config, 67) == 64);  // 68 has heads of 17 numbers
  CHECK(named(config, 69) == 72);
}

TEST_CASE("numbers that end in NaN, whatever the learning rate, are refused") {
  const auto refused = [](double TransformerConfig::*number, double value) {
    TransformerConfig config = llama3_8b();
    config.*number = value;
    return message_of([&] { config.check(); });
  };
  const double nan = std::nan("");
  for (const double value : {0.0, -1.0, 2.0, nan, HUGE_VAL})
    CHECK(contains(refused(&TransformerConfig::norm_epsilon, value), "norm's epsilon"));
  for (const double value : {0.0, -5.0, 0.5, nan, HUGE_VAL})
    CHECK(contains(refused(&TransformerConfig::rope_theta, value), "rope's theta"));
  for (const double value : {-0.02, 1e300, nan, HUGE_VAL})
    CHECK(contains(refused(&TransformerConfig::deviation, value), "standard deviation"));
  for (const RopeScaling& scaling :
       {RopeScaling{0.5, 1, 4, 8192}, RopeScaling{nan, 1, 4, 8192}, RopeScaling{8, 0, 4, 8192},
        RopeScaling{8, 4, 4, 8192}, RopeScaling{8, 1, nan, 8192}, RopeScaling{8, 1, 4, 0}}) {
    TransformerConfig config = llama3_8b();
    config.rope_scaling = scaling;
    CHECK(contains(message_of([&] { config.check(); }), "rope"));
  }
}

// Jiang et al. (2024), Mixtral of Experts: 47B parameters, of which a token uses 13B.
TEST_CASE("Mixtral 8x7B has 46.7 billion parameters, 12.9 of them for a token") {
  TransformerConfig c = llama_config(32, 4096, 14336, 32, 8, 32768, 32000);
  c.mixture.experts = 8;
  c.check();
  CHECK(parameters(c) == 46'702'792'704);
  CHECK(active_parameters(c) == 12'879'925'248);
  CHECK(active_parameters(llama3_8b()) == parameters(llama3_8b()));
  const double tokens = 128;
  CHECK(step_flops(c, 1, 128) ==
        6.0 * static_cast<double>(active_parameters(c)) * tokens + 12.0 * 32 * 4096 * 128 * tokens);
}

TEST_CASE("a mixture that cannot be is refused") {
  const auto said = [](const std::function<void(TransformerConfig&)>& change) {
    TransformerConfig c = llama_config(2, 16, 24, 4, 2, 8, 24);
    c.mixture.experts = 4;
    change(c);
    return message_of([&] { c.check(); });
  };
  CHECK(said([](auto&) {}) == "nothing was thrown");
  CHECK(contains(said([](auto& c) { c.mixture.top_k = 5; }), "goes to 5 of 4 experts"));
  CHECK(contains(said([](auto& c) { c.mixture.top_k = 0; }), "goes to 0 of 4 experts"));
  CHECK(contains(said([](auto& c) { c.mixture.experts = -1; }), "-1 experts"));
  CHECK(contains(said([](auto& c) { c.mixture.experts = 0, c.mixture.shared = 1; }),
                 "0 experts and 1 shared ones"));
  CHECK(
      contains(said([](auto& c) { c.mixture.capacity = std::nan(""); }), "capacity of an expert"));
  CHECK(contains(said([](auto& c) { c.mixture.z_loss = -1; }), "the z-loss is -1"));
  CHECK(contains(said([](auto& c) { c.mixture.bias_rate = 0.1, c.dtype = DType::bf16; }),
                 "which bf16 rounds away"));
}
