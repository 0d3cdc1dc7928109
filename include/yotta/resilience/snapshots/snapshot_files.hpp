// Snapshots on the disk (snapshot.hpp): one file for each part of the model that ranks hold.
//
//     DIR/step_12/part_0_of_2.snapshot
//     DIR/step_12/part_1_of_2.snapshot      a step counts when all its parts are whole
//
// A rank that is killed while it writes leaves a partial file, which nobody reads
// (core/system/files.hpp). A file that was cut short or changed afterwards has another checksum,
// and does not count: the step before it does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/resilience/snapshots/snapshot.hpp"

namespace yotta {

// Which piece of the model a rank holds, of how many.
struct Part {
  int index = 0, count = 1;
};
std::string snapshot_file(const std::string& folder, int64_t step, Part part);
// Under its name when all of it is on the disk. Older ones of this part go, but for the newest two
// steps and the newest of which all parts are there: on a full disk others may fail to write.
void write_snapshot(const std::string& folder, int64_t step, Part part, std::string_view bytes,
                    Where where = Where::current());
// The steps later than `after` of which this part is there and whole, the newest first. Errors:
// another run's.
std::vector<int64_t> good_steps(const std::string& folder, Part part, uint64_t run,
                                int64_t after = 0, Where where = Where::current());
// Which parts of a folder's newest step are missing or damaged, as words for a warning. Empty if
// the folder has no step, or if all parts are whole.
std::string why_no_step(const std::string& folder, int parts, Where where = Where::current());
// Those of this part that are of later steps than `after` go.
void remove_snapshots(const std::string& folder, Part part, int64_t after);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/snapshots/impl/snapshot_files.ipp"
#endif
