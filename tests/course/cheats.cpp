// What a student's file may not do: each attack scores nothing, harms nothing and ends in time.
// Each wall is tried alone: texts are vetted and not compiled, an object is vetted and not run, a
// program that nobody has vetted runs in the sandbox.
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>

#include "course/cases/record.hpp"
#include "runner/grade.hpp"
#include "runner/grading.hpp"
#include "runner/sandbox.hpp"
#include "runner/vet.hpp"
#include "support/from_ctest.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::from_ctest;
using yotta_test::long_form;
using yotta_test::TemporaryFolder;

namespace {

Exercise ring() { return read_exercise(YOTTA_SOURCE_DIR, "10_collectives"); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), by);
}

// The starter of exercise 10 with lines of a student's "at the top", "in the body" or "at the end".
std::string with_lines(const std::string& where, const std::string& lines) {
  const std::string starter = variant_of(ring(), "starter");
  if (where == "at the top") return replaced(starter, "#pragma once\n", "#pragma once\n" + lines);
  if (where == "in the body") return replaced(starter, "  not_done(\"10.1\");\n", lines);
  REQUIRE(where == "at the end");
  return starter + lines;
}

// A file of cheats/: "// says: WORDS", which refuse its text, "// object says: WORDS", which refuse
// what it is compiled to, or "// earns nothing", which the walls see to; "// WHERE"; and the lines.
struct Cheat {
  std::string name, says, object_says, text;
  bool is_compiled() const { return says.empty() || !at_once(vet_text(text, measure_of(ring()))); }
};
// What follows a label.
std::string behind(const std::string& line, const std::string& label) {
  return line.starts_with(label) ? line.substr(label.size()) : "";
}
std::vector<Cheat> stored_cheats() {
  std::vector<Cheat> all;
  for (const auto& entry : fs::directory_iterator(YOTTA_CHEATS)) {
    if (entry.path().extension() != ".inc") continue;
    const Lines lines = lines_of(read_text(entry.path()));
    REQUIRE(lines.size() > 2);
    std::string code;
    for (size_t i = 2; i < lines.size(); ++i) code += lines[i] + "\n";
    Cheat cheat{entry.path().stem(), behind(lines[0], "// says: "),
                behind(lines[0], "// object says: "), with_lines(lines[1].substr(3), code)};
    REQUIRE((!cheat.says.empty() || !cheat.object_says.empty() || lines[0] == "// earns nothing"));
    if (cheat.says.empty())
      cheat.text =
          replaced(cheat.text, "#pragma once\n",
                   "#pragma once\n#include <array>\n#include \"yotta/comm/collectives.hpp\"\n");
    all.push_back(cheat);
  }
  return all;
}

// The verdict on a text for exercise 10.
Verdict verdict_on(const std::string& text) {
  static const Grader grader = build_grader(ring());
  const TemporaryFolder folder;
  const std::string file = folder / "mine.hpp";
  write_text(file, text);
  return grade_file(ring(), file, grader);
}

// Another way to write all that exercise 10 asks for, with what a student may use.
const std::string another_right = R"(
struct Neighbours {
  int next = 0, previous = 0;
};
static constexpr std::array<int, 2> step_of_side = {1, -1};
inline Neighbours neighbours(const Channel& ring) {
  const auto beside = [&ring](int by) { return wrap(ring.rank() + by, ring.size()); };
  return {beside(step_of_side[0]), beside(step_of_side[1])};
}
)";

struct Attack {
  Ending ending;
  std::vector<record::Line> lines;
  bool passed(const std::string& name) const {
    for (const record::Line& line : lines)
      if (line.what == "passed" && line.name == name) return true;
    return false;
  }
  bool closed() const { return !lines.empty() && lines.back().what == "end"; }
};

// One run of a cheat in the sandbox.
Attack attack(const std::string& cheat, Wall wall, double seconds = 10,
              const std::string& target = "", bool instrumented = false) {
  setenv("YOTTA_CHEAT", cheat.c_str(), 1);
  setenv("YOTTA_CHEAT_TARGET", target.c_str(), 1);
  const std::string key = "000102030405060708090a0b0c0d0e0f";
  Limits limits;
  limits.seconds = seconds;
  limits.memory = instrumented ? 64 << 20 : 256 << 20;
  limits.instrumented = instrumented;
  const Sandboxed run =
      run_sandboxed(from_ctest("YOTTA_CHEATING_PROGRAM"), {"", ""}, key, limits, wall);
  return {run.ending, record::unsealed(run.record, key)};
}

// The walls that work on this machine, with a program that does nothing wrong.
const std::vector<Wall>& walls_here() {
  static const std::vector<Wall> walls = [] {
    std::vector<Wall> all;
    for (const Wall wall : {Wall::bubblewrap, Wall::seccomp})
      if (attack("none", wall).closed()) all.push_back(wall);
    return all;
  }();
  return walls;
}

void on_each_wall(const std::function<void(Wall)>& body) {
  if (walls_here().empty()) YOTTA_NOT_RUN("neither bubblewrap nor seccomp works here");
  for (const Wall wall : walls_here()) {
    CAPTURE(std::string(name(wall)));
    body(wall);
  }
}

void check_earns_nothing(const Attack& attack) {
  CAPTURE(attack.ending.output);
  CHECK_FALSE(attack.passed("10.1: the cheat"));
  CHECK_FALSE(attack.closed());
}

}  // namespace

TEST_CASE("what stands in a cheating text is refused, with its line and why") {
  const Measure measure = measure_of(ring());
  const std::vector<Cheat> cheats = stored_cheats();
  CHECK(cheats.size() >= 30);
  for (const Cheat& cheat : cheats) {
    CAPTURE(cheat.name);
    const std::string why = refusals_text(vet_text(cheat.text, measure));
    CHECK_MESSAGE(contains(why, cheat.says), why);
    CHECK(why.starts_with("line ") == !cheat.says.empty());
  }
}

TEST_CASE("every stored cheat scores 0: without a compiler where its text says enough") {
  const std::set<std::string> also = {"name_of_the_library", "map_of_memory", "declared_in_c",
                                      "count_by_a_message"};  // that are compiled in the short form
  int graded = 0;
  for (const Cheat& cheat : stored_cheats()) {
    CAPTURE(cheat.name);
    if (cheat.is_compiled() && !also.contains(cheat.name) && !long_form()) continue;
    const Verdict verdict = verdict_on(cheat.text);
    CHECK(verdict.grade.points == 0);
    CHECK(verdict.grade.of == 100);
    if (!cheat.is_compiled()) CHECK(contains(verdict.refused, cheat.says));
    if (!cheat.object_says.empty())
      CHECK_MESSAGE(contains(verdict.refused, cheat.object_says), (verdict.refused + verdict.log));
    else if (cheat.says.empty())
      CHECK_MESSAGE((verdict.compiled() && verdict.refused.empty()), verdict.log);
    ++graded;
  }
  CHECK(graded >= 14 + 4);
}

// What is computed while compiling leaves no symbol. The cases ask for sizes that no table has.
TEST_CASE("a table of the library's answers earns nothing" * doctest::test_suite("long")) {
  for (const char* const call :
       {"ring_bytes_sent(3, 1, n, 1)", "all_reduce_ring_sent(3, 1, n, 1).bytes"}) {
    const std::string opens = "#include <array>\n#include \"yotta/comm/collectives.hpp\"\n",
                      space = "namespace yotta::student {\n";
    const std::string table = fmt::format(
        "constexpr std::array<int64_t, 50> table = [] {{\n"
        "  std::array<int64_t, 50> t{{}};\n"
        "  for (int n = 0; n < 50; ++n) t[n] = {};\n"
        "  return t;\n"
        "}}();\n",
        call);
    const Verdict verdict =
        verdict_on(replaced(replaced(with_lines("at the top", opens), space, space + table),
                            "not_done(\"10.4\");", "return table[n] * width;"));
    CHECK(verdict.compiled());
    CHECK(verdict.grade.points == 0);
  }
}

TEST_CASE("the table of docs/instructors.md has each stored cheat once") {
  const std::string page = read_text(YOTTA_SOURCE_DIR "/docs/instructors.md"),
                    title = "## What each check stops";
  const size_t begin = page.find(title);
  REQUIRE(begin != std::string::npos);
  const std::string part = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  std::multiset<std::string> named, stored;
  const std::regex name("`([a-z_]+)`");
  for (std::sregex_iterator at(part.begin(), part.end(), name), end; at != end; ++at)
    named.insert((*at)[1]);
  for (const Cheat& cheat : stored_cheats()) stored.insert(cheat.name);
  CHECK_MESSAGE(named == stored, fmt::format("{} instead of {}", named, stored));
}

TEST_CASE("what may include any file is not even compiled: errors would show its lines") {
  const Measure measure = measure_of(ring());
  for (const char* const lines :
       {"// a\r#include \"/etc/passwd\"\n", "%:include \"/etc/passwd\"\n",
        "#include \"/etc/passwd\"\n", "// a \\\n#include \"/etc/passwd\"\n"})
    for (const char* const where : {"at the top", "in the body"})
      CHECK_MESSAGE(at_once(vet_text(with_lines(where, lines), measure)), std::string(lines));
}

TEST_CASE("no solution of the course is refused for its text, whatever is wrong with it") {
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    const Measure measure = measure_of(exercise);
    CHECK_MESSAGE(!measure.graded.empty(), id);
    std::vector<std::string> variants = {"starter", "library"};
    for (const Wrong& wrong : exercise.wrong) variants.push_back(wrong.name);
    for (const std::string& variant : variants) {
      const std::string why = refusals_text(vet_text(variant_of(exercise, variant), measure));
      CHECK_MESSAGE(why.empty(), fmt::format("{}, {}: {}", id, variant, why));
    }
  }
}

TEST_CASE("each way into the namespace exercise is refused") {
  for (const char* const lines :
       {"  using namespace exercise;\n", "  using namespace ::exercise;\n",
        "  namespace tests = exercise;\n", "  namespace tests = ::exercise;\n",
        "  auto* const seed = &::exercise /* */ ::seed;\n"})
    CHECK_MESSAGE(
        contains(refusals_text(vet_text(with_lines("in the body", lines), measure_of(ring()))),
                 "'exercise': this namespace belongs to the tests"),
        std::string(lines));
}

TEST_CASE("comments, texts and numbers with odd signs in them are no cheats") {
  const Measure measure = measure_of(ring());
  for (const char* const lines :
       {"  // } asm # yotta::reduce_scatter_ring\n", "  /* }} #define x\n */\n",
        "  const char* s = \"} # \\\" asm\";\n", "  const char c = '}', d = '\\'', e = '\"';\n",
        "  const auto s = R\"x( } )\" # \\ )x\";\n", "  const int n = 1'000'000 % 7;\n",
        "  const double x = 0x1p-3 + 1e+5;\n", "  std::vector<::yotta::Tensor> t;\n",
        "  using namespace yotta;\n",
        "  auto s = \"a\"s; }\n  namespace mine { void f() { using namespace yotta; }\n",
        "  using namespace yotta::literals;\n  auto s = \"a\" R\"x( } )\" # )x\";\n",
        "  [[maybe_unused]] int k = 0;\n", "  namespace r = std::ranges;\n",
        "  if (in.count > 0) [[likely]] { return; }\n",
        "  int exercise = 0;\n  const int next = exercise;\n  it.exercise = {exercise, "
        "++exercise};\n"})
    CHECK_MESSAGE(vet_text(with_lines("in the body", lines), measure).empty(), std::string(lines));
  const std::string commented = "#include <numeric> /* iota */\n#include <map> /* a */ // b\n";
  CHECK(refusals_text(vet_text(with_lines("at the top", commented), measure)) == "");
  CHECK_FALSE(vet_text(with_lines("at the top", "#include <map> /* a */ x\n"), measure).empty());
  const std::string windows =
      std::regex_replace(variant_of(ring(), "library"), std::regex("\n"), "\r\n");
  CHECK(refusals_text(vet_text(windows, measure)) == "");
  CHECK(vet_text("\xef\xbb\xbf" + variant_of(ring(), "library"), measure).empty());
}

TEST_CASE("an object that calls what no graded function may is refused, and says why") {
  const std::vector<Symbol> object = symbols_of(from_ctest("YOTTA_CHEATING_OBJECT"));
  const std::vector<Refusal> refusals = vet_object(object, {}, {});
  std::string why;
  for (const Refusal& one : refusals) why += one.why + "\n";
  for (const char* const words :
       {"it calls exit: of C a graded function may call what computes, copies and prints",
        "it calls _exit: ", "it calls fork: ", "it calls kill: ", "it calls signal: ",
        "it calls write: ", "it calls mmap: ", "it calls socket: ", "it calls getenv: ",
        "it calls prlimit: ", "std::basic_ifstream",
        "a global variable of your file is computed before main()"})
    CHECK_MESSAGE(contains(why, words), std::string(words));
}

TEST_CASE(
    "symbols of the library that the exercise is about are refused, by whatever name they came") {
  const auto why = [](const std::string& listed, const std::string& reference = "") {
    return refusals_text(vet_object(symbols_of_list(listed), symbols_of_list(reference),
                                    {"reduce_scatter_ring", "Ddp"}));
  };
  const std::string ring = "_ZN5yotta19reduce_scatter_ringERNS_7ChannelE";
  CHECK(contains(why(ring + " U\n"), "yotta::reduce_scatter_ring(yotta::Channel&)"));
  CHECK(contains(why(ring + " W 0 10\n"), "write your own"));
  CHECK(contains(why("_ZN5yotta3Ddp6finishEv U\n"), "yotta::Ddp::finish()"));
  CHECK(contains(why("_ZTVN5yotta3DdpE V 0 10\n"), "write your own"));
  CHECK(contains(why("_ZZN5yotta3Ddp6finishEvENKUlvE_clEv W 0 10\n"), "write your own"));
  CHECK(why("_ZN5yotta7student19reduce_scatter_ringERNS_7ChannelE W 0 10\n") == "");
  CHECK(why("_ZN5yotta16all_to_all_plainERNS_7ChannelE U\n") == "");
  CHECK(why(ring + " U\n", ring + " U\n") == "");  // the library's solution needs it too
  // What the reference defines as the student's is the library's under another name.
  CHECK(contains(why("_ZN5yotta6matmul4tileEv U\n", "_ZN5yotta7student6matmul4tileEv W 0 10\n"),
                 "yotta::matmul::tile()"));
  CHECK(contains(why("_ZN5yotta11set_contextEPNS_11RankContextE U\n"), "the grader's to set"));
  for (const char* const writes : {"_ZN5yotta6Ledger5resetEv U\n", "_ZN5yotta6LedgeraSERKS0_ U\n",
                                   "_ZN5yotta11MemoryCount6removeENS_10MemoryKindEl U\n",
                                   "_ZTIN5yotta19SharedMemoryChannelE U\n"})
    CHECK_MESSAGE(contains(why(writes), "only the library writes what is counted"),
                  std::string(writes));
  CHECK(why("_ZNK5yotta6Ledger13total_trafficEv U\n_ZN5yotta6LedgerD1Ev W 0 10\n") == "");
}

TEST_CASE("what locks, complex numbers and std::call_once call is not refused") {
  for (const char* const name : {"__once_proxy", "pthread_cond_clockwait", "pthread_cond_timedwait",
                                 "cabs", "cexpf", "csqrt"})
    CHECK_MESSAGE(vet_object(symbols_of_list(std::string(name) + " U\n"), {}, {}).empty(), name);
  CHECK_FALSE(vet_object(symbols_of_list("syscall U\n"), {}, {}).empty());
  // With _FORTIFY_SOURCE some calls have another name.
  for (const char* const name : {"__printf_chk", "__memcpy_chk", "__vsnprintf_chk"})
    CHECK_MESSAGE(vet_object(symbols_of_list(std::string(name) + " U\n"), {}, {}).empty(), name);
  for (const char* const name : {"__longjmp_chk", "__read_chk", "__poll_chk", "___chk", "_chk"})
    CHECK_MESSAGE(!vet_object(symbols_of_list(std::string(name) + " U\n"), {}, {}).empty(), name);
}

TEST_CASE("an object that defines what is not its own is refused") {
  const auto why = [](const std::string& listed) {
    return refusals_text(vet_object(symbols_of_list(listed), {}, {}));
  };
  CHECK(contains(why("write T 0 10\n"), "it defines write, which is not its own"));
  CHECK(contains(why("write W 0 10\n"), "it defines write"));
  CHECK(contains(why("_Znwm T 0 10\n"), "it defines operator new(unsigned long)"));
  CHECK(contains(why("_ZN5yotta4wrapEii T 0 10\n"), "it defines yotta::wrap(int, int)"));
  CHECK(why("_ZN5yotta4wrapEii W 0 10\n_ZN5yotta7student4helpEv T 0 10\nlocal t 0 10\n") == "");
  CHECK(why("_ZNSt6vectorIiSaIiEE9push_backEOi W 0 10\nsqrtf U\n__cxa_guard_acquire U\n") == "");
}

TEST_CASE(
    "an object that computes something before main() is refused; what the library does is its "
    "measure") {
  const auto why = [](const std::string& size) {
    const std::string name = "_Z41__static_initialization_and_destruction_0ii t 0 ";
    const std::string reference = name + "52\n" + name + "52\n";  // the library's, the starter's
    return refusals_text(
        vet_object(symbols_of_list(name + size + "\n"), symbols_of_list(reference), {}));
  };
  CHECK(why("52") == "");
  CHECK(contains(why("53"), "a global variable of your file is computed before main()"));
  // <iostream> runs 0x52 bytes of its own where the measure does not have it.
  const auto of = [](const std::string& object, const std::string& reference) {
    return refusals_text(vet_object(symbols_of_list(object), symbols_of_list(reference), {}));
  };
  const std::string function = "_Z41__static_initialization_and_destruction_0v t 0 ",
                    stream = "_ZStL8__ioinit b 0 1\n";
  CHECK(of(stream + function + "52\n", "") == "");
  CHECK(contains(of(stream + function + "53\n", ""), "computed before main()"));
  CHECK(contains(of(function + "52\n", ""), "computed before main()"));
  CHECK(contains(of(stream + function + "a4\n", stream + function + "52\n"), "before main()"));
}

TEST_CASE("a right solution that is written differently passes both vettings") {
  const Measure measure = measure_of(ring());
  std::string text = variant_of(ring(), "library");
  text = replaced(text, "#pragma once\n", "#pragma once\n#include <array>\n#include <numeric>\n");
  text = replaced(text, "namespace yotta::student {\n",
                  "namespace yotta::student {\n" + another_right);
  CHECK(refusals_text(vet_text(text, measure)) == "");
  const Verdict verdict = verdict_on(text);
  CHECK(verdict.grade.points == 100);
  CHECK((verdict.grade.sandbox == "bubblewrap" || verdict.grade.sandbox == "seccomp" ||
         verdict.grade.sandbox == "limits"));
  // A function of the library that no name gives away: only the object shows it.
  const std::string detour = with_lines("at the top", "#include \"yotta/comm/collectives.hpp\"\n");
  const Verdict refused = verdict_on(replaced(
      detour, "not_done(\"10.4\");", "return all_reduce_ring_sent(p, rank, n, width).bytes;"));
  CHECK(refused.grade.points == 0);
  CHECK_MESSAGE(contains(refused.refused, "which this exercise is about: write your own"),
                refused.refused);
  // Functions that call such a function are found in the compiled library, which is there now.
  const std::set<std::string> detours =
      detours_to(measure.parts, {YOTTA_BUILD_DIR "/libyotta_compiled_ranks.a"});
  const auto is_detour = [&](const std::string& name) {
    const auto found = detours.lower_bound(name);
    return found != detours.end() && found->starts_with(name);
  };
  CHECK(is_detour("_ZN5yotta11split_groupE"));
  CHECK_FALSE(is_detour("_ZN5yotta15broadcast_chainE"));
  CHECK_FALSE(is_detour("_ZN5yotta4fail"));
}

TEST_CASE("what is graded: the parts to write, and what calls them") {
  const auto of = [](const char* id) {
    return names_of_parts(variant_of(read_exercise(YOTTA_SOURCE_DIR, id), "starter"));
  };
  CHECK(of("10_collectives") == std::set<std::string>{"all_gather_ring", "all_reduce_ring",
                                                      "reduce_scatter_ring", "ring_bytes_sent"});
  const std::set<std::string> ddp = of("13_ddp");
  for (const char* const name : {"Ddp", "GradientBuckets::finish", "make_buckets", "batch_shard"})
    CHECK_MESSAGE(ddp.count(name) == 1, std::string(name));
  for (const char* const name : {"Bucket", "gradient_bytes", "check_ranks_differ"})
    CHECK_MESSAGE(ddp.count(name) == 0, std::string(name));
  CHECK(of("29_scaling_laws").count("detail::descend") == 1);
}

TEST_CASE("a function that calls what the exercise is about is refused") {
  const auto why = [](const std::string& listed, const std::set<std::string>& detours) {
    return refusals_text(vet_object(symbols_of_list(listed), {}, {}, detours));
  };
  const std::string chooser = "_ZN5yotta14run_all_reduceERNS_10CollectiveE";
  CHECK(contains(why(chooser + " U\n", {chooser}), "which calls what this exercise is about"));
  CHECK(why(chooser + " U\n", {}) == "");
  CHECK(why("memcpy U\n", {"memcpy"}) == "");
  CHECK(why("__dynamic_cast U\nwcslen U\n", {}) == "");  // of std::regex, and of classes
  CHECK(calls_more_of_library(symbols_of_list(chooser + " U\n"), {}));
  CHECK_FALSE(
      calls_more_of_library(symbols_of_list(chooser + " U\n"), symbols_of_list(chooser + " U\n")));
  CHECK_FALSE(calls_more_of_library(symbols_of_list("_ZN5yotta7student1fEv T 0 10\n"), {}));
}

TEST_CASE("who ends the program has lost the case, not the grader") {
  on_each_wall([](Wall wall) {
    for (const char* const cheat :
         {"exit", "_exit", "quick_exit", "abort", "exit before main", "exit in a destructor"}) {
      CAPTURE(std::string(cheat));
      check_earns_nothing(attack(cheat, wall));
    }
    const Attack aborted = attack("abort", wall);
    CHECK(aborted.ending.signal == SIGABRT);
    const Attack none = attack("none", wall);
    CHECK(none.closed());
    CHECK(none.passed("10.1: the cheat"));
  });
}

TEST_CASE("who walks up the stack, or on from an argument, finds no expected value") {
  on_each_wall([](Wall wall) {
    const std::string root = "10.3: the root, which the case has kept";
    CHECK(attack("none", wall).passed(root));
    for (const char* const cheat : {"walk up the stack", "walk from an argument"}) {
      CAPTURE(std::string(cheat));
      const Attack walk = attack(cheat, wall);
      CHECK_FALSE(walk.passed(root));
      CHECK(walk.ending.signal == SIGSEGV);  // at the stack's end
    }
  });
}

TEST_CASE("a record that a student's program writes or prints earns nothing") {
  on_each_wall([](Wall wall) {
    const Attack forged = attack("forge", wall);
    check_earns_nothing(forged);
    CHECK(contains(forged.ending.output, "passed\t10.1: the cheat"));
  });
  // A line that is left out, changed, or repeated ends the record's credit.
  const std::string key(record::key_letters, 'a');
  record::Digests digests(key);
  const std::string first = record::sealed({"passed", "a", "1\n\\"}, digests),
                    second = record::sealed({"passed", "b", ""}, digests),
                    end = record::sealed({"end", "", ""}, digests);
  const auto lines = [&](const std::string& text) { return record::unsealed(text, key).size(); };
  CHECK(lines(first + second + end) == 3);
  CHECK(record::unsealed(first, key)[0].message == "1\n\\");
  CHECK(lines(first + end) == 1);
  CHECK(lines(second + end) == 0);
  CHECK(lines(first + first + "garbage\n" + second + end) == 3);
  CHECK(lines("x" + first + second) == 0);
  CHECK(record::unsealed(first + second + end, std::string(record::key_letters, 'b')).empty());
}

TEST_CASE("a digest is SipHash-2-4") {
  std::string text;
  for (int i = 0; i < 15; ++i) text += static_cast<char>(i);
  // The example of Aumasson and Bernstein's paper, appendix A.
  CHECK(record::SipHash(0x0706050403020100, 0x0f0e0d0c0b0a0908).of(text) == 0xa129ca6149be45e5);
}

TEST_CASE("loops, sleep and a swallowed crash end with the time") {
  const auto check = [](const char* cheat, Wall wall) {
    const Attack late = attack(cheat, wall, 1);
    CAPTURE(std::string(cheat));
    check_earns_nothing(late);
    CHECK(late.ending.too_late);
  };
  on_each_wall([&](Wall wall) { check("sleep", wall); });
  if (walls_here().empty()) return;
  check("endless loop", walls_here().front());
  check("swallow a crash", walls_here().front());
}

TEST_CASE("memory, output and the record have an end") {
  on_each_wall([](Wall wall) {
    for (const char* const cheat : {"100 GB", "hold memory", "hold shared memory", "deep recursion",
                                    "endless output", "endless record"}) {
      CAPTURE(std::string(cheat));
      const Attack greedy = attack(cheat, wall, 60);
      CAPTURE(greedy.ending.output.substr(0, 2000));
      CHECK_FALSE(greedy.passed("10.1: the cheat"));
      CHECK_FALSE(greedy.ending.too_late);
      CHECK(greedy.ending.output.size() <= (1 << 20));
    }
    CHECK(attack("hold shared memory", wall, 60).ending.output == "0 MB are held\n");
    CHECK(contains(attack("endless output", wall, 60).ending.stopped, "printed more than 1 MB"));
    CHECK(contains(attack("endless record", wall, 60).ending.stopped, "to the grader"));
    CHECK_FALSE(attack("deep recursion", wall, 60).ending.well());
  });
}

TEST_CASE("no memory is held where nobody counts it") {
  on_each_wall([](Wall wall) {
    const auto said = [&](const char* cheat) { return attack(cheat, wall, 60).ending.output; };
    CHECK(said("hold forgotten memory") == "0 MB are held\n");
    CHECK(said("hold tables of pages") == "no room\n");
    const std::string files = said("flood with files");
    CHECK_MESSAGE((files == "0 MB are written\n" || files == "1 MB are written\n"), files);
  });
}

TEST_CASE("memory and threads have an end too where AddressSanitizer needs addresses without one") {
  on_each_wall([](Wall wall) {
    const auto stopped = [&](const char* cheat) {
      return attack(cheat, wall, 60, "", /*instrumented=*/true).ending.stopped;
    };
    CHECK(contains(stopped("hold memory"), "of memory"));
    CHECK(contains(stopped("hold tables of pages"), "of memory"));
    CHECK(contains(stopped("start threads"), "threads"));
    CHECK(attack("hold forgotten memory", wall, 60, "", true).ending.output == "0 MB are held\n");
  });
}

TEST_CASE("threads have an end, terminals and signals by descriptors are out of reach") {
  on_each_wall([](Wall wall) {
    const Attack started = attack("start threads", wall, 60);
    check_earns_nothing(started);
    CHECK(contains(started.ending.stopped, "threads"));
    CHECK(attack("signal by a descriptor", wall).ending.output == "refused\n");
    CHECK(attack("type into a terminal", wall).ending.output == "refused\n");
  });
}

TEST_CASE("no process is started, no thread outlives its program, no signal reaches the grader") {
  on_each_wall([](Wall wall) {
    const Attack started = attack("start processes", wall);
    check_earns_nothing(started);
    CHECK(started.ending.output == "0 processes started\n");
    CHECK(attack("leave a thread", wall).closed());
    CHECK(attack("loop in a destructor", wall).closed());
    const Attack signalled = attack("signal the grader", wall);
    CHECK_FALSE(signalled.passed("10.1: the cheat"));
    CHECK(signalled.closed());
    CHECK_FALSE(signalled.ending.too_late);
  });
}

TEST_CASE("files stay as they are, and in bubblewrap they are not seen; there is no network") {
  const TemporaryFolder folder;
  const std::string file = folder / "hidden cases";
  on_each_wall([&](Wall wall) {
    write_text(file, "a secret\n");
    const fs::perms before = fs::status(file).permissions();
    attack("change files", wall, 10, file);
    CHECK(read_text(file) == "a secret\n");
    CHECK(fs::status(file).permissions() == before);
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
    const Attack read = attack("read a file", wall, 10, file);
    CHECK(contains(read.ending.output, wall == Wall::bubblewrap ? "read ''" : "read 'a secret'"));
    CHECK(contains(attack("open a socket", wall).ending.output, "refused"));
  });
}

TEST_CASE("who asks for source lines gets those of addresses, and nothing else") {
  on_each_wall([](Wall wall) {
    const Attack seen = attack("ask for a file by the lines", wall);
    CHECK(contains(seen.ending.output, "lines: 0x0000000000000001\n"));
    CHECK_FALSE(contains(seen.ending.output, "root:"));
    CHECK_FALSE(contains(seen.ending.output, "uid="));
  });
}

TEST_CASE("the environment and the grader's open files stay with the grader") {
  setenv("SECRET_TOKEN", "hunter2", 1);
  on_each_wall([](Wall wall) {
    const Attack seen = attack("print what is seen", wall);
    CHECK(contains(seen.ending.output, "token ''"));
    CHECK(contains(seen.ending.output, "files 0 1 2 3 4\n"));
  });
  unsetenv("SECRET_TOKEN");
}

TEST_CASE("a folder of an exercise that changes while it is graded makes no verdict") {
  if (walls_here().empty()) YOTTA_NOT_RUN("neither bubblewrap nor seccomp works here");
  const TemporaryFolder folder;
  Exercise exercise;
  exercise.id = "10_collectives";
  exercise.folder = folder.path();
  exercise.tasks = {{"10.1", "one", 50}, {"10.2", "two", 50}};
  write_text(folder / "tests.cpp", "before");
  setenv("YOTTA_CHEAT", "sleep", 1);
  const std::string program = from_ctest("YOTTA_CHEATING_PROGRAM");
  const pid_t other = fork();
  if (other == 0) {
    usleep(300000);
    write_text(folder / "tests.cpp", "after");
    _exit(0);
  }
  CHECK_THROWS_WITH_AS(fair_grade(exercise, program, program, {}, 1),
                       doctest::Contains("have changed while the student's program ran"),
                       CouldNotGrade);
  waitpid(other, nullptr, 0);
}
