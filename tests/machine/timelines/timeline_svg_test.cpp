#include "yotta/machine/timelines/timeline_svg.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/small_trace.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++found;
  return found;
}
}  // namespace

TEST_CASE("a bar an event, with its times where a mouse finds them") {
  const std::string svg = timeline_svg(small_trace());
  CHECK(count(svg, "<title>") == 7);
  CHECK(contains(svg, "<title>halo, 4 s to 6 s, to rank 1, 64 bytes</title>"));
  CHECK(contains(svg, "<title>wait, 2 s to 6 s</title>"));
  CHECK(count(svg, "fill=\"url(#wait)\"") == 1);
  // 8 s are 800 pixels: rank 0's matmul is 400 wide and begins at the left end
  // right of "from rank 0", the longest name
  CHECK(contains(svg, "x=\"152.50\" y=\"36.5\" width=\"400.00\" height=\"14\" fill=\"#77aadd\""));
}

TEST_CASE("a line over the critical path: rank 0's matmul, the message, rank 1's last matmul") {
  const std::string svg = timeline_svg(small_trace());
  CHECK(count(svg, "height=\"2\"/>") == 3);
  CHECK(contains(svg, "<rect x=\"152.50\" y=\"34.0\" width=\"400.00\" height=\"2\"/>"));
  CHECK(contains(svg, "<rect x=\"552.50\" y=\"54.0\" width=\"200.00\" height=\"2\"/>"));
}

TEST_CASE("a long lane's name does not run into the bars") {
  Trace trace;
  trace.ranks.push_back({{EventKind::send,
                          message_lane(first_image + 12345, false),
                          0,
                          1,
                          "x",
                          {},
                          first_image + 12345,
                          8}});
  CHECK(contains(timeline_svg(trace), "<rect x=\"265.00\""));  // "to the image on chip 12345"
}

TEST_CASE("it says what its marks mean, how many ranks it leaves out, and who an image is") {
  CHECK(contains(timeline_svg(small_trace()), "hatched: waits; dark line: critical path<"));
  CHECK(contains(timeline_svg(small_trace(), 1), "critical path; 1 more ranks<"));
  Trace trace;
  trace.ranks.push_back({{EventKind::send, -1, 0, 1, "x", {}, first_image + 7, 8}});
  CHECK(contains(timeline_svg(trace), "to the image on chip 7, 8 bytes"));
}

TEST_CASE("tags are closed, and names cannot break out of them") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 1, "a<b>&\"c\"", {}, -1, 0, 0}});
  const std::string svg = timeline_svg(trace);
  CHECK(contains(svg, "a&lt;b&gt;&amp;&quot;c&quot;"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK(count(svg, "<svg") == count(svg, "</svg>"));
}

TEST_CASE("thousands of events make a small picture") {
  Trace trace;
  trace.ranks.emplace_back();
  for (int i = 0; i < 20000; ++i)
    trace.ranks[0].push_back({EventKind::op, 0, 1.0 * i, i + 0.9, "op", {}, -1, 0, 0});
  CHECK(count(timeline_svg(trace), "<title>") < 3000);
  for (size_t i = 1; i < 20000; ++i) trace.ranks[0][i].cause = {0, static_cast<int>(i) - 1};
  CHECK(count(timeline_svg(trace), "height=\"2\"/>") == 1);  // one long line
}
