#include "course/shared/training_text.hpp"

#include <cstdlib>
#include <filesystem>

#include "course/shared/console.hpp"
#include "course/shared/training.hpp"
#include "yotta/comm/tcp/tcp_epochs.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/tokenizer_json.hpp"

namespace yotta {

std::string hash_of(const std::string& text) { return fmt::format("{:016x}", hash_name(text)); }

const std::string& source_of(const TrainingPlan& plan) {
  return plan.resume.empty() ? plan.load : plan.resume;
}

void expect_tokens(const TrainingPlan& plan) {
  const std::string& folder = source_of(plan);
  const bool has_own = !folder.empty() && has_tokenizer(folder);
  if (!has_own && plan.model.vocabulary != 256)
    fail(
        Where::current(),
        "{}the model has a vocabulary of {} tokens, and there is no tokenizer.json{}, so the text "
        "is read as bytes, 0 to 255: a token of this model is not a byte. Put the model's own "
        "tokenizer.json beside it (byte-level BPE, as GPT-2's and Llama 3's), or take a model with "
        "a vocabulary of 256, as train makes",
        folder.empty() ? "" : folder + ": ", plan.model.vocabulary,
        folder.empty() ? "" : " in its folder");
  if (!has_own && !plan.save.empty() && has_tokenizer(plan.save))
    fail(Where::current(),
         "--save {}: this folder holds a tokenizer.json, and the tokens of the model that is to be "
         "saved there are bytes; give another folder, or delete that file",
         plan.save);
}

Text own_text(const std::string& root) {
  const char *const folder = std::getenv(job_variable), *const rank = std::getenv("RANK");
  if (folder == nullptr || rank == nullptr) return course_text(root);
  const std::string file = fmt::format("{}/course_text", folder);
  Text text;
  if (!std::filesystem::exists(file)) {
    text = course_text(root);
    if (std::string_view(rank) == "0")
      write_file(file, fmt::format("{}\n{}", text.files, text.bytes));
    return text;
  }
  text.bytes = read_file(file);
  text.files = std::atol(text.bytes.c_str());
  text.bytes.erase(0, text.bytes.find('\n') + 1);
  return text;
}

TrainingText::TrainingText(const TrainingPlan& plan)
    : plan_(plan),
      text_(plan.text.empty() ? own_text(YOTTA_SOURCE_DIR) : read_text(plan.text, plan.encoding)),
      split_(split_text(text_.bytes, sequence_of(plan))) {
  const std::string& folder = source_of(plan);
  hash_ = hash_of(text_.bytes);
  if (!folder.empty()) kept_ = read_kept_files(folder);
  if (!kept_.contains(tokenizer_file)) return;
  tokenizer_hash_ = hash_of(kept_.at(tokenizer_file));
  tokenize(folder + "/" + tokenizer_file);
  tokenize_prompt();
}

void TrainingText::tokenize(const std::string& source) {
  constexpr size_t shown_from = size_t{8} << 20;  // bytes; less takes about a second
  const int64_t context = sequence_of(plan_);
  tokenizer_ = parse_tokenizer(kept_.at(tokenizer_file), source, plan_.model.vocabulary);
  console::Progress progress("tokenizing", std::ssize(text_.bytes));
  const auto encode = [&](std::string_view part, int64_t before) {
    return tokenizer_->encode(part, [&](int64_t done) {
      if (text_.bytes.size() >= shown_from) progress.update(before + done, "bytes");
    });
  };
  train_ = tokenizer_->first();
  const std::vector<int32_t> tokens = encode(split_.train, 0);
  train_.insert(train_.end(), tokens.begin(), tokens.end());
  validation_ = encode(split_.validation, std::ssize(split_.train));
  progress.finish();
  if (std::min(std::ssize(train_), std::ssize(validation_)) < context + 1)
    fail(
        Where::current(),
        "the text has {} tokens, {} to train on and {} to validate on; a context of {} needs {} in "
        "each: give a longer text or a shorter context",
        tokens.size() + validation_.size(), tokens.size(), validation_.size(), context,
        context + 1);
}

void TrainingText::tokenize_prompt() {
  if (const size_t bad = first_invalid_utf8(plan_.prompt); bad < plan_.prompt.size())
    fail(Where::current(),
         "--prompt is not UTF-8 (byte {} is 0x{:02x}), and the model's tokens are made of UTF-8",
         bad, static_cast<unsigned char>(plan_.prompt[bad]));
  prompt_ = tokenizer_->first();
  const std::vector<int32_t> own = tokenizer_->encode(plan_.prompt);
  prompt_.insert(prompt_.end(), own.begin(), own.end());
}

int64_t TrainingText::tokens() const {
  return tokenizer_ ? std::ssize(train_) + std::ssize(validation_) : std::ssize(text_.bytes);
}

std::string TrainingText::begins_with() const {
  return tokenizer_ ? tokenizer_->decode(tokenizer_->first()) : "";
}

Batches TrainingText::to_train(int64_t context, uint64_t seed) const {
  return tokenizer_ ? Batches(train_, context, seed) : Batches(split_.train, context, seed);
}

Batches TrainingText::to_validate(int64_t context, uint64_t seed) const {
  return tokenizer_ ? Batches(validation_, context, seed)
                    : Batches(split_.validation, context, seed);
}

std::string TrainingText::continued(const NextToken& forward, int64_t context,
                                    const SampleOptions& options) const {
  const int64_t count = plan_.sample_tokens;
  if (!tokenizer_) return generate(forward, plan_.prompt, count, context, options);
  return tokenizer_->decode(generate_tokens(forward, prompt_, count, context, options));
}

}  // namespace yotta
