// Vetting: what a student's file may not hold is refused before it runs. A refused file has no
// points. The wall is elsewhere: the program is a process of its own, in a sandbox (sandbox.hpp),
// with sizes that nobody knows before, and the function runs on a stack of its own
// (course/cases/own_stack.hpp). Vetting refuses only what goes round that:
//
//     the text, before it is compiled     a file that an error would show: no line for the
//                                         preprocessor but includes of known headers.
//                                         What no object shows: code outside of namespace
//                                         yotta::student, asm, attributes that switch a check off,
//                                         the rank's context, what counts for it, the tests
//     the object, before it is linked     the library's own answer, by whatever name, and what
//                                         calls it (call_graph.hpp); another context, writing
//                                         to the ledger; a function in place of another's; calls of
//                                         C and files by which one finds the case's stack, and code
//                                         before main(), which runs on it
//
// docs/instructors.md names the cheats for which each check is there.
// What the library's own solution and the starter need is always allowed: their objects are the
// measure. A right solution that is written differently passes: it calls the standard library and
// the rest of Yotta as it likes.
//
// What it does not stop: an address that is computed and called, memory of the program's that is
// overwritten, a table of the library's constexpr answers for every size, which the compiler
// fills, a compiled function of Yotta other than read_text() that opens a file, and a static cast
// of a channel to a class whose name the compiler deduces. Who reads the file sees them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

inline constexpr const char* every_name = "name";  // many headers have a function of this name

struct Refusal {
  int line = 0;  // of the student's file; 0: not known
  std::string why;
  bool at_once = false;  // the file is not even compiled: it may include what does not end
};
bool at_once(const std::vector<Refusal>& refusals);
// One a line, the first five: "line 12: ...".
std::string refusals_text(const std::vector<Refusal>& refusals);

// The names of functions and classes that a text in namespace yotta or yotta::student defines:
// "Ddp", "detail::sum".
std::set<std::string> defined_names(const std::string& header);
// Is a path below yotta one of these names, or what belongs to one: "Ddp::finish"?
bool is_graded(const std::string& path, const std::set<std::string>& graded);

// The functions and classes of a starter that hold a part to write, or call one that does.
std::set<std::string> names_of_parts(const std::string& starter);

// What the exercise is about, and what its starter holds, which is right.
struct Measure {
  std::string starter;
  std::vector<std::string> headers;  // "comm/collectives_ring.hpp"
  std::set<std::string> graded;      // the names that they define
  std::set<std::string> parts;       // of these, what is left to write, and what calls it
};
Measure measure_of(const Exercise& exercise);

// What is wrong with a student's text.
std::vector<Refusal> vet_text(const std::string& text, const Measure& measure);

// A symbol of an object file, as `nm -P` lists it.
struct Symbol {
  std::string name;  // mangled
  char kind = 'U';   // U undefined; small: local; W, V: weak; T, D, B, R ...: defined
  long size = 0;
};
std::vector<Symbol> symbols_of_list(const std::string& listed);
// Throws CouldNotGrade when there is no nm, or it cannot read the object.
std::vector<Symbol> symbols_of(const std::string& object);

// The functions of compiled archives that lead to what is graded: who calls one has it done.
std::set<std::string> detours_to(const std::set<std::string>& parts,
                                 const std::vector<std::string>& archives);

// Calls it functions of the library that the right solutions do not call? Else there is no detour
// to look for.
bool calls_more_of_library(const std::vector<Symbol>& object, const std::vector<Symbol>& reference);

// What is wrong with a student's object, beside these of right solutions.
std::vector<Refusal> vet_object(const std::vector<Symbol>& object,
                                const std::vector<Symbol>& reference,
                                const std::set<std::string>& graded,
                                const std::set<std::string>& detours = {});

}  // namespace runner
