// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_message.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// All processes, and messages between the first two.
struct Pair {
  Pair() : world(MpiComm::duplicate(MPI_COMM_WORLD, Where::current()), {}) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    world.members.resize(static_cast<size_t>(size));
    std::iota(world.members.begin(), world.members.end(), 0);
  }
  // From 0 to 1, of four numbers or another count.
  void fill(Request& request, int64_t tag, int64_t count = 4) {
    request.kind = rank == 0 ? Request::Kind::send : Request::Kind::recv;
    request.peer = 1 - rank;
    request.tag = tag;
    request.data = Data(numbers).part(0, count);
    request.call = &call;
  }
  static MpiArrival arrival_of(Request& request) {
    std::optional<MpiArrival> arrival;
    while (!arrival) arrival = test_message(request);
    return *arrival;
  }
  void meet() const { MPI_Barrier(world.comm.get()); }

  int rank = 0, size = 1;
  MpiGroup world;
  std::vector<float> numbers = {1, 2, 3, 4};
  Call call{"message", 4, DType::f32, -1, "", "", Where::current()};
};

}  // namespace

TEST_CASE("a synchronous send is done when it is received, and not before") {
  Pair pair;
  CHECK(pair.size >= 1);
  Request message;
  if (pair.rank < 2 && pair.size > 1) pair.fill(message, 3);
  if (pair.rank == 0 && pair.size > 1) {
    start_message(message, pair.world, 1000, true);
    for (int looks = 0; looks < 1000; ++looks) REQUIRE(!test_message(message));
  }
  pair.meet();
  if (pair.rank == 1) {
    pair.numbers.assign(4, 0);
    start_message(message, pair.world, 1000, true);
  }
  if (pair.rank < 2 && pair.size > 1) {
    expect_arrived(message, pair.rank, Pair::arrival_of(message));
    CHECK(pair.numbers == std::vector<float>{1, 2, 3, 4});
  }
}

TEST_CASE("a count that differs is told by the receiver, with both counts where MPI knows them") {
  Pair pair;
  CHECK(pair.size >= 1);
  if (pair.size == 1) return;
  for (const int64_t received : {3, 5}) {
    pair.numbers.resize(8);
    Request message;
    if (pair.rank < 2) {
      pair.fill(message, 4, pair.rank == 0 ? 4 : received);
      start_message(message, pair.world, 1000, false);
      const MpiArrival arrival = Pair::arrival_of(message);
      const std::string said = message_of([&] { expect_arrived(message, pair.rank, arrival); });
      if (pair.rank == 0) CHECK(said == "nothing was thrown");
      if (pair.rank == 1) {
        CHECK(contains(said, received == 3 ? "rank 0 sends more" : "rank 0 sends 4"));
        CHECK(contains(said, fmt::format("rank 1 receives {} f32 at mpi_message_test", received)));
      }
    }
    pair.meet();
  }
}

TEST_CASE("a receive that is taken back takes nothing") {
  Pair pair;
  CHECK(pair.size >= 1);
  if (pair.size == 1) return;
  Request early, late;
  if (pair.rank == 1) {
    pair.fill(early, 5, 1);
    start_message(early, pair.world, 1000, false);
    CHECK(!test_message(early));
    cancel_message(early);
    Pair::arrival_of(early);
    leave_message(early);
    CHECK(get_handle(early) == MPI_REQUEST_NULL);
  }
  pair.meet();
  if (pair.rank < 2) {
    pair.fill(late, 5);
    start_message(late, pair.world, 1000, false);
    expect_arrived(late, pair.rank, Pair::arrival_of(late));
    CHECK(pair.numbers == std::vector<float>{1, 2, 3, 4});
  }
}
