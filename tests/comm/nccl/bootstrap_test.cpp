#include "yotta/comm/nccl/bootstrap.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/threads/threads.hpp"

using namespace yotta;

TEST_CASE("letters arrive by kind, in the order in which they were sent") {
  auto world = std::make_shared<ThreadWorld>(2);
  NcclLetters zero(std::make_shared<ThreadTransport>(world, 0)),
      one(std::make_shared<ThreadTransport>(world, 1));
  const Call call{"a letter", 128, DType::u8, -1, "", "", Where::current()};
  for (const int i : {1, 2}) zero.send(1, 7, NcclLetters::text_of(i), call);
  zero.send(1, 5, NcclLetters::text_of(3), call);
  CHECK_FALSE(zero.have_left());
  for (const auto& [kind, expected] : {std::pair{5, 3}, {7, 1}, {7, 2}}) {
    const NcclLetters::LetterPtr letter = one.expect(0, kind, call);
    REQUIRE(one.has_come(*letter));
    CHECK(NcclLetters::read<int>(letter->text) == expected);
  }
  CHECK(zero.have_left());
}

TEST_CASE(
    "a letter that has not come can be taken back, and those not taken go with their sender") {
  auto world = std::make_shared<ThreadWorld>(2);
  NcclLetters one(std::make_shared<ThreadTransport>(world, 1));
  const Call call{"a letter", 128, DType::u8, -1, "", "", Where::current()};
  const NcclLetters::LetterPtr vain = one.expect(0, 1, call);
  CHECK_FALSE(one.has_come(*vain));
  one.take_back(*vain);
  {
    NcclLetters zero(std::make_shared<ThreadTransport>(world, 0));
    zero.send(1, 1, {}, call);
    CHECK(world->find_unreceived() != "");
  }
  CHECK(world->find_unreceived() == "");
  CHECK_FALSE(vain->request.done);
}
