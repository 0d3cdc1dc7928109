// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_control_plane.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

std::string verdict_of(MpiLookout& lookout) {
  std::string text = "nothing was thrown";
  while (text == "nothing was thrown") {
    lookout.tested();  // as whoever waits does
    text = message_of([&] { lookout.check(Where::current()); });
  }
  while (!lookout.all_have_heard()) continue;
  return text;
}

}  // namespace

TEST_CASE("a failure is heard by all, by the thread or by who looks himself") {
  for (const bool with_thread : {true, false}) {
    MpiLookout lookout(MPI_COMM_WORLD, with_thread, Where::current());
    CHECK_NOTHROW(lookout.check(Where::current()));
    MPI_Barrier(MPI_COMM_WORLD);
    const int last = lookout.size() - 1;
    if (lookout.rank() == last) {
      lookout.fail("the disk is full");
      lookout.fail("and more");
    }
    const std::string text = verdict_of(lookout);
    CHECK(contains(text, lookout.rank() == last
                             ? "this rank has failed before, its world is over: the disk is full"
                             : "rank " + std::to_string(last) + " has failed: the disk is full"));
  }
}

TEST_CASE("calls that differ are a mismatch with both places, for all") {
  MpiLookout lookout(MPI_COMM_WORLD, true, Where::current());
  const int p = lookout.size(), last = p - 1;
  for (int64_t number = 0; number < 10; ++number) {
    const bool differs = number == 9 && lookout.rank() == last;
    const Call call{differs ? "barrier" : "split", -1, DType::u8, -1, "", "", Where::current()};
    lookout.compare(0, number, p, static_cast<int>(number) % p, number == 4, call);
    if (number == 4)
      while (!lookout.all_call(0, 4)) continue;
  }
  CHECK_FALSE(lookout.all_call(0, 3));
  if (p == 1) return;  // nobody differs
  const std::string text = verdict_of(lookout);
  CHECK(contains(text, "barrier at mpi_control_plane_test.cpp:"));
  CHECK(contains(text, "split at mpi_control_plane_test.cpp:"));
}

TEST_CASE(
    "a rank that waits for itself is a deadlock, told when it has said that it stands still") {
  MpiLookout lookout(MPI_COMM_WORLD, true, Where::current());
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = lookout.epoch();
  report.strands.emplace_back().requests = {{Request::Kind::recv, 0, lookout.rank(), 0}};
  report.pending = report.strands[0].requests;
  lookout.moved(0);
  lookout.report(report);  // it has moved since
  CHECK_NOTHROW(lookout.check(Where::current()));
  MPI_Barrier(MPI_COMM_WORLD);
  if (lookout.rank() != lookout.size() - 1) {
    CHECK(contains(verdict_of(lookout), "has failed: deadlock"));
    return;
  }
  report.epoch = lookout.epoch();
  lookout.report(report);
  CHECK(contains(verdict_of(lookout), "deadlock: rank"));
}

TEST_CASE("an end without failures leaves nothing behind") {
  MpiLookout lookout(MPI_COMM_WORLD, true, Where::current());
  WaitReport returned;
  returned.state = RankWait::State::returned;
  lookout.report(returned);
  MPI_Barrier(MPI_COMM_WORLD);
  while (!lookout.close()) continue;
  CHECK_FALSE(lookout.failed());
}
