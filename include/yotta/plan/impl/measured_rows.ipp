// The bodies of plan/measured_rows.hpp.
#pragma once

#include "yotta/plan/measured_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "yotta/model/layout_rules.hpp"

namespace yotta {

namespace detail {

inline std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == by) parts.emplace_back();
    if (c != by && c != '\r') parts.back() += c;
  }
  return parts;
}

// The cells of a line, by their columns' names.
class MeasuredCells {
 public:
  MeasuredCells(std::string place, const std::vector<std::string>& columns, const std::string& line,
                Where where)
      : place_(std::move(place)), where_(where) {
    const std::vector<std::string> cells = split(line, '\t');
    if (cells.size() > columns.size())
      fail(where, "{}: {} cells, and the first line names {} columns", place_, cells.size(),
           columns.size());
    for (size_t i = 0; i < cells.size(); ++i) cells_[columns[i]] = cells[i];
  }

  std::string word(const char* column) const {
    const auto found = cells_.find(column);
    return found == cells_.end() ? "" : found->second;
  }
  int64_t whole(const char* column, int64_t least = 1) const {
    const std::string text = word(column);
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end || value < least || value > int64_t{1} << 40)
      wrong(column, text, fmt::format("a whole number from {} on", least));
    return value;
  }
  int small(const char* column, int64_t least = 1) const {
    const int64_t value = whole(column, least);
    if (value > 1 << 20) wrong(column, word(column), "at most 2^20");
    return static_cast<int>(value);
  }
  // More than 0; or, if it may be empty, 0.
  double number(const char* column, bool may_be_empty) const {
    const std::string text = word(column);
    if (text.empty() && may_be_empty) return 0;
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end || !(value > 1e-9 && value < 1e12))
      wrong(column, text, "a number above 0");
    return value;
  }
  std::string one_of(const char* column, std::initializer_list<const char*> all) const {
    const std::string text = word(column);
    if (std::find(all.begin(), all.end(), text) == all.end())
      wrong(column, text, fmt::format("one of {}", fmt::join(all, ", ")));
    return text;
  }
  [[noreturn]] void wrong(const char* column, const std::string& text,
                          const std::string& expected) const {
    fail(where_, "{}, column {}: '{}', expected {}", place_, column, text, expected);
  }
  [[noreturn]] void cannot(const std::string& why) const { fail(where_, "{}: {}", place_, why); }

 private:
  std::string place_;
  Where where_;
  std::map<std::string, std::string> cells_;
};

inline TransformerConfig measured_model(const MeasuredCells& cells) {
  const bool llama = cells.one_of("dialect", {"gpt2", "llama"}) == "llama";
  TransformerConfig c =
      gpt2_config(cells.whole("layers"), cells.whole("width"), cells.whole("heads"),
                  cells.whole("context"), cells.whole("vocabulary"));
  if (llama) c.dialect = Dialect::llama, c.tied = false;
  c.kv_heads = cells.whole("kv_heads"), c.feed_forward = cells.whole("feed_forward");
  c.mixture.experts = cells.whole("experts", 0);
  if (c.mixture.experts > 0) c.mixture.top_k = cells.whole("top_k");
  c.dtype = DType::bf16;
  c.attention = AttentionKind::blockwise;
  if (cells.one_of("attention", {"flash", "plain"}) == "plain")
    c.attention = AttentionKind::plain, c.dropout = c.attention_dropout = 0.1;
  return c;
}

inline void measured_recompute(const MeasuredCells& cells, bool plain, Layout& layout) {
  const std::string recompute = cells.one_of("recompute", {"none", "selective", "full"});
  if (recompute == "full") layout.recomputed = -1;
  if (recompute == "selective") layout.again = plain ? Again::attention : Again::operators;
}
inline Layout measured_layout(const MeasuredCells& cells, const TransformerConfig& config) {
  Layout layout;
  for (const Axis axis : all_axes) layout.shape[axis] = cells.small(short_name(axis));
  layout.microbatches = cells.whole("microbatches");
  layout.chunks = cells.small("chunks");
  if (layout.chunks > 1) layout.schedule = PipelineKind::interleaved;
  layout.ends_count = int64_t{layout.shape.pp} * layout.chunks > config.layers;
  layout.sequence_parallel = cells.one_of("sequence_parallel", {"no", "yes"}) == "yes";
  const bool shares = layout.shape.cp * layout.shape.ep * layout.shape.dp_replicate > 1;
  layout.zero = cells.one_of("zero", {"0", "1"}) == "1" && shares ? 1 : 0;
  layout.pp_outermost = layout.shape.pp > 1 && layout.shape.ep > 1;
  measured_recompute(cells, config.attention == AttentionKind::plain, layout);
  const std::string note = cells.word("note");
  layout.keeps_units = note.find("SHARD_GRAD_OP") != note.npos;
  if (note.find("Ulysses") != note.npos) layout.context = ContextParallel::ulysses;
  return layout;
}

inline MeasuredRow measured_row(const MeasuredCells& cells, Where where) {
  MeasuredRow row;
  row.id = cells.word("id"), row.source = cells.word("source"), row.note = cells.word("note");
  PlanRequest& request = row.request;
  request.config = measured_model(cells);
  request.cluster = switched(chip_named(cells.word("chip"), where), cells.small("gpus"));
  request.sequence = request.config.context;
  request.tokens = request.sequence * cells.whole("sequences");
  request.gradients_ahead = true;
  row.layout = measured_layout(cells, request.config);
  row.seconds = cells.number("seconds", false);
  row.bytes = 1e9 * cells.number("gigabytes", true);
  row.stack = stack_of_source(row.source);
  if (row.layout.shape.ranks() != request.cluster.size())
    cells.cannot(fmt::format("{} are {} ranks, and there are {} gpus", describe(row.layout.shape),
                             row.layout.shape.ranks(), request.cluster.size()));
  return row;
}

// Errors of what no layout can do, with the line.
inline void expect_works(const MeasuredRow& row, const MeasuredCells& cells) {
  std::string why;
  try {
    row.request.check();
    const DescribedStep step = described(row.request, row.layout);
    expect_layout(step.config, step.shape, step.batch, step.options);
    why = why_no_estimate(step);
    if (!why.empty()) why = "there is no formula for " + why;
  } catch (const Error& error) {
    why = std::string(error.what()).substr(at(error.where()).size() + 2);
  }
  if (!why.empty()) cells.cannot(why);
}

}  // namespace detail

YOTTA_INLINE std::vector<MeasuredRow> measured_rows(const std::string& text,
                                                    const std::string& path, Where where) {
  const std::vector<std::string> lines = detail::split(text, '\n');
  const std::vector<std::string> columns = detail::split(lines[0], '\t');
  for (const char* const each : measured_columns)
    if (std::find(columns.begin(), columns.end(), each) == columns.end())
      fail(where, "{}, line 1: there is no column '{}'; columns are separated by tabs", path, each);
  std::vector<MeasuredRow> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(" \t") == std::string::npos) continue;
    const detail::MeasuredCells cells(fmt::format("{}, line {}", path, i + 1), columns, lines[i],
                                      where);
    rows.push_back(detail::measured_row(cells, where));
    detail::expect_works(rows.back(), cells);
  }
  if (rows.empty()) fail(where, "{}: there is no row in it", path);
  return rows;
}

YOTTA_INLINE PlanRequest reached_request(const PlanRequest& request, const Stack& stack,
                                         const Causes& left_out) {
  PlanRequest made = request;
  made.cluster = reached_cluster(request.cluster, stack, left_out);
  made.efficiency = reached_kernels(request.cluster.chip, stack, left_out);
  made.wide_loss = stack.wide_loss;
  made.by_matrix = stack.by_matrix && !has(left_out, Cause::turns);
  made.one_ring = has(left_out, Cause::cards);
  return made;
}

YOTTA_INLINE StepEstimate estimate_row(const MeasuredRow& row, const Stack& any,
                                       EstimateCache& cache, const Causes& left_out) {
  Stack stack = any;
  if (row.stack != nullptr)  // what is known of its software is known with any numbers
    stack.wide_loss = row.stack->wide_loss, stack.h100_memory = row.stack->h100_memory,
    stack.by_matrix = row.stack->by_matrix;
  PlanRequest request = reached_request(row.request, stack, left_out);
  Layout layout = row.layout;
  if (has(left_out, Cause::scores)) {
    request.config.attention = AttentionKind::blockwise;
    request.config.dropout = request.config.attention_dropout = 0;
    if (layout.again == Again::attention) layout.again = Again::blocks;
  }
  if (has(left_out, Cause::again)) layout.again = Again::blocks;
  if (has(left_out, Cause::units)) layout.keeps_units = false;
  if (has(left_out, Cause::ahead)) request.gradients_ahead = false;
  return estimate_step(request.cluster, described(request, layout), cache);
}

namespace detail {
// Each row by stack_for(row), or by `usual` where that is none.
template <class Choose>
std::vector<RowError> errors_with(const std::vector<MeasuredRow>& rows, const Causes& left_out,
                                  Choose stack_for) {
  EstimateCache cache;
  std::vector<RowError> errors;
  for (const MeasuredRow& row : rows) {
    const Stack* const stack = stack_for(row);
    errors.push_back(
        {&row, estimate_row(row, stack != nullptr ? *stack : known_stacks[0], cache, left_out)});
  }
  return errors;
}
}  // namespace detail

YOTTA_INLINE std::vector<RowError> row_errors(const std::vector<MeasuredRow>& rows,
                                              const Stack* stack, const Causes& left_out) {
  return detail::errors_with(
      rows, left_out, [&](const MeasuredRow& row) { return stack != nullptr ? stack : row.stack; });
}
YOTTA_INLINE std::vector<RowError> unseen_errors(const std::vector<MeasuredRow>& rows,
                                                 const Causes& left_out) {
  return detail::errors_with(rows, left_out,
                             [](const MeasuredRow& row) { return stack_of_others(row.source); });
}

namespace detail {
inline void add_error(SourceErrors& to, const RowError& error) {
  const double seconds = std::abs(error.seconds()), bytes = std::abs(error.bytes());
  ++to.rows, to.mean += seconds;
  to.worst = std::max(to.worst, seconds);
  if (error.row->bytes == 0) return;
  ++to.rows_with_bytes, to.bytes_mean += bytes;
  to.bytes_worst = std::max(to.bytes_worst, bytes);
}
}  // namespace detail

YOTTA_INLINE std::vector<SourceErrors> errors_by_source(const std::vector<RowError>& errors) {
  std::vector<SourceErrors> all;
  SourceErrors total{"all"};
  for (const RowError& each : errors) {
    const auto is_same = [&](const SourceErrors& s) { return s.source == each.row->source; };
    auto found = std::find_if(all.begin(), all.end(), is_same);
    if (found == all.end()) found = all.insert(all.end(), {each.row->source});
    detail::add_error(*found, each);
    detail::add_error(total, each);
  }
  all.push_back(total);
  for (SourceErrors& each : all) {
    each.mean /= each.rows;
    each.bytes_mean /= std::max(1, each.rows_with_bytes);
  }
  return all;
}

}  // namespace yotta
