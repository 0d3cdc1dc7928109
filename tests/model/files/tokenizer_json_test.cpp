#include "yotta/model/files/tokenizer_json.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/project_file.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/files/json.hpp"
#include "yotta/model/files/nfc.hpp"
#include "yotta/model/files/split_regex.hpp"
#include "yotta/model/text.hpp"

using namespace yotta;
using namespace yotta_test;
using Json = nlohmann::json;

namespace {

#define NEEDS_PCRE2 \
  if (!has_split_regex()) YOTTA_NOT_RUN("PCRE2 is not installed (apt-get install libpcre2-dev)")

const std::string golden = "tests/model/golden/tokenizers/";

std::string tokenizer_text(const std::string& name) { return text_of(golden + name + ".json"); }

Tokenizer read(const Json& file, int64_t vocabulary = 1000) {
  return parse_tokenizer(file.dump(), "lab/tokenizer.json", vocabulary);
}
std::string refusal(const Json& file, int64_t vocabulary = 1000) {
  return message_of([&] { read(file, vocabulary); });
}
// What is said of GPT-2's file after a change.
template <class Change>
std::string changed(Change change) {
  Json file = Json::parse(tokenizer_text("gpt2"));
  change(file);
  return refusal(file);
}

// Rust's way to show bytes: each longest beginning of a character that fits none is U+FFFD.
std::string lossy(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t good = first_invalid_utf8(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    size_t bad = 1;  // as long as bytes could follow that make it a character
    const auto could_be = [&](size_t length) {
      for (const std::string_view rest :
           {"\x80", "\xBF", "\x80\x80", "\xBF\xBF", "\x8F\x80", "\x90\x80"})
        if (const std::string whole = std::string(bytes.substr(0, length)) + std::string(rest);
            first_invalid_utf8(whole) == whole.size())
          return true;
      return false;
    };
    while (bad < bytes.size() && could_be(bad + 1)) ++bad;
    out += "\xEF\xBF\xBD";
    bytes.remove_prefix(bad);
  }
  return out;
}

// Compares the lines of a file of expected ids that belong to these tokenizers.
void compare_all(const std::string& expected, const std::vector<std::string>& names) {
  std::map<std::string, Tokenizer> tokenizers;
  for (const std::string& name : names)
    tokenizers.emplace(name, parse_tokenizer(tokenizer_text(name), name, 1000));
  int different = 0, compared = 0;
  for (const Json& each : parse_json(expected)) {
    const auto tokenizer = tokenizers.find(each.at("tokenizer").get<std::string>());
    if (tokenizer == tokenizers.end()) continue;
    const std::vector<int32_t> ids = tokenizer->second.encode(each.at("text").get<std::string>());
    const std::string text = lossy(tokenizer->second.decode(ids));
    const bool same = Json(ids) == each.at("ids") &&
                      (each.at("decoded").is_null() || Json(text) == each.at("decoded"));
    if (!same && ++different <= 10)
      MESSAGE(each.dump(-1, ' ', true)
              << "\nours: " << Json(ids).dump() << " " << Json(text).dump(-1, ' ', true));
    compared += 1;
  }
  INFO(different << " of " << compared << " differ");
  CHECK(different == 0);
  CHECK(compared >= 70 * std::ssize(names));
}
void compare_all(const std::vector<std::string>& names) {
  compare_all(text_of(golden + "expected.json"), names);
  if (const char* more = std::getenv("YOTTA_TOKENIZER_CASES")) compare_all(read_file(more), names);
}

}  // namespace

TEST_CASE("GPT-2's, Llama 3's and SmolLM's kind give the ids of Hugging Face's tokenizers") {
  NEEDS_PCRE2;
  compare_all({"gpt2", "llama3", "smol"});
}

TEST_CASE("Qwen's kind, whose text is composed, gives the ids of Hugging Face's tokenizers") {
  NEEDS_PCRE2;
  if (!has_nfc()) YOTTA_NOT_RUN("utf8proc is not installed (apt-get install libutf8proc-dev)");
  compare_all({"qwen"});
}

TEST_CASE("what a text begins with is named, and no text gets it unasked") {
  NEEDS_PCRE2;
  const Tokenizer llama = read(Json::parse(tokenizer_text("llama3")));
  REQUIRE(llama.first().size() == 1);
  CHECK(llama.decode(llama.first()) == "<|begin_of_text|>");
  CHECK(llama.encode("a").size() == 1);
  CHECK(read(Json::parse(tokenizer_text("gpt2"))).first().empty());
}

TEST_CASE(
    "ids may leave gaps, which are decoded as nothing; a character may end in the next token") {
  NEEDS_PCRE2;
  Json file = Json::parse(tokenizer_text("gpt2"));
  file["added_tokens"].push_back({{"id", 900}, {"content", "<|far|>"}, {"special", true}});
  const Tokenizer tokenizer = read(file);
  CHECK(tokenizer.size() == 901);
  CHECK(tokenizer.encode("<|far|>") == std::vector<int32_t>{900});
  CHECK(tokenizer.decode(std::vector<int32_t>{899, 900, 901, -1, 1 << 30}) == "<|far|>");
  const std::vector<int32_t> letters = tokenizer.encode("\xE6\x97\xA5");
  REQUIRE(letters.size() == 3);
  CHECK(tokenizer.decode(std::span(letters).first(2)) == "\xE6\x97");
  CHECK(contains(message_of([&] { tokenizer.encode("ab\xFF"); }), "not UTF-8: byte 2 is 0xff"));
}

TEST_CASE("a file that says something else is refused with its field and what is supported") {
  NEEDS_PCRE2;
  CHECK(changed([](Json&) {}) == "nothing was thrown");
  const auto model = [](const char* key, const Json& value) {
    return changed([&](Json& file) { file["model"][key] = value; });
  };
  CHECK(contains(model("type", "Unigram"),
                 "lab/tokenizer.json: model.type is \"Unigram\"; supported is BPE"));
  CHECK(contains(model("type", "WordPiece"), "supported is BPE"));
  CHECK(contains(model("byte_fallback", true), "model.byte_fallback is true; supported is false"));
  CHECK(
      contains(model("byte_fallback", 1), "model.byte_fallback is 1; supported is true or false"));
  CHECK(contains(model("dropout", 0.1), "model.dropout is 0.1; supported is null"));
  CHECK(contains(model("end_of_word_suffix", "</w>"), "model.end_of_word_suffix is \"</w>\""));
  CHECK(contains(model("continuing_subword_prefix", "##"), "model.continuing_subword_prefix"));
  CHECK(contains(model("vocab", Json::array()), "model.vocab is []; supported is an object"));
  CHECK(contains(model("merges", nullptr), "model.merges is missing or null"));
  const auto part = [](const char* key, const Json& value) {
    return changed([&](Json& file) { file[key] = value; });
  };
  CHECK(contains(part("normalizer", {{"type", "NFKC"}}),
                 "normalizer is {\"type\":\"NFKC\"}; supported is null, or NFC"));
  CHECK(contains(part("decoder", {{"type", "Metaspace"}}), "decoder is"));
  CHECK(contains(part("decoder", nullptr), "decoder is missing or null; supported is ByteLevel"));
  CHECK(contains(part("pre_tokenizer", nullptr), "pre_tokenizer is missing or null"));
  CHECK(contains(part("pre_tokenizer", {{"type", "Metaspace"}}), "supported is ByteLevel, Split"));
  CHECK(contains(part("post_processor", {{"type", "BertProcessing"}}), "post_processor is"));
  CHECK(contains(part("model", 3), "model is 3; supported is an object"));
  CHECK(contains(part("added_tokens", {{"id", 3}}), "added_tokens is"));
  for (const char* key : {"lstrip", "rstrip", "single_word"})
    CHECK(contains(changed([&](Json& file) { file["added_tokens"][0][key] = true; }),
                   std::string("added_tokens[0].") + key +
                       " (of '<|endoftext|>') is true; supported is false"));
  CHECK(contains(refusal(Json::array()), "the file is []; supported is an object"));
}

TEST_CASE("pre-tokenizers that are not understood are refused by their place") {
  NEEDS_PCRE2;
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const auto sequence = [](const Json& parts) {
    return changed([&](Json& file) {
      file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", parts}};
    });
  };
  const auto split = [&](const Json& pattern, const char* behavior) {
    return sequence({{{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}}, bytes});
  };
  CHECK(split({{"Regex", "\\s+"}}, "Isolated") == "nothing was thrown");
  CHECK(split({{"String", "a+"}}, "Isolated") == "nothing was thrown");
  CHECK(contains(split({{"Regex", "\\s+"}}, "Removed"),
                 "pre_tokenizer.pretokenizers[0].behavior is \"Removed\"; supported is Isolated"));
  CHECK(contains(split({{"Regex", "a\\w"}}, "Isolated"),
                 "pre_tokenizer.pretokenizers[0]: the expression 'a\\w' holds '\\w' at byte 1"));
  CHECK(contains(split({{"Regex", ""}}, "Isolated"), "pretokenizers[0].pattern.Regex"));
  CHECK(contains(split(3, "Isolated"), "pretokenizers[0].pattern.Regex is missing"));
  CHECK(contains(sequence({bytes, bytes}), "pretokenizers[1] is"));
  CHECK(contains(sequence(Json::array()), "or a Sequence that ends in it"));
  CHECK(contains(sequence({{{"type", "Punctuation"}}, bytes}), "pretokenizers[0] is"));
}

TEST_CASE("ids and merges that cannot be are refused by name") {
  NEEDS_PCRE2;
  const auto vocab = [](const char* name, const Json& id) {
    return changed([&](Json& file) { file["model"]["vocab"][name] = id; });
  };
  for (const Json& id :
       {Json(-1), Json(1000), Json(uint64_t{1} << 63), Json(3.5), Json("3"), Json()})
    CHECK(contains(vocab("zzz", id), "model.vocab['zzz'] is"));
  CHECK(contains(vocab("zzz", 1000), "from 0 to 999: the model's vocab_size is 1000"));
  CHECK(contains(vocab("zzz", 70), "have one id, 70; each token has its own"));
  CHECK(contains(vocab("", 700), "tokens of at least one character"));
  CHECK(contains(refusal(Json::parse(tokenizer_text("gpt2")), 256), "vocab_size is 256"));
  Json large = Json::parse(tokenizer_text("gpt2"));
  large["model"]["vocab"]["zzz"] = 1 << 29;
  CHECK(contains(refusal(large, 1 << 30), "of which so many are supported"));
  CHECK(contains(changed([](Json& file) { file["model"]["vocab"].erase("A"); }),
                 "no token for the byte 0x41"));

  const auto merge = [](const Json& value) {
    return changed([&](Json& file) { file["model"]["merges"].push_back(value); });
  };
  const std::string last = fmt::format("model.merges[{}]", 600 - 257);
  CHECK(contains(merge("a zzz"), last + " names the token 'zzz'"));
  CHECK(contains(merge("a b"), last + " names the token 'ab'"));
  CHECK(contains(merge(Json::parse(tokenizer_text("gpt2"))["model"]["merges"][5]),
                 "model.merges[5] and [343] are one pair"));
  for (const Json& value : {Json("ab"), Json("a b c"), Json(3), Json({"a"}), Json({"a", 3})})
    CHECK(contains(merge(value), "supported is \"a b\", or [\"a\", \"b\"]"));

  const auto added = [](const Json& value) {
    return changed([&](Json& file) { file["added_tokens"].push_back(value); });
  };
  CHECK(contains(added({{"id", 5000}, {"content", "<x>"}}), "added_tokens[1].id is 5000"));
  CHECK(contains(added({{"id", 70}, {"content", "<x>"}}), "have one id, 70"));
  CHECK(contains(added({{"id", 700}, {"content", "a"}}), "'a' has two ids, 65 and 700"));
  CHECK(contains(added({{"id", 700}, {"content", ""}}), "a text of at least one character"));
  CHECK(contains(added({{"id", 700}, {"content", std::string(1001, 'x')}}), "1000 bytes"));
  CHECK(contains(added(3), "added_tokens[1].id is null"));
  CHECK(contains(added({{"id", 700}, {"content", "\x1B[31m"}, {"lstrip", true}}), "\\u001b"));
}

TEST_CASE("templates: only what stands before the text is used") {
  NEEDS_PCRE2;
  const auto with = [](const Json& single) {
    Json file = Json::parse(tokenizer_text("gpt2"));
    file["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", single},
        {"special_tokens", {{"<s>", {{"ids", {0, 7}}}}, {"far", {{"ids", {900}}}}, {"no", 3}}}};
    return file;
  };
  const auto special = [](const char* name) { return Json{{"SpecialToken", {{"id", name}}}}; };
  const Json text = {{"Sequence", {{"id", "A"}}}};
  CHECK(read(with({special("<s>"), text, special("<s>")})).first() == std::vector<int32_t>{0, 7});
  CHECK(read(with({text, special("<s>")})).first().empty());
  CHECK(contains(refusal(with({special("far"), text})), "supported is the id of a token"));
  CHECK(contains(refusal(with({special("no"), text})), "special_tokens['no'].ids"));
  CHECK(contains(refusal(with({special("none"), text})), "special_tokens['none'].ids"));
  CHECK(contains(refusal(with({3})), "single[0].SpecialToken.id"));
  CHECK(contains(refusal(with(3)), "post_processor.single is 3"));
}

TEST_CASE("hostile JSON ends in an error that names the file") {
  const auto said = [](const std::string& text) {
    return message_of([&] { parse_tokenizer(text, "lab/tokenizer.json", 1000); });
  };
  const std::string name = "lab/tokenizer.json is not a tokenizer: ";
  CHECK(contains(said(std::string(200000, '[')), name + "it is nested more than 64 deep"));
  CHECK(contains(said(R"({"model": 1e400})"), name));
  CHECK(contains(said("{\"model\": \"\xFF\"}"), name));
  CHECK(contains(said(R"({"model": {"vocab": {"a": 0, "a": 1}}})"), "'a' appears twice"));
  CHECK(contains(said(""), name));

  std::mt19937_64 draw(1);
  const std::string whole = tokenizer_text("llama3");
  const std::string_view signs = "{}[]\",:0919eE-+\\u\x00\xFFntf";
  for (int i = 0; i < (long_form() ? 3000 : 150); ++i) {  // whatever is changed: an error, or ids
    std::string text = whole;
    for (int changes = 1 + static_cast<int>(draw() % 3); changes > 0; --changes)
      text[draw() % text.size()] = signs[draw() % signs.size()];
    if (i % 10 == 0) text.resize(draw() % text.size());
    message_of([&] { parse_tokenizer(text, "x", 1000).encode("it's 12345 <|end|>   or\n"); });
  }
}

TEST_CASE("a folder has a tokenizer.json, or none, or something else under that name") {
  const TemporaryFolder folder;
  CHECK_FALSE(has_tokenizer(folder.path()));
  write_file(folder / "tokenizer.json", "{}");
  CHECK(has_tokenizer(folder.path()));
  std::filesystem::create_directories(folder / "x/tokenizer.json");
  CHECK(has_tokenizer(folder / "x"));
  std::filesystem::create_symlink("round", folder / "round");
  for (const std::string& nowhere :
       std::vector<std::string>{folder / "round", folder / "round/x", std::string(5000, 'x')})
    CHECK_FALSE(has_tokenizer(nowhere));
}

TEST_CASE("with PCRE2 a tokenizer.json is read; without, the error says what to install") {
  const std::string said = changed([](Json&) {});
  CHECK(has_split_regex() == (said == "nothing was thrown"));
  CHECK((has_split_regex() || contains(said, "apt-get install libpcre2-dev")));
}
