// Checkpoint: a model on disk, in the form that Hugging Face's transformers opens, and with it, for
// whoever wants to continue the run, all that decides its next step.
//
//     DIR/config.json                   the model's sizes                 AutoModelForCausalLM
//     DIR/model.safetensors             the weights under their names     .from_pretrained(DIR)
//     DIR/tokenizer.json                its tokenizer, if tokens are not bytes
//     DIR/generation_config.json, ...   what only others read; kept as it came (kept_files)
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

#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/nn/transformer_config.hpp"

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
std::vector<NamedTensor> named_state(Optimizer& optimizer);

// The state of a run after `step` steps, ready to be saved. Shares the optimizer's memory.
TrainingState training_state(Optimizer& optimizer, int64_t step, uint64_t seed,
                             Metadata options = {});

// Sets an optimizer to a saved state. One of another rule, or over other parameters, is refused and
// nothing is changed.
void restore_optimizer(const TrainingState& state, Optimizer& optimizer,
                       Where where = Where::current());

// All of it but the tensors.
std::string training_state_json(const TrainingState& state);

// The numbers of a training_state.json; `source` names it in errors.
TrainingState parse_training_state(const std::string& text, const std::string& source,
                                   Where where = Where::current());

// Throws unless a continued run has the options of the saved one: another batch size or learning
// rate would be another run.
void expect_same_options(const TrainingState& saved, const Metadata& now,
                         Where where = Where::current());

// ---- saving -------------------------------------------------------------------------------------

// Throws now, and not after the training, if nothing can be saved to this folder, which is made if
// it is not there.
void expect_savable(const std::string& folder, Where where = Where::current());

// For as long as what it returns lives, no other run saves here: two would mix their files.
std::shared_ptr<FolderLock> lock_for_saving(const std::string& folder,
                                            Where where = Where::current());

// What a model came with, beside its weights: texts by the names of their files, of kept_files
// those that were there.
using KeptFiles = std::map<std::string, std::string>;
inline constexpr const char* kept_files[] = {"config.json", "generation_config.json",
                                             "special_tokens_map.json", "tokenizer.json",
                                             "tokenizer_config.json"};
KeptFiles read_kept_files(const std::string& folder, Where where = Where::current());

// Saves a model, and with `state` its run, to a folder, which is made if it is not there. What it
// came with, `kept`, is saved too, with a config.json that says what has changed. A model without a
// tokenizer.json has bytes as tokens.
void save_checkpoint(const std::string& folder, const TransformerConfig& config,
                     const std::vector<NamedTensor>& weights, const TrainingState* state = nullptr,
                     const KeptFiles& kept = {}, Where where = Where::current());

// ---- loading ------------------------------------------------------------------------------------

// The sizes of the model in a folder: what to build before its weights can be loaded.
TransformerConfig load_config(const std::string& folder, Where where = Where::current());

// Throws unless the model in a folder is the one that is asked for, naming the first size that
// differs.
void expect_same_model(const std::string& source, const TransformerConfig& saved,
                       const TransformerConfig& asked, Where where = Where::current());

// Loads the weights in a folder, ours or Hugging Face's, into a model of this configuration. Stored
// floats are converted to the type of the model's. Returns the names of the buffers that it has
// left out: masks and angles that some versions of transformers stored. Errors: a tied model with
// two matrices that differ.
std::vector<std::string> load_weights(const std::string& folder, const TransformerConfig& config,
                                      const std::vector<NamedTensor>& weights,
                                      Where where = Where::current());

// The state of the run that was saved with the weights in a folder.
TrainingState load_training_state(const std::string& folder, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/checkpoint.ipp"
#endif
