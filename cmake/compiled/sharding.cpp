// The bodies of sharding/.
#include "yotta/sharding/spreads/impl/boxes.ipp"
#include "yotta/sharding/spreads/impl/spread_graph.ipp"
