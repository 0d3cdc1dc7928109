// Graded cases on thread ranks, and the tensors that they compare.
#pragma once

#include "course/cases/graded.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"

namespace exercise {

// One thread per rank, and a deadlock is reported within 3 s.
inline yotta::RunOptions graded_run() {
  yotta::RunOptions options;
  options.threads = 1;
  options.timeout = 3;
  return options;
}

// What run() returns; what is not begun says just that.
template <class Run>
auto with_cause(Run run) {
  try {
    return run();
  } catch (const yotta::RankFailed& error) {
    rethrow_not_done(error.cause());
    throw;
  }
}

// body(world) on p ranks.
inline std::vector<yotta::RankReport> run(int p, const yotta::RankBody& body) {
  return with_cause([&] { return yotta::run_ranks(p, body, graded_run()); });
}

// expect() for checks that a rank makes: they throw, so that the other ranks end as well.
inline void require(bool right, const std::string& what_is_wrong,
                    yotta::Where where = yotta::Where::current()) {
  if (!right) yotta::fail(where, "{}", what_is_wrong);
}
inline void require(const yotta::Verdict& verdict, yotta::Where where = yotta::Where::current()) {
  require(verdict.equal, verdict.text, where);
}

// A new f64 tensor of normal numbers, the same for the same seed and name.
inline yotta::Tensor normal_numbers(const yotta::Shape& shape, uint64_t seed,
                                    const std::string& name) {
  yotta::Tensor made = yotta::Tensor::empty(shape, yotta::DType::f64);
  const yotta::Random random(exercise::seed(seed), name);
  for (uint64_t i = 0; double& value : made.span<double>()) value = random.normal(i++);
  return made;
}

// What a rank of p made, against what one rank makes. Throws Error with clues, so that the run says
// which rank it was.
inline void expect_equal(const yotta::Tensor& actual, const yotta::Tensor& expected,
                         const std::string& what, int p, std::vector<yotta::Suspect> suspects = {},
                         double tolerance = 1e-12) {
  const auto here = yotta::Where::current();
  if (!actual.defined()) yotta::fail(here, "{} is an undefined tensor", what);
  if (actual.shape() != expected.shape())
    yotta::fail(here, "{} is {}, expected {}", what, actual.describe(), expected.describe());
  yotta::Clues clues;
  clues.what = what;
  clues.ranks = p;
  clues.suspects = std::move(suspects);
  const yotta::Verdict verdict =
      yotta::compare(actual.values(), expected.values(), tolerance, clues);
  if (!verdict) yotta::fail(here, "{}", verdict.text);
}

}  // namespace exercise
