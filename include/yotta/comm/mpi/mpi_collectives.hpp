// The collectives of MPI itself: which function runs each, and what it needs while it is in flight.
//
//     broadcast       MPI_Ibcast                          reduce    MPI_Ireduce
//     all_reduce      MPI_Iallreduce in place             barrier   MPI_Ibarrier
//     reduce_scatter  MPI_Ireduce_scatter                 gather    MPI_Igatherv
//     all_gather      MPI_Iallgatherv in place            scatter   MPI_Iscatterv
//     all_to_all      MPI_Ialltoallv                      all_to_all_v: messages, all at once
//
// Never the blocking ones: a rank that waits must be able to hear that another has failed.
// MPI 3.1 gives counts, and the offsets of chunks, as ints. Arrays of more than `max_count` numbers
// are therefore reduced and broadcast in pieces of `max_count`; reduce_scatter becomes one reduce
// per chunk; and what is only moved is sent as messages, which can have any length
// (mpi_library.hpp).
// Reference: MPI 3.1, section 5.12.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/mpi/mpi_library.hpp"

namespace yotta {

class MpiCollective {
 public:
  // Starts a collective among the ranks of `comm`. `tag` is for its messages, if it needs any.
  MpiCollective(MPI_Comm comm, const NativeCall& call, int64_t max_count, int tag, Where where)
      : comm_(comm), call_(call), max_count_(max_count), tag_(tag), where_(where) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    start();
  }

  // Is it done? Never blocks. Errors: CommError, Mismatch, for one of its messages. The others are
  // still in flight: call again until it is done.
  bool test() {
    while (done_ < requests_.size()) {
      MPI_Status status;
      int done = 0;
      const int code = MPI_Test(&requests_[done_], &done, &status);
      if (code == MPI_SUCCESS && done == 0) return false;
      const size_t ended = done_++;  // with or without an error
      const bool is_message = ended < arriving_.size();
      const bool truncated =
          is_message && code != MPI_SUCCESS && mpi_error_class(code) == MPI_ERR_TRUNCATE;
      if (truncated) fail_count(arriving_[ended], "more");
      expect_mpi(code, "MPI_Test", where_);
      if (is_message) expect_arrived(arriving_[ended], status);
    }
    if (staging_.defined()) copy_data(staging_, call_.out);
    return true;
  }

 private:
  void start() {
    switch (call_.operation) {
      case Operation::broadcast: return broadcast(call_.out, call_.root);
      case Operation::all_reduce: return all_reduce();
      case Operation::reduce: return reduce(call_.out, call_.out, call_.root);
      case Operation::reduce_scatter: return reduce_scatter();
      case Operation::all_gather: return all_gather();
      case Operation::all_to_all: return all_to_all();
      case Operation::all_to_all_v: return exchange_counts(call_.in_counts, call_.out_counts);
      case Operation::gather: return gather();
      case Operation::scatter: return scatter();
      case Operation::barrier: return expect(MPI_Ibarrier(comm_, add()), "MPI_Ibarrier");
    }
  }

  // --- reduced or broadcast, piece by piece ---
  template <class Piece>
  void in_pieces(int64_t count, Piece piece) {
    for (int64_t begin = 0; begin < count; begin += max_count_)
      piece(begin, static_cast<int>(std::min(max_count_, count - begin)));
  }
  void broadcast(Data data, int root) {
    in_pieces(data.count, [&](int64_t begin, int count) {
      expect(MPI_Ibcast(at(data, begin), count, mpi_bits(data.dtype), root, comm_, add()),
             "MPI_Ibcast");
    });
  }
  void all_reduce() {
    const Data data = call_.out;
    const MpiReduction by = mpi_reduction(data.dtype, call_.op);
    in_pieces(data.count, [&](int64_t begin, int count) {
      expect(MPI_Iallreduce(MPI_IN_PLACE, at(data, begin), count, by.type, by.op, comm_, add()),
             "MPI_Iallreduce");
    });
  }
  // The sum of all ranks' `in` goes to `out` of the root; there, `in` may be `out`.
  void reduce(ConstData in, Data out, int root) {
    const MpiReduction by = mpi_reduction(in.dtype, call_.op);
    in_pieces(in.count, [&](int64_t begin, int count) {
      const bool in_place = rank_ == root && in.bytes == out.bytes;
      expect(MPI_Ireduce(in_place ? MPI_IN_PLACE : at(in, begin),
                         rank_ == root ? at(out, begin) : nullptr, count, by.type, by.op, root,
                         comm_, add()),
             "MPI_Ireduce");
    });
  }
  void reduce_scatter() {
    const ConstData in = call_.in;
    const bool inside = in.bytes <= call_.out.bytes && call_.out.bytes < in.bytes + in.nbytes();
    Data out = call_.out;
    if (inside && out.count > 0) {  // MPI wants two arrays
      staging_ = Tensor::empty({out.count}, out.dtype);
      out = staging_;
    }
    if (in.count > max_count_) {
      for (int root = 0; root < size_; ++root) reduce(in.chunk(root, size_), out, root);
      return;
    }
    const MpiReduction by = mpi_reduction(in.dtype, call_.op);
    add_chunks(in.count);
    expect(MPI_Ireduce_scatter(in.bytes, out.bytes, counts_.data(), by.type, by.op, comm_, add()),
           "MPI_Ireduce_scatter");
  }

  // --- only moved ---
  void all_gather() {
    const Data out = call_.out;
    if (out.count > max_count_) {
      for (int peer = 0; peer < size_; ++peer) receive(out.chunk(peer, size_), peer);
      for (int peer = 0; peer < size_; ++peer) send(call_.in, peer);
      return copy_data(call_.in, out.chunk(rank_, size_));
    }
    copy_data(call_.in, out.chunk(rank_, size_));
    add_chunks(out.count);
    expect(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.bytes, counts_.data(),
                           offsets_.data(), mpi_bits(out.dtype), comm_, add()),
           "MPI_Iallgatherv");
  }
  void all_to_all() {
    const int64_t n = call_.in.count, mine = chunk_count(n, size_, rank_);
    if (n > max_count_ - size_) {  // as long as the longest `out` of a rank
      const std::vector<int64_t> from(static_cast<size_t>(size_), mine);
      std::vector<int64_t> to;
      for (int peer = 0; peer < size_; ++peer) to.push_back(chunk_count(n, size_, peer));
      return exchange_counts(to, from);
    }
    add_chunks(n);
    out_counts_.assign(counts_.size(), static_cast<int>(mine));
    for (int peer = 0; peer < size_; ++peer) out_offsets_.push_back(static_cast<int>(peer * mine));
    const MPI_Datatype type = mpi_bits(call_.in.dtype);
    expect(MPI_Ialltoallv(call_.in.bytes, counts_.data(), offsets_.data(), type, call_.out.bytes,
                          out_counts_.data(), out_offsets_.data(), type, comm_, add()),
           "MPI_Ialltoallv");
  }
  void gather() {
    const int64_t n = call_.out.count;
    const bool is_root = rank_ == call_.root;
    if (n > max_count_) {
      if (is_root)
        for (int peer = 0; peer < size_; ++peer) receive(call_.out.chunk(peer, size_), peer);
      if (is_root) return copy_data(call_.in, call_.out.chunk(rank_, size_));
      return send(call_.in, call_.root);
    }
    add_chunks(n);
    const MPI_Datatype type = mpi_bits(call_.in.dtype);
    if (is_root) copy_data(call_.in, call_.out.chunk(rank_, size_));
    expect(MPI_Igatherv(is_root ? MPI_IN_PLACE : call_.in.bytes, static_cast<int>(call_.in.count),
                        type, call_.out.bytes, counts_.data(), offsets_.data(), type, call_.root,
                        comm_, add()),
           "MPI_Igatherv");
  }
  void scatter() {
    const int64_t n = call_.in.count;
    const bool is_root = rank_ == call_.root;
    if (is_root) copy_data(call_.in.chunk(rank_, size_), call_.out);
    if (n > max_count_) {
      if (!is_root) return receive(call_.out, call_.root);
      for (int peer = 0; peer < size_; ++peer) send(call_.in.chunk(peer, size_), peer);
      return;
    }
    add_chunks(n);
    const MPI_Datatype type = mpi_bits(call_.out.dtype);
    expect(MPI_Iscatterv(call_.in.bytes, counts_.data(), offsets_.data(), type,
                         is_root ? MPI_IN_PLACE : static_cast<void*>(call_.out.bytes),
                         static_cast<int>(call_.out.count), type, call_.root, comm_, add()),
           "MPI_Iscatterv");
  }
  void exchange_counts(std::span<const int64_t> to, std::span<const int64_t> from) {
    int64_t begin = 0;
    std::vector<Data> parts;
    for (const int64_t count : from)
      parts.push_back(call_.out.part(begin, begin + count)), begin += count;
    for (int peer = 0; peer < size_; ++peer) receive(parts[static_cast<size_t>(peer)], peer);
    begin = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const ConstData part = call_.in.part(begin, begin + to[static_cast<size_t>(peer)]);
      if (peer == rank_) copy_data(part, parts[static_cast<size_t>(peer)]);
      send(part, peer);
      begin += part.count;
    }
  }

  // --- messages: all receives must be started before the first send ---
  struct Arriving {
    int from;
    int64_t count;
  };
  void receive(Data data, int from) {
    if (from == rank_) return;
    const MpiRun run(data.count, data.dtype, max_count_);
    arriving_.push_back({from, data.count});
    expect(MPI_Irecv(data.bytes, run.count(), run.type(), from, tag_, comm_, add()), "MPI_Irecv");
  }
  void send(ConstData data, int to) {
    if (to == rank_) return;
    const MpiRun run(data.count, data.dtype, max_count_);
    expect(MPI_Isend(data.bytes, run.count(), run.type(), to, tag_, comm_, add()), "MPI_Isend");
  }
  void expect_arrived(const Arriving& message, const MPI_Status& status) const {
    const int64_t count = numbers_in(status, call_.out.dtype);
    if (count != message.count) fail_count(message, std::to_string(count));
  }
  [[noreturn]] void fail_count(const Arriving& message, const std::string& sent) const {
    fail_as<Mismatch>(where_, "rank {} of the group sends {} elements to rank {}, which expects {}",
                      message.from, sent, rank_, message.count);
  }

  void add_chunks(int64_t n) {
    for (int rank = 0; rank < size_; ++rank) {
      counts_.push_back(static_cast<int>(chunk_count(n, size_, rank)));
      offsets_.push_back(static_cast<int>(chunk_begin(n, size_, rank)));
    }
  }
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void expect(int code, const char* name) const { expect_mpi(code, name, where_); }
  static std::byte* at(Data data, int64_t begin) {
    return data.bytes + begin * bytes_of(data.dtype);
  }
  static const std::byte* at(ConstData data, int64_t begin) {
    return data.bytes + begin * bytes_of(data.dtype);
  }

  MPI_Comm comm_;
  NativeCall call_;
  int64_t max_count_;
  int tag_, rank_ = 0, size_ = 1;
  Where where_;
  std::vector<MPI_Request> requests_;
  size_t done_ = 0;                 // how many of them have ended
  std::vector<Arriving> arriving_;  // of the first requests
  std::vector<int> counts_, offsets_, out_counts_,
      out_offsets_;  // MPI reads them while it is in flight
  Tensor staging_;   // copied to `out` at the end
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
