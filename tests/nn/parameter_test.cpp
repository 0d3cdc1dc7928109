#include "yotta/nn/parameter.hpp"

#include <doctest/doctest.h>

#include "support/refused.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/norm_layer.hpp"

using namespace yotta;

TEST_CASE("memory is counted as parameters and gradients; a bf16 weight has an f32 gradient") {
  RankContext rank;
  const ContextScope scope(rank);
  const ParameterPtr w = make_parameter("w", {4, 4}, true, normal(1), 0, DType::bf16);
  CHECK(rank.ledger.memory()->live(MemoryKind::parameters) == 32);
  CHECK(w->wide().dtype() == DType::f32);
  CHECK_FALSE(w->grad.defined());
  w->gradient();
  CHECK(w->grad.dtype() == DType::f32);
  CHECK(rank.ledger.memory()->live(MemoryKind::gradients) == 64);
}

TEST_CASE("a gradient is final after the last use has reported, once a microbatch") {
  const ParameterPtr table = make_parameter("table", {2, 2}, true, zeros(), 0, DType::f32);
  int fired = 0;
  table->on_grad_ready = [&](Parameter& self) { fired += self.name == "table" ? 1 : 100; };
  const Use embedding(table), head(table);
  CHECK(table->uses == 2);

  SUBCASE("one microbatch after the other") {
    head.mark_grad_ready();
    CHECK(fired == 0);
    embedding.mark_grad_ready();
    CHECK(fired == 1);
    head.mark_grad_ready();
    embedding.mark_grad_ready();
    CHECK(fired == 2);
  }
  SUBCASE("microbatches of a pipeline overlap: two reports of one use are not two uses") {
    head.mark_grad_ready();
    head.mark_grad_ready();
    CHECK(fired == 0);
    embedding.mark_grad_ready();
    CHECK(fired == 1);
    embedding.mark_grad_ready();
    CHECK(fired == 2);
  }
}

TEST_CASE("a layer of no width, or of columns that the whole does not have, is refused") {
  yotta_test::check_refused({
      {"LinearOptions::inputs is 0", [] { Linear("l", {.inputs = 0, .outputs = 4}); }},
      {"LinearOptions::outputs is 0", [] { Linear("l", {.inputs = 4, .outputs = 0}); }},
      {"rows -1 on", [] { Linear("l", {.inputs = 4, .outputs = 4, .first_output = -1}); }},
      {"columns -2 on", [] { Linear("l", {.inputs = 4, .outputs = 4, .first_input = -2}); }},
      {"of a whole of (4, 3)", [] { Linear("l", {.inputs = 4, .outputs = 4, .whole_inputs = 3}); }},
      {"l.weight: rows 0 on",
       [] { Linear("l", {.inputs = 4, .outputs = 4, .whole_outputs = -4}); }},
      {"NormOptions::width is 0, expected 1 or more", [] { Norm("n", {.width = 0}); }},
  });
}
