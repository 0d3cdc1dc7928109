// What a router is told: how many experts there are, how many a token goes to, and how it chooses.
// The router itself is router.hpp.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "yotta/core/error.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

enum class RouterScore : uint8_t { softmax, sigmoid };
constexpr const char* name(RouterScore score) {
  return score == RouterScore::softmax ? "softmax" : "sigmoid";
}

struct RouterOptions {
  int64_t width = 1;    // C
  int64_t experts = 2;  // E
  int64_t top_k = 1;    // k
  RouterScore score = RouterScore::softmax;
  // Whether the weights of a token are divided by their sum (Mixtral), or are its scores (Switch).
  // With k = 1 the quotient is always 1, and the model's loss would not train the router.
  bool renormalise = true;
  double balance_loss = 0, z_loss = 0;  // alpha, beta of load_balance.hpp
  double bias_rate = 0;                 // 0: no bias
  Initial initial = normal(0.02);
  // Node-limited routing: the experts are `groups` runs of equal length, as nodes hold them, and
  // those of a token are in `top_groups` of them. 1: all experts are one group.
  int64_t groups = 1, top_groups = 1;

  // Throws with the rule that is broken.
  void check(const std::string& layer, Where where = Where::current()) const {
    if (width < 1 || experts < 1 || top_k < 1 || top_k > experts)
      fail(where,
           "{}: a token of width {} goes to {} of {} experts; expected a width of 1 or more, and 1 "
           "to {} experts of a token",
           layer, width, top_k, experts, std::max<int64_t>(experts, 1));
    if (groups < 1 || experts % groups != 0 || top_groups < 1 || top_groups > groups ||
        top_k > top_groups * (experts / groups))
      fail(where,
           "{}: {} experts in {} groups, {} of which hold the {} of a token; expected groups of "
           "equal "
           "length that have room for them",
           layer, experts, groups, top_groups, top_k);
    for (const auto& [what, value] : {std::pair{"balance loss", balance_loss},
                                      {"z-loss", z_loss},
                                      {"rate of the bias", bias_rate}})
      if (!(value >= 0 && value < std::numeric_limits<double>::infinity()))
        fail(where, "{}: the {} is {}, expected 0 or more", layer, what, value);
  }
};

}  // namespace yotta
