// What is said of the usual compile errors, by real compilers on files that are wrong in one way
// each.
#include "runner/error_meanings.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "runner/compile_errors.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace runner;
using yotta_test::contains;

namespace {

// A file and the words that its meaning must hold.
struct Slip {
  const char* text;
  const char* says;
};

const std::vector<Slip> errors = {
    {"void f(const int& x) { x = 3; }", "may be read, not written"},
    {"struct A { int v; void g() const { v = 2; } };", "may be read, not written"},
    {"struct A { void g(); }; void f(const A& a) { a.g(); }", "Mark that function const"},
    {"void g(int* p); void f(const int* p) { g(p); }", "Something const is given"},
    {"void g(int& x); void f(const int& y) { g(y); }", "Something const is given"},
    {"void g(int& x); void f() { g(3); }", "give it a name first"},
    {"template <class T> struct span { T* p; };\nvoid g(span<float> x);\nvoid f(span<const float> "
     "y) { g(y); }",
     "A view of const elements"},
    {"template <class T> struct span { T* p; };\nvoid f(span<const float> y) { span<float> x = y; "
     "}",
     "A view of const elements"},
    {"struct ConstData {}; struct Data {}; void f(ConstData in) { Data out = in; }",
     "Say ConstData here"},
    {"struct Data {}; struct W { void sum(Data); };\nvoid f(W w, long x) { w.sum(x); }",
     "a vector of one element"},
    {"struct A {}; struct Data {}; void g(Data to); void f(const A& a) { g(a); }",
     "Are two arguments in the wrong order?"},
    {"struct A {}; struct B {}; void f(A a) { B b = a; }", "no way from the one to the other"},
    {"struct A {}; void f() { A a; int x = a; }", "no way from the one to the other"},
    {"struct A {}; void g(A a); void f(int x) { g(x); }", "no way from the one to the other"},
    {"void f() { const int a; }", "needs its value where it is declared"},
    {"int f() { int count = 1; return coutn; }",
     "There is no name 'coutn' here. Is 'count' meant?"},
    {"int f() { return zzqqx; }", "There is no name 'zzqqx' here: is it misspelt"},
    {"void f() { vector<int> a; }", "needs std:: before it"},
    {"namespace std { struct x; }\nvoid f() { std::vectr<int> a; }",
     "That namespace has no such name"},
    {"struct A { int size; }; int f(A a) { return a.count; }", "That type has no member 'count'"},
    {"class A { int v; }; int f(A a) { return a.v; }", "That member is private"},
    {"int f() { int a = 1\n  return a; }", "A semicolon is missing"},
    {"int f(int a) { for (int i = 0; i < a i++) a += i; return a; }", "A semicolon is missing"},
    {"int f() { if (true) { return 1;", "A brace { is never closed"},
    {"void f() { if (true) {\n}\nvoid g() { }\n", "a brace { above it is never closed"},
    {"int f(int n) { return n \xe2\x80\x93 1; }", "no part of C++"},
    {"constexpr int f(int n) { struct A { A() {} ~A() {} }; A a; return n; }",
     "Do without, or use a std::array"},
    {"int f() { return 1; } }", "one brace } too many"},
    {"int f(int a) { return (a + 1; }", "A bracket is missing"},
    {"int g(int a, int b); int f() { return g(1); }", "another number of arguments"},
    {"int g(int a); int f() { return g(1, 2); }", "another number of arguments"},
    {"template <class T> T twice(T a, T b); void f() { twice(1, 2.0); }",
     "must be of one type here"},
    {"int g(long); int g(float); int f() { return g(1); }", "Several functions fit"},
    {"struct A {}; A f(A a, A b) { return a + b; }", "This operator is not defined"},
    {"double f(double a) { return a % 2; }", "std::fmod"},
    {"void f() { auto x; }", "auto takes its type from a value"},
    {"auto f(bool b) { if (b) return 1; return 2.0; }", "returns two types"},
    {"void f() { return 3; }", "it returns nothing"},
    {"int f() { int a = 1; int a = 2; return a; }", "This name is there already"},
    {"int f() { return 1; }\nint f() { return 2; }", "This name is there already"},
    {"struct A { int v; }; int f(A* a) { return a.v; }", "p->member"},
    {"struct A { int v; }; int f(A a) { return a->v; }", "x.member"},
    {"int f() { int a = 1; return a(2); }", "This is no function"},
    {"int f() { int a = 1; return a[2]; }", "[ ] cannot choose one"},
    {"int f() { int a = 1; auto g = [] { return a; }; return g(); }", "captures them"},
    {"struct A { A(); A(const A&) = delete; }; void g(A a); void f(A& a) { g(a); }",
     "cannot be copied"},
    {"struct A; void f() { A a; }", "Include the header that declares it whole"},
    {"template <int N> struct A {}; void f(int n) { A<n> a; }",
     "known when the program is compiled"},
    {"int g(); void f() { g() = 3; }", "to the left of ="},
    {"#include \"nowhere.hpp\"", "There is no such file to include"},
};

const std::vector<Slip> warnings = {
    {"bool f(int a, unsigned long b) { return a < b; }", "-1 counts as a huge number"},
    {"int& f() { int a = 1; return a; }", "gone when the function ends"},
    {"int f(bool a) { if (a) return 1; }", "can end without a return"},
    {"int f(int a) { if (a = 1) return 2; return a; }", "To compare, write =="},
};

// All files in one run of the compiler: each has its own messages.
class Compiled {
 public:
  Compiled(const std::string& compiler, const std::vector<Slip>& slips) {
    std::string command = compiler + " -std=c++20 -c -Wall -Wextra -fdiagnostics-color=never";
    for (size_t i = 0; i < slips.size(); ++i) {
      write_text(file(i), std::string(slips[i].text) + "\n");
      command += " '" + file(i) + "'";
    }
    log_ =
        run_limited({"sh", "-c",
                     fmt::format("cd '{}'; LC_ALL=C.UTF-8 {}", folder_.path().string(), command)},
                    yotta_test::longest_wait, 1 << 20)
            .output;
  }
  std::string file(size_t i) const { return folder_ / fmt::format("slip{}.cpp", i); }
  const std::string& log() const { return log_; }

 private:
  yotta_test::TemporaryFolder folder_;
  std::string log_;
};

bool installed(const std::string& compiler) {
  return run_limited({"sh", "-c", "command -v " + compiler}, yotta_test::longest_wait).well();
}

void check_meanings(const std::string& compiler) {
  const Compiled wrong(compiler, errors), doubtful(compiler, warnings);
  CAPTURE(compiler);
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto said = errors_by_part(wrong.log(), wrong.file(i), errors[i].text);
    INFO(errors[i].text);
    REQUIRE_FALSE(said.empty());
    INFO(said[0].text);
    CHECK_MESSAGE(contains(said[0].meaning, errors[i].says), said[0].meaning);
  }
  for (size_t i = 0; i < warnings.size(); ++i) {
    const auto said = warnings_by_part(doubtful.log(), doubtful.file(i), warnings[i].text);
    INFO(warnings[i].text);
    REQUIRE_FALSE(said.empty());
    CHECK_MESSAGE(contains(said[0].meaning, warnings[i].says), said[0].meaning);
  }
}

}  // namespace

TEST_CASE("the usual errors of g++ and of clang are said in plain words") {
  int compilers = 0;
  for (const char* compiler : {"g++", "clang++", "clang++-19"}) {
    if (!installed(compiler) || (compilers == 2)) continue;
    check_meanings(compiler);
    ++compilers;
  }
  CHECK(compilers > 0);
}

TEST_CASE("a text without its end is g++'s error and clang's warning") {
  CHECK(
      contains(meaning_of("error: missing terminating \" character"), "does not end on its line"));
}

TEST_CASE("braces refuse what may not fit, in both compilers' words") {
  CHECK(contains(meaning_of("error: narrowing conversion of 'x' from 'long int' to 'int'"),
                 "static_cast<int>"));
  CHECK(contains(meaning_of("error: non-constant-expression cannot be narrowed from type 'long'"),
                 "static_cast<int>"));
}

TEST_CASE("what is none of the usual messages has no meaning, however long it is") {
  CHECK(meaning_of("error: static assertion failed").empty());
  CHECK(meaning_of("").empty());
  const std::string log = "/w/a.hpp:1:1: error: " + std::string(200'000, 'x') + "\n";
  CHECK(errors_by_part(log, "/w/a.hpp", "x\n").at(0).meaning.empty());
}

TEST_CASE("the noise of templates is left out, and the student's own line shown") {
  const std::string log =
      "/usr/include/c++/12/bits/stl_algo.h: In instantiation of 'void f()':\n"
      "/w/a.hpp:2:3:   required from here\n"
      "/usr/include/c++/12/bits/stl_algo.h:9:1: error: no match for 'operator<' (operand types are "
      "'std::vector<int, std::allocator<int> >' and 'std::__cxx11::basic_string<char>')\n"
      "    9 |   if (*a < *b)\n";
  const auto said = errors_by_part(log, "/w/a.hpp", "one\nsort(mine);\n");
  REQUIRE(said.size() == 1);
  CHECK(said[0].line == 2);
  CHECK(contains(said[0].text, "'std::vector<int>' and 'std::string'"));
  CHECK(contains(said[0].text, "    2 | sort(mine);"));
  CHECK_FALSE(contains(said[0].text, "*a < *b"));
  CHECK(contains(said[0].meaning, "This operator is not defined"));
}
