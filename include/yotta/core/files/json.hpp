// JSON that others wrote: read in one pass, in time that grows with its length, within limits that
// are named.
//
//     {"a": [1, {"b": 2}]}      3 deep, 2 names
//
// A file from elsewhere must not end the program that looks at it. 200,000 brackets that open would
// overflow the stack of whatever walks down them, two values under one name mean different things
// to different readers, and a number beyond a double has no value. All of these are refused, like
// what is no JSON and what is not UTF-8. Text in errors is shown without control characters, which
// terminals obey.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yotta/core/system/files.hpp"

namespace yotta {

inline constexpr size_t most_json_depth = 64;
inline constexpr size_t most_json_names = 1'000'000;  // a safetensors header has 4 a tensor
inline constexpr int64_t most_json_bytes = 100'000'000;

// Why a text is not read; whoever asked for it adds where the text is from.
class JsonProblem : public std::runtime_error {
 public:
  explicit JsonProblem(const std::string& what, size_t at_byte = 0)
      : std::runtime_error(what), byte(at_byte) {}
  size_t byte;  // where the text stops being JSON, from 1 on; 0 if it is JSON to its end
};

// Whether a text holds characters that terminals obey: U+0000 to U+001F and U+007F to U+009F.
inline bool has_control_characters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool second_range =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || second_range) return true;
  }
  return false;
}

// A name from a file, as it is shown in errors: control characters are written as in JSON.
std::string visible(const std::string& name);
// The beginning of a value, as it is shown in errors.
std::string json_excerpt(const nlohmann::json& value);

// The value of a text. Throws JsonProblem.
nlohmann::json parse_json(std::string_view text);
// The text of a JSON file in a folder of saves (read_saved). Errors: no plain file; one so large
// that it is something else.
std::string read_json_text(const std::filesystem::path& path, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/files/impl/json.ipp"
#endif
