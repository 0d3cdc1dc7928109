#include "yotta/core/system/file_size_signal.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
int seen = 0;
bool is_waiting() {
  sigset_t waiting;
  sigpending(&waiting);
  return sigismember(&waiting, SIGXFSZ) == 1;
}
}  // namespace

TEST_CASE("the signal is taken away where it is held, and nowhere else") {
  const auto before = signal(SIGXFSZ, [](int) { ++seen; });
  {
    const FileSizeSignal held;
    raise(SIGXFSZ);
    errno = EFBIG;
  }
  CHECK(errno == EFBIG);
  CHECK(seen == 0);
  CHECK_FALSE(is_waiting());
  raise(SIGXFSZ);
  CHECK(seen == 1);
  {
    const FileSizeSignal outer;
    raise(SIGXFSZ);
    { const FileSizeSignal inner; }
    CHECK(is_waiting());  // the outer one's
  }
  CHECK(seen == 1);
  signal(SIGXFSZ, before);
}
