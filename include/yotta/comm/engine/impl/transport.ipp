// The bodies of comm/engine/transport.hpp.
#pragma once

#include "yotta/comm/engine/transport.hpp"

namespace yotta {

YOTTA_INLINE std::string describe_operation(const Call& call) {
  std::string text = call.operation;
  if (call.count >= 0) text += fmt::format(" of {} {}", call.count, name(call.dtype));
  if (*call.op != 0) text += fmt::format(", {}", call.op);
  if (call.root >= 0) text += fmt::format(", root {}", call.root);
  if (*call.algorithm != 0) text += fmt::format(", {}", call.algorithm);
  return text;
}

YOTTA_INLINE std::string describe(const Call& call) {
  return describe_operation(call) + " at " + at(call.where);
}

YOTTA_INLINE std::string describe_mismatch(int first, const std::string& its, int second,
                                           const std::string& other) {
  return fmt::format(
      "all ranks of a communicator must call the same collectives in the same order.\n"
      "  rank {}: {}\n  rank {}: {}",
      first, its, second, other);
}

}  // namespace yotta
