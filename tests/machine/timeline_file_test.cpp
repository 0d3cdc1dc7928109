#include "yotta/machine/timeline_file.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "support/message_of.hpp"
#include "support/small_trace.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the ending says which kind is written") {
  const TemporaryFolder folder;
  const auto written = [&](const char* name) {
    const std::string path = folder.path() / name;
    write_timeline(path, small_trace());
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(written("run.html") == timeline_page(small_trace()));
  CHECK(written("run.json") == timeline_json(small_trace()));
  CHECK(written("run.svg") == timeline_svg(small_trace()));
  CHECK(contains(written("run.txt"), "rank 1"));
}

TEST_CASE("another ending, and a folder that is not there, are refused in words") {
  CHECK(contains(message_of([] { check_timeline_name("run.pdf"); }),
                 "'run.pdf' does not say what kind of timeline it shall be: end it in .html"));
  const TemporaryFolder folder;
  const std::string nowhere = folder.path() / "none" / "run.svg";
  CHECK(contains(message_of([&] { write_timeline(nowhere, small_trace()); }),
                 "No such file or directory"));
}
