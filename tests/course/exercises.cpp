#include "runner/exercise.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <stdexcept>

#include "runner/compile_errors.hpp"
#include "runner/cpp_tokens.hpp"
#include "runner/grade.hpp"
#include "runner/mutants.hpp"
#include "runner/page_functions.hpp"
#include "runner/places.hpp"
#include "runner/solution.hpp"
#include "support/from_ctest.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/told_record.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::comes;
using yotta_test::longest_wait;
using yotta_test::seconds_enough;

namespace {

const std::string header =
    "#pragma once\n\n#include \"yotta/comm/channel.hpp\"\n\nnamespace yotta {\n\n"
    "constexpr int twice(int x) {\n"
    "  // exercise 7.1: two of them\n"
    "  const int y = x;\n"
    "  return x + y;\n"
    "  // end of exercise 7.1\n"
    "}\n\n"
    "inline void nothing() {\n"
    "  // exercise 7.2: do nothing\n"
    "  // end of exercise 7.2\n"
    "}\n\n"
    "// Answers, not in the exercise.\n"
    "constexpr int answer = 42;\n"
    "}  // namespace yotta\n";

const std::string starter_note =
    "// A page of include/yotta without what you write: between the marks.\n";

// The page that is the header above without marks, and the tasks that put them there.
const std::string page =
    "#pragma once\n\n#include \"yotta/comm/channel.hpp\"\n\nnamespace yotta {\n\n"
    "constexpr int twice(int x) {\n"
    "  const int y = x;\n"
    "  return x + y;\n"
    "}\n\n"
    "inline void nothing() {\n"
    "}\n\n"
    "// Answers, not in the exercise.\n"
    "constexpr int answer = 42;\n"
    "}  // namespace yotta\n";
Task task_of(const std::string& id, const std::string& function, const std::string& words) {
  Task task{id, "", 1};
  task.function = function, task.words = words;
  return task;
}

// What with_marks or find_function throws; empty: nothing.
std::string not_found(const std::string& text, const std::string& function) {
  try {
    with_marks(text, {task_of("7.1", function, "do it")});
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// The body of a function in a text, without what stands around it.
std::string body_of(const std::string& text, const std::string& name) {
  const PageFunction found = find_function(functions_of(text), name);
  return trimmed(text.substr(found.open + 1, found.close - found.open - 1));
}

std::string said(const std::string& text, const std::string& wrong) {
  try {
    return replace_parts(text, wrong);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string mark_error(const std::string& text) {
  try {
    marked_parts(text);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// What `run` throws because it could not grade; empty: nothing.
template <class Run>
std::string why_not_graded(Run run) {
  try {
    run();
    return "";
  } catch (const CouldNotGrade& error) {
    return error.what();
  }
}

std::string case_of(const std::string& name, const std::string& outcome) {
  return fmt::format("start\t{}\t\n{}\t{}\tbecause\n", name, outcome, name);
}

}  // namespace

TEST_CASE("a starter is the header without the marked lines and what gives them away") {
  CHECK(cut_starter(header) == starter_note +
                                   "#pragma once\n\n#include \"yotta/comm/channel.hpp\"\n#include "
                                   "\"yotta/core/exercise.hpp\"\n\n"
                                   "namespace yotta::student {\n\n"
                                   "constexpr int twice(int x) {\n"
                                   "  // exercise 7.1: two of them\n"
                                   "  not_done(\"7.1\");\n"
                                   "  return {};\n"
                                   "  // end of exercise 7.1\n"
                                   "}\n\n"
                                   "inline void nothing() {\n"
                                   "  // exercise 7.2: do nothing\n"
                                   "  not_done(\"7.2\");\n"
                                   "  // end of exercise 7.2\n"
                                   "}\n\n"
                                   "}  // namespace yotta::student\n");
}

TEST_CASE("a starter's includes are sorted") {
  CHECK(cut_starter("#include <array>\n\n#include \"yotta/comm/communicator.hpp\"\n"
                    "#include \"yotta/core/tensor.hpp\"\n\ninline int x() { return 1; }\n") ==
        starter_note +
            "#include <array>\n\n#include \"yotta/comm/communicator.hpp\"\n"
            "#include \"yotta/core/exercise.hpp\"\n#include \"yotta/core/tensor.hpp\"\n\n"
            "inline int x() { return 1; }\n");
}

TEST_CASE("a starter of two headers is one file, with the parts of both in their order") {
  const std::string other =
      "// Three.\n#pragma once\n\n#include \"yotta/core/tensor.hpp\"\n\nnamespace yotta {\n"
      "constexpr int three() {\n  // exercise 7.3: three\n  return 3;\n  // end of exercise 7.3\n"
      "}\n}  // namespace yotta\n";
  CHECK(one_text({header}) == header);
  CHECK(marked_parts(one_text({header, other})) == std::vector<std::string>{"7.1", "7.2", "7.3"});
  CHECK(cut_starter(one_text({header, other})) ==
        cut_starter(header) +
            "\n// Three.\n\n#include \"yotta/core/tensor.hpp\"\n\nnamespace yotta::student {\n"
            "constexpr int three() {\n  // exercise 7.3: three\n  not_done(\"7.3\");\n"
            "  return {};\n  // end of exercise 7.3\n}\n}  // namespace yotta::student\n");
}

TEST_CASE("exercise.json names one header, or several; the file is called as the last one") {
  const yotta_test::TemporaryFolder root;
  const auto read = [&](const std::string& names) {
    write_text(root / "exercises/07_sums/exercise.json",
               R"({"title": "", "minutes": 1, "difficulty": "easy", "prerequisites": [],
                   "outcomes": [], "wrong": [], "tasks": [], "header": )" +
                   names + "}");
    try {
      const Exercise exercise = read_exercise(root.path(), "07_sums");
      return fmt::format("{}, last {}", exercise.headers.front(), exercise.file_name());
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  CHECK(read(R"("a/sums.hpp")") == "a/sums.hpp, last sums.hpp");
  CHECK(read(R"(["a/terms.hpp", "b/sums.hpp"])") == "a/terms.hpp, last sums.hpp");
  for (const char* none : {"[]", "7", "[7]", "{}"}) {
    const std::string said = read(none);
    CHECK_MESSAGE(said.find("exercise.json: ") != std::string::npos, said);
  }
}

TEST_CASE("exercise.json says whether checks run under AddressSanitizer, true or false") {
  const yotta_test::TemporaryFolder root;
  const auto read = [&](const std::string& fields) {
    write_text(root / "exercises/07_sums/exercise.json",
               R"({"title": "", "minutes": 1, "difficulty": "easy", "prerequisites": [],
                   "outcomes": [], "wrong": [], "tasks": [], "header": "a.hpp")" +
                   fields + "}");
    try {
      return std::string(read_exercise(root.path(), "07_sums").asan ? "yes" : "no");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  CHECK(read("") == "no");
  CHECK(read(R"(, "asan": false)") == "no");
  CHECK(read(R"(, "asan": true)") == "yes");
  CHECK(yotta_test::contains(read(R"(, "asan": "yes")"),
                             "07_sums/exercise.json: \"asan\" must be true or false, not \"yes\""));
  CHECK(yotta_test::contains(read(R"(, "asan": true, "kernels": true)"),
                             "the emulator checks kernels itself"));
}

TEST_CASE("marks and words stand round the bodies of the tasks' functions") {
  CHECK(with_marks(page, {task_of("7.1", "twice", "two of them"),
                          task_of("7.2", "nothing", "do nothing")}) == header);
  std::string words;
  for (int i = 0; i < 20; ++i) words += "a word ";
  const std::string long_words = with_marks(page, {task_of("7.1", "twice", words)});
  CHECK(long_words.find("word a\n  //   word a") != std::string::npos);
  const std::string starter = cut_starter(long_words);
  CHECK(starter.find("a word\n  not_done(\"7.1\");\n  return {};") != std::string::npos);
  for (const std::string& line : lines_of(starter)) CHECK_MESSAGE(line.size() <= 100, line);
  CHECK(with_marks("int one() { return 1; }\n", {task_of("7.1", "one", "1")}) ==
        "int one() {\n  // exercise 7.1: 1\n  return 1;\n  // end of exercise 7.1\n}\n");
  CHECK(with_marks("class A {\n  void f() {\n    g();\n  }\n};\n", {task_of("7.1", "A::f", "g")}) ==
        "class A {\n  void f() {\n    // exercise 7.1: g\n    g();\n    // end of exercise 7.1\n"
        "  }\n};\n");
}

TEST_CASE("functions are found in every form in which a page defines them") {
  const std::string text =
      "namespace yotta {\n"
      "inline int a(int x = sum({1, 2})) { return 'a' + x; }  // int b() { no }\n"
      "/* int b() { no } */\n"
      "template <int N, class T = Pair<int, int>>\n"
      "__global__ void __launch_bounds__(2 * N) b(const T* x) { b1(); }\n"
      "struct S : Base<int> {\n"
      "  S() : v_{1}, f_([](int i) { return i; }) { made(); }\n"
      "  ~S() { gone(); }\n"
      "  explicit operator bool() const { return true; }\n"
      "  bool operator==(const S& o) const { return eq(o); }\n"
      "  int operator()(int i) const { return i; }\n"
      "  int c() const noexcept override { return R\"(})\"[0] == '}'; }\n"
      "  class Inner {\n   public:\n    void d();\n    void e() { in(); }\n  };\n"
      "  int later = 1, more{2};\n  std::function<int()> g = [] { return 3; };\n"
      "};\n"
      "namespace detail { double half(double x) { return x / 2; } int half(int x) { return x; } }\n"
      "template <class T>\nvoid S::Inner::d() {\n  if (x) {\n    y();\n  }\n}\n"
      "auto V<int>::f() const -> Route {\n  return {};\n}\n"
      "enum class E { x, y };\nstd::array<int, 2> list = {1, 2};\n"
      "[[nodiscard]] constexpr std::vector<int> h() { return {}; }\n"
      "[[noreturn]] void stop() { throw 1; }\n"
      "}  // namespace yotta\n";
  const std::vector<PageFunction> functions = functions_of(text);
  std::vector<std::string> paths;
  for (const PageFunction& one : functions) paths.push_back(one.path().substr(7));
  CHECK(paths == std::vector<std::string>{"a", "b", "S::S", "S::~S", "S::operatorbool",
                                          "S::operator==", "S::operator()", "S::c", "S::Inner::e",
                                          "detail::half", "detail::half", "S::Inner::d", "V::f",
                                          "h", "stop"});
  const std::vector<PageClass> classes = page_of(text).classes;
  REQUIRE(classes.size() == 3);
  CHECK((classes[0].path == "S::Inner" && classes[1].path == "S" && classes[2].path == "E"));
  CHECK(text.substr(classes[0].open, classes[0].close - classes[0].open) ==
        "{\n   public:\n    void d();\n    void e() { in(); }\n  ");
  const std::set<std::string> none = {"b", "S::S", "S::~S", "S::Inner::e", "S::Inner::d", "stop"};
  for (const PageFunction& one : functions)
    CHECK_MESSAGE(one.returns_value == (none.count(one.path().substr(7)) == 0), one.path());
  CHECK(body_of(text, "a") == "return 'a' + x;");
  CHECK(body_of(text, "S::S") == "made();");
  CHECK(body_of(text, "S::c") == "return R\"(})\"[0] == '}';");
  CHECK(body_of(text, "Inner::d") == "if (x) {\n    y();\n  }");
  CHECK(body_of(text, "half(double") == "return x / 2;");
  CHECK(body_of(text, "detail::half(int x") == "return x;");
  CHECK(find_function(functions, "b").signature ==
        "__global__ void __launch_bounds__(2 * N) b(const T* x)");
  CHECK(find_function(functions, "b").parameters_of_template ==
        "template <int N, class T = Pair<int, int>>");
  CHECK(find_function(functions, "S::S").signature == "S()");
  CHECK(find_function(functions, "S::operator()").name == "operator()");
  CHECK(find_function(functions, "f").signature == "auto V<int>::f() const -> Route");
}

TEST_CASE("a task whose function is missing, or may be one of several, says what there is") {
  const std::string text =
      "int half(int x) { return x; }\ndouble half(double x) { return x; }\n"
      "struct A { void f() {} };\nstruct B { void f() {} };\n";
  CHECK(not_found(text, "A::f").empty());
  CHECK(not_found(text, "half(double x").empty());
  CHECK(not_found(text, "third") == "task 7.1: there is no function 'third'");
  CHECK(not_found(text, "") == "task 7.1: it names no \"function\"");
  CHECK(not_found(text, "f") ==
        "task 7.1: 'f' may be void f(); or void f(): name it with its class, or with a part of its "
        "parameters");
  CHECK(not_found(text, "half(long") ==
        "task 7.1: there is no function 'half(long'; there is int half(int x); double half(double "
        "x)");
  Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  exercise.tasks[0].function = "gone";
  try {
    exercise.library_text();
    FAIL("nothing was thrown");
  } catch (const std::runtime_error& error) {
    CHECK(yotta_test::contains(
        error.what(), "10_collectives/exercise.json: task 10.1: there is no function 'gone'"));
  }
}

TEST_CASE("a README shows the functions as the page declares them") {
  const std::string block = "```cpp signatures\n// 7.1\nint f();\n```\n";
  const std::string table =
      "# T\n\n| task | you write | points |\n|---|---|---|\n| 7.1 | f | 1 |\n";
  const std::string shown = table + "\n" + block + "\nMore.\n";
  CHECK(with_signatures(table + "\nMore.\n", block) == shown);
  CHECK(with_signatures(shown, block) == shown);
  CHECK_THROWS_AS(with_signatures("# T\n", block), std::runtime_error);
  const std::string ring = signatures_of(read_exercise(YOTTA_SOURCE_DIR, "10_collectives"));
  CHECK(yotta_test::contains(
      ring, "// 10.3\nvoid all_reduce_ring(Channel& ring, Data data, ReduceOp op);\n"));
}

TEST_CASE("a starter holds the mistakes that are to be mended") {
  Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, "00_start");
  const std::string starter = starter_of(exercise);
  for (const char* words : {"not_done(\"00.1\")", "world.recv(theirs, left);\n  world.send(mine",
                            "after = counter.read() + found;\n  counter.write(after);"})
    CHECK_MESSAGE(starter.find(words) != std::string::npos, words);
  CHECK(starter.find("not_done(\"00.2\")") == std::string::npos);
  exercise.mend["00.2"] = "no_such";
  CHECK_THROWS_AS(starter_of(exercise), std::runtime_error);
}

TEST_CASE("a solution is the header in the student's namespace, nothing else") {
  std::string expected = header;
  expected.replace(expected.find("namespace yotta {"), 17, "namespace yotta::student {");
  expected.replace(expected.find("}  // namespace yotta\n"), 22,
                   "}  // namespace yotta::student\n");
  CHECK(cut_solution(header) == expected);
}

TEST_CASE("marks come in pairs") {
  CHECK(marked_parts(header) == std::vector<std::string>{"7.1", "7.2"});
  CHECK(mark_error("// exercise 7.1: x\n") == "exercise 7.1 does not end");
  CHECK(mark_error("// end of exercise 7.1\n") == "line 1: exercise 7.1 ends, but none is open");
  CHECK(mark_error("// exercise 7.1: x\n// exercise 7.2: y\n") ==
        "line 2: exercise 7.2 begins inside 7.1");
  CHECK(mark_error("// exercise 7.1: x\n// end of exercise 7.2\n") ==
        "line 2: exercise 7.2 ends, but 7.1 is open");
}

TEST_CASE("a wrong solution replaces parts, and single lines outside of them") {
  const std::string text =
      "int a;\n  // exercise 7.1: two of them\n  return 2;\n  // end of exercise 7.1\nint b;\n";
  const std::string part = "  // exercise 7.1\n  return 3;\n  // end of exercise 7.1\n";
  const std::string replaced =
      "int a;\n  // exercise 7.1: two of them\n  return 3;\n  // end of exercise 7.1\n";
  CHECK(said(text, part) == replaced + "int b;\n");
  const std::string line = "// instead of: int b;\nint c;\nint d;\n// end of instead\n";
  CHECK(said(text, part + line) == replaced + "int c;\nint d;\n");
  CHECK(said("int b;\n", part) == "exercise 7.1 must be in the solution once");
  CHECK(said(text + "int b;\n", line) == "the line 'int b;' must be in the solution once");
  CHECK(said(text, "") == "the last part does not end, or there is none");
  CHECK(said(text, "  // exercise 7.1\n") == "the last part does not end, or there is none");
  CHECK(said(text, "int x;\n") == "'int x;' stands in the wrong place");
  CHECK(said(text, "// exercise 7.1\n" + part).find("stands in the wrong place") !=
        std::string::npos);
}

TEST_CASE("a compiler's errors are cut down to those in the student's file") {
  const std::string log =
      "[1/3] Building CXX object adapter.cpp.o\nFAILED: adapter.cpp.o\n/usr/bin/c++ -O1 "
      "adapter.cpp\n"
      "In file included from student.hpp:1,\n                 from adapter.cpp:4:\n"
      "/w/ring.hpp: In function 'void f()':\n"
      "/w/ring.hpp:7:3: error: 'x' was not declared\n    7 |   x = 1;\n      |   ^\n"
      "/usr/include/vector:90:1: note: candidate\n   90 | template\n      | ^\n"
      "/w/ring.hpp:9:3: error: expected ';'\n    9 |   y\n"
      "/w/ring.hpp:10:3: error: third\nninja: build stopped\n";
  CHECK(readable_errors(log, "/w/ring.hpp", 2) ==
        "/w/ring.hpp:7:3: error: 'x' was not declared\n    7 |   x = 1;\n      |   ^\n"
        "/w/ring.hpp:9:3: error: expected ';'\n    9 |   y\n... and 1 more error\n");
  CHECK(readable_errors(log, "/w/other.hpp") == "");
}

TEST_CASE("a program that runs too long is killed, with what it has started and said") {
  Ending ending;
  seconds_enough(0.2, [&](double seconds) {
    ending = run_limited({"sh", "-c", "echo here; sleep 300 & sleep 300"}, seconds);
    return !ending.output.empty();
  });
  CHECK(ending.too_late);
  CHECK(ending.output == "here\n");
  CHECK(run_limited({"sh", "-c", "exit 3"}, longest_wait).status == 3);
  CHECK(run_limited({"sh", "-c", "kill -SEGV $$"}, longest_wait).signal == SIGSEGV);
}

TEST_CASE("Ctrl-C ends what is being graded, and then us") {
  const yotta_test::TemporaryFolder folder;
  const std::string number = folder / "number";
  const pid_t grader = fork();
  if (grader == 0) {
    run_limited({"sh", "-c",
                 "echo $$ >" + number + ".new; mv " + number + ".new " + number + "; sleep 300"},
                300);
    _exit(0);
  }
  REQUIRE(comes([&] { return std::filesystem::exists(number); }));
  kill(grader, SIGINT);
  int status = 0;
  waitpid(grader, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  const pid_t graded = std::stoi(read_text(number));
  CHECK(comes([&] { return kill(graded, 0) != 0; }));
}

namespace {

// Names of functions in a text: words with an underscore, and words before a round bracket.
std::set<std::string> functions_named(const std::string& text) {
  static const std::regex name(R"((^|[^\w.:/])([a-z]\w*_\w*[a-z0-9]|[a-z]\w+(?=\()))");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
    names.insert((*at)[2]);
  return names;
}

// What stands in quotation marks, and in backticks.
std::string literals_of(const std::string& code) {
  std::string all;
  for (const CppToken& token : cpp_tokens(code))
    if (token.kind == CppToken::Kind::literal)
      all += token.text.substr(1, token.text.size() - 2);
    else
      all += "\n";
  return std::regex_replace(all, std::regex(R"(\\n)"), " ");
}
std::string code_of(const std::string& markdown) {
  static const std::regex code("```[^`]*```|`[^`]+`");
  std::string all;
  for (std::sregex_iterator at(markdown.begin(), markdown.end(), code), end; at != end; ++at)
    all += at->str() + "\n";
  return all;
}

void add_words(const std::string& text, std::set<std::string>& words) {
  static const std::regex word(R"(\w+)");
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
    words.insert(at->str());
}

// The words of an exercise's page and statement, of the headers that the page includes, of those of
// core/ that these include, and of tensors where it has them.
std::set<std::string> words_shown(const Exercise& exercise) {
  static const std::regex include("#include \"yotta/([^\"]+)\"");
  const std::string library = YOTTA_SOURCE_DIR "/include/yotta/";
  std::set<std::string> words, seen;
  const std::function<void(const std::string&, bool)> add = [&](const std::string& text, bool all) {
    add_words(text, words);
    for (std::sregex_iterator at(text.begin(), text.end(), include), end; at != end; ++at)
      if (const std::string path = (*at)[1]; all || path.starts_with("core/"))
        if (seen.insert(path).second) add(read_text(library + path), false);
  };
  add(exercise.page_text(), true);
  if (words.count("Tensor") > 0) add_words(read_text(library + "core/tensor.hpp"), words);
  add_words(read_text(exercise.folder + "/README.md"), words);
  return words;
}

}  // namespace

TEST_CASE("every function that hints and advice name stands in what the exercise shows") {
  const std::string deadlocks =
      literals_of(read_text(YOTTA_SOURCE_DIR "/include/yotta/comm/waiting/deadlock.hpp"));
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    std::string said = code_of(read_text(exercise.folder + "/hints.md")) +
                       literals_of(read_text(exercise.folder + "/tests.cpp"));
    if (id == "10_collectives") said += deadlocks;  // its page has the least to communicate with
    const std::set<std::string> shown = words_shown(exercise);
    for (const std::string& name : functions_named(said))
      CHECK_MESSAGE((shown.count(name) > 0 || name == "ends_with" || name == "root"),
                    fmt::format("{}: {}", id, name));
  }
}

TEST_CASE("messages do not speak of files that no student has opened") {
  CHECK(runner::in_plain_words("graded_ranks.hpp:17: rank 1 failed: tests.cpp:115: 3 are wrong") ==
        "rank 1: 3 are wrong");
  CHECK(runner::in_plain_words("graded_ranks.hpp:17: rank 1 failed: graded_ranks.hpp:49: y is") ==
        "rank 1: y is");
  CHECK(runner::in_plain_words("tests.cpp:57: rank 0 failed: linear.hpp:76: dim 1") ==
        "rank 0: linear.hpp:76: dim 1");
  CHECK(runner::in_plain_words("adapter.cpp:28: the Work of recv at adapter.cpp:28 was dropped") ==
        "the Work of recv in your function was dropped");
}

namespace {
std::set<std::string> changes_of(const std::string& body) {
  std::set<std::string> names;
  for (const Mutant& each : mutants_of(body)) names.insert(each.name());
  return names;
}
}  // namespace

TEST_CASE("small changes of a solution: one token or one statement at a time") {
  CHECK(changes_of("  return a < b && c == 2;  // why\n") ==
        std::set<std::string>{"return a < b && c == 2; => ;",
                              "return a < b && c == 2; => return a <= b && c == 2;",
                              "return a < b && c == 2; => return a < b || c == 2;",
                              "return a < b && c == 2; => return a < b;",
                              "return a < b && c == 2; => return a < b && c != 2;",
                              "return a < b && c == 2; => return a < b && c == (2 + 1);",
                              "return a < b && c == 2; => return a < b && c == (2 - 1);"});
  const std::set<std::string> loop =
      changes_of("  for (int i = 0; i < n; ++i)\n    sum += x[i] * scale(i, n);\n  store(sum);\n");
  const std::string line = "sum += x[i] * scale(i, n); => ";
  for (const char* const change :
       {";", "sum -= x[i] * scale(i, n);", "sum = x[i] * scale(i, n);",
        "sum += x[(i) + 1] * scale(i, n);", "sum += x[i] / scale(i, n);", "sum += x[i];",
        "sum += x[i] * scale(n, i);", "{ sum += x[i] * scale(i, n); break; }"})
    CHECK_MESSAGE(loop.count(line + change) == 1, change);
  CHECK(loop.count("for (int i = 0; i < n; ++i) => for (int i = 0; i <= n; ++i)") == 1);
  CHECK(loop.count("store(sum); => return; store(sum);") == 1);
  CHECK(loop.count("store(sum); => ;") == 1);
}

TEST_CASE("small changes leave sizes of arrays, templates and the words of errors as they are") {
  const std::string error = "fail(where, \"{} of {}\", n - 1, m);";
  const std::set<std::string> changes =
      changes_of("  float x[TM], y[TN];\n  vector<int> a(n);\n  if (n < 0) " + error + "\n");
  CHECK(changes.count("if (n < 0) " + error + " => if (n <= 0) " + error) == 1);
  CHECK(changes.count("if (n < 0) " + error + " => if (n < 0) ;") == 1);
  for (const std::string& each : changes) {
    CHECK_MESSAGE((each.find(error, each.find("=>")) != each.npos || each.ends_with(" ;") ||
                   each.find("fail") == each.npos),
                  each);
    CHECK_MESSAGE((each.find("(TM)") == each.npos && each.find("(TN)") == each.npos), each);
    CHECK_MESSAGE(each.find("<=int") == each.npos, each);
  }
}

TEST_CASE("a command's words are what a shell reads") {
  CHECK(shell_words("  a -D\\\"x y\\\" 'b  \\c' \"d'e\"f '' ") ==
        Words{"a", "-D\"x", "y\"", "b  \\c", "d'ef", ""});
  CHECK(shell_words("") == Words{});
}

TEST_CASE("a solution is compiled and linked with Ninja's commands, but to other places") {
  const std::string compile = "c++ -DYOTTA_SOLUTION=\\\"/b/student.hpp\\\" -O0 -MD -MT a.o -MF a.d";
  const std::string listed = "c++ -o main.o -c main.cpp\n" + compile +
                             " -o a.o -c a.cpp\n: && c++ main.o a.o -o graded -lm && :\n";
  const BuildCommands commands = commands_for(listed, "a.o", "graded", "/w/my file.hpp", "/run");
  CHECK(commands.compile == Words{"c++", "-DYOTTA_SOLUTION=\"/w/my file.hpp\"", "-O0", "-o",
                                  "/run/solution.o", "-c", "a.cpp"});
  CHECK(commands.link == Words{"c++", "main.o", "/run/solution.o", "-o", "/run/program", "-lm"});
  const std::string why = why_not_graded([&] { commands_for("", "a.o", "graded", "f", "/run"); });
  CHECK_MESSAGE(why.find("Ninja does not list") != std::string::npos, why);
}

TEST_CASE("the library's archives are found, in the build or where a handout has them") {
  CHECK(archives_of({"c++", "a.o", "libyotta_compiled_comm.a", "libother.a",
                     "/w/handout/libyotta_compiled_core.a", "-lyotta_compiled"}) ==
        Words{YOTTA_BUILD_DIR "/libyotta_compiled_comm.a", "/w/handout/libyotta_compiled_core.a"});
}

TEST_CASE(
    "every run has a folder of its own; those of killed runs are removed, those in use are not") {
  const yotta_test::TemporaryFolder parent;
  fs::create_directories(parent / "run.killed");
  write_text(parent / "run.killed/lock", "");
  std::string mine;
  {
    const RunFolder one(parent.path()), other(parent.path());
    mine = one.path();
    CHECK(one.path() != other.path());
    CHECK(fs::exists(one.path()));
    CHECK_FALSE(fs::exists(parent / "run.killed"));
  }
  CHECK_FALSE(fs::exists(mine));
}

TEST_CASE("a lock is held to the end, by what has been started too") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "lock";
  pid_t child = 0;
  {
    const FileLock lock(file);
    CHECK_FALSE(FileLock::is_free(file));
    child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
  }
  CHECK_FALSE(FileLock::is_free(file));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(FileLock::is_free(file));
}

TEST_CASE("how far a build is: the last step that Ninja has named") {
  CHECK(building("") == "");
  CHECK(building("Re-checking globbed directories...\n") == "");
  CHECK(building("[1/340] Building CXX object a.o\n[12/340] Linking\n") == "building, 12 of 340");
  CHECK(building("[3/9] Building\nx[4/9] y.cpp:[5/9] no step\n") == "building, 3 of 9");
}

TEST_CASE("every copy of a student's file is kept") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "ring.hpp";
  std::vector<std::string> copies;
  for (const char* text : {"first", "second", "third"}) {
    write_text(file, text);
    copies.push_back(keep_copy(file));
  }
  CHECK(copies ==
        std::vector<std::string>{file + ".before", file + ".before.2", file + ".before.3"});
  CHECK(read_text(copies[0]) == "first");
  CHECK(read_text(copies[1]) == "second");
  CHECK(read_text(copies[2]) == "third");
}

TEST_CASE("points are lost only to cases that the library passes") {
  const yotta_test::TemporaryFolder folder;
  Exercise exercise;
  exercise.tasks = {{"7.1", "one", 40}, {"7.2", "two", 60}};
  const std::string end = "end\t\t\n", good = case_of("7.1: a", "passed");
  using yotta_test::program_that_says;
  const std::string right = program_that_says(folder, good + case_of("7.2: b", "passed") + end);
  const std::string wrong = program_that_says(folder, good + case_of("7.2: b", "failed") + end);
  const std::string crashes = program_that_says(folder, "");
  const std::string task_without_cases = program_that_says(folder, good + end);
  CHECK(fair_grade(exercise, right, wrong).points == 100);
  CHECK(fair_grade(exercise, wrong, right).points == 40);
  CHECK(fair_grade(exercise, crashes, right).points == 0);
  CHECK(why_not_graded([&] { fair_grade(exercise, wrong, wrong); }) ==
        "the library's own solution fails a case, 7.2: b:\nbecause");
  const std::string late = program_that_says(
      folder, good + "start\t7.2: b\t\nfailed\t7.2: b\tit did not end within 5 s: a loop\n" + end);
  CHECK(
      why_not_graded([&] {
        fair_grade(exercise, late, late);
      }).starts_with("this machine is too busy: the library's own solution was not done in time"));
  const std::string why = why_not_graded([&] { fair_grade(exercise, crashes, crashes); });
  CHECK_MESSAGE(why.find("it ended the whole program") != std::string::npos, why);
  CHECK(why_not_graded([&] {
          fair_grade(exercise, wrong, task_without_cases);
        }).find("do not agree on its tasks") != std::string::npos);
}

TEST_CASE("a test program that ctest has not started says so") {
  std::string said;
  try {
    yotta_test::from_ctest("YOTTA_NOBODY_SETS_THIS");
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  CHECK(yotta_test::contains(said, "YOTTA_NOBODY_SETS_THIS is not set. Start this test by ctest"));
  CHECK(yotta_test::from_ctest("PATH") == std::getenv("PATH"));
}
