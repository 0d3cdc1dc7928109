#include "course/pictures/survival_picture.hpp"

#include <algorithm>
#include <bit>

#include "course/pictures/svg.hpp"
#include "yotta/core/files/json.hpp"

namespace yotta {

namespace {

uint64_t bits_of(const nlohmann::json& places) {
  uint64_t bits = 0;
  for (const nlohmann::json& each : places) bits |= uint64_t{1} << each.get<uint64_t>() % 64;
  return bits;
}

std::vector<EpochRecord> epochs_of(const nlohmann::json& log) {
  std::vector<EpochRecord> epochs;
  if (!log.is_object() || !log.contains("epochs")) throw JsonProblem("it has no epochs");
  for (const nlohmann::json& each : log.at("epochs")) {
    EpochRecord& epoch = epochs.emplace_back();
    epoch.step = each.at("step"), epoch.redone = each.at("steps_redone");
    epoch.places = bits_of(each.at("places")), epoch.joined = bits_of(each.at("joined"));
  }
  if (epochs.empty()) throw JsonProblem("it has no epochs");
  return epochs;
}

// The steps of an epoch, until the next one began.
void add_epoch(Survival& run, const EpochRecord& epoch, const EpochRecord* next,
               const std::vector<double>& loss, int64_t first) {
  const int64_t end = next != nullptr ? next->step + next->redone : first + std::ssize(loss);
  for (int64_t step = epoch.step; step < std::min(end, first + std::ssize(loss)); ++step) {
    const bool again = !run.columns.empty() && step <= run.columns.back().step;
    run.columns.push_back({step, loss[static_cast<size_t>(step - first)], epoch.places,
                           step == epoch.step ? epoch.joined : 0, 0, again});
  }
  if (next != nullptr && !run.columns.empty())
    run.columns.back().dies |= epoch.places & ~(next->places & ~next->joined);
}

}  // namespace

Survival survival_of(const std::vector<EpochRecord>& epochs, const std::vector<double>& loss,
                     int64_t first) {
  Survival run;
  uint64_t all = 0;
  for (size_t i = 0; i < epochs.size(); ++i) {
    all |= epochs[i].places;
    add_epoch(run, epochs[i], i + 1 < epochs.size() ? &epochs[i + 1] : nullptr, loss, first);
  }
  run.places = static_cast<int>(std::bit_width(all));
  return run;
}

Survival read_survival(const std::string& json, const std::string& source, Where where) {
  try {
    const nlohmann::json log = parse_json(json);
    return survival_of(epochs_of(log), log.at("loss"), log.at("first_step"));
  } catch (const std::exception& problem) {
    fail(where,
         "{} is not a log of a run that outlives its ranks: {}. Write one with ./yotta train "
         "--ranks "
         "4 --faults FILE --json {}",
         source, problem.what(), source);
  }
}

Survival shortened(const Survival& run, size_t most) {
  const size_t each = (run.columns.size() + most - 1) / most;
  Survival result{run.places, {}};
  for (size_t begin = 0; begin < run.columns.size(); begin += each) {
    const size_t end = std::min(begin + each, run.columns.size());
    SurvivalColumn sum = run.columns[begin];
    sum.loss = 0;
    for (size_t i = begin; i < end; ++i) {
      const SurvivalColumn& column = run.columns[i];
      sum.loss += column.loss / static_cast<double>(end - begin);
      sum.here &= column.here, sum.joined |= column.joined, sum.dies |= column.dies;
      sum.again = sum.again || column.again;
    }
    result.columns.push_back(sum);
  }
  return result;
}

namespace {

struct LossRange {
  double low = 1e300, high = -1e300;

  explicit LossRange(const Survival& run) {
    for (const SurvivalColumn& each : run.columns)
      low = std::min(low, each.loss), high = std::max(high, each.loss);
  }
  // 0 to 1
  double at(double loss) const { return high > low ? (loss - low) / (high - low) : 0.5; }
};

const char* sign_of(const SurvivalColumn& column, int place) {
  const auto has = [&](uint64_t bits) { return (bits >> place & 1) != 0; };
  const bool joins = has(column.joined) && column.step > 0;
  if (has(column.dies)) return joins ? "X" : "x";
  if (joins) return "+";
  if (!has(column.here)) return "·";
  return column.again ? "░" : "█";
}

}  // namespace

std::string survival_text(const Survival& run, size_t columns) {
  constexpr int rows = 6;
  const LossRange range(run);
  columns = std::min(columns, run.columns.size());
  std::string text;
  for (int row = rows - 1; row >= 0; --row) {
    const double loss = range.low + (range.high - range.low) * row / (rows - 1);
    text += fmt::format("{:>8.3f} ", loss);
    for (size_t i = 0; i < columns; ++i) {
      const double height = range.at(run.columns[i].loss) * (rows - 1);
      text += height >= row + 0.5 || height < row - 0.5 ? " " : "*";
    }
    text += "\n";
  }
  for (int place = 0; place < run.places; ++place) {
    text += fmt::format("{:>8} ", fmt::format("place {}", place));
    for (size_t i = 0; i < columns; ++i) text += sign_of(run.columns[i], place);
    text += "\n";
  }
  return text + "         █ trains  x dies  · away  + healed, joins  X both  ░ does a step again\n";
}

namespace {

constexpr double left = 90, top = 60, loss_height = 150, row_height = 28, gap = 40;

double rows_top() { return top + loss_height + gap; }

std::string loss_axis(const Survival& run, double width) {
  const LossRange range(run);
  std::string svg;
  for (int tick = 0; tick <= 2; ++tick) {
    const double y = top + loss_height * (1 - tick / 2.0);
    svg += fmt::format("<path d=\"M{} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>\n", left, y, width);
    svg += svg::text(left - 8, y + 4,
                     fmt::format("{:.2f}", range.low + (range.high - range.low) * tick / 2), "end");
  }
  return svg + svg::text(20, top - 8, "loss");
}

std::string loss_line(const Survival& run, double step) {
  const LossRange range(run);
  std::string path;
  for (size_t i = 0; i < run.columns.size(); ++i)
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L",
                        left + step * (static_cast<double>(i) + 0.5),
                        top + loss_height * (1 - range.at(run.columns[i].loss)));
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     svg::lit);
}

const char* color_of(const char* sign) {
  const std::string_view word = sign;
  if (word == "x" || word == "X") return "#ee8866";
  if (word == "+") return "#44bb99";
  if (word == "░") return "#eedd88";
  return word == "·" ? "#ffffff" : "#77aadd";
}

std::string place_cells(const Survival& run, double step) {
  std::string svg;
  for (size_t i = 0; i < run.columns.size(); ++i)
    for (int place = 0; place < run.places; ++place) {
      const char* sign = sign_of(run.columns[i], place);
      const double x = left + step * static_cast<double>(i), y = rows_top() + row_height * place;
      svg += svg::box(x, y, step, row_height - 6, color_of(sign), "#bbb");
      const bool is_letter = *sign == 'x' || *sign == 'X' || *sign == '+';
      if (is_letter) svg += svg::text(x + step / 2, y + 16, sign, "middle");
    }
  return svg;
}

std::string place_names(const Survival& run) {
  std::string svg;
  for (int place = 0; place < run.places; ++place)
    svg += svg::text(left - 8, rows_top() + row_height * place + 16, fmt::format("place {}", place),
                     "end");
  return svg;
}

std::string legend(double y) {
  const std::pair<const char*, const char*> words[] = {{"█", "trains"},
                                                       {"x", "x: dies in this step or the next"},
                                                       {"X", "X: dies, and joins"},
                                                       {"·", "away"},
                                                       {"+", "+: healed, joins"},
                                                       {"░", "does a step again"}};
  std::string svg;
  double x = left;
  for (const auto& [sign, text] : words) {
    svg += svg::box(x, y - 11, 14, 14, color_of(sign)) + svg::text(x + 20, y, text);
    x += 34 + 6 * static_cast<double>(std::string_view(text).size());
  }
  return svg;
}

std::string step_axis(const Survival& run, double step) {
  const double y = rows_top() + row_height * run.places + 14;
  std::string svg = svg::text(20, y, "step");
  const size_t every = (run.columns.size() + 9) / 10;
  for (size_t i = 0; i < run.columns.size(); ++i)
    if (i % every == 0)
      svg += svg::text(left + step * (static_cast<double>(i) + 0.5), y,
                       fmt::format("{}", run.columns[i].step), "middle");
  return svg;
}

}  // namespace

std::string survival_svg(const Survival& whole) {
  const Survival run = shortened(whole, 130);
  const double step = 780 / static_cast<double>(run.columns.size());
  const auto height = static_cast<int>(rows_top() + row_height * run.places + 60);
  const std::string title = "A run that goes on when ranks die: loss, and who takes part";
  return svg::paper(900, height, title) + svg::text(20, 28, title, "start", svg::ink, 15, true) +
         loss_axis(run, 780) + place_names(run) + "<g id=\"played\">\n" + loss_line(run, step) +
         place_cells(run, step) + "</g>\n" + step_axis(run, step) + legend(height - 18) +
         "</svg>\n";
}

std::string survival_html(const Survival& run) {
  return fmt::format(R"(<!doctype html>
<meta charset="utf-8">
<title>A run that goes on when ranks die</title>
<style>body {{ font-family: sans-serif; margin: 1em }}</style>
<button id="play">play again</button>
{}<script>
const columns = {}, width = 780;
const drawn = document.getElementById("played");
let shown = 0, timer = 0;
function draw() {{
  drawn.style.clipPath = `inset(0 ${{width - width * shown / columns}}px 0 0)`;
  if (++shown > columns) clearInterval(timer);
}}
function play() {{ clearInterval(timer); shown = 0; timer = setInterval(draw, 150); }}
document.getElementById("play").onclick = play;
play();
</script>
)",
                     survival_svg(run), shortened(run, 130).columns.size());
}

namespace {
std::string as_html(const std::string& words) {
  std::string text;
  for (const char each : words)
    text += each == '<'   ? "&lt;"
            : each == '>' ? "&gt;"
            : each == '&' ? "&amp;"
                          : std::string(1, each);
  return text;
}
}  // namespace

std::string live_html(const Survival& run, const std::string& words, bool goes_on) {
  return live_html(run.columns.empty() ? "" : survival_svg(run), words, goes_on);
}
std::string live_html(const std::string& svg, const std::string& words, bool goes_on) {
  return fmt::format(R"(<!doctype html>
<meta charset="utf-8">
{}<title>{}</title>
<style>body {{ font-family: sans-serif; margin: 1em }}</style>
<pre>{}</pre>
{})",
                     goes_on ? live_refresh : "",
                     goes_on ? "A run that trains" : "A run that has ended", as_html(words), svg);
}

}  // namespace yotta
