// MPI ranks: the ranks of a world are processes, on one machine or on many, and MPI moves the bytes.
//
//     Request (group, peer, tag, data)  ──►  MPI_Isend / MPI_Irecv in that group's MPI communicator
//     test                              ──►  MPI_Test
//     a rank has failed                 ──►  its message, by MPI, to all others, who look for it while waiting
//
// Everything above (collectives, checks, ledger, errors) is the same code as on threads. Each group has
// an MPI communicator of its own, made by its members, so messages of different groups never meet.
//
// Without YOTTA_HAVE_MPI, which CMake defines where it finds MPI, this header is empty. Start with
// mpirun -n 4 program, and in it:
//
//     MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//     run_mpi([](Communicator& world) { ... });
//     MPI_Finalize();
//
// What MPI cannot tell us stays unseen: a deadlock shows as a Timeout, and a send is not compared with
// its receive before the receive is over.
// Reference: MPI: A Message-Passing Interface Standard, version 3.1, chapters 3 and 6.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <mpi.h>

#include <chrono>
#include <deque>
#include <limits>
#include <numeric>
#include <thread>

#include "yotta/comm/communicator.hpp"

namespace yotta {

// Throws what MPI says went wrong. `call` is the name of the function that returned `code`.
inline void expect_mpi(int code, const char* call, Where where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail_as<CommError>(where, "{}: {}", call, std::string_view(text, static_cast<size_t>(length)));
}

// An MPI communicator that reports errors to us instead of ending the program.
class MpiGroup {
 public:
  MpiGroup(MPI_Comm comm, std::vector<int> members) : comm_(comm), members_(std::move(members)) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  MpiGroup(MpiGroup&& other) noexcept
      : comm_(std::exchange(other.comm_, MPI_COMM_NULL)), members_(std::move(other.members_)) {}
  MpiGroup& operator=(MpiGroup&&) = delete;
  ~MpiGroup() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (comm_ != MPI_COMM_NULL && finalized == 0) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }

  // The rank here of a rank of the world.
  int rank_of(int world_rank) const {
    const auto found = std::find(members_.begin(), members_.end(), world_rank);
    return static_cast<int>(found - members_.begin());
  }

 private:
  MPI_Comm comm_;
  std::vector<int> members_;  // world ranks
};

class MpiTransport : public Transport {
 public:
  // All processes of `over` make one together. Errors: MPI is not started, or not for threads.
  explicit MpiTransport(MPI_Comm over = MPI_COMM_WORLD, Where where = Where::current())
      : control_(duplicate(over, where), {}) {
    MPI_Comm_rank(control_.get(), &rank_);
    MPI_Comm_size(control_.get(), &size_);
    std::vector<int> everybody(static_cast<size_t>(size_));
    std::iota(everybody.begin(), everybody.end(), 0);
    groups_.emplace_back(duplicate(over, where), everybody);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void post(Request& request) override {
    const Where where = request.call->where;
    const MpiGroup& group = group_of(request);
    const int peer = group.rank_of(request.peer), tag = tag_of(request);
    const Data data = request.data;
    if (data.device == Device::meta)
      yotta::fail(where, "a tensor on meta has no data that MPI could send; use thread ranks");
    if (data.count > std::numeric_limits<int>::max())
      yotta::fail(where, "MPI counts elements in an int: send {} in several messages", data.count);
    const int count = static_cast<int>(data.count);
    MPI_Request handle = MPI_REQUEST_NULL;
    if (request.kind == Request::Kind::send)
      expect_mpi(MPI_Isend(data.bytes, count, type_of(data.dtype), peer, tag, group.get(), &handle),
                 "MPI_Isend", where);
    else
      expect_mpi(MPI_Irecv(data.bytes, count, type_of(data.dtype), peer, tag, group.get(), &handle),
                 "MPI_Irecv", where);
    put_handle(request, handle);
  }

  bool test(Request& request) override {
    if (request.done) return true;
    MPI_Request handle = get_handle(request);
    MPI_Status status;
    int done = 0;
    const int code = MPI_Test(&handle, &done, &status);
    put_handle(request, handle);
    if (code == MPI_SUCCESS && done == 0) return false;
    request.done = true;  // also when it has failed: MPI has let go of it
    expect_arrived(request, code, status);
    return true;
  }

  // A receive is cancelled. A send cannot be in every MPI: it is given a second to be taken.
  void withdraw(Request& request) override {
    MPI_Request handle = get_handle(request);
    if (request.kind == Request::Kind::recv) MPI_Cancel(&handle);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (int done = 0; done == 0 && std::chrono::steady_clock::now() < deadline;)
      if (MPI_Test(&handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    if (handle != MPI_REQUEST_NULL) MPI_Request_free(&handle);
    request.done = true;
  }

  void sleep(std::span<const Waiting> strands, double seconds) override {
    check(strands[0].where);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, 20e-6)));
  }

  bool failed() const override { return failed_rank_ >= 0; }
  void check(Where where) override {
    listen(where);
    if (failed_rank_ == rank_)
      fail_as<CommError>(where, "this rank has failed before, its world is over: {}", message_);
    if (failed()) fail_as<PeerFailed>(where, "rank {} has failed: {}", failed_rank_, message_);
  }
  void fail(const std::string& message) override {
    if (failed()) return;
    failed_rank_ = rank_;
    message_ = message;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request handle;  // message_ lives as long as this transport, and nobody waits for it
      MPI_Isend(message_.data(), static_cast<int>(message_.size()), MPI_CHAR, other, 0,
                control_.get(), &handle);
      MPI_Request_free(&handle);
    }
  }

  int open_group(int, int64_t sequence, int color, std::span<const int> members) override {
    MPI_Group world, part;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_group(groups_[0].get(), &world);
    MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &part);
    const int tag = static_cast<int>((sequence * 1009 + color) % 32768);
    const int code = MPI_Comm_create_group(groups_[0].get(), part, tag, &comm);
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    expect_mpi(code, "MPI_Comm_create_group", Where::current());
    groups_.emplace_back(comm, std::vector<int>(members.begin(), members.end()));
    return static_cast<int>(groups_.size()) - 1;
  }

 private:
  static MPI_Comm duplicate(MPI_Comm over, Where where) {
    int started = 0, level = 0, main_thread = 0;
    MPI_Initialized(&started);
    if (started == 0)
      yotta::fail(where, "MPI has not been started; call MPI_Init_thread first, under mpirun");
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&main_thread);
    if (level < MPI_THREAD_FUNNELED || (level == MPI_THREAD_FUNNELED && main_thread == 0))
      yotta::fail(
          where,
          "MPI was started for fewer threads than this program has; ask MPI_Init_thread for "
          "MPI_THREAD_MULTIPLE");
    MPI_Comm comm = MPI_COMM_NULL;
    expect_mpi(MPI_Comm_dup(over, &comm), "MPI_Comm_dup", where);
    return comm;
  }
  const MpiGroup& group_of(const Request& request) const {
    return groups_[static_cast<size_t>(request.group)];
  }
  // Even tags are the user's, odd ones those of collectives, which may come round again: they are in
  // order.
  int tag_of(const Request& request) const {
    constexpr int64_t half = 16384;  // MPI promises tags up to 32767
    if (request.tag < 0) return static_cast<int>(2 * (~request.tag % half) + 1);
    if (request.tag >= half)
      yotta::fail(request.call->where, "with MPI a tag is below {}, not {}", half, request.tag);
    return static_cast<int>(2 * request.tag);
  }
  // By width only: MPI moves numbers, it does not reduce them.
  static MPI_Datatype type_of(DType dtype) {
    switch (bytes_of(dtype)) {
      case 8: return MPI_INT64_T;
      case 4: return MPI_INT32_T;
      case 2: return MPI_INT16_T;
      default: return MPI_INT8_T;
    }
  }
  static void expect_arrived(const Request& request, int code, const MPI_Status& status) {
    const Where where = request.call->where;
    if (request.kind == Request::Kind::send) return expect_mpi(code, "MPI_Isend", where);
    int count = 0;
    MPI_Get_count(&status, type_of(request.data.dtype), &count);
    if (code == MPI_SUCCESS && count == request.data.count) return;
    int kind = 0;
    MPI_Error_class(code, &kind);
    if (code != MPI_SUCCESS && kind != MPI_ERR_TRUNCATE) expect_mpi(code, "MPI_Irecv", where);
    fail_as<Mismatch>(where, "rank {} receives {} {} from rank {}, which sends {}", request.owner,
                      request.data.count, name(request.data.dtype), request.peer,
                      code == MPI_SUCCESS ? std::to_string(count) : "more");
  }

  // Has anybody failed? Then its message is here or on its way.
  void listen(Where where) {
    int arrived = 0, length = 0;
    MPI_Status status;
    expect_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, control_.get(), &arrived, &status), "MPI_Iprobe",
               where);
    if (arrived == 0) return;
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string text(static_cast<size_t>(length), ' ');
    MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, 0, control_.get(),
             MPI_STATUS_IGNORE);
    if (failed()) return;  // only the first failure counts
    failed_rank_ = status.MPI_SOURCE;
    message_ = text;
  }

  // Request::handle holds an MPI_Request, a pointer or an int.
  static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t));
  void put_handle(Request& request, MPI_Request handle) {
    request.owner = rank_;
    std::memcpy(&request.handle, &handle, sizeof handle);
  }
  static MPI_Request get_handle(const Request& request) {
    MPI_Request handle;
    std::memcpy(&handle, &request.handle, sizeof handle);
    return handle;
  }

  MpiGroup control_;  // for messages about failures
  int rank_ = 0, size_ = 1;
  std::deque<MpiGroup> groups_;  // [0] is the world
  int failed_rank_ = -1;
  std::string message_;
};

// body(world) on this process's rank, together with all others of MPI_COMM_WORLD; returns its ledger's
// context. If it throws, the others hear of it and the exception goes on to the caller.
template <class Body>
std::shared_ptr<RankContext> run_mpi(Body body, const EngineOptions& options = {},
                                     Where where = Where::current()) {
  auto transport = std::make_shared<MpiTransport>(MPI_COMM_WORLD, where);
  auto self = std::make_shared<RankContext>();
  self->rank = transport->rank();
  self->size = transport->size();
  const ContextScope scope(*self);
  auto group = std::make_shared<Group>();
  group->engine = std::make_shared<Engine>(transport, options);
  group->rank = self->rank;
  for (int rank = 0; rank < self->size; ++rank) group->members.push_back(rank);
  Communicator world(group);
  try {
    body(world);
    world.barrier({}, where);  // until then the others may still take what was sent
    group->engine->end(where);
  } catch (const std::exception& error) {
    transport->fail(error.what());
    throw;
  }
  return self;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
