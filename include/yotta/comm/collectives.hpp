// Every family of collective algorithms, with its costs:
//
//    collectives_ring          start here; the fewest bytes: all_reduce, reduce_scatter, all_gather
//    collectives_naive         everybody sends to one: what the others are measured against
//    collectives_tree          the fewest messages for a root: broadcast, reduce, gather, scatter;
//                              long broadcasts in segments that follow each other
//    collectives_recursive     doubling and halving: few messages; few bytes for large arrays
//    collectives_bruck         all_gather and all_to_all in lg p messages; the barrier
//    collectives_multi_rail    a ring for each network card of a node
//    collectives_hierarchical  inside nodes first, then between them
//    collectives_pipelined     the same in segments: inside and between at once
//    collectives_exchange      all_to_all in pairs, or inside nodes first, then between them
//
// Each is plain code on the sends and receives of a Channel. Which one a Communicator runs:
// chooser.hpp.
#pragma once

#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_hierarchical.hpp"
#include "yotta/comm/collectives_multi_rail.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_pipelined.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
