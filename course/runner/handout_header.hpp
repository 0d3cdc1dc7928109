// A header for students without the bodies that are the answers: the compiled library has these.
//
//     #if YOTTA_BODIES_OF(parallel)                is left out: the library holds its functions
//                                                  already
//
//     constexpr int64_t f(int p) { answer }   ──►  namespace handed_out { int64_t f(int p); }
//                                                  constexpr int64_t f(int p) { calls handed_out::f
//                                                  }
//
// The second form is for functions that every file compiles for itself. `unit` is the file that
// defines their handed_out:: twins; it is compiled once, where the answers are. What computes a
// constant while it compiles cannot call a library, and says so. A template, a member function and
// all of a header with kernels cannot be handed out so: not_done stands in the part.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct HandoutHeader {
  std::string text;  // the header for students
  std::string unit;  // definitions in namespace yotta::handed_out; empty: none are needed
  std::vector<std::string> open;  // the parts that hold not_done
};

// A header of an exercise, or another one in which lines of an answer stand again: `again` are the
// numbers of these lines, from 0. Throws std::runtime_error if its marks have no partners.
HandoutHeader cut_for_handout(const std::string& header, const std::vector<size_t>& again = {});

// The text of the header that they include for this.
std::string handed_out_header();

}  // namespace runner
