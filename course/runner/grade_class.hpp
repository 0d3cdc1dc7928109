// `./yotta grade DIR`: grades what a class has handed in, several submissions at once.
//
//     DIR/STUDENT/NN_topic/<header>.hpp ──► runner check NN --file COPY --json VERDICT   (a process
//                                                                                        for each,
//                                                                                        in a
//                                                                                        folder of
//                                                                                        its own)
//                                           │
//                                           ▼
//     OUT/students/STUDENT/NN_topic.json, one for each submission, with a key of what was graded
//     and by what
//                                           │
//                                           ▼
//     OUT/grades.json, canvas.csv, moodle.csv, junit.xml; OUT/students/STUDENT/feedback.md,
//     results.json
//
// Whoever is stopped half way starts it again: a result whose key is the same is not made anew. A
// submission that took too long while others ran is graded once more alone, so that the load of the
// machine takes no points.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct GradeOptions {
  std::string folder;                  // the class's
  std::string out;                     // empty: FOLDER.grades
  std::string json;                    // a file that gets grades.json too
  std::string names;                   // a file with FOLDER,LOGIN; see read_logins
  std::vector<std::string> exercises;  // numbers or names; empty: all that somebody handed in
  std::string visibility = "visible";  // of Gradescope's tests
  std::string hidden;   // a folder with NN_topic/tests.cpp: cases that students have not seen
  std::string variant;  // a key that chooses numbers of the cases; see course/cases/graded.hpp
  int jobs = 0;         // 0: one for each core
};

// Exit status: 0 all are graded, 3 some could not be, 4 some files were not recognised, 2 the
// options are wrong, 130 it was stopped.
int grade_class(const GradeOptions& options);

}  // namespace runner
