// Channel: what a collective algorithm may use. Point to point among the p ranks of one group.
//
// Every algorithm of collectives_ring.hpp is written once, as plain blocking code on these calls.
// Whether a call runs on the rank's own stack or inside a fiber (asynchronous), over threads or
// over MPI, is the business of whoever implements the channel. Messages between two ranks arrive in
// the order sent. `where` is the algorithm's own line: what goes wrong in a collective of your own
// is reported there.
#pragma once

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

}  // namespace yotta
