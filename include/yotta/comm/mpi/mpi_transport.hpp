// MPI ranks: the ranks of a world are processes, on one machine or on many, and MPI moves the
// bytes.
//
//    Request send, recv (group, peer, tag)  ──►  MPI_Isend, MPI_Irecv, MPI_Test, in the group's MPI
//                                                communicator
//    Request native (all_reduce, ...)       ──►  MPI_Iallreduce, ...  (mpi_collectives.hpp)
//    a rank fails, waits forever, or calls  ──►  control messages  (mpi_control_plane.hpp)
//    something else
//
// Everything above (collectives, checks, ledger, errors) is the same code as on threads. Each group
// has an MPI communicator of its own, made by its members alone, so messages of different groups
// never meet:
//
//     group 0   the world's ranks   MPI communicator   id 0
//     group 3   ranks 1 3 5         another one        id: the same number on ranks 1, 3 and 5,
//                                                      whatever they call it
//
// Nothing here blocks inside MPI (except making groups), so a rank that waits always hears when
// another fails.
//
// MPI may copy what MPI_Isend is given and say at once that it is done. A program that relies on
// that hangs as soon as its messages are longer than MPI's buffers. With MPI_Issend a send is done
// when its receiver takes it, so the mistake shows at any length.
//
// Any MPI 3.1. Programs use it through MpiRanks (mpi_ranks.hpp), which defines YOTTA_HAVE_MPI where
// <mpi.h> is; without that this header is empty.
//
// Contract: MPI cannot cancel a send or a collective. So after a failure, what MPI may still touch
// is never freed: the world's communicators, and the state of a collective in flight. The user's
// arrays are released when the operation has ended, or, after every rank has heard of the failure,
// when everything in flight had time to end: a second, and 20 ms per MB of this rank's.
// Reference: MPI: A Message-Passing Interface Standard, version 3.1, chapters 3 (3.4 modes, 3.7
// requests), 5 and 6.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/matching/message_matcher.hpp"
#include "yotta/comm/mpi/mpi_collectives.hpp"
#include "yotta/comm/mpi/mpi_control_plane.hpp"
#include "yotta/comm/mpi/mpi_options.hpp"

namespace yotta {

// --- groups ---

// What the transport of a rank knows of it, and the MPI communicator of each group.
struct MpiState : WorldState {
  std::deque<MpiComm> comms;  // by group

  MPI_Comm comm_of(const Request& request) const {
    return comms[static_cast<size_t>(request.group)].get();
  }
};

// The MPI communicator of a group with this id, whose members, world ranks, make it together. MPI
// waits for them forever.
inline MpiComm make_mpi_group(MPI_Comm world, uint64_t id, std::span<const int> members) {
  MPI_Group all, some;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_group(world, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  const int tag = static_cast<int>(id % 32768);  // for groups that are made at the same time
  const int code = MPI_Comm_create_group(world, some, tag, &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  expect_mpi(code, "MPI_Comm_create_group", Where::current());
  return MpiComm(comm);
}

// Even tags are the user's. Odd tags are those of collectives; they may repeat, since collectives
// run in order.
inline int mpi_tag(const Request& request) {
  constexpr int64_t half = 16384;  // MPI promises tags up to 32767
  if (request.tag < 0) return static_cast<int>(2 * (~request.tag % half) + 1);
  if (request.tag >= half)
    fail(request.call->where, "with MPI a tag is below {}, not {}", half, request.tag);
  return static_cast<int>(2 * request.tag);
}

// --- messages ---

// Request::handle holds an MPI_Request, which is a pointer or an int.
static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t));
inline void put_handle(Request& request, MPI_Request handle) {
  std::memcpy(&request.handle, &handle, sizeof handle);
}
inline MPI_Request get_handle(const Request& request) {
  MPI_Request handle;
  std::memcpy(&handle, &request.handle, sizeof handle);
  return handle;
}

// Starts it in a group with this communicator. `max_count`: as for MpiRun.
inline void start_message(Request& request, const WorldGroup& group, MPI_Comm comm,
                          int64_t max_count, bool synchronous) {
  const MpiRun run(request.data.count, request.data.dtype, max_count);
  const int peer = group.rank_of(request.peer), tag = mpi_tag(request);
  MPI_Request handle = MPI_REQUEST_NULL;
  if (request.kind == Request::Kind::recv) {
    expect_mpi(MPI_Irecv(request.data.bytes, run.count(), run.type(), peer, tag, comm, &handle),
               "MPI_Irecv", request.call->where);
  } else {
    const auto start = synchronous ? MPI_Issend : MPI_Isend;
    expect_mpi(start(request.data.bytes, run.count(), run.type(), peer, tag, comm, &handle),
               "MPI_Isend", request.call->where);
  }
  put_handle(request, handle);
}

// How a message has ended. MPI touches its data no more, also when it has failed.
struct MpiArrival {
  int code = MPI_SUCCESS;
  MPI_Status status = {};
};
// Empty while it is on its way. Never blocks.
inline std::optional<MpiArrival> test_message(Request& request) {
  MPI_Request handle = get_handle(request);
  MpiArrival arrival;
  int done = 0;
  arrival.code = MPI_Test(&handle, &done, &arrival.status);
  put_handle(request, handle);
  if (arrival.code == MPI_SUCCESS && done == 0) return {};
  return arrival;
}
// Throws the error of a message on rank `rank`: Mismatch, if the sender's count is not the
// receiver's.
inline void expect_arrived(const Request& request, int rank, const MpiArrival& arrival) {
  const Where where = request.call->where;
  const int code = arrival.code;
  if (request.kind == Request::Kind::send) return expect_mpi(code, "MPI_Isend", where);
  if (code != MPI_SUCCESS && mpi_error_class(code) != MPI_ERR_TRUNCATE)
    expect_mpi(code, "MPI_Irecv", where);
  const int64_t count = code == MPI_SUCCESS ? numbers_in(arrival.status, request.data.dtype) : -1;
  if (count == request.data.count) return;
  const std::string sent = count < 0 ? "more" : std::to_string(count);
  throw Mismatch(where, describe_different_sizes(sent, request, rank));
}

// A receive can be cancelled; a send cannot.
inline void cancel_message(const Request& request) {
  MPI_Request handle = get_handle(request);
  if (request.kind == Request::Kind::recv) MPI_Cancel(&handle);
}
// Leaves a message that is still in flight to MPI, and never tests it again.
inline void release_message(Request& request) {
  MPI_Request handle = get_handle(request);
  if (handle != MPI_REQUEST_NULL) MPI_Request_free(&handle);
  put_handle(request, MPI_REQUEST_NULL);
}

// --- error messages ---

// Says what the peer has sent with another tag; empty if nothing.
inline std::string find_other_tag(const MpiState& state, const Request& wanted) {
  const WorldGroup& group = state.group_of(wanted);
  int arrived = 0;
  MPI_Status status;
  MPI_Iprobe(group.rank_of(wanted.peer), MPI_ANY_TAG, state.comm_of(wanted), &arrived, &status);
  if (arrived == 0 || status.MPI_TAG % 2 != 0) return "";
  return fmt::format("rank {} has sent tag {}, rank {} waits for tag {}", wanted.peer,
                     status.MPI_TAG / 2, state.rank, wanted.tag);
}

// At the end of all ranks: describes the first message that came and was not received; empty if
// there is none. All of them are taken from MPI, so that the communicators can be freed.
inline std::string take_unreceived(const MpiState& state) {
  std::string first;
  for (size_t number = 0; number < state.groups.size(); ++number)
    for (;;) {
      const WorldGroup& group = state.groups[number];
      const MPI_Comm comm = state.comms[number].get();
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &arrived, &status);
      if (arrived == 0) break;
      const int64_t bytes = numbers_in(status, DType::u8);
      if (first.empty())
        first = describe_unreceived(group.members[static_cast<size_t>(status.MPI_SOURCE)], bytes,
                                    status.MPI_TAG / 2, state.rank);
      std::vector<std::byte> bytes_of_it(static_cast<size_t>(bytes));
      const MpiRun run(bytes, DType::u8, std::numeric_limits<int>::max());
      MPI_Recv(bytes_of_it.data(), run.count(), run.type(), status.MPI_SOURCE, status.MPI_TAG, comm,
               MPI_STATUS_IGNORE);
    }
  return first;
}

// --- the transport ---

class MpiTransport : public Transport {
 public:
  // All processes of `over` make one together. Errors: MPI has not been started, or not for
  // threads.
  explicit MpiTransport(MPI_Comm over = MPI_COMM_WORLD, const MpiOptions& options = {},
                        Where where = Where::current())
      : options_(options), control_plane_(over, expect_mpi_started(where), where) {
    std::vector<int>& members = state_.groups.emplace_back().members;
    members.resize(static_cast<size_t>(size()));
    std::iota(members.begin(), members.end(), 0);
    state_.rank = rank();
    state_.comms.push_back(MpiComm::duplicate(over, where));
  }
  ~MpiTransport() override {
    for (MpiComm& comm : state_.comms)
      if (!ended_) comm.abandon();
  }
  int rank() const override { return control_plane_.rank(); }
  int size() const override { return control_plane_.size(); }

  // --- messages and collectives ---
  void post(Request& request) override {
    const Where where = request.call->where;
    expect_on_cpu(request.data, where);
    check(where);
    start_message(request, state_.group_of(request), state_.comm_of(request), options_.max_count,
                  options_.synchronous_sends);
    started(request);
  }
  bool has_native(ConstData whole) const override { return whole.device == Device::cpu; }
  void post(Request& request, const NativeCall& call) override {
    const Where where = request.call->where;
    expect_on_cpu(call.out, where);
    check(where);
    state_.group_of(request).last_native = -1 - request.tag;
    request.handle = reinterpret_cast<uintptr_t>(new InFlight{call, {}});
    if (!compares(state_.group_of(request))) start(request);
    started(request);
  }

  bool test(Request& request) override {
    if (request.done) return true;
    if (request.kind == Request::Kind::native) return test_native(request);
    const std::optional<MpiArrival> arrival = test_message(request);
    if (!arrival) return false;
    finished(request);
    expect_arrived(request, rank(), *arrival);
    return true;
  }

  // A receive is cancelled. A send or a collective cannot be.
  void withdraw(Request& request) override {
    if (state_.in_flight.count(&request) == 0) return;  // post() has thrown
    if (request.kind == Request::Kind::native) return withdraw_native(request);
    cancel_message(request);
    settle([&] { return test_message(request).has_value(); });
    release_message(request);
    finished(request);
  }

  void sleep(std::span<const Waiting> strands, double seconds) override {
    control_plane_.tested();
    control_plane_.look();
    check(strands[0].where);
    if (control_plane_.should_report(options_.patience, state_of(strands)))
      control_plane_.report(
          report_waits(state_, strands, control_plane_.epoch(),
                       [this](const Request& recv) { return find_other_tag(state_, recv); }));
    const double seconds_asleep =
        control_plane_.seconds_still() < 0.01 || moves_much(strands) ? 20e-6 : 500e-6;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, seconds_asleep)));
  }
  void awake() override { control_plane_.moved(0); }

  // --- failures and the end ---
  bool failed() const override { return control_plane_.failed(); }
  void check(Where where) override { control_plane_.check(where); }
  void fail(const std::string& message) override { control_plane_.fail(message); }
  void end(Where where) override {
    if (failed()) return control_plane_.check_at_end(where);
    WaitReport returned;
    returned.state = RankWait::State::returned;
    control_plane_.report(returned);
    MPI_Request all = MPI_REQUEST_NULL;
    expect_mpi(MPI_Ibarrier(state_.comms[0].get(), &all), "MPI_Ibarrier", where);
    poll_until([&] {
      int done = 0;
      MPI_Test(&all, &done, MPI_STATUS_IGNORE);
      if (done == 0) control_plane_.look();
      return done != 0 || failed();
    });
    if (failed()) return control_plane_.check_at_end(where);
    poll_until([&] { return control_plane_.close() || failed(); });
    if (failed()) return control_plane_.check_at_end(where);
    const std::string unreceived = take_unreceived(state_);
    ended_ = true;
    if (!unreceived.empty()) throw CommError(where, unreceived);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const uint64_t id = group_id(state_.groups[static_cast<size_t>(parent)].id, sequence, color);
    if (!control_plane_.all_ready(id, members)) check(Where::current());
    state_.comms.push_back(make_mpi_group(state_.comms[0].get(), id, members));
    state_.groups.push_back({{members.begin(), members.end()}, id, -1});
    return static_cast<int>(state_.groups.size()) - 1;
  }
  // There is no shared memory to meet in: this only has the calls compared.
  CollectiveRendezvous* enter(int number, int64_t collective, const Call& call) override {
    const WorldGroup& group = state_.groups[static_cast<size_t>(number)];
    const auto ranks = static_cast<int64_t>(group.members.size());
    const bool native = std::string_view(call.algorithm) == name(Algorithm::native);
    if (compares(group))
      control_plane_.compare(group.id, collective, static_cast<int>(ranks),
                             group.members[static_cast<size_t>(collective % ranks)], native, call);
    return nullptr;
  }

 private:
  static void expect_on_cpu(ConstData data, Where where) {
    if (data.device == Device::meta)
      yotta::fail(where, "a tensor on meta has no data that MPI could send; use thread ranks");
    if (data.device == Device::cuda)
      yotta::fail(
          where, "MPI moves what is in the CPU's memory; run with --comm nccl for tensors on cuda");
  }
  // A rank that has waited long may sleep longer. But MPI moves a long message piece by piece, a
  // few per test.
  static bool moves_much(std::span<const Waiting> strands) {
    for (const Waiting& strand : strands)
      for (const Request* request : strand.requests)
        if (request != nullptr && request->data.nbytes() > 1 << 20) return true;
    return false;
  }
  void started(Request& request) {
    request.owner = rank();
    state_.in_flight.insert(&request);
    control_plane_.moved(1);
  }
  void finished(Request& request) {
    state_.in_flight.erase(&request);
    request.done = true;
    control_plane_.moved(-1);
  }

  // A collective of MPI. Where calls are compared it starts when all ranks have called the same,
  // since different calls make MPI fail in many ways, or hang.
  struct InFlight {
    NativeCall call;
    std::optional<MpiCollective> running;  // empty: it has not started
  };
  static InFlight& in_flight_of(const Request& request) {
    return *reinterpret_cast<InFlight*>(request.handle);
  }
  bool compares(const WorldGroup& group) const {
    return options_.compare_calls && group.members.size() > 1;
  }
  void start(Request& request) {
    InFlight& collective = in_flight_of(request);
    collective.running.emplace(state_.comm_of(request), collective.call, options_.max_count,
                               mpi_tag(request), request.call->where);
  }
  bool test_native(Request& request) {
    InFlight& collective = in_flight_of(request);
    if (!collective.running) {
      if (failed() || !control_plane_.is_confirmed(state_.group_of(request).id, -1 - request.tag))
        return false;
      start(request);
    }
    try {
      if (!collective.running->test()) return false;
    } catch (const CommError& error) {
      // If the calls differ, the control message that says so may be on its way.
      poll_until([&] { return control_plane_.look(), failed(); },
                 options_.compare_calls ? ControlPlane::seconds_to_compare : 0);
      check(request.call->where);
      fail(error.what());
      throw;  // not done: MPI may still move other messages of this collective
    }
    delete &collective;
    finished(request);
    return true;
  }
  void withdraw_native(Request& request) {
    if (!failed()) fail(fmt::format("{} was given up", request.call->operation));
    bool done = !in_flight_of(request).running;
    settle([&] {
      try {
        done = done || in_flight_of(request).running->test();
      } catch (const CommError&) {  // of one of its messages; the others are in flight
      }
      return done;
    });
    if (done) delete &in_flight_of(request);  // else MPI may still read it
    finished(request);
  }
  // Waits until done(), or until all ranks have heard of the failure and what was in flight has had
  // time to arrive: MPI would write it into an array that no longer exists.
  template <class Done>
  void settle(Done done) {
    poll_until([&] { return done() || control_plane_.all_have_heard(); }, 2);
    const auto now = std::chrono::steady_clock::now();
    if (!settled_by_)
      settled_by_ = now + std::chrono::milliseconds(1000 + bytes_in_flight() / 50000);
    const std::chrono::duration<double> left = *settled_by_ - now;
    poll_until(done, std::max(0.0, left.count()));
  }
  int64_t bytes_in_flight() const {
    int64_t bytes = 0;
    for (const Request* request : state_.in_flight) {
      const bool native = request->kind == Request::Kind::native;
      bytes += native ? in_flight_of(*request).call.in.nbytes() +
                            in_flight_of(*request).call.out.nbytes()
                      : request->data.nbytes();
    }
    return bytes;
  }

  MpiOptions options_;
  MpiControlPlane control_plane_;
  MpiState state_;
  std::optional<std::chrono::steady_clock::time_point> settled_by_;  // after a failure
  bool ended_ = false;  // without an error: nothing is in flight
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
