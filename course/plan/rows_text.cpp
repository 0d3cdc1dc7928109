#include "course/plan/rows_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "course/options/console.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/plan/mfu.hpp"

namespace yotta {

namespace {

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }
// TFLOP/s a GPU, as measured.
double measured_rate(const RowError& e) { return e.estimate.model_flops / e.row->seconds / 1e12; }

}  // namespace

std::string rows_text(const std::vector<RowError>& errors) {
  console::Table table({"run", "measured s", "predicted s", "error", "TFLOP/s", "predicted",
                        "measured GB", "predicted GB", "error"});
  for (const RowError& e : errors) {
    const bool has_bytes = e.row->bytes > 0;
    table.row({e.row->id, fmt::format("{:.4g}", e.row->seconds),
               fmt::format("{:.4g}", e.estimate.seconds), percent(e.seconds()),
               fmt::format("{:.0f}", measured_rate(e)),
               fmt::format("{:.0f}", e.estimate.flops_a_second() / 1e12),
               has_bytes ? fmt::format("{:.1f}", e.row->bytes / 1e9) : "",
               fmt::format("{:.1f}", e.estimate.memory.bytes() / 1e9),
               has_bytes ? percent(e.bytes()) : ""});
  }
  return table.text();
}

std::string sources_text(const std::vector<SourceErrors>& sources) {
  console::Table table(
      {"source", "rows", "seconds: mean", "worst", "rows with GB", "GB: mean", "worst"});
  const auto share = [](double value) { return fmt::format("{:.1f}%", 100 * value); };
  for (const SourceErrors& each : sources) {
    const bool has_bytes = each.rows_with_bytes > 0;
    table.row({each.source, std::to_string(each.rows), share(each.mean), share(each.worst),
               std::to_string(each.rows_with_bytes), has_bytes ? share(each.bytes_mean) : "",
               has_bytes ? share(each.bytes_worst) : ""});
  }
  return table.text();
}

std::string fit_text(const StackFit& fit) {
  const Stack& s = fit.stack;
  return fmt::format(
      "matmul {:.3f}, attention {:.3f}, passes {:.3f}, interference {:.3f}, network {:.3f}\n"
      "mean error {:.1f}% before, {:.1f}% after; on rows that were left out {:.1f}%, at worst "
      "{:.1f}%\n",
      s.matmul, s.attention, s.passes, s.interference, s.network, 100 * fit.before, 100 * fit.after,
      100 * fit.left_out, 100 * fit.worst_left_out);
}

JsonObject rows_json(const std::vector<RowError>& errors) {
  std::vector<JsonObject> rows, sources;
  for (const RowError& e : errors) {
    JsonObject& to = rows.emplace_back();
    to.set("id", e.row->id);
    to.set("source", e.row->source);
    to.set("layout", text_of(e.row->layout));
    to.set("measured_seconds", e.row->seconds);
    to.set("seconds", e.estimate.seconds);
    to.set("error", e.seconds());
    to.set("tflops_per_gpu", e.estimate.flops_a_second() / 1e12);
    to.set("memory_bytes", e.estimate.memory.bytes());
    if (e.row->bytes > 0) to.set("measured_bytes", e.row->bytes);
    if (e.row->bytes > 0) to.set("memory_error", e.bytes());
  }
  for (const SourceErrors& each : errors_by_source(errors)) {
    JsonObject& to = sources.emplace_back();
    to.set("source", each.source);
    to.set("rows", int64_t{each.rows});
    to.set("mean", each.mean);
    to.set("worst", each.worst);
    to.set("rows_with_bytes", int64_t{each.rows_with_bytes});
    to.set("memory_mean", each.bytes_mean);
    to.set("memory_worst", each.bytes_worst);
  }
  JsonObject json;
  json.set("rows", rows);
  json.set("sources", sources);
  return json;
}

std::vector<MeasuredRow> own_rows() {
  const std::string path = YOTTA_SOURCE_DIR "/course/data/measured_steps.tsv";
  return measured_rows(read_file(path), path);
}

namespace {

bool is_of_this_kind(const MeasuredRow& row, const PlanRequest& request) {
  const auto size = [](const TransformerConfig& c) { return static_cast<double>(parameters(c)); };
  const double ratio = size(row.request.config) / size(request.config);
  const bool same_kind =
      (row.request.config.mixture.experts > 0) == (request.config.mixture.experts > 0);
  return same_kind && ratio > 1.0 / 3 && ratio < 3 &&
         std::string_view(row.request.cluster.chip.name) == request.cluster.chip.name;
}
double measured_mfu(const MeasuredRow& row) {
  const double flops = needed_flops(row.request.config, row.request.batch(), row.request.sequence);
  return flops / row.seconds / static_cast<double>(row.request.cluster.size()) /
         peak(row.request.cluster.chip, row.request.config.dtype);
}

}  // namespace

std::string measured_kind_text(const PlanRequest& request) {
  std::vector<std::pair<double, std::string>> found;
  for (const MeasuredRow& row : own_rows())
    if (is_of_this_kind(row, request)) found.push_back({measured_mfu(row), row.id});
  if (found.empty()) return "";
  const auto [least, most] = std::minmax_element(found.begin(), found.end());
  std::vector<std::string> names;
  for (const auto& [mfu, name] : found) names.push_back(name);
  if (names.size() > 4) names.resize(4), names.push_back("...");
  return fmt::format("Measured runs of this kind reach {:.0f} to {:.0f}% of the peak: {}.\n",
                     100 * least->first, 100 * most->first, fmt::join(names, ", "));
}

}  // namespace yotta
