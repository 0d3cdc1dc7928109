// Training state: all that decides the next step of a run, beside the weights.
//
//     step            batches are drawn from (seed, step), so this is the place in the text
//     seed            of batches and dropout: drawn by place, so no generator has a state to keep
//     optimizer       its tensors (Adam: exp_avg, exp_avg_sq; the f32 master of a bf16 weight) and how
//                     many steps it took (Adam's bias correction)
//     options         whatever else must stay as it was: batch, learning rate, schedule, the text
//
// Continued from these and the weights, a run computes the same bits as if it had never stopped.
// In the folder: training_state.json for the numbers, training_state.safetensors for the tensors.
// Memory: with Adam in f32 twice the weights.
#pragma once

#include "yotta/model/files/safetensors.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

struct TrainingState {
  int64_t step = 0;  // steps done; the next one draws batch number `step`
  uint64_t seed = 0;
  int64_t optimizer_steps = 0;
  Metadata options;                  // name and value, as text
  std::vector<NamedTensor> tensors;  // "exp_avg.<parameter>", "master.<parameter>"
};

// The optimizer's tensors under the names they have in a file; the same memory.
inline std::vector<NamedTensor> named_state(Optimizer& optimizer) {
  std::vector<NamedTensor> named;
  for (Optimizer::Slot& slot : optimizer.slots()) {
    const std::string& parameter = slot.parameter->name;
    if (slot.master.defined()) named.push_back({"master." + parameter, slot.master});
    for (size_t i = 0; i < slot.state.size(); ++i)
      named.push_back({optimizer.state_names()[i] + "." + parameter, slot.state[i]});
  }
  return named;
}

// The state of a run after `step` steps, ready to be saved. Shares the optimizer's memory.
inline TrainingState training_state(Optimizer& optimizer, int64_t step, uint64_t seed,
                                    Metadata options = {}) {
  return {step, seed, optimizer.steps(), std::move(options), named_state(optimizer)};
}

// Sets an optimizer to a saved state. One of another rule, or over other parameters, is refused and
// nothing is changed.
inline void restore_optimizer(const TrainingState& state, Optimizer& optimizer,
                              Where where = Where::current()) {
  assign_all(named_state(optimizer), state.tensors, "the training state", where);
  optimizer.set_steps(state.optimizer_steps);
}

// All of it but the tensors.
inline std::string training_state_json(const TrainingState& state) {
  const nlohmann::json json{{"step", state.step},
                            {"seed", state.seed},
                            {"optimizer_steps", state.optimizer_steps},
                            {"options", state.options}};
  return json.dump(2) + "\n";
}

// The numbers of a training_state.json; `source` names it in errors.
inline TrainingState parse_training_state(const std::string& text, const std::string& source,
                                          Where where = Where::current()) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    TrainingState state;
    state.step = json.at("step").get<int64_t>();
    state.seed = json.at("seed").get<uint64_t>();
    state.optimizer_steps = json.at("optimizer_steps").get<int64_t>();
    state.options = json.at("options").get<Metadata>();
    if (state.optimizer_steps < 0 || state.optimizer_steps > state.step)
      fail(where, "{} is no training state: an optimizer cannot have taken {} steps in a run of {}",
           source, state.optimizer_steps, state.step);
    return state;
  } catch (const nlohmann::json::exception& error) {
    fail(where, "{} is no training state: {}", source, error.what());
  }
}

// Throws unless a continued run has the options of the saved one: another batch size or learning rate
// would be another run.
inline void expect_same_options(const TrainingState& saved, const Metadata& now,
                                Where where = Where::current()) {
  for (const auto& [name, value] : saved.options) {
    const auto found = now.find(name);
    if (found == now.end() || found->second != value)
      fail(where,
           "this run was started with {} {}, and is continued with {}; the same options "
           "continue it",
           name, value, found == now.end() ? "none" : found->second);
  }
  for (const auto& [name, value] : now)
    if (!saved.options.contains(name))
      fail(where,
           "the saved run does not say its {}, and {} would continue it: another version saved it, "
           "or its file was changed; start a new run from its weights",
           name, value);
}

}  // namespace yotta
