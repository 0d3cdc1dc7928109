// What only MPI's transport has. What every transport must do is tested on MPI too: see
// tests/CMakeLists.txt. Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_transport.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/comm/mpi/mpi_ranks.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("groups are made by their members, and have the same id on all of them") {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> half;
  const MpiComm world = MpiComm::duplicate(MPI_COMM_WORLD, Where::current());
  for (int other = rank % 2; other < size; other += 2) half.push_back(other);
  const WorldGroup group{half, group_id(0, 0, rank % 2), -1};
  const MpiComm comm = make_mpi_group(world.get(), group.id, half);
  int in_group = -1;
  MPI_Comm_rank(comm.get(), &in_group);
  CHECK(in_group == rank / 2);
  CHECK(group.rank_of(rank) == in_group);
  uint64_t first = group.id;
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, comm.get());
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

namespace {

// All processes, and messages between the first two.
struct Pair {
  Pair() : comm(MpiComm::duplicate(MPI_COMM_WORLD, Where::current())) {
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
  void meet() const { MPI_Barrier(comm.get()); }

  int rank = 0, size = 1;
  WorldGroup world;
  MpiComm comm;
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
    start_message(message, pair.world, pair.comm.get(), 1000, true);
    for (int looks = 0; looks < 1000; ++looks) REQUIRE(!test_message(message));
  }
  pair.meet();
  if (pair.rank == 1) {
    pair.numbers.assign(4, 0);
    start_message(message, pair.world, pair.comm.get(), 1000, true);
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
      start_message(message, pair.world, pair.comm.get(), 1000, false);
      const MpiArrival arrival = Pair::arrival_of(message);
      const std::string said = message_of([&] { expect_arrived(message, pair.rank, arrival); });
      if (pair.rank == 0) CHECK(said == "nothing was thrown");
      if (pair.rank == 1) {
        CHECK(contains(said, received == 3 ? "rank 0 sends more" : "rank 0 sends 4"));
        CHECK(
            contains(said, fmt::format("rank 1 receives {} f32 at mpi_transport_test", received)));
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
    start_message(early, pair.world, pair.comm.get(), 1000, false);
    CHECK(!test_message(early));
    cancel_message(early);
    Pair::arrival_of(early);
    release_message(early);
    CHECK(get_handle(early) == MPI_REQUEST_NULL);
  }
  pair.meet();
  if (pair.rank < 2) {
    pair.fill(late, 5);
    start_message(late, pair.world, pair.comm.get(), 1000, false);
    expect_arrived(late, pair.rank, Pair::arrival_of(late));
    CHECK(pair.numbers == std::vector<float>{1, 2, 3, 4});
  }
}

TEST_CASE("a rank reports what it waits for, and the message with the wrong tag") {
  MpiState state;
  const std::vector<int> alone = {0};
  state.groups.push_back({alone, 0, -1});
  state.comms.push_back(MpiComm::duplicate(MPI_COMM_SELF, Where::current()));
  state.groups[0].last_native = 3;
  const Call call{"recv", 4, DType::f32, -1, "", "", Where::current()};
  Request request;
  request.kind = Request::Kind::recv;
  request.call = &call;
  request.tag = 8;
  state.in_flight.insert(&request);
  const Waiting waiting{&call, call.where, {&request, nullptr}, -1};
  const std::span<const Waiting> strands(&waiting, 1);
  const auto hint = [&](const Request& recv) { return find_other_tag(state, recv); };
  WaitReport report = report_waits(state, strands, 12, hint);
  CHECK(report.state == RankWait::State::waits);
  CHECK(report.epoch == 12);
  CHECK(report.natives.at(0) == 3);
  REQUIRE(report.strands.size() == 1);
  CHECK(report.strands[0].wait.doing == "recv of 4 f32 with tag 8");
  CHECK(report.strands[0].wait.hint.empty());
  CHECK(report.pending[0].tag == 8);

  int sent = 1;
  MPI_Request handle;
  MPI_Isend(&sent, 1, MPI_INT, 0, 2 * 7, state.comms[0].get(), &handle);
  while (report.strands[0].wait.hint.empty()) report = report_waits(state, strands, 12, hint);
  CHECK(report.strands[0].wait.hint == "rank 0 has sent tag 7, rank 0 waits for tag 8");
  CHECK(take_unreceived(state) ==
        "rank 0 sent 4 bytes with tag 7 to rank 0, which ended without receiving it");
  MPI_Wait(&handle, MPI_STATUS_IGNORE);
  CHECK(take_unreceived(state).empty());
}

namespace {

template <class T>
std::vector<T> values(int rank, int64_t n) {
  std::vector<T> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(static_cast<T>((rank + 1) * (i % 7 + 1)));
  return all;
}
// A name that all processes agree on.
std::filesystem::path common_file(Communicator& world) {
  std::vector<int32_t> pid = {static_cast<int32_t>(getpid())};
  world.broadcast(pid, 0);
  return std::filesystem::temp_directory_path() / ("yotta_mpi_test_" + std::to_string(pid[0]));
}
int64_t free_bytes() { return int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

}  // namespace

TEST_CASE("more numbers than one call of MPI takes") {
  MpiRanksOptions options;
  options.mpi.max_count = 10;
  MpiRanks job(options);
  run_ranks(job.size(), [](Communicator& world) {
    const int p = world.size(), rank = world.rank(), next = (rank + 1) % p,
              previous = (rank + p - 1) % p;
    for (const int64_t n : {10, 11, 25, 100}) {
      const std::vector<int16_t> none;
      std::vector<double> in(static_cast<size_t>(n)), sum = values<double>(rank, n);
      world.send_recv(values<double>(rank, n), next, in, previous);
      CHECK(in == values<double>(previous, n));
      world.all_reduce(sum);
      CHECK(sum == values<double>(p * (p + 1) / 2 - 1, n));
      std::vector<double> part(static_cast<size_t>(chunk_count(n, p, rank))), all(in.size());
      world.reduce_scatter(part, values<double>(rank, n));
      world.all_gather(all, part);
      CHECK(all == sum);
    }
  });
}

TEST_CASE("2 GiB and more" * doctest::test_suite("long")) {
  MpiRanks job;
  if (job.size() != 2) YOTTA_NOT_RUN("takes long, and is done with 2 processes");
  if (free_bytes() < int64_t{7} << 30) YOTTA_NOT_RUN("less than 7 GiB of memory are free");
  run_ranks(2, [](Communicator& world) {
    const int64_t n = (int64_t{1} << 31) + 5;
    Tensor data = Tensor::full({n}, world.rank(), DType::u8);
    uint8_t* const bytes = data.data<uint8_t>();
    if (world.rank() == 1) bytes[n / 2] = bytes[n - 1] = 9;
    if (world.rank() == 1) world.send_async(data, 0).wait();
    if (world.rank() == 0) world.recv(data, 1);
    CHECK(bytes[0] == 1);
    CHECK(bytes[n / 2] == 9);
    CHECK(bytes[n - 1] == 9);
  });
}

TEST_CASE("an all_reduce in flight moves on while its rank computes and calls nothing") {
  MpiRanksOptions options;
  options.mpi.compare_calls =
      false;  // else it starts when the rank has heard that all call the same
  MpiRanks job(options);
  run_ranks(job.size(), [](Communicator& world) {
    const std::filesystem::path done = common_file(world);
    std::vector<float> x(1000000, 1);
    Work work = world.all_reduce_async(x);
    if (world.rank() == 0 && world.size() > 1) {
      // The others cannot end without this rank's numbers, nor is a small message enough.
      const GiveUp late;
      while (!std::filesystem::exists(done) && !late) continue;
      CHECK(std::filesystem::exists(done));
    }
    work.wait();
    CHECK(x.back() == static_cast<float>(world.size()));
    if (world.rank() == world.size() - 1) std::ofstream(done) << "done";
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove(done);
  });
}

TEST_CASE("what MPI cannot send is refused") {
  MpiRanks job;
  const auto refused = [&](auto call) { return message_of([&] { run_ranks(job.size(), call); }); };
  CHECK(contains(refused([](Communicator& world) {
                   std::vector<float> x(4), y(4);
                   world.send_recv(x, world.rank(), y, world.rank(), 20000);
                 }),
                 "with MPI a tag is below 16384, not 20000"));
  CHECK(contains(refused([](Communicator& world) {
                   const DeviceScope meta(Device::meta);
                   Tensor x = Tensor::empty({4});
                   world.send_recv(x, world.rank(), x, world.rank());
                 }),
                 "a tensor on meta has no data that MPI could send"));
}

TEST_CASE(
    "counts that differ are a Mismatch at the receiver's line, and the other ranks hear of it") {
  MpiRanks job;
  if (job.size() < 2) YOTTA_NOT_RUN("needs 2 processes");
  for (const size_t received : {size_t{4}, size_t{6}}) {
    const std::string text = message_of([&] {
      run_ranks(2, [&](Communicator& world) {
        std::vector<float> five(5), room(received);
        if (world.rank() == 0) world.send(five, 1);
        if (world.rank() == 1) world.recv(room, 0);
        world.barrier();
      });
    });
    CHECK(contains(text, received == 4 ? "rank 0 sends more" : "rank 0 sends 5"));
    CHECK(contains(text, "f32 at mpi_transport_test.cpp:"));
  }
}

TEST_CASE("after an error in a native collective nothing is written into the user's array") {
  MpiRanks job;
  const int last = job.size() - 1;
  const bool differs = job.size() > 2;  // rank 0 expects one number of rank 1, which sends two
  constexpr int64_t many = 10000000;    // and these, on their way, of the last
  std::vector<float> room(job.rank() == 0 ? size_t(many + differs) : 0, -1);
  const auto arrived = [&] { return std::count(room.begin(), room.end(), 7.0f); };
  int64_t when_thrown = many;
  const std::string text = message_of([&] {
    run_ranks(job.size(), [&](Communicator& world) {
      std::vector<int64_t> to(static_cast<size_t>(world.size())), from(to);
      if (world.rank() == 1 && differs) to[0] = 2;
      if (world.rank() == last) to[0] = many;
      if (world.rank() == 0) from.back() = many;
      if (world.rank() == 0 && differs) from[1] = 1;
      const std::vector<float> in(size_t(std::accumulate(to.begin(), to.end(), int64_t{0})), 7);
      world.barrier();
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      try {
        world.all_to_all_v(room, from, in, to, {.algorithm = Algorithm::native});
      } catch (const CommError&) {
        when_thrown = arrived();
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        throw;
      }
    });
  });
  CHECK(contains(
      text, differs ? "rank 1 of the group sends more elements to rank 0" : "nothing was thrown"));
  if (job.rank() == 0) CHECK(arrived() == when_thrown);
}

TEST_CASE("time-out: who has waited too long says so, and a rank that computes hears of it") {
  MpiRanks job;
  if (job.size() < 2) YOTTA_NOT_RUN("needs 2 processes");
  RunOptions options;
  options.timeout = 0.2;
  const std::string text = message_of([&] {
    run_ranks(
        2,
        [](Communicator& world) {
          std::vector<float> x(3);
          if (world.rank() == 1) world.recv(x, 0, 4);
          Work never = world.recv_async(x, 1, 9);
          double sum = 1;
          while (!never.done())  // it never waits: it computes in between
            for (int i = 0; i < 1000000; ++i) sum += 1 / sum;
          CHECK(sum > 1);
        },
        options);
  });
  CHECK(contains(text, "rank 1 has waited for more than 0.2 s in recv of 3 f32"));
  CHECK(contains(text, "RunOptions::timeout"));
}

TEST_CASE("after failures in native collectives the next world is whole") {
  MpiRanks job;
  for (const int round : {0, 3}) {
    const std::string text = message_of([&] {
      run_ranks(job.size(), [&](Communicator& world) {
        std::vector<std::vector<float>> x(4, std::vector<float>(50000, 1));
        std::vector<Work> works;
        for (int i = 0; i < 4; ++i) {
          if (world.rank() == world.size() - 1 && i == round) fail(Where::current(), "enough");
          works.push_back(world.all_reduce_async(x[static_cast<size_t>(i)]));
        }
        for (Work& work : works) work.wait();
        world.barrier();
      });
    });
    CHECK(contains(text, "enough"));
    run_ranks(job.size(), [](Communicator& world) {
      std::vector<float> x(50000, 1);
      world.all_reduce(x);
      CHECK(std::count(x.begin(), x.end(), static_cast<float>(world.size())) == 50000);
    });
  }
}
