#include "yotta/comm/engine/asking.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/engine/in_flight_op.hpp"

using namespace yotta;
using Manner = Asking::Manner;

TEST_CASE("who only asks for longer than a second waits") {
  Asking asking;
  InFlightOp a, b;
  for (int i = 0; i <= 10; ++i)
    CHECK(asking.ask(i % 2 == 0 ? &a : &b, 5 + 0.1 * i, 1e-5 * i) == Manner::briefly);
  CHECK(asking.ask(&b, 6.15, 2e-4) == Manner::waiting);
  CHECK(asking.asked() == std::vector<InFlightOp*>{&a, &b});
  CHECK(asking.asked_for(6.15) == doctest::Approx(1.05));
  InFlightOp another;  // a loop over these two would not have asked for it
  CHECK(asking.ask(&another, 6.16, 2e-4) == Manner::beside_work);
  asking.stop();
  CHECK(asking.asked_for(6.2) == 0);
  CHECK(asking.ask(&a, 6.2, 2e-4) == Manner::briefly);
  CHECK(asking.asked().size() == 1);
}

TEST_CASE("who computes in between does not wait, but is told once a second") {
  Asking asking;
  InFlightOp op;
  int told = 0;
  for (int i = 0; i <= 55; ++i) {
    const Manner manner = asking.ask(&op, 0.1 * i, 0.01 * i);
    CHECK(manner != Manner::waiting);
    told += manner == Manner::beside_work ? 1 : 0;
    CHECK(asking.asked_for(0.1 * i) == 0);
  }
  CHECK(told == 5);
}

TEST_CASE("what done() computes itself is not the caller's work") {
  Asking asking;
  InFlightOp op;
  double computed = 0;
  for (int i = 0; i <= 10; ++i) {
    CHECK(asking.ask(&op, 0.1 * i, computed += 1e-5) == Manner::briefly);
    asking.answered(computed += 0.02);
  }
  CHECK(asking.ask(&op, 1.1, computed + 1e-5) == Manner::waiting);
}
