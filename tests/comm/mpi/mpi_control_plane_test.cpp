// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_control_plane.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("messages arrive, in the order of their sender, and close() finds them all") {
  MpiControlChannel channel(MPI_COMM_WORLD, Where::current());
  for (int to = 0; to < channel.size(); ++to) {
    if (to == channel.rank()) continue;
    channel.send(to, 3, "first");
    channel.send(to, 4, "");
    channel.send(to, 5, std::string(100000, 'x'));
  }
  std::vector<int> next(static_cast<size_t>(channel.size()), 3);
  for (int left = channel.size() - 1; left > 0; --left) {  // the last of each is left to close()
    for (int taken = 0; taken < 2;) {
      MpiControlChannel::Message message;
      if (!channel.take(message)) continue;
      CHECK(message.kind == next[static_cast<size_t>(message.from)]++);
      if (message.kind == 3) CHECK(message.text == "first");
      if (message.kind == 5) CHECK(message.text.size() == 100000);
      ++taken;
    }
  }
  while (!channel.close()) continue;
  channel.send(0, 9, "too late");
  CHECK(channel.close());
}

namespace {

std::string verdict_of(MpiControlPlane& control_plane) {
  std::string text = "nothing was thrown";
  while (text == "nothing was thrown") {
    control_plane.tested();  // as a rank that waits does
    text = message_of([&] { control_plane.check(Where::current()); });
  }
  while (!control_plane.all_have_heard()) continue;
  return text;
}

}  // namespace

TEST_CASE("a failure is heard by all, by the thread or by who looks himself") {
  for (const bool with_thread : {true, false}) {
    MpiControlPlane control_plane(MPI_COMM_WORLD, with_thread, Where::current());
    CHECK_NOTHROW(control_plane.check(Where::current()));
    MPI_Barrier(MPI_COMM_WORLD);
    const int last = control_plane.size() - 1;
    if (control_plane.rank() == last) {
      control_plane.fail("the disk is full");
      control_plane.fail("and more");
    }
    const std::string text = verdict_of(control_plane);
    CHECK(contains(text, control_plane.rank() == last
                             ? "this rank has failed before, its world is over: the disk is full"
                             : "rank " + std::to_string(last) + " has failed: the disk is full"));
  }
}

TEST_CASE("calls that differ are a mismatch with both places, for all") {
  MpiControlPlane control_plane(MPI_COMM_WORLD, true, Where::current());
  const int p = control_plane.size(), last = p - 1;
  for (int64_t number = 0; number < 10; ++number) {
    const bool differs = number == 9 && control_plane.rank() == last;
    const Call call{differs ? "barrier" : "split", -1, DType::u8, -1, "", "", Where::current()};
    control_plane.compare(0, number, p, static_cast<int>(number) % p, number == 4, call);
    if (number == 4)
      while (!control_plane.is_confirmed(0, 4)) continue;
  }
  CHECK_FALSE(control_plane.is_confirmed(0, 3));
  if (p == 1) return;  // no rank differs
  const std::string text = verdict_of(control_plane);
  CHECK(contains(text, "barrier at mpi_control_plane_test.cpp:"));
  CHECK(contains(text, "split at mpi_control_plane_test.cpp:"));
}

TEST_CASE(
    "a rank that waits for itself is a deadlock, told when it has said that it stands still") {
  MpiControlPlane control_plane(MPI_COMM_WORLD, true, Where::current());
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = control_plane.epoch();
  report.strands.emplace_back().requests = {{Request::Kind::recv, 0, control_plane.rank(), 0}};
  report.pending = report.strands[0].requests;
  control_plane.moved(0);
  control_plane.report(report);  // it has moved since
  CHECK_NOTHROW(control_plane.check(Where::current()));
  MPI_Barrier(MPI_COMM_WORLD);
  if (control_plane.rank() != control_plane.size() - 1) {
    CHECK(contains(verdict_of(control_plane), "has failed: deadlock"));
    return;
  }
  report.epoch = control_plane.epoch();
  control_plane.report(report);
  CHECK(contains(verdict_of(control_plane), "deadlock: rank"));
}

TEST_CASE("an end without failures leaves nothing behind") {
  MpiControlPlane control_plane(MPI_COMM_WORLD, true, Where::current());
  WaitReport returned;
  returned.state = RankWait::State::returned;
  control_plane.report(returned);
  MPI_Barrier(MPI_COMM_WORLD);
  while (!control_plane.close()) continue;
  CHECK_FALSE(control_plane.failed());
}
