// The marks of a class, in the forms that people and platforms read: a table, JSON, CSV for Canvas
// and for Moodle, JUnit XML, Gradescope's results.json, and a page for each student.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

// What became of a submission.
enum class Outcome {
  complete,
  partial,
  empty,
  not_compiling,
  refused,
  could_not_grade,
  not_recognised,  // there are files, and none is known as this exercise's
  not_handed_in    // by anybody of the class
};
const char* name(Outcome outcome);  // "not compiling"

struct Mark {
  std::string student, exercise;
  Outcome outcome = Outcome::could_not_grade;
  std::optional<int> points = {};  // none: nobody knows, or nobody has handed it in
  int of = 0;
  bool compiled = false;
  std::string message = {};  // why there is no grade; or what the compiler says
  std::string note = {};     // which file was graded, if that is not as usual
  nlohmann::json tasks = nlohmann::json::array();  // as in a check's verdict
  nlohmann::json cases = nlohmann::json::array();
};
using Marks = std::vector<Mark>;

nlohmann::json mark_json(const Mark& mark);
Mark mark_of(const nlohmann::json& json);  // throws when it is none

// {"submissions": [{student, exercise, points, of, tasks, compiled, verdict, message, note, cases},
// ...]}
nlohmann::json marks_json(const Marks& marks);

// A row for each student, a column for each exercise.
std::string marks_table(const Marks& marks);

// The login on the platform of each student's folder. Where a folder is not listed, its name is the
// login.
using Logins = std::map<std::string, std::string>;
// Of a file with a line FOLDER,LOGIN for each student. Throws std::runtime_error, which names the
// line.
Logins read_logins(const std::string& file);

// Canvas: Student, ID, SIS User ID, SIS Login ID, Section, then a column for each exercise; "Points
// Possible" is the second row.
std::string canvas_csv(const Marks& marks, const Logins& logins = {});
// Moodle asks at the import which column is the user and which are grades.
std::string moodle_csv(const Marks& marks, const Logins& logins = {});
// A test suite for each submission, a test case for each graded case.
std::string junit_xml(const Marks& marks);
// Of one student. A test for each task, with partial credit. `visibility`: visible, hidden,
// after_due_date or after_published.
nlohmann::json gradescope_results(const Marks& of_student, const std::string& visibility);
// A page in Markdown for one student.
std::string feedback(const Marks& of_student, const std::vector<Exercise>& exercises);

// A cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe.
std::string csv_cell(std::string text);

}  // namespace runner
