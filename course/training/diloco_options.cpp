#include "course/training/diloco_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace yotta {

namespace {

// What stands in an option: "a=1,b=2", each name once.
struct Words {
  const char* option;
  const char* names;    // that it takes, in words
  const char* example;  // "k=4,inner=50"

  // Calls take(name, value) for each; it returns false of a name that it does not know.
  template <class Take>
  void each(const std::string& text, Take take) const {
    std::set<std::string> seen;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      const size_t equals = std::min(word.find('='), word.size());
      const std::string name = word.substr(0, equals);
      if (!seen.insert(name).second)
        fail(Where::current(), "{} has {} twice: give it once", option, name);
      if (equals == word.size() || !take(name, word.substr(equals + 1)))
        fail(Where::current(), "{} has '{}'; it takes {}, as in {}", option, word, names, example);
      begin = end + 1;
    }
  }

  // A number of the kind that `to` is.
  template <class T>
  bool read(const std::string& name, const std::string& value, T& to) const {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
    if (error == std::errc::result_out_of_range)
      fail(Where::current(), "{} {}: {} is too large", option, name, value);
    if (value.empty() || error != std::errc() || end != value.data() + value.size())
      fail(Where::current(), "{} {}: '{}' is no {}", option, name, value,
           std::is_integral_v<T> ? "whole number" : "number");
    return true;
  }
};

constexpr int64_t most_inner = int64_t{1} << 40;  // its products with fragments fit 64 bits

constexpr Words of_diloco = {
    "--diloco", "k (workers), inner (H), rate, momentum, fragments, overlap, keep, bits",
    "k=4,inner=50"};
constexpr Words of_absence = {"--absent", "worker (1 and more), round (the first is 1)",
                              "worker=1,round=2"};

bool take_word(const std::string& name, const std::string& value, int& workers, DilocoOptions& o) {
  const auto read = [&](auto& to) { return of_diloco.read(name, value, to); };
  if (name == "k") return read(workers);
  if (name == "inner") return read(o.inner);
  if (name == "rate") return read(o.learning_rate);
  if (name == "momentum") return read(o.momentum);
  if (name == "fragments") return read(o.fragments);
  if (name == "overlap") return read(o.overlap);
  if (name == "keep") return read(o.keep);
  if (name == "bits") return read(o.bits);
  return false;
}

}  // namespace

std::pair<int, DilocoOptions> parse_diloco(const std::string& text) {
  int workers = 0;
  DilocoOptions options;
  of_diloco.each(text, [&](const std::string& name, const std::string& value) {
    return take_word(name, value, workers, options);
  });
  expect_diloco(workers, options);
  return {workers, options};
}

Absence parse_absence(const std::string& text) {
  Absence made;
  of_absence.each(text, [&](const std::string& name, const std::string& value) {
    if (name == "worker") return of_absence.read(name, value, made.worker);
    return name == "round" && of_absence.read(name, value, made.round);
  });
  return made;
}

std::string describe_absence(const std::optional<Absence>& absent) {
  return absent ? fmt::format("worker={},round={}", absent->worker, absent->round) : "no";
}

void expect_absence(const Absence& absent, int workers, const DilocoOptions& o, int64_t steps) {
  if (absent.worker < 1 || absent.worker >= workers)
    fail(Where::current(),
         "--absent worker={} of {} workers: give 1 to {}. Worker 0 stays: it prints and saves",
         absent.worker, workers, workers - 1);
  const int64_t rounds = (steps - 1) / o.inner;  // that are over before the run is
  if (rounds < 1)
    fail(Where::current(),
         "--absent in {} steps with inner={}: there is one round, and the worker could not come "
         "back. Give --steps {} or more",
         steps, o.inner, o.inner + 1);
  if (absent.round < 1 || absent.round > rounds)
    fail(Where::current(),
         "--absent round={}: in {} steps with inner={} a worker can be away in rounds 1 to {}, and "
         "come back before the run ends",
         absent.round, steps, o.inner, rounds);
  if (o.overlap > 0)
    fail(Where::current(),
         "--absent with overlap={}: a mean would be on its way when the worker leaves; leave "
         "overlap out",
         o.overlap);
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
  if (o.inner > most_inner)
    fail(Where::current(), "--diloco inner={}; a round has {} steps at most", o.inner, most_inner);
  check_options(o);
  if (o.keep > 0 && o.overlap == 0)
    fail(Where::current(),
         "keep={} is for a mean that comes late: add overlap=1 or more, or leave keep out", o.keep);
}

}  // namespace yotta
