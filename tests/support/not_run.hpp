// A test case that finds that it cannot run on this machine says so: it is then counted and listed as
// not run, never as a pass.
//
//     TEST_CASE("the packed kernel uses AVX-512") {
//       if (!has_avx512()) YOTTA_NOT_RUN("this processor has no AVX-512");
#pragma once

#include <string>

namespace yotta_test {

// Marks the running test case as not run, and why.
void not_run(const std::string& reason);

}  // namespace yotta_test

#define YOTTA_NOT_RUN(reason)    \
  do {                           \
    yotta_test::not_run(reason); \
    return;                      \
  } while (false)
