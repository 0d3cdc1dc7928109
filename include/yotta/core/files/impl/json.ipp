// The bodies of core/files/json.hpp.
#pragma once

#include "yotta/core/files/json.hpp"

namespace yotta {

YOTTA_INLINE std::string visible(const std::string& name) {
  if (!has_control_characters(name)) return name;
  const std::string quoted =
      nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

YOTTA_INLINE std::string json_excerpt(const nlohmann::json& value) {
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

YOTTA_INLINE nlohmann::json parse_json(std::string_view text) {
  detail::JsonBuilder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

YOTTA_INLINE std::string read_json_text(const std::filesystem::path& path, Where where) {
  InputFile file = InputFile::saved(path, where);
  if (file.size() > most_json_bytes)
    fail(where, "{}: this file has {} bytes, and a JSON file {} at most; is it another one?",
         file.name(), file.size(), most_json_bytes);
  return file.read_all(where);
}

}  // namespace yotta
