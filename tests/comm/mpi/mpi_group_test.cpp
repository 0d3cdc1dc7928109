// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_group.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("groups are made by their members, and have the same id on all of them") {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> everybody(static_cast<size_t>(size)), half;
  std::iota(everybody.begin(), everybody.end(), 0);
  const MpiGroup world(MpiComm::duplicate(MPI_COMM_WORLD, Where::current()), everybody);
  for (int other = rank % 2; other < size; other += 2) half.push_back(other);
  const MpiGroup group = make_mpi_group(world, group_id(0, 0, rank % 2), half);
  int in_group = -1;
  MPI_Comm_rank(group.comm.get(), &in_group);
  CHECK(in_group == rank / 2);
  CHECK(group.rank_of(rank) == in_group);
  uint64_t first = group.id;
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, group.comm.get());
  CHECK(first == group.id);
}

TEST_CASE("tags of users are even, those of collectives odd; what MPI cannot carry is refused") {
  const Call call{"recv", 4, DType::f32, -1, "", "", Where::current()};
  Request request;
  request.call = &call;
  request.tag = 7;
  CHECK(mpi_tag(request) == 14);
  request.tag = -1;
  CHECK(mpi_tag(request) == 1);
  request.tag = -1 - 16384 - 3;
  CHECK(mpi_tag(request) == 7);
  request.tag = 16384;
  CHECK(contains(message_of([&] { mpi_tag(request); }), "a tag is below 16384, not 16384"));
}
