// From a student's file to its verdict, whoever asks for it:
//
//     file ──► compiled ──► its graded cases ──► points ──► Verdict, and what progress.json keeps
//     of it
//                  └─ no ──► the errors in plain words, the tasks that compile without the others,
//                  the points kept
#pragma once

#include <string>

#include "runner/exercise.hpp"
#include "runner/solution.hpp"
#include "runner/verdict.hpp"

namespace runner {

// Throws CouldNotGrade when the fault is not the file's.
Verdict grade_file(const Exercise& exercise, const std::string& file);
// The same, for several files of one exercise.
Verdict grade_file(const Exercise& exercise, const std::string& file, const Grader& grader);

}  // namespace runner
