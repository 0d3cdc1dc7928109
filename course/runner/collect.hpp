// `./yotta collect`: a student's work/ as one archive to hand in; `./yotta collect DIR --out
// CLASS`: the archives in DIR, each unpacked to CLASS/NAME, NAME being the archive's without its
// ending, or that of its folder in DIR, without what Moodle and Canvas add to it. `./yotta grade
// CLASS` goes on from there.
//
// Archives come from strangers: only the files of exercises and the record of hints are unpacked,
// none of more than a megabyte, and none outside of its student's folder.
#pragma once

#include <string>

namespace runner {

struct CollectOptions {
  std::string folder;  // with archives; empty: pack this tree's own work
  std::string out;     // the archive, or the class's folder
  std::string json;    // what was packed or taken, for programs
};

// Exit status: 0, 1 if an archive could not be unpacked, 2 if the options are wrong.
int collect(const CollectOptions& options);

}  // namespace runner
