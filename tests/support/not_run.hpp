// A test case that finds that it cannot run on this machine says so: it is then counted and listed
// as not run, never as a pass.
//
//     TEST_CASE("the packed kernel uses AVX-512") {
//       if (!has_avx512()) YOTTA_NOT_RUN("this processor has no AVX-512");
#pragma once

#include <cstdlib>
#include <string>

namespace yotta_test {

// Marks the running test case as not run, and why.
void not_run(const std::string& reason);

// Is this `./yotta test --long`? A case that tries many inputs tries more of them then. A case that
// is long as a whole belongs to the suite "long": TEST_CASE("..." * doctest::test_suite("long")).
inline bool long_form() { return std::getenv("YOTTA_TEST_LONG") != nullptr; }

}  // namespace yotta_test

#define YOTTA_NOT_RUN(reason)    \
  do {                           \
    yotta_test::not_run(reason); \
    return;                      \
  } while (false)
