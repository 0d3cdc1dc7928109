#include "missing_event.hpp"

namespace yotta {

std::string error_without_wait() {
  try {
    five_pieces(run_without_wait);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was noticed";
}

}  // namespace yotta
