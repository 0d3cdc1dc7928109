#include "yotta/parallel/tied_parameters.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {

ParameterPtr table(const char* name, double value) {
  ParameterPtr made = make_parameter(name, {2, 3}, true, {value, 0}, 0, DType::f64);
  made->uses = 1;
  return made;
}

}  // namespace

TEST_CASE("the first and the last rank hold one table: its gradient is the sum of theirs") {
  for (const int p : {2, 3, 4, 8})
    run_ranks(p, [&](Communicator& pp) {
      const bool ends = pp.rank() == 0 || pp.rank() + 1 == p;
      std::vector<ParameterPtr> held = {table(ends ? "table" : "mine", 1 + pp.rank())};
      if (!ends) held[0]->name += std::to_string(pp.rank());
      if (pp.rank() == 1) held.push_back(table("another", 7));  // lists may differ in length
      held[0]->gradient().fill(10 + pp.rank());
      TiedParameters tied(held, pp);
      CHECK(tied.size() == (ends ? 1 : 0));
      CHECK(held[0]->copies == (ends ? 2 : 1));
      CHECK(held[0]->value.item({0, 0}) == (ends ? 1 : 1 + pp.rank()));
      const auto before = context().ledger.traffic("tied.gradients").bytes_sent;
      tied.reduce();
      CHECK(held[0]->grad.item({1, 2}) == (ends ? 20 + p - 1 : 10 + pp.rank()));
      const auto sent = context().ledger.traffic("tied.gradients").bytes_sent - before;
      CHECK(sent == (ends ? held[0]->grad.nbytes() : 0));
    });
}

TEST_CASE("a table that one rank holds twice, with others or alone") {
  for (const int p : {1, 2})
    run_ranks(p, [&](Communicator& pp) {
      std::vector<ParameterPtr> held = {table("table", 1)};
      if (pp.rank() == 0) held.push_back(table("table", 2));
      for (const ParameterPtr& each : held) each->gradient().fill(5);
      TiedParameters tied(held, p == 1 ? Communicator() : pp);
      tied.reduce();
      for (const ParameterPtr& each : held) {
        CHECK(each->grad.item({0, 0}) == 5 * (p + 1));
        CHECK(each->copies == p + 1);
        CHECK(each->value.item({0, 0}) == 1);
      }
    });
}

TEST_CASE("where no name occurs twice nothing is tied and nothing is sent") {
  run_ranks(3, [&](Communicator& pp) {
    const std::vector<ParameterPtr> held = {table(pp.rank() == 0   ? "a"
                                                  : pp.rank() == 1 ? "b"
                                                                   : "c",
                                                  1)};
    TiedParameters tied(pp.rank() == 2 ? std::vector<ParameterPtr>() : held, pp);
    CHECK(tied.size() == 0);
    tied.reduce();
    CHECK(context().ledger.traffic("tied.gradients").messages_sent == 0);
  });
}
