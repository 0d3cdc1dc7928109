// A captured graph drawn as SVG: nodes from top to bottom, in boxes of the kernels that compute
// them.
//
//     memory          kernels
//     0 x0       ──>  ┌────────────┐
//     1 value    ──>  │ 2 subtract │   one box a kernel; arrows cross memory
//     3 value    <──  │ 3 exp      │
//                     └────────────┘
#pragma once

#include <string>

#include "yotta/device/fusion.hpp"

namespace yotta {

// SVG: each kernel a box with its nodes, values that cross memory as arrows into it and out of it.
// `title` must not contain < or &.
std::string graph_svg(const Graph& graph, const std::vector<Kernel>& kernels,
                      const std::string& title);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/pictures/impl/graph_picture.ipp"
#endif
