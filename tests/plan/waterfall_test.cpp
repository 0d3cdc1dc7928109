#include "yotta/plan/waterfall.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_on.hpp"

using namespace yotta;

namespace {

void compute(const char* name, double flops, DType dtype = DType::f32) {
  charge({name, dtype, flops, 0, 0});
}

// Two steps on two ranks: rank 0 takes longer, and rank 1 has two parameters where rank 0 has one.
Timed two_steps() {
  return run_on(ideal(2), 2, [](Communicator& world) {
    for (int step = 0; step < 2; ++step) {
      compute("linear", world.rank() == 0 ? 6 : 3);
      compute("gelu", 2);
      compute("adamw", 1);
      if (world.rank() == 1) compute("adamw", 1);
    }
    compute("linear", 1);  // after training
  });
}

std::string message_of(const Trace& trace, int64_t steps) {
  try {
    step_ends(trace, steps);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a step ends when the last rank's optimizer has") {
  const Trace trace = two_steps().trace;
  CHECK(step_ends(trace, 2) == std::vector<double>{9, 18});
  CHECK(step_ends(trace, 1) == std::vector<double>{18});
}

TEST_CASE("what has no such number of steps is refused in words") {
  const Trace trace = two_steps().trace;
  CHECK(message_of(trace, 3).find("which are not 3 steps") != std::string::npos);
  CHECK(message_of(trace, 0).find("which are not 0 steps") != std::string::npos);
  const Timed idle = run_on(ideal(1), 1, [](Communicator&) { compute("linear", 1); });
  CHECK(message_of(idle.trace, 1).find("no updates of an optimizer") != std::string::npos);
}

TEST_CASE("FLOPs of matrix products, and the type of most of them") {
  CHECK(matrix_flops(two_steps().trace) == 2 * 6 + 2 * 3 + 2 * 1);
  const Timed mixed = run_on(ideal(1), 1, [](Communicator&) {
    compute("linear", 2, DType::f32);
    compute("linear_backward_input", 2, DType::bf16);
    compute("attention_plain", 1, DType::bf16);
    compute("attention_merge", 5, DType::f32);
    compute("gelu", 5, DType::f32);
  });
  CHECK(matrix_flops(mixed.trace) == 5);
  CHECK(matrix_dtype(mixed.trace) == DType::bf16);
  CHECK(matrix_dtype(Trace{}) == DType::f32);
}

TEST_CASE("the text has the lines in their order, largest label first, and the small ones summed") {
  Waterfall fall{1e12, 2, 10, 8e12};
  fall.add(Loss::recomputation, 2);
  fall.add(Loss::communication, 3, "tp");
  fall.add(Loss::communication, 1, "dp");
  fall.add(Loss::communication, 2.991, "tp");
  fall.add(Loss::communication, 0.009, "ep");
  fall.add(Loss::launch, 3);
  CHECK(fall.all() == 20);
  CHECK(fall.mfu() == 0.4);
  CHECK(fall.hfu() == 0.5);
  CHECK(fall.share(Loss::communication) == doctest::Approx(0.35).scale(0));
  CHECK(waterfall_text(fall) ==
        "  100.0%  peak: 2 ranks of 1 TFLOP/s\n"
        "  -15.0%  launch gaps: overhead of operations\n"
        "  -30.0%  exposed communication: tp\n"
        "   -5.0%  exposed communication: dp\n"
        "  -10.0%  recomputation\n"
        "   40.0%  MFU: FLOPs of the model (HFU 50.0%)\n");
  fall.add(Loss::recomputation, -4);
  CHECK(waterfall_text(fall).find("   10.0%  counted for the model, but not computed") !=
        std::string::npos);
}
