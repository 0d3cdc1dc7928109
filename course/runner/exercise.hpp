// Exercises: exercises/NN_topic/exercise.json, and how a student's file is made from a page of the
// library. exercise.json names the page's functions that a student writes:
//
//     {"id": "10.1", "function": "reduce_scatter_ring", "task": "pass partial sums round ..."}
//
//     include/yotta/comm/collectives_ring.hpp
//          │ with_marks
//          ▼
//     void reduce_scatter_ring(...) {
//       // exercise 10.1: pass partial sums round ...
//       ... the library's own lines ...
//       // end of exercise 10.1
//     }
//          │ cut_starter                           │ cut_solution
//          ▼                                       ▼
//     the same file, with not_done("10.1")    the same file, ── replace_parts ──► a wrong solution
//     in place of those lines                 complete
//
// An exercise may be about several headers: then the file holds them one after the other, and has
// the last one's name.
//
// "hidden_from" in exercise.json is the line that ends the starter early: what follows it in the
// header would give an answer away.
//
// All three live in namespace yotta::student, so that a program may hold the library's and the
// student's functions at the same time.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace runner {

struct Task {
  std::string id;  // "10.1"
  std::string title;
  int points = 0;
  std::map<std::string, int> weights = {};  // by a case's name; cases that it does not name weigh 1
  std::vector<std::string> needs = {};      // tasks whose parts it uses, and those that they use
  int minutes = 0;                          // those of all tasks add up to the exercise's
  std::string difficulty = {};
  std::string function = {};  // of the page, whose body the student writes: "Ddp::finish"
  std::string words = {};     // what it is to do, in the starter
  // Small changes of its solution that change nothing, and why: see mutate.hpp.
  std::map<std::string, std::string> equivalent = {};
  // What a case counts for among its task's. 0: it is a remark, which is shown and takes no points.
  int weight(const std::string& name) const;
};

// Its name, without the parameters that tell it from others: "Ddp::finish".
std::string name_of_function(const Task& task);

// A wrong solution, who must notice it, and what the student must be told.
struct Wrong {
  std::string name;  // wrong/<name>.inc
  std::string about;
  std::string rejected_by;        // the name of a test case
  std::vector<std::string> says;  // words of its message
};

// What a key may change in the statement: one of these sentences holds (course/runner/variant.hpp).
struct Choice {
  std::string name;               // "10.way"
  std::vector<std::string> says;  // the usual one first
};

struct Exercise {
  std::string id;      // "10_collectives"
  std::string folder;  // exercises/10_collectives
  // "comm/collectives_ring.hpp", below include/yotta; mostly one. Or "solution/debugging.hpp", in
  // the exercise's own folder.
  std::vector<std::string> headers;
  std::string title, difficulty;
  int minutes = 0;
  bool asan = false;        // each check runs under AddressSanitizer
  bool kernels = false;     // of CUDA, which the emulator checks
  int points_per_hint = 0;  // what a hint takes from its task
  std::vector<std::string> prerequisites, outcomes;
  std::vector<Task> tasks;
  std::vector<Wrong> wrong;
  std::vector<Choice> choices;
  // The solutions ("library", or of right/ and wrong/) that are right under other choices:
  // "10.way=2 10.own=1".
  std::map<std::string, std::string> right_under;
  std::string hidden_from;                  // a page's line; what follows it is in no starter
  std::map<std::string, std::string> mend;  // task -> the wrong solution that its starter holds

  std::string file_name() const;                       // "collectives_ring.hpp", the last header's
  std::string number() const;                          // "10"
  std::vector<std::string> sources() const;            // paths of the headers
  std::string page_text() const;                       // of the headers
  std::string page_of(const std::string& path) const;  // of one, with the line that hides the rest
  std::string library_text() const;                    // the same with the tasks' marks
  std::string work_copy()
      const;  // the student's own file's: in work/, or in the folder that YOTTA_WORK names
};

// Ids of everything in exercises/ that has an exercise.json, sorted.
std::vector<std::string> find_exercises(const std::string& root);
// Throws std::runtime_error that names the file and the field, if one is missing or of the wrong
// kind.
Exercise read_exercise(const std::string& root, const std::string& id);

// One text of the headers' texts, which says "#pragma once" once.
std::string one_text(const std::vector<std::string>& headers);
// A page with each task's marks and words around the body of its function:
//
//     std::deque<Bucket> cut_into_buckets(Parameters parameters, int64_t bucket_bytes) {
//       // exercise 13.3: fill buckets, each of one dtype, in reverse order
//       ... the library's own lines ...
//       // end of exercise 13.3
//     }
//
// Throws std::runtime_error if a task's function is not there, or may be one of several.
std::string with_marks(const std::string& page, const std::vector<Task>& tasks);
// The tasks' ids in the order of their marks. Throws std::runtime_error with the line of a mark
// that has no partner.
std::vector<std::string> marked_parts(const std::string& header);
// For each line of a file the part that it is in, its marks included; empty: none. Marks without a
// partner are borne with: a part ends at the latest where the next one begins.
std::vector<std::string> part_of_lines(const std::string& text);
std::string cut_starter(const std::string& header);
// The same for an exercise, whose starter holds mistakes in the parts that are to be mended. In a
// tree that was handed out, and has no bodies to cut, it is a file of the exercise's folder. Throws
// if there is no such wrong solution.
std::string starter_of(const Exercise& exercise);
std::string cut_solution(const std::string& header);
// A wrong solution, from the library's and the parts that are wrong:
//
//     // exercise 10.3                   // instead of: f_(tp),
//     ... other lines for the part       ... other lines for this one line, which is outside of the
//                                        parts
//     // end of exercise 10.3            // end of instead
//
// So a change of the library elsewhere leaves it alone. Throws if a mark or a line is not there
// exactly once.
std::string replace_parts(const std::string& solution, const std::string& wrong);

// The text of one variant: "starter", "library", or the name of a file in wrong/ or right/; or its
// lines of #include: "includes".
std::string variant_of(const Exercise& exercise, const std::string& name);

// The functions of the tasks as the page declares them: a block of Markdown, for the README.
std::string signatures_of(const Exercise& exercise);
// A README with this block in place of the one that it has, or behind its table of tasks.
std::string with_signatures(const std::string& readme, const std::string& block);

// The hints of one task, from hints.md: "## 10.1", then one paragraph a hint.
std::vector<std::string> read_hints(const Exercise& exercise, const std::string& task);

using Lines = std::vector<std::string>;
Lines lines_of(const std::string& text);  // without their line ends
std::string joined(const Lines& lines);   // each with its line end
bool has(const Lines& list, const std::string& one);
std::string trimmed(const std::string& text);    // without blanks and line ends around it
std::string lower(std::string text);             // in small letters
std::string read_text(const std::string& path);  // throws when it cannot
std::string relative(const std::string& path);   // from the project's root, if it is below it
// Writes only if something changes, so that nothing is compiled again for nothing.
void write_text(const std::string& path, const std::string& text);

}  // namespace runner
