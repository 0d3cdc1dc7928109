#include "yotta/comm/threads/collective_rendezvous.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
const Call sum{"all_reduce", 16, DType::f32, -1, "sum", "ring", Where::current()};
}

TEST_CASE("meetings are counted, and who is missing is known") {
  const std::vector<int> members = {4, 2, 7};
  CollectiveRendezvous gathering(members, 4, sum);
  CHECK(gathering.complete(0));
  CHECK_FALSE(gathering.arrive(0));
  CHECK_FALSE(gathering.arrive(2));
  CHECK_FALSE(gathering.complete(1));
  CHECK(gathering.missing(1) == std::vector<int>{2});
  CHECK(gathering.arrive(1));
  CHECK(gathering.complete(1));
  CHECK(gathering.missing(1).empty());
  CHECK_FALSE(gathering.arrive(1));  // the second meeting
  CHECK(gathering.missing(2) == std::vector<int>{4, 7});
}

TEST_CASE("calls are compared in everything but where they stand") {
  const std::vector<int> members = {0, 1};
  const CollectiveRendezvous gathering(members, 0, sum);
  Call call = sum;
  call.where = Where::current();
  CHECK(gathering.compare(1, call).empty());
  auto differs = [&](auto change) {
    Call changed = sum;
    change(changed);
    return !gathering.compare(1, changed).empty();
  };
  CHECK(differs([](Call& c) { c.operation = "reduce"; }));
  CHECK(differs([](Call& c) { c.count = 15; }));
  CHECK(differs([](Call& c) { c.dtype = DType::f64; }));
  CHECK(differs([](Call& c) { c.root = 0; }));
  CHECK(differs([](Call& c) { c.op = "max"; }));
  CHECK(differs([](Call& c) { c.algorithm = "tree"; }));
}

TEST_CASE("groups: the same name gives the same group; gatherings go when all have left") {
  Groups groups(2);
  CHECK(groups.members(0) == std::vector<int>{0, 1});
  const std::vector<int> one = {1};
  const int number = groups.open(0, 0, 5, one);
  CHECK(groups.open(0, 0, 5, one) == number);
  CHECK(groups.open(0, 1, 5, one) != number);
  CollectiveRendezvous& first = groups.enter(0, 0, 0, sum);
  CollectiveRendezvous& second = groups.enter(0, 0, 1, sum);
  CHECK(&groups.enter(1, 0, 0, sum) == &first);
  groups.leave(0, second);
  CHECK_FALSE(second.over());
  groups.leave(0, second);
  CHECK(second.over());  // but the first is still in use, so it stays
  CHECK(&groups.enter(1, 0, 1, sum) == &second);
  groups.leave(0, first);
  groups.leave(0, first);
  CHECK(groups.enter(1, 0, 2, sum).missing(1) == std::vector<int>{0, 1});
}
