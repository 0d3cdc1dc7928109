#include "course/shared/diloco_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace yotta {

namespace {

constexpr const char* names =
    "k (workers), inner (H), rate, momentum, fragments, overlap, keep, bits";

[[noreturn]] void fail_word(const std::string& word) {
  fail(Where::current(), "--diloco has '{}'; it takes {}, as in k=4,inner=50", word, names);
}

// A number of the kind that `to` is.
template <class T>
void read(const std::string& word, const std::string& value, T& to) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
  if (value.empty() || error != std::errc() || end != value.data() + value.size())
    fail(Where::current(), "--diloco {}: '{}' is no {}", word, value,
         std::is_integral_v<T> ? "whole number" : "number");
}

void take_word(const std::string& word, int& workers, DilocoOptions& o) {
  const size_t equals = word.find('=');
  if (equals == word.npos) fail_word(word);
  const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
  if (name == "k") return read(word, value, workers);
  if (name == "inner") return read(word, value, o.inner);
  if (name == "rate") return read(word, value, o.learning_rate);
  if (name == "momentum") return read(word, value, o.momentum);
  if (name == "fragments") return read(word, value, o.fragments);
  if (name == "overlap") return read(word, value, o.overlap);
  if (name == "keep") return read(word, value, o.keep);
  if (name == "bits") return read(word, value, o.bits);
  fail_word(word);
}

}  // namespace

std::pair<int, DilocoOptions> parse_diloco(const std::string& text) {
  int workers = 0;
  DilocoOptions options;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    take_word(text.substr(begin, end - begin), workers, options);
    begin = end + 1;
  }
  expect_diloco(workers, options);
  return {workers, options};
}

std::string describe_diloco(int workers, const DilocoOptions& o) {
  if (workers == 0) return "no";
  return fmt::format("k={},inner={},rate={},momentum={},fragments={},overlap={},keep={},bits={}",
                     workers, o.inner, o.learning_rate, o.momentum, o.fragments, o.overlap, o.keep,
                     o.bits);
}

void expect_diloco(int workers, const DilocoOptions& o) {
  if (workers < 1)
    fail(Where::current(), "--diloco needs workers: k=4 and the like, 1 or more, not {}", workers);
  check_options(o);
  if (o.keep > 0 && o.overlap == 0)
    fail(Where::current(),
         "keep={} is for a mean that comes late: add overlap=1 or more, or leave keep out", o.keep);
}

}  // namespace yotta
