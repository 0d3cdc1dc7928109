// Checkpoint: a model on disk, in the form that Hugging Face's transformers opens, and with it, for
// whoever wants to continue the run, all that decides its next step.
//
//     DIR/config.json                   the model's sizes                 AutoModelForCausalLM
//     DIR/model.safetensors             the weights under their names     .from_pretrained(DIR)
//     DIR/tokenizer.json                its tokenizer, if tokens are not bytes
//     DIR/training_state.json           step, seed, options               only to continue the run
//     DIR/training_state.safetensors    the optimizer's tensors
//
// A save that is cut short, wherever it is, leaves all files of the step before or all of this one
// (core/system/files.hpp), and each says its step. Loading reads and checks everything, then sets
// the weights: after an error the model is as it was. Cost: a file of the weights' size, and while
// saving or loading one more copy of them in memory. Contract: with data parallelism one rank
// saves; any number of ranks may load, from a folder that they cannot write, too.
//
// The training state is all that decides the next step of a run, beside the weights:
//
//     step         batches are drawn from (seed, step), so this is the position in the text
//     seed         of batches and dropout: drawn by position, so no generator has a state to keep
//     optimizer    its tensors (Adam: exp_avg, exp_avg_sq; the f32 master of a bf16 weight) and how
//                  many steps it took (Adam's bias correction)
//     options      whatever else must stay as it was: batch, learning rate, schedule, the text
//
// Continued from these and the weights, a run computes the same bits as if it had never stopped.
// Memory of the state: with Adam in f32 twice the weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yotta/model/config.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

class FolderLock;

// ---- training state -----------------------------------------------------------------------------

struct TrainingState {
  int64_t step = 0;  // steps done; the next one draws batch number `step`
  uint64_t seed = 0;
  int64_t optimizer_steps = 0;
  Metadata options;                  // name and value, as text
  std::vector<NamedTensor> tensors;  // "exp_avg.<parameter>", "master.<parameter>"
};

// The optimizer's tensors under the names they have in a file; the same memory.
YOTTA_API std::vector<NamedTensor> named_state(Optimizer& optimizer);

// The state of a run after `step` steps, ready to be saved. Shares the optimizer's memory.
YOTTA_API TrainingState training_state(Optimizer& optimizer, int64_t step, uint64_t seed,
                                       Metadata options = {});

// Sets an optimizer to a saved state. One of another rule, or over other parameters, is refused and
// nothing is changed.
YOTTA_API void restore_optimizer(const TrainingState& state, Optimizer& optimizer,
                                 Where where = Where::current());

// All of it but the tensors.
YOTTA_API std::string training_state_json(const TrainingState& state);

// The numbers of a training_state.json; `source` names it in errors.
YOTTA_API TrainingState parse_training_state(const std::string& text, const std::string& source,
                                             Where where = Where::current());

// Throws unless a continued run has the options of the saved one: another batch size or learning
// rate would be another run.
YOTTA_API void expect_same_options(const TrainingState& saved, const Metadata& now,
                                   Where where = Where::current());

// ---- saving -------------------------------------------------------------------------------------

// Throws now, and not after the training, if nothing can be saved to this folder, which is made if
// it is not there.
YOTTA_API void expect_savable(const std::string& folder, Where where = Where::current());

// For as long as what it returns lives, no other run saves here: two would mix their files.
YOTTA_API std::shared_ptr<FolderLock> lock_for_saving(const std::string& folder,
                                                      Where where = Where::current());

// Saves a model, and with `state` its run, to a folder, which is made if it is not there.
// `tokenizer` is the text of its tokenizer.json; without one its tokens are bytes.
YOTTA_API void save_checkpoint(const std::string& folder, const TransformerConfig& config,
                               const std::vector<NamedTensor>& weights,
                               const TrainingState* state = nullptr,
                               const std::string& tokenizer = "", Where where = Where::current());

// ---- loading ------------------------------------------------------------------------------------

// The sizes of the model in a folder: what to build before its weights can be loaded.
YOTTA_API TransformerConfig load_config(const std::string& folder, Where where = Where::current());

// Throws unless the model in a folder is the one that is asked for, naming the first size that
// differs.
YOTTA_API void expect_same_model(const std::string& source, const TransformerConfig& saved,
                                 const TransformerConfig& asked, Where where = Where::current());

// Loads the weights in a folder, ours or Hugging Face's, into a model of this configuration. Stored
// floats are converted to the type of the model's.
YOTTA_API void load_weights(const std::string& folder, const TransformerConfig& config,
                            const std::vector<NamedTensor>& weights,
                            Where where = Where::current());

// The state of the run that was saved with the weights in a folder.
YOTTA_API TrainingState load_training_state(const std::string& folder,
                                            Where where = Where::current());

}  // namespace yotta

#if YOTTA_BODIES_OF(model_json)
#include <filesystem>
#include <list>

#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/hugging_face.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/text.hpp"

namespace yotta {

std::vector<NamedTensor> named_state(Optimizer& optimizer) {
  std::vector<NamedTensor> named;
  for (Optimizer::Slot& slot : optimizer.slots()) {
    const std::string& parameter = slot.parameter->name;
    if (slot.master.defined()) named.push_back({"master." + parameter, slot.master});
    for (size_t i = 0; i < slot.state.size(); ++i)
      named.push_back({optimizer.state_names()[i] + "." + parameter, slot.state[i]});
  }
  return named;
}

TrainingState training_state(Optimizer& optimizer, int64_t step, uint64_t seed, Metadata options) {
  return {step, seed, optimizer.steps(), std::move(options), named_state(optimizer)};
}

void restore_optimizer(const TrainingState& state, Optimizer& optimizer, Where where) {
  assign_all(named_state(optimizer), state.tensors, "the training state", where);
  optimizer.set_steps(state.optimizer_steps);
}

std::string training_state_json(const TrainingState& state) {
  const Where where = Where::current();
  for (const auto& [name, value] : state.options)
    if (first_invalid_utf8(name + value) < name.size() + value.size())
      fail(where, "the option '{}' is not UTF-8, as JSON must be", printable(name));
  const nlohmann::json json{{"step", state.step},
                            {"seed", state.seed},
                            {"optimizer_steps", state.optimizer_steps},
                            {"options", state.options}};
  return json.dump(2) + "\n";
}

namespace detail {
// A whole number of training_state.json, from `least` to `most`. JSON's 3.9 and 1e308 are none:
// nlohmann would cut them to one.
template <class Number>
Number whole_number(const nlohmann::json& json, const char* key, int64_t least, Number most) {
  const nlohmann::json& value = json.at(key);
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
                        : value.is_number_integer() && value.get<int64_t>() >= least;
  if (!fits)
    throw JsonProblem(fmt::format("{} is {}, expected a whole number from 0 to {}", key,
                                  json_excerpt(value), most));
  return value.get<Number>();
}
}  // namespace detail

TrainingState parse_training_state(const std::string& text, const std::string& source,
                                   Where where) {
  try {
    const nlohmann::json json = parse_json(text);
    for (const char* const key : {"step", "seed", "optimizer_steps", "options"})
      if (!json.contains(key)) throw JsonProblem(fmt::format("'{}' not found", key));
    TrainingState state;
    constexpr int64_t most_steps = int64_t{1} << 53;  // and some more can be added
    state.step = detail::whole_number(json, "step", 0, most_steps);
    state.seed = detail::whole_number(json, "seed", 0, ~uint64_t{0});
    state.optimizer_steps = detail::whole_number(json, "optimizer_steps", -most_steps, most_steps);
    state.options = json.at("options").get<Metadata>();
    if (state.optimizer_steps < 0 || state.optimizer_steps > state.step)
      fail(where,
           "{} is not a training state: an optimizer cannot have taken {} steps in a run of {}",
           source, state.optimizer_steps, state.step);
    return state;
  } catch (const nlohmann::json::exception& error) {
    fail(where, "{} is not a training state: {}", source, error.what());
  } catch (const JsonProblem& problem) {
    fail(where, "{} is not a training state: {}", source, problem.what());
  }
}

void expect_same_options(const TrainingState& saved, const Metadata& now, Where where) {
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

// ---- saving -------------------------------------------------------------------------------------

namespace detail {
// Our weights as their tensors.
inline std::vector<NamedTensor> hugging_face_weights(const TransformerConfig& config,
                                                     const std::vector<NamedTensor>& weights) {
  const MemoryScope scope(MemoryKind::buffers);
  std::vector<NamedTensor> theirs;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    theirs.push_back({item.name, to_hugging_face(item, find_parts(item, weights))});
  return theirs;
}
}  // namespace detail

void expect_savable(const std::string& folder, Where where) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(where, "{} cannot be made: {}", folder, error.message());
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors",
                           "training_state.json", "training_state.safetensors", commit_list})
    expect_plain(folder + "/" + name, where);
  finish_commit(folder, where);
  expect_writable(folder + "/checkpoint", where);
}

std::shared_ptr<FolderLock> lock_for_saving(const std::string& folder, Where where) {
  expect_savable(folder, where);
  auto lock = std::make_shared<FolderLock>(folder, where);
  if (lock->busy())
    fail(where, "{}: another run (process {}) is saving here; give another folder", folder,
         lock->holder());
  return lock;
}

void save_checkpoint(const std::string& folder, const TransformerConfig& config,
                     const std::vector<NamedTensor>& weights, const TrainingState* state,
                     const std::string& tokenizer, Where where) {
  expect_model_names(config, weights, where);
  expect_savable(folder, where);
  Metadata metadata{{"format", "pt"}};  // transformers asks for this
  if (state != nullptr) metadata["step"] = std::to_string(state->step);

  std::list<AtomicFile> files;
  const auto add_text = [&](const char* name, const std::string& text) {
    files.emplace_back(folder + "/" + name, where).write(text.data(), std::ssize(text), where);
  };
  const auto add_tensors = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    write_safetensors(files.emplace_back(folder + "/" + name, where), tensors, metadata, where);
  };
  add_text("config.json", hugging_face_config(config));
  if (!tokenizer.empty()) add_text("tokenizer.json", tokenizer);
  add_tensors("model.safetensors", detail::hugging_face_weights(config, weights));
  if (state != nullptr) {
    add_text("training_state.json", training_state_json(*state));
    add_tensors("training_state.safetensors", state->tensors);
  }
  commit_together(folder, files, where);
}

// ---- loading ------------------------------------------------------------------------------------

TransformerConfig load_config(const std::string& folder, Where where) {
  expect_no_pickles(folder, where);
  const std::string path = folder + "/config.json";
  return parse_hugging_face_config(read_json_text(path, where), path, where);
}

void expect_same_model(const std::string& source, const TransformerConfig& saved,
                       const TransformerConfig& asked, Where where) {
  if (saved.dialect != asked.dialect)
    fail(where, "{} holds a {} model; expected a {} model", source, name(saved.dialect),
         name(asked.dialect));
  constexpr std::pair<const char*, int64_t TransformerConfig::*> sizes[] = {
      {"layers", &TransformerConfig::layers},
      {"width", &TransformerConfig::width},
      {"heads", &TransformerConfig::heads},
      {"kv_heads", &TransformerConfig::kv_heads},
      {"context", &TransformerConfig::context},
      {"feed_forward", &TransformerConfig::feed_forward},
      {"vocabulary", &TransformerConfig::vocabulary}};
  for (const auto& [what, size] : sizes)
    if (saved.*size != asked.*size)
      fail(where, "{} holds a model with {} = {}; expected {}", source, what, saved.*size,
           asked.*size);
  if (saved.tied != asked.tied)
    fail(where,
         "{} holds a model whose output matrix is {} the token table, unlike the one asked "
         "for",
         source, saved.tied ? "tied to" : "apart from");
  const MixtureConfig &theirs = saved.mixture, &ours = asked.mixture;
  if (theirs.experts != ours.experts || (ours.experts > 0 && theirs.top_k != ours.top_k))
    fail(where,
         "{} holds a model of {} experts, {} for each token; expected {} experts, {} for each "
         "token",
         source, theirs.experts, theirs.top_k, ours.experts, ours.top_k);
}

namespace detail {
// The name of a tensor in a folder: GPT-2's first checkpoints leave out "transformer.".
inline std::string name_in(const WeightsFolder& files, const std::string& name) {
  const std::string_view prefix = "transformer.";
  const std::string bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  return !files.tensors().contains(name) && files.tensors().contains(bare) ? bare : name;
}

inline void expect_tensor_names(const std::string& source, const WeightsFolder& files,
                                const TransformerConfig& config, Where where) {
  std::vector<std::string> expected, found;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    expected.push_back(name_in(files, item.name));
  for (const auto& [name, file] : files.tensors())
    if (!is_ignored_tensor(name, config)) found.push_back(name);
  expect_same_names(source, expected, found, where);
}
}  // namespace detail

void load_weights(const std::string& folder, const TransformerConfig& config,
                  const std::vector<NamedTensor>& weights, Where where) {
  expect_model_names(config, weights, where);
  expect_same_model(folder, load_config(folder, where), config, where);
  const WeightsFolder files(folder, where);
  detail::expect_tensor_names(folder, files, config, where);

  const MemoryScope scope(MemoryKind::buffers);
  std::vector<NamedTensor> loaded;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config)) {
    const std::vector<Tensor> parts = find_parts(item, weights);
    const std::string name = detail::name_in(files, item.name);
    const WeightsFolder::Entry& entry = files.entry(name);
    expect_loadable(folder, name, hugging_face_shape(item, parts), parts[0].dtype(), entry.shape,
                    entry.dtype, where);
    const Tensor whole = files.read(name, where);
    expect_finite(folder, name, whole, where);
    const std::vector<Tensor> values = from_hugging_face(item, whole, parts);
    for (size_t i = 0; i < parts.size(); ++i) loaded.push_back({item.parts[i], values[i]});
  }
  assign_all(weights, loaded, folder, where);
}

TrainingState load_training_state(const std::string& folder, Where where) {
  const std::string json = folder + "/training_state.json";
  const std::string tensors = folder + "/training_state.safetensors";
  std::error_code error;  // what stands in the way is named when it is read
  if (!std::filesystem::exists(saved_path(json), error) && !error)
    fail(where,
         "{} holds a model but no run that could be continued: training_state.json is "
         "missing; load the model alone, or save with the training state",
         folder);
  const MemoryScope scope(MemoryKind::buffers);
  TrainingState state = parse_training_state(read_json_text(json, where), json, where);
  state.tensors = load_safetensors(tensors, where);
  for (const NamedTensor& each : state.tensors) expect_state(tensors, each.name, each.value, where);
  const std::string step = std::to_string(state.step);
  for (Metadata metadata :
       {WeightsFolder(folder, where).metadata(), SafetensorsFile(tensors, where).metadata()})
    if (metadata["step"] != step)
      fail(where,
           "{}: the files are of different steps, {} and {}: a save was cut short, or the "
           "weights were saved again without the state",
           folder, step, metadata["step"].empty() ? "none" : metadata["step"]);
  return state;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
