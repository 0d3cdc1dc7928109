// The live picture of a run that goes on when ranks die: the loss on top, below it a row for each
// place, dying and healing. While it trains, or from the log that `./yotta train ... --json
// run.json` writes.
//
//     ./yotta train --tolerate 1 ... --live               in a terminal, while it trains
//                                                         (live_picture.hpp)
//     ./yotta train --tolerate 1 ... --live-page run.html a page, while it trains
//     ./yotta lesson 30 -- --log run.json --live 1        in a terminal, step by step
//     ./yotta lesson 30 -- --log run.json --html run.html a page that plays it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/resilience/snapshots/epoch_log.hpp"

namespace yotta {

// A step as it was done; one that is done again has a second column. Bit i is place i.
struct SurvivalColumn {
  int64_t step = 0;
  double loss = 0;
  uint64_t here = 0, joined = 0, dies = 0;  // take part; are new; are gone afterwards
  bool again = false;
};
struct Survival {
  int places = 0;
  std::vector<SurvivalColumn> columns;
};
// A run so far: its epochs, and the losses of its steps from `first` on.
Survival survival_of(const std::vector<EpochRecord>& epochs, const std::vector<double>& loss,
                     int64_t first);
// Errors: a log that is no JSON, or that of a run without --faults or --tolerate; `source` names
// it.
Survival read_survival(const std::string& json, const std::string& source,
                       Where where = Where::current());

// With so many columns at most: one of several steps has their mean loss, and all that happened in
// them.
Survival shortened(const Survival& run, size_t most);

// The first columns as text, for a terminal.
std::string survival_text(const Survival& run, size_t columns);
// All of it: a picture, and a page that plays it.
std::string survival_svg(const Survival& run);
std::string survival_html(const Survival& run);
// A page with `words` above the picture. While the run goes on, a browser loads it again every
// second.
std::string live_html(const Survival& run, const std::string& words, bool goes_on);
std::string live_html(const std::string& svg, const std::string& words, bool goes_on);
// The line of a page that a browser loads again.
inline constexpr const char* live_refresh = "<meta http-equiv=\"refresh\" content=\"1\">\n";

}  // namespace yotta
