// MPI ranks: the ranks of a world are processes, on one machine or on many, and MPI moves the bytes.
//
//     Request send, recv (group, peer, tag)  ──►  MPI_Isend, MPI_Irecv in that group's MPI communicator
//     Request native (all_reduce, ...)       ──►  MPI_Iallreduce, ...                      mpi_native.hpp
//     test                                   ──►  MPI_Test
//     a rank fails, waits for ever, or calls something else  ──►  letters beside them      mpi_lookout.hpp
//
// Everything above (collectives, checks, ledger, errors) is the same code as on threads. Each group has
// an MPI communicator of its own, made by its members, so messages of different groups never meet. Nothing here
// blocks inside MPI (but for making groups), so a rank that waits always hears when another fails.
//
// Any MPI 3.1. Without YOTTA_HAVE_MPI, which CMake defines where it finds MPI, this header is empty. Programs use
// it through MpiRanks (mpi_ranks.hpp).
//
// Contract: after a failure, what MPI may still touch is never freed: the world's communicators, and what of a
// collective is in flight. MPI cannot cancel a collective: the user's memory is his again when it has ended, or a
// second after every rank has heard of the failure.
// Reference: MPI: A Message-Passing Interface Standard, version 3.1, chapters 3, 5 and 6.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <algorithm>
#include <numeric>
#include <optional>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/mpi_lookout.hpp"
#include "yotta/comm/mpi_native.hpp"
#include "yotta/comm/mpi_report.hpp"

namespace yotta {

struct MpiOptions {
  int64_t most = std::numeric_limits<int>::max();  // numbers in one call of MPI
  double patience = 1;                             // seconds after which a rank says that it waits
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls =
      true;  // of collectives, as they start: a letter a rank. Else when they wait too long
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
    state_.groups.push_back({MpiComm::duplicate(over, where), std::move(everybody)});
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
    const MpiGroup& group = state_.group_of(request);
    const int peer = group.rank_of(request.peer), tag = mpi_tag(request);
    const MpiRun run(request.data.count, request.data.dtype, options_.most);
    MPI_Request handle = MPI_REQUEST_NULL;
    if (request.kind == Request::Kind::send)
      expect_mpi(MPI_Isend(request.data.bytes, run.count(), run.type(), peer, tag, group.comm.get(),
                           &handle),
                 "MPI_Isend", where);
    else
      expect_mpi(MPI_Irecv(request.data.bytes, run.count(), run.type(), peer, tag, group.comm.get(),
                           &handle),
                 "MPI_Irecv", where);
    put_handle(request, handle);
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
    MPI_Request handle = get_handle(request);
    MPI_Status status;
    int done = 0;
    const int code = MPI_Test(&handle, &done, &status);
    put_handle(request, handle);
    if (code == MPI_SUCCESS && done == 0) return false;
    finished(request);  // also when it has failed: MPI has let go of it
    expect_arrived(request, code, status);
    return true;
  }

  // A receive is cancelled; a send, or a collective, cannot be.
  void withdraw(Request& request) override {
    if (state_.in_flight.count(&request) == 0) return;  // it was never posted: that has failed
    if (request.kind == Request::Kind::native) return withdraw_native(request);
    MPI_Request handle = get_handle(request);
    if (request.kind == Request::Kind::recv) MPI_Cancel(&handle);
    settle([&] {
      int done = 0;
      return MPI_Test(&handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
    if (handle != MPI_REQUEST_NULL) MPI_Request_free(&handle);
    finished(request);
  }

  void sleep(std::span<const Waiting> strands, double seconds) override {
    lookout_.look();
    check(strands[0].where);
    const auto now = std::chrono::steady_clock::now();
    const int64_t epoch = lookout_.epoch();
    if (std::exchange(seen_epoch_, epoch) != epoch) {
      still_since_ = now;
      reported_ = false;
    }
    const double still = std::chrono::duration<double>(now - still_since_).count();
    if (!reported_ && still > options_.patience) {
      lookout_.report(report_waits(state_, strands, epoch));
      reported_ = true;
    }
    const double nap = still < 0.01 ? 20e-6 : 500e-6;  // who has waited long may wake up late
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, nap)));
  }

  // --- failures and the end ---
  bool failed() const override { return lookout_.failed(); }
  void check(Where where) override { lookout_.check(where); }
  void fail(const std::string& message) override { lookout_.fail(message); }
  void end(Where where) override {
    if (failed()) return;  // and the rank has caught what it was told
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
    if (failed()) return;  // who has failed says why
    look_in_naps([&] { return lookout_.close(); });
    const std::string unreceived = take_unreceived(state_);
    ended_ = true;
    if (!unreceived.empty()) throw CommError(where, unreceived);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const MpiGroup& parent_group = state_.groups[static_cast<size_t>(parent)];
    state_.groups.push_back(
        make_mpi_group(state_.groups[0], parent_group, sequence, color, members));
    return static_cast<int>(state_.groups.size()) - 1;
  }
  // Not a meeting place: only to have the calls compared.
  Gathering* enter(int number, int64_t collective, const Call& call) override {
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
  void expect_arrived(const Request& request, int code, const MPI_Status& status) const {
    const Where where = request.call->where;
    if (request.kind == Request::Kind::send) return expect_mpi(code, "MPI_Isend", where);
    if (code != MPI_SUCCESS && mpi_error_class(code) != MPI_ERR_TRUNCATE)
      expect_mpi(code, "MPI_Irecv", where);
    const int64_t count = code == MPI_SUCCESS ? numbers_in(status, request.data.dtype) : -1;
    if (count == request.data.count) return;
    fail_as<Mismatch>(where,
                      "both sides of a message must name the same count and type.\n"
                      "  rank {} sends {}\n  rank {} receives {} {} at {}",
                      request.peer, count < 0 ? "more" : std::to_string(count), rank(),
                      request.data.count, name(request.data.dtype), at(where));
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
    const Where where = request.call->where;
    if (!native_of(request).running) {
      if (failed() || !lookout_.all_call(state_.group_of(request).id, -1 - request.tag))
        return false;
      start(request);
    }
    bool done = true;
    std::exception_ptr error;
    try {
      done = native_of(request).running->test();
    } catch (const CommError&) {
      error = std::current_exception();
    }
    if (!done) return false;
    delete &native_of(request);
    finished(request);
    if (!error) return true;
    // The letter that says why may be on its way: calls that differ make MPI fail in many ways.
    look_in_naps([&] { return lookout_.look(), failed(); },
                 options_.compare_calls ? options_.patience : 0);
    check(where);
    std::rethrow_exception(error);
  }
  void withdraw_native(Request& request) {
    if (!failed()) fail(fmt::format("{} was given up", request.call->operation));
    bool done = !native_of(request).running;
    settle([&] {
      try {
        done = done || native_of(request).running->test();
      } catch (const CommError&) {
        done = true;
      }
      return done;
    });
    if (done) delete &native_of(request);  // else MPI may read it for ever
    finished(request);
  }
  // Waits until done(), or until all ranks have heard of the failure and what was on its way has had a second to
  // arrive: MPI would write it into a buffer that has gone.
  template <class Done>
  void settle(Done done) {
    look_in_naps([&] { return done() || lookout_.all_have_heard(); }, 2);
    if (!arrived_by_) arrived_by_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const std::chrono::duration<double> left = *arrived_by_ - std::chrono::steady_clock::now();
    look_in_naps(done, std::max(0.0, left.count()));
  }
  // Request::handle holds an MPI_Request, a pointer or an int.
  static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t));
  static void put_handle(Request& request, MPI_Request handle) {
    std::memcpy(&request.handle, &handle, sizeof handle);
  }
  static MPI_Request get_handle(const Request& request) {
    MPI_Request handle;
    std::memcpy(&handle, &request.handle, sizeof handle);
    return handle;
  }

  MpiOptions options_;
  MpiLookout lookout_;
  MpiState state_;
  int64_t seen_epoch_ = -1;  // since when nothing has moved, and whether that has been reported
  std::chrono::steady_clock::time_point still_since_;
  bool reported_ = false;
  std::optional<std::chrono::steady_clock::time_point> arrived_by_;  // after a failure
  bool ended_ = false;                                               // well: nothing is in flight
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
