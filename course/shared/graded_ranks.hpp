// Graded cases on thread ranks, for exercises whose functions take a light communicator.
#pragma once

#include "course/shared/graded.hpp"
#include "course/shared/light_communicator.hpp"
#include "yotta/comm/run_ranks.hpp"

namespace exercise {

// body(world) on p ranks; what is not begun says just that.
template <class Body>
void run(int p, Body body) {
  yotta::RunOptions options;
  options.threads = 1;
  options.timeout = 3;
  try {
    yotta::run_ranks(
        p,
        [&](yotta::Communicator& world) {
          yotta::student::Communicator light(world);
          body(light);
        },
        options);
  } catch (const yotta::RankFailed& error) {
    rethrow_not_done(error.cause());
    throw;
  }
}

}  // namespace exercise
