// run_ranks on processes. Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_ranks.hpp"

#include <doctest/doctest.h>

#include "support/refused.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// With one process there is no other to wait for or to differ from.
bool is_alone(const MpiRanks& job) {
  if (job.size() == 1) CHECK(run_ranks(1, [](Communicator&) {}).size() == 1);
  return job.size() == 1;
}

}  // namespace

TEST_CASE("the ranks are the processes; every process has every rank's ledger") {
  MpiRanks job;
  int ran = 0;
  const std::vector<RankReport> reports = run_ranks(job.size(), [&](Communicator& world) {
    ++ran;
    CHECK(world.rank() == job.rank());
    CHECK(context().rank == job.rank());
    CHECK(context().size == job.size());
    std::vector<float> x(100, 1.0f);
    world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "gradients"});
    CHECK(x[99] == static_cast<float>(world.size()));
    charge({"gelu", DType::f32, 10.0 * (world.rank() + 1), 1, 1});
  });
  CHECK(ran == 1);
  REQUIRE(std::ssize(reports) == job.size());
  for (int rank = 0; rank < job.size(); ++rank) {
    const Ledger& ledger = reports[static_cast<size_t>(rank)].ledger();
    CHECK(ledger.op("gelu").flops == 10 * (rank + 1));
    CHECK(ledger.traffic("gradients").bytes_sent ==
          all_reduce_ring_sent(job.size(), rank, 100, 4).bytes);
  }
}

TEST_CASE("fewer ranks than processes: the others wait, and hear all") {
  MpiRanks job;
  for (int n = 1; n <= job.size(); ++n) {
    int ran = 0;
    const auto reports = run_ranks(n, [&](Communicator& world) {
      ++ran;
      CHECK(world.size() == n);
      std::vector<double> x = {1.0};
      world.all_reduce(x);
      CHECK(x[0] == n);
      charge({"step", DType::f64, 1, 0, 0});
    });
    CHECK(ran == (job.rank() < n ? 1 : 0));
    REQUIRE(std::ssize(reports) == n);
    for (const RankReport& report : reports) CHECK(report.ledger().op("step").calls == 1);
  }
}

TEST_CASE("options of ranks over MPI that cannot be are refused") {
  const auto ranks = [](MpiOptions mpi) { return [=] { MpiRanks({{}, mpi}); }; };
  check_refused({
      {"MpiOptions::max_count is 0, expected a number from 1 to 2147483647",
       ranks({.max_count = 0})},
      {"MpiOptions::max_count is 4294967296", ranks({.max_count = int64_t{1} << 32})},
      {"MpiOptions::patience is -1", ranks({.patience = -1})},
  });
  MpiRanks job;  // and the next one is sound
  run_ranks(job.size(), [](Communicator& world) { world.barrier(); });
}

TEST_CASE("more ranks than processes are refused everywhere, with what to do") {
  MpiRanks job;
  const std::string said = message_of([&] { run_ranks(job.size() + 2, [](Communicator&) {}); });
  CHECK(
      contains(said, fmt::format("{} ranks are wanted, but mpirun has started {} processes; start "
                                 "it with -n {}",
                                 job.size() + 2, job.size(), job.size() + 2)));
  CHECK(run_ranks(job.size(), [](Communicator&) {}).size() == static_cast<size_t>(job.size()));
}

TEST_CASE("a rank that throws: the same error in every process, and the next run is sound") {
  MpiRanks job;
  const int last = job.size() - 1;
  for (int round = 0; round < 2; ++round) {
    try {
      run_ranks(job.size(), [&](Communicator& world) {
        std::vector<float> x(1000);
        if (world.rank() == last) throw std::runtime_error("the disk is full");
        world.all_reduce(x);
      });
      FAIL("nothing was thrown");
    } catch (const RankFailed& error) {
      CHECK(contains(error.what(), fmt::format("rank {} failed: the disk is full", last)));
    }
    run_ranks(job.size(), [&](Communicator& world) {
      std::vector<float> x = {1};
      world.all_reduce(x);
      CHECK(x[0] == static_cast<float>(world.size()));
    });
  }
}

TEST_CASE("errors of communication keep their kind in every process") {
  MpiRanks job;
  if (is_alone(job)) return;
  RunOptions options;
  options.timeout = 0.3;
  const auto waits_in_vain = [&] {
    run_ranks(
        2,
        [](Communicator& world) {
          std::vector<float> x(4);
          if (world.rank() == 1) world.recv(x, 0, 5);
          std::vector<float> y(4);  // rank 0 is there, and does something else
          if (world.rank() == 0) world.recv(y, 1, 6);
        },
        options);
  };
  CHECK_THROWS_AS(waits_in_vain(), CommError);
  CHECK(contains(message_of(waits_in_vain), "mpi_ranks_test.cpp:"));
}

TEST_CASE("a run on a described machine stays on threads, in every process") {
  MpiRanks job;
  const Timed run = run_on(cluster_named("h100x8"), 8, [](Communicator& world) {
    std::vector<float> x(1000, 1.0f);
    world.all_reduce(x);
    CHECK(x[0] == 8);
  });
  CHECK(run.reports.size() == 8);
  CHECK(run.seconds() > 0);
}

TEST_CASE("mirrored ranks, and tensors without data, need threads") {
  MpiRanks job;
  const auto mirrored = [&] {
    run_ranks(job.size(), [](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Communicator dp = world.mirrored({world.rank(), world.rank() + world.size()});
      Tensor x = Tensor::zeros({8});
      dp.all_reduce(x);
    });
  };
  CHECK(
      contains(message_of(mirrored), "on meta has no data that MPI could send; use thread ranks"));
}

TEST_CASE("processes that part are told who has done what") {
  MpiRanks job;
  if (is_alone(job)) return;
  const auto apart = [&] { run_ranks(job.rank() == 0 ? 1 : 2, [](Communicator&) {}); };
  CHECK(contains(message_of(apart), "the processes have diverged"));
  CHECK(contains(message_of(apart), "runs 1 ranks at mpi_ranks_test.cpp"));
  CHECK(contains(message_of(apart), "runs 2 ranks at mpi_ranks_test.cpp"));
}

TEST_CASE("a process that has ended with an error of its own is named to those who go on") {
  MpiRanks job;
  if (is_alone(job)) return;
  if (job.rank() == 1) {
    CHECK(job.end("cannot read /data/text.txt").empty());
  } else {
    const std::string said = message_of([&] { run_ranks(job.size(), [](Communicator&) {}); });
    CHECK(contains(said, "process 1 has ended: cannot read /data/text.txt"));
  }
}

TEST_CASE("at the end everybody hears what the others have ended with") {
  MpiRanks job;
  const std::vector<std::string> said = job.end(job.rank() == 0 ? "the disk is full" : "");
  REQUIRE(std::ssize(said) == job.size());
  CHECK(said[0] == "the disk is full");
  if (job.size() > 1) CHECK(said[1].empty());
  CHECK(job.end("again").empty());
}

TEST_CASE("without MpiRanks, ranks are threads again") {
  { const MpiRanks job; }
  CHECK(rank_host() == nullptr);
  CHECK(run_ranks(3, [](Communicator& world) { CHECK(world.size() == 3); }).size() == 3);
}
