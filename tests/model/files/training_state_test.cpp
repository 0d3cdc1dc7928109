#include "yotta/model/files/training_state.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
ParameterPtr weight(const char* name, DType dtype, int64_t rows = 3) {
  return make_parameter(name, {rows, 5}, true, normal(1), 1, dtype);
}
// One step of something to learn, different in every step.
void train(const std::vector<ParameterPtr>& parameters, Optimizer& optimizer, int64_t step) {
  for (const ParameterPtr& each : parameters) {
    Tensor& gradient = each->gradient();
    const Random random(3, each->name);
    for (int64_t i = 0; i < gradient.numel(); ++i)
      gradient.data<float>()[i] = static_cast<float>(random.normal(1000 * step + i));
  }
  optimizer.step(0.01);
}
std::vector<double> values(const std::vector<ParameterPtr>& parameters) {
  std::vector<double> all;
  for (const ParameterPtr& each : parameters)
    for (const double value : each->value.values()) all.push_back(value);
  return all;
}
}  // namespace

TEST_CASE("a continued run has the bits of one that never stopped") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto fresh = [&] { return std::vector{weight("a", dtype), weight("b", dtype)}; };
    const std::vector<ParameterPtr> whole = fresh(), first = fresh(), second = fresh();
    AdamW whole_adam(whole), first_adam(first);
    for (int64_t step = 0; step < 6; ++step) train(whole, whole_adam, step);
    for (int64_t step = 0; step < 3; ++step) train(first, first_adam, step);

    const TrainingState state = training_state(first_adam, 3, 42, {{"batch", "8"}});
    write_file(folder / "state.json", training_state_json(state));
    save_safetensors(folder / "state.safetensors", state.tensors);
    save_safetensors(folder / "weights", named_values(first));

    TrainingState read = parse_training_state(read_file(folder / "state.json"), "state.json");
    read.tensors = load_safetensors(folder / "state.safetensors");
    CHECK(read.step == 3);
    CHECK(read.seed == 42);
    CHECK(read.options == state.options);
    CHECK(read.tensors.size() == (dtype == DType::bf16 ? 6 : 4));
    assign_all(named_values(second), load_safetensors(folder / "weights"), "weights");
    AdamW second_adam(second);
    restore_optimizer(read, second_adam);
    for (int64_t step = read.step; step < 6; ++step) train(second, second_adam, step);
    CHECK(values(second) == values(whole));
  }
}

TEST_CASE("the state of another optimizer or model is refused and nothing is changed") {
  const std::vector<ParameterPtr> one{weight("a", DType::f32)};
  AdamW adam(one);
  train(one, adam, 0);
  const TrainingState state = training_state(adam, 1, 0);
  const auto restoring = [&](Optimizer& into) {
    const std::string message = message_of([&] { restore_optimizer(state, into); });
    CHECK(into.steps() == 0);
    return message;
  };
  Sgd sgd(one, {.momentum = 0.9});
  CHECK(contains(restoring(sgd), "lacks 1 tensors of this model (momentum_buffer.a)"));
  AdamW renamed({weight("b", DType::f32)});
  CHECK(contains(restoring(renamed), "exp_avg.b"));
  AdamW larger({weight("a", DType::f32, 4)});
  CHECK(contains(restoring(larger), "'exp_avg.a' is (3, 5) f32, expected (4, 5) f32"));
  AdamW narrow({weight("a", DType::bf16)});
  CHECK(contains(restoring(narrow), "lacks 1 tensors of this model (master.a)"));
}

TEST_CASE("a run is continued with the options it was started with") {
  TrainingState state;
  state.options = {{"batch", "8"}, {"lr", "0.001"}};
  CHECK(message_of([&] { expect_same_options(state, state.options); }) == "nothing was thrown");
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"batch", "8"}, {"lr", "0.1"}});
                 }),
                 "was started with lr 0.001, and is continued with 0.1"));
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"lr", "0.001"}});
                 }),
                 "batch 8, and is continued with none"));
  state.options.erase("batch");
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"batch", "8"}, {"lr", "0.001"}});
                 }),
                 "the saved run does not say its batch, and 8 would continue it"));
}

TEST_CASE("a broken training_state.json is refused") {
  const auto parsing = [](const std::string& text) {
    return message_of([&] { parse_training_state(text, "state.json"); });
  };
  CHECK(contains(parsing("{"), "state.json is no training state"));
  CHECK(contains(parsing("{}"), "'step' not found"));
  CHECK(contains(parsing("[]"), "state.json is no training state"));
  CHECK(contains(parsing(R"({"step": "3", "seed": 1, "optimizer_steps": 1, "options": {}})"),
                 "state.json is no training state"));
  for (const char* steps : {"-1", "4", "1000000000000000"})
    CHECK(
        contains(parsing(fmt::format(
                     R"({{"step": 3, "seed": 1, "optimizer_steps": {}, "options": {{}}}})", steps)),
                 fmt::format("cannot have taken {} steps in a run of 3", steps)));
  CHECK(parsing(R"({"step": 3, "seed": 1, "optimizer_steps": 1, "options": {}})") ==
        "nothing was thrown");
}
