// train's --diloco: "k=4,inner=50" and what else can be said of workers that seldom talk.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "yotta/parallel/diloco.hpp"

namespace yotta {

// k workers, and how they average, of a text such as "k=4,inner=50,bits=4". Errors: a name that is
// none, a value that is no number, no k.
std::pair<int, DilocoOptions> parse_diloco(const std::string& text);

// The same, of what parse_diloco has read; "no" for 0 workers.
std::string describe_diloco(int workers, const DilocoOptions& options);

// Throws unless these workers can average in this way.
void expect_diloco(int workers, const DilocoOptions& options);

// A worker that is away for one round, and comes back.
struct Absence {
  int worker = 1;     // not 0, which prints and saves
  int64_t round = 1;  // the first is 1

  bool is_at(int64_t step, int64_t inner) const { return step / inner == round - 1; }
};

// Of a text such as "worker=1,round=2". Errors: as parse_diloco.
Absence parse_absence(const std::string& text);

std::string describe_absence(const std::optional<Absence>& absent);

// Throws unless this worker can be away then: in a run of so many steps.
void expect_absence(const Absence& absent, int workers, const DilocoOptions& options,
                    int64_t steps);

}  // namespace yotta
