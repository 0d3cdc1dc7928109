// The same Communicator on MPI. Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/collectives.hpp"

using namespace yotta;

namespace {

// Number i of a rank, and the sum over p ranks.
float value(int rank, int64_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(i % 7);
}
float total(int p, int64_t i) {
  return static_cast<float>(p * (p + 1) / 2) * static_cast<float>(i % 7);
}

std::vector<float> values(int rank, int64_t n) {
  std::vector<float> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(value(rank, i));
  return all;
}
std::vector<float> totals(int p, int64_t n) {
  std::vector<float> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(total(p, i));
  return all;
}

}  // namespace

TEST_CASE("messages go round the ring, by tag and not by order, empty ones too") {
  run_mpi([](Communicator& world) {
    const int p = world.size(), next = (world.rank() + 1) % p,
              previous = (world.rank() + p - 1) % p;
    for (const int64_t n : {0, 1, 100000}) {
      const std::vector<float> out = values(world.rank(), n), out8 = values(world.rank() + 10, n);
      std::vector<float> in(out.size(), -1), second(out.size(), -1);
      Work first = world.send_async(out, next, 7);
      Work other = world.send_async(out8, next, 8);
      world.recv(second, previous, 8);
      world.recv(in, previous, 7);
      first.wait();
      other.wait();
      CHECK(in == values(previous, n));
      CHECK(second == values(previous + 10, n));
    }
  });
}

TEST_CASE("ring all_reduce: values, and messages and bytes as the formula says") {
  for (const int64_t n : {0, 1, 17, 100000}) {
    const auto self = run_mpi([&](Communicator& world) {
      std::vector<float> data = values(world.rank(), n);
      world.all_reduce(data, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "gradients"});
      CHECK(data == totals(world.size(), n));
    });
    const Traffic traffic = self->ledger.traffic("gradients");
    const Sent expected = all_reduce_ring_sent(self->size, self->rank, n, 4);
    CHECK(traffic.messages_sent == expected.messages);
    CHECK(traffic.bytes_sent == expected.bytes);
  }
}

TEST_CASE("other collectives, with the algorithms chosen automatically") {
  run_mpi([](Communicator& world) {
    const int p = world.size(), rank = world.rank();
    const int64_t n = 1000;
    std::vector<float> sum = values(rank, n);
    world.all_reduce(sum);
    CHECK(sum == totals(p, n));

    std::vector<float> data = values(rank, n);
    world.broadcast(data, p - 1);
    CHECK(data == values(p - 1, n));

    const std::vector<float> all = values(rank, n);
    std::vector<float> chunk(static_cast<size_t>(chunk_count(n, p, rank)));
    world.reduce_scatter(chunk, all);
    std::vector<float> gathered(static_cast<size_t>(n));
    world.all_gather(gathered, chunk);
    CHECK(gathered == totals(p, n));

    std::vector<int32_t> row, column(static_cast<size_t>(p)), expected;
    for (int other = 0; other < p; ++other) row.push_back(10 * rank + other);
    for (int other = 0; other < p; ++other) expected.push_back(10 * other + rank);
    world.all_to_all(column, row);
    CHECK(column == expected);
    world.barrier();
  });
}

TEST_CASE("an asynchronous all_reduce moves on beside messages of the user") {
  run_mpi([](Communicator& world) {
    const int p = world.size(), next = (world.rank() + 1) % p,
              previous = (world.rank() + p - 1) % p;
    std::vector<float> data = values(world.rank(), 5000);
    Work work = world.all_reduce_async(data);
    int32_t mine = world.rank(), theirs = -1;
    world.send_recv(std::span<const int32_t>(&mine, 1), next, std::span<int32_t>(&theirs, 1),
                    previous);
    work.wait();
    CHECK(theirs == previous);
    CHECK(data == totals(p, 5000));
  });
}

TEST_CASE("split: even and odd ranks sum among themselves") {
  run_mpi([](Communicator& world) {
    Communicator half = world.split(world.rank() % 2, -world.rank());
    std::vector<int32_t> data = {world.rank(), 1};
    half.all_reduce(data);
    int sum = 0, count = 0;
    for (int rank = world.rank() % 2; rank < world.size(); rank += 2, ++count) sum += rank;
    CHECK(data == std::vector<int32_t>{sum, count});
    CHECK(half.members().front() >= half.members().back());  // ordered by key
  });
}

TEST_CASE("counts that differ are a Mismatch, and the other ranks hear of it") {
  int rank = 0, size = 0;
  const auto mismatched = [&](size_t received) {
    run_mpi([&](Communicator& world) {
      rank = world.rank(), size = world.size();
      std::vector<float> five(5), room(received);
      if (rank == 0) world.send(five, 1 % size);
      if (rank == 1 % size) world.recv(room, 0);
      world.barrier();
    });
  };
  for (const size_t received : {size_t{4}, size_t{6}}) {
    try {
      mismatched(received);
      FAIL("no rank noticed");
    } catch (const Mismatch& error) {
      CHECK(std::string(error.what()).find(received == 4 ? "which sends more" : "which sends 5") !=
            std::string::npos);
    } catch (const PeerFailed& error) {
      CHECK(rank != 1);
      CHECK(std::string(error.what()).find("rank 1 has failed") != std::string::npos);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}
