// train's --diloco: "k=4,inner=50" and what else can be said of workers that seldom talk.
#pragma once

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

}  // namespace yotta
