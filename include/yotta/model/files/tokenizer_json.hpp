// tokenizer.json: a model's tokenizer in one file, as Hugging Face's tokenizers write it.
//
//     model          BPE: vocab (token: id), merges ("a b" or ["a", "b"], by rank), ignore_merges
//     added_tokens   found before words are cut, the longest first
//     normalizer     null, or NFC
//     pre_tokenizer  how words are cut: ByteLevel, or a Sequence of Split, Digits and at last it
//     decoder        ByteLevel
//     post_processor of TemplateProcessing: the special tokens before a text, as <|begin_of_text|>
//
// That is byte-level BPE: GPT-2's, Llama 3's, Qwen's, SmolLM's. JSON holds no bytes, so names of
// tokens are written with 256 characters that stand for them: 'A' is 0x41, but a space is U+0120.
// Not used: special tokens after a text, templates of pairs, truncation, padding, offsets, and what
// only training a tokenizer reads. Whatever else changes tokens is refused, with its field, what is
// there and what is supported: Unigram, WordPiece, byte_fallback, dropout, other normalizers and
// pre-tokenizers, and added tokens that strip spaces or want whole words. Ids may leave gaps; an id
// without a token is decoded as nothing. Every id lies below the model's vocab_size. Reference:
// https://huggingface.co/docs/tokenizers.
#pragma once

#include <optional>
#include <string>

#include "yotta/model/tokenizer.hpp"

namespace yotta {

inline constexpr const char* tokenizer_file = "tokenizer.json";

// Whether something in a folder has that name.
bool has_tokenizer(const std::string& folder);

// The tokenizer that a tokenizer.json describes, for a model of `vocabulary` tokens. `source` names
// it in errors.
Tokenizer parse_tokenizer(const std::string& text, const std::string& source, int64_t vocabulary,
                          Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/tokenizer_json.ipp"
#endif
