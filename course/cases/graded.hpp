// What the graded cases of exercises share.
//
//     TEST_CASE("10.1: every rank ends with its chunk") {        task 10.1 of exercise.json
//       expect(compare(actual, expected, 1e-6, clues));
//
// A case ends with its first failure, so that a student reads one message at a time.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "yotta/core/compare.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/random.hpp"

namespace exercise {

inline void expect(const yotta::Verdict& verdict) {
  if (!verdict) FAIL(verdict.text);
  CHECK(verdict.equal);
}

inline void expect(bool right, const std::string& what_is_wrong) {
  expect(yotta::Verdict{right, what_is_wrong});
}

// What is not begun says just that, not which rank noticed it.
inline void rethrow_not_done(std::exception_ptr cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const yotta::NotDone&) {
    throw;
  } catch (...) {
  }
}

// A number of the cases that may differ from term to term: `usual`, or one of low to high that a
// key chooses, with the name. `./yotta grade --variant KEY` sets the key; each has its own numbers,
// always the same.
inline int64_t variant(const std::string& name, int64_t usual, int64_t low, int64_t high) {
  const char* const key = std::getenv("YOTTA_VARIANT");
  if (key == nullptr || *key == '\0') return usual;
  const uint64_t chosen = yotta::hash_name(key + ("\n" + name)) >> 8;
  return low + static_cast<int64_t>(chosen % static_cast<uint64_t>(high - low + 1));
}

// The seed of a case's random numbers: `usual`, or another one under a key.
inline uint64_t seed(uint64_t usual) {
  return usual + static_cast<uint64_t>(variant("seed", 0, 1, int64_t{1} << 30));
}

// Whole numbers from low to high, one after the other, and other ones under each key.
class Drawn {
 public:
  Drawn(uint64_t usual_seed, const std::string& name) : random_(seed(usual_seed), name) {}
  int operator()(int low, int high) {
    return low + static_cast<int>(random_.below(drawn_++, static_cast<uint32_t>(high - low + 1)));
  }

 private:
  yotta::Random random_;
  uint64_t drawn_ = 0;
};

// The numbers that a case tries, of ranks or rows, and under a key one more of low to high.
template <class Int>
std::vector<Int> and_one_more(std::vector<Int> usual, const std::string& name, Int low, Int high) {
  const int64_t none = int64_t{low} - 1, more = variant(name, none, low, high);
  if (more != none) usual.push_back(static_cast<Int>(more));
  return usual;
}
template <class Int>
std::vector<Int> sizes(const std::vector<Int>& usual, Int low, Int high) {
  return and_one_more(usual, "size", low, high);
}
inline int size(const std::string& name, int usual, int low, int high) {
  return static_cast<int>(variant(name, usual, low, high));
}
// Numbers of ranks, where any number will do.
inline std::vector<int> ranks(const std::vector<int>& usual) {
  return and_one_more(usual, "ranks", 5, 7);
}

// Which of a choice's sentences the statement tells ("choices" in exercise.json), from 1; 0: as the
// usual statement has it. The runner sets the variable: see course/runner/variant.hpp.
inline int told(const std::string& choice) {
  const char* const all = std::getenv("YOTTA_TOLD");
  const std::string text = all == nullptr ? "" : all, name = " " + choice + "=";
  const size_t at = (" " + text).find(name);
  return at == text.npos ? 0 : std::atoi(text.c_str() + at + name.size() - 1);
}

// What body() throws; empty: nothing. What is not begun says so itself.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const yotta::NotDone&) {
    throw;
  } catch (const yotta::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace exercise
