#include "yotta/model/tokenizer.hpp"

#include <doctest/doctest.h>

#include <random>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;
using Ids = std::vector<int32_t>;

namespace {

// A tokenizer of bytes and these merges of two tokens; a word is up to a space.
TokenizerParts parts_of(const std::vector<std::pair<std::string, std::string>>& merges) {
  TokenizerParts parts;
  const auto add = [&](const std::string& bytes) {
    parts.ids.emplace(bytes, static_cast<int32_t>(parts.tokens.size()));
    parts.tokens.push_back(bytes);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const auto& [left, right] : merges) {
    if (!parts.ids.contains(left + right)) add(left + right);
    parts.merges.push_back({parts.ids.at(left), parts.ids.at(right), parts.ids.at(left + right)});
  }
  parts.to_words = [](std::string_view text, const Visit& visit) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(' ', 1), text.size());
      visit(text.substr(0, end));
      text.remove_prefix(end);
    }
  };
  return parts;
}
std::vector<std::string> shown(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> all;
  for (const int32_t id : tokenizer.encode(text)) all.push_back(tokenizer.decode(Ids{id}));
  return all;
}
using Shown = std::vector<std::string>;

// The definition, one merge at a time.
Ids merged_slowly(const std::vector<Merge>& merges, Ids ids) {
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) best = rank, at = i;
    if (best == merges.size()) return ids;
    ids[at] = merges[best].into;
    ids.erase(ids.begin() + static_cast<int64_t>(at) + 1);
  }
}

}  // namespace

TEST_CASE("pairs are merged by rank, not from left to right") {
  const Tokenizer tokenizer(parts_of({{"l", "o"}, {"e", "r"}, {"lo", "w"}}));
  CHECK(shown(tokenizer, "lower low") == Shown{"low", "er", " ", "low"});
  CHECK(tokenizer.decode(tokenizer.encode("lower low")) == "lower low");
  const Tokenizer late(parts_of({{"b", "c"}, {"a", "b"}}));
  CHECK(shown(late, "abc") == Shown{"a", "bc"});  // "a b" is further left, and has its turn later
  CHECK(shown(Tokenizer(parts_of({{"a", "a"}})), "aaaaa") == Shown{"aa", "aa", "a"});
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.size() == 259);
}

TEST_CASE("the queue merges as one merge at a time does") {
  std::mt19937_64 draw(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> merges;
    for (int32_t into = 4; into < 24; ++into) {
      const auto any = [&] { return static_cast<int32_t>(draw() % static_cast<uint64_t>(into)); };
      const Merge merge{any(), any(), into};
      const auto same = [&](const Merge& m) {
        return m.left == merge.left && m.right == merge.right;
      };
      if (std::none_of(merges.begin(), merges.end(), same)) merges.push_back(merge);
    }
    std::shuffle(merges.begin(), merges.end(), draw);
    Ids ids(draw() % 40);
    for (int32_t& id : ids) id = static_cast<int32_t>(draw() % 4);
    const Ids wanted = merged_slowly(merges, ids);
    MergeRules(merges).apply(ids);
    CHECK(ids == wanted);
  }
}

TEST_CASE("a word of 200,000 bytes is merged at once, a word that was seen is not merged again") {
  std::vector<std::pair<std::string, std::string>> doubling;
  for (std::string half = "a"; half.size() < 4096; half += half) doubling.push_back({half, half});
  const Tokenizer tokenizer(parts_of(doubling));
  CHECK(tokenizer.encode(std::string(1 << 18, 'a')).size() == 64);
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += " aaaaa";
  CHECK(tokenizer.encode(text).size() == 150'000);  // " ", "aaaa", "a"
}

TEST_CASE("whole words first: a word that is a token is not merged") {
  TokenizerParts parts = parts_of({{"a", "b"}});
  parts.tokens.push_back("abc"), parts.ids.emplace("abc", 257);
  CHECK(shown(Tokenizer(parts), "abc abc") == Shown{"ab", "c", " ", "ab", "c"});
  parts.whole_words_first = true;
  CHECK(shown(Tokenizer(parts), "abc abc") == Shown{"abc", " ", "ab", "c"});
}

TEST_CASE("added tokens are found before words are cut, the longest first") {
  TokenizerParts parts = parts_of({{"<", "|"}});
  for (const char* text : {"<|", "<|end|>", "<|end|><|x|>", "  ", "<|end|>", "\xFF", ""}) {
    parts.added.push_back({static_cast<int32_t>(parts.tokens.size()), text, false});
    parts.tokens.push_back(text);
  }
  const Tokenizer tokenizer(parts);
  CHECK(tokenizer.encode("a<|end|><|x|><|end|><|en") == Ids{'a', 259, 258, 257, 'e', 'n'});
  CHECK(tokenizer.encode("   b") == Ids{260, ' ', 'b'});
  CHECK(tokenizer.encode("<|end|") == Ids{257, 'e', 'n', 'd', '|'});
  CHECK(tokenizer.encode("<|end|>") == Ids{258});  // the first of two equals
}

TEST_CASE("of two added tokens with one text one stays, and nothing beyond it is read") {
  TokenizerParts parts = parts_of({});
  const std::string text(40, 'x');  // not in a string's own buffer: the sanitizer sees it
  parts.added = {{301, text, false}, {300, text, false}};
  const Tokenizer tokenizer(parts);
  CHECK(tokenizer.encode(text) == Ids{300});
  CHECK(tokenizer.encode(text + std::string(9, '\0')).size() == 10);
}

TEST_CASE(
    "a text is normalized between added tokens, and those that are normalized are found after") {
  TokenizerParts parts = parts_of({});
  parts.normalize = [](std::string_view text) {
    std::string lower(text);
    for (char& each : lower) each = static_cast<char>(std::tolower(each));
    return lower;
  };
  parts.added = {{256, "Stop", false}, {257, "Go", true}, {258, "stopper", true}};
  parts.tokens.insert(parts.tokens.end(), {"Stop", "Go", "stopper"});
  const Tokenizer tokenizer(parts);
  CHECK(tokenizer.encode("AStopGO") == Ids{'a', 256, 257});
  CHECK(tokenizer.encode("Stopper stopper") == Ids{256, 'p', 'e', 'r', ' ', 258});
}

TEST_CASE(
    "progress is reported in bytes; a byte without a token and a text of no UTF-8 are refused") {
  TokenizerParts parts = parts_of({});
  const Tokenizer tokenizer(parts);
  std::vector<int64_t> reported;
  std::string text;
  while (text.size() < (3u << 20)) text += "word ";
  CHECK(tokenizer.encode(text, [&](int64_t done) { reported.push_back(done); }).size() ==
        text.size());
  REQUIRE(reported.size() >= 2);
  CHECK(std::is_sorted(reported.begin(), reported.end()));
  CHECK(reported.back() <= static_cast<int64_t>(text.size()));
  CHECK(contains(message_of([&] { tokenizer.encode("ab\xC3"); }), "byte 2 is 0xc3"));
  parts.ids.erase("a");
  CHECK(contains(message_of([&] { Tokenizer(parts).encode("ba"); }), "the byte 0x61 has no token"));
}

TEST_CASE("tokens are decoded as their bytes, whole characters or not") {
  const Tokenizer tokenizer(parts_of({}));
  CHECK(tokenizer.decode(Ids{0xE6, 0x97}) == "\xE6\x97");
  CHECK(tokenizer.decode(Ids{'a', 256, -1, 'b'}) == "ab");
}
