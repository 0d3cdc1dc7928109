// `./yotta collect`: a student's work/ as one archive to hand in; `./yotta collect DIR --out
// CLASS`: what a class has handed in, sorted by student, CLASS/NAME for each. `./yotta grade CLASS`
// goes on from there.
//
//     DIR/ann.tar.gz, leeann_45_678_work.zip    unpacked; of several the last
//     DIR/leeann_45_678_<page>                  copied, without what the platform adds
//     DIR/Bob_12_assignsubmission_file_/...     the same for what lies in the folder
//     DIR/eve.rar                               not taken, which is said; CLASS/eve/NOT_TAKEN.txt
//                                               says it to `grade`
//
// Archives come from strangers: only C++ and the record of hints are unpacked, no file of more than
// a megabyte, and none outside of its student's folder.
#pragma once

#include <string>

namespace runner {

struct CollectOptions {
  std::string folder;  // with archives; empty: pack this tree's own work
  std::string out;     // the archive, or the class's folder
  std::string json;    // what was packed or taken, for programs
};

// Exit status: 0, 1 if something could not be taken, 2 if the options are wrong.
int collect(const CollectOptions& options);

}  // namespace runner
