#include "yotta/model/width_scaling.hpp"

#include <doctest/doctest.h>

#include <map>

#include "yotta/nn/transformer.hpp"

using namespace yotta;

namespace {

Transformer model() { return Transformer(llama_config(1, 16, 40, 2, 2, 8, 32)); }

std::map<std::string, ParameterPtr> by_name(const Transformer& transformer) {
  std::map<std::string, ParameterPtr> all;
  for (const ParameterPtr& each : parameters(transformer.stack())) all[each->name] = each;
  return all;
}

}  // namespace

TEST_CASE("a transformer's parameters have the roles of the table") {
  const Transformer transformer = model();
  std::map<WidthRole, int> count;
  for (const ParameterPtr& each : parameters(transformer.stack())) ++count[width_role(*each)];
  CHECK(count[WidthRole::hidden] == 7);  // q, k, v, o, gate, up, down
  CHECK(count[WidthRole::output] == 1);
  CHECK(count[WidthRole::input] == 4);  // the table and three norms
}

TEST_CASE("initial values: hidden matrices by the root of the width, muP's output by the width") {
  const Transformer plain = model();
  for (const WidthRule rule : {WidthRule::standard, WidthRule::mup}) {
    const Transformer scaled = model();
    scale_initial_values(parameters(scaled.stack()), 4, rule);
    const auto before = by_name(plain), after = by_name(scaled);
    for (const auto& [name, parameter] : after) {
      CAPTURE(name);
      const float ratio =
          parameter->value.data<float>()[3] / before.at(name)->value.data<float>()[3];
      const WidthRole role = width_role(*parameter);
      const bool output = role == WidthRole::output && rule == WidthRule::mup;
      CHECK(ratio == doctest::Approx(role == WidthRole::input ? 1 : output ? 0.25 : 0.5));
    }
  }
}

TEST_CASE("steps: muP's matrices move by 1 / wider of the learning rate, all else by all of it") {
  for (const WidthRule rule : {WidthRule::standard, WidthRule::mup}) {
    const Transformer transformer = model();
    const std::vector<ParameterPtr> all = parameters(transformer.stack());
    std::vector<float> before;
    for (const ParameterPtr& each : all) {
      each->gradient().fill(1);
      before.push_back(each->value.data<float>()[0]);
    }
    WidthScaledAdamW(all, 4, rule, {.weight_decay = 0}).step(0.01);
    for (size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i]->name);
      const bool less = rule == WidthRule::mup && width_role(*all[i]) != WidthRole::input;
      CHECK(before[i] - all[i]->value.data<float>()[0] ==
            doctest::Approx(less ? 0.0025 : 0.01).epsilon(1e-3));
    }
  }
}

TEST_CASE("decay takes learning rate x decay of every matrix, at any width and by either rule") {
  for (const WidthRule rule : {WidthRule::standard, WidthRule::mup})
    for (const double wider : {1.0, 4.0, 16.0}) {
      const Transformer transformer = model();
      const std::vector<ParameterPtr> all = parameters(transformer.stack());
      for (const ParameterPtr& each : all) {
        each->gradient().fill(0);  // so that nothing but decay moves a weight
        each->value.fill(2);
      }
      WidthScaledAdamW(all, wider, rule, {.weight_decay = 0.5}).step(0.01);
      for (const ParameterPtr& each : all) {
        CAPTURE(each->name);
        CHECK(each->value.data<float>()[0] ==
              doctest::Approx(each->is_matrix ? 1.99 : 2).epsilon(1e-6));
      }
    }
}
