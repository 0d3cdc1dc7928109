// Checkpoint: a model on disk, in the form that Hugging Face's transformers opens, and with it, for
// whoever wants to continue the run, all that decides its next step.
//
//     DIR/config.json                   the model's sizes                 AutoModelForCausalLM
//     DIR/model.safetensors             the weights under their names     .from_pretrained(DIR)
//     DIR/training_state.json           step, seed, options               only to continue the run
//     DIR/training_state.safetensors    the optimizer's tensors           (training_state.hpp)
//
// A save that is cut short, wherever it is, leaves all files of the step before or all of this one
// (core/system/files.hpp), and each says its step. Loading reads and checks everything, then sets the weights: after
// an error the model is as it was.
// Cost: a file of the weights' size, and while saving or loading one more copy of them in memory.
// Contract: with data parallelism one rank saves; any number of ranks may load.
#pragma once

#include "yotta/model/files/hugging_face_config.hpp"
#include "yotta/model/files/hugging_face_names.hpp"
#include "yotta/model/files/training_state.hpp"
#include "yotta/model/files/weights_folder.hpp"

namespace yotta {

// ---- saving ----------------------------------------------------------------------------------------

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

// Throws now, and not after the training, if nothing can be saved to this folder, which is made if it is not there.
inline void expect_savable(const std::filesystem::path& folder, Where where = Where::current()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(where, "{} cannot be made: {}", folder.string(), error.message());
  finish_commit(folder);
  expect_writable(folder / "checkpoint", where);
}

// For as long as what it returns lives, no other run saves here: two would mix their files.
inline std::unique_ptr<FolderLock> lock_for_saving(const std::filesystem::path& folder,
                                                   Where where = Where::current()) {
  expect_savable(folder, where);
  auto lock = std::make_unique<FolderLock>(folder);
  if (lock->busy())
    fail(where, "{}: another run (process {}) is saving here; give another folder", folder.string(),
         lock->holder());
  return lock;
}

// Save a model, and with `state` its run, to a folder, which is made if it is not there.
inline void save_checkpoint(const std::filesystem::path& folder, const TransformerConfig& config,
                            const std::vector<NamedTensor>& weights,
                            const TrainingState* state = nullptr, Where where = Where::current()) {
  expect_model_names(config, weights, where);
  expect_savable(folder, where);
  Metadata metadata{{"format", "pt"}};  // transformers asks for this
  if (state != nullptr) metadata["step"] = std::to_string(state->step);

  std::list<AtomicFile> files;
  const auto add_text = [&](const char* name, const std::string& text) {
    files.emplace_back(folder / name, where).write(text.data(), std::ssize(text), where);
  };
  const auto add_tensors = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    write_safetensors(files.emplace_back(folder / name, where), tensors, metadata, where);
  };
  add_text("config.json", hugging_face_config(config));
  add_tensors("model.safetensors", detail::hugging_face_weights(config, weights));
  if (state != nullptr) {
    add_text("training_state.json", training_state_json(*state));
    add_tensors("training_state.safetensors", state->tensors);
  }
  commit_together(folder, files, where);
}

// ---- loading ---------------------------------------------------------------------------------------

// The sizes of the model in a folder: what to build before its weights can be loaded.
inline TransformerConfig load_config(const std::filesystem::path& folder,
                                     Where where = Where::current()) {
  finish_commit(folder);
  const std::filesystem::path path = folder / "config.json";
  return parse_hugging_face_config(read_file(path, where), path.string(), where);
}

// Throws unless the model in a folder is the one that is asked for, naming the first size that differs.
inline void expect_same_model(const std::string& source, const TransformerConfig& saved,
                              const TransformerConfig& asked, Where where = Where::current()) {
  if (saved.dialect != asked.dialect)
    fail(where, "{} holds a {} model, and a {} model is to be loaded", source, name(saved.dialect),
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
      fail(where, "{} holds a model of {} = {}, and one of {} is to be loaded", source, what,
           saved.*size, asked.*size);
  if (saved.tied != asked.tied)
    fail(where,
         "{} holds a model whose output matrix is {} the token table, unlike the one asked "
         "for",
         source, saved.tied ? "tied to" : "apart from");
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

// Load the weights in a folder, ours or Hugging Face's, into a model of this configuration. Stored
// floats are converted to the type of the model's.
inline void load_weights(const std::filesystem::path& folder, const TransformerConfig& config,
                         const std::vector<NamedTensor>& weights, Where where = Where::current()) {
  expect_model_names(config, weights, where);
  expect_same_model(folder.string(), load_config(folder, where), config, where);
  const WeightsFolder files(folder, where);
  detail::expect_tensor_names(folder.string(), files, config, where);

  const MemoryScope scope(MemoryKind::buffers);
  std::vector<NamedTensor> loaded;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config)) {
    const std::vector<Tensor> parts = find_parts(item, weights);
    const std::string name = detail::name_in(files, item.name);
    const WeightsFolder::Entry& entry = files.entry(name);
    expect_loadable(folder.string(), name, hugging_face_shape(item, parts), parts[0].dtype(),
                    entry.shape, entry.dtype, where);
    const Tensor whole = files.read(name, where);
    expect_finite(folder.string(), name, whole, where);
    const std::vector<Tensor> values = from_hugging_face(item, whole, parts);
    for (size_t i = 0; i < parts.size(); ++i) loaded.push_back({item.parts[i], values[i]});
  }
  assign_all(weights, loaded, folder.string(), where);
}

// The state of the run that was saved with the weights in a folder.
inline TrainingState load_training_state(const std::filesystem::path& folder,
                                         Where where = Where::current()) {
  finish_commit(folder);
  const std::filesystem::path json = folder / "training_state.json";
  const std::filesystem::path tensors = folder / "training_state.safetensors";
  if (!std::filesystem::exists(json))
    fail(where,
         "{} holds a model but no run that could be continued: training_state.json is "
         "missing; load the model alone, or save with the training state",
         folder.string());
  const MemoryScope scope(MemoryKind::buffers);
  TrainingState state = parse_training_state(read_file(json, where), json.string(), where);
  state.tensors = load_safetensors(tensors, where);
  const std::string step = std::to_string(state.step);
  for (Metadata metadata :
       {WeightsFolder(folder, where).metadata(), SafetensorsFile(tensors, where).metadata()})
    if (metadata["step"] != step)
      fail(where,
           "{}: the files are of different steps, {} and {}: a save was cut short, or the "
           "weights were saved again without the state",
           folder.string(), step, metadata["step"].empty() ? "none" : metadata["step"]);
  return state;
}

}  // namespace yotta
