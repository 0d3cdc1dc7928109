// Machines of your own, from JSON:
//
//     {
//       "name": "lab",
//       "chip": "h100",                      a known chip, or your own:
//       "chip": {"name": "mine", "bf16": 1e14, "f32": 1e13, "bandwidth": 1e12, "memory": 16e9},
//       "levels": [{"name": "node", "chips": 4, "alpha": 1e-6, "bandwidth": 300e9},
//                  {"name": "room", "chips": 32, "alpha": 5e-6, "bandwidth": 25e9}],
//       "torus": [2, 2],                     optional: the first level is a grid
//       "gamma": 0                           optional: seconds per byte reduced
//     }
//
// Bandwidths are bytes per second, one way. Peaks are dense FLOP/s; the chip lacks those left out.
// Every error names the file, the key, what was expected and what is there.
#pragma once

#include <string>
#include <string_view>

#include "yotta/machine/cluster.hpp"

namespace yotta {

// The machine that a JSON text describes. name: of the file, for errors. Errors: see above.
Cluster parse_cluster(std::string_view text, const std::string& name,
                      Where where = Where::current());

// What --cluster takes: a machine by name (cluster_named), or a file whose name ends in .json.
// Errors: no such machine; no such file; what is wrong in the file.
Cluster cluster_from(const std::string& text, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/files/impl/cluster_file.ipp"
#endif
