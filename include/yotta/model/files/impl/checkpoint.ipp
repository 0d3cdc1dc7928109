// The bodies of model/files/checkpoint.hpp.
#pragma once

#include "yotta/model/files/checkpoint.hpp"

#include <filesystem>
#include <list>

#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/hugging_face.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/text.hpp"

namespace yotta {

YOTTA_INLINE std::vector<NamedTensor> named_state(Optimizer& optimizer) {
  std::vector<NamedTensor> named;
  for (Optimizer::Slot& slot : optimizer.slots()) {
    const std::string& parameter = slot.parameter->name;
    if (slot.master.defined()) named.push_back({"master." + parameter, slot.master});
    for (size_t i = 0; i < slot.state.size(); ++i)
      named.push_back({optimizer.state_names()[i] + "." + parameter, slot.state[i]});
  }
  return named;
}

YOTTA_INLINE TrainingState training_state(Optimizer& optimizer, int64_t step, uint64_t seed,
                                          Metadata options) {
  return {step, seed, optimizer.steps(), std::move(options), named_state(optimizer)};
}

YOTTA_INLINE void restore_optimizer(const TrainingState& state, Optimizer& optimizer, Where where) {
  assign_all(named_state(optimizer), state.tensors, "the training state", where);
  optimizer.set_steps(state.optimizer_steps);
}

YOTTA_INLINE std::string training_state_json(const TrainingState& state) {
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

YOTTA_INLINE TrainingState parse_training_state(const std::string& text, const std::string& source,
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

YOTTA_INLINE void expect_same_options(const TrainingState& saved, const Metadata& now,
                                      Where where) {
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

YOTTA_INLINE void expect_savable(const std::string& folder, Where where) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(where, "{} cannot be made: {}", folder, error.message());
  for (const char* name : kept_files) expect_plain(folder + "/" + name, where);
  for (const char* name :
       {"model.safetensors", "training_state.json", "training_state.safetensors", commit_list})
    expect_plain(folder + "/" + name, where);
  finish_commit(folder, where);
  expect_writable(folder + "/checkpoint", where);
}

YOTTA_INLINE std::shared_ptr<FolderLock> lock_for_saving(const std::string& folder, Where where) {
  expect_savable(folder, where);
  auto lock = std::make_shared<FolderLock>(folder, where);
  if (lock->busy())
    fail(where, "{}: another run (process {}) is saving here; give another folder", folder,
         lock->holder());
  return lock;
}

YOTTA_INLINE KeptFiles read_kept_files(const std::string& folder, Where where) {
  KeptFiles kept;
  for (const char* name : kept_files) {
    const std::string path = folder + "/" + name;
    std::error_code error;  // what stands in the way is named when it is read
    if (std::filesystem::exists(saved_path(path), error) || error)
      kept[name] = read_json_text(path, where);
  }
  return kept;
}

YOTTA_INLINE void save_checkpoint(const std::string& folder, const TransformerConfig& config,
                                  const std::vector<NamedTensor>& weights,
                                  const TrainingState* state, const KeptFiles& kept, Where where) {
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
  KeptFiles texts = kept;
  texts["config.json"] = hugging_face_config(config, texts["config.json"]);
  for (const auto& [name, text] : texts) add_text(name.c_str(), text);
  add_tensors("model.safetensors", detail::hugging_face_weights(config, weights));
  if (state != nullptr) {
    add_text("training_state.json", training_state_json(*state));
    add_tensors("training_state.safetensors", state->tensors);
  }
  commit_together(folder, files, where);
}

// ---- loading ------------------------------------------------------------------------------------

YOTTA_INLINE TransformerConfig load_config(const std::string& folder, Where where) {
  expect_no_pickles(folder, where);
  const std::string path = folder + "/config.json";
  std::string text;
  try {
    text = read_json_text(path, where);
  } catch (const Error&) {
    const auto is_there = [](const std::string& name) {
      return std::filesystem::exists(std::filesystem::symlink_status(name));
    };
    if (is_there(path)) throw;
    fail(where,
         "{} is missing: it holds the sizes of the model, so a folder to load has it beside "
         "model.safetensors{}",
         path, is_there(folder) ? "" : "; there is no such folder either");
  }
  return parse_hugging_face_config(text, path, where);
}

YOTTA_INLINE void expect_same_model(const std::string& source, const TransformerConfig& saved,
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
// The name of a tensor in a folder. GPT-2's first checkpoints leave out "transformer."; a tied
// token table may be there as the output matrix alone.
inline std::string name_in(const WeightsFolder& files, const HuggingFaceTensor& item, bool tied) {
  const std::string_view prefix = "transformer.";
  const std::string& name = item.name;
  std::vector<std::string> names = {name};
  if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  if (tied && item.parts[0] == "embedding.token.weight") names.push_back(hugging_face_head);
  for (const std::string& each : names)
    if (files.tensors().contains(each)) return each;
  return name;
}

// A tied model has one matrix. If the folder has two, they must be the same.
inline void expect_tied(const std::string& folder, const WeightsFolder& files,
                        const std::string& table, Where where) {
  if (!files.tensors().contains(hugging_face_head) || table == hugging_face_head) return;
  const Tensor a = files.read(table, where), b = files.read(hugging_face_head, where);
  bool same = a.shape() == b.shape();
  for (int64_t r = 0; same && r < a.dim(0); ++r)
    same = a.rows(r, r + 1).values() == b.rows(r, r + 1).values();
  if (!same)
    fail(where,
         "{}: its config.json ties the output matrix to the token table, and its '{}' and '{}' "
         "differ; set tie_word_embeddings to false there to load both, or take '{}' out of the "
         "file",
         folder, table, hugging_face_head, hugging_face_head);
}

inline void expect_tensor_names(const std::string& source, const WeightsFolder& files,
                                const TransformerConfig& config, Where where) {
  std::vector<std::string> expected, found;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    expected.push_back(name_in(files, item, config.tied));
  if (config.tied) expect_tied(source, files, expected[0], where);
  for (const auto& [name, file] : files.tensors()) {
    const bool second = config.tied && name == hugging_face_head && name != expected[0];
    if (!is_buffer(name) && !second) found.push_back(name);
  }
  expect_same_names(source, expected, found, where);
}
}  // namespace detail

YOTTA_INLINE std::vector<std::string> load_weights(const std::string& folder,
                                                   const TransformerConfig& config,
                                                   const std::vector<NamedTensor>& weights,
                                                   Where where) {
  expect_model_names(config, weights, where);
  expect_same_model(folder, load_config(folder, where), config, where);
  const WeightsFolder files(folder, where);
  detail::expect_tensor_names(folder, files, config, where);

  const MemoryScope scope(MemoryKind::buffers);
  std::vector<NamedTensor> loaded;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config)) {
    const std::vector<Tensor> parts = find_parts(item, weights);
    const std::string name = detail::name_in(files, item, config.tied);
    const WeightsFolder::Entry& entry = files.entry(name, where);
    expect_loadable(folder, name, hugging_face_shape(item, parts), parts[0].dtype(), entry.shape,
                    entry.dtype, where);
    const Tensor whole = files.read(name, where);
    expect_finite(folder, name, whole, where);
    const std::vector<Tensor> values = from_hugging_face(item, whole, parts);
    for (size_t i = 0; i < parts.size(); ++i) loaded.push_back({item.parts[i], values[i]});
  }
  assign_all(weights, loaded, folder, where);
  std::vector<std::string> buffers;
  for (const auto& [name, file] : files.tensors())
    if (is_buffer(name)) buffers.push_back(name);
  return buffers;
}

YOTTA_INLINE TrainingState load_training_state(const std::string& folder, Where where) {
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
