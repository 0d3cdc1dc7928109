#include "yotta/model/trainer.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/refused.hpp"
#include "yotta/model/generate.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("options of training and sampling that cannot be are refused") {
  const auto trainer = [](TrainOptions options) {
    return [=] {
      Sgd none({});
      Trainer({}, none, options);
    };
  };
  const auto sample = [](SampleOptions options) {
    return [=] { sample_token(std::vector<float>{1}, options, 0.5); };
  };
  const auto context = [](int64_t tokens) { return [=] { generate_tokens({}, {1}, 1, tokens); }; };
  check_refused({
      {"TrainOptions::clip is -1, expected 0 or more, or infinite; by default it is 1",
       trainer({.clip = -1})},
      {"TrainOptions::spike_factor is nan", trainer({.spike_factor = NAN})},
      {"Schedule::peak is inf", trainer({.schedule = {.peak = INFINITY}})},
      {"Schedule::floor is -1", trainer({.schedule = {.floor = -1}})},
      {"Schedule::warmup is -1", trainer({.schedule = {.warmup = -1}})},
      {"Schedule::steps is -1", trainer({.schedule = {.steps = -1}})},
      {"SampleOptions::temperature is -1", sample({.temperature = -1})},
      {"SampleOptions::temperature is nan", sample({.temperature = NAN})},
      {"SampleOptions::top_k is -1", sample({.top_k = -1})},
      {"the context of a model is 0, expected 1 or more", context(0)},
  });
}
