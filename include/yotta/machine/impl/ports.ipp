// The bodies of machine/ports.hpp.
#pragma once

#include "yotta/machine/ports.hpp"

namespace yotta {

YOTTA_INLINE int Ports::chip(int rank) const {
  if (rank >= first_image) return rank - first_image;
  return chips_.empty() ? rank : chips_[static_cast<size_t>(rank)];
}

YOTTA_INLINE double Ports::work(int rank, const TraceEvent& message) const {
  const Link link = cluster_.link(chip(rank), chip(message.peer));
  const bool takes_time = message.bytes > 0 && link.level >= 0 && link.beta > 0;
  return takes_time ? std::max(0.0, message.seconds() - link.alpha) : 0;
}

YOTTA_INLINE int Ports::of(int rank, const TraceEvent& message) {
  const bool sends = message.kind == EventKind::send;
  const int own = chip(rank), peer = chip(message.peer);
  const auto [found, is_new] = known_.try_emplace({own, peer, sends}, -1);
  if (!is_new) return found->second;
  const std::vector<int> route = sends ? wires_.route(own, peer) : wires_.route(peer, own);
  const size_t entry = cluster_.torus.empty() ? 1 : route.size() - 1;
  if (!route.empty()) found->second = sends ? route[0] : route[entry];
  return found->second;
}

YOTTA_INLINE bool Ports::leads_out(int rank, const TraceEvent& message) const {
  return cluster_.link(chip(rank), chip(message.peer)).level > 0;
}

namespace detail {
struct PortUse {
  double begin, end;
  int lane;
};
// Do two of them, of different lanes, overlap by more than rounding?
inline bool any_meet(std::vector<PortUse>& uses) {
  std::sort(uses.begin(), uses.end(),
            [](const PortUse& a, const PortUse& b) { return a.begin < b.begin; });
  const PortUse* last = nullptr;  // of those so far, the one that ends last
  for (const PortUse& use : uses) {
    const bool overlaps = last != nullptr && use.begin < last->end * (1 - 1e-12);
    if (overlaps && use.lane != last->lane) return true;
    if (last == nullptr || use.end > last->end) last = &use;
  }
  return false;
}
}  // namespace detail

YOTTA_INLINE bool lanes_meet(const Trace& recorded, const Cluster& cluster,
                             const std::vector<int>& chips) {
  Ports ports(cluster, chips);
  for (size_t rank = 0; rank < recorded.ranks.size(); ++rank) {
    std::map<int, std::vector<detail::PortUse>> uses;  // by port
    for (const TraceEvent& event : recorded.ranks[rank]) {
      if (event.kind != EventKind::send && event.kind != EventKind::recv) continue;
      const double work = ports.work(static_cast<int>(rank), event);
      if (work > 0)
        uses[ports.of(static_cast<int>(rank), event)].push_back(
            {event.begin, event.begin + work, event.lane});
    }
    for (auto& [port, of_port] : uses)
      if (detail::any_meet(of_port)) return true;
  }
  return false;
}

}  // namespace yotta
