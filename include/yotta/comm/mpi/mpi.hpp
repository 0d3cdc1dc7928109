// MPI ranks: the ranks of a world are processes, on one machine or on many, and MPI moves the bytes.
//
//     Request send, recv (group, peer, tag)  ──►  MPI_Isend, MPI_Irecv, MPI_Test           mpi_message.hpp
//       in that group's MPI communicator                                                   mpi_group.hpp
//     Request native (all_reduce, ...)       ──►  MPI_Iallreduce, ...                      mpi_native.hpp
//     a rank fails, waits for ever, or calls something else  ──►  letters beside them      mpi_control_plane.hpp
//
// Everything above (collectives, checks, ledger, errors) is the same code as on threads. Each group has
// an MPI communicator of its own, made by its members, so messages of different groups never meet. Nothing here
// blocks inside MPI (but for making groups), so a rank that waits always hears when another fails.
//
// Any MPI 3.1. Without YOTTA_HAVE_MPI, which CMake defines where it finds MPI, this header is empty. Programs use
// it through MpiRanks (mpi_ranks.hpp).
//
// Contract: after a failure, what MPI may still touch is never freed: the world's communicators, and what of a
// collective is in flight. MPI cannot cancel a send or a collective: the user's memory is his again when it has ended, or
// when, after every rank has heard of the failure, there was time enough for all that was in flight: a second, and 20 ms
// for each MB of this rank's.
// Reference: MPI: A Message-Passing Interface Standard, version 3.1, chapters 3, 5 and 6.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <algorithm>
#include <numeric>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/mpi/mpi_control_plane.hpp"
#include "yotta/comm/mpi/mpi_message.hpp"
#include "yotta/comm/mpi/mpi_native.hpp"
#include "yotta/comm/mpi/mpi_report.hpp"

namespace yotta {

struct MpiOptions {
  int64_t most = std::numeric_limits<int>::max();  // numbers in one call of MPI
  double patience = 1;                             // seconds after which a rank says that it waits
  bool synchronous_sends = false;                  // a send is done when its receiver takes it
  // Of collectives, as they start, for a letter a rank; else calls that differ are seen when they wait too long.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

class MpiTransport : public Transport {
 public:
  // All processes of `over` make one together. Errors: MPI is not started, or not for threads.
  explicit MpiTransport(MPI_Comm over = MPI_COMM_WORLD, const MpiOptions& options = {},
                        Where where = Where::current())
      : options_(options), lookout_(over, expect_mpi_started(where), where) {
    std::vector<int> everybody(static_cast<size_t>(size()));
    std::iota(everybody.begin(), everybody.end(), 0);
    state_.rank = rank();
    state_.groups.emplace_back(MpiComm::duplicate(over, where), everybody);
  }
  ~MpiTransport() override {
    for (MpiGroup& group : state_.groups)
      if (!ended_) group.comm.abandon();
  }
  int rank() const override { return lookout_.rank(); }
  int size() const override { return lookout_.size(); }

  // --- messages and collectives ---
  void post(Request& request) override {
    const Where where = request.call->where;
    expect_on_cpu(request.data, where);
    check(where);
    start_message(request, state_.group_of(request), options_.most, options_.synchronous_sends);
    started(request);
  }
  bool has_native(ConstData whole) const override { return whole.device == Device::cpu; }
  void post(Request& request, const NativeCall& call) override {
    const Where where = request.call->where;
    expect_on_cpu(call.out, where);
    check(where);
    state_.group_of(request).last_native = -1 - request.tag;
    request.handle = reinterpret_cast<uintptr_t>(new Native{call, {}});
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

  // A receive is cancelled; a send, or a collective, cannot be.
  void withdraw(Request& request) override {
    if (state_.in_flight.count(&request) == 0) return;  // it was never posted: that has failed
    if (request.kind == Request::Kind::native) return withdraw_native(request);
    cancel_message(request);
    settle([&] { return test_message(request).has_value(); });
    leave_message(request);
    finished(request);
  }

  void sleep(std::span<const Waiting> strands, double seconds) override {
    lookout_.tested();
    lookout_.look();
    check(strands[0].where);
    if (lookout_.should_report(options_.patience))
      lookout_.report(report_waits(state_, strands, lookout_.epoch()));
    const double nap = lookout_.still() < 0.01 || moves_much(strands) ? 20e-6 : 500e-6;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, nap)));
  }

  // --- failures and the end ---
  bool failed() const override { return lookout_.failed(); }
  void check(Where where) override { lookout_.check(where); }
  void fail(const std::string& message) override { lookout_.fail(message); }
  void end(Where where) override {
    if (failed()) return lookout_.check_at_end(where);
    WaitReport returned;
    returned.state = RankWait::State::returned;
    lookout_.report(returned);
    MPI_Request all = MPI_REQUEST_NULL;
    expect_mpi(MPI_Ibarrier(state_.groups[0].comm.get(), &all), "MPI_Ibarrier", where);
    look_in_naps([&] {
      int done = 0;
      MPI_Test(&all, &done, MPI_STATUS_IGNORE);
      if (done == 0) lookout_.look();
      return done != 0 || failed();
    });
    if (failed()) return lookout_.check_at_end(where);
    look_in_naps([&] { return lookout_.close() || failed(); });
    if (failed()) return lookout_.check_at_end(where);
    const std::string unreceived = take_unreceived(state_);
    ended_ = true;
    if (!unreceived.empty()) throw CommError(where, unreceived);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const uint64_t id = group_id(state_.groups[static_cast<size_t>(parent)].id, sequence, color);
    if (!lookout_.all_come(id, members)) check(Where::current());
    state_.groups.push_back(make_mpi_group(state_.groups[0], id, members));
    return static_cast<int>(state_.groups.size()) - 1;
  }
  // Not a meeting place: only to have the calls compared.
  CollectiveRendezvous* enter(int number, int64_t collective, const Call& call) override {
    const MpiGroup& group = state_.groups[static_cast<size_t>(number)];
    const auto ranks = static_cast<int64_t>(group.members.size());
    const bool native = std::string_view(call.algorithm) == name(Algorithm::native);
    if (compares(group))
      lookout_.compare(group.id, collective, static_cast<int>(ranks),
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
  // Who has waited long may wake up late; but MPI moves a long message piece by piece, one or a few a look.
  static bool moves_much(std::span<const Waiting> strands) {
    for (const Waiting& strand : strands)
      for (const Request* request : strand.requests)
        if (request != nullptr && request->data.nbytes() > 1 << 20) return true;
    return false;
  }
  void started(Request& request) {
    request.owner = rank();
    state_.in_flight.insert(&request);
    lookout_.moved(1);
  }
  void finished(Request& request) {
    state_.in_flight.erase(&request);
    request.done = true;
    lookout_.moved(-1);
  }

  // A collective of MPI. Where calls are compared it starts when all ranks have called the same: what MPI makes of
  // different ones is anything from an error to a hang.
  struct Native {
    NativeCall call;
    std::optional<MpiNative> running;
  };
  static Native& native_of(const Request& request) {
    return *reinterpret_cast<Native*>(request.handle);
  }
  bool compares(const MpiGroup& group) const {
    return options_.compare_calls && group.members.size() > 1;
  }
  void start(Request& request) {
    Native& native = native_of(request);
    native.running.emplace(state_.group_of(request).comm.get(), native.call, options_.most,
                           mpi_tag(request), request.call->where);
  }
  bool test_native(Request& request) {
    Native& native = native_of(request);
    if (!native.running) {
      if (failed() || !lookout_.all_call(state_.group_of(request).id, -1 - request.tag))
        return false;
      start(request);
    }
    try {
      if (!native.running->test()) return false;
    } catch (const CommError& error) {
      // The letter that says why may be on its way: calls that differ make MPI fail in many ways.
      look_in_naps([&] { return lookout_.look(), failed(); },
                   options_.compare_calls ? options_.patience : 0);
      check(request.call->where);
      fail(error.what());
      throw;  // not done: MPI may still move others of its messages
    }
    delete &native;
    finished(request);
    return true;
  }
  void withdraw_native(Request& request) {
    if (!failed()) fail(fmt::format("{} was given up", request.call->operation));
    bool done = !native_of(request).running;
    settle([&] {
      try {
        done = done || native_of(request).running->test();
      } catch (const CommError&) {  // one of its messages; what of the others?
      }
      return done;
    });
    if (done) delete &native_of(request);  // else MPI may read it for ever
    finished(request);
  }
  // Waits until done(), or until all ranks have heard of the failure and what was on its way has had time to arrive: MPI
  // would write it into a buffer that has gone.
  template <class Done>
  void settle(Done done) {
    look_in_naps([&] { return done() || lookout_.all_have_heard(); }, 2);
    const auto now = std::chrono::steady_clock::now();
    if (!arrived_by_)
      arrived_by_ = now + std::chrono::milliseconds(1000 + bytes_in_flight() / 50000);
    const std::chrono::duration<double> left = *arrived_by_ - now;
    look_in_naps(done, std::max(0.0, left.count()));
  }
  int64_t bytes_in_flight() const {
    int64_t bytes = 0;
    for (const Request* request : state_.in_flight) {
      const bool native = request->kind == Request::Kind::native;
      bytes += native ? native_of(*request).call.in.nbytes() + native_of(*request).call.out.nbytes()
                      : request->data.nbytes();
    }
    return bytes;
  }

  MpiOptions options_;
  MpiLookout lookout_;
  MpiState state_;
  std::optional<std::chrono::steady_clock::time_point> arrived_by_;  // after a failure
  bool ended_ = false;                                               // well: nothing is in flight
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
