#include "yotta/machine/pictures/op_profile.hpp"

#include <doctest/doctest.h>

#include "support/refused.hpp"
#include "support/small_trace.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// 1 GFLOP/s, 100 bytes/s.
double slow_roof(const TraceEvent& op) {
  return std::max(op.flops / 1e9, static_cast<double>(op.bytes) / 100);
}

}  // namespace

TEST_CASE("a row for each op, the longest first, with what all ranks did and their roof") {
  const OpProfile profile = op_profile(small_trace(), 0, 8, 1, slow_roof);
  REQUIRE(profile.rows.size() == 2);
  const OpRow &matmul = profile.rows[0], &adamw = profile.rows[1];
  CHECK((matmul.op == "matmul" && matmul.calls == 3 && matmul.seconds == 8));
  CHECK((matmul.flops == 3e9 && matmul.bytes == 300 && matmul.roof_seconds == 3));
  CHECK((adamw.op == "adamw" && adamw.calls == 1 && adamw.seconds == 1));
  CHECK(adamw.roof_seconds == 0.08);
}

TEST_CASE("ops, waits and what lies between are all seconds of all ranks") {
  const OpProfile profile = op_profile(small_trace(), 0, 8, 1, slow_roof);
  CHECK((profile.seconds == 16 && profile.wait_seconds == 4 && profile.between_seconds == 3));
}

TEST_CASE("an op has a row for each pass; of a part of the trace, what lies in it") {
  const OpProfile all = op_profile(step_trace(), 0, 8, 2, slow_roof);
  CHECK(all.rows.size() == 5);
  CHECK((all.rows[0].phase == Phase::forward && all.rows[0].calls == 2));
  const OpProfile step = op_profile(step_trace(), 0, 6, 1, slow_roof);
  CHECK((step.rows[0].phase == Phase::forward && step.rows[0].calls == 1));
  CHECK((step.seconds == 6 && step.between_seconds == 0));
}

TEST_CASE("the table says calls and milliseconds of a step on a rank, and the share of the roof") {
  const std::string text = op_profile_text(op_profile(small_trace(), 0, 8, 1, slow_roof));
  CHECK(contains(text,
                 "  matmul                                         1.5      4000    50.0%"
                 "       0.4     0.0          38%\n"));
  CHECK(contains(text, "waiting for other ranks"));
  CHECK(contains(text, "between ops"));
}

TEST_CASE("ops that take little time are one line") {
  const std::string text = op_profile_text(op_profile(small_trace(), 0, 8, 1, slow_roof), 0.1);
  CHECK(!contains(text, "adamw"));
  CHECK(
      contains(text, "  other ops                                      0.5       500     6.2%\n"));
}

TEST_CASE("no time is no profile") {
  check_refused({{"there is no time from 2 s to 2 s",
                  [] { op_profile(small_trace(), 2, 2, 1, slow_roof); }}});
}
