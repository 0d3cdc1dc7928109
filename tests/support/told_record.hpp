// A program of graded cases that sends the record it is told, whatever it is asked for: for tests
// of those who read it.
#pragma once

#include <filesystem>
#include <string>

#include "runner/exercise.hpp"
#include "support/from_ctest.hpp"
#include "support/temporary_folder.hpp"

namespace yotta_test {

// `lines`: "start\t7.1: a\t\npassed\t7.1: a\t\nend\t\t\n". Made from the program told_record, which
// lies beside the suite's.
inline std::string program_that_says(const TemporaryFolder& folder, const std::string& lines) {
  static int count = 0;
  const std::string path = folder / ("program" + std::to_string(++count));
  std::filesystem::copy_file(from_ctest("YOTTA_TOLD_RECORD"), path);
  runner::write_text(path + ".says", lines);
  return path;
}

}  // namespace yotta_test
