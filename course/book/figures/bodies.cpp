// What the figures need of the library's compiled part, for WebAssembly; what none of them calls is
// left out when it is linked.
#include "yotta/core/impl/error.ipp"
#include "yotta/core/impl/tensor.ipp"
#include "yotta/machine/impl/chip.ipp"
#include "yotta/sharding/spreads/impl/boxes.ipp"
#include "yotta/sharding/spreads/impl/spread_graph.ipp"
