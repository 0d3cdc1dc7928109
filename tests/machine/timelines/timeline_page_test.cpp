#include "yotta/machine/timelines/timeline_page.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/message_of.hpp"
#include "support/small_trace.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
nlohmann::json data_of(const std::string& page) {
  const size_t begin = page.find("const data = ") + 13, end = page.find(";\nconst canvas");
  return nlohmann::json::parse(page.substr(begin, end - begin));
}
}  // namespace

TEST_CASE("the page holds every event, and where its cause is") {
  const nlohmann::json data = data_of(timeline_page(small_trace()));
  CHECK(data["seconds"] == 8);
  REQUIRE(data["rows"].size() == 4);
  const auto& received = data["rows"][3]["bars"][0];
  CHECK(received[0] == 4);
  CHECK(received[1] == 6);
  CHECK(data["names"][received[2].get<size_t>()] == "halo");
  CHECK(received[6] == 64);
  CHECK(received[8] == 1);  // row 1, rank 0's lane to rank 1
  CHECK(received[9] == 0);  // its first bar
  const auto& last = data["rows"][2]["bars"][2];
  CHECK(last[3] == 1);  // critical
  CHECK(data["rows"][2]["bars"][0][3] == 0);
}

TEST_CASE("the page is whole: it loads nothing, and a name cannot end its script") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 1, "</script><b>", {}, -1, 0, 0}});
  const std::string page = timeline_page(trace);
  CHECK(page.find("</script>") == page.rfind("</script>"));
  CHECK(data_of(page)["names"][0] == "</script><b>");
  for (const char* loads : {"src=", "href=", "http://", "https://", "import "})
    CHECK_FALSE(contains(page, loads));
}

TEST_CASE("a cause on a rank that is left out is no cause on the page") {
  const nlohmann::json data = data_of(timeline_page(small_trace(), 1));
  CHECK(data["rows"].size() == 2);
  CHECK(data["left_out"] == 1);
  for (const auto& row : data["rows"])
    for (const auto& bar : row["bars"]) CHECK(bar[8] < 2);
}
