#include "course/training/mask_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "yotta/core/error.hpp"

namespace yotta {

namespace {

int64_t tokens_of(const std::string& name, const std::string& value) {
  int64_t tokens = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, tokens);
  if (error != std::errc() || end != last || tokens < 1)
    fail(Where::current(), "--mask {}={}: it takes a number of tokens, 1 or more", name, value);
  return tokens;
}

}  // namespace

MaskOptions parse_mask(const std::string& text) {
  MaskOptions mask;
  std::set<std::string> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool has_value = equals != word.npos;
    const std::string value = has_value ? word.substr(equals + 1) : "";
    if (!seen.insert(name).second)
      fail(Where::current(), "--mask has {} twice: give it once", name);
    if (name == "window" && has_value)
      mask.window = tokens_of(name, value);
    else if (name == "prefix" && has_value)
      mask.prefix = tokens_of(name, value);
    else if (name == "document" && !has_value)
      mask.document = true;
    else if (name == "alibi" && !has_value)
      mask.alibi = true;
    else if (name != "causal" || has_value)
      fail(Where::current(),
           "--mask has '{}'; it takes causal, document, window=N, prefix=N and alibi, as in "
           "document,window=256",
           word);
    begin = end + 1;
  }
  return mask;
}

std::string describe_mask(const MaskOptions& mask) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ",") + word; };
  if (mask.document) add("document");
  if (mask.window > 0) add(fmt::format("window={}", mask.window));
  if (mask.prefix > 0) add(fmt::format("prefix={}", mask.prefix));
  if (mask.alibi) add("alibi");
  return text.empty() ? "causal" : text;
}

}  // namespace yotta
