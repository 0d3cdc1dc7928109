// The bodies of model/nearest.hpp.
#pragma once

#include "yotta/model/nearest.hpp"

namespace yotta {

YOTTA_INLINE std::string nearest_of(const std::vector<Way>& ways) {
  std::string text;
  for (const Way& way : ways)
    if (way.works) text += (text.empty() ? ". Nearest: " : ", or ") + way.words;
  return text;
}

}  // namespace yotta
