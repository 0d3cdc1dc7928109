// What lies in one student's folder, and which exercise each file is of:
//
//     <any folder>/<the exercise's page>     by its name, in whatever folder
//     <the page> (1).hpp                     by its name, without what browsers and platforms add
//     <any name>.hpp                         by its functions: half or more of those of exercise 10
//     report.hpp, work.rar                   of no exercise: a person must look
//
// What systems leave behind (.DS_Store, __MACOSX) is no file of the student's, and include/yotta is
// the library's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

// Of a folder from which nothing could be taken: `./yotta collect` says there why.
constexpr const char* not_taken_file = "NOT_TAKEN.txt";

// A name that systems give to files of their own.
bool is_system_file(const std::string& name);
// Might it hold C++: "ring.hpp", "ring.h", "Ring.HPP.txt"?
bool is_source(const std::filesystem::path& name);
bool is_archive(const std::filesystem::path& name);  // of any kind

// "Bob_123_assignsubmission_file_ring.hpp" of Moodle and "leeann_LATE_45_678_ring.hpp" of Canvas:
// whose it is, and its own name. Of other names both are the name.
struct PlatformName {
  std::string student, own;
};
PlatformName platform_name(const std::string& name);

// Is it this file's name, but for what browsers and systems add ("ring (1).hpp", "ring.hpp.txt")?
bool is_name_of(const std::string& handed_in, const std::string& file_name);

// Of which of these exercises a text has most of the functions; nullptr: of none, or of several.
const Exercise* exercise_by_content(const std::string& text,
                                    const std::vector<Exercise>& exercises);

enum class FoundBy { name, similar_name, content };
struct FoundFile {
  std::filesystem::path file;
  std::string exercise;  // its id
  FoundBy by = FoundBy::name;
};

struct StudentFolder {
  std::vector<FoundFile> found;                // the surest first, and then the newest
  std::vector<std::filesystem::path> unknown;  // of no exercise
  std::vector<FoundFile> of(const Exercise& exercise) const;
};
// Follows no link to a folder.
StudentFolder look_into(const std::filesystem::path& folder,
                        const std::vector<Exercise>& exercises);

}  // namespace runner
