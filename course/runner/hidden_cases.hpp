// Cases that students have not seen (`./yotta grade --hidden DIR`) are a part of the build while a
// class is graded, and not longer: also when that run was killed.
#pragma once

#include <string>

#include "runner/places.hpp"

namespace runner {

// While it lives, the build has the cases of a folder beside the exercises' own; "": none. Waits
// until no other lives: two classes that are graded at once would get each other's cases.
class HiddenCases {
 public:
  explicit HiddenCases(const std::string& folder, const std::string& build = YOTTA_BUILD_DIR);
  ~HiddenCases();
  HiddenCases(const HiddenCases&) = delete;
  HiddenCases& operator=(const HiddenCases&) = delete;

 private:
  std::string build_;
  FileLock alive_;
};

// The cases of a run that was killed leave the build; those of one that still runs stay.
void remove_left_hidden_cases(const std::string& build = YOTTA_BUILD_DIR);

}  // namespace runner
