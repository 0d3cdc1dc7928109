// Channel: what a collective algorithm is written on: point to point among the p ranks of a group.
//
// Every algorithm of collectives.hpp is written once, as plain blocking code on these calls.
// Whether a call runs on the rank's own stack or inside a fiber (asynchronous), over threads or
// over MPI, is the business of whoever implements the channel. Messages between two ranks arrive in
// the order sent. `where` is the algorithm's own line: what goes wrong in a collective of your own
// is reported there.
//
// Letters of all algorithms: p ranks, this one is `rank`; n elements of `width` bytes in the
// whole array (not in one rank's chunk), N = n * width bytes; lg is the logarithm to base 2. Every
// array of n elements is cut into p chunks by chunk_begin, the longer chunks first, so any n works,
// 0 included. A message may be empty: how many are sent does not depend on n.
//
// Cost is given twice beside each algorithm. `..._sent` is exact, for any p, n and rank, and tests
// compare it with the ledger. `..._seconds` is the form found in papers, in the alpha-beta model:
//
//     a message of N bytes takes alpha + N beta seconds; to reduce N bytes takes N gamma more
//
// (a, b and g in tables) and holds where p is a power of two that divides n, unless it says
// otherwise.
// References for all of them: Thakur, Rabenseifner, Gropp, "Optimization of collective
// communication operations in MPICH", 2005; Chan, Heimlich, Purkayastha, van de Geijn, "Collective
// communication: theory, practice, and experience", 2007.
#pragma once

#include <bit>
#include <span>

#include "yotta/comm/data.hpp"

namespace yotta {

// One send_recv of several.
struct Exchange {
  ConstData outgoing;
  int to;
  Data incoming;
  int from;
};

class Channel {
 public:
  virtual ~Channel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Blocks until `data` may be written again. Unbuffered: until the receiver has taken it.
  virtual void send(ConstData data, int to, Where where = Where::current()) = 0;
  // Blocks until `data` is filled.
  virtual void recv(Data data, int from, Where where = Where::current()) = 0;
  // Both at once, so that a ring of ranks that all send first does not deadlock. `outgoing` leaves
  // for rank `to`, `incoming` is filled by rank `from`. (`in` and `out` of a collective are what it
  // reads and what it writes: there it is `in` that leaves.)
  virtual void send_recv(ConstData outgoing, int to, Data incoming, int from,
                         Where where = Where::current()) = 0;
  // Several send_recvs at once: those over different links need not wait for each other (NCCL:
  // between ncclGroupStart and ncclGroupEnd). The order must be one in which all ranks could do
  // them one after the other, as this default does.
  virtual void exchange(std::span<const Exchange> all, Where where = Where::current()) {
    for (const Exchange& each : all)
      send_recv(each.outgoing, each.to, each.incoming, each.from, where);
  }
};

// ---- what the algorithms share: two units of cost, and small helpers ----

// What one rank sends during a collective.
struct Sent {
  int64_t messages = 0;
  int64_t bytes = 0;

  constexpr Sent operator+(const Sent& other) const {
    return {messages + other.messages, bytes + other.bytes};
  }
  constexpr bool operator==(const Sent&) const = default;
};

// A network in three numbers.
struct AlphaBeta {
  double alpha = 0;  // seconds per message
  double beta = 0;   // seconds per byte sent
  double gamma = 0;  // seconds per byte reduced

  constexpr bool operator==(const AlphaBeta&) const = default;
};

// How often 1 must be doubled to reach p: the rounds after which p ranks can all have heard from
// one.
constexpr int ceil_log2(int p) { return std::bit_width(static_cast<unsigned>(p - 1)); }

// The largest power of two that is not above p.
constexpr int floor_power(int p) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
}

// log2 of p in a cost that holds for powers of two only. Any other p has no such cost: throws.
constexpr int log2_of_ranks(const char* cost, int p, Where where = Where::current()) {
  if (p < 1 || floor_power(p) != p)
    fail(where,
         "{} is published for powers of two, and {} ranks are none; what each rank of any number "
         "sends is counted by the function of the same name with _sent",
         cost, p);
  return ceil_log2(p);
}

// Memory for `count` elements on their way, of the type and on the device of `like`; on the ledger
// as buffers.
inline Tensor scratch(int64_t count, ConstData like) {
  const MemoryScope buffers(MemoryKind::buffers);
  const DeviceScope device(like.device);
  return Tensor::empty({count}, like.dtype);
}

// Elements in the chunks of `many` ranks from `first` on, going round: 0 <= first < p, many <= p.
constexpr int64_t chunks_count(int64_t n, int p, int first, int many) {
  const int past = first + many;
  if (past <= p) return chunk_begin(n, p, past) - chunk_begin(n, p, first);
  return n - chunk_begin(n, p, first) + chunk_begin(n, p, past - p);
}

}  // namespace yotta
