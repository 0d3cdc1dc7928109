#include "yotta/nn/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/refused.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("options of optimizers and norms that cannot be are refused") {
  const auto adamw = [](AdamWOptions options) { return [=] { AdamW({}, options); }; };
  const auto sgd = [](SgdOptions options) { return [=] { Sgd({}, options); }; };
  const auto norm = [](double epsilon) {
    return [=] { Norm("norm", {.width = 4, .epsilon = epsilon}); };
  };
  check_refused({
      {"AdamWOptions::beta1 is 1, expected 0 or more and below 1; by default it is 0.9",
       adamw({.beta1 = 1})},
      {"AdamWOptions::beta2 is -0.5", adamw({.beta2 = -0.5})},
      {"AdamWOptions::epsilon is nan", adamw({.epsilon = NAN})},
      {"AdamWOptions::weight_decay is -1", adamw({.weight_decay = -1})},
      {"SgdOptions::momentum is 1.5", sgd({.momentum = 1.5})},
      {"SgdOptions::weight_decay is inf", sgd({.weight_decay = INFINITY})},
      {"NormOptions::epsilon is -1e-05, expected 0 or more; by default it is 1e-05", norm(-1e-5)},
  });
}

TEST_CASE("the ends of what options may be") {
  CHECK_NOTHROW(AdamW({}, {.beta1 = 0, .beta2 = 0, .epsilon = 0, .weight_decay = 0}));
  CHECK_NOTHROW(Sgd({}, {.momentum = 0, .weight_decay = 0}));
  CHECK_NOTHROW(Norm("norm", {.width = 4, .epsilon = 0}));
}
