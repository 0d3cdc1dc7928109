// Packing: values as bytes, one after the other, for a message to another process.
//
//     writer.put(7);                      ──►  bytes  ──►     reader.take<int>();
//     writer.put(std::string("seven"));                       reader.take_text();
//
// Both sides are the same program on the same kind of machine, so numbers travel as they lie in
// memory.
// Errors: bytes that end too early, which no writer has made.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "yotta/core/error.hpp"

namespace yotta {

class MessageWriter {
 public:
  template <class Value>
  requires std::is_trivially_copyable_v<Value>
  void put(const Value& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(std::ssize(text));
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}
  template <class Value>
  Value take() {
    Value value;
    std::memcpy(&value, taken(sizeof value), sizeof value);
    return value;
  }
  std::string take_text() {
    const auto length = static_cast<size_t>(take<std::ptrdiff_t>());
    return std::string(taken(length), length);
  }

 private:
  const char* taken(size_t count) {
    if (count > bytes_.size())
      fail(Where::current(), "a packed message ends {} bytes too early", count - bytes_.size());
    const char* begin = bytes_.data();
    bytes_.remove_prefix(count);
    return begin;
  }
  std::string_view bytes_;
};

}  // namespace yotta
