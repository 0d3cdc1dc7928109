// The bodies of model/files/tokenizer_json.hpp.
#pragma once

#include "yotta/model/files/tokenizer_json.hpp"

#include <algorithm>
#include <filesystem>

#include "yotta/core/files/json.hpp"
#include "yotta/model/files/nfc.hpp"
#include "yotta/model/files/split_regex.hpp"

namespace yotta {

// ---- bytes in names -----------------------------------------------------------------------------

namespace detail {
// The byte that each character of GPT-2's alphabet stands for: those that can be printed stand for
// themselves, the others, in their order, have the characters from U+0100 on.
inline std::unordered_map<uint32_t, char> byte_alphabet() {
  std::unordered_map<uint32_t, char> bytes;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    bytes[itself ? byte : next++] = static_cast<char>(byte);
  }
  return bytes;
}

// The bytes of a token's name; nothing if it holds other characters.
inline std::optional<std::string> bytes_of_name(std::string_view name) {
  static const std::unordered_map<uint32_t, char> alphabet = byte_alphabet();
  std::string bytes;
  for (size_t i = 0; i < name.size();) {
    const auto at = [&](size_t place) { return static_cast<unsigned char>(name[place]); };
    const bool two = at(i) >= 0xC0 && at(i) < 0xE0;  // longer characters are not in the alphabet
    const uint32_t code = two ? (at(i) & 0x1Fu) << 6 | (at(i + 1) & 0x3Fu) : at(i);
    const auto found = at(i) < 0xE0 ? alphabet.find(code) : alphabet.end();
    if (found == alphabet.end()) return std::nullopt;
    bytes += found->second;
    i += two ? 2 : 1;
  }
  return bytes;
}

// ---- the file -----------------------------------------------------------------------------------

class TokenizerReader {
 public:
  using Json = nlohmann::json;
  TokenizerReader(const Json& file, std::string source, int64_t vocabulary, Where where)
      : file_(file), source_(std::move(source)), vocabulary_(vocabulary), where_(where) {}

  Tokenizer read() {
    if (!file_.is_object()) refuse("the file", file_, "an object {...}");
    const Json& model = object(file_, "model", "");
    expect_bpe(model);
    read_vocabulary(object(model, "vocab", "model."));
    expect_bytes();
    read_merges(at(model, "merges"));
    read_added(at(file_, "added_tokens"));
    parts_.whole_words_first = flag(model, "ignore_merges", "model.", false);
    read_normalizer(at(file_, "normalizer"));
    read_pre_tokenizer(at(file_, "pre_tokenizer"), "pre_tokenizer");
    if (!ends_in_bytes_)
      refuse("pre_tokenizer", at(file_, "pre_tokenizer"),
             "ByteLevel, or a Sequence that ends in it");
    const Json& decoder = at(file_, "decoder");
    if (type_of(decoder) != "ByteLevel") refuse("decoder", decoder, "ByteLevel");
    read_post_processor(at(file_, "post_processor"), "post_processor");
    parts_.to_words = words_of(std::move(stages_));
    return Tokenizer(std::move(parts_));
  }

 private:
  // ---- what is wrong, and where ----

  [[noreturn]] void refuse(const std::string& field, const Json& found,
                           const std::string& supported) const {
    const std::string text = found.is_null() ? "missing or null" : json_excerpt(found);
    fail(where_, "{}: {} is {}; supported is {}", source_, visible(field), text, supported);
  }
  static const Json& at(const Json& object, const char* key) {
    static const Json nothing;
    return object.is_object() && object.contains(key) ? object.at(key) : nothing;
  }
  const Json& object(const Json& from, const char* key, const std::string& path) const {
    if (!at(from, key).is_object()) refuse(path + key, at(from, key), "an object {...}");
    return at(from, key);
  }
  static std::string type_of(const Json& part) {
    const Json& type = at(part, "type");
    return type.is_string() ? type.get<std::string>() : "";
  }
  bool flag(const Json& from, const char* key, const std::string& path, bool absent) const {
    const Json& value = at(from, key);
    if (value.is_null()) return absent;
    if (!value.is_boolean()) refuse(path + key, value, "true or false");
    return value.get<bool>();
  }
  std::string text(const Json& from, const char* key, const std::string& path) const {
    const Json& value = at(from, key);
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      refuse(path + key, value, "a text of at least one character");
    return value.get<std::string>();
  }
  int32_t id(const std::string& field, const Json& value) const {
    constexpr int64_t most = 1 << 22;
    const bool whole = value.is_number_unsigned() && value.get<uint64_t>() < uint64_t{1} << 62;
    const int64_t number = whole ? value.get<int64_t>() : -1;
    if (number < 0 || number >= std::min(vocabulary_, most))
      fail(where_,
           "{}: {} is {}, expected a token's id from 0 to {}: the model's vocab_size is {}{}",
           source_, visible(field), json_excerpt(value), std::min(vocabulary_, most) - 1,
           vocabulary_, vocabulary_ > most ? ", of which so many are supported" : "");
    return static_cast<int32_t>(number);
  }

  // ---- the model ----

  void expect_bpe(const Json& model) const {
    const bool has_type = !at(model, "type").is_null();  // older files say none
    if (has_type && type_of(model) != "BPE") refuse("model.type", at(model, "type"), "BPE");
    if (flag(model, "byte_fallback", "model.", false))
      refuse("model.byte_fallback", true, "false: byte-level BPE, in which each byte is a token");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json& value = at(model, key); !value.is_null() && value != "")
        refuse(std::string("model.") + key, value, "null");
    if (const Json& dropout = at(model, "dropout"); !dropout.is_null() && dropout != 0)
      refuse("model.dropout", dropout, "null: a text has one way to be cut");
  }

  // Names are in GPT-2's alphabet; a token that is not is taken as it is written.
  void read_vocabulary(const Json& vocab) {
    names_.reserve(vocab.size());
    for (const auto& [name, value] : vocab.items()) {
      const std::string field = fmt::format("model.vocab['{}']", name);
      if (name.empty()) refuse(field, value, "tokens of at least one character");
      const int32_t number = id(field, value);
      const std::optional<std::string> bytes = bytes_of_name(name);
      place(number, bytes.value_or(name), name);
      if (bytes) parts_.ids.emplace(*bytes, number);
    }
  }
  // Sets what an id stands for. Two tokens of one id are refused.
  void place(int32_t number, const std::string& bytes, const std::string& name) {
    const auto wanted = static_cast<size_t>(number);
    if (parts_.tokens.size() <= wanted)
      parts_.tokens.resize(wanted + 1), written_.resize(wanted + 1);
    if (!written_[wanted].empty())
      fail(where_, "{}: '{}' and '{}' have one id, {}; each token has its own", source_,
           visible(written_[wanted]), visible(name), number);
    parts_.tokens[wanted] = bytes;
    written_[wanted] = name;
    names_.emplace(name, number);
  }

  // The bytes that UTF-8 uses.
  void expect_bytes() const {
    for (int byte = 0; byte < 0xF5; ++byte)
      if (byte != 0xC0 && byte != 0xC1 &&
          !parts_.ids.contains(std::string(1, static_cast<char>(byte))))
        fail(where_,
             "{}: model.vocab has no token for the byte 0x{:02x}; supported is byte-level BPE, in "
             "which each byte is a token",
             source_, byte);
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) refuse("model.merges", merges, "a list of pairs, by rank");
    std::unordered_map<uint64_t, size_t> seen;
    for (size_t i = 0; i < merges.size(); ++i) {
      if (merges[i].is_string() && merges[i].get_ref<const std::string&>().starts_with("#version"))
        continue;  // the first line of merges.txt
      const auto [left, right] = pair(merges[i], i);
      const Merge merge{token(left, i), token(right, i), token(left + right, i)};
      const uint64_t key =
          uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
      if (const auto [first, is_new] = seen.emplace(key, i); !is_new)
        fail(where_,
             "{}: model.merges[{}] and [{}] are one pair, '{}' and '{}'; a pair has one rank",
             source_, first->second, i, visible(left), visible(right));
      parts_.merges.push_back(merge);
    }
  }
  std::pair<std::string, std::string> pair(const Json& merge, size_t i) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      refuse(fmt::format("model.merges[{}]", i), merge, "\"a b\", or [\"a\", \"b\"]");
    return {line.substr(0, space), line.substr(space + 1)};
  }
  int32_t token(const std::string& name, size_t i) const {
    const auto found = names_.find(name);
    if (found == names_.end())
      fail(where_, "{}: model.merges[{}] names the token '{}', which model.vocab does not have",
           source_, i, visible(name));
    return found->second;
  }

  // ---- added tokens ----

  void read_added(const Json& added) {
    if (added.is_null()) return;
    if (!added.is_array()) refuse("added_tokens", added, "a list");
    for (size_t i = 0; i < added.size(); ++i) {
      const std::string path = fmt::format("added_tokens[{}].", i);
      constexpr size_t longest = 1000;
      const AddedToken token{id(path + "id", at(added[i], "id")), text(added[i], "content", path),
                             flag(added[i], "normalized", path, false)};
      for (const char* key : {"single_word", "lstrip", "rstrip"})
        if (flag(added[i], key, path, false))
          refuse(fmt::format("{}{} (of '{}')", path, key, token.text), true, "false");
      if (token.text.size() > longest)
        refuse(path + "content", at(added[i], "content"),
               fmt::format("a text of {} bytes", longest));
      add(token);
    }
  }
  // One that the vocabulary holds has its id there.
  void add(const AddedToken& token) {
    const auto known = names_.find(token.text);
    if (known == names_.end()) {
      place(token.id, token.text, token.text);
    } else if (known->second != token.id) {
      fail(where_, "{}: '{}' has two ids, {} and {}; each token has one", source_,
           visible(token.text), known->second, token.id);
    }
    parts_.added.push_back(token);
  }

  // ---- from text to words ----

  void read_normalizer(const Json& normalizer) {
    if (normalizer.is_null()) return;
    if (type_of(normalizer) != "NFC") refuse("normalizer", normalizer, "null, or NFC");
    parts_.normalize = [place = source_ + ": normalizer", where = where_](std::string_view text) {
      return to_nfc(text, place, where);
    };
  }

  // Cuts a text into pieces, or changes it.
  using Stage = std::function<void(std::string_view, const Visit&)>;

  // Each piece that a stage gives goes through the next.
  static Stage words_of(std::vector<Stage> stages) {
    Stage all = [](std::string_view word, const Visit& visit) { visit(word); };
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
      all = [first = std::move(*stage), then = std::move(all)](std::string_view text,
                                                               const Visit& visit) {
        first(text, [&](std::string_view piece) { then(piece, visit); });
      };
    return all;
  }

  void read_pre_tokenizer(const Json& part, const std::string& path) {
    const std::string type = type_of(part);
    if (ends_in_bytes_) refuse(path, part, "nothing after ByteLevel");
    if (type == "Sequence") return read_sequence(part, path);
    if (type == "ByteLevel") return read_byte_level(part, path);
    if (type == "Split") return read_split(part, path);
    if (type != "Digits") refuse(path, part, "ByteLevel, Split, Digits, or a Sequence of them");
    const bool single = flag(part, "individual_digits", path + ".", false);
    add_regex(single ? "\\p{N}" : "\\p{N}+", SplitRegex::Kind::regex, path);
  }
  void read_sequence(const Json& part, const std::string& path) {
    const Json& parts = at(part, "pretokenizers");
    if (!parts.is_array() || path != "pre_tokenizer")
      refuse(path, part, "one Sequence of ByteLevel, Split and Digits");
    for (size_t i = 0; i < parts.size(); ++i)
      read_pre_tokenizer(parts[i], fmt::format("{}.pretokenizers[{}]", path, i));
  }
  void read_byte_level(const Json& part, const std::string& path) {
    constexpr const char* gpt2 =
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    if (flag(part, "add_prefix_space", path + ".", true))
      stages_.push_back([](std::string_view text, const Visit& visit) {
        if (text.starts_with(' ')) return visit(text);
        visit(" " + std::string(text));
      });
    if (flag(part, "use_regex", path + ".", true)) add_regex(gpt2, SplitRegex::Kind::regex, path);
    ends_in_bytes_ = true;
  }
  void read_split(const Json& part, const std::string& path) {
    const Json& pattern = at(part, "pattern");
    const bool literal = !at(pattern, "String").is_null();
    if (at(part, "behavior") != "Isolated")
      refuse(path + ".behavior", at(part, "behavior"), "Isolated");
    const std::string expression = text(pattern, literal ? "String" : "Regex", path + ".pattern.");
    add_regex(expression, literal ? SplitRegex::Kind::literal : SplitRegex::Kind::regex, path);
  }
  void add_regex(const std::string& pattern, SplitRegex::Kind kind, const std::string& path) {
    stages_.push_back(
        [regex = SplitRegex(pattern, kind, source_ + ": " + path, where_), where = where_](
            std::string_view text, const Visit& visit) { regex.split(text, visit, where); });
  }

  // ---- what a text begins with ----

  void read_post_processor(const Json& part, const std::string& path) {
    const std::string type = type_of(part);
    if (part.is_null() || type == "ByteLevel") return;
    if (type == "Sequence" && at(part, "processors").is_array() && path == "post_processor") {
      for (size_t i = 0; i < part.at("processors").size(); ++i)
        read_post_processor(part.at("processors")[i], fmt::format("{}.processors[{}]", path, i));
    } else if (type == "TemplateProcessing") {
      read_template(part, path);
    } else {
      refuse(path, part, "null, ByteLevel, TemplateProcessing, or a Sequence of them");
    }
  }
  void read_template(const Json& part, const std::string& path) {
    const Json& single = at(part, "single");
    if (!single.is_array()) refuse(path + ".single", single, "a list");
    for (size_t i = 0; i < single.size() && at(single[i], "Sequence").is_null(); ++i) {
      const std::string field = fmt::format("{}.single[{}].SpecialToken.", path, i);
      const std::string name = text(at(single[i], "SpecialToken"), "id", field);
      const Json& ids = at(at(at(part, "special_tokens"), name.c_str()), "ids");
      if (!ids.is_array() || ids.empty())
        refuse(fmt::format("{}.special_tokens['{}'].ids", path, name), ids, "a list of ids");
      for (const Json& each : ids) parts_.first.push_back(known_id(path, each));
    }
  }
  int32_t known_id(const std::string& path, const Json& value) const {
    const int32_t number = id(path + ".special_tokens", value);
    if (number >= std::ssize(parts_.tokens) || parts_.tokens[static_cast<size_t>(number)].empty())
      refuse(path + ".special_tokens", value, "the id of a token");
    return number;
  }

  const Json& file_;
  std::string source_;
  int64_t vocabulary_;
  Where where_;
  TokenizerParts parts_;
  std::vector<std::string> written_;                // the name of each id
  std::unordered_map<std::string, int32_t> names_;  // its id
  std::vector<Stage> stages_;
  bool ends_in_bytes_ = false;
};
}  // namespace detail

YOTTA_INLINE bool has_tokenizer(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / tokenizer_file;
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(saved_path(path), error).type();
  return !error && kind != std::filesystem::file_type::not_found;
}

YOTTA_INLINE Tokenizer parse_tokenizer(const std::string& text, const std::string& source,
                                       int64_t vocabulary, Where where) {
  try {
    const nlohmann::json file = parse_json(text);
    return detail::TokenizerReader(file, source, vocabulary, where).read();
  } catch (const JsonProblem& problem) {
    fail(where, "{} is not a tokenizer: {}", source, problem.what());
  }
}

}  // namespace yotta
