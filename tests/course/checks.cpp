// `./yotta check` from outside: the runner grades files of an exercise that is quick to compile.
// What it must never do is give one file another's verdict.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "quick_exercise.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"
#include "runner/progress.hpp"
#include "runner/solution.hpp"
#include "runner/student_commands.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::longest_wait;
using yotta_test::quick_exercise;
using yotta_test::solution;

namespace {

Ending shell(const std::string& line) { return run_limited({"sh", "-c", line}, longest_wait); }

// The words of a check of `file`, without its redirections.
std::string check_of(const std::string& file, const std::string& options = "") {
  return fmt::format("'{}/course/runner' check 03 --file '{}' {}", YOTTA_BUILD_DIR, file, options);
}

// `text` with its first `what` replaced.
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), by);
}

// A student's folder for work, with nothing in it yet, and what `./yotta check` of an exercise says
// there.
class Student {
 public:
  explicit Student(const Exercise& task = quick_exercise()) : exercise_(task) {}
  std::string file() const { return folder_ / (exercise_.id + "/" + exercise_.file_name()); }
  std::string old_state() const { return folder_ / (exercise_.id + "/.state.json"); }
  std::string progress() const { return folder_ / "progress.json"; }
  Ending check(const std::string& options = "") const {
    return verb(fmt::format("check {} {}", exercise_.number(), options));
  }
  Ending hint() const { return verb("hint 03"); }
  // Any verb of students, in this student's folder.
  Ending verb(const std::string& words) const {
    Words line = shell_words("yotta " + words);
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    setenv("YOTTA_WORK", folder_.path().c_str(), 1);
    const Ending ending = yotta_test::said_by(
        [&] { return run_command_line(static_cast<int>(argv.size()), argv.data()); });
    for (const char* const name : {"YOTTA_WORK", "YOTTA_VARIANT", "YOTTA_TOLD"}) unsetenv(name);
    return ending;
  }
  Ending check_text(const std::string& text) const {
    write_text(file(), text);
    return check(fmt::format("--json '{}'", json()));
  }
  nlohmann::json verdict() const { return nlohmann::json::parse(read_text(json())); }

 private:
  std::string json() const { return folder_ / "verdict.json"; }
  Exercise exercise_;
  yotta_test::TemporaryFolder folder_;
};

// 22.2 to 22.5 call 22.1.
TEST_CASE("a wrong warm-up costs its own points, and nothing of the tasks that use it") {
  const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, "22_async_tp");
  const Student student(exercise);
  const Ending ending = student.check_text(variant_of(exercise, "one_hop_too_many"));
  CHECK_MESSAGE(ending.status == 1, ending.output);
  CHECK_MESSAGE(student.verdict().at("points") == 95, ending.output);
  CHECK(contains(ending.output, "22.2, 22.3, 22.4, 22.5 counted with the library's 22.1"));
  CHECK(student.verdict().at("tasks")[1].at("judged_with") == std::vector<std::string>{"22.1"});
  CHECK(student.verdict().at("tasks")[0].at("points") == 0);
}

// The library's solution with another line at the end of a part.
std::string with_line(const std::string& part, const std::string& line) {
  const std::string end = "// end of exercise " + part;
  return replaced(solution("library"), end, line + "\n" + end);
}

}  // namespace

TEST_CASE("a variant has points of its own: what one key has earned counts for no other") {
  const Student student(quick_exercise());
  write_text(student.file(), solution("only_x"));
  CHECK(contains(student.check("--variant autumn").output, "91 of 100 points"));
  write_text(student.file(), "this is no C++\n");
  CHECK(contains(student.check("").output, "0 of 100 points"));
  CHECK_FALSE(contains(student.check("--variant spring").output, "91 of 100"));
  CHECK(contains(student.check("--variant autumn").output, "91 of 100 points"));
  const Ending list = student.verb("list matmul");
  CHECK_FALSE(contains(list.output, " 91 of"));
}

TEST_CASE("checks of one exercise at once keep their own verdicts") {
  const yotta_test::TemporaryFolder folder;
  const std::vector<std::string> texts = {solution("library"), solution("starter"),
                                          "this is no C++\n"};
  std::string line;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string file = folder / fmt::format("{}.hpp", i);
    write_text(file, texts[i]);
    line += fmt::format("{} >'{}.out' 2>&1 & ",
                        check_of(file, fmt::format("--json '{}.json'", file)), file);
  }
  shell(line + "wait");
  const int points[] = {100, 0, 0};
  const bool compiles[] = {true, true, false};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string file = folder / fmt::format("{}.hpp", i);
    INFO(read_text(file + ".out"));
    const auto verdict = nlohmann::json::parse(read_text(file + ".json"));
    CHECK(verdict["points"] == points[i]);
    CHECK(verdict["compiled"] == compiles[i]);
    CHECK(verdict["file"] == file);
  }
}

// Several graders list a target's commands at once, and none waits for the lock of builds.
TEST_CASE("a file is compiled without a word into the output of the build that others follow") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp", said = "[12/340] another build\n";
  write_text(file, solution("library"));
  build_grader(quick_exercise());
  const FileLock lock(build_lock());
  write_text(build_output(), said);
  const RunFolder run(folder.path());
  const Built built = build_solution(quick_exercise(), file, run);
  CHECK_MESSAGE(!built.program.empty(), fmt::format("{}{}", built.log, built.refused));
  CHECK(read_text(build_output()) == said);
}

TEST_CASE("a file is graded by what it holds, whatever its time stamp says") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp";
  write_text(file, solution("starter"));
  const auto before = fs::last_write_time(file) - std::chrono::hours(1);
  CHECK(shell(check_of(file)).status == 1);
  write_text(file, solution("library"));
  fs::last_write_time(file, before);
  const Ending ending = shell(check_of(file));
  CHECK_MESSAGE(ending.status == 0, ending.output);
}

TEST_CASE("a verdict of bytes that are no text is written all the same, to a pipe too") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp";
  write_text(file, replaced(solution("starter"), "not_done(\"03.1\")",
                            "throw std::runtime_error(\"caf\\xe9 \\xff\")"));
  const Ending ending = shell(check_of(file, "--json /dev/stdout 2>/dev/null | cat"));
  const auto verdict = nlohmann::json::parse(ending.output, nullptr, /*allow_exceptions=*/false);
  REQUIRE_MESSAGE(verdict.is_object(), ending.output);
  CHECK(verdict["points"] == 0);
  CHECK(verdict.dump().find("caf\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("who cannot grade says so, with a status of its own, and gives no points") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp", json = folder / "verdict.json";
  write_text(file, solution("library"));
  write_text(json, "{\"points\": 100}\n");  // an old verdict
  const Ending ending = shell("PATH=/nowhere; " + check_of(file, "--json '" + json + "'"));
  CHECK(ending.status == 3);
  CHECK_MESSAGE(ending.output.find("could not grade") != std::string::npos, ending.output);
  const auto verdict = nlohmann::json::parse(read_text(json));
  CHECK(verdict["graded"] == false);
  CHECK_FALSE(verdict.contains("points"));
  CHECK(shell(check_of(folder / "nothing.hpp")).status == 3);
}

TEST_CASE("what does not compile keeps the last version's points and names the task") {
  const Student student;
  CHECK(student.check_text(solution("only_x")).status == 1);
  CHECK(student.verdict()["points"] == 91);
  CHECK(student.verdict()["kept_from"].is_null());
  const Ending ending = student.check_text(with_line("03.2", "nonsense;"));
  CAPTURE(ending.output);
  CHECK(ending.status == 1);
  CHECK(contains(ending.output, "In 03.2, the kernel with a column of sums per thread:\n"));
  CHECK(contains(ending.output, "nonsense"));
  CHECK(contains(ending.output,
                 "100 of 100 points: for each task the better of this version and the last one"));
  const nlohmann::json verdict = student.verdict();
  CHECK(verdict["compiled"] == false);
  CHECK(verdict["left_out"] == std::vector<std::string>{"03.2"});
  CHECK(verdict["points"] == 100);
  CHECK(verdict["kept_from"].is_string());
  CHECK(verdict["tasks"][2]["points"] == 35);
  CHECK(verdict["errors_by_task"][0]["task"] == "03.2");
  CHECK(student.check_text("nonsense\n" + solution("library")).status == 1);  // in no part
  CHECK(student.verdict()["points"] == 91);
  CHECK(student.verdict()["tasks"][2]["points"] == 26);
  CHECK(student.check_text(solution("library")).status == 0);
  CHECK(student.check_text(with_line("03.2", "nonsense;")).status == 1);  // though 100 are kept
}

TEST_CASE("the first message is shown, however many follow") {
  const Student student;
  std::string lines = "first_of_all;\n";
  for (int i = 0; i < 1000; ++i) lines += fmt::format("error_number_{0} = unknown_{0};\n", i);
  const Ending ending = student.check_text(with_line("03.2", lines));
  CHECK(contains(ending.output, "first_of_all"));
  CHECK(student.verdict()["errors_by_task"][0]["more"] > 1000);
}

TEST_CASE("a file that is no student's own keeps no points of another") {
  const Student student;
  CHECK(student.check_text(solution("library")).status == 0);
  const yotta_test::TemporaryFolder folder;
  const std::string other = folder / "matmul_register_tiles.hpp";
  write_text(other, with_line("03.2", "nonsense;"));
  const Ending ending = student.check("--file '" + other + "'");
  CHECK_MESSAGE(contains(ending.output, "\n70 of 100 points\n"), ending.output);
  write_text(other, "nonsense\n" + solution("library"));
  const Ending none = student.check("--file '" + other + "'");
  CHECK_MESSAGE(contains(none.output, "\n0 of 100 points\n"), none.output);
}

TEST_CASE("the verdict says which hints were read, also for a folder that was handed in") {
  const Student student;
  CHECK(student.check_text(solution("only_x")).status == 1);
  CHECK(student.verdict()["hints"].empty());
  CHECK(contains(student.check("--hint").output, "03.3, hint 1 of "));
  CHECK(contains(student.check("--hint").output, "03.3, hint 2 of "));
  const Ending ending = student.check_text(solution("library"));
  CHECK_MESSAGE(contains(ending.output, "Hints read: 03.3: 2 of "), ending.output);
  CHECK(student.verdict()["points"] == 100);
  CHECK(student.verdict()["hints"][0]["task"] == "03.3");
  CHECK(student.verdict()["hints"][0]["hints"].size() == 2);
  CHECK(student.check("--hint").output == "Every task is solved.\n");
  const Student instructor;
  CHECK(contains(instructor.check("--file '" + student.file() + "'").output, "Hints read: 03.3"));
  fs::remove(student.progress());
  CHECK_FALSE(contains(instructor.check("--file '" + student.file() + "'").output, "Hints"));
}

TEST_CASE("what older versions remembered is taken over, and what nobody wrote is borne with") {
  const Student student;
  write_text(student.file(), solution("only_x"));
  write_text(student.old_state(), R"({"hints 03.2": 1, "open task": "03.2", "starter": "x"})");
  CHECK(contains(student.check().output, "Hints read: 03.2: 1 of "));
  CHECK_FALSE(fs::exists(student.old_state()));
  const auto kept = nlohmann::json::parse(read_text(student.progress()));
  CHECK(kept["exercises"]["03_matmul"]["hints"]["03.2"] == 1);
  write_text(student.file(), "nonsense\n");
  const std::string entry = R"({"exercises": {"03_matmul": )";
  for (const char* mine :
       {R"({"hints": {"03.2": "x"}, "open task": 5, "last compiled": {"tasks": 1}})",
        R"({"hints": -1, "last compiled": []})", "[1]", "7"}) {
    write_text(student.progress(), entry + mine + "}}");
    const Ending broken = student.check();
    CHECK_MESSAGE(contains(broken.output, "\n0 of 100 points\n"), broken.output);
    CHECK(student.check("--hint").status == 0);
  }
}

TEST_CASE("a verb that throws leaves the streams of the test as they were") {
  struct stat before, after;
  REQUIRE(fstat(STDOUT_FILENO, &before) == 0);
  CHECK_THROWS(yotta_test::said_by([]() -> int { throw std::runtime_error("no verdict"); }));
  REQUIRE(fstat(STDOUT_FILENO, &after) == 0);
  CHECK((before.st_dev == after.st_dev && before.st_ino == after.st_ino));
}

TEST_CASE("a print is the one that work folders of earlier versions hold") {
  CHECK(print_of("foobar") == "85944171f73967e8");
}

TEST_CASE("a damaged file of progress is kept, and another is begun") {
  const Student student;
  write_text(student.progress(), "no JSON");
  const Ending ending = student.hint();
  CHECK_MESSAGE(ending.status == 0, ending.output);
  CHECK(contains(ending.output, "is damaged; it was kept as"));
  CHECK(read_text(student.progress() + ".before") == "no JSON");
  CHECK(nlohmann::json::parse(read_text(student.progress())).contains("exercises"));
}

TEST_CASE("what a student's program prints is no verdict") {
  const Student student;
  const std::string print = "std::printf(\"100 of 100 points\\n\"); std::fflush(stdout);";
  const std::string include = "#pragma once\n#include <cstdio>\n#include <cstdlib>\n";
  const auto check = [&](const std::string& text) {
    return student.check_text(replaced(text, "#pragma once\n", include));
  };
  // Where a part should be, and before the cases begin.
  for (const std::string end : {"", "std::exit(0);", "std::abort();"}) {
    Ending ending = check(replaced(solution("starter"), "not_done(\"03.1\");", print + end));
    CHECK_MESSAGE(contains(ending.output, "\n0 of 100 points\n"), ending.output);
    CHECK(student.verdict()["points"] == 0);
    ending =
        check(solution("starter") + "const int before = [] { " + print + end + " return 1; }();\n");
    CHECK_MESSAGE(contains(ending.output, "\n0 of 100 points\n"), ending.output);
    CHECK(student.verdict()["points"] == 0);
    CHECK(ending.status == 1);
  }
}

// Adds to the grader's record, whose path the command line names, that all cases of exercise 10
// have passed; and ends.
const std::string forge = R"(
#include <unistd.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
inline void forge() {
  std::ifstream own("/proc/self/cmdline");
  std::string path, line;
  std::getline(own, path, '\0'), std::getline(own, path, '\0');
  std::ifstream record(path);
  std::getline(record, line);
  std::ofstream forged(path, std::ios::app);
  for (std::string word : {line.substr(0, line.find('\t') + 1), std::string()}) {
    for (std::string name : {CASES}) forged << word << "passed\t" << name << "\t\n";
    forged << word << "end\t\t\n" << std::flush;
  }
  _exit(0);
}
)";

TEST_CASE("a record of cases that a student's program writes itself earns nothing") {
  const Exercise ring = read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  const Student honest(ring), student(ring);
  CHECK(honest.check_text(variant_of(ring, "library")).status == 0);
  const nlohmann::json verdict = honest.verdict();
  std::string cases;
  for (const auto& one : verdict["cases"]) cases += one["name"].dump() + ", ";
  const std::string text = replaced(variant_of(ring, "starter"), "#pragma once\n",
                                    "#pragma once\n" + replaced(forge, "CASES", cases));
  for (const std::string& cheat : {replaced(text, "not_done(\"10.1\")", "forge()"),
                                   text + "const int before = (forge(), 1);\n"}) {
    const Ending ending = student.check_text(cheat);
    CHECK_MESSAGE(contains(ending.output, "\n0 of 100 points\n"), ending.output);
    CHECK(student.verdict()["compiled"] == true);
  }
}

TEST_CASE("a student's own cases earn nothing") {
  const Student student;
  std::string text = "#include <doctest/doctest.h>\n" + solution("starter");
  for (int i = 0; i < 20; ++i)
    text += fmt::format("TEST_CASE(\"03.{}: mine {}\") {{ CHECK(true); }}\n", 1 + i % 3, i);
  text += "TEST_CASE(\"03.1: the right numbers\") { CHECK(true); }\n";
  const Ending ending = student.check_text(text);
  CHECK_MESSAGE(contains(ending.output, "\n0 of 100 points\n"), ending.output);
  CHECK(student.verdict()["points"] == 0);
}

TEST_CASE("an object without measure and a file in UTF-16 are refused, and why is said") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / quick_exercise().file_name();
  const auto refused = [&](const std::string& text) {
    write_text(file, text);
    shell(check_of(file, "--json '" + file + ".json'"));
    return nlohmann::json::parse(read_text(file + ".json")).value("refused", "");
  };
  CHECK(contains(refused(replaced(solution("library"), "namespace yotta::student {",
                                  "namespace yotta::student {\n"
                                  "[[gnu::used]] inline int big[1 << 29] = {1};\n")),
                 "larger than 64 MB"));
  std::string wide = "\xff\xfe";
  for (const char c : solution("library")) wide += c, wide += '\0';
  CHECK(contains(refused(wide), "your file is UTF-16"));
  CHECK(contains(refused(wide.substr(2)), "your file is UTF-16"));
}

TEST_CASE("deleting not_done earns nothing") {
  const Student student;
  std::string text = solution("starter");
  for (const char* part : {"03.1", "03.2", "03.3"})
    text = replaced(text, fmt::format("not_done(\"{}\");", part), "");
  const Ending ending = student.check_text(text);
  CHECK_MESSAGE(contains(ending.output, "\n0 of 100 points\n"), ending.output);
}

TEST_CASE(
    "memory that was freed is found under AddressSanitizer, with its lines, and else it passes") {
  const Exercise numbers = read_exercise(YOTTA_SOURCE_DIR, "01_numbers");
  const std::string right = variant_of(numbers, "library"),
                    first = "  const uint32_t ones = (1u << f.exponent) - 1";
  const std::string gone =
      "  const float* freed = nullptr;\n"
      "  {\n"
      "    const Tensor mine = Tensor::zeros({100});\n"
      "    freed = mine.data<float>();\n"
      "  }\n"
      "  if (freed[50] == 77) return 0;\n";
  std::string wrong = replaced(right, "#include <string>\n",
                               "#include <string>\n\n#include \"yotta/core/tensor.hpp\"\n");
  wrong = replaced(wrong, first, gone + first);
  const Student student(numbers);
  CHECK(student.check_text(wrong).status == 0);

  const auto check = [&](const std::string& text) {
    write_text(student.file(), text);
    return student.check("--asan");
  };
  const Ending found = check(wrong);
  if (contains(found.output, "--asan needs AddressSanitizer"))
    YOTTA_NOT_RUN("no AddressSanitizer for a student's file alone");
  CAPTURE(found.output);
  CHECK(found.status == 1);
  const auto line = [&](const std::string& text) {
    const std::string before = wrong.substr(0, wrong.find(text));
    return std::count(before.begin(), before.end(), '\n') + 1;
  };
  CHECK(contains(found.output, fmt::format("line {} (in 01.5) reads 4 bytes of memory that was "
                                           "freed:\n    if (freed[50] == 77) return 0;",
                                           line("  if (freed[50]"))));
  CHECK(contains(found.output, fmt::format("allocated in line {} (in 01.5)", line("Tensor mine"))));
  CHECK(contains(found.output, "85 of 100 points"));
  CHECK_FALSE(contains(found.output, "==ERROR"));
  CHECK(check(right).status == 0);
}

TEST_CASE("exercise 15 asks for AddressSanitizer, whose verdict comes second and counts" *
          doctest::test_suite("long")) {
  const Exercise fsdp = read_exercise(YOTTA_SOURCE_DIR, "15_fsdp");
  CHECK(fsdp.asan);
  const std::string right = variant_of(fsdp, "library");
  const Student student(fsdp);
  const Ending clean = student.check_text(right);
  if (!contains(clean.output, "AddressSanitizer"))
    YOTTA_NOT_RUN("no AddressSanitizer for a student's file alone");
  CAPTURE(clean.output);
  CHECK(clean.status == 0);
  CHECK(contains(clean.output, "finds no wrong use of memory"));
  const std::string frees = "    layout_.drop_values();\n    whole_ = {};\n";
  const Ending freed = student.check_text(
      replaced(right, frees,
               "  const char* const kept = static_cast<const char*>(whole_.raw());\n" + frees +
                   "  if (layout_.size() > 0 && kept != nullptr && *kept == 77) return;\n"));
  CAPTURE(freed.output);
  CHECK(freed.status == 1);
  const size_t first = freed.output.find("100 of 100 points"),
               second = freed.output.find("This verdict counts:");
  CHECK(first < second);
  CHECK(second < freed.output.find("reads 1 byte of memory that was freed"));
  CHECK(student.check("--no-asan").status == 0);
}

TEST_CASE("what was asked for wrongly ends with status 2, and says how") {
  const Student student;
  for (const auto& [words, says] : std::vector<std::pair<std::string, std::string>>{
           {"check --nonsense", "--nonsense"},
           {"check 99", "there is no exercise '99'"},
           {"check 03.9", "has no task '03.9'; it has 03.1"},
           {"check --hint", "say which exercise"},
           {"hint", "name is required"},
           {"nonsense", "subcommand is required"}}) {
    const Ending ending = student.verb(words);
    CAPTURE(words);
    CHECK_MESSAGE(ending.status == 2, ending.output);
    CHECK_MESSAGE(contains(ending.output, says), ending.output);
  }
  for (const auto& [words, says] : std::vector<std::pair<std::string, std::string>>{
           {"reset 03 </dev/null", "--yes"},
           {"exercise", "`new NN_topic`, `signatures [NN]` or `verify [NN]`"},
           {"exercise nonsense", "not expected: nonsense"},
           {"exercise verify 99", "there is no exercise '99'"}}) {
    const Ending ending = shell(YOTTA_BUILD_DIR "/course/runner " + words);
    CAPTURE(words);
    CHECK_MESSAGE(ending.status == 2, ending.output);
    CHECK_MESSAGE(contains(ending.output, says), ending.output);
  }
}

TEST_CASE("list, reset and check without a number are about what was begun") {
  const Student student;
  CHECK(contains(student.verb("check").output, "Nothing is begun yet"));
  CHECK(contains(student.verb("list 03_m").output, "03_matmul"));
  CHECK_FALSE(contains(student.verb("list 03_m").output, "10_collectives"));
  CHECK(student.check_text(solution("only_x")).status == 1);
  const yotta_test::TemporaryFolder folder;
  const std::string json = folder / "all.json";
  CHECK(student.verb("check --json " + json).status == 1);
  const auto verdicts = nlohmann::json::parse(read_text(json))["exercises"];
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0]["points"] == 91);
  CHECK(contains(student.verb("list").output, " 91 of 100"));
  CHECK(contains(student.verb("list 03_m").output,
                 "03.3   30 minutes  medium   35 points  the kernel with a tile of sums per thread"
                 "  (uses 03.1)\n"));
  CHECK(student.check("--json '/dev/null'").status == 1);
  CHECK(student.verb("check 03.1").status == 0);
  CHECK(student.verb("check 03.3").status == 1);
  CHECK(student.verb("reset 03 --yes").status == 0);
  CHECK(read_text(student.file()) == solution("starter"));
  CHECK(read_text(student.file() + ".before") == solution("only_x"));
  CHECK(contains(student.verb("check").output, "Nothing is begun yet"));
  student.verb("list 03_m --json " + json);
  const auto listed = nlohmann::json::parse(read_text(json));
  CHECK(listed[0]["begun"] == false);
  CHECK(listed[0]["points"] == 91);  // of the last version that compiled
  CHECK(listed[0]["each"][4]["difficulty"] == "easy");
  CHECK(listed[0]["each"][2]["needs"] == Lines{"03.1"});
}

TEST_CASE("the shells' completions are fresh, and complete verbs, options and exercises in bash") {
  const yotta_test::TemporaryFolder folder;
  const std::string committed = YOTTA_SOURCE_DIR "/course/completion/";
  const std::string runner = YOTTA_BUILD_DIR "/course/runner";
  CHECK(shell(fmt::format("'{}' completion '{}'", runner, folder.path().string())).status == 0);
  for (const char* file : {"yotta.bash", "_yotta"})
    CHECK_MESSAGE(read_text(folder / file) == read_text(committed + file),
                  "build/release/course/runner completion writes it again");
  const auto completed = [&](const std::string& words) {
    const Ending ending = run_limited(
        {"bash", "-c",
         fmt::format("cd '{}'; source course/completion/yotta.bash; COMP_WORDS=(./yotta {}); "
                     "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _yotta; echo \"${{COMPREPLY[@]}}\"",
                     YOTTA_SOURCE_DIR, words)},
        longest_wait);
    return ending.output;
  };
  CHECK(completed("che") == "check\n");
  CHECK(completed("doct") == "doctor\n");
  CHECK(contains(completed("predict 1"), "18_pipeline"));
  CHECK(contains(completed("slides 1"), "18_pipeline"));
  CHECK(completed("exercise ver") == "verify\n");
  CHECK(completed("check --fi") == "--file\n");
  CHECK(completed("check 03.") == "03.1 03.2 03.3 03.4 03.5\n");
  CHECK(completed("reset 40") == "40 40_debugging\n");  // which has no lesson
  for (const char* verb : {"predict", "slides", "lesson"})
    CHECK(completed(fmt::format("{} 40", verb)) == "\n");
  CHECK(contains(completed("hint ''"), "10_collectives"));  // tasks only once a number was begun
  CHECK_FALSE(contains(completed("hint ''"), "10.1"));
  CHECK(completed("check 10 --file ''") == "\n");  // the shell's own: files
  CHECK(completed("lesson tens") == "\n");
  CHECK(contains(completed("lesson 0"), "04_tensor_cores"));
  CHECK(contains(completed("bench matm"), "matmul"));
}

TEST_CASE("predict says whether an answer was right") {
  const auto said = [](const char* answers) {
    return run_limited({"sh", "-c", "printf \"$1\" | \"$0\" predict 01",
                        YOTTA_BUILD_DIR "/course/runner", answers},
                       longest_wait)
        .output;
  };
  CHECK(contains(said("1\n"), "Not right: it is 256."));
  CHECK(contains(said("256\n"), "Right: 256."));
  CHECK(contains(said("\n"), "It is 256."));
}

TEST_CASE("./yotta knows every verb that the shells complete") {
  const std::string script = read_text(YOTTA_SOURCE_DIR "/yotta");
  const std::string list = script.substr(script.find("\nverbs=\"") + 8);
  const std::string known = " " + list.substr(0, list.find('"')) + " help ";
  const std::string bash = read_text(YOTTA_SOURCE_DIR "/course/completion/yotta.bash");
  const size_t begin = bash.find("words=\"", bash.find("COMP_CWORD\" = 1")) + 7;
  std::istringstream verbs(bash.substr(begin, bash.find('"', begin) - begin));
  int count = 0;
  for (std::string verb; verbs >> verb; ++count)
    CHECK_MESSAGE(contains(known, " " + verb + " "), verb);
  CHECK(count > 10);
}
