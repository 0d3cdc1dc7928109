#include "yotta/plan/counted_model.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yotta;

namespace {

bool within(double actual, double expected, double relative) {
  return std::abs(actual / expected - 1) <= relative;
}

}  // namespace

TEST_CASE("the weights of published models are those that their papers print") {
  CHECK(within(all_weights(palm_540b()), 540.35e9, 1e-5));
  CHECK(within(all_weights(gpt3_175b()), 175e9, 0.005));
  CHECK(within(all_weights(mixtral_8x7b()), 46.7e9, 0.001));
  CHECK(within(met_weights(mixtral_8x7b()), 12.9e9, 0.015));  // printed with both tables: 12.9
}

TEST_CASE("weights are the parameters of config.hpp without norms, biases and positions") {
  for (const TransformerConfig& c : {llama3_8b(), llama3_70b(), llama3_405b()}) {
    const double norms = static_cast<double>((2 * c.layers + 1) * c.width);
    CHECK(all_weights(counted_model(c)) == static_cast<double>(parameters(c)) - norms);
  }
  TransformerConfig experts = llama_config(3, 48, 80, 6, 2, 64, 100);
  experts.mixture = {.experts = 8, .top_k = 3, .shared = 2};
  const CountedModel m = counted_model(experts);
  const auto rest_of = [&](double sum) { return sum - 7 * 48; };  // norms
  CHECK(all_weights(m) == rest_of(static_cast<double>(parameters(experts))));
  CHECK(met_weights(m) + output_weights(m) ==
        rest_of(static_cast<double>(active_parameters(experts))));
  const TransformerConfig gpt2 = gpt2_124m();
  const auto rest = gpt2.context * gpt2.width + gpt2.layers * 13 * gpt2.width + 2 * gpt2.width;
  CHECK(all_weights(counted_model(gpt2)) == static_cast<double>(parameters(gpt2) - rest));
}

// DeepSeek-V3 (2024, arXiv 2412.19437), section 4.2, which prints its sizes and both numbers.
TEST_CASE("DeepSeek-V3: 671B parameters, of which a token meets 37B") {
  const CountedModel m = deepseek_v3_671b();
  CHECK(within(static_cast<double>(parameters(deepseek_v3())), 671e9, 0.0005));
  CHECK(within(all_weights(m), 671e9, 0.001));
  CHECK(within(met_weights(m), 37e9, 0.015));
  CHECK(within(static_cast<double>(active_parameters(deepseek_v3())), 37e9, 0.016));  // both tables
  const double norms = 61.0 * (2 * 7168 + 1536 + 512) + 7168;
  CHECK(all_weights(m) == static_cast<double>(parameters(deepseek_v3())) - norms);
  CHECK(latent_weights(m) == 61 * 187'105'280.0);
  CHECK(dense_weights(m) == 3 * 396'361'728.0);
  CHECK(router_weights(m) == 58 * 7168.0 * 256);
}

TEST_CASE("a token meets the output matrix and not the table, and its own experts") {
  const CountedModel untied = counted_model(llama3_8b()), tied = counted_model(gpt2_124m());
  CHECK(all_weights(untied) - met_weights(untied) == output_weights(untied));
  CHECK(all_weights(tied) == met_weights(tied));
  const CountedModel mixtral = mixtral_8x7b();
  CHECK(all_weights(mixtral) - met_weights(mixtral) ==
        6 * expert_weights(mixtral) + output_weights(mixtral));
  CHECK(router_weights(mixtral) == 32 * 4096 * 8);
  CHECK(router_weights(untied) == 0);
}
