// Pages with sliders: all points are in the page, nothing is fetched, and the figures are the
// library's.
#include <doctest/doctest.h>

#include "course/pictures/plan_sliders.hpp"

using namespace yotta;

namespace {

SliderTable small_table() {
  SliderTable table{"Two </script> \"axes\"",
                    {{"GPUs", "", {8, 16, 32}, 1}, {"cards", "GB/s", {12.5, 50}}},
                    {{"step", "s", 2}, {"MFU", "%", 1}}};
  fill(table, [](const std::vector<double>& at) {
    return SliderPoint{{at[0] + at[1] / 100, at[0] == 32 ? std::nan("") : 1000 * at[0] + at[1]},
                       fmt::format("note {} {}", at[0], at[1])};
  });
  return table;
}
size_t count(const std::string& text, const std::string& words) {
  size_t found = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++found;
  return found;
}

PlanRequest sixteen_gpus(double cards) {
  PlanRequest request;
  request.config = llama3_8b(), request.config.dtype = DType::bf16;
  request.cluster = cluster_named("h100x16");
  request.cluster.levels[1].beta = 1e-9 / cards;
  request.sequence = 8192, request.tokens = 1 << 20;
  return request;
}

}  // namespace

TEST_CASE("a page with sliders holds every point, and refers to nothing outside") {
  const SliderTable table = small_table();
  const std::string page = slider_page(table);
  REQUIRE(table.points.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    const std::vector<double> at = setting(table, i);
    const std::string mfu = at[0] == 32 ? "null" : fmt::format("{}", 1000 * at[0] + at[1]);
    CHECK(count(page, fmt::format("[[{},{}],\"note {} {}\"]", at[0] + at[1] / 100, mfu, at[0],
                                  at[1])) == 1);
  }
  for (const char* outside : {"http", "src=", "href", "import", "fetch(", "url("})
    CHECK_MESSAGE(count(page, outside) == 0, outside);
  CHECK(count(page, "</script>") == 1);  // the title's is no end of it
  CHECK(count(page, "\"start\":1") == 1);
}

TEST_CASE("a row says a point in words; of the last axis neighbours stand together") {
  const SliderTable table = small_table();
  CHECK(setting(table, 1) == std::vector<double>{8, 50});
  CHECK(setting(table, 2) == std::vector<double>{16, 12.5});
  CHECK(start_of(table) == 2);
  CHECK(slider_row(table, 2) ==
        "GPUs 16, cards 12.5 GB/s: step 16.12 s, MFU 16012.5 %; note 16 12.5\n");
  CHECK(slider_row(table, 5) == "GPUs 32, cards 50 GB/s: step 32.50 s, MFU none; note 32 50\n");
}

TEST_CASE("a table whose sizes do not agree makes no page") {
  SliderTable table = small_table();
  CHECK_THROWS_AS(slider_row(table, 6), Error);
  table.axes[0].start = 3;
  CHECK_THROWS_AS(slider_page(table), Error);
  table = small_table(), table.points.pop_back();
  CHECK_THROWS_AS(slider_page(table), Error);
  table = small_table(), table.points[4].figures.push_back(1);
  CHECK_THROWS_AS(slider_page(table), Error);
  table = small_table(), table.figures.clear();
  CHECK_THROWS_AS(slider_page(table), Error);
  CHECK_THROWS_AS(slider_page({"nothing", {}, {{"step", "s", 2}}, {}}), Error);
  table = small_table(), table.axes[1].values.clear();
  CHECK_THROWS_AS(slider_page(table), Error);
}

TEST_CASE("the planner's page has the fastest of plain layouts, as estimate_step says it") {
  const SliderTable table =
      plan_table("a title", llama3_8b(),
                 {.gpus = {16}, .cards = {5, 50}, .sequences = {8192}, .batches = {1}});
  REQUIRE(table.points.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const PlanRequest request = sixteen_gpus(i == 0 ? 5 : 50);
    double least = no_limit, mfu = 0, bytes = 0;
    std::string name;
    for (const Layout& each : plain_layouts(request)) {
      const StepEstimate e = estimate_step(request.cluster, described(request, each));
      if (e.memory.bytes() > request.cluster.chip.memory || e.seconds >= least) continue;
      least = e.seconds, mfu = e.mfu, bytes = e.memory.bytes(), name = text_of(each);
    }
    CHECK(table.points[i].figures[0] == doctest::Approx(least));
    CHECK(table.points[i].figures[1] == doctest::Approx(100 * mfu));
    CHECK(table.points[i].figures[2] == doctest::Approx(bytes / 1e9));
    CHECK(table.points[i].note == "Fastest: " + name);
    // The whole search finds one that is as fast or faster.
    CHECK(make_plan(request, {.best = 1}).best[0].estimate.seconds <= least * (1 + 1e-9));
  }
  const SliderTable none = plan_table(
      "", llama3_405b(), {.gpus = {8}, .cards = {50}, .sequences = {8192}, .batches = {1}});
  CHECK(std::isnan(none.points[0].figures[0]));
  CHECK(none.points[0].note == "no plain layout fits");
}
