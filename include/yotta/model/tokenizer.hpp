// Tokenizer: text as the numbers of a model's vocabulary, and back. Byte-pair encoding (BPE).
//
//     vocabulary   the 256 bytes, and one token for each merge
//     merges       rank 0: l o -> lo      rank 1: e r -> er      rank 2: lo w -> low
//
//     "lower low"  words      l o w e r      _ l o w       (_ is the space before a word)
//                  rank 0     lo w e r       _ lo w
//                  rank 1     lo w er        _ lo w
//                  rank 2     low er         _ low         4 tokens for 9 bytes
//
// A vocabulary is learned once: the pair of neighbours that a large text holds most often becomes a
// token, again and again, and the rank of a merge is its turn. Reading repeats the turns: of all
// pairs of neighbours in a word the one of the lowest rank is merged, of equals the leftmost. Words
// are cut first, by a regular expression, so that no token reaches over the end of a word. Added
// tokens, as <|endoftext|>, are found before that and are never merged. Every byte is a token, so
// every text has tokens, and a token may end inside a character of UTF-8.
//
// Cost: a word of n bytes takes O(n log n), and each different word is merged once; a sequence of T
// tokens holds about 4 T bytes of English. Contract: what is encoded is UTF-8. The pieces of a
// tokenizer are read from its tokenizer.json by model/files/tokenizer_json.hpp. Reference: Sennrich
// et al., Neural Machine Translation of Rare Words with Subword Units, 2016; GPT-2 made it of
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

// ---- merging ------------------------------------------------------------------------------------

// Two neighbours that become one token.
struct Merge {
  int32_t left = 0, right = 0, into = 0;
};

class MergeRules {
 public:
  MergeRules() = default;

  // `merges` in the order of their ranks, each pair once.
  explicit MergeRules(const std::vector<Merge>& merges);

  // Merges neighbours until no rule fits: the lowest rank first, of equals the leftmost.
  void apply(std::vector<int32_t>& tokens) const;

 private:
  struct Rule {
    int32_t rank, into;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  std::unordered_map<uint64_t, Rule> rules_;
};

// ---- the whole way ------------------------------------------------------------------------------

// A token with a text of its own, found before words are cut.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool normalized = false;  // looked for after the text is normalized, and not before
};

using Visit = std::function<void(std::string_view)>;

struct TokenizerParts {
  std::vector<std::string> tokens;               // the bytes of each id; empty: no such token
  std::unordered_map<std::string, int32_t> ids;  // of bytes; added tokens are not among them
  std::vector<Merge> merges;                     // by rank
  std::vector<AddedToken> added;
  std::vector<int32_t> first;      // what a text begins with, as <|begin_of_text|>
  bool whole_words_first = false;  // a word that is a token is not merged
  std::function<std::string(std::string_view)> normalize;        // may be empty
  std::function<void(std::string_view, const Visit&)> to_words;  // calls with each word in turn
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  // The tokens of a text, without first(). Calls `on_progress` with the bytes done so far, now and
  // then. Errors: it is not UTF-8.
  std::vector<int32_t> encode(std::string_view text,
                              const std::function<void(int64_t)>& on_progress = {},
                              Where where = Where::current()) const;

  // The bytes of tokens, which need not be whole characters. An id that is no token has none.
  std::string decode(std::span<const int32_t> tokens) const;

  const std::vector<int32_t>& first() const { return parts_.first; }
  int64_t size() const { return std::ssize(parts_.tokens); }  // the highest id, and one

 private:
  class Encoding;  // one call of encode()

  TokenizerParts parts_;
  MergeRules rules_;
  std::array<int32_t, 256> of_byte_;              // -1: that byte has no token
  std::array<std::vector<AddedToken>, 2> added_;  // by text; [1] those that are normalized
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/tokenizer.ipp"
#endif
