// `./yotta exercise new` and `verify`: a new exercise in a temporary root is whole. Its programs
// are built with the commands that Ninja has for another exercise, and the proofs of the suite are
// run on them.
#include "runner/author.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/solution.hpp"
#include "runner/verify.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::longest_wait;

namespace {

constexpr const char* id = "87_my_topic";
constexpr const char* other = "10_collectives";  // whose commands are used

// A root with nothing but the example.
class Root : public yotta_test::TemporaryFolder {
 public:
  Root() {
    fs::create_directories(*this / "docs");
    fs::copy(YOTTA_SOURCE_DIR "/docs/example", *this / "docs/example", fs::copy_options::recursive);
  }
};

std::string why_not(const std::string& root, const std::string& name) {
  try {
    new_exercise(root, name);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

Ending run_in_build(const Words& command) {
  Words words = {"env", "-C", YOTTA_BUILD_DIR};
  words.insert(words.end(), command.begin(), command.end());
  return run_limited(words, longest_wait);
}

// The programs of a new exercise, in a folder.
class Programs {
 public:
  Programs(const Exercise& exercise, std::string folder)
      : exercise_(exercise), folder_(std::move(folder)), listed_(list()) {
    fs::create_directories(folder_);
    const std::string cases = object("cases", "tests");
    run(commands_for(listed_, cases, program(), "", folder_).compile, "tests.cpp");
    fs::rename(folder_ + "/solution.o", folder_ + "/cases.o");
  }
  void build(const std::string& variant, const std::string& name) {
    const std::string file = folder_ + "/" + variant + ".hpp",
                      adapter = object("library", "adapter");
    write_text(file, variant_of(exercise_, variant));
    BuildCommands commands = commands_for(listed_, adapter, program(), file, folder_);
    std::replace(commands.link.begin(), commands.link.end(), object("cases", "tests"),
                 folder_ + "/cases.o");
    run(commands.compile, "adapter.cpp");
    run(commands.link, "");
    fs::rename(folder_ + "/program", fmt::format("{}/exercise_{}_{}", folder_, id, name));
  }

 private:
  static std::string program() { return fmt::format("exercises/exercise_{}_library", other); }
  static std::string object(const std::string& part, const std::string& source) {
    return fmt::format("exercises/CMakeFiles/exercise_{0}_{1}.dir/{0}/{2}.cpp.o", other, part,
                       source);
  }
  static std::string list() {
    const std::string target = fmt::format("exercise_{}_library", other);
    return run_limited(
               {"cmake", "--build", YOTTA_BUILD_DIR, "--target", target, "--", "-t", "commands"},
               longest_wait, 1 << 24)
        .output;
  }
  // With the new exercise's file in the place of the other's.
  void run(Words command, const std::string& source) {
    for (std::string& word : command)
      if (!source.empty() && word.ends_with(fmt::format("{}/{}", other, source)))
        word = exercise_.folder + "/" + source;
    const Ending ending = run_in_build(command);
    REQUIRE_MESSAGE(ending.well(), ending.output);
  }

  Exercise exercise_;
  std::string folder_, listed_;
};

}  // namespace

TEST_CASE("a new exercise has the example's files under its own names") {
  const Root root;
  const std::vector<std::string> files = new_exercise(root.path(), id);
  CHECK(std::count(files.begin(), files.end(), "include/yotta/parallel/my_topic.hpp") == 1);
  CHECK(std::count(files.begin(), files.end(), "tests/parallel/my_topic_test.cpp") == 1);
  for (const std::string& file : files) {
    const std::string text = read_text(root / file);
    for (const char* left : {"gossip", "Gossip", "32_", "32.1", "exercise 32", "lesson 32"})
      CHECK_MESSAGE(!contains(text, left), (file + " still says " + left));
  }
  for (const std::string& line : lines_of(read_text(root / "include/yotta/parallel/my_topic.hpp")))
    CHECK_MESSAGE(line.size() <= 100, line);  // as the house wants it
  const Exercise exercise = read_exercise(root.path(), id);
  CHECK(exercise.tasks.front().id == "87.1");
  CHECK(contains(starter_of(exercise), "void my_topic_round("));
  CHECK(contains(starter_of(exercise), "not_done(\"87.1\");"));
  CHECK(contains(read_text(exercise.folder + "/README.md"), signatures_of(exercise)));
}

TEST_CASE("a new exercise is refused if its name is none, its number taken, or a file there") {
  const Root root;
  for (const char* name : {"my_topic", "7_my_topic", "87_My_topic", "87_", "87_../x", ""})
    CHECK_MESSAGE(contains(why_not(root.path(), name), "two digits, _ and a name"), name);
  write_text(root / "tests/parallel/my_topic_test.cpp", "mine\n");
  CHECK(contains(why_not(root.path(), id), "my_topic_test.cpp is there already"));
  CHECK_FALSE(fs::exists(root / "exercises/87_my_topic"));
  CHECK(read_text(root / "tests/parallel/my_topic_test.cpp") == "mine\n");
  fs::remove(root / "tests/parallel/my_topic_test.cpp");
  CHECK(why_not(root.path(), id).empty());
  CHECK(why_not(root.path(), "87_other") == "the number 87 is taken, by 87_my_topic");
  fs::remove_all(root / "docs");  // as in a tree that was handed out
  CHECK(contains(why_not(root.path(), "88_other"), "the example that an exercise begins with"));
}

TEST_CASE("every proof holds of a new exercise, and says what is wrong when it is broken") {
  const Root root;
  new_exercise(root.path(), id);
  const Exercise exercise = read_exercise(root.path(), id);
  Programs programs(exercise, root / "programs");
  programs.build("starter", "starter");
  programs.build("library", "library");
  programs.build("one_neighbour", "wrong");
  const auto prove = [&] {
    return run_limited(
        {"env", fmt::format("YOTTA_EXERCISE={}", id), "YOTTA_EXERCISE_ROOT=" + root.path().string(),
         "YOTTA_EXERCISE_PROGRAMS=" + (root / "programs").string(),
         YOTTA_BUILD_DIR "/tests/course/exercise_proof"},
        longest_wait);
  };
  const Ending whole = prove();
  CHECK_MESSAGE(whole.well(), whole.output);
  const std::string hints = exercise.folder + "/hints.md", text = read_text(hints);
  write_text(hints, text.substr(0, text.find("`reduce_into")));
  const Ending one_hint = prove();
  CHECK(one_hint.status == 1);
  CHECK_MESSAGE(contains(one_hint.output, "every task its hints"), one_hint.output);
}

TEST_CASE("the names of cases are read from doctest's list") {
  CHECK(listed_cases("[doctest] listing all test case names\n=====\na, b: c\nd\n=====\n"
                     "[doctest] unskipped test cases passing the current filters: 2\n") ==
        std::vector<std::string>{"a, b: c", "d"});
  CHECK(listed_cases("").empty());
}
