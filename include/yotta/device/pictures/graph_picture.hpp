// A captured graph drawn as SVG: nodes from top to bottom, in boxes of the kernels that compute
// them.
//
//     x  ─┐
//         │┌──────────┐
//         ├│ subtract │ one box a kernel; arrows into a box and out of it cross memory
//         ││ exp      │
//         │└──────────┘
#pragma once

#include <string>

#include "yotta/device/fusion.hpp"

namespace yotta {

// SVG: each kernel a box with its nodes, values that cross memory as arrows between boxes with their
// bytes. `title` must not contain < or &.
std::string graph_svg(const Graph& graph, const std::vector<Kernel>& kernels,
                      const std::string& title);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/pictures/impl/graph_picture.ipp"
#endif
