// What the proofs of notebooks share: which notebook, and with what it runs.
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/notebook.hpp"
#include "runner/notebook_run.hpp"
#include "support/from_ctest.hpp"
#include "support/not_run.hpp"

inline bool have(const std::string& program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

inline const std::string how_to_install =
    "clang 19 is not installed (Debian, Ubuntu: apt-get install clang-19 clang-tools-19 "
    "libclang-rt-19-dev)";

// The notebook that this program proves.
inline std::string notebook_path() { return yotta_test::from_ctest("YOTTA_NOTEBOOK"); }

// Behind the compiled library, which this program's target depends on.
inline runner::NotebookTools notebook_tools(const std::string& name) {
  runner::NotebookTools tools;
  tools.folder = fmt::format("{}/notebooks/{}", YOTTA_BUILD_DIR, name);
  std::filesystem::create_directories(tools.folder);
  const std::string library = fmt::format("{}/libyotta_notebook.so", YOTTA_BUILD_DIR);
  tools.flags = runner::notebook_flags(YOTTA_SOURCE_DIR, library);
  // clang 19 warns about what it finds itself on a processor with AVX10.
  for (const char* flag :
       {"-march=native", "-Wno-unknown-warning-option", "-Wno-invalid-feature-combination"})
    tools.flags.emplace_back(flag);
  tools.libraries = {library, fmt::format("-Wl,-rpath,{}", YOTTA_BUILD_DIR), "-lfmt",
                     "-lboost_context"};
  return tools;
}

// Fails with each of the complaints.
inline void check_none(const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}
