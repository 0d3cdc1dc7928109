// A page for students without the bodies that are the answers: the compiled library in handout/ has
// these.
//
//     inline int f(int p) { answer }       ──►     int f(int p);
//
//     class C {                                    class C {
//       int f(int p) { answer }            ──►       int f(int p);
//     };                                           };
//
//     constexpr int f(int p) { answer }    ──►     namespace handed_out { int f_body(int p); }
//                                                  constexpr int f(int p) { calls it }
//
// `unit` is the file that defines what is declared so: it includes the page for students, and is
// compiled once, where the answers are. What computes a constant while it compiles cannot call a
// library, and says so. A template cannot be compiled apart, nor what stands on a page with
// kernels, which is compiled in two forms: there not_done stands in place of the body.
#pragma once

#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

struct HandoutHeader {
  std::string text;               // the page for students
  std::string unit;               // definitions of what it declares; empty: none are needed
  std::vector<std::string> open;  // the tasks in whose functions not_done stands
};

// A page of an exercise with those tasks, or another one in which lines of an answer stand again:
// `again` are the numbers of these lines, from 0. Tasks whose function is not on this page are
// passed over.
HandoutHeader cut_for_handout(const std::string& page, const std::vector<Task>& tasks,
                              const std::vector<size_t>& again = {});

// The text of the header that they include for this.
std::string handed_out_header();

}  // namespace runner
