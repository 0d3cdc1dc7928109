#include "course/training/training_text.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "course/options/console.hpp"
#include "course/training/training.hpp"
#include "yotta/comm/sockets/job_line.hpp"
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
  if (!JobLine::is_member()) return course_text(root);
  const char* const rank = std::getenv("RANK");
  return own_text(root, *JobLine::find(), rank != nullptr && std::string_view(rank) == "0");
}
Text own_text(const std::string& root, JobLine& line, bool is_first) {
  constexpr const char* key = "course_text";
  Text text;
  const std::optional<std::string> left = line.note(key);
  if (!left) {
    text = course_text(root);
    if (is_first)
      line.leave_note(key, fmt::format("{}\n{}", fmt::join(text.ends, " "), text.bytes));
    return text;
  }
  text.bytes = *left;
  std::istringstream ends(text.bytes.substr(0, text.bytes.find('\n')));
  for (int64_t end; ends >> end;) text.ends.push_back(end);
  text.files = std::ssize(text.ends);
  text.bytes.erase(0, text.bytes.find('\n') + 1);
  return text;
}

namespace {
// \n is a new line, \t a tab, \\ a backslash.
std::string without_escapes(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[++i] : '\0';
    out += next == '\0' ? text[i] : next == 'n' ? '\n' : next == 't' ? '\t' : next;
  }
  return out;
}

Text text_of(const TrainingPlan& plan) {
  Text text = plan.text.empty() ? own_text(YOTTA_SOURCE_DIR) : read_text(plan.text, plan.encoding);
  if (!plan.separator.empty()) split_documents(text, without_escapes(plan.separator));
  return text;
}

// Of documents in a text of which the first `train` bytes are for training: the ends in each part.
// A document that the cut goes through is one in each.
std::pair<std::vector<int64_t>, std::vector<int64_t>> ends_of(const std::vector<int64_t>& ends,
                                                              int64_t train) {
  std::pair<std::vector<int64_t>, std::vector<int64_t>> parts;
  for (const int64_t end : ends) {
    if (end < train)
      parts.first.push_back(end);
    else if (end > train)
      parts.second.push_back(end - train);
  }
  parts.first.push_back(train);
  return parts;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
}  // namespace

TrainingText::TrainingText(const TrainingPlan& plan)
    : plan_(plan), text_(text_of(plan)), split_(split_text(text_.bytes, sequence_of(plan))) {
  const std::string& folder = source_of(plan);
  hash_ = hash_of(text_.bytes);
  if (plan.pack) {
    std::tie(train_ends_, validation_ends_) = ends_of(text_.ends, std::ssize(split_.train));
    if (text_.ends.size() == 1)
      fail(Where::current(),
           "--pack: {} is one document; give a folder with a file for each, or say what stands "
           "between those of a file: --separator '<|endoftext|>'",
           plan.text);
  }
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
  // A document at a time, each after the special tokens; without documents all is one. `ends`
  // become those of tokens.
  const auto encode_all = [&](std::string_view part, int64_t before, std::vector<int64_t>& ends,
                              bool begins) {
    std::vector<int32_t> all;
    std::vector<int64_t> of_tokens;
    int64_t begin = 0;
    for (const int64_t end : plan_.pack ? ends : std::vector<int64_t>{std::ssize(part)}) {
      if (begins) all = joined(std::move(all), tokenizer_->first());
      all = joined(std::move(all), encode(part.substr(begin, end - begin), before + begin));
      of_tokens.push_back(std::ssize(all));
      begin = end;
    }
    ends = std::move(of_tokens);
    return all;
  };
  train_ = encode_all(split_.train, 0, train_ends_, true);
  validation_ =
      encode_all(split_.validation, std::ssize(split_.train), validation_ends_, plan_.pack);
  progress.finish();
  if (std::min(std::ssize(train_), std::ssize(validation_)) < context + 1)
    fail(
        Where::current(),
        "the text has {} tokens, {} to train on and {} to validate on; a context of {} needs {} in "
        "each: give a longer text or a shorter context",
        train_.size() + validation_.size(), train_.size(), validation_.size(), context,
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
  return packed(tokenizer_ ? Batches(train_, context, seed) : Batches(split_.train, context, seed),
                train_ends_);
}

Batches TrainingText::to_validate(int64_t context, uint64_t seed) const {
  return packed(
      tokenizer_ ? Batches(validation_, context, seed) : Batches(split_.validation, context, seed),
      validation_ends_);
}

Batches TrainingText::packed(Batches batches, const std::vector<int64_t>& ends) const {
  if (plan_.pack) batches.pack(ends);
  return batches;
}

std::string TrainingText::continued(const NextToken& forward, int64_t context,
                                    const SampleOptions& options) const {
  const int64_t count = plan_.sample_tokens;
  if (!tokenizer_) return generate(forward, plan_.prompt, count, context, options);
  return tokenizer_->decode(generate_tokens(forward, prompt_, count, context, options));
}

}  // namespace yotta
