// The text of one of the project's own files, for tests that hold a picture or a header against
// what the code makes.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace yotta_test {

// text_of("course/pictures/pipeline_1f1b.svg"); empty if there is none.
inline std::string text_of(const std::string& file) {
  std::ifstream stream(YOTTA_SOURCE_DIR "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace yotta_test
