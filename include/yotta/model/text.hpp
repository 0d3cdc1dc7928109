// Text: bytes as tokens, and batches that every rank can find without asking another.
//
//    files        "to be or not"          tokens  116 111 32 98 101 32 111 114 32 110 111 116
//    one sequence of context T = 4, drawn at byte 3
//                     inputs  (T)         98 101 32 111          "be o"
//                     targets (T)         101 32 111 114         "e or", the byte that follows each
//
// A byte is a token: the vocabulary is 256, no tokenizer stands between the text and the model, and
// any language works. UTF-8 spells one letter with one to four bytes, which the model learns like
// spelling. A model with a vocabulary of its own is trained on the tokens of its tokenizer
// (tokenizer.hpp), and batches are drawn from those in the same way. A batch is a pure function of
// (seed, step, which sequence of the global batch), so 1, 2 or 8 ranks cut the same batch into
// rows, and a resumed run needs no more than the number of its step.
//
//    packed       documents "one" "two!"     inputs   o n │ t w o      the last token of a document
//                                            targets  n e │ w o !      is a target alone
//    A sequence is T columns that follow each other: the end of a document, some whole ones, the
//    beginning of another. No token is asked for what another document begins with, and every
//    column has a target: nothing is padding.
//
// Cost: the text is held in
// memory once, with a tokenizer also its tokens, 4 bytes each; a batch of B sequences is 2 B T
// int32, 8 B T bytes. Letters: B sequences, T context.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

struct Text {
  std::string bytes;               // every byte is a token, 0 to 255
  int64_t files = 0;               // read
  int64_t skipped = 0;             // hidden, empty or binary
  int64_t skipped_bytes = 0;       // in binary files
  std::vector<int64_t> ends = {};  // of each document, in bytes: where the next one begins
};

// Where UTF-8 breaks: the offset of the first byte that no character can hold; the size if none.
size_t first_invalid_utf8(std::string_view text);

// For screens and files that must be UTF-8, whatever a model wrote: each byte that fits no
// character, and each control character but the new line, becomes a dot.
std::string printable(std::string_view text);

// A byte of zero is in no text, unless its first two bytes say that it is UTF-16.
inline bool is_binary(std::string_view bytes) {
  const bool is_utf16 = bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
  return !is_utf16 && bytes.find('\0') != bytes.npos;
}

// ---- reading ------------------------------------------------------------------------------------

// The text of a UTF-8 file, or of all text files of a folder and the folders in it, in order of
// name. What is not UTF-8 is converted from `encoding`, a name that iconv knows: latin1, cp1252,
// utf-16. Errors: a text that is not UTF-8 if no encoding is given, or that is not in it.
Text read_text(const std::string& path, const std::string& encoding = "",
               Where where = Where::current());

// Cuts documents, which were files, at every `separator` in them. It belongs to none of its two
// neighbours, and is left out, as is a document without a byte. Errors: it is in none of them.
void split_documents(Text& text, std::string_view separator, Where where = Where::current());

// The course's own prose and headers, for those who bring no text. `root` is the folder of the
// course.
Text course_text(const std::string& root, Where where = Where::current());

// ---- training and validation --------------------------------------------------------------------

struct TextSplit {
  std::string_view train, validation;  // views of the text, which must outlive them
};

// The last part of the text is kept for validation: what the model never saw. No character is cut,
// and both parts hold at least one sequence of `context` tokens and the token after it.
TextSplit split_text(std::string_view text, int64_t context, double validation_share = 0.1,
                     Where where = Where::current());

// ---- batches ------------------------------------------------------------------------------------

struct Batch {
  Tensor inputs;                        // (B, T) i32
  Tensor targets;                       // (B, T) i32, the token after each input
  std::vector<int32_t> documents = {};  // (B, T): of which document, from 0 in each; or none
};

// Draws sequences from a text: from its bytes, or from the tokens of a tokenizer.
class Batches {
 public:
  // What is drawn from must outlive this, and hold at least context + 1 bytes or tokens.
  Batches(std::string_view text, int64_t context, uint64_t seed, Where where = Where::current());
  Batches(std::span<const int32_t> tokens, int64_t context, uint64_t seed,
          Where where = Where::current());

  // Packs sequences: the text is documents, which end at `ends`, the last with the text.
  void pack(const std::vector<int64_t>& ends, Where where = Where::current());

  // Sequences first .. first + count of a step's global batch, each from a place drawn at random.
  Batch draw(int64_t step, int64_t first, int64_t count) const;

  // Sequences first .. first + count of the text cut into pieces of T, for validation.
  Batch in_order(int64_t first, int64_t count, Where where = Where::current()) const;
  int64_t sequences() const { return columns() / context_; }

 private:
  Batches(std::string_view text, std::span<const int32_t> tokens, const char* unit, int64_t context,
          uint64_t seed, Where where);
  int64_t size() const { return std::ssize(text_) + std::ssize(tokens_); }  // one of them is empty
  int32_t token(int64_t at) const {
    return tokens_.empty() ? static_cast<unsigned char>(text_[at]) : tokens_[at];
  }

  // Tokens that another one of their document follows.
  int64_t columns() const { return first_columns_.empty() ? size() - 1 : first_columns_.back(); }

  // 64 bits of the block that belongs to this sequence of this step; the bias of % is below 2^-30.
  int64_t random_start(int64_t step, int64_t sequence) const;

  // One sequence from each of these columns on.
  Batch gather(const std::vector<int64_t>& starts) const;

  std::string_view text_;
  std::span<const int32_t> tokens_;
  int64_t context_;
  Random random_;
  // Of packed documents of more than one token: where each begins in the text, and its first
  // column; of the columns also the end.
  std::vector<int64_t> begins_, first_columns_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/text.ipp"
#endif
