// What is made from the lessons' pages, and pages that must agree with the course: slides, the
// syllabus, what doctor knows.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "runner/exercise.hpp"
#include "runner/lesson_text.hpp"
#include "runner/predict.hpp"
#include "runner/process.hpp"
#include "runner/slides.hpp"
#include "runner/topics.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"

namespace {

const std::string root = YOTTA_SOURCE_DIR;

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// One row of a table of docs/syllabus.md.
struct Week {
  std::string path;  // "## Ten weeks"
  std::vector<std::string> lessons, exercises;
  double hours = 0;
};

std::vector<std::string> numbers_of(const std::string& cell) {
  static const std::regex two(R"([0-9][0-9])");
  return {std::sregex_token_iterator(cell.begin(), cell.end(), two), {}};
}

std::vector<Week> weeks() {
  static const std::regex row(R"(\| [0-9]+ \| ([^|]*) \| ([^|]*) \| ([0-9.]+) \|)");
  std::vector<Week> all;
  std::string path;
  for (const std::string& line : runner::lines_of(runner::read_text(root + "/docs/syllabus.md"))) {
    std::smatch found;
    if (line.starts_with("## ")) path = line;
    if (std::regex_match(line, found, row))
      all.push_back({path, numbers_of(found[1]), numbers_of(found[2]), std::stod(found[3])});
  }
  return all;
}

std::string other_than(const std::string& change) { return change == "grows" ? "stays" : "grows"; }

std::map<std::string, runner::Exercise> exercises() {
  std::map<std::string, runner::Exercise> all;
  for (const std::string& id : runner::find_exercises(root))
    all.emplace(id.substr(0, 2), runner::read_exercise(root, id));
  return all;
}

}  // namespace

TEST_CASE("README.md shows two programs of lessons, whole, and docs/using.md one") {
  for (const auto& [file, programs] : {std::pair{"README.md", 2}, std::pair{"docs/using.md", 1}}) {
    CAPTURE(file);
    const std::string page = runner::read_text(root + "/" + file);
    CHECK(runner::find_program_quotes(page).size() == static_cast<size_t>(programs));
    for (const std::string& complaint : runner::compare_program_quotes(page, root))
      FAIL_CHECK(complaint);
  }
}

TEST_CASE("lesson 05's commands, pasted: the compiler says of three loops what the table quotes") {
  const std::string page = runner::read_text(root + "/lessons/05_fusion/README.md");
  const auto said_by = [&](const char* compiler) {  // of the command that begins with it
    const size_t begin = page.find(fmt::format("\n{} -O3", compiler));
    REQUIRE(begin != page.npos);
    const std::string command = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
    return runner::run_limited({"sh", "-c", "cd '" + root + "' && " + command + " 2>&1"}, 60)
        .output;
  };
  if (std::system("command -v clang++-19 >/dev/null") != 0)
    YOTTA_NOT_RUN("clang++-19 is not installed (Debian, Ubuntu: apt-get install clang-19)");
  const std::string remarks = said_by("clang++-19"), file = "loops_measured.cpp:";
  for (const auto& [line, words] :
       {std::pair{6, "vectorized loop"},
        {11, "cannot prove it is safe to reorder floating-point operations"},
        {17, "could not determine number of loop iterations"}}) {
    CAPTURE(remarks);
    CHECK(page.find(fmt::format("`{}`", words)) != page.npos);
    const std::regex remark(fmt::format("{}{}:\\d+: remark: [^\n]*{}", file, line, words));
    CHECK(std::regex_search(remarks, remark));
  }
  if (std::system("command -v g++ >/dev/null") != 0) YOTTA_NOT_RUN("g++ is not installed");
  const std::string notes = said_by("g++");
  CAPTURE(notes);
  CHECK(std::regex_search(notes, std::regex("cpp:6:\\d+: optimized")));
  CHECK(std::regex_search(notes, std::regex("cpp:17:\\d+: missed")));
}

TEST_CASE("git ignores what the commands of README.md and docs/using.md leave in this folder") {
  const std::string git = fmt::format("git -C '{}' ", root);
  if (std::system((git + "rev-parse >/dev/null 2>&1").c_str()) != 0)
    YOTTA_NOT_RUN("this is no clone, or git is not installed");
  const std::regex left(R"((?:--json|--timeline|--report| -o) ([a-z_]+(?:\.[a-z]+)?)\b)");
  int count = 0;
  for (const char* file : {"README.md", "docs/using.md"}) {
    const std::string page = runner::read_text(root + "/" + file);
    for (std::sregex_iterator it(page.begin(), page.end(), left), end; it != end; ++it, ++count) {
      CAPTURE(it->str());
      CHECK(std::system((git + "check-ignore -q --no-index " + (*it)[1].str()).c_str()) == 0);
    }
  }
  CHECK(count > 10);
}

TEST_CASE("the newest release of CHANGELOG.md is the version that all files name") {
  const auto first = [](const std::string& file, const char* form) {
    std::smatch found;
    const std::string text = runner::read_text(root + "/" + file);
    return std::regex_search(text, found, std::regex(form)) ? found[1].str() : "";
  };
  const std::string version = first("CHANGELOG.md", "## \\[([0-9.]+)\\] - ");
  REQUIRE(version != "");
  CHECK(first("CMakeLists.txt", "project\\(yotta VERSION ([0-9.]+)") == version);
  CHECK(first("CITATION.cff", "\nversion: ([0-9]+\\.[0-9.]+)") == version);
  CHECK(first("docs/using.md", "version's tag \\(`v([0-9.]+)`\\)") == version);
  const std::string asked = first("docs/using.md", "find_package\\(yotta ([0-9.]+) REQUIRED\\)");
  REQUIRE(asked != "");
  CHECK(version.starts_with(asked + "."));
}

TEST_CASE("a deck has the words before each figure, and nothing that is folded") {
  const std::string deck = runner::slides_of(
      "# A title\n\n![alt](a.svg)\n\n## First\n\nOne. Two [three](x.md).\nFour:\n\n"
      "```output 01.a --ranks 2\n1\n\n2\n```\n\nMore words. The last:\n\n| a |\n|---|\n\n"
      "<details><summary>x</summary>\n\nhidden\n\n</details>\n\n## Questions\n\n1. *Why?*\n\n"
      "<details><summary>Answer</summary>\n\nhidden\n\n</details>\n\n2. *How?*\n");
  CHECK(count(deck, "## A title\n") == 1);
  CHECK(count(deck, "## First\n") == 2);
  CHECK(deck.find("One. Two three.\n\nFour:") != std::string::npos);
  CHECK(deck.find("```{.output}\n1\n\n2\n```") != std::string::npos);
  CHECK(deck.find("The last:\n\n| a |") != std::string::npos);
  CHECK(deck.find("hidden") == std::string::npos);
  CHECK(deck.find("More words") == std::string::npos);
  CHECK(count(deck, "## Questions\n") == 1);
  CHECK(deck.find("2. *How?*") != std::string::npos);
}

TEST_CASE("every lesson gives a deck with all its pictures and outputs") {
  for (const runner::Topic& lesson : runner::find_lessons(root)) {
    const std::string page =
        runner::read_text(fmt::format("{}/lessons/{}/README.md", root, lesson.id));
    const std::string deck = runner::slides_of(page);
    CAPTURE(lesson.id);
    CHECK(count(deck, "\n## ") > 5);
    CHECK(count(deck, "\n![") == count(page, "\n!["));
    CHECK(count(deck, "<details") == 0);
    CHECK(count(deck, "\n```{.output}") > 0);
  }
}

TEST_CASE("a deck is one HTML file, with its pictures inside and its formulas drawn") {
  if (std::system("command -v pandoc >/dev/null") != 0) {
    MESSAGE("not run: pandoc is not installed");
    return;
  }
  const yotta_test::TemporaryFolder folder;
  const std::string out = folder / "deck.html";
  REQUIRE(runner::slides({.name = "12", .out = out, .json = folder / "deck.json"}) == 0);
  CHECK(yotta_test::contains(runner::read_text(folder / "deck.json"),
                             "\"lesson\": \"12_transformer\""));
  const std::string html = runner::read_text(out);
  CHECK(count(html, "<section") > 20);
  CHECK(count(html, "<math") > 10);
  CHECK(count(html, "<img") > 2);
  CHECK(count(html, "src=\"data:image/svg") == count(html, "<img"));
}

TEST_CASE("the syllabus has every lesson, each exercise after those it needs, and their hours") {
  const auto known = exercises();
  std::map<std::string, std::set<std::string>> seen;
  REQUIRE(weeks().size() == 4 + 10 + 16);
  for (const Week& week : weeks()) {
    double minutes = 0;
    for (const std::string& number : week.exercises) {
      CAPTURE(week.path);
      CAPTURE(number);
      REQUIRE(known.contains(number));
      minutes += known.at(number).minutes;
      CHECK(seen[week.path].insert(number).second);
    }
    CHECK(std::abs(week.hours - minutes / 60) < 0.051);
  }
  CHECK(seen["## Sixteen weeks"].size() == known.size());
}

TEST_CASE("in sixteen weeks an exercise comes after those that it needs") {
  std::set<std::string> done;
  const auto known = exercises();
  for (const Week& week : weeks()) {
    if (week.path != "## Sixteen weeks") continue;
    done.insert(week.exercises.begin(), week.exercises.end());
    for (const std::string& number : week.exercises)
      for (const std::string& needed : known.at(number).prerequisites) {
        CAPTURE(number);
        CAPTURE(needed);
        const bool exercise = std::isdigit(static_cast<unsigned char>(needed[0])) != 0;
        CHECK((!exercise || done.contains(needed.substr(0, 2))));
      }
  }
}

TEST_CASE("doctor ends with 0, with 1 if something needed is missing, with 2 after a wrong word") {
  const yotta_test::TemporaryFolder folder;
  const auto doctor = [&](const std::string& before, const std::string& words) {
    const std::string out = folder / "out";
    const int status = std::system(
        fmt::format("{} '{}/yotta' doctor {} >'{}' 2>&1", before, root, words, out).c_str());
    return std::pair{WEXITSTATUS(status), runner::read_text(out)};
  };
  const auto [status, json] = doctor("", "--json");
  CHECK(status == 0);
  CHECK(nlohmann::json::parse(json)["works"] == true);
  const auto [without, text] = doctor("CXX=no_compiler", "");
  CHECK(without == 1);
  CHECK(count(text, "missing  compiler") == 1);
  CHECK(count(text, "no_compiler is not there") == 1);
  CHECK(doctor("", "--everything").first == 2);
}

TEST_CASE("doctor names what a feature misses") {
  const yotta_test::TemporaryFolder folder;
  const std::string out = folder / "out";
  const std::string run = fmt::format(
      "for each in sh cat awk sed head sort df uname nproc tr dirname readlink id grep; do "
      "ln -s \"$(command -v $each)\" '{0}'; done; env PATH='{0}' '{1}/yotta' doctor >'{2}' 2>&1",
      folder.path().string(), root, out);
  CHECK(std::system(run.c_str()) != 0);  // no compiler
  const std::string text = runner::read_text(out);
  CAPTURE(text);
  for (const char* lack : {"not there: mpirun mpicxx\n", "not there: clang++-19 clang-repl-19\n",
                           "not there: bwrap\n", "not there: pandoc\n", "missing  ninja"})
    CHECK(count(text, lack) == 1);
}

TEST_CASE("doctor and the container know every package that yotta installs") {
  static const std::regex package(R"(echo ([a-z0-9+.-]+)( #.*)?$)");
  const std::string doctor = runner::read_text(root + "/course/doctor.sh"),
                    container = runner::read_text(root + "/.devcontainer/Containerfile");
  int found_packages = 0;
  for (const std::string& line : runner::lines_of(runner::read_text(root + "/yotta"))) {
    std::smatch found;
    if (!std::regex_search(line, found, package) || line.find("||") == std::string::npos) continue;
    ++found_packages;
    CHECK_MESSAGE(count(doctor, found[1]) > 0, found[1].str());
    CHECK_MESSAGE(count(container, found[1]) > 0, found[1].str());
  }
  CHECK(found_packages > 15);
}

TEST_CASE("every prediction's figures stand in its lesson once, and its answer is right") {
  int questions = 0, asking = 0;  // lessons
  for (const runner::Topic& lesson : runner::find_lessons(root)) {
    const std::string folder = fmt::format("{}/lessons/{}", root, lesson.id);
    if (!std::filesystem::exists(folder + "/predictions.json")) continue;
    const std::string page = runner::read_text(folder + "/README.md");
    ++asking;
    for (const runner::Prediction& one : runner::read_predictions(folder + "/predictions.json")) {
      CAPTURE(one.question);
      ++questions;
      std::string answer;
      CHECK_NOTHROW(answer = runner::right_answer(one, page));
      if (answer.empty()) continue;
      CHECK(runner::is_right(one, page, answer));
      CHECK_FALSE(
          runner::is_right(one, page, one.kind == "change" ? other_than(answer) : "12345678"));
      CHECK_THROWS(runner::is_right(one, page, "perhaps"));
    }
  }
  CHECK(questions >= 60);
  CHECK(asking >= 28);  // all of them, but for one that was just made
}
