// MpiGroup: a communicator's ranks as MPI knows them, and how a request finds its way among them.
//
//     group 0   the world's ranks   MPI communicator   id 0
//     group 3   ranks 1 3 5         another one        id: the same number on ranks 1, 3 and 5, whatever they call it
//
// Messages of different groups never meet: each has an MPI communicator of its own, made by its members alone.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include "yotta/comm/mpi/mpi_library.hpp"
#include "yotta/comm/waiting/world_state.hpp"

namespace yotta {

struct MpiGroup : WorldGroup {
  MpiGroup(MpiComm its, std::span<const int> world_ranks, uint64_t its_id = 0)
      : WorldGroup{{world_ranks.begin(), world_ranks.end()}, its_id, -1}, comm(std::move(its)) {}
  MpiComm comm;
};
// What the transport of a rank knows of it.
using MpiState = WorldState<MpiGroup>;

// Made by its members together, who are ranks of `world`. MPI waits for them for ever.
inline MpiGroup make_mpi_group(const MpiGroup& world, uint64_t id, std::span<const int> members) {
  MPI_Group all, some;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_group(world.comm.get(), &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  const int tag = static_cast<int>(id % 32768);  // for groups that are made side by side
  const int code = MPI_Comm_create_group(world.comm.get(), some, tag, &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  expect_mpi(code, "MPI_Comm_create_group", Where::current());
  return {MpiComm(comm), members, id};
}

// Even tags are the user's, odd ones those of collectives, which may come round again: they are in
// order.
inline int mpi_tag(const Request& request) {
  constexpr int64_t half = 16384;  // MPI promises tags up to 32767
  if (request.tag < 0) return static_cast<int>(2 * (~request.tag % half) + 1);
  if (request.tag >= half)
    fail(request.call->where, "with MPI a tag is below {}, not {}", half, request.tag);
  return static_cast<int>(2 * request.tag);
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
