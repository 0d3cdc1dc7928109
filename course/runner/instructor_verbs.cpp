// Compiled beside main.cpp, since CLI11 takes long to compile.
#include "runner/instructor_verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "runner/grade_class.hpp"
#include "runner/handout.hpp"

namespace runner {
namespace {

void add_grade(CLI::App& app, int& result) {
  CLI::App* grade = app.add_subcommand("grade", "Grade what a class has handed in");
  const auto options = std::make_shared<GradeOptions>();
  grade->add_option("folder", options->folder, "With FOLDER/STUDENT/NN_topic/header.hpp")
      ->required();
  grade->add_option("--out", options->out, "Where the results go; FOLDER.grades if not given");
  grade->add_option("--json", options->json, "Write all grades to this file too");
  grade->add_option("--exercises", options->exercises, "Only these: numbers or names")
      ->delimiter(',');
  grade->add_option("--jobs", options->jobs, "Submissions at once; one for each core if not given")
      ->check(CLI::Range(1, 1024));
  grade->add_option("--visibility", options->visibility, "Who sees the tests on Gradescope")
      ->check(CLI::IsMember({"visible", "hidden", "after_due_date", "after_published"}));
  grade->callback([options, &result] { result = grade_class(*options); });
}

void add_handout(CLI::App& app, int& result) {
  CLI::App* command =
      app.add_subcommand("handout", "Write the course for students, without answers");
  const auto options = std::make_shared<HandoutOptions>();
  command->add_option("--exercises", options->exercises, "Numbers or names, with commas")
      ->delimiter(',')
      ->required();
  command->add_option("--out", options->out, "A new folder")->required();
  command->add_flag("--native", options->native,
                    "The library as it is compiled for this machine's processor, at once");
  command->add_flag("!--no-check", options->check, "Do not build and grade the tree");
  command->callback([options, &result] { result = handout(*options); });
}

}  // namespace

void add_instructor_verbs(CLI::App& app, int& result) {
  add_grade(app, result);
  add_handout(app, result);
}

}  // namespace runner
