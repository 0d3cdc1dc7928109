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
YOTTA_API std::string visible(const std::string& name);
// The beginning of a value, as it is shown in errors.
YOTTA_API std::string json_excerpt(const nlohmann::json& value);

// The value of a text. Throws JsonProblem.
YOTTA_API nlohmann::json parse_json(std::string_view text);
// The text of a JSON file in a folder of saves (read_saved). Errors: no plain file; one so large
// that it is something else.
YOTTA_API std::string read_json_text(const std::filesystem::path& path,
                                     Where where = Where::current());

#if YOTTA_BODIES_OF(core_json)
std::string visible(const std::string& name) {
  if (!has_control_characters(name)) return name;
  const std::string quoted =
      nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

std::string json_excerpt(const nlohmann::json& value) {
  constexpr size_t most = 60;
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

namespace detail {
// Takes what nlohmann's parser finds, one call per token, and builds the value.
class JsonBuilder {
 public:
  using Json = nlohmann::json;

  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON's text has none
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (++names_ > most_json_names)
      throw JsonProblem(fmt::format("it holds more than {} names", most_json_names));
    const auto [at, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!is_new) throw JsonProblem(fmt::format("the name '{}' appears twice", visible(name)));
    under_key_ = &at->second;
    return true;
  }

  // nlohmann's message ends with the bytes that it read last, which may be any.
  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const size_t begin = text.find("] ") + 2;
    throw JsonProblem(text.substr(begin, text.find("; last read") - begin),
                      error.id < 400 ? byte : 0);
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*under_key_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (open_.size() == most_json_depth)
      throw JsonProblem(fmt::format("it is nested more than {} deep", most_json_depth));
    open_.push_back(place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  Json* under_key_ = nullptr;
  size_t names_ = 0;
};
}  // namespace detail

nlohmann::json parse_json(std::string_view text) {
  detail::JsonBuilder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string read_json_text(const std::filesystem::path& path, Where where) {
  InputFile file = InputFile::saved(path, where);
  if (file.size() > most_json_bytes)
    fail(where, "{}: this file has {} bytes, and a JSON file {} at most; is it another one?",
         file.name(), file.size(), most_json_bytes);
  return file.read_all(where);
}
#endif  // YOTTA_BODIES

}  // namespace yotta
