// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/mpi_report.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a rank reports what it waits for, and the message with the wrong tag") {
  MpiState state;
  const std::vector<int> alone = {0};
  state.groups.emplace_back(MpiComm::duplicate(MPI_COMM_SELF, Where::current()), alone);
  state.groups[0].last_native = 3;
  const Call call{"recv", 4, DType::f32, -1, "", "", Where::current()};
  Request request;
  request.kind = Request::Kind::recv;
  request.call = &call;
  request.tag = 8;
  state.in_flight.insert(&request);
  const Waiting waiting{&call, call.where, {&request, nullptr}, -1};
  const std::span<const Waiting> strands(&waiting, 1);
  WaitReport report = report_waits(state, strands, 12);
  CHECK(report.state == RankWait::State::waits);
  CHECK(report.epoch == 12);
  CHECK(report.natives.at(0) == 3);
  REQUIRE(report.strands.size() == 1);
  CHECK(report.strands[0].words.doing == "recv of 4 f32 with tag 8");
  CHECK(report.strands[0].words.hint.empty());
  CHECK(report.pending[0].tag == 8);

  int sent = 1;
  MPI_Request handle;
  MPI_Isend(&sent, 1, MPI_INT, 0, 2 * 7, state.groups[0].comm.get(), &handle);
  while (report.strands[0].words.hint.empty()) report = report_waits(state, strands, 12);
  CHECK(report.strands[0].words.hint == "rank 0 has sent tag 7, rank 0 waits for tag 8");
  CHECK(take_unreceived(state) ==
        "rank 0 sent 4 bytes with tag 7 to rank 0, which ended without receiving it");
  MPI_Wait(&handle, MPI_STATUS_IGNORE);
  CHECK(take_unreceived(state).empty());
}
