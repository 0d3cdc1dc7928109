// Which algorithm a collective runs. Every function here is a table: the operation's algorithms by
// name.
//
// `automatic` takes the native one where the transport has it: threads read each other's buffers,
// MPI and NCCL run theirs. It does not where a clock is set, or data is on meta: the clock times
// messages, so messages must be sent. Then the size of the array and the clock's machine decide, by
// the rule of collective_choice.hpp. All ranks choose alike; a difference would be a Mismatch.
#pragma once

#include "yotta/comm/collective_choice.hpp"
#include "yotta/comm/collectives.hpp"
#include "yotta/comm/engine/collective.hpp"
#include "yotta/comm/threads/native_collectives.hpp"
#include "yotta/core/options.hpp"

namespace yotta {

// The options to run with when `wanted` was asked for; data: the whole array of the collective.
inline CommOptions choose(const Group& group, Operation operation, CommOptions wanted,
                          ConstData data, Where where = Where::current()) {
  check_option(where, "CommOptions::node", wanted, &CommOptions::node, one_or_more);
  check_option(where, "CommOptions::rails", wanted, &CommOptions::rails, zero_or_more);
  const bool meta = data.device == Device::meta;
  if (wanted.algorithm == Algorithm::native && meta)
    fail(where, "native reads buffers, and data on meta has none; take another algorithm");
  if (wanted.algorithm != Algorithm::automatic) return wanted;
  if (context().clock == nullptr && !meta && group.engine->transport().has_native(data))
    return {Algorithm::native, wanted.label, wanted.node, wanted.rails};
  const CollectiveChoice way =
      choose_collective(operation, *network_of(group), static_cast<double>(data.nbytes()));
  return {way.algorithm, wanted.label, way.node};
}

// Where ranks share memory they meet, and run meet(meeting); elsewhere the transport runs the call.
template <class Meet>
void run_native(Collective& c, const NativeCall& call, Meet meet) {
  const bool on_device = call.in.device == Device::cuda || call.out.device == Device::cuda;
  if (c.can_meet() && !on_device) return meet(static_cast<SharedMemoryChannel&>(c));
  c.run_by_transport(call);
  c.count(native_traffic(c.size(), c.rank(), call));
}

// What an algorithm tells apart, where one rank stands for all.
inline ToldApart told_apart(Algorithm algorithm, const CommOptions& options) {
  switch (algorithm) {
    case Algorithm::hierarchical:
    case Algorithm::pipelined:
    case Algorithm::multi_rail: return {Apart::nodes, options.node};
    case Algorithm::recursive_doubling:
    case Algorithm::recursive_halving:
    case Algorithm::rabenseifner: return {Apart::ranks};
    default: return {};
  }
}

[[noreturn]] inline void no_such_algorithm(const Call& call) {
  fail(call.where, "{} has no algorithm called {}; see comm/engine/algorithms.hpp for those it has",
       call.operation, call.algorithm);
}

inline void run_broadcast(Collective& c, Algorithm algorithm, Data data, int root) {
  switch (algorithm) {
    case Algorithm::naive: return broadcast_naive(c, data, root);
    case Algorithm::tree: return broadcast_tree(c, data, root);
    case Algorithm::chain: return broadcast_chain(c, data, root);
    case Algorithm::scatter_all_gather: return broadcast_scatter_all_gather(c, data, root);
    case Algorithm::native:
      return run_native(c, {Operation::broadcast, data, data, {}, root},
                        [&](SharedMemoryChannel& m) { broadcast_native(m, data, root); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_reduce(Collective& c, Algorithm algorithm, Data data, ReduceOp op, int root) {
  switch (algorithm) {
    case Algorithm::naive: return reduce_naive(c, data, op, root);
    case Algorithm::tree: return reduce_tree(c, data, op, root);
    case Algorithm::native:
      return run_native(c, {Operation::reduce, data, data, op, root},
                        [&](SharedMemoryChannel& m) { reduce_native(m, data, op, root); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_all_reduce(Collective& c, Algorithm algorithm, Data data, ReduceOp op,
                           const CommOptions& options) {
  c.tell_apart(told_apart(algorithm, options));
  const Where where = c.call().where;
  switch (algorithm) {
    case Algorithm::naive: return all_reduce_naive(c, data, op);
    case Algorithm::ring: return all_reduce_ring(c, data, op);
    case Algorithm::tree: return all_reduce_tree(c, data, op);
    case Algorithm::recursive_doubling: return all_reduce_recursive_doubling(c, data, op);
    case Algorithm::rabenseifner: return all_reduce_rabenseifner(c, data, op);
    case Algorithm::hierarchical: return all_reduce_hierarchical(c, data, op, options.node, where);
    case Algorithm::pipelined: return all_reduce_pipelined(c, data, op, options.node, 0, where);
    case Algorithm::multi_rail:
      return all_reduce_multi_rail(c, data, op, options.node, options.rails, where);
    case Algorithm::native:
      return run_native(c, {Operation::all_reduce, data, data, op},
                        [&](SharedMemoryChannel& m) { all_reduce_native(m, data, op); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_reduce_scatter(Collective& c, Algorithm algorithm, ConstData in, Data out,
                               ReduceOp op, const CommOptions& options) {
  c.tell_apart(told_apart(algorithm, options));
  const Where where = c.call().where;
  switch (algorithm) {
    case Algorithm::naive: return reduce_scatter_naive(c, in, out, op);
    case Algorithm::ring: return reduce_scatter_ring(c, in, out, op);
    case Algorithm::recursive_halving: return reduce_scatter_recursive_halving(c, in, out, op);
    case Algorithm::hierarchical:
      return reduce_scatter_hierarchical(c, in, out, op, options.node, where);
    case Algorithm::multi_rail:
      return reduce_scatter_multi_rail(c, in, out, op, options.node, options.rails, where);
    case Algorithm::native:
      return run_native(c, {Operation::reduce_scatter, in, out, op},
                        [&](SharedMemoryChannel& m) { reduce_scatter_native(m, in, out, op); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_all_gather(Collective& c, Algorithm algorithm, ConstData in, Data out,
                           const CommOptions& options) {
  c.tell_apart(told_apart(algorithm, options));
  const Where where = c.call().where;
  switch (algorithm) {
    case Algorithm::naive: return all_gather_naive(c, in, out);
    case Algorithm::ring: return all_gather_ring(c, in, out);
    case Algorithm::recursive_doubling: return all_gather_recursive_doubling(c, in, out);
    case Algorithm::bruck: return all_gather_bruck(c, in, out);
    case Algorithm::hierarchical: return all_gather_hierarchical(c, in, out, options.node, where);
    case Algorithm::multi_rail:
      return all_gather_multi_rail(c, in, out, options.node, options.rails, where);
    case Algorithm::native:
      return run_native(c, {Operation::all_gather, in, out},
                        [&](SharedMemoryChannel& m) { all_gather_native(m, in, out); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_all_to_all(Collective& c, Algorithm algorithm, ConstData in, Data out) {
  switch (algorithm) {
    case Algorithm::naive: return all_to_all_naive(c, in, out);
    case Algorithm::pairwise: return all_to_all_pairwise(c, in, out);
    case Algorithm::bruck: return all_to_all_bruck(c, in, out);
    case Algorithm::native:
      return run_native(c, {Operation::all_to_all, in, out},
                        [&](SharedMemoryChannel& m) { all_to_all_native(m, in, out); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_all_to_all_v(Collective& c, Algorithm algorithm, ConstData in, Counts in_counts,
                             Data out, Counts out_counts, int node) {
  switch (algorithm) {
    case Algorithm::pairwise: return all_to_all_v_pairwise(c, in, in_counts, out, out_counts);
    case Algorithm::hierarchical:
      return all_to_all_v_hierarchical(c, in, in_counts, out, out_counts, node, c.call().where);
    case Algorithm::native:
      return run_native(c, {Operation::all_to_all_v, in, out, {}, 0, in_counts, out_counts},
                        [&](SharedMemoryChannel& m) {
                          all_to_all_v_native(m, in, in_counts, out, out_counts, c.call().where);
                        });
    default: no_such_algorithm(c.call());
  }
}

inline void run_gather(Collective& c, Algorithm algorithm, ConstData in, Data out, int root) {
  switch (algorithm) {
    case Algorithm::naive: return gather_naive(c, in, out, root);
    case Algorithm::tree: return gather_tree(c, in, out, root, out.count);
    case Algorithm::native:
      return run_native(c, {Operation::gather, in, out, {}, root},
                        [&](SharedMemoryChannel& m) { gather_native(m, in, out, root); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_scatter(Collective& c, Algorithm algorithm, ConstData in, Data out, int root) {
  switch (algorithm) {
    case Algorithm::naive: return scatter_naive(c, in, out, root);
    case Algorithm::tree: return scatter_tree(c, in, out, root, in.count);
    case Algorithm::native:
      return run_native(c, {Operation::scatter, in, out, {}, root},
                        [&](SharedMemoryChannel& m) { scatter_native(m, in, out, root); });
    default: no_such_algorithm(c.call());
  }
}

inline void run_barrier(Collective& c, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::naive: return barrier_naive(c);
    case Algorithm::dissemination: return barrier_dissemination(c);
    case Algorithm::native:
      return run_native(c, {Operation::barrier},
                        [&](SharedMemoryChannel& m) { barrier_native(m); });
    default: no_such_algorithm(c.call());
  }
}

}  // namespace yotta
