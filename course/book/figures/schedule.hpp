// What figures of pipeline schedules share.
#pragma once

#include "course/book/figures/figure.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

namespace book {

// The rows from which schedule.js draws: sizes, and five numbers for each action of a rank.
inline void add_timeline(Data& to, const yotta::PipelineTimeline& line) {
  to.rows.push_back(
      {"sizes", {double(line.by_rank.size()), line.length, double(line.schedule.stages)}, {}});
  for (size_t r = 0; r < line.by_rank.size(); ++r) {
    Row row{fmt::format("rank {}", r)};
    for (const yotta::PipelineEvent& e : line.by_rank[r])
      row.values.insert(row.values.end(), {double(e.action.stage), double(e.action.op),
                                           double(e.action.microbatch), e.begin, e.end});
    to.rows.push_back(row);
  }
}

}  // namespace book
