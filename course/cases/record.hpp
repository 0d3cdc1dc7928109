// The record: what a program of graded cases tells its grader, a line at a time, and how the grader
// knows its lines.
//
//     start   10.1: every rank ends with its chunk                                 80aef1d2c3b49e57
//     failed  10.1: every rank ends with its chunk   rank 0's chunk: every ...     52d0c63f0a417be8
//     end                                                                          f39a2b71c08d6e44
//
// Fields are separated by tabulators. The last one is the line's digest: SipHash-2-4 of the line
// and of the digest before it, under a key that the grader has handed over before any code of a
// student's could run. Who does not know the key can write no line, change none and leave none out;
// the last digest stands for all lines.
//
// The key lies in the program's memory. A student's code that searches its own memory can find it.
#pragma once

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace record {

constexpr size_t key_letters = 32;  // a key in hexadecimal digits

// SipHash-2-4 of Aumasson and Bernstein, 2012.
class SipHash {
 public:
  SipHash(uint64_t first, uint64_t second)
      : v_{first ^ 0x736f6d6570736575, second ^ 0x646f72616e646f6d, first ^ 0x6c7967656e657261,
           second ^ 0x7465646279746573} {}

  uint64_t of(std::string_view text) {
    uint64_t word = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * (i % 8));
      if (i % 8 == 7) add(word), word = 0;
    }
    add(word | static_cast<uint64_t>(text.size()) << 56);
    v_[2] ^= 0xff;
    for (int i = 0; i < 4; ++i) mix();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }

 private:
  void add(uint64_t word) {
    v_[3] ^= word;
    mix(), mix();
    v_[0] ^= word;
  }
  void mix() {
    v_[0] += v_[1], v_[1] = std::rotl(v_[1], 13) ^ v_[0], v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[3], v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] += v_[3], v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] += v_[1], v_[1] = std::rotl(v_[1], 17) ^ v_[2], v_[2] = std::rotl(v_[2], 32);
  }
  std::array<uint64_t, 4> v_;
};

// The digests of one record's lines, in their turn. A key that is no key counts as zeros: then
// nobody checks.
class Digests {
 public:
  explicit Digests(std::string_view key)
      : first_(half(key, 0)), second_(half(key, key_letters / 2)) {}

  std::string next(const std::string& line) const {
    return fmt::format("{:016x}", SipHash(first_, second_).of(last_ + line));
  }
  void accept(const std::string& digest) { last_ = digest; }

 private:
  static uint64_t half(std::string_view key, size_t begin) {
    uint64_t value = 0;
    for (size_t i = begin; i < begin + key_letters / 2 && i < key.size(); ++i)
      value = value << 4 | static_cast<uint64_t>(key[i] <= '9' ? key[i] - '0' : key[i] - 'a' + 10);
    return value;
  }
  uint64_t first_, second_;
  std::string last_;
};

struct Line {
  std::string what, name, message;
};

// A line as it is sent, its end included. Line breaks of the message are written "\n".
inline std::string sealed(const Line& line, Digests& digests) {
  std::string text = line.what + '\t' + line.name + '\t';
  for (const char c : line.message)
    text += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  const std::string digest = digests.next(text);
  digests.accept(digest);
  return text + '\t' + digest + '\n';
}

// The lines of a text that are sealed with this key, each in its turn. Others are left out.
inline std::vector<Line> unsealed(std::string_view text, std::string_view key) {
  Digests digests(key);
  std::vector<Line> lines;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    const size_t one = line.find('\t'), two = line.find('\t', one + 1), last = line.rfind('\t');
    if (two == std::string_view::npos || last == two) continue;
    const std::string body(line.substr(0, last)), digest(line.substr(last + 1));
    if (digests.next(body) != digest) continue;
    digests.accept(digest);
    std::string message;
    for (size_t i = two + 1; i < last; ++i) {
      const bool escape = body[i] == '\\' && i + 1 < last;
      message += !escape ? body[i] : body[++i] == 'n' ? '\n' : body[i];
    }
    lines.push_back({body.substr(0, one), body.substr(one + 1, two - one - 1), message});
  }
  return lines;
}

}  // namespace record
