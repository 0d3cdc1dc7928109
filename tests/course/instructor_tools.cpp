// The other verbs of whoever teaches: handout, collect, autograder, similarity, and the cases that
// differ from term to term.
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "course/cases/graded.hpp"
#include "quick_exercise.hpp"
#include "runner/autograder.hpp"
#include "runner/collect.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/handout.hpp"
#include "runner/handout_header.hpp"
#include "runner/hidden_cases.hpp"
#include "runner/similarity.hpp"
#include "runner/student_folder.hpp"
#include "runner/submissions.hpp"
#include "runner/variant.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::longest_wait;
using yotta_test::said_by;
using yotta_test::TemporaryFolder;

namespace {

Ending runner_verb(const std::string& arguments, double seconds = longest_wait) {
  return run_limited({"sh", "-c", YOTTA_BUILD_DIR "/course/runner " + arguments}, seconds);
}

Ending collected(const std::string& folder, const std::string& out, const std::string& json = "") {
  return said_by([&] { return collect({folder, out, json}); });
}

// A key with these choices.
std::string key_with(const Exercise& exercise, const Told& told) {
  std::string key = "autumn";
  while (told_by(exercise, key) != told) {
    REQUIRE(key.size() < 1000);
    key += "!";
  }
  return key;
}

const char* const loop = R"(
inline void f(int p) {
  // exercise 10.1: add
  int total = 0;
  for (int step = 1; step < p; ++step) {
    const int from = (p + step - 1) % p;
    if (from != step) total += from * step;
  }
  store(total, p);
  // end of exercise 10.1
}
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

double share(const std::string& first, const std::string& second) {
  return compare(fingerprints_of(first, ""), fingerprints_of(second, ""), {}).share;
}

const char* const small_header = R"(#pragma once

namespace yotta {

int declared(int x);

inline int kept(int x) { return x + 1; }

// Adds.
inline int added(int x, const std::vector<int>& y = {1, 2}) {
  return x + static_cast<int>(y.size()) + '{' + sizeof("}{");
}

constexpr Pair<int, int> twice(Pair<int, int> pair,
                               int by = 2) {
  return {by * pair.first, by * pair.second};
}

template <class T>
void of_any(T x) {
  use(x, x + 17, x * 23);
}

class Sum : public Base {
 public:
  struct Part {};
  explicit Sum(int first = 0) : first_(first) { tell(first_ + 31); }
  [[nodiscard]] Part part(int i,  // of them, in order
                          Where where = Where::current()) const override {
    return part_of(first_ * 37, i, where);
  }
  void kept() { ++first_; }
  void later();

 private:
  int first_;
};
inline void Sum::later() { tell(41); }

// From here on not in the exercise.
constexpr int also(int&& x) { return x * 7654321; }

}  // namespace yotta
)";

std::vector<Task> small_tasks() {
  std::vector<Task> tasks;
  for (const char* function :
       {"added", "twice", "of_any", "Sum::Sum", "Sum::part", "Sum::later", "elsewhere"}) {
    tasks.push_back({fmt::format("99.{}", tasks.size() + 1), "", 1});
    tasks.back().function = function;
  }
  return tasks;
}

HandoutHeader cut_of_exercise(const std::string& id) {
  const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
  return cut_for_handout(exercise.page_text(), exercise.tasks);
}

// The tasks that docs/architecture.md lists under "cannot hide": "03.1 to 03.3" names three.
std::set<std::string> tasks_listed() {
  std::set<std::string> tasks;
  bool listed = false;
  const std::regex names("(\\d\\d)\\.(\\d+)(?: to \\d\\d\\.(\\d+))?");
  for (const std::string& line : lines_of(read_text(YOTTA_SOURCE_DIR "/docs/architecture.md"))) {
    if (line.starts_with("#")) listed = contains(line, "cannot hide");
    for (std::sregex_iterator at(line.begin(), line.end(), names), end; listed && at != end; ++at) {
      const int first = std::stoi((*at)[2]), last = (*at)[3].matched ? std::stoi((*at)[3]) : first;
      for (int i = first; i <= last; ++i) tasks.insert(fmt::format("{}.{}", (*at)[1].str(), i));
    }
  }
  return tasks;
}

}  // namespace

TEST_CASE("a page is handed out with declarations in place of its answers") {
  const HandoutHeader cut = cut_for_handout(small_header, small_tasks());
  for (const char* answer : {"y.size()", "by * pair", "x + 17", "31", "37", "41", "7654321"})
    CHECK_FALSE_MESSAGE(contains(cut.text, answer), answer);
  for (const char* kept :
       {"inline int kept(int x) { return x + 1; }", "void kept() { ++first_; }", "void later();",
        "\nint added(int x, const std::vector<int>& y = {1, 2});\n",
        "  explicit Sum(int first = 0);\n", "Where where = Where::current()) const override;\n",
        "namespace handed_out {\nPair<int, int> twice_body(Pair<int, int> pair, int by);\n}",
        "yotta::handed_out::only_at_run_time<Pair<int, int>>()\n             : "
        "handed_out::twice_body(pair, by);",
        "{\n  not_done(\"99.3\");\n}", "int declared(int x);",
        "handed_out::also_body(std::move(x));"})
    CHECK_MESSAGE(contains(cut.text, kept), (kept + ("; got: " + cut.text)));
  CHECK_FALSE(contains(cut.text, "Sum::later"));
  CHECK(cut.open == std::vector<std::string>{"99.3"});
}

TEST_CASE("what a page only declares is defined behind it") {
  const HandoutHeader cut = cut_for_handout(small_header, small_tasks());
  for (const char* defined :
       {"namespace yotta {\nauto added(int x, const std::vector<int>& y) -> int {\n  return x + ",
        "namespace yotta::handed_out {\nauto twice_body(Pair<int, int> pair, int by) -> Pair<int, "
        "int> "
        "{",
        "\nSum::Sum(int first) : first_(first) { tell(first_ + 31); }\n",
        "\nauto Sum::part(int i, Where where) const -> Part {\n    return part_of(first_ * 37",
        "\nauto Sum::later() -> void { tell(41); }\n"})
    CHECK_MESSAGE(contains(cut.unit, defined), (defined + ("; got: " + cut.unit)));
  CHECK_FALSE(contains(cut.unit, "of_any"));
}

TEST_CASE("a page with kernels only says that its functions are not done") {
  const HandoutHeader cut = cut_of_exercise("03_matmul");
  CHECK(cut.open == std::vector<std::string>{"03.1", "03.2", "03.3", "03.4", "03.5"});
  CHECK(cut.unit.empty());
}

TEST_CASE("docs/architecture.md lists the tasks that no library can hide") {
  std::set<std::string> open;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    const bool own = exercise.headers.front().starts_with("solution/");  // no page of the library
    if (!own)
      for (const std::string& task : cut_of_exercise(id).open) open.insert(task);
  }
  CHECK_MESSAGE(open == tasks_listed(), fmt::format("it should list {}", fmt::join(open, ", ")));
}

TEST_CASE("what stands again elsewhere is cut there too") {
  const std::string other =
      "inline int g(int x) {\n  return x * 4711;\n}\ninline int h() { return 1; }\n";
  const HandoutHeader cut = cut_for_handout(other, {}, {1});
  CHECK_FALSE(contains(cut.text, "4711"));
  CHECK(contains(cut.text, "inline int h() { return 1; }"));
  CHECK(contains(cut.unit, "auto g(int x) -> int {\n  return x * 4711;\n}"));
}

namespace {
// Lines of the starter, which tell nothing when they stand alone.
std::vector<std::string> lines_given(const Exercise& exercise) {
  std::vector<std::string> given;
  for (const std::string& line : lines_of(starter_of(exercise)))
    given.push_back(line.substr(std::min(line.size(), line.find_first_not_of(' '))));
  std::sort(given.begin(), given.end());
  return given;
}
void expect_no_answer(const Exercise& exercise, const std::string& text) {
  const auto found = answers_found(answers_of(exercise), text, lines_given(exercise));
  CHECK_MESSAGE(found.empty(), (found.empty() ? "" : found.front().part));
}
}  // namespace

TEST_CASE("every exercise's headers are handed out without a line of an answer") {
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    CHECK_FALSE(answers_of(exercise).empty());
    CHECK_FALSE(answers_found(answers_of(exercise), exercise.library_text(), lines_given(exercise))
                    .empty());  // before, they stand there
    for (const std::string& path : exercise.sources()) {
      INFO(path);
      expect_no_answer(exercise, cut_for_handout(exercise.page_of(path), exercise.tasks).text);
    }
  }
}

namespace {
// Words that answer a task, in a lesson or a later hint. On a lesson's page, which is open, they
// stand after Your turn; the starter and the task's first hint do not have them.
struct InPrint {
  const char *task, *words;
};
constexpr InPrint answers_in_print[] = {
    {"11.3", "**One axis cuts I and K.**"},
    {"11.3", "pictures/product_cases.svg"},
    {"14.1", "\\text{stage 1: } 4N + \\frac{12N}{p}"},
    {"14.1", "pictures/zero.svg"},
    {"16.3", "Ranks of a group share rank / p"},
    {"16.8", "it is on for the last microbatch alone"},
    {"16.8", "`fsdp_.finish()` ends it before"},
    {"26.3", "```output 26.gradients\n"},
    {"26.3", "```output 26.experts\n"},
    {"26.4", "| FSDP's | cp, fsdp |"},
    {"27.1", "| matrices of queries and of the output | 2 x 2 C"},
    {"27.5", "Operations of another rank are bubble"},
    {"28.4", "```output 28.cases\n"},
    {"28.5", "p \\le \\text{tp}\\cdot\\text{cp}"},
    {"30.1", "That is Young's interval"},
    {"30.1", "interval = young (1 + root(x) / 3"},
    {"30.7", "interval / (2 mean) of the time"},
    {"31.2", "is a multiple of `inner`"},
    {"31.3", "w = w - 0.7 (g + 0.9 v)"},
};
std::string page_of_lesson(const std::string& id) {
  return fmt::format("{}/lessons/{}/README.md", YOTTA_SOURCE_DIR, id);
}
// The page up to its Your turn, or up to Try.
std::string before_turn(const std::string& page) {
  return page.substr(0, std::min(page.find("\n**Your turn.**"), page.find("\n## Try\n")));
}
Exercise exercise_of(const std::string& task) {
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    if (id.starts_with(task.substr(0, 2))) return read_exercise(YOTTA_SOURCE_DIR, id);
  return {};
}
// The first paragraph under the task's heading in hints.md.
std::string first_hint(const std::string& hints, const std::string& task) {
  const size_t begin = hints.find("\n## " + task + "\n");
  REQUIRE(begin != std::string::npos);
  const size_t text = hints.find("\n\n", begin) + 2;
  return hints.substr(text, hints.find("\n\n", text) - text);
}
}  // namespace

TEST_CASE("what answers a task stands on a lesson's page after Your turn, or in a later hint") {
  for (const InPrint& each : answers_in_print) {
    const std::string task = each.task, words = each.words;
    const Exercise exercise = exercise_of(task);
    CAPTURE(task);
    CAPTURE(words);
    const std::string page = read_text(page_of_lesson(exercise.id)),
                      hints = read_text(exercise.folder + "/hints.md");
    CHECK((contains(page, words) || contains(hints, words)));
    CHECK_FALSE(contains(before_turn(page), words));
    CHECK_FALSE(contains(first_hint(hints, task), words));
    CHECK_FALSE(contains(starter_of(exercise), words));
  }
}

TEST_CASE("no lesson prints a line of its exercise's answer before Your turn") {
  const std::string code = "  sum += rate * gradient;\n", turn = "\n**Your turn.** b\n";
  const std::vector<Answer> answers = {{"99.1", {"sum += rate * gradient;"}}};
  CHECK(answers_found(answers, before_turn("a\n" + code + turn), {}).size() == 1);
  CHECK(answers_found(answers, before_turn("a\n" + turn + code), {}).empty());
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const std::string path = page_of_lesson(id);
    if (!fs::exists(path) || id == "00_start") continue;  // debugging; one all_reduce is all of 00
    INFO(path);
    expect_no_answer(read_exercise(YOTTA_SOURCE_DIR, id), before_turn(read_text(path)));
  }
}

TEST_CASE("an exercise is handed out without any solution, or the name of one") {
  const TemporaryFolder folder;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    copy_exercise(exercise, folder.path());
    const fs::path to = folder / ("exercises/" + id);
    INFO(to.string());
    CHECK(fs::exists(to / exercise.file_name()));
    CHECK(fs::exists(to / "tests.cpp"));
    for (const auto& entry : fs::recursive_directory_iterator(to))
      CHECK_FALSE(entry.is_directory());  // solution/, right/, wrong/
    for (const char* file : {"README.md", "hints.md"})
      expect_no_answer(exercise, read_text(to / file));
    expect_no_answer(exercise, read_text(to / exercise.file_name()));
    const auto json = nlohmann::json::parse(read_text(to / "exercise.json"));
    CHECK(json.at("wrong").empty());
    for (const auto& task : json.at("tasks")) CHECK_FALSE(task.contains("mend"));
  }
}

TEST_CASE("an answer is found by two lines in a row, or by one that stands nowhere else") {
  const std::vector<Answer> answers = {{"10.1", {"first line of it;", "second line of it;"}}};
  const auto count = [&](const std::string& text, const std::vector<std::string>& common) {
    return answers_found(answers, text, common).size();
  };
  CHECK(count("x\n   first line of it;\n", {}) == 1);
  CHECK(count("x\n   first line of it;\n", {"first line of it;"}) == 0);
  CHECK(count("first line of it;\n// comment\nsecond line of it;\n",
              {"first line of it;", "second line of it;"}) == 1);
  CHECK(count("second line of it;\nfirst line of it;\n",
              {"first line of it;", "second line of it;"}) == 0);
}

TEST_CASE("a lesson that quotes an answer is handed out without these lines") {
  const std::string text =
      "Words.\n```cpp\nint kept = 1;\n```\n```cpp\nif (x)\n  first line of it;\n```\nMore.\n";
  CHECK(without_answers(text, {{"10.1", 6}}) ==
        "Words.\n```cpp\nint kept = 1;\n```\n```cpp\n// These lines are exercise "
        "10.1.\n```\nMore.\n");
  CHECK(without_answers(text, {}) == text);
}

TEST_CASE("handout says what is wrong with its options") {
  const TemporaryFolder folder;
  write_text(folder / "full/file", "x");
  const auto status = [](const std::string& exercise, const std::string& out) {
    HandoutOptions options;
    options.exercises = {exercise}, options.out = out;
    return said_by([&] { return handout(options); }).status;
  };
  CHECK(status("10", folder / "full") == 2);
  CHECK(status("99", folder / "new") == 2);
  CHECK(status("10", YOTTA_SOURCE_DIR "/include/students") == 2);
  CHECK_FALSE(fs::exists(YOTTA_SOURCE_DIR "/include/students"));
}

TEST_CASE("a tree for students has no answers, and its own check gives no points" *
          doctest::test_suite("long")) {
  const TemporaryFolder folder;
  const std::string out = folder / "students";
  const Ending ending = runner_verb(
      fmt::format("handout --exercises 03,10,18 --out '{}' --json '{}.json'", out, out), 3600);
  REQUIRE_MESSAGE(ending.status == 0, ending.output);
  const auto made = nlohmann::json::parse(read_text(out + ".json"));
  CHECK(made.at("exercises").size() == 3);
  CHECK(made.at("answers_left_in_it").empty());
  // No path of this machine; but what checks a kernel's bounds keeps the path of its file.
  for (const auto& entry : fs::directory_iterator(out + "/handout"))
    if (entry.path().extension() == ".a")
      CHECK_MESSAGE(!contains(read_text(entry.path()), YOTTA_SOURCE_DIR), entry.path().string());
  const Ending other = run_limited({"env", "CXX=clang++-19", out + "/yotta", "check", "10"}, 600);
  if (fs::exists("/usr/bin/clang++-19"))
    CHECK_MESSAGE(contains(other.output, "programs of both would crash"), other.output);
  // 10.3 calls 10.1. Here it is judged with the library's; the tree for students has none.
  const std::string file = folder / "mine.hpp";
  write_text(file,
             variant_of(read_exercise(YOTTA_SOURCE_DIR, "10_collectives"), "wrong_start_chunk"));
  run_limited({out + "/yotta", "check", "10", "--file", file, "--json", file + ".json"}, 600);
  const auto theirs = nlohmann::json::parse(read_text(file + ".json")).at("tasks");
  CHECK(theirs[2].at("points") == 0);
  CHECK(theirs[2].at("not_apart") == true);
  runner_verb(fmt::format("check 10 --file '{0}' --json '{0}.json'", file), 600);
  const auto ours = nlohmann::json::parse(read_text(file + ".json")).at("tasks");
  CHECK(ours[2].at("points") == ours[2].at("of"));
  CHECK(ours[2].at("judged_with") == std::vector<std::string>{"10.1"});
  CHECK(contains(ending.output,
                 "03.1, 03.2, 03.3, 03.4, 03.5 in include/yotta/device/matmul_register_tiles.hpp"));
  CHECK_FALSE(fs::exists(out + "/.git"));
  CHECK_FALSE(fs::exists(out + "/tests"));
  CHECK_FALSE(fs::exists(out + "/exercises/10_collectives/wrong"));
  CHECK(fs::exists(out + "/exercises/10_collectives/tests.cpp"));
  CHECK_FALSE(contains(read_text(out + "/AGENTS.md"), "CONTRIBUTING"));
  CHECK_FALSE(fs::exists(out + "/exercises/13_ddp"));
}

TEST_CASE("verify --mutate: small changes of one task") {
  const TemporaryFolder folder;
  const std::string file = folder / "changes.json";
  const Ending ending =
      runner_verb(fmt::format("exercise verify 29.7 --mutate --json '{}'", file), 900);
  CHECK_MESSAGE(ending.status == 0, ending.output);
  CHECK(contains(ending.output, "changes noticed (100.0%), 0 equivalent, 0 survive"));
  const auto all = nlohmann::json::parse(read_text(file)).at("exercises");
  REQUIRE(all.size() == 1);
  CHECK(all[0].at("changes") > 5);
  CHECK(all[0].at("noticed") == all[0].at("changes"));
  CHECK(all[0].at("survivors").empty());
}

TEST_CASE("the proofs as JSON" * doctest::test_suite("long")) {
  const TemporaryFolder folder;
  const std::string file = folder / "proofs.json";
  const Ending ending = runner_verb(fmt::format("exercise verify 03 --json '{}'", file), 1800);
  CHECK_MESSAGE(ending.status == 0, ending.output);
  const auto proofs = nlohmann::json::parse(read_text(file));
  CHECK(proofs.at("all_hold") == true);
  REQUIRE(proofs.at("exercises").size() == 1);
  CHECK(proofs.at("exercises")[0].at("proofs").size() >= 10);
  for (const auto& proof : proofs.at("exercises")[0].at("proofs")) CHECK(proof.at("holds") == true);
}

TEST_CASE("copies are alike, with other names, comments and lines too") {
  CHECK(share(loop, loop) == 1);
  std::string copy = replaced(replaced(loop, "total", "result"), "step", "k");
  copy = replaced(copy, "int result = 0;", "int result = 0;  // mine\n\n");
  CHECK(share(loop, copy) == 1);
  const char* const other = R"(
  // exercise 10.1: add
  std::vector<int> seen(p);
  while (!seen.empty()) {
    seen.pop_back();
    if (seen.size() % 2 == 0) continue;
    send(seen.back(), receive(p));
  }
  // end of exercise 10.1
)";
  CHECK(share(loop, other) < 0.2);
  CHECK(share("int outside_of_all_parts;", loop) == 0);
}

TEST_CASE("a copy with statements that do nothing is a copy") {
  CHECK(share(loop, replaced(loop, ";\n", ";;\n")) == 1);
  CHECK(share(loop, replaced(loop, ";\n", "; ; {;}\n")) == 1);
  int number = 0;
  std::string dummies;
  for (const std::string& line : lines_of(loop)) {
    ++number;
    dummies += line + "\n";
    if (contains(line, ";") && contains(line, "= "))
      dummies +=
          fmt::format("const int dummy{0} = {0} * 7; double also{0}; (void)also{0};\n", number);
  }
  CHECK(dummies != loop);
  CHECK(share(loop, dummies) == 1);
  const std::string chain =
      replaced(loop, "int total = 0;", "int a = 1; int b = a; int total = 0;");
  CHECK(share(loop, chain) == 1);
  CHECK(share("for (;;) {\n} while (a < b && b * c > 4 && f(a, b)) c = a - b;\n",
              "for (;;) {\n} while (a < b && b * c > 4 && f(a, b)) c = a - b;;\n") == 1);
}

TEST_CASE("what the starter holds is nobody's copy") {
  const Fingerprints prints = fingerprints_of(loop, "");
  const std::set<uint64_t> starter = prints_of_starter(loop);
  CHECK(compare(prints, prints, starter).share == 0);
  CHECK(fingerprints_of(loop, loop).text.empty());
  const std::string own =
      "\n// exercise 10.2: own\nwhile (a < b && b * c > 4 && f(a, b)) c = a - b;\n";
  const std::string other =
      "\n// exercise 10.2: own\ndo { switch (a) { case 4: return; } } while (x[3]);\n";
  const Fingerprints ann = fingerprints_of(loop + own, ""), bob = fingerprints_of(loop + other, "");
  CHECK(compare(ann, bob, {}).share > 0.5);
  CHECK(compare(ann, bob, starter).share == 0);
}

namespace {
// With the lines between two texts moved in front of a third, which stands before them.
std::string moved(const std::string& text, const char* from, const char* to, const char* before) {
  const size_t begin = text.find(from), end = text.find(to), place = text.find(before);
  REQUIRE((place < begin && begin < end && end != std::string::npos));
  return text.substr(0, place) + text.substr(begin, end - begin) +
         text.substr(place, begin - place) + text.substr(end);
}
}  // namespace

TEST_CASE("a copy is found without its marks, in helpers and in another order") {
  const Exercise ring = read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  const std::string starter = starter_of(ring);
  const auto as_handed_in = [&](const char* variant) {  // without what follows the starter's end
    const std::string text = variant_of(ring, variant);
    return text.substr(0, text.find("// Exact costs: "));
  };
  const std::string library = as_handed_in("library");
  const Fingerprints original = fingerprints_of(library, starter);
  const auto shares = [&](const std::string& text) {
    CHECK(text != library);
    return compare(original, fingerprints_of(text, starter), prints_of_starter(starter)).share;
  };
  CHECK(shares(std::regex_replace(library, std::regex("// (end of )?exercise"), "// my")) > 0.8);
  CHECK(shares(moved(library, "// Every rank ends with all n", "// Every rank ends with the sum",
                     "// Rank r ends with")) > 0.8);
  const size_t body = library.find("  const int p = ring.size()");
  std::string helper = library;
  helper.insert(body, "  mine(ring, in, out, op);\n}\nvoid mine(Channel& ring, ConstData in) {\n");
  CHECK(shares(helper) > 0.9);
  CHECK(shares(as_handed_in("both_the_other_way")) < 0.4);  // right, and another's
  CHECK(shares(starter + "int x;\n") == 0);
}

TEST_CASE("40 submissions are compared at once") {
  const Exercise& exercise = yotta_test::quick_exercise();
  const std::string starter = starter_of(exercise);
  const std::string texts[2] = {variant_of(exercise, "library"), variant_of(exercise, "only_x")};
  std::vector<Fingerprints> prints;
  for (int i = 0; i < 40; ++i) prints.push_back(fingerprints_of(texts[i % 2], starter));
  int alike = 0;
  for (size_t i = 0; i < prints.size(); ++i)
    for (size_t k = i + 1; k < prints.size(); ++k)
      alike += compare(prints[i], prints[k], {}).share == 1;
  CHECK(alike == 2 * 20 * 19 / 2);
}

TEST_CASE("similarity reports pairs of a class, and of last year's") {
  const TemporaryFolder folder;
  const auto hand_in = [&](const std::string& place, const std::string& text) {
    write_text(folder / (place + "/03_matmul/" + yotta_test::quick_exercise().file_name()), text);
  };
  const std::string library = variant_of(yotta_test::quick_exercise(), "library");
  hand_in("now/ann", library);
  hand_in("now/bob <b>", replaced(library, "sums", "totals"));
  hand_in("now/eve", variant_of(yotta_test::quick_exercise(), "starter"));
  hand_in("before/zoe", library);
  SimilarityOptions options;
  options.folder = folder / "now", options.against = folder / "before";
  options.html = folder / "p.html", options.json = folder / "pairs.json";
  const Ending ending = said_by([&] { return similarity(options); });
  CHECK_MESSAGE(ending.status == 0, ending.output);
  const auto pairs = nlohmann::json::parse(read_text(folder / "pairs.json")).at("pairs");
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0]["share"] == 1);
  CHECK(pairs[0]["rank"] == 1);
  CHECK(pairs[2]["rank"] == 3);
  CHECK(pairs[0]["median"] == 0);  // of ann, bob and eve
  CHECK(contains(read_text(folder / "p.html"), "ann and bob &lt;b&gt;, 100%"));
  CHECK(contains(read_text(folder / "p.html"), "against: zoe"));
  CHECK(contains(read_text(folder / "p.html"), "<mark>"));
  options.folder = folder / "none";
  CHECK(said_by([&] { return similarity(options); }).status == 2);
}

TEST_CASE("work is packed, and taken in for a class") {
  const TemporaryFolder folder;
  const std::string at = folder.path();
  write_text(at + "/work/03_matmul/" + yotta_test::quick_exercise().file_name(), "int mine;\n");
  write_text(at + "/work/03_matmul/notes.txt", "mine");
  write_text(at + "/work/progress.json", "{}");
  fs::create_directories(at + "/in");
  const auto collect = [&](const std::string& arguments) {
    return runner_verb(fmt::format("collect {}", arguments));
  };
  setenv("YOTTA_WORK", (at + "/work").c_str(), 1);
  CHECK(collect(fmt::format("--out '{}/in/ann.tar.gz'", at)).status == 0);
  setenv("YOTTA_WORK", (at + "/nothing").c_str(), 1);
  CHECK(contains(collect("").output, "there is no work yet"));
  unsetenv("YOTTA_WORK");
  run_limited({"tar", "-czf", at + "/in/bob smith.tgz", "-C", at, "work"}, 60);  // by hand
  fs::create_directories(at + "/tree/yotta");
  fs::copy(at + "/work", at + "/tree/yotta/work", fs::copy_options::recursive);
  run_limited({"tar", "-czf", at + "/in/cem.tar.gz", "-C", at + "/tree", "yotta"}, 60);
  write_text(at + "/in/eve.tar.gz", "no archive");
  const Ending ending =
      collect(fmt::format("'{0}/in' --out '{0}/class' --json '{0}/collected.json'", at));
  CHECK(ending.status == 1);
  CHECK(contains(ending.output, "nothing could be taken from " + at + "/in/eve.tar.gz"));
  const auto collected = nlohmann::json::parse(read_text(at + "/collected.json"));
  REQUIRE(collected.at("taken").size() == 3);
  CHECK(collected.at("taken")[1].at("student") == "bob smith");
  REQUIRE(collected.at("refused").size() == 1);
  CHECK(contains(collected.at("refused")[0].at("why"), "eve.tar.gz"));
  CHECK(read_text(at + "/class/ann/03_matmul/" + yotta_test::quick_exercise().file_name()) ==
        "int mine;\n");
  CHECK(read_text(at + "/class/bob smith/work/03_matmul/" +
                  yotta_test::quick_exercise().file_name()) == "int mine;\n");
  CHECK(read_text(at + "/class/cem/work/03_matmul/" + yotta_test::quick_exercise().file_name()) ==
        "int mine;\n");
  CHECK(fs::exists(at + "/class/ann/progress.json"));
  CHECK_FALSE(fs::exists(at + "/class/bob smith/work/03_matmul/notes.txt"));
  CHECK(collect(fmt::format("'{}/in'", at)).status == 2);
}

TEST_CASE("an archive that is wrong stops no other") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  fs::create_directories(at + "/in");
  write_text(at + "/old/work/notes.hpp", "int note;\n");
  write_text(at + "/old/work/old/10_collectives/x.hpp", "int x;\n");
  run_limited({"tar", "-czf", at + "/in/ann.tgz", "-C", at + "/old", "work"}, 60);
  for (int i = 0; i < 1001; ++i) write_text(fmt::format("{}/many/{}.hpp", at, i), "int x;\n");
  run_limited({"tar", "-czf", at + "/in/bob.tgz", "-C", at, "many"}, 60);
  write_text(at + "/well/work/03_matmul/" + file, "int mine;\n");
  run_limited({"tar", "-czf", at + "/in/cem.tgz", "-C", at + "/well", "work"}, 60);
  const Ending ending = collected(at + "/in", at + "/class");
  CHECK(ending.status == 1);
  CHECK(contains(ending.output, "it has work/old beside work/"));
  CHECK(contains(ending.output, "it has more than 1000 files"));
  CHECK(contains(ending.output, "1 of 3 archives"));
  CHECK(read_text(at + "/class/cem/work/03_matmul/" + file) == "int mine;\n");
  // Once more: who is there already stays, and stops no other.
  fs::rename(at + "/in/cem.tgz", at + "/in/dan.tgz");
  write_text(at + "/class/ann/03_matmul/" + file, "int kept;\n");
  const Ending again = collected(at + "/in", at + "/class");
  CHECK(again.status == 1);
  CHECK(contains(again.output, "ann is there already"));
  CHECK(read_text(at + "/class/ann/03_matmul/" + file) == "int kept;\n");
  CHECK(read_text(at + "/class/dan/work/03_matmul/" + file) == "int mine;\n");
}

TEST_CASE("of a damaged archive nothing is taken, since a part would be graded as the whole") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  const std::string text = yotta_test::solution("library");
  write_text(at + "/a/work/03_matmul/" + file, text);
  fs::create_directories(at + "/in");
  run_limited({"tar", "-czf", at + "/in/cut.tgz", "-C", at + "/a", "work"}, 60);
  run_limited({"env", "-C", at + "/a", "cmake", "-E", "tar", "cf", at + "/in/cut.zip",
               "--format=zip", "work"},
              60);
  fs::copy(at + "/in/cut.zip", at + "/in/changed.zip");
  std::string changed = read_text(at + "/in/changed.zip");
  changed[changed.size() / 2] ^= 0x55;
  write_text(at + "/in/changed.zip", changed);
  for (const char* name : {"cut.tgz", "cut.zip"})
    fs::resize_file(at + "/in/" + name, fs::file_size(at + "/in/" + name) / 2);
  const Ending ending = collected(at + "/in", at + "/class");
  CHECK(ending.status == 1);
  for (const char* name : {"cut.tgz: it is damaged", "cut.zip", "changed.zip: it is damaged"})
    CHECK_MESSAGE(contains(ending.output, "nothing could be taken from " + at + "/in/" + name),
                  ending.output);
  CHECK(contains(ending.output, "0 of 3 archives"));
  for (const auto& entry : fs::recursive_directory_iterator(at + "/class"))
    CHECK((entry.is_directory() || entry.path().filename() == "NOT_TAKEN.txt"));
}

TEST_CASE("whose a file is does not depend on its endings, nor which exercise on its encoding") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), text = yotta_test::solution("library");
  write_text(at + "/in/anna.tar.xz", "no archive");
  write_text(at + "/in/cut.tar.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10));
  write_text(at + "/in/cleo.hpp.txt", text);
  std::string wide = "\xff\xfe";
  for (const char c : text) wide += std::string{c, '\0'};
  write_text(at + "/in/fritz.hpp", wide);
  const Ending ending = collected(at + "/in", at + "/class");
  CHECK_MESSAGE(!contains(ending.output, "it is damaged: \n"), ending.output);
  for (const char* const student : {"anna", "cut", "cleo", "fritz"})
    CHECK_MESSAGE(fs::is_directory(at + "/class/" + student), student);
  const std::vector<Exercise> exercises = {yotta_test::quick_exercise()};
  for (const char* const student : {"cleo", "fritz"})
    CHECK_MESSAGE(look_into(at + "/class/" + student, exercises).of(exercises[0]).size() == 1,
                  student);
}

TEST_CASE("zips are taken in, and what platforms add to names is left out") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  const auto zip = [&](const std::string& name, const std::string& what) {
    fs::create_directories((at + "/in/" + name).substr(0, (at + "/in/" + name).rfind('/')));
    const Ending ending =
        run_limited({"sh", "-c", "cd \"$0\" && cmake -E tar cf \"$1\" --format=zip " + what,
                     at + "/a", at + "/in/" + name},
                    60);
    REQUIRE_MESSAGE(ending.well(), ending.output);
  };
  write_text(at + "/a/work/03_matmul/" + file, "int mine;\n");
  write_text(at + "/a/work/03_matmul/notes.txt", "mine");
  zip("leeann_LATE_45_678_yotta-work.zip", "work");
  zip("Bob O. Smith_123_assignsubmission_file_/yotta-work-1.zip", "work");
  zip("cem/mine.zip", "work/03_matmul");
  fs::create_symlink("/etc/hostname", at + "/a/work/link.hpp");
  write_text(at + "/evil.hpp", "evil");
  write_text(at + "/a/work/10_collectives/collectives_ring.hpp", std::string(4 << 20, ' '));
  zip("eve.zip", "work ../evil.hpp");
  fs::remove(at + "/evil.hpp");
  write_text(at + "/in/zoe.zip", "no archive");
  const Ending ending = collected(at + "/in", at + "/class/deep");
  CHECK(ending.status == 1);
  CHECK(contains(ending.output, "4 of 5 archives"));
  CHECK(contains(ending.output, "nothing could be taken from " + at + "/in/zoe.zip"));
  for (const char* student : {"leeann", "Bob O. Smith", "cem", "eve"})
    CHECK_MESSAGE(read_text(fmt::format("{}/class/deep/{}/work/03_matmul/{}", at, student, file)) ==
                      "int mine;\n",
                  student);
  CHECK_FALSE(fs::exists(at + "/class/deep/leeann/work/03_matmul/notes.txt"));
  CHECK_FALSE(fs::exists(at + "/class/deep/evil.hpp"));
  CHECK(contains(read_text(at + "/class/deep/zoe/NOT_TAKEN.txt"), "zoe.zip"));
  CHECK(read_text(at + "/class/deep/eve/work/link.hpp") == "/etc/hostname");  // where it leads to
  CHECK(fs::file_size(at + "/class/deep/eve/work/10_collectives/collectives_ring.hpp") ==
        most_source_bytes + 512);
}

TEST_CASE("everything that was handed in has a row: single files and what cannot be unpacked too") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  write_text(at + "/in/leeann_45_678_" + file, "int mine;\n");
  write_text(at + "/in/leeann_45_679_notes.hpp", "int note;\n");
  write_text(at + "/in/Bob O. Smith_123_assignsubmission_file_" + file, "int mine;\n");
  write_text(at + "/in/cem/deep/" + file, "int mine;\n");
  write_text(at + "/in/bare.hpp", "int mine;\n");
  write_text(at + "/in/rar.rar", "x");
  write_text(at + "/in/.DS_Store", "x");
  for (const char* version : {"1", "2"}) {
    write_text(at + "/a/work/03_matmul/" + file, version);
    fs::create_directories(at + "/in/dan");
    run_limited(
        {"tar", "-czf", fmt::format("{}/in/dan/work-{}.tgz", at, version), "-C", at + "/a", "work"},
        60);
  }
  const Ending ending = collected(at + "/in", at + "/in/class", at + "/c.json");
  CHECK(ending.status == 1);
  for (const std::string& place :
       {"leeann/" + file, "Bob O. Smith/" + file, "cem/deep/" + file, std::string("bare/bare.hpp")})
    CHECK_MESSAGE(read_text(at + "/in/class/" + place) == "int mine;\n", place);
  CHECK(read_text(at + "/in/class/dan/work/03_matmul/" + file) == "2");
  CHECK(contains(read_text(at + "/in/class/rar/NOT_TAKEN.txt"), "rar.rar cannot be unpacked here"));
  const auto json = nlohmann::json::parse(read_text(at + "/c.json"));
  CHECK(json.at("taken").size() == 6);
  REQUIRE(json.at("left").size() == 1);
  CHECK(contains(json.at("left")[0].at("why"), "an older version"));
  REQUIRE(json.at("refused").size() == 1);
  CHECK(json.at("refused")[0].at("student") == "rar");
  const auto handed = find_submissions(at + "/in/class", {yotta_test::quick_exercise()});
  CHECK(handed.size() == 6);  // and so `grade` has a row of each
}

TEST_CASE("an archive cannot write elsewhere or fill the disk") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  fs::create_directories(at + "/in");
  write_text(at + "/evil.hpp", "evil");
  write_text(at + "/a/03_matmul/" + file, std::string(4 << 20, ' '));
  write_text(at + "/a/10_collectives/collectives_ring.hpp", "small");
  run_limited({"tar", "-czPf", at + "/in/up.tgz", "-C", at + "/a", "../evil.hpp"}, 60);
  run_limited({"tar", "-czf", at + "/in/large.tgz", "-C", at + "/a", "03_matmul", "10_collectives"},
              60);
  fs::remove(at + "/evil.hpp");
  collected(at + "/in", at + "/class/deep");
  CHECK_FALSE(fs::exists(at + "/class/deep/evil.hpp"));
  // Of what is too large comes enough to be refused for that, and what follows it in the archive
  // comes too.
  const std::string large = at + "/class/deep/large";
  CHECK(fs::file_size(large + "/03_matmul/" + file) == most_source_bytes + 512);
  CHECK(read_text(large + "/10_collectives/collectives_ring.hpp") == "small");
  const auto handed = find_submissions(at + "/class/deep", {yotta_test::quick_exercise()});
  REQUIRE(handed.size() == 2);
  CHECK(handed[1].handed == Handed::unrecognised);  // up.tgz
  CHECK(handed[0].handed == Handed::refused);
  CHECK(contains(handed[0].why, "too large: more than 1048576 bytes"));
}

TEST_CASE("Gradescope's zip grades a good and a bad submission") {
  const TemporaryFolder folder;
  const std::string at = folder.path(), file = yotta_test::quick_exercise().file_name();
  const Ending made = runner_verb(
      fmt::format("autograder --exercises 03 --out '{0}/grader.zip' --variant \"ann's key\" "
                  "--json '{0}/made.json'",
                  at));
  REQUIRE_MESSAGE(made.status == 0, made.output);
  const auto written = nlohmann::json::parse(read_text(at + "/made.json"));
  CHECK(written.at("exercises") == nlohmann::json({"03_matmul"}));
  CHECK(written.at("variant") == "ann's key");
  fs::create_directories(at + "/source");
  run_limited({"env", "-C", at + "/source", "cmake", "-E", "tar", "xf", "../grader.zip"}, 60);
  for (const char* each : {"setup.sh", "yotta.tar.gz", "VERSION"})
    CHECK(fs::exists(at + "/source/" + each));
  CHECK(contains(read_text(at + "/source/run_autograder"), R"(--variant 'ann'\''s key')"));
  const std::string setup = read_text(at + "/source/setup.sh");
  CHECK(contains(setup, "\"$tree/yotta\" grade "));  // which installs what grade needs
  const auto results = [&](const std::string& text) {
    if (!text.empty()) fs::remove_all(at + "/submission");
    if (!text.empty()) write_text(at + "/submission/" + file, text);  // as students upload it
    const Ending ending =
        run_limited({"env", "AUTOGRADER_ROOT=" + at, "YOTTA_TREE=" YOTTA_SOURCE_DIR, "sh",
                     at + "/source/run_autograder"},
                    longest_wait);
    INFO(ending.output);
    REQUIRE(fs::exists(at + "/results/results.json"));
    return nlohmann::json::parse(read_text(at + "/results/results.json"));
  };
  CHECK(results(variant_of(yotta_test::quick_exercise(), "library")).at("score") == 100);
  const auto bad = results("nonsense;\n");
  CHECK(bad.at("score") == 0);
  CHECK(bad.at("tests").size() == yotta_test::quick_exercise().tasks.size());
  CHECK(contains(bad.at("output"), "nonsense"));
  write_text(at + "/packed/03_matmul/" + file, yotta_test::solution("starter"));
  fs::remove(at + "/submission/" + file);
  run_limited({"tar", "-czf", at + "/submission/yotta-work.tar.gz", "-C", at + "/packed", "."}, 60);
  CHECK(results("").at("output") == "03_matmul: empty\n");  // the starter was found
  AutograderOptions options;
  options.exercises = {"03"}, options.out = "grader.tar";
  CHECK(said_by([&] { return autograder(options); }).status == 2);
  options.out = at + "/a.zip", options.variant = "a {student}";
  const Ending for_each = said_by([&] { return autograder(options); });
  CHECK(for_each.status == 2);
  CHECK(contains(for_each.output, "does not know whose work it grades"));
}

TEST_CASE("a key chooses numbers of the cases, always the same") {
  const auto of = [](const char* key) {
    key == nullptr ? unsetenv("YOTTA_VARIANT") : setenv("YOTTA_VARIANT", key, 1);
    std::vector<int64_t> numbers;
    for (const char* name : {"seed", "ranks", "elements"})
      numbers.push_back(exercise::variant(name, 10, 1, 1 << 30));
    unsetenv("YOTTA_VARIANT");
    return numbers;
  };
  CHECK(of(nullptr) == std::vector<int64_t>{10, 10, 10});
  CHECK(of("") == of(nullptr));
  CHECK(of("autumn") == of("autumn"));
  CHECK(of("autumn") != of("spring"));
  CHECK(of("autumn")[0] != of("autumn")[1]);
  setenv("YOTTA_VARIANT", "autumn", 1);
  for (int i = 0; i < 100; ++i) {
    const int64_t number = exercise::variant(std::to_string(i), 5, 5, 7);
    CHECK((number >= 5 && number <= 7));
  }
  unsetenv("YOTTA_VARIANT");
}

TEST_CASE("exercises/README.md says of each exercise what a key changes, once") {
  const std::string page = read_text(YOTTA_SOURCE_DIR "/exercises/README.md");
  const size_t begin = page.find("### What a key changes"), end = page.find("\n### ", begin + 1);
  std::vector<std::string> listed, there;
  for (const std::string& line : lines_of(page.substr(begin, end - begin))) {
    std::smatch row;
    if (!std::regex_match(line, row, std::regex("\\| ((\\d\\d(, )?)+) \\|.*"))) continue;
    const std::string numbers = row[1];
    for (size_t at = 0; at < numbers.size(); at += 4) listed.push_back(numbers.substr(at, 2));
  }
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) there.push_back(id.substr(0, 2));
  std::sort(listed.begin(), listed.end());
  CHECK_MESSAGE(listed == there, fmt::format("{} instead of {}", listed, there));
}

TEST_CASE(
    "a key chooses sentences of the statement, each is chosen by some key, and the tree tells") {
  const Exercise ring = read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  CHECK(told_by(ring, "").empty());
  CHECK(key_of("autumn {student}!", "ann") == "autumn ann!");
  CHECK(key_of("autumn", "ann") == "autumn");
  CHECK(told_by(ring, "autumn") == told_by(ring, "autumn"));
  std::set<Told> all;
  for (int year = 0; year < 100; ++year) all.insert(told_by(ring, fmt::format("year {}", year)));
  CHECK(all.size() == 6);  // two ways round the ring, three chunks

  const TemporaryFolder folder;
  const std::string tree = folder.path(), at = tree + "/exercises/10_collectives/";
  const std::string key = key_with(ring, {{"10.own", 2}, {"10.way", 2}});
  copy_exercise(ring, tree);
  write_told({ring, yotta_test::quick_exercise()}, key, tree);
  CHECK_FALSE(contains(read_text(at + "exercise.json"), "right_under"));
  const Lines told = use_variant(ring, key, "/nowhere");
  REQUIRE(told.size() == 2);
  CHECK(contains(told[0], "sends to rank r - 1"));
  CHECK(contains(told[1], "is chunk r + 1"));
  CHECK(std::getenv("YOTTA_VARIANT") == key);
  CHECK(std::getenv("YOTTA_TOLD") == std::string("10.own=2 10.way=2"));
  CHECK(exercise::told("10.way") == 2);
  CHECK(exercise::told("10.wa") == 0);
  for (const std::string& sentence : told) {
    CHECK(contains(read_text(at + "README.md"), "- " + sentence));
    CHECK(contains(read_text(at + ring.file_name()), "// " + sentence));
  }
  CHECK_FALSE(contains(read_text(tree + "/exercises/told.json"), key));
  CHECK(use_variant(ring, "", tree) == told);  // by the tree, which does not know the key
  CHECK(std::getenv("YOTTA_VARIANT") == std::string());
  CHECK(std::getenv("YOTTA_TOLD") == std::string("10.own=2 10.way=2"));
  CHECK(use_variant(ring, "", "/nowhere").empty());
  CHECK(exercise::told("10.way") == 0);
  unsetenv("YOTTA_VARIANT"), unsetenv("YOTTA_TOLD");
}

TEST_CASE("cases that a killed run has left leave the build, and those of a running one stay") {
  const TemporaryFolder folder;
  const std::string build = folder / "build", cases = fs::canonical(folder.path()) / "cases";
  write_text(folder / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.20)\nproject(hidden NONE)\n"
             "set(YOTTA_HIDDEN \"\" CACHE STRING \"\")\n");
  fs::create_directories(cases);
  REQUIRE(run_limited({"cmake", "-S", folder.path(), "-B", build}, longest_wait).well());
  const auto hidden = [&] {
    const std::string cache = read_text(build + "/CMakeCache.txt"), name = "YOTTA_HIDDEN:STRING=";
    const size_t begin = cache.find(name) + name.size();
    return cache.substr(begin, cache.find('\n', begin) - begin);
  };
  { const HiddenCases graded(cases, build); }
  CHECK(hidden() == "");
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t killed = fork();
  if (killed == 0) {
    const HiddenCases graded(cases, build);
    if (write(ready[1], "!", 1) == 1) pause();
    _exit(1);
  }
  char one = 0;
  REQUIRE(read(ready[0], &one, 1) == 1);
  close(ready[0]), close(ready[1]);
  remove_left_hidden_cases(build);
  CHECK(hidden() == cases);
  kill(killed, SIGKILL);
  waitpid(killed, nullptr, 0);
  CHECK(hidden() == cases);
  remove_left_hidden_cases(build);
  CHECK(hidden() == "");
}

TEST_CASE("a class is graded with cases that it has not seen, and by a key" *
          doctest::test_suite("long")) {
  const TemporaryFolder folder;
  const std::string at = folder.path();
  const Exercise ring = read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  write_text(at + "/class/ann/10_collectives/" + ring.file_name(), variant_of(ring, "library"));
  write_text(
      at + "/hidden/10_collectives/tests.cpp",
      "#include \"course/cases/graded.hpp\"\n#include \"interface.hpp\"\n\n"
      "TEST_CASE(\"10.4: hidden\") {\n"
      "  exercise::expect(exercise::solution.ring_bytes_sent(1, 0, 7, 8) == 0, \"one rank\");"
      "\n}\n");
  const auto cases = [&](const std::string& options) {
    const Ending ending =
        runner_verb(fmt::format("grade '{0}/class' --json '{0}/g.json' {1}", at, options), 600);
    REQUIRE_MESSAGE(ending.status == 0, ending.output);
    const auto one = nlohmann::json::parse(read_text(at + "/g.json")).at("submissions")[0];
    CHECK(one.at("points") == 100);
    return one.at("cases").size();
  };
  const size_t usual = cases("");
  const std::string key = key_with(ring, {{"10.own", 1}, {"10.way", 1}});
  CHECK(cases(fmt::format("--variant '{}'", key)) == usual);
  CHECK(cases(fmt::format("--hidden '{}/hidden'", at)) == usual + 1);
  CHECK(cases("") == usual);
  // A run that was killed has left its cases.
  REQUIRE(run_limited({"cmake", YOTTA_BUILD_DIR, "-DYOTTA_HIDDEN:STRING=" + at + "/hidden"}, 600)
              .well());
  const Ending checked = runner_verb(
      fmt::format("check 10 --file '{0}/class/ann/10_collectives/{1}' --json '{0}/v.json'", at,
                  ring.file_name()),
      600);
  REQUIRE_MESSAGE(checked.status == 0, checked.output);
  CHECK(nlohmann::json::parse(read_text(at + "/v.json")).at("cases").size() == usual);
}
