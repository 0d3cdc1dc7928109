// The bodies of core/error.hpp.
#pragma once

#include "yotta/core/error.hpp"

namespace yotta {

YOTTA_INLINE std::string at(Where where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of("/\\") + 1);  // npos + 1 == 0: nothing to remove
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace yotta
