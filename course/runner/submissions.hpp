// What a class has handed in: DIR/STUDENT/NN_topic/<header>.hpp, the same below DIR/STUDENT/work,
// or without the folder NN_topic: no two exercises have a file of one name. What lies elsewhere or
// has another name is found too (course/runner/student_folder.hpp). Of several versions the first
// is graded that is not the unchanged starter, in this order: the usual place, the right name, a
// similar name, the functions; the newest first. A file of no exercise is never a silent 0.
//
// A student's folder comes from a stranger. Only regular files that lie in it are read: a link that
// leads elsewhere, a pipe or a file of many megabytes is refused, and so is a link to another
// student's file.
#pragma once

#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

// unrecognised: there is no file of this exercise, and there are files that nobody knows.
enum class Handed { file, nothing, unrecognised, refused, unreadable };

struct Submission {
  std::string student;   // the name of the folder
  std::string exercise;  // "10_collectives"
  Handed handed = Handed::nothing;
  std::string why = {};   // if there is no file to grade
  std::string text = {};  // of the file
  std::string file = {};  // "10_collectives/ring (1).hpp", in the student's folder
  std::string note = {};  // how it was found, if in no usual place; other versions of it
  // Which hints were read: .state.json beside the file, and progress.json one folder up. Mostly
  // empty.
  std::string state = {}, progress = {};
};

constexpr long most_source_bytes = 1 << 20;

// The exercises that somebody in the class has handed in a folder for, of these.
std::vector<Exercise> handed_in_exercises(const std::string& folder,
                                          const std::vector<Exercise>& exercises);

// The exercises of these numbers or names, in their order; of none: those of handed_in_exercises.
// Throws std::runtime_error if there is no such exercise.
std::vector<Exercise> chosen_exercises(const std::vector<std::string>& names,
                                       const std::string& folder);

std::vector<std::string> ids_of(const std::vector<Exercise>& exercises);

// One for each student and exercise, in the order of their names. Throws std::runtime_error if
// there is no such folder or no student in it.
std::vector<Submission> find_submissions(const std::string& folder,
                                         const std::vector<Exercise>& exercises);

// Files of the class's folder itself, which belong to nobody: "leeann_45_678_ring.hpp".
std::vector<std::string> loose_files(const std::string& folder);

// Nothing but blanks, or the starter with other blanks.
bool is_unchanged(const Submission& submission, const std::string& starter);

}  // namespace runner
