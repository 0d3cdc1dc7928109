#include "yotta/comm/engine/engine_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("who chooses nothing gets buffered sends, unwatched buffers and ten minutes") {
  const EngineOptions options;
  CHECK(options.buffered_sends);
  CHECK_FALSE(options.check_buffers);
  CHECK(options.timeout == 600);
  CHECK_FALSE(options.now);
}
