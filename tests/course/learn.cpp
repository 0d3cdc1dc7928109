// `./yotta learn`: what a key, a save and a verdict do, what the screen shows, and a session at a
// terminal that is none.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "runner/background.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/learn_screen.hpp"
#include "runner/learn_state.hpp"
#include "runner/progress.hpp"
#include "runner/terminal.hpp"
#include "runner/variant.hpp"
#include "runner/watch.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner::study;
using runner::read_text;
using runner::write_text;
using yotta_test::comes;
using yotta_test::contains;
using yotta_test::TemporaryFolder;
using Kind = Event::Kind;

namespace {

Exercise exercise_of(const std::string& id, const std::string& title) {
  Exercise one;
  one.id = id, one.title = title, one.difficulty = "easy", one.minutes = 30;
  one.file = "work/" + id + "/x.hpp";
  one.statement = fmt::format("Read this.\n{0}.1 │ add them │ 40\n", id.substr(0, 2));
  one.solution = "include/yotta/x.hpp";
  for (const char* number : {".1", ".2"})
    one.tasks.push_back({id.substr(0, 2) + number, "a task", 0, 50, false, {"first", "second"}, 0});
  return one;
}

State two_exercises() {
  return begin_at({exercise_of("07_sums", "Sums"), exercise_of("10_rings", "Rings")}, "");
}

State after(State state, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) state = next(std::move(state), {Kind::key, key}).state;
  return state;
}
Step press(const State& state, const std::string& key) { return next(state, {Kind::key, key}); }

Event verdict_of(const std::string& exercise, std::vector<TaskVerdict> tasks) {
  Event event{Kind::graded, "07.1: a\n  it is wrong\n"};
  event.exercise = exercise, event.tasks = std::move(tasks), event.log = "all of it";
  return event;
}

std::string seen(const State& state, int width = 80, int height = 24) {
  std::string text;
  for (const std::string& line : screen(state, width, height)) text += line + "\n";
  return text;
}

bool asks_for(const Step& step, Effect::Kind kind, const std::string& name) {
  return std::any_of(step.effects.begin(), step.effects.end(), [&](const Effect& effect) {
    return effect.kind == kind && effect.name == name;
  });
}

// `runner` at a terminal of its own.
class Session {
 public:
  explicit Session(const std::string& work, std::vector<std::string> words) {
    winsize window = {24, 80, 0, 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &window);
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    setenv("YOTTA_WORK", work.c_str(), 1);
    std::string program = YOTTA_BUILD_DIR "/course/runner";
    std::vector<char*> all = {program.data()};
    for (std::string& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    execv(program.c_str(), all.data());
    _exit(127);
  }
  ~Session() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(terminal_);
  }

  // Until the terminal was sent these words, from now on.
  bool shows(const std::string& words) {
    return comes([&] {
      read_on();
      return contains(text_, words);
    });
  }
  void type(const std::string& keys) {
    text_.clear();
    CHECK(write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  void signal(int number) const { kill(pid_, number); }
  void resize(unsigned short width, unsigned short height) {
    text_.clear();
    winsize window = {height, width, 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &window);
  }
  // Its status, as waitpid tells it.
  int ends() {
    int status = 0;
    CHECK(comes([&] {
      read_on();
      return waitpid(pid_, &status, WNOHANG) == pid_;
    }));
    read_on();
    pid_ = 0;
    return status;
  }
  const std::string& text() const { return text_; }

 private:
  void read_on() {
    pollfd wait = {terminal_, POLLIN, 0};
    char bytes[4096];
    while (poll(&wait, 1, 0) > 0) {
      const ssize_t count = read(terminal_, bytes, sizeof bytes);
      if (count <= 0) return;
      text_.append(bytes, static_cast<size_t>(count));
    }
  }

  int terminal_ = -1;
  pid_t pid_ = 0;
  std::string text_;
};

int letters_of(const std::string& line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

constexpr const char* restored = "\033[?25h\033[?1049l";

}  // namespace

TEST_CASE("a task's page says its minutes, how difficult it is and which tasks it uses") {
  State state = two_exercises();
  Task& task = state.exercises[0].tasks[1];
  task.minutes = 10, task.difficulty = "medium", task.needs = {"07.1"};
  state.task = 1;
  CHECK(contains(page_text(state, 100),
                 "07.2: a task (50 points, 10 minutes, medium)\nIt uses 07.1.\n"));
  CHECK(contains(page_text(state, 100), "nothing is written yet"));
  state.exercises[0].tasks[0].points = 5;
  CHECK_FALSE(contains(page_text(state, 100), "nothing is written yet"));
}

TEST_CASE("a variant: its key stands in the head, its sentences before the statement") {
  State state = two_exercises();
  CHECK_FALSE(contains(page_text(state, 100), "variant"));
  state.key = "autumn", state.exercises[0].variant = {"Rank r sends to rank r - 1."};
  const std::string page = page_text(state, 100);
  CAPTURE(page);
  CHECK(contains(page, "0 of 100 points  variant autumn\n"));
  CHECK(contains(page, "\nIn this variant: Rank r sends to rank r - 1.\n\nRead this.\n"));
  CHECK(contains(seen(state), "variant autumn"));
  CHECK(contains(seen(state), "In this variant: Rank r"));
  CHECK_FALSE(contains(seen(after(state, {"l", "down", "enter"})), "In this variant"));
}

TEST_CASE("it begins where the student was, or at the first exercise that is not complete") {
  std::vector<Exercise> all = two_exercises().exercises;
  CHECK(begin_at(all, "10_rings").at == 1);
  CHECK(begin_at(all, "gone").at == 0);
  for (Task& task : all[0].tasks) task.solved = true;
  CHECK(begin_at(all, "").at == 1);
  all[1].tasks[0].solved = true;
  CHECK(begin_at(all, "").task == 1);
}

TEST_CASE("a save grades this exercise; a verdict is shown, and moves to no other task") {
  Step saved = next(two_exercises(), {Kind::saved});
  REQUIRE(saved.effects.size() == 1);
  CHECK(asks_for(saved, Effect::Kind::grade, "07_sums"));
  CHECK(saved.state.grading);
  CHECK(contains(seen(saved.state), "being graded"));
  saved.state.building = "building, 12 of 340";
  CHECK(contains(seen(saved.state), "building, 12 of 340"));
  saved.state.building.clear();
  const State state = next(saved.state, verdict_of("07_sums", {{"07.1", 50, true}})).state;
  CHECK_FALSE(state.grading);
  CHECK(state.task == 0);
  CHECK(state.page == Page::verdict);
  const std::string text = seen(state);
  CAPTURE(text);
  CHECK(contains(text, "▸ ✓ 07.1 a task"));
  CHECK(contains(text, "07.1 is solved. n: the next task."));
  CHECK(contains(text, "it is wrong"));
  CHECK(contains(text, "50 of 200 points  15 of 60 minutes"));
  CHECK(contains(seen(after(state, {"e"})), "all of it"));
}

TEST_CASE(
    "n goes to the next open task, then to the next exercise, round to those that were left") {
  State state = after(two_exercises(), {"n"});
  CHECK(state.open().id == "07.2");
  Step step = press(state, "n");
  CHECK(step.state.open().id == "10.1");
  CHECK(asks_for(step, Effect::Kind::grade, "10_rings"));
  step = press(after(step.state, {"n"}), "n");
  CHECK(step.state.open().id == "07.1");
  for (Exercise& one : state.exercises)
    for (Task& task : one.tasks) task.solved = true;
  step = press(state, "n");
  CHECK(step.effects.empty());
  CHECK(contains(seen(step.state), "Every exercise is done."));
}

TEST_CASE("b goes back to the task before, solved or not, and stays in the exercise") {
  State state = after(two_exercises(), {"n"});
  state.exercises[0].tasks[0].solved = true;
  const Step step = press(state, "b");
  CHECK(step.state.open().id == "07.1");
  CHECK(step.state.page == Page::statement);
  CHECK(step.effects.empty());
  state = after(step.state, {"b"});
  CHECK(state.open().id == "07.1");
  CHECK(contains(seen(state), "This is the first task of 07. l: other exercises."));
  CHECK_FALSE(contains(seen(after(state, {"n", "b"})), "This is the first"));
}

TEST_CASE("h shows one more hint each time, then where a solution is") {
  Step step = press(two_exercises(), "h");
  CHECK(asks_for(step, Effect::Kind::read_hint, "07.1"));
  CHECK(contains(seen(step.state), "Hint 1 of 2\nfirst"));
  CHECK_FALSE(contains(seen(step.state), "second"));
  step = press(step.state, "h");
  CHECK(asks_for(step, Effect::Kind::read_hint, "07.1"));
  CHECK(contains(seen(step.state), "Hint 2 of 2\nsecond"));
  CHECK_FALSE(contains(seen(step.state), "include/yotta/x.hpp"));
  step = press(step.state, "h");
  CHECK(step.effects.empty());
  CHECK(contains(seen(step.state), "A solution stands in include/yotta/x.hpp"));
  CHECK(press(step.state, "h").effects.empty());
}

TEST_CASE("a new hint is on the screen, however many stand above it") {
  State state = two_exercises();
  state.exercises[0].tasks[0].hints.assign(9, "one line\nand another");
  for (int i = 1; i <= 9; ++i) {
    state = after(state, {"h"});
    CHECK(contains(seen(state), fmt::format("Hint {} of 9", i)));
  }
}

TEST_CASE("x asks, and only y starts again") {
  const State asking = after(two_exercises(), {"x"});
  CHECK(contains(seen(asking), "Start work/07_sums/x.hpp again?"));
  for (const char* key : {"n", "q", "escape", "Y"}) {
    const Step no = press(asking, key);
    CHECK(no.effects.empty());
    CHECK(no.state.page == Page::statement);
  }
  const Step yes = press(asking, "y");
  CHECK(asks_for(yes, Effect::Kind::reset, "07_sums"));
  CHECK(asks_for(yes, Effect::Kind::grade, "07_sums"));
}

TEST_CASE("the list is searched, filtered and jumped from") {
  State state = after(two_exercises(), {"l", "/", "R", "i", "x", "backspace"});
  CHECK(state.search == "Ri");
  CHECK(listed(state) == std::vector<size_t>{1});
  CHECK(contains(seen(state), "Rings"));
  CHECK_FALSE(contains(seen(state), "07 Sums      "));
  const Step jumped = press(state, "enter");  // the only one that was found
  CHECK(jumped.state.exercise().id == "10_rings");
  CHECK(asks_for(jumped, Effect::Kind::grade, "10_rings"));
  state = after(state, {"escape"});
  CHECK(listed(state).size() == 2);
  CHECK(after(state, {"down"}).chosen == 1);
  CHECK(after(state, {"down", "down", "down"}).chosen == 1);
  CHECK(after(state, {"up"}).chosen == 0);
  for (Task& task : state.exercises[0].tasks) task.solved = true, task.points = 50;
  CHECK(listed(after(state, {"f"})) == std::vector<size_t>{1});
  CHECK(listed(after(state, {"f", "f"})) == std::vector<size_t>{0});
  CHECK(press(after(state, {"/"}), "q").effects.empty());  // a letter of the search
  state = two_exercises();
  state.at = 1;
  CHECK(after(state, {"l"}).chosen == 1);  // the exercise that is shown
  CHECK(contains(seen(after(state, {"l", "/", "R", "i"})), "1 of 2\n"));
  // of several found, enter ends the typing, and arrows move before it and after
  const State both = after(state, {"l", "/", "s", "down", "enter"});
  CHECK((both.page == Page::list && !both.typing && both.chosen == 1));
  CHECK(asks_for(press(both, "enter"), Effect::Kind::grade, "10_rings"));
  state = two_exercises();
  state.exercises[0].title = std::string(60, 'x');
  CHECK(contains(seen(after(state, {"l"})), std::string(46, 'x') + " ...   0 of 100   30 min\n"));
  // a search begins anew
  CHECK(after(both, {"escape", "l", "/", "u"}).search == "u");
}

TEST_CASE("the other keys: check all, lesson, run again, statement, quit") {
  const State state = two_exercises();
  const Step all = press(state, "c");
  CHECK(asks_for(all, Effect::Kind::grade_all, ""));
  Event verdicts{Kind::graded_all, "the table"};
  verdicts.tasks = {{"07.2", 30, false}, {"10.1", 50, true}};
  const State table = next(all.state, verdicts).state;
  CHECK(contains(seen(table), "the table"));
  CHECK((table.exercises[0].points() == 30 && table.exercises[1].points() == 50));
  CHECK((table.exercises[1].tasks[0].solved && !table.exercises[0].tasks[1].solved));
  CHECK(asks_for(press(state, "o"), Effect::Kind::open_lesson, "07_sums"));
  CHECK(contains(seen(next(state, {Kind::lesson, "the lesson"}).state), "the lesson"));
  CHECK(asks_for(press(state, "r"), Effect::Kind::grade, "07_sums"));
  CHECK(asks_for(press(state, "q"), Effect::Kind::quit, ""));
  CHECK(after(state, {"c", "s"}).page == Page::statement);
  CHECK(contains(seen(after(state, {"x", "a"})), "Nothing was changed."));
  CHECK_FALSE(contains(seen(after(state, {"x", "a", "s"})), "Nothing was changed."));
  CHECK(press(state, "Z").effects.empty());
}

TEST_CASE("the first failure says that it is expected") {
  const Step first = next(two_exercises(), verdict_of("07_sums", {{"07.1", 0, false}}));
  CHECK(first.state.page == Page::statement);  // there is a task to be read first
  const State shown = after(first.state, {"v"});
  CHECK(contains(seen(shown), "That it fails is expected"));
  const State later = next(shown, verdict_of("07_sums", {{"07.1", 10, false}})).state;
  CHECK_FALSE(contains(seen(later), "is expected"));
  const State saved = next(shown, {Kind::saved}).state;  // something is written now
  const State still = next(saved, verdict_of("07_sums", {{"07.1", 0, false}})).state;
  CHECK_FALSE(contains(seen(still), "is expected"));
  const State other = after(still, {"l", "down", "enter", "v"});
  const State there = next(other, verdict_of("10_rings", {{"10.1", 0, false}})).state;
  CHECK(contains(seen(there), "That it fails is expected"));
}

TEST_CASE("what could not be graded says why, and is nobody's failure") {
  const State state = next(two_exercises(), verdict_of("07_sums", {})).state;
  CHECK(state.page == Page::verdict);
  CHECK(contains(seen(state), "it is wrong"));
  CHECK_FALSE(contains(seen(state), "is expected"));
}

TEST_CASE("a program that was built again while it runs starts the new one") {
  CHECK(runner::program_at("/b/runner (deleted)") == "/b/runner");
  CHECK(runner::program_at("/b/runner") == "/b/runner");
}

TEST_CASE("a verdict of another exercise counts there, and shows nothing here") {
  const Step step = next(two_exercises(), verdict_of("10_rings", {{"10.1", 50, true}}));
  CHECK(step.state.exercises[1].points() == 50);
  CHECK(step.state.verdict.empty());
  CHECK(next(two_exercises(), verdict_of("gone", {})).state.verdict.empty());
}

TEST_CASE("the screen fits into every window") {
  State state = two_exercises();
  state.exercises[0].statement = std::string(5000, 'x') + "\n" + std::string(300, '\n');
  for (int i = 3; i < 12; ++i) state.exercises[0].tasks.push_back(state.exercises[0].tasks[0]);
  for (const std::string key : {"s", "v", "h", "l", "e", "x", "c"})
    for (const int width : {1, 20, 40, 80, 200})
      for (const int height : {1, 8, 10, 24, 60}) {
        const auto lines = screen(after(state, {key}), width, height);
        CHECK(lines.size() <= static_cast<size_t>(height));
        for (const std::string& line : lines) CHECK(letters_of(line) <= width);
      }
  CHECK(contains(seen(state), "more lines: down, space"));
  CHECK(seen(after(state, {"pagedown"})) != seen(state));
  CHECK(seen(after(state, {"up"})) == seen(state));
  const int last = last_scroll(state, 80, 24);
  State end = state;
  end.scroll = last;
  CHECK_FALSE(contains(seen(end), "more lines"));
  end.scroll = last - 1;
  CHECK(contains(seen(end), "more lines"));
  CHECK(last_scroll(state, 10, 24) == 0);
}

TEST_CASE("what a verdict leaves out is shown by a key here, by an option elsewhere") {
  Event event = verdict_of("07_sums", {{"07.1", 10, false}});
  event.text =
      "without 07.2, and was graded:\n07.1: a\n  it is wrong\n  ... 3 more lines: -v shows them\n";
  const std::string text = seen(next(two_exercises(), event).state);
  CHECK(contains(text, "... 3 more lines: e shows them"));
  CHECK(contains(text, "without 07.2, and was graded.\n"));  // the table stands above
}

TEST_CASE("lists and tables keep their shape in a narrow window") {
  CHECK(plain_markdown("See *this one*, not a * b * c.\n\n\n1. one\n   and more\n2. two\n") ==
        "See this one, not a * b * c.\n\n1. one and more\n2. two\n");
  State state = two_exercises();
  state.exercises[0].statement =
      plain_markdown("1. " + std::string(70, 'x') + " yyyyyyyyyy\n\n| 07.1 | " +
                     std::string(70, 'z') + " | 5 |\n");
  const std::string text = seen(state);
  CAPTURE(text);
  CHECK(contains(text, "x\n   yyyyyyyyyy\n"));
  CHECK(contains(text, "z │\n    5\n"));
}

TEST_CASE("a README is shown without its marks, and its paragraphs are whole") {
  CHECK(plain_markdown(
            "# Exercise 10\n\nOne `x` and\n**two** [three](a/b.md).\n\n```\n"
            "./yotta check 10   grades\nint  x;\n```\n| a | b |\n|---|---|\n| \\|c\\| | d |\n") ==
        "Exercise 10\n\nOne x and two three.\n\nint  x;\na │ b\n|c| │ d\n");
}

TEST_CASE("a terminal's keys have names, and what is no key is left out") {
  CHECK(runner::keys_of("n\033[A\033[B\033[5~\033[6~\033OA\r\177 \033") ==
        std::vector<std::string>{"n", "up", "down", "pageup", "pagedown", "up", "enter",
                                 "backspace", " ", "escape"});
  CHECK(runner::keys_of("\033[1;5C\001\xc3\xa9").empty());
  CHECK(runner::keys_of("\033[").empty());
}

TEST_CASE("a saved file is noticed, with events and without; the same text again is not") {
  for (const bool look : {false, true}) {
    const TemporaryFolder folder;
    const std::string file = folder / "x.hpp";
    write_text(file, "one");
    runner::Watch watch(look);
    watch.follow(file);
    CHECK((watch.events() < 0) == look);
    CHECK_FALSE(watch.saved());
    write_text(file, "another");  // of another length: older kernels' clocks stand still for 4 ms
    CHECK(comes([&] { return watch.saved(); }));
    CHECK_FALSE(watch.saved());
    write_text(folder / "other", "three");  // as editors do it
    fs::rename(folder / "other", file);
    CHECK(comes([&] { return watch.saved(); }));
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
    bool noticed = false;
    CHECK(comes([&] {
      noticed = watch.saved() || noticed;
      return watch.patience() > 400;  // it has settled
    }));
    CHECK_FALSE(noticed);
  }
}

TEST_CASE("a session at a terminal: the task, a save, the verdict, q") {
  const TemporaryFolder work;
  const std::string file = work / "03_matmul/matmul_register_tiles.hpp";
  const auto exercise = runner::read_exercise(YOTTA_SOURCE_DIR, "03_matmul");
  Session session(work.path(), {"learn", "3"});
  CHECK_MESSAGE(session.shows("load_tile: all threads of a block copy a tile"), session.text());
  CHECK_MESSAGE(session.shows("v shows the verdict"), session.text());
  CHECK(read_text(file) == starter_of(exercise));
  session.type("h");
  CHECK_MESSAGE(session.shows("Hint 1 of"), session.text());
  session.resize(60, 30);
  CHECK_MESSAGE(session.shows("Hint 1 of"), session.text());
  session.type("s");
  write_text(file, runner::variant_of(exercise, "only_x"));
  CHECK_MESSAGE(session.shows("91 of 100 points"), session.text());
  session.type("q");
  CHECK(session.ends() == 0);
  CHECK_MESSAGE(contains(session.text(), restored), session.text());
  const std::string kept = read_text(work / "progress.json");
  CHECK_MESSAGE(contains(kept, "\"current\": \"03_matmul\""), kept);
  CHECK_MESSAGE(contains(kept, "\"03.1\": 1"), kept);
}

TEST_CASE("who has all points reads what was learnt and what is next") {
  State state = two_exercises();
  state.exercises[0].outcomes = {"add numbers"};
  const Event all = verdict_of("07_sums", {{"07.1", 50, true}, {"07.2", 50, true}});
  state = next(press(state, "v").state,
               {Kind::graded, "  ✓  07.1 a task\n", "07_sums", true, all.tasks})
              .state;
  const std::string text = seen(state);
  CHECK(contains(text, "All 100 points"));
  CHECK(contains(text, "- add numbers"));
  CHECK(contains(text, "Next is 10 Rings, 30 minutes: n goes there"));
  CHECK(after(state, {"n"}).exercise().id == "10_rings");
  for (Exercise& one : state.exercises)
    for (Task& task : one.tasks) task.points = task.of, task.solved = true;
  CHECK(contains(seen(state), "It was the last"));
  state.exercises[0].tasks[0].solved = false, state.exercises[0].tasks[0].points = 0;
  CHECK_FALSE(contains(seen(state), "- add numbers"));
}

TEST_CASE("a session at a terminal: gradings that are stopped at once do not stop it") {
  const TemporaryFolder work;
  Session session(work.path(), {"learn", "03"});
  CHECK(session.shows("03.1"));
  for (int i = 0; i < 20; ++i) session.type(i % 2 == 0 ? "rr" : "rc");
  session.type("q");
  CHECK(session.ends() == 0);
}

TEST_CASE("the terminal is as it was, whichever signal ends it") {
  for (const int number : {SIGINT, SIGTERM, SIGSEGV}) {
    const TemporaryFolder work;
    Session session(work.path(), {"learn", "03"});
    CHECK(session.shows("03.1"));
    session.signal(number);
    const int status = session.ends();
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK_MESSAGE(contains(session.text(), restored), session.text());
  }
}

TEST_CASE("without a terminal there are plain lines, one verdict and its status") {
  const TemporaryFolder work;
  const auto ending =
      runner::run_limited({"sh", "-c",
                           fmt::format("YOTTA_WORK='{}' '{}/course/runner' learn 03 </dev/null",
                                       work.path().string(), YOTTA_BUILD_DIR)},
                          yotta_test::longest_wait);
  CHECK(ending.status == 1);
  CHECK_MESSAGE(contains(ending.output, "load_tile: all threads"), ending.output);
  CHECK_MESSAGE(contains(ending.output, "0 of 100 points"), ending.output);
  CHECK_MESSAGE(contains(ending.output, "That it fails at first is expected"), ending.output);
  CHECK_FALSE(contains(ending.output, "o shows the lesson"));  // a key
  CHECK_FALSE(contains(ending.output, "\033"));
}

TEST_CASE("a variant's key comes from --variant or the environment, and `check` grades by it") {
  const auto ring = runner::read_exercise(YOTTA_SOURCE_DIR, "10_collectives");
  const runner::Lines told = runner::sentences(ring, runner::told_by(ring, "autumn"));
  REQUIRE(told.size() == 2);
  const TemporaryFolder work;
  for (const auto& [setting, option] :
       {std::pair("YOTTA_VARIANT=autumn", ""), std::pair("YOTTA_VARIANT=x", "--variant autumn")}) {
    const auto ending = runner::run_limited(
        {"sh", "-c",
         fmt::format("YOTTA_WORK='{}' {} '{}/course/runner' learn 10 {} </dev/null",
                     work.path().string(), setting, YOTTA_BUILD_DIR, option)},
        yotta_test::longest_wait);
    CAPTURE(ending.output);
    CHECK(contains(ending.output, "points  variant autumn\n"));
    const std::string first = "In this variant: " + told[0].substr(0, 60);
    CHECK(contains(ending.output, "\n" + first));    // on the task's page
    CHECK(contains(ending.output, "\n  " + first));  // of the verdict
  }
}

TEST_CASE("a work folder that cannot be written is named, with what to try") {
  for (const char* verb : {"learn 03", "check 03", "hint 03", "reset 03 --yes"})
    CHECK_MESSAGE(
        contains(runner::run_limited(
                     {"sh", "-c",
                      fmt::format("YOTTA_WORK=/dev/null/work '{}/course/runner' {} </dev/null",
                                  YOTTA_BUILD_DIR, verb)},
                     yotta_test::longest_wait)
                     .output,
                 "The variable YOTTA_WORK names another"),
        verb);
}

TEST_CASE("without a terminal --watch grades each save, until it is ended") {
  const TemporaryFolder work;
  const std::string file = work / "03_matmul/matmul_register_tiles.hpp", said = work / "said";
  const pid_t watching = fork();
  if (watching == 0) {
    execl("/bin/sh", "sh", "-c",
          fmt::format(
              "YOTTA_WORK='{}' exec '{}/course/runner' learn 03 --watch </dev/null >'{}' 2>&1",
              work.path().string(), YOTTA_BUILD_DIR, said)
              .c_str(),
          nullptr);
    _exit(127);
  }
  const auto says = [&](const std::string& words) {
    return comes([&] { return fs::exists(said) && contains(read_text(said), words); });
  };
  CHECK(says("each time you save it"));
  write_text(file,
             runner::variant_of(runner::read_exercise(YOTTA_SOURCE_DIR, "03_matmul"), "only_x"));
  CHECK(says("91 of 100 points"));
  kill(watching, SIGTERM);
  int status = 0;
  waitpid(watching, &status, 0);
  CHECK(WIFSIGNALED(status));
}
