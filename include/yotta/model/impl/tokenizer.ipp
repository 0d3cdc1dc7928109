// The bodies of model/tokenizer.hpp.
#pragma once

#include "yotta/model/tokenizer.hpp"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "yotta/model/text.hpp"

namespace yotta {

YOTTA_INLINE MergeRules::MergeRules(const std::vector<Merge>& merges) {
  rules_.reserve(merges.size());
  for (const Merge& each : merges)
    rules_.emplace(key(each.left, each.right),
                   Rule{static_cast<int32_t>(rules_.size()), each.into});
}

// The tokens are a list, so that a merge moves nothing; the pairs that a rule fits wait in a queue.
// One that is no longer there when its turn comes is passed over.
YOTTA_INLINE void MergeRules::apply(std::vector<int32_t>& tokens) const {
  struct Item {
    int64_t previous, next;
  };
  struct Mergeable {
    int32_t rank;
    int64_t at;
    uint64_t key;
    int32_t into;
    bool operator<(const Mergeable& other) const {  // the queue gives the largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr int32_t gone = -1;
  const int64_t end = std::ssize(tokens);
  std::vector<Item> items;
  for (int64_t i = 0; i < end; ++i) items.push_back({i - 1, i + 1});
  std::priority_queue<Mergeable> queue;
  const auto look_at = [&](int64_t i) {
    if (i < 0 || items[i].next == end) return;
    const uint64_t pair = key(tokens[i], tokens[items[i].next]);
    if (const auto rule = rules_.find(pair); rule != rules_.end())
      queue.push({rule->second.rank, i, pair, rule->second.into});
  };
  for (int64_t i = 0; i + 1 < end; ++i) look_at(i);

  while (!queue.empty()) {
    const Mergeable pair = queue.top();
    queue.pop();
    const int64_t i = pair.at, right = items[i].next;
    if (tokens[i] == gone || right == end || key(tokens[i], tokens[right]) != pair.key) continue;
    tokens[i] = pair.into, tokens[right] = gone;
    items[i].next = items[right].next;
    if (items[i].next < end) items[items[i].next].previous = i;
    look_at(items[i].previous);
    look_at(i);
  }
  std::erase(tokens, gone);
}

YOTTA_INLINE Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), rules_(parts_.merges) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = parts_.ids.find(std::string(1, static_cast<char>(byte)));
    of_byte_[byte] = found == parts_.ids.end() ? -1 : found->second;
  }
  for (AddedToken each : parts_.added) {
    const bool normalized = each.normalized;
    if (normalized && parts_.normalize) each.text = parts_.normalize(each.text);
    if (!each.text.empty()) added_[normalized].push_back(std::move(each));
  }
  for (std::vector<AddedToken>& some : added_) {  // of equals the lowest id stays
    std::ranges::sort(some, {}, [](const AddedToken& a) { return std::tie(a.text, a.id); });
    some.erase(std::ranges::unique(some, {}, &AddedToken::text).begin(), some.end());
  }
}

YOTTA_INLINE std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string bytes;
  for (const int32_t id : tokens)
    if (id >= 0 && id < size()) bytes += parts_.tokens[id];
  return bytes;
}

// The longest of some texts, in order, that `text` begins with; null if none.
inline const AddedToken* longest_at(const std::vector<AddedToken>& texts, std::string_view text) {
  const AddedToken* found = nullptr;
  auto low = texts.begin(), high = texts.end();  // those that begin as `text` does
  for (size_t length = 0; low != high; ++length) {
    if (low->text.size() == length) found = &*low++;
    if (length == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[length]);
    const auto at = [length](const AddedToken& each) {
      return static_cast<unsigned char>(each.text[length]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& each) { return at(each) < byte; });
    high =
        std::partition_point(low, high, [&](const AddedToken& each) { return at(each) <= byte; });
  }
  return found;
}

class Tokenizer::Encoding {
 public:
  Encoding(const Tokenizer& of, const std::function<void(int64_t)>& on_progress, Where where)
      : of_(of), on_progress_(on_progress), where_(where) {}

  // The text, but for the added tokens of this round, which are put between.
  void text(std::string_view text, int round) {
    if (round == 2) return of_.parts_.to_words(text, [this](std::string_view w) { word(w); });
    const std::vector<AddedToken>& added = of_.added_[round];
    size_t begin = 0;
    for (size_t i = 0; i < text.size() && !added.empty();) {
      const AddedToken* const found = longest_at(added, text.substr(i));
      if (found != nullptr) {
        between(text.substr(begin, i - begin), round);
        tokens.push_back(found->id);
        begin = i + found->text.size();
      }
      i = found != nullptr ? begin : i + 1;
    }
    between(text.substr(begin), round);
  }

  std::vector<int32_t> tokens;

 private:
  void between(std::string_view part, int round) {
    if (part.empty()) return;
    if (round == 0 && of_.parts_.normalize) return text(of_.parts_.normalize(part), 1);
    text(part, round + 1);
  }

  void word(std::string_view bytes) {
    constexpr size_t longest_kept = 64, most_kept = 1 << 20;
    key_ = bytes;
    if (const auto found = kept_.find(key_); found != kept_.end()) {
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
    } else {
      merge(bytes);
      tokens.insert(tokens.end(), merged_.begin(), merged_.end());
      if (bytes.size() <= longest_kept && kept_.size() < most_kept) kept_.emplace(key_, merged_);
    }
    done_ += std::ssize(bytes);
    if (on_progress_ && done_ >= next_report_)
      on_progress_(done_), next_report_ = done_ + (1 << 20);
  }

  // The tokens of a word, into merged_.
  void merge(std::string_view bytes) {
    merged_.clear();
    if (of_.parts_.whole_words_first)
      if (const auto whole = of_.parts_.ids.find(key_); whole != of_.parts_.ids.end())
        return merged_.push_back(whole->second);
    for (const char each : bytes) {
      const int32_t id = of_.of_byte_[static_cast<unsigned char>(each)];
      if (id < 0)
        fail(where_, "the byte 0x{:02x} has no token in this tokenizer's vocabulary",
             static_cast<unsigned char>(each));
      merged_.push_back(id);
    }
    of_.rules_.apply(merged_);
  }

  const Tokenizer& of_;
  const std::function<void(int64_t)>& on_progress_;
  Where where_;
  std::unordered_map<std::string, std::vector<int32_t>> kept_;  // words that were merged before
  std::string key_;
  std::vector<int32_t> merged_;
  int64_t done_ = 0, next_report_ = 1 << 20;
};

YOTTA_INLINE std::vector<int32_t> Tokenizer::encode(std::string_view text,
                                                    const std::function<void(int64_t)>& on_progress,
                                                    Where where) const {
  if (const size_t bad = first_invalid_utf8(text); bad < text.size())
    fail(where, "the text is not UTF-8: byte {} is 0x{:02x}; tokens are made of UTF-8", bad,
         static_cast<unsigned char>(text[bad]));
  Encoding encoding(*this, on_progress, where);
  encoding.text(text, 0);
  return std::move(encoding.tokens);
}

}  // namespace yotta
