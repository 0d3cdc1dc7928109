// A message of MPI: what becomes of a Request of kind send or recv, from posting to its end.
//
//     send   MPI_Isend, or MPI_Issend where sends must not be buffered   ┐
//     recv   MPI_Irecv                                                   ┴►  handle  ──►  MPI_Test, again and again
//
// MPI may copy what MPI_Isend is given and say at once that it is done. A program that relies on that hangs as soon as
// its messages are longer than MPI's buffers; with MPI_Issend a send is done when its receiver takes it, so the mistake
// shows at any length.
// Reference: MPI 3.1, sections 3.4 (modes) and 3.7 (requests).
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <cstring>
#include <optional>

#include "yotta/comm/mpi/mpi_group.hpp"

namespace yotta {

// Request::handle holds an MPI_Request, a pointer or an int.
static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t));
inline void put_handle(Request& request, MPI_Request handle) {
  std::memcpy(&request.handle, &handle, sizeof handle);
}
inline MPI_Request get_handle(const Request& request) {
  MPI_Request handle;
  std::memcpy(&handle, &request.handle, sizeof handle);
  return handle;
}

// Starts it in `group`. `most`: from where on a type is made for its numbers.
inline void start_message(Request& request, const MpiGroup& group, int64_t most, bool synchronous) {
  const MpiRun run(request.data.count, request.data.dtype, most);
  const int peer = group.rank_of(request.peer), tag = mpi_tag(request);
  MPI_Request handle = MPI_REQUEST_NULL;
  if (request.kind == Request::Kind::recv) {
    expect_mpi(MPI_Irecv(request.data.bytes, run.count(), run.type(), peer, tag, group.comm.get(),
                         &handle),
               "MPI_Irecv", request.call->where);
  } else {
    const auto start = synchronous ? MPI_Issend : MPI_Isend;
    expect_mpi(
        start(request.data.bytes, run.count(), run.type(), peer, tag, group.comm.get(), &handle),
        "MPI_Isend", request.call->where);
  }
  put_handle(request, handle);
}

// How a message has ended: MPI has let go of it, also when it has failed.
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
// Throws what went wrong with it on rank `rank`: Mismatch, if the sender's count is not the receiver's.
inline void expect_arrived(const Request& request, int rank, const MpiArrival& arrival) {
  const Where where = request.call->where;
  const int code = arrival.code;
  if (request.kind == Request::Kind::send) return expect_mpi(code, "MPI_Isend", where);
  if (code != MPI_SUCCESS && mpi_error_class(code) != MPI_ERR_TRUNCATE)
    expect_mpi(code, "MPI_Irecv", where);
  const int64_t count = code == MPI_SUCCESS ? numbers_in(arrival.status, request.data.dtype) : -1;
  if (count == request.data.count) return;
  fail_as<Mismatch>(where,
                    "both sides of a message must name the same count and type.\n"
                    "  rank {} sends {}\n  rank {} receives {} {} at {}",
                    request.peer, count < 0 ? "more" : std::to_string(count), rank,
                    request.data.count, name(request.data.dtype), at(where));
}

// A receive can be taken back; a send cannot.
inline void cancel_message(const Request& request) {
  MPI_Request handle = get_handle(request);
  if (request.kind == Request::Kind::recv) MPI_Cancel(&handle);
}
// MPI keeps what is still on its way, and tells nobody any more.
inline void leave_message(Request& request) {
  MPI_Request handle = get_handle(request);
  if (handle != MPI_REQUEST_NULL) MPI_Request_free(&handle);
  put_handle(request, MPI_REQUEST_NULL);
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
