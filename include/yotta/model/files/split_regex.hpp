// Split: the regular expressions by which tokenizers cut a text into words.
//
//     GPT-2's   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//     "I'll  go!"  ->  "I"  "'ll"  " "  " go"  "!"
//
// What matches is a word, and what lies between two matches is one as well: nothing is lost. The
// expressions are written for Oniguruma, which Hugging Face's tokenizers use, and PCRE2 runs them
// here. The two read some signs differently, so only what means the same in both is taken, and the
// rest is refused by name:
//
//     taken     characters, . | ( ) (?:...) (?i:...) (?>...) (?=...) (?!...) (?<=...) (?<!...)
//               * + ? and their forms *? *+, {n} {n,} {n,m}, [...] [^...], \p{Lu} and the other
//               general categories, \P{...}, \s \S \d \D \r \n \t, \ before a sign
//     refused   ^ $ \w \b \h \A \z and other letters, scripts as \p{Han}, [[:alpha:]], [a&&b],
//               {n}+, references to groups; and what might match nothing
//
// \s is Unicode's White_Space, which PCRE2's \s is not. Letters are those of the Unicode version
// that PCRE2 was built with. CMake defines YOTTA_HAVE_PCRE2 for yotta::compiled where it finds
// PCRE2; without it no expression can be made. Cost: one pass over the text; an expression that
// tries too much at one place is given up with an error. References: pcre2pattern(3); doc/RE of
// Oniguruma.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "yotta/core/error.hpp"
#include "yotta/model/tokenizer.hpp"

namespace yotta {

// Whether this program can make a SplitRegex.
bool has_split_regex();

// An expression in PCRE2's words. `place` names it in errors: "DIR/tokenizer.json: pre_tokenizer".
std::string to_pcre2(std::string_view pattern, const std::string& place,
                     Where where = Where::current());

class SplitRegex {
 public:
  enum class Kind { regex, literal };  // literal: the pattern is a text to look for

  SplitRegex(const std::string& pattern, Kind kind, std::string place,
             Where where = Where::current());

  // Calls `visit` with each word of a UTF-8 text, in order.
  void split(std::string_view text, const Visit& visit, Where where = Where::current()) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
  std::string place_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/split_regex.ipp"
#endif
