// Packing: values as bytes, one after the other, for a message to another process.
//
//     writer.put(7);                      ──►  bytes  ──►     reader.take<int>();
//     writer.put(std::string("seven"));                       reader.take_text();
//
// Both sides are the same program on the same kind of machine, so numbers travel as they lie in
// memory.
// Errors: bytes that end too early, and values that cannot be. A reader checks everything: a count
// that is too large for the bytes that are left is refused before memory is allocated for it.
#pragma once

#include <cstdint>
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
  // A number that says how many things follow, each of so many bytes at least.
  size_t take_count(size_t bytes_each = 1) {
    const auto count = take<size_t>();
    if (count > bytes_.size() / bytes_each)
      fail(Where::current(), "a packed message has room for {} things, not {}",
           bytes_.size() / bytes_each, count);
    return count;
  }
  bool take_bool() {
    const auto byte = take<uint8_t>();
    if (byte > 1) fail(Where::current(), "a packed message has {} for true or false", byte);
    return byte == 1;
  }
  // One of an enum's values, up to its last.
  template <class Enum>
  Enum take_enum(Enum last) {
    const auto value = take<std::underlying_type_t<Enum>>();
    if (value > static_cast<std::underlying_type_t<Enum>>(last))
      fail(Where::current(), "a packed message has {} for an enum", static_cast<int>(value));
    return static_cast<Enum>(value);
  }
  // A number from 0 to size - 1.
  int take_rank(int size) {
    const int rank = take<int>();
    if (rank < 0 || rank >= size)
      fail(Where::current(), "a packed message has rank {} of {}", rank, size);
    return rank;
  }
  std::string take_text() {
    const auto length = static_cast<size_t>(take<std::ptrdiff_t>());
    return std::string(taken(length), length);  // a length below 0 is a huge one
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
