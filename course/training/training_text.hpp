// What a run reads: a text as bytes, or as the tokens of the model's own tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/generate.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/tokenizer.hpp"

namespace yotta {

class JobLine;

struct TrainingPlan;

class TrainingText {
 public:
  // Reads the plan's text, and its tokenizer, if the folder that the model is from has one. Shows
  // how far it is if that takes long. The plan must outlive it.
  explicit TrainingText(const TrainingPlan& plan);
  TrainingText(const TrainingText&) = delete;
  TrainingText& operator=(const TrainingText&) = delete;

  const Text& text() const { return text_; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }  // else its tokens are bytes
  const KeptFiles& kept() const { return kept_; }  // of the folder that the model is from
  // Of the two, made once: each rank asks for them whenever ranks have died or joined.
  const std::string& hash() const { return hash_; }
  const std::string& tokenizer_hash() const { return tokenizer_hash_; }
  int64_t tokens() const;
  std::string begins_with() const;  // the special tokens before it; often none

  Batches to_train(int64_t context, uint64_t seed) const;
  Batches to_validate(int64_t context, uint64_t seed) const;

  // What a model adds to the plan's prompt. Its bytes need not end with a whole character.
  std::string continued(const NextToken& forward, int64_t context,
                        const SampleOptions& options) const;

 private:
  void tokenize(const std::string& source);
  Batches packed(Batches batches, const std::vector<int64_t>& ends) const;
  void tokenize_prompt();

  const TrainingPlan& plan_;
  Text text_;
  TextSplit split_;
  KeptFiles kept_;
  std::string hash_, tokenizer_hash_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int32_t> train_, validation_, prompt_;
  std::vector<int64_t> train_ends_, validation_ends_;  // of documents, in bytes or tokens
};

// The course's own text. In a job whose processes are replaced it is that of the job's start, which
// the first rank leaves for the others: whoever edits the course meanwhile ends no run.
Text own_text(const std::string& root);
Text own_text(const std::string& root, JobLine& line, bool is_first);
// 16 hexadecimal digits.
std::string hash_of(const std::string& text);

// The folder that a plan's model is from; empty if it is new.
const std::string& source_of(const TrainingPlan& plan);

// Throws unless the model's tokens are bytes, or its folder has a tokenizer.json.
void expect_tokens(const TrainingPlan& plan);

}  // namespace yotta
