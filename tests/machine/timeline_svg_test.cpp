#include "yotta/machine/timeline_svg.hpp"

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
  CHECK(contains(svg, "x=\"150.00\" y=\"36.5\" width=\"400.00\" height=\"14\" fill=\"#77aadd\""));
}

TEST_CASE("the critical path is framed: rank 0's matmul, the message, rank 1's last matmul") {
  CHECK(count(timeline_svg(small_trace()), "stroke=\"#222\"") == 3);
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
}
