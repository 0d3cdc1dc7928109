// What a process that is no member sees. Whole jobs: run_members_test.cpp.
#include "yotta/comm/sockets/socket_epochs.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a process that was not started as a member is none") {
  const auto none = [](const char*) -> const char* { return nullptr; };
  CHECK(SocketEpochs::find([](int) {}, {}, none) == nullptr);
  CHECK(epoch_host() == nullptr);
}
