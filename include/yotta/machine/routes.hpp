// Which wires a message runs over, and how much each can carry.
//
//     chip ──port──► node ──uplink──► rack ──uplink──► pod ──uplink──┐
//     chip ◄──port── node ◄─downlink─ rack ◄─downlink─ pod ◄─downlink┘
//
// A chip has two ports each way: one into its node (level 0), one out of it. A group of c chips goes up into
// the next level through one wire of c / beta bytes a second: with full bandwidth that is what its chips can
// send at most, so it never gets tight; oversubscribed 1:7 it does. In a torus a message runs along one
// axis after the other, each hop a wire of its own.
#pragma once

#include <map>
#include <tuple>

#include "yotta/machine/cluster.hpp"

namespace yotta {

// The wires of a cluster by number, made as they are used.
class Wires {
 public:
  explicit Wires(const Cluster& cluster) : cluster_(cluster) {}

  double capacity(int wire) const { return capacities_[static_cast<size_t>(wire)]; }  // bytes/s
  int count() const { return static_cast<int>(capacities_.size()); }

  // The wires of a message from chip to chip; none to itself.
  std::vector<int> route(int from, int to) {
    const Link link = cluster_.link(from, to);
    std::vector<int> wires;
    if (link.level < 0) return wires;
    if (link.level == 0 && !cluster_.torus.empty()) return torus_route(from, to);
    const bool outside = link.level > 0;
    double port = 0;  // the fastest of the levels that it serves
    for (size_t i = outside ? 1 : 0; i < (outside ? cluster_.levels.size() : 1); ++i)
      port = std::max(port, 1 / cluster_.levels[i].beta);
    wires = {wire(outside ? 1 : 0, from, 0, port), wire(outside ? 1 : 0, to, 1, port)};
    for (int i = 1; i <= link.level; ++i) {
      const int chips = cluster_.levels[static_cast<size_t>(i) - 1].chips;
      const double shared = chips / cluster_.levels[static_cast<size_t>(i)].beta;
      wires.push_back(wire(1 + i, from / chips, 0, shared));
      wires.push_back(wire(1 + i, to / chips, 1, shared));
    }
    return wires;
  }

 private:
  int wire(int kind, int place, int direction, double capacity) {
    const auto [found, is_new] = numbers_.try_emplace({kind, place, direction}, count());
    if (is_new) capacities_.push_back(capacity);
    return found->second;
  }
  std::vector<int> torus_route(int from, int to) {
    std::vector<int> wires;
    int stride = 1, at = from;
    for (size_t axis = 0; axis < cluster_.torus.size(); ++axis) {
      const int length = cluster_.torus[axis];
      const int ahead = (to / stride % length - at / stride % length + length) % length;
      const bool forward = 2 * ahead <= length;
      for (int hop = forward ? ahead : length - ahead; hop > 0; --hop) {
        const int direction = 2 * static_cast<int>(axis) + (forward ? 0 : 1);
        wires.push_back(wire(0, at, direction, 1 / cluster_.levels[0].beta));
        const int here = at / stride % length;
        at += ((here + (forward ? 1 : length - 1)) % length - here) * stride;
      }
      stride *= length;
    }
    return wires;
  }

  const Cluster& cluster_;
  std::map<std::tuple<int, int, int>, int> numbers_;  // by kind, place and direction
  std::vector<double> capacities_;
};

}  // namespace yotta
