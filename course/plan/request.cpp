#include "course/plan/request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "course/options/options.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/core/files/json.hpp"
#include "yotta/machine/files/cluster_file.hpp"
#include "yotta/model/files/hugging_face.hpp"
#include "yotta/plan/step_estimate.hpp"

namespace yotta {

int64_t parse_count(const std::string& option, const std::string& text) {
  constexpr int64_t most = int64_t{1} << 44;
  if (const auto plain = whole_number_of(text); plain && *plain >= 1 && *plain <= most)
    return *plain;
  const std::map<char, int> units = {{'K', 10}, {'M', 20}, {'G', 30}};
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const auto unit = read.ptr == end ? units.end() : units.find(*read.ptr);
  const bool whole =
      read.ec == std::errc() && (read.ptr == end || (unit != units.end() && read.ptr + 1 == end));
  const int shift = unit == units.end() ? 0 : unit->second;
  if (!whole || number < 1 || number > (most >> shift))
    fail(Where::current(), "{} {}: give a whole number above 0, as 8192, 1e6, 512K, 16M or 1G",
         option, text);
  return number << shift;
}

namespace {

// Table 1 of Jiang et al. (2024).
TransformerConfig mixtral() {
  TransformerConfig config = llama_config(32, 4096, 14336, 32, 8, 32768, 32000);
  config.rope_theta = 1e6;
  config.mixture.experts = 8, config.mixture.top_k = 2;
  return config;
}

}  // namespace

TransformerConfig model_from(const std::string& text) {
  const std::map<std::string, TransformerConfig> known = {
      {"gpt2", gpt2_124m()},          {"llama3-8b", llama3_8b()},  {"llama3-70b", llama3_70b()},
      {"llama3-405b", llama3_405b()}, {"mixtral-8x7b", mixtral()}, {"deepseek-v3", deepseek_v3()}};
  if (const auto found = known.find(text); found != known.end()) return found->second;
  std::filesystem::path path = text;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  const bool is_path = path != text || path.has_parent_path() || path.extension() == ".json";
  if (is_path && !std::filesystem::exists(path))
    fail(Where::current(), "--model {}: {} is missing", text, path.string());
  if (!std::filesystem::exists(path)) {
    std::vector<std::string> names;
    for (const auto& [name, config] : known) names.push_back(name);
    fail(Where::current(), "--model {}: known are {}; or give a config.json, or the folder of one",
         text, fmt::join(names, ", "));
  }
  return parse_hugging_face_config(read_file(path), path.string());
}

namespace {

using Row = std::map<std::string, std::string>;
struct LoggedRun {
  Row row;
  std::string place;  // "log.csv, line 3"
};

// Of a table. A log has more keys than these.
constexpr std::array<const char*, 22> columns = {
    "tp",           "cp",       "pp",     "ep",       "fsdp",       "dp",
    "microbatches", "schedule", "chunks", "zero",     "recomputed", "recompute",
    "tp_kind",      "cp_kind",  "batch",  "sequence", "dtype",      "step_seconds",
    "model",        "cluster",  "order",  "units"};

// Of --layout: those of a table that say how a step is spread, but for its microbatches.
constexpr std::array<const char*, 14> layout_keys = {
    "tp",     "cp",   "pp",         "ep",      "fsdp",    "dp",    "schedule",
    "chunks", "zero", "recomputed", "tp_kind", "cp_kind", "order", "units"};

std::vector<LoggedRun> runs_of_json(const std::string& text, const std::string& path) {
  nlohmann::json json;
  try {
    json = parse_json(text);
  } catch (const JsonProblem& problem) {
    fail(Where::current(), "--calibrate {}: {}", path, problem.what());
  }
  if (json.is_object()) json = nlohmann::json::array({json});
  std::vector<LoggedRun> runs;
  for (const auto& each : json) {
    if (!each.is_object())
      fail(Where::current(), "--calibrate {}: expected an object for each run, not {}", path,
           json_excerpt(each));
    LoggedRun& run = runs.emplace_back();
    run.place = json.size() == 1 ? path : fmt::format("{}, run {}", path, runs.size());
    Row& row = run.row;
    for (const auto& [key, value] : each.items())
      if (value.is_string() || value.is_number())
        row[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return runs;
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    const size_t first = cell.find_first_not_of(" \t\r"), last = cell.find_last_not_of(" \t\r");
    all.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
  }
  return all;
}

std::vector<LoggedRun> runs_of_table(const std::string& text, const std::string& path) {
  std::istringstream stream(text);
  std::string line;
  std::getline(stream, line);
  if (line.find('\t') != line.npos)
    fail(Where::current(),
         "--calibrate {}: its columns are separated by tabs, expected commas; a table as "
         "course/data/measured_steps.tsv goes to --rows",
         path);
  const std::vector<std::string> names = cells(line);
  for (const std::string& name : names)
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      fail(Where::current(), "--calibrate {}: no column is called '{}'{}; known are {}", path, name,
           name.find_first_of("\t;") == name.npos ? "" : ", and commas separate columns",
           fmt::join(columns, ", "));
  std::vector<LoggedRun> runs;
  for (int number = 2; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::vector<std::string> values = cells(line);
    LoggedRun& run = runs.emplace_back();
    run.place = fmt::format("{}, line {}", path, number);
    if (values.size() != names.size())
      fail(Where::current(), "--calibrate {}: it has {} columns, and the first line names {}",
           run.place, values.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) run.row[names[i]] = values[i];
  }
  return runs;
}

// The values of a row, by name and with defaults.
class RowReader {
 public:
  RowReader(const Row& row, const std::string& path) : row_(row), path_(path) {}

  std::string word(const std::string& name, const std::string& otherwise) const {
    const auto found = row_.find(name);
    return found == row_.end() || found->second.empty() ? otherwise : found->second;
  }
  double number(const std::string& name, double otherwise) const {
    const std::string text = word(name, "");
    if (text.empty()) return otherwise;
    double value = 0;
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, value).ptr != end)
      fail(Where::current(), "{}: {} is '{}', and no number", path_, name, text);
    return value;
  }
  int whole(const std::string& name, int otherwise, int least = 1) const {
    const double value = number(name, otherwise);
    if (!(value >= least && value <= 1 << 30) || value != static_cast<int>(value))
      fail(Where::current(), "{}: {} is {}, expected a whole number from {} on", path_, name, value,
           least);
    return static_cast<int>(value);
  }
  // One of `all`, of which the first is what is meant where there is no such column.
  std::string one_of(const std::string& name, std::initializer_list<const char*> all) const {
    const std::string given = word(name, *all.begin());
    if (std::find(all.begin(), all.end(), given) == all.end())
      fail(Where::current(), "{}: {} is '{}', expected one of {}", path_, name, given,
           fmt::join(all, ", "));
    return given;
  }

 private:
  const Row& row_;
  const std::string& path_;
};

PipelineKind schedule_named(const std::string& name, int chunks, const std::string& path) {
  if (name == "zb-h1") return PipelineKind::zb_h1;
  if (name == "zb-v") return PipelineKind::zb_v;
  if (name == "gpipe") return PipelineKind::gpipe;
  if (name != "1f1b")
    fail(Where::current(), "{}: the schedule '{}' is none of 1f1b, gpipe, zb-h1, zb-v", path, name);
  return chunks > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
}

Layout layout_of_row(const RowReader& row, const std::string& path) {
  Layout layout;
  for (const Axis axis : all_axes) layout.shape[axis] = row.whole(short_name(axis), 1);
  layout.microbatches = row.whole("microbatches", 1);
  layout.chunks = row.whole("chunks", 1);
  layout.schedule = schedule_named(row.word("schedule", "1f1b"), layout.chunks, path);
  layout.zero = row.whole("zero", 0, 0);
  layout.recomputed = row.whole("recomputed", 0, -1);
  const std::string recompute = row.word("recompute", "all");
  if (recompute != "all" && recompute != "none")
    fail(Where::current(),
         "{}: a run with --recompute {}, for which there is no formula: none and all "
         "have one",
         path, recompute);
  const std::string tp = row.one_of("tp_kind", {"plain", "sp", "async"});
  layout.sequence_parallel = tp == "sp" || tp == "async";
  if (tp == "async") layout.pieces = Pieces::one_way;
  layout.pp_outermost = row.one_of("order", {"pp-inside", "pp-outermost"}) == "pp-outermost";
  layout.keeps_units = row.one_of("units", {"dropped", "kept"}) == "kept";
  if (row.one_of("cp_kind", {"ring", "ulysses"}) == "ulysses")
    layout.context = ContextParallel::ulysses;
  return layout;
}

}  // namespace

namespace {

// A log of train says the type of its weights.
void expect_dtype(const RowReader& row, const PlanRequest& request, const std::string& path) {
  const std::string planned = name(request.config.dtype), logged = row.word("dtype", planned);
  if (logged != planned)
    fail(Where::current(), "{}: a run in {}, and the plan is in {}: give --dtype {}", path, logged,
         planned, logged);
}

// A log of train says how many parameters its model has.
bool names_model(const RowReader& row, const PlanRequest& request, const std::string& path) {
  const double logged = row.number("parameters", 0);
  const auto asked = static_cast<double>(parameters(request.config));
  if (logged != 0 && logged != asked)
    fail(Where::current(),
         "{}: a run of a model with {:.0f} parameters, and that of --model has {:.0f}: "
         "give --model the config.json of the run",
         path, logged, asked);
  return logged != 0;
}

// A cluster may be slower than planned, but not that much: then the number means something else.
void expect_likely(double measured, double predicted, const std::string& path) {
  constexpr double most = 20;
  const double factor = measured / predicted;
  if (factor <= most && factor >= 1 / most) return;
  fail(Where::current(),
       "{}: step_seconds is {:g}, and {:g} is predicted, {:.0f} times {}: is it in "
       "seconds, and are the layout, the model and the cluster those of the run?",
       path, measured, predicted, std::max(factor, 1 / factor), factor > 1 ? "less" : "more");
}

// The request with the model and the cluster of a row, where it names them.
PlanRequest request_of_row(const RowReader& row, const PlanRequest& request,
                           const RowReach& reach) {
  PlanRequest made = request;
  if (const std::string model = row.word("model", ""); !model.empty()) {
    made.config = model_from(model);
    made.config.dtype = request.config.dtype, made.config.attention = request.config.attention;
    made.config.dropout = made.config.attention_dropout = 0;
    made.sequence = std::min(request.sequence, made.config.context);
  }
  if (const std::string cluster = row.word("cluster", ""); !cluster.empty()) {
    made.cluster = cluster_from(cluster);
    if (reach) reach(made);
  }
  made.critical_batch = 0;  // a limit of what is planned, not of what was measured
  made.sequence = row.whole("sequence", static_cast<int>(made.sequence));
  made.tokens = row.whole("batch", static_cast<int>(request.batch())) * made.sequence;
  return made;
}

MeasuredStep step_of_row(const RowReader& row, const PlanRequest& of_row, const std::string& path) {
  of_row.check();
  const double seconds = row.number("step_seconds", 0);
  if (!(seconds > 1e-9 && seconds < 1e9))
    fail(Where::current(), "{}: step_seconds is {:g}, expected 1e-9 to 1e9", path, seconds);
  const Layout layout = layout_of_row(row, path);
  expect_ranks(layout.shape, of_row.cluster, path);
  const DescribedStep step = described(of_row, layout);
  expect_layout(step.config, step.shape, step.batch, step.options);
  expect_likely(seconds, estimate_step(of_row.cluster, step).seconds, path);
  return {step, seconds, of_row.cluster};
}

}  // namespace

void expect_ranks(const MeshShape& shape, const Cluster& cluster, const std::string& option) {
  if (shape.ranks() == cluster.size()) return;
  const std::string ranks = shape.ranks() == 1
                                ? "1 rank"
                                : fmt::format("{} are {} ranks", describe(shape), shape.ranks());
  fail(Where::current(), "{}: {}, and {} has {} chips", option, ranks, cluster.name,
       cluster.size());
}

Layout layout_from(const std::string& text, int64_t microbatches) {
  Row row;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == part.npos ||
        std::find(layout_keys.begin(), layout_keys.end(), key) == layout_keys.end())
      fail(Where::current(), "--layout {}: '{}' is no key=value of {}", text, part,
           fmt::join(layout_keys, ", "));
    if (!row.try_emplace(key, part.substr(equals + 1)).second)
      fail(Where::current(), "--layout {}: {} stands there twice", text, key);
  }
  row["microbatches"] = std::to_string(microbatches);
  const std::string place = "--layout " + text;
  return layout_of_row(RowReader(row, place), place);
}

namespace {

// The same line twice would count twice.
void expect_once(const std::vector<LoggedRun>& runs) {
  std::map<Row, std::string> known;
  for (const LoggedRun& run : runs) {
    const auto [first, is_new] = known.try_emplace(run.row, run.place);
    if (!is_new)
      fail(Where::current(), "--calibrate {}: the same run stands in {}; leave one of them out",
           run.place, first->second);
  }
}

}  // namespace

MeasuredSteps measured_steps(const std::string& path, const PlanRequest& request,
                             const RowReach& reach) {
  std::string text = read_file(path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // a byte order mark
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != text.npos && (text[first] == '{' || text[first] == '[');
  MeasuredSteps measured;
  const auto runs = is_json ? runs_of_json(text, path) : runs_of_table(text, path);
  expect_once(runs);
  for (const LoggedRun& run : runs) {
    const std::string place = "--calibrate " + run.place;
    const RowReader reader(run.row, place);
    expect_dtype(reader, request, place);
    const PlanRequest of_row = request_of_row(reader, request, reach);
    const bool is_named = !reader.word("model", "").empty();
    measured.names_model = (names_model(reader, of_row, place) || is_named) && measured.names_model;
    measured.steps.push_back(step_of_row(reader, of_row, place));
  }
  if (measured.steps.empty()) fail(Where::current(), "--calibrate {}: there is no run in it", path);
  return measured;
}

}  // namespace yotta
