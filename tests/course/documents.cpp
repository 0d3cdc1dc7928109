// What is made from the lessons' pages, and pages that must agree with the course: slides, the
// syllabus, what doctor knows.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "runner/exercise.hpp"
#include "runner/lesson_text.hpp"
#include "runner/predict.hpp"
#include "runner/process.hpp"
#include "runner/slides.hpp"
#include "runner/topics.hpp"
#include "support/longest_wait.hpp"
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

// What a call of the runner complains about.
std::string complaint_of(auto&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Words of a page that are neither folded nor in a block of code or output, nor a figure's mark.
int words_of_main_line(const std::string& page) {
  int words = 0;
  bool fenced = false, folded = false;
  for (const std::string& line : runner::lines_of(page)) {
    const bool fence = line.starts_with("```");
    fenced ^= fence;
    if (fenced || fence || line.starts_with("<!--")) continue;
    folded |= line.starts_with("<details>");
    std::istringstream rest(line);
    for (std::string word; !folded && rest >> word;) ++words;
    folded &= !line.starts_with("</details>");
  }
  return words;
}

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
    size_t end = page.find('\n', begin + 1);
    while (page[end - 1] == '\\') end = page.find('\n', end + 1);  // it goes on in the next line
    const std::string command = page.substr(begin + 1, end - begin - 1);
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

TEST_CASE("an outline gives slides with points, figures and notes; what is wrong is named") {
  const std::vector<runner::Slide> slides = runner::read_outline(
      "## First\n- One *point*\n- `a < b`\nNotes: Say this,\nand that.\n\n## Second\n@code x\n"
      "Notes: More.\n");
  REQUIRE(slides.size() == 2);
  CHECK(slides[0].points.size() == 2);
  CHECK(slides[0].notes == "Say this, and that.");
  CHECK(slides[1].figures == std::vector<std::string>{"@code x"});
  const std::string html = runner::html_of({slides[0]}, "", "");
  CHECK(yotta_test::contains(html, "<li>One <i>point</i></li>\n<li><code>a &lt; b</code></li>"));
  CHECK(yotta_test::contains(html, "<aside>Say this, and that.</aside>"));
  const auto error = [](const std::string& outline) {
    return complaint_of([&] { runner::read_outline(outline); });
  };
  CHECK(yotta_test::contains(error("- One\n"), "line 1: a slide begins with"));
  CHECK(yotta_test::contains(error("## A\n- One\n## B\n"), "line 3: the slide \"A\" has no notes"));
  CHECK(yotta_test::contains(error("## A\nNotes: x\n"), "the slide \"A\" is empty"));
  CHECK(yotta_test::contains(error("## A\nplain\n"), "line 2: expected"));
  const auto missing = [](const char* figure) {
    return complaint_of([&] { runner::html_of({{"A", {}, {figure}, "x"}}, "", root); });
  };
  CHECK(yotta_test::contains(missing("@output 13.none"), "quotes no output 13.none"));
  CHECK(yotta_test::contains(missing("@picture none.svg"), "none.svg"));
  CHECK(yotta_test::contains(missing("@code none.cpp"), "none.cpp"));
}

TEST_CASE("every lesson has an outline, whose figures and numbers stand on its page") {
  static const std::regex number(R"([0-9]+\.[0-9]+|[0-9]{3,})");
  for (const runner::Topic& lesson : runner::find_lessons(root)) {
    CAPTURE(lesson.id);
    const std::string folder = fmt::format("{}/lessons/{}", root, lesson.id);
    const std::string page = runner::read_text(folder + "/README.md");
    REQUIRE(std::filesystem::exists(folder + "/slides.outline"));
    const auto slides = runner::read_outline(runner::read_text(folder + "/slides.outline"));
    CHECK(slides.size() >= 6);
    CHECK_NOTHROW(runner::html_of(slides, page, folder));
    for (const runner::Slide& slide : slides) {
      CHECK(slide.points.size() <= 6);
      for (const std::string& figure : slide.figures) {
        if (!figure.starts_with("@picture ")) continue;
        CHECK_MESSAGE(yotta_test::contains(page, "pictures/" + figure.substr(9)), figure);
      }
      for (const std::string& point : slide.points)
        for (std::sregex_iterator it(point.begin(), point.end(), number), end; it != end; ++it)
          CHECK_MESSAGE(yotta_test::contains(page, it->str()), point);
    }
  }
}

TEST_CASE("a lesson's main line has 2,500 words at most") {
  CHECK(words_of_main_line("One two\n```\nx y\n```\n<details><summary>a</summary>\n\nb\n"
                           "\n</details>\n\n<!-- figure x -->\n\nthree\n") == 3);
  for (const runner::Topic& lesson : runner::find_lessons(root)) {
    CAPTURE(lesson.id);
    const std::string page = fmt::format("{}/lessons/{}/README.md", root, lesson.id);
    CHECK(words_of_main_line(runner::read_text(page)) <= 2500);
  }
}

TEST_CASE("a lesson sends its reader to the exercise in the middle, in words and with a link") {
  for (const runner::Topic& lesson : runner::find_lessons(root)) {
    CAPTURE(lesson.id);
    const std::string page =
        runner::read_text(fmt::format("{}/lessons/{}/README.md", root, lesson.id));
    if (lesson.id == "00_start") continue;  // has a section of its own
    const size_t turn = page.find(fmt::format("\n**Your turn.** [Exercise {}](../../exercises/{}/",
                                              lesson.id.substr(0, 2), lesson.id));
    CHECK(turn < page.find("\n## Try\n"));
  }
}

TEST_CASE("a deck is one HTML file, with its pictures inside") {
  const yotta_test::TemporaryFolder folder;
  const std::string out = folder / "deck.html";
  REQUIRE(runner::slides({.name = "12", .out = out, .json = folder / "deck.json"}) == 0);
  CHECK(yotta_test::contains(runner::read_text(folder / "deck.json"),
                             "\"lesson\": \"12_transformer\""));
  const std::string html = runner::read_text(out);
  CHECK(count(html, "<section") >= 7);
  CHECK(count(html, "<img") >= 1);
  CHECK(count(html, "src=\"data:image/svg") == count(html, "<img"));
  CHECK(count(html, "$body$") + count(html, "$title$") == 0);
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

TEST_CASE("in ten and in sixteen weeks an exercise comes after those that it needs") {
  std::map<std::string, std::set<std::string>> done;  // by the table
  const auto known = exercises();
  for (const Week& week : weeks()) {
    if (week.path == "## Four weeks") continue;
    done[week.path].insert(week.exercises.begin(), week.exercises.end());
    for (const std::string& number : week.exercises)
      for (const std::string& needed : known.at(number).prerequisites) {
        CAPTURE(week.path);
        CAPTURE(number);
        CAPTURE(needed);
        const bool exercise = std::isdigit(static_cast<unsigned char>(needed[0])) != 0;
        CHECK((!exercise || done[week.path].contains(needed.substr(0, 2))));
      }
  }
}

TEST_CASE("ten and sixteen weeks have every lesson once, and one before its exercise") {
  std::map<std::string, std::set<std::string>> read;
  for (const Week& week : weeks()) {
    CAPTURE(week.path);
    for (const std::string& number : week.lessons) CHECK(read[week.path].insert(number).second);
    for (const std::string& number : week.exercises)
      if (number < "40") CHECK_MESSAGE(read[week.path].contains(number), number);
  }
  const size_t lessons = runner::find_lessons(root).size();
  CHECK(read["## Ten weeks"].size() == lessons);
  CHECK(read["## Sixteen weeks"].size() == lessons);
}

TEST_CASE("each table of the syllabus says its sum of hours, and ten weeks are even") {
  const std::string page = runner::read_text(root + "/docs/syllabus.md");
  const auto known = exercises();
  std::map<std::string, std::vector<double>> hours;
  for (const Week& week : weeks()) {
    double minutes = 0;
    for (const std::string& number : week.exercises) minutes += known.at(number).minutes;
    hours[week.path].push_back(minutes / 60);
  }
  for (const auto& [path, each] : hours) {
    CAPTURE(path);
    const size_t begin = page.find(path);
    std::smatch found;
    const std::string section = page.substr(begin, page.find("\n## ", begin) - begin);
    REQUIRE(std::regex_search(section, found, std::regex("In all ([0-9.]+) hours")));
    double sum = 0;
    for (const double one : each) sum += one;
    CHECK(std::abs(std::stod(found[1]) - sum) < 0.051);
  }
  const auto [least, most] =
      std::minmax_element(hours["## Ten weeks"].begin(), hours["## Ten weeks"].end());
  CHECK(*most < 1.5 * *least);
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
                           "not there: bwrap\n", "missing  ninja"})
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

TEST_CASE(".ci/run: every tier in turn, or those that are named, which the code hosts run apart") {
  const yotta_test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".ci");
  std::filesystem::copy_file(root + "/.ci/run", folder / ".ci/run");
  runner::write_text(folder / "yotta",
                     "#!/bin/sh\necho \"ran $*\"\n[ \"$2\" != tsan ] || exit 1\n"
                     "echo '2 passed, 0 failed, 1 skipped'\n");
  std::filesystem::permissions(folder / "yotta", std::filesystem::perms::owner_all);
  const auto says = [&](const std::string& words) {
    const std::string run = folder / ".ci/run";
    return runner::run_limited({"sh", "-c", fmt::format("bash '{}' {}", run, words)},
                               yotta_test::longest_wait);
  };
  const auto ran = [&](const std::string& words) {
    std::string all;
    for (const std::string& line : runner::lines_of(says(words).output))
      if (line.starts_with("ran ")) all += line.substr(4) + "; ";
    return all;
  };
  CHECK(ran("") == "test; test asan; test tsan; ");
  CHECK(ran("--long") ==
        "test --long; test asan --long; test tsan --long; test book --long; test gcc; ");
  CHECK(ran("asan") == "test asan; ");
  CHECK(ran("--long release") == "test --long; ");
  CHECK(says("asan").well());
  CHECK(says("tsan").status == 1);
  CHECK(says("asam").status == 2);
  CHECK(yotta_test::contains(says("asan release").output, "4 passed, 0 failed, 2 skipped"));
  for (const char* const file : {"/.github/workflows/ci.yml", "/.gitlab-ci.yml"})
    for (const char* const tier : {"release", "asan", "tsan", "book", "gcc"})
      CHECK(yotta_test::contains(runner::read_text(root + file), tier));
}

TEST_CASE("where we differ: what the page works out by itself comes out") {
  std::string page = runner::read_text(root + "/docs/where_we_differ.md");
  std::replace(page.begin(), page.end(), '\n', ' ');
  const auto bubble = [](double p, double m) { return 100 * (p - 1) / (m + p - 1); };
  const std::vector<std::string> sentences = {
      fmt::format("network busy {:.1f} times as long, and not {} times", 3 / 2.0, 3),
      fmt::format("p = m = 4 it says {:.0f}%, and 3/7 = {:.0f}% is right ({:.0f}% busy",
                  100 * 4.0 / (4 + 4), bubble(4, 4), 100 - bubble(4, 4)),
      fmt::format("is {:.0f} times as fast as a card of 400 Gbit/s, and not {:.0f} times",
                  450 / (400 / 8.0), 900 / (400 / 8.0)),
      fmt::format("both directions: {:.0f} and {:.0f}", 400 / 4 / 2.0, 1200 / 6 / 2.0),
      fmt::format("50% MFU is then {:.0f}% HFU", 50 * 4 / 3.0),
      fmt::format("459e12 / 180e9 = {:.0f}", 459e12 / 180e9),
      fmt::format("1979 TFLOP/s over 3.35 TB/s is {:.1f}", 1979 / 3.35),
      fmt::format("it is 989.4, and the ridge {:.0f}", 989.4 / 3.35),
      fmt::format("GPT-3 took {:.2f}e23 FLOPs", 6 * 1.75 * 4.99 / 10),
      fmt::format("300e9 of them: {:.2f}e23", 6 * 1.75 * 3 / 10),
      fmt::format("over 200 GB/s are {:.1f} s, and 4e6 tokens", 3 * 140 / 200.0),
      fmt::format("with the same {:.1f} s", 6 * 70e9 * 4e6 / (4000 * 200e12)),
      fmt::format("both are {:.1f} s there", 3 * 140 / 100.0),
      fmt::format("both are {:.1f} s there", 6 * 70e9 * 8e6 / (4000 * 200e12)),
      fmt::format("8e6 tokens in sequences of 8192 are {} whole", 8'000'000 / 8192),
      fmt::format("bubble is {:.0f}, {:.0f}, {:.0f} and {:.0f}% for 2, 4, 8 and 16 stages",
                  bubble(2, 2), bubble(4, 4), bubble(8, 8), bubble(16, 16)),
      fmt::format("80 GB each make {:.2f} PB", 24576 * 80e9 / 1e15),
      fmt::format("over 989.4 it is {:.1f}%", 100 * 400 / 989.4),
      fmt::format("of 419 it is {:.1f}%", 100 * 148 / 419.0),
      fmt::format("less than 1/{} of a weight", 2 << 8)};
  for (const std::string& each : sentences) CHECK_MESSAGE(count(page, each) >= 1, each);
}

TEST_CASE("lessons 27 and 28: what the prose works out from the outputs above it comes out") {
  const std::string mfu = runner::read_text(root + "/lessons/27_mfu/README.md"),
                    planner = runner::read_text(root + "/lessons/28_planner/README.md");
  const std::pair<const std::string*, std::string> sentences[] = {
      {&mfu, fmt::format("and {:.1f} for MPT at 65,536", 28.6 - 18.1)},
      {&mfu, fmt::format("{:.1f}% together", 6.4 + 6.2)},
      {&planner, fmt::format("it is {:.0f} GB", 141.1 + 282.2 + 846.6)},
      {&planner, fmt::format("hold {:.0f} GB, {} bytes for each", 18 * 70.5537, 2 + 4 + 12)},
      {&planner, fmt::format("with {:.0f}% of the memory {:.0f}% longer", 100 * 27.8 / 67.3,
                             100 * (5.6 / 4.987 - 1))}};
  for (const auto& [page, each] : sentences) CHECK_MESSAGE(count(*page, each) >= 1, each);
}
