#include "runner/predict.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "course/options/console.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/lesson_text.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;
using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

const std::string lessons_folder = YOTTA_SOURCE_DIR "/lessons/";
const std::vector<std::string> ways_to_change = {"grows", "stays", "shrinks"};

Figure figure_in(const nlohmann::json& json) {
  return {json.at("block").get<std::string>(), json.at("find").get<std::string>()};
}

Prediction prediction_in(const nlohmann::json& json) {
  Prediction one;
  one.question = json.at("question").get<std::string>();
  one.kind = json.at("kind").get<std::string>();
  one.unit = json.value("unit", "");
  one.why = json.at("why").get<std::string>();
  one.answer = figure_in(json.at("answer"));
  if (json.contains("before")) one.before = figure_in(json.at("before"));
  one.within = json.value("within", 0.0);
  if (one.kind != "number" && one.kind != "times" && one.kind != "change")
    throw std::runtime_error(fmt::format("kind is number, times or change, not '{}'", one.kind));
  if ((one.kind == "number") == one.before.has_value())
    throw std::runtime_error("\"before\" belongs to times and change, and only to them");
  return one;
}

const Quote& quote_named(const std::vector<Quote>& quotes, const std::string& name) {
  const auto found = std::find_if(quotes.begin(), quotes.end(),
                                  [&](const Quote& quote) { return quote.name == name; });
  if (found == quotes.end())
    throw std::runtime_error(fmt::format("the lesson's page has no block {}", name));
  return *found;
}

double value_of(const Prediction& prediction, const std::string& page) {
  const double figure = figure_of(page, prediction.answer);
  return prediction.kind == "times" ? figure / figure_of(page, *prediction.before) : figure;
}

std::string change_of(const Prediction& prediction, const std::string& page) {
  const double now = figure_of(page, prediction.answer),
               before = figure_of(page, *prediction.before);
  if (std::abs(now - before) <= 0.005 * std::abs(before)) return "stays";
  return now > before ? "grows" : "shrinks";
}

// One question after the other, on a page whose quotes are renewed by the runs.
class Questions {
 public:
  explicit Questions(const Topic& lesson)
      : lesson_(lesson), page_(read_text(lessons_folder + lesson.id + "/README.md")) {}

  // False: there is no more input.
  bool ask(const Prediction& prediction) {
    fmt::print("{}\n", paint(Color::bold, prediction.question));
    const std::optional<std::string> answer = answer_to(prediction);
    if (!answer) return false;
    run(prediction.answer);
    if (prediction.before && prediction.before->block != prediction.answer.block)
      run(*prediction.before);
    const std::string right = right_answer(prediction, page_);
    const bool hit = !answer->empty() && is_right(prediction, page_, *answer);
    right_ += hit, ++asked_;
    const std::string judged = hit               ? paint(Color::green, "Right:")
                               : answer->empty() ? "It is"
                                                 : paint(Color::red, "Not right: it is");
    fmt::print("{} {}{}\n{}\n\n", judged, right,
               prediction.unit.empty() ? "." : " " + prediction.unit + ".", prediction.why);
    return true;
  }
  void summary() const {
    fmt::print("{} of {} right. The lesson: lessons/{}/README.md\n", right_, asked_, lesson_.id);
  }

 private:
  // Empty: the reader wants to see it without an answer. None: the input has ended.
  std::optional<std::string> answer_to(const Prediction& prediction) const {
    for (;;) {
      tcflush(STDIN_FILENO, TCIFLUSH);  // what was typed while it ran answers nothing
      fmt::print("{} (Enter: show it) > ",
                 prediction.kind == "change"
                     ? "grows, stays or shrinks"
                     : fmt::format("a number{}{}", prediction.unit.empty() ? "" : ", in ",
                                   prediction.unit));
      std::fflush(stdout);
      std::string line;
      if (!std::getline(std::cin, line)) return {};
      try {
        if (!line.empty()) is_right(prediction, page_, line);
        return line;
      } catch (const std::runtime_error& error) {
        fmt::print("{}\n", error.what());
      }
    }
  }

  // Runs what prints the figure's block, once for all that it prints, and shows the block.
  void run(const Figure& figure) {
    const std::string options = quote_named(find_quotes(page_), figure.block).options;
    if (!run_.contains(options)) {
      const std::string program = "lesson_" + lesson_.id;
      const auto command = command_of(YOTTA_BUILD_DIR "/lessons/" + program, options);
      const bool other = !options.empty() && !options.starts_with("-");
      if (build(other ? options.substr(0, options.find(' ')) : program) != 0)
        throw std::runtime_error("the lesson's program could not be built");
      const Ending ending = run_limited(command, 100, 4 << 20);
      if (!ending.well()) throw std::runtime_error("the program failed:\n" + ending.output);
      page_ = refresh_quotes(page_, ending.output, options);
      run_[options] = true;
    }
    fmt::print("\n  {}\n\n",
               fmt::join(quote_named(find_quotes(page_), figure.block).lines, "\n  "));
  }

  const Topic& lesson_;
  std::string page_;
  std::map<std::string, bool> run_;
  int right_ = 0, asked_ = 0;
};

std::string predictions_file(const Topic& lesson) {
  return lessons_folder + lesson.id + "/predictions.json";
}

int list_predictions(const std::vector<Topic>& lessons) {
  for (const Topic& lesson : lessons)
    if (fs::exists(predictions_file(lesson)))
      fmt::print("  {:<28} {} questions\n", lesson.id,
                 read_predictions(predictions_file(lesson)).size());
  return 0;
}

}  // namespace

std::vector<Prediction> read_predictions(const std::string& file) {
  std::vector<Prediction> all;
  try {
    for (const nlohmann::json& one : nlohmann::json::parse(read_text(file)))
      all.push_back(prediction_in(one));
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("{}, question {}: {}", relative(file), all.size() + 1, error.what()));
  }
  return all;
}

double figure_of(const std::string& page, const Figure& figure) {
  const std::vector<Quote> quotes = find_quotes(page);
  const std::string text =
      fmt::format("{}", fmt::join(quote_named(quotes, figure.block).lines, "\n"));
  const std::regex find(figure.find);
  const std::sregex_iterator first(text.begin(), text.end(), find), end;
  if (std::distance(first, end) != 1)
    throw std::runtime_error(fmt::format("block {} has '{}' {} times, not once", figure.block,
                                         figure.find, std::distance(first, end)));
  return std::stod((*first)[1].str());
}

std::string right_answer(const Prediction& prediction, const std::string& page) {
  if (prediction.kind == "change") return change_of(prediction, page);
  return fmt::format("{:.5g}", value_of(prediction, page));
}

bool is_right(const Prediction& prediction, const std::string& page, const std::string& answer) {
  if (prediction.kind == "change") {
    if (std::count(ways_to_change.begin(), ways_to_change.end(), answer) == 0)
      throw std::runtime_error(
          fmt::format("'{}' is none of {}", answer, fmt::join(ways_to_change, ", ")));
    return answer == change_of(prediction, page);
  }
  static const std::regex number(R"(\s*([0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?)\s*[^0-9]*)");
  std::smatch found;
  if (!std::regex_match(answer, found, number))
    throw std::runtime_error(fmt::format("'{}' is not a number: try 12, 0.5 or 1e9", answer));
  const double value = value_of(prediction, page);
  return std::abs(std::stod(found[1]) - value) <= prediction.within * std::abs(value);
}

int predict(const PredictOptions& options) {
  const std::vector<Topic> lessons = find_lessons(YOTTA_SOURCE_DIR);
  if (options.name.empty()) return list_predictions(lessons);
  const Topic& lesson = choose(lessons, options.name, "lesson");
  if (!fs::exists(predictions_file(lesson)))
    throw std::runtime_error(fmt::format(
        "lesson {} asks for no predictions; `./yotta predict` lists those that do", lesson.id));
  Questions questions(lesson);
  for (const Prediction& prediction : read_predictions(predictions_file(lesson)))
    if (!questions.ask(prediction)) break;
  questions.summary();
  return 0;
}

}  // namespace runner
