// The planner's times of steps that others have measured and published.
#include <algorithm>
#include <cmath>

#include "course/book/figures/recorded/record.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/plan/measured_rows.hpp"

namespace book {
namespace {

const std::vector<std::string> fits = {"all sources, as ./yotta plan has them", "all other sources",
                                       "the same source"};

const std::vector<yotta::MeasuredRow>& measured() {
  static const std::string path = YOTTA_SOURCE_DIR "/course/data/measured_steps.tsv";
  static const std::vector<yotta::MeasuredRow> rows =
      yotta::measured_rows(yotta::read_file(path), path);
  return rows;
}

const std::vector<yotta::RowError>& errors_of(size_t fit) {
  static const std::vector<yotta::RowError> all[] = {
      yotta::row_errors(measured(), &yotta::stack_named("usual")), yotta::unseen_errors(measured()),
      yotta::row_errors(measured(), nullptr)};
  return all[fit];
}

// Each source once, in the order of the rows; the last is all of them.
std::vector<std::string> sources() {
  std::vector<std::string> names;
  for (const yotta::SourceErrors& each : yotta::errors_by_source(errors_of(0)))
    names.push_back(each.source);
  return names;
}

Data data(const std::vector<double>& at) {
  const std::vector<yotta::RowError>& errors = errors_of(static_cast<size_t>(at[0]));
  const yotta::SourceErrors shown = yotta::errors_by_source(errors)[static_cast<size_t>(at[1])];
  Row points{"points"};  // seconds measured and predicted, and whether of the source
  for (const yotta::RowError& each : errors) {
    const bool mine = shown.source == sources().back() || each.row->source == shown.source;
    const auto drawn = [](double seconds) { return std::round(seconds * 1e4) / 1e4; };
    points.values.insert(points.values.end(), {drawn(each.row->seconds),
                                               drawn(each.estimate.seconds), mine ? 1.0 : 0.0});
  }
  Data made;
  made.numbers = {{"steps of this source", "", double(shown.rows), 6},
                  {"off by, on average", "%", 100 * shown.mean},
                  {"at worst", "%", 100 * shown.worst}};
  made.rows = {points, {"source", {}, {shown.source}}};
  const char* const codes[] = {"yotta::row_errors(rows, &yotta::stack_named(\"usual\"))",
                               "yotta::unseen_errors(rows)", "yotta::row_errors(rows, nullptr)"};
  made.code = fmt::format(
      "const auto rows = yotta::measured_rows(yotta::read_file(path), path);\n"
      "for (const auto& each : yotta::errors_by_source({}))\n"
      "  fmt::print(\"{{}}: {{}}%\\n\", each.source, 100 * each.mean);",
      codes[static_cast<size_t>(at[0])]);
  return made;
}

}  // namespace

Figure measured_figure() {
  return {"28_measured",
          "How far off is the planner on steps that others have measured, and how much of that is "
          "because it has seen them? Computed when this page was made.",
          {choice("five numbers fitted to", fits, 1),
           choice("steps of", sources(), sources().size() - 1)},
          data};
}

}  // namespace book
