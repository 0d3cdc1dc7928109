// The pictures of memory over time in lessons 15 and 17: the files are what the runs draw, and
// picture, formula, ledger and text agree.
#include "course/pictures/memory_pictures.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>

#include "runner/exercise.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

using namespace yotta;

namespace {

const std::string root = YOTTA_SOURCE_DIR;
std::string readme(const std::string& lesson) {
  return runner::read_text(root + "/lessons/" + lesson + "/README.md");
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("the pictures of memory are what the runs draw, and the lessons show them") {
  for (const auto& [file, svg] : memory_pictures()) {
    const bool same = runner::read_text(root + "/course/pictures/" + file) == svg;
    CHECK_MESSAGE(same, fmt::format("course/pictures/{} is not what is drawn; ./yotta lesson {} -- "
                                    "--draw 1 writes it anew into this folder",
                                    file, file == "fsdp_life.svg" ? 15 : 17));
  }
  CHECK(has(readme("15_fsdp"), "](../../course/pictures/fsdp_life.svg)"));
  CHECK(
      has(readme("17_activation_checkpointing"), "](../../course/pictures/checkpoint_memory.svg)"));
}

TEST_CASE("pictures of memory have 900 pixels at most and letters of 9 or more that stay inside") {
  for (const auto& [file, svg] : memory_pictures()) {
    CAPTURE(file);
    CHECK(has(svg, "width=\"900\""));
    CHECK_FALSE(has(svg, "nan"));
    const std::regex place(
        "<text x=\"(\\d+)\" y=\"(\\d+)\" text-anchor=\"(\\w+)\"[^>]*font-size="
        "\"(\\d+)\"[^>]*>([^<]*)<");
    int labels = 0;
    for (std::sregex_iterator at(svg.begin(), svg.end(), place), end; at != end; ++at, ++labels) {
      const double x = std::stod((*at)[1]), size = std::stod((*at)[4]);
      const double width = 0.58 * size * static_cast<double>((*at)[5].length());
      const double left = (*at)[3] == "start" ? x : (*at)[3] == "end" ? x - width : x - width / 2;
      CHECK_MESSAGE(size >= 9, (*at)[5].str());
      CHECK_MESSAGE(left >= 4, (*at)[5].str());
      CHECK_MESSAGE(left + width <= 896, (*at)[5].str());
    }
    CHECK(labels > 20);
  }
}

TEST_CASE("FSDP's picture shows what the formulas of memory and time say") {
  const FsdpLife life = fsdp_life();
  const int64_t peak = fsdp_peak_elements(life.ranks, life.unit_bytes);
  CHECK(most(life.borrowed) == peak);
  const int64_t ring = life.unit_bytes / life.ranks * 2;  // two chunks while it reduces
  CHECK(life.ledger_peak >= peak);
  CHECK(life.ledger_peak <= peak + ring);
  const double add =
      life.seconds - fsdp_seconds(4, {1, 2, life.gather, life.gather, 0}, true, false);
  CHECK(add >= 0);
  CHECK(add < 0.01);  // the sums' additions
  CHECK(has(readme("15_fsdp"),
            fmt::format("{:.2f} units",
                        static_cast<double>(peak) / static_cast<double>(life.unit_bytes))));
}

TEST_CASE("each unit is gathered before it computes and dropped after") {
  for (const FsdpLife::Unit& unit : fsdp_life().units) {
    REQUIRE(unit.computing.size() == 3);
    REQUIRE(unit.whole.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      const Span &F_or_I = unit.computing[i].when, &whole = unit.whole[i];
      CHECK(whole.begin <= unit.gathers[i].begin);
      CHECK(unit.gathers[i].end <= F_or_I.begin + 1e-9);
      CHECK(whole.end == F_or_I.end);
    }
    CHECK(unit.computing[2].what == 'W');
    CHECK(unit.reduction.begin >= unit.computing[2].when.end);
    CHECK(unit.gradients.end >= unit.reduction.end - 1e-9);
  }
}

TEST_CASE("the peaks of the four ways are those of lesson 17's table") {
  const std::vector<CheckpointRun> runs = checkpoint_runs();
  const std::string text = readme("17_activation_checkpointing");
  for (const CheckpointRun& run : runs) {
    CAPTURE(run.name);
    const double memory =
        static_cast<double>(most(run.held)) / static_cast<double>(most(runs[0].held));
    const std::regex row(fmt::format("{}[^\n]* {:.1f}% +{:.1f}%  the same", run.name.substr(0, 7),
                                     100 * memory, 100 * run.seconds / runs[0].seconds));
    CHECK(std::regex_search(text, row));
  }
}
