// A mesh as text: layouts as they are written on a command line, and the picture of a mesh.
//
//     parse_mesh("pp=2,tp=2")          MeshShape{.tp = 2, .pp = 2}
//
//     picture(shape)                   which rank has which coordinates:
//
//                    tp 0   tp 1
//            pp 0      0      1
//            pp 1      2      3
#pragma once

#include <string>

#include "yotta/comm/mesh.hpp"

namespace yotta {

// "tp=2,dp=4" as a shape. dp and fsdp are short for dp_replicate and dp_shard. An axis that is not
// named has size 1. Errors: no such axis or size; an axis given twice; more ranks than an int
// counts.
MeshShape parse_mesh(const std::string& text, Where where = Where::current());

// Which rank has which coordinates, as a table: one column for each (cp, tp), one row for each of
// the rest. `word` names the axes.
std::string picture(const MeshShape& shape, const char* (*word)(Axis) = name);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/layouts/impl/mesh_text.ipp"
#endif
