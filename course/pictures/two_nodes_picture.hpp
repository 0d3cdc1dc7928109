// Three all_reduces over two nodes, as SVG: when GPU 0's port into its node is busy, and when its
// network card. From the messages of a run on the virtual clock, on 16 H100 with 1 GiB each.
//
//     hierarchical   NVLink  ████████        ████████      one waits for the other
//                    card            ██████
//     pipelined      NVLink  ██████████████████            both at once
//                    card     ███████████████
//
// The file course/pictures/two_nodes.svg is what `./yotta lesson 10 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/comm_options.hpp"

namespace yotta {

struct BusyTime {
  double begin, end;
};

// What GPU 0 sends: times in which a link is busy, in order; neighbouring ones are joined.
struct LinksInTime {
  Algorithm algorithm;
  double seconds;  // of the whole all_reduce
  std::vector<BusyTime> nvlink, card;
};

double sum_of(const std::vector<BusyTime>& times);
double both_busy(const LinksInTime& links);

// multi-rail, hierarchical, pipelined.
std::vector<LinksInTime> two_nodes_in_time();

std::string two_nodes_svg();

}  // namespace yotta
