// What whoever teaches runs: `./yotta grade`, on a small class of an exercise that is quick to
// compile.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "quick_exercise.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/grade_class.hpp"
#include "runner/gradebook.hpp"
#include "runner/student_folder.hpp"
#include "runner/submissions.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::longest_wait;
using yotta_test::quick_exercise;
using yotta_test::solution;

namespace {

// A class's folder, and what `./yotta grade` says of it.
class Class {
 public:
  std::string folder() const { return folder_ / "class"; }
  std::string place(const std::string& student) const {
    return fmt::format("{}/{}/03_matmul/{}", folder(), student, quick_exercise().file_name());
  }
  void hand_in(const std::string& student, const std::string& text) const {
    write_text(place(student), text);
  }
  std::vector<std::string> command() const {
    return {YOTTA_BUILD_DIR "/course/runner", "grade", folder(), "--json", json()};
  }
  Ending grade() const { return run_limited(command(), longest_wait); }
  nlohmann::json submissions() const {
    return nlohmann::json::parse(read_text(json())).at("submissions");
  }
  std::string json() const { return folder_ / "grades.json"; }
  std::string result(const std::string& name) const { return folder() + ".grades/" + name; }

 private:
  yotta_test::TemporaryFolder folder_;
};

Mark mark(const std::string& student, Outcome outcome, int points) {
  Mark one{student, "10_collectives", outcome};
  one.points = points, one.of = 100, one.compiled = true;
  one.tasks = {{{"id", "10.1"},
                {"title", "a <task>"},
                {"points", points},
                {"of", 60},
                {"solved", false},
                {"message", "rank 1 & rank 2"},
                {"cases", 2},
                {"passed", 1}}};
  one.cases = {{{"name", "10.1: a"}, {"passed", true}, {"message", ""}},
               {{"name", "10.1: b"}, {"passed", false}, {"message", "2 < 3\nsecond \"line\""}}};
  return one;
}

const nlohmann::json& of_student(const nlohmann::json& submissions, const std::string& student) {
  for (const auto& one : submissions)
    if (one.at("student") == student) return one;
  FAIL("no submission of " << student);
  return submissions;
}

}  // namespace

TEST_CASE("a class is graded: good, half, wrong, not compiling, empty, missing, refused") {
  const Class class_;
  class_.hand_in("good", solution("library"));
  class_.hand_in("half, \"way\"", solution("only_x"));
  class_.hand_in("=wrong", solution("no_edges"));
  class_.hand_in("not compiling", "nonsense;\n");
  class_.hand_in("\xc3\xa9mpty", solution("starter") + "\n");
  fs::create_directories(class_.folder() + "/missing/03_matmul");
  fs::create_directories(fs::path(class_.place("linked")).parent_path());
  fs::create_symlink(class_.place("good"), class_.place("linked"));
  const Ending ending = class_.grade();
  CHECK_MESSAGE(ending.status == 0, ending.output);
  const nlohmann::json all = class_.submissions();
  REQUIRE(all.size() == 7);
  const auto is = [&](const char* student, const char* verdict, int points) {
    const nlohmann::json& one = of_student(all, student);
    INFO(one.dump());
    CHECK(one.at("verdict") == verdict);
    CHECK(one.at("points") == points);
    CHECK(one.at("of") == 100);
    CHECK(one.at("exercise") == "03_matmul");
    CHECK(one.at("tasks").size() == quick_exercise().tasks.size());
  };
  is("good", "complete", 100);
  is("half, \"way\"", "partial", 91);
  is("not compiling", "not compiling", 0);
  is("\xc3\xa9mpty", "empty", 0);
  is("missing", "empty", 0);
  is("linked", "refused", 0);
  CHECK(of_student(all, "=wrong").at("verdict") == "partial");
  CHECK_FALSE(contains(of_student(all, "not compiling").at("message"), "/"));
  CHECK(contains(read_text(class_.result("canvas.csv")), "\"half, \"\"way\"\"\",,,"));
  CHECK(contains(read_text(class_.result("moodle.csv")), "'=wrong,"));
  CHECK(contains(read_text(class_.result("students/good/feedback.md")), "100 of 100 points"));
  CHECK(nlohmann::json::parse(read_text(class_.result("students/half, \"way\"/results.json")))
            .at("score") == 91);

  const std::string first = read_text(class_.json());  // again, with nothing kept: the same
  fs::remove_all(class_.folder() + ".grades");
  CHECK(class_.grade().status == 0);
  CHECK(read_text(class_.json()) == first);

  std::vector<std::string> with_names = class_.command();
  with_names.insert(with_names.end(), {"--names", class_.result("names.csv")});
  write_text(with_names.back(), "good,g1\nmissing,m1\nlinked,l1\n=wrong,w1\nempty,e1\n");
  const std::string said = run_limited(with_names, longest_wait).output;
  CHECK(contains(said, "has no login for half, \"way\", not compiling, \xc3\xa9mpty: the grades"));
  CHECK(contains(read_text(class_.result("moodle.csv")), "g1,100"));
}

TEST_CASE("who is stopped half way goes on where it was") {
  const Class class_;
  for (const char* student : {"a", "b", "c", "d", "e", "f"})
    class_.hand_in(student, solution("library") + "// " + student + "\n");
  std::vector<std::string> words = class_.command();
  words.insert(words.end(), {"--jobs", "1"});
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> command;
    for (std::string& word : words) command.push_back(word.data());
    command.push_back(nullptr);
    execv(command[0], command.data());
    _exit(127);
  }
  const std::string first = class_.result("students/a/03_matmul.json");
  while (!fs::exists(first) && waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(fs::exists(first));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_FALSE(fs::exists(class_.json()));
  const auto when = fs::last_write_time(first);
  const Ending ending = class_.grade();
  CHECK_MESSAGE(ending.status == 0, ending.output);
  CHECK(fs::last_write_time(first) == when);
  CHECK(class_.submissions().size() == 6);
  CHECK(of_student(class_.submissions(), "f").at("points") == 100);

  class_.hand_in("a", solution("only_x"));  // another file is graded anew
  CHECK(class_.grade().status == 0);
  CHECK(of_student(class_.submissions(), "a").at("points") == 91);
}

TEST_CASE("thirty submissions: each kind gets its verdict" * doctest::test_suite("long")) {
  const Class class_;
  const std::pair<const char*, const char*> kinds[] = {
      {"library", "complete"}, {"only_x", "partial"}, {"no_registers", "partial"},
      {"no_edges", "partial"}, {"starter", "empty"},  {"", "not compiling"}};
  for (int i = 0; i < 30; ++i) {
    const std::string variant = kinds[i % 6].first;
    class_.hand_in(fmt::format("student {:02}", i),
                   variant.empty() ? "int f( {\n" : solution(variant));
  }
  CHECK(class_.grade().status == 0);
  const nlohmann::json all = class_.submissions();
  REQUIRE(all.size() == 30);
  for (int i = 0; i < 30; ++i)
    CHECK(of_student(all, fmt::format("student {:02}", i)).at("verdict") == kinds[i % 6].second);
}

TEST_CASE("what is no class's folder is said, with a status of its own") {
  const yotta_test::TemporaryFolder folder;
  const auto says = [](const std::string& path) {
    GradeOptions options;
    options.folder = path;
    const Ending ending = yotta_test::said_by([&] { return grade_class(options); });
    CHECK(ending.status == 2);
    return ending.output;
  };
  CHECK(contains(says(folder / "nothing"), "there is no folder"));
  CHECK(contains(says(folder.path()), "has no student's folder"));
  fs::create_directories(folder / "student/notes");
  CHECK(contains(says(folder.path()), "has a folder of an exercise"));
}

TEST_CASE("only regular files of the student's own are read") {
  const Class class_;
  class_.hand_in("own", "int x;\n");
  for (const char* student : {"outside", "others", "pipe", "folder", "large", "nowhere"})
    fs::create_directories(fs::path(class_.place(student)).parent_path());
  fs::create_symlink("/etc/hostname", class_.place("outside"));
  fs::create_symlink("../../own/03_matmul/" + quick_exercise().file_name(), class_.place("others"));
  fs::create_symlink("nothing", class_.place("nowhere"));
  mkfifo(class_.place("pipe").c_str(), 0600);
  fs::create_directories(class_.place("folder"));
  class_.hand_in("large", std::string(most_source_bytes + 1, ' '));
  fs::create_directories(class_.folder() + "/.hidden");
  const auto all = find_submissions(class_.folder(), {quick_exercise()});
  REQUIRE(all.size() == 7);
  for (const Submission& one : all) {
    INFO(one.student);
    CHECK(one.handed == (one.student == "own" ? Handed::file : Handed::refused));
    CHECK(one.why.empty() == (one.student == "own"));
    if (one.student == "pipe" || one.student == "folder")
      CHECK(one.why == "it is not a regular file");
    if (one.student == "outside" || one.student == "others") CHECK(contains(one.why, "leads out"));
  }
}

TEST_CASE("a linked folder that leads out is refused, and its names are not told") {
  const Class class_;
  write_text(class_.folder() + "/.elsewhere/secret.txt", "x");
  for (const char* const student : {"direct", "whole"})
    fs::create_directories(fmt::format("{}/{}", class_.folder(), student));
  fs::create_symlink("../.elsewhere", class_.folder() + "/direct/03_matmul");
  fs::create_directories(class_.folder() + "/.elsewhere/03_matmul");
  fs::create_symlink("../.elsewhere", class_.folder() + "/whole/work");
  const auto all = find_submissions(class_.folder(), {quick_exercise()});
  REQUIRE(all.size() == 2);
  for (const Submission& one : all) {
    CHECK(one.handed == Handed::refused);
    CHECK(contains(one.why, "out of the student's folder"));
    CHECK_FALSE(contains(one.why, "secret"));
  }
}

TEST_CASE("a file is found in work/ too, and a link within the student's folder is followed") {
  const Class class_;
  write_text(fmt::format("{}/a/work/03_matmul/mine.hpp", class_.folder()), "int mine;\n");
  fs::create_symlink("mine.hpp", fmt::format("{}/a/work/03_matmul/{}", class_.folder(),
                                             quick_exercise().file_name()));
  write_text(fmt::format("{}/b/03_matmul/other.hpp", class_.folder()), "int x;\n");
  write_text(fmt::format("{}/__MACOSX/x.hpp", class_.folder()), "int x;\n");
  const auto all = find_submissions(class_.folder(), {quick_exercise()});
  REQUIRE(all.size() == 2);
  CHECK(all[0].text == "int mine;\n");
  CHECK(all[1].handed == Handed::unrecognised);
  CHECK(contains(all[1].why, "there is: other.hpp"));
  CHECK(handed_in_exercises(class_.folder(), {quick_exercise()}).size() == 1);
}

TEST_CASE("a file that was handed in without its folder counts, and what else is there is named") {
  const Class class_;
  const std::string name = quick_exercise().file_name();
  write_text(fmt::format("{}/a/{}", class_.folder(), name), "int mine;\n");
  write_text(fmt::format("{}/b/work/{}", class_.folder(), name), "int mine;\n");
  write_text(fmt::format("{}/c/ring (1).hpp", class_.folder()), "int x;\n");
  fs::create_directories(class_.folder() + "/d");
  fs::create_symlink("../a/" + name, fmt::format("{}/d/{}", class_.folder(), name));
  write_text(class_.folder() + "/f/NOT_TAKEN.txt", "f.rar cannot be unpacked here\n");
  write_text(class_.folder() + "/.elsewhere/secret.txt", "x");
  fs::create_symlink(".elsewhere", class_.folder() + "/e");
  const auto all = find_submissions(class_.folder(), {quick_exercise()});
  REQUIRE(all.size() == 6);
  CHECK(all[0].text == "int mine;\n");
  CHECK(all[1].text == "int mine;\n");
  CHECK(all[2].handed == Handed::unrecognised);
  CHECK(all[2].why == "there is neither a folder 03_matmul nor a file " + name +
                          "; there is: ring (1).hpp\nof no exercise that is known: ring (1).hpp");
  CHECK(all[3].handed == Handed::refused);
  CHECK(all[4].handed == Handed::refused);
  CHECK_FALSE(contains(all[4].why, "secret"));
  CHECK(all[5].handed == Handed::unrecognised);
  CHECK(all[5].why == "f.rar cannot be unpacked here");
}

TEST_CASE("a file in another place or of another name is graded, and which one is said") {
  const Class class_;
  const std::string name = quick_exercise().file_name(), stem = name.substr(0, name.find('.'));
  const auto put = [&](const std::string& file, const std::string& text) {
    write_text(class_.folder() + "/" + file, text);
  };
  put("a/one/too/many/03_matmul/" + name, "int mine;\n");
  put("b/03_matmul/" + stem + " (1).hpp", "int mine;\n");
  put("c/x_1_assignsubmission_file_/" + stem + ".hpp.txt", "int mine;\n");
  put("d/submitted.h", solution("library"));
  put("e/03_matmul/" + name, solution("starter"));
  put("e/new/" + stem + "-2.hpp", "int mine;\n");
  put("f/include/yotta/device/" + name, solution("library"));
  put("g/photo.png", "x");
  const auto all = find_submissions(class_.folder(), {quick_exercise()});
  REQUIRE(all.size() == 7);
  for (const size_t i : {0, 1, 2, 4}) CHECK_MESSAGE(all[i].text == "int mine;\n", all[i].why);
  CHECK(all[0].note == "graded was one/too/many/03_matmul/" + name);
  CHECK(all[1].note == "graded was 03_matmul/" + stem + " (1).hpp");
  CHECK(all[3].text == solution("library"));
  CHECK(all[3].note == "graded was submitted.h, found by its functions");
  CHECK(all[4].note ==
        "graded was new/" + stem + "-2.hpp; other versions were not graded: 03_matmul/" + name);
  CHECK(all[5].handed == Handed::nothing);  // the library's page is nobody's solution
  CHECK(all[6].handed == Handed::unrecognised);
}

TEST_CASE("a file is known as its exercise's by its functions") {
  std::vector<Exercise> exercises;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    exercises.push_back(read_exercise(YOTTA_SOURCE_DIR, id));
  for (const Exercise& exercise : exercises)
    for (const std::string& text : {starter_of(exercise), exercise.page_text()}) {
      const Exercise* found = exercise_by_content(text, exercises);
      CHECK_MESSAGE((found != nullptr && found->id == exercise.id), exercise.id);
    }
  CHECK(exercise_by_content("int x;", exercises) == nullptr);
  CHECK(exercise_by_content("", exercises) == nullptr);
}

TEST_CASE("what nobody has handed in and what nobody knows is no 0") {
  const Class class_;
  fs::create_directories(class_.folder() + "/ann/work");
  write_text(class_.folder() + "/bob/work.rar", "x");
  write_text(class_.folder() + "/leeann_45_678_ring.hpp", "int x;\n");
  GradeOptions options;
  options.folder = class_.folder(), options.json = class_.json(), options.exercises = {"03"};
  const Ending ending = yotta_test::said_by([&] { return grade_class(options); });
  CHECK_MESSAGE(ending.status == 4, ending.output);
  CHECK(contains(ending.output, "Nobody has handed in 03_matmul"));
  CHECK(contains(ending.output, "leeann_45_678_ring.hpp lie in "));
  const auto all = class_.submissions();
  CHECK(of_student(all, "ann").at("verdict") == "not handed in");
  CHECK(of_student(all, "bob").at("verdict") == "not recognised");
  CHECK(contains(of_student(all, "bob").at("message"), "known: work.rar"));
  CHECK(read_text(class_.result("moodle.csv")) ==
        "Username,Exercise 03_matmul\r\nann,\r\nbob,\r\n");
}

TEST_CASE("an unchanged starter is known, however it is spaced") {
  Submission one{"a", "03_matmul"};
  one.text = " \n";
  CHECK(is_unchanged(one, "int x;"));
  one.text = "int  x ;\r\n";
  CHECK(is_unchanged(one, "int x;"));
  one.text = "int y;";
  CHECK_FALSE(is_unchanged(one, "int x;"));
}

TEST_CASE("a cell of a CSV file is text and no formula") {
  CHECK(csv_cell("plain") == "plain");
  CHECK(csv_cell("a, b") == "\"a, b\"");
  CHECK(csv_cell("say \"hi\"") == "\"say \"\"hi\"\"\"");
  for (const char* formula : {"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)"})
    CHECK(csv_cell(formula) == std::string("'") + formula);
  CHECK(csv_cell("caf\xe9") == "caf\xef\xbf\xbd");
}

TEST_CASE("platforms get the columns that they read") {
  Mark open = mark("bob", Outcome::could_not_grade, 0);
  open.points.reset();
  const Marks marks = {mark("ann", Outcome::partial, 40), open};
  CHECK(canvas_csv(marks) ==
        "Student,ID,SIS User ID,SIS Login ID,Section,Exercise 10_collectives\r\n"
        "Points Possible,,,,,100\r\nann,,,ann,,40\r\nbob,,,bob,,\r\n");
  CHECK(moodle_csv(marks) == "Username,Exercise 10_collectives\r\nann,40\r\nbob,\r\n");
  const yotta_test::TemporaryFolder folder;
  const std::string names = folder / "names.csv";
  write_text(names, "\"ann\", ann.lee@x.edu\r\n\n");
  CHECK(contains(canvas_csv(marks, read_logins(names)), "ann,,,ann.lee@x.edu,,40\r\nbob,,,bob,,"));
  CHECK(contains(moodle_csv(marks, read_logins(names)), "ann.lee@x.edu,40"));
  write_text(names, "ann,a\nann,b\n");
  CHECK_THROWS_WITH(read_logins(names), (names + ", line 2: ann has a login already, a").c_str());
  write_text(names, "ann\n");
  CHECK_THROWS_WITH(read_logins(names),
                    (names + ", line 1: expected FOLDER,LOGIN, not 'ann'").c_str());
  CHECK(marks_json(marks)["submissions"][1]["points"].is_null());
  CHECK(mark_json(mark_of(mark_json(marks[0]))) == mark_json(marks[0]));
  CHECK(contains(marks_table(marks), "partial 40"));
}

TEST_CASE("Gradescope gets a test for each task, with partial credit") {
  const auto json = gradescope_results({mark("ann", Outcome::partial, 40)}, "after_published");
  CHECK(json["score"] == 40);
  REQUIRE(json["tests"].size() == 1);
  const auto& test = json["tests"][0];
  CHECK(test["score"] == 40);
  CHECK(test["max_score"] == 60);
  CHECK(test["status"] == "failed");
  CHECK(test["visibility"] == "after_published");
  CHECK(test["output"] == "rank 1 & rank 2");
}

TEST_CASE("JUnit XML and the student's page hold every message, escaped") {
  const std::string xml = junit_xml({mark("a & b", Outcome::partial, 40)});
  CHECK(contains(xml, "<testsuite name=\"a &amp; b: 10_collectives\" tests=\"2\" failures=\"1\""));
  CHECK(contains(xml, "<failure message=\"2 &lt; 3\">2 &lt; 3\nsecond &quot;line&quot;</failure>"));
  Mark broken = mark("ann", Outcome::not_compiling, 0);
  broken.message = "error: ``` is no C++";
  const std::string page = feedback({broken}, {});
  CHECK(contains(page, "````\nerror: ``` is no C++\n````"));
  CHECK(contains(page, "**0 of 100 points**, not compiling"));
  CHECK(contains(page, "rank 1 & rank 2"));
}
