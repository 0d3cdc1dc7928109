// Compiled beside main.cpp, since CLI11 takes long to compile.
#include "runner/instructor_verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "runner/autograder.hpp"
#include "runner/collect.hpp"
#include "runner/grade_class.hpp"
#include "runner/handout.hpp"
#include "runner/similarity.hpp"

namespace runner {
namespace {

void add_grade(CLI::App& app, int& result) {
  CLI::App* grade = app.add_subcommand("grade", "Grade what a class has handed in");
  const auto options = std::make_shared<GradeOptions>();
  grade->add_option("folder", options->folder, "With FOLDER/STUDENT/NN_topic/header.hpp")
      ->required();
  grade->add_option("--out", options->out, "Where the results go; FOLDER.grades if not given");
  grade->add_option("--json", options->json, "Write all grades to this file too");
  grade->add_option("--names", options->names,
                    "A CSV file of FOLDER,LOGIN: who is who in canvas.csv and moodle.csv");
  grade->add_option("--exercises", options->exercises, "Only these: numbers or names")
      ->delimiter(',');
  grade->add_option("--jobs", options->jobs, "Submissions at once; one for each core if not given")
      ->check(CLI::Range(1, 1024));
  grade->add_option("--hidden", options->hidden,
                    "Grade with FOLDER/NN_topic/tests.cpp too, which students have not seen");
  grade->add_option(
      "--variant", options->variant,
      "A key that changes numbers of the cases and sentences of the statement; {student} "
      "in it is the student's name");
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
  command->add_option("--variant", options->variant,
                      "A key that chooses among sentences of the statements: grade with the same");
  command->add_flag("--native", options->native,
                    "The library as it is compiled for this machine's processor, at once");
  command->add_option("--json", options->json, "Write what was made to this file too");
  command->add_flag("!--no-check", options->check, "Do not build and grade the tree");
  command->callback([options, &result] { result = handout(*options); });
}

void add_collect(CLI::App& app, int& result) {
  CLI::App* command =
      app.add_subcommand("collect", "Pack work/ to hand it in, or unpack a class's archives");
  const auto options = std::make_shared<CollectOptions>();
  command->add_option("folder", options->folder,
                      "With archives STUDENT.tar.gz or .zip, to be unpacked");
  command->add_option("--out", options->out,
                      "The archive (yotta-work.tar.gz), or the class's folder");
  command->add_option("--json", options->json,
                      "Write what was packed, or taken and refused, to this file too");
  command->callback([options, &result] { result = collect(*options); });
}

void add_autograder(CLI::App& app, int& result) {
  CLI::App* command = app.add_subcommand("autograder", "Write what Gradescope needs to grade");
  const auto options = std::make_shared<AutograderOptions>();
  command->add_option("--exercises", options->exercises, "Numbers or names, with commas")
      ->delimiter(',')
      ->required();
  command->add_option("--out", options->out, "FILE.zip")->required();
  command->add_option(
      "--variant", options->variant,
      "The key of `handout --variant`: numbers of the cases, as the class has them");
  command->add_option("--json", options->json, "Write what was made to this file too");
  command->add_option("--visibility", options->visibility, "Who sees the tests, and when")
      ->check(CLI::IsMember({"visible", "hidden", "after_due_date", "after_published"}));
  command->callback([options, &result] { result = autograder(*options); });
}

void add_similarity(CLI::App& app, int& result) {
  CLI::App* command = app.add_subcommand("similarity", "Find submissions that share code");
  const auto options = std::make_shared<SimilarityOptions>();
  command->add_option("folder", options->folder, "With FOLDER/STUDENT/NN_topic/header.hpp")
      ->required();
  command->add_option("--against", options->against, "Another class, such as last year's");
  command->add_option("--exercises", options->exercises, "Only these: numbers or names")
      ->delimiter(',');
  command->add_option("--threshold", options->threshold, "The share of code, 0 to 1; 0.8")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--html", options->html, "Write a page with the shared lines");
  command->add_option("--json", options->json, "Write the pairs to this file");
  command->callback([options, &result] { result = similarity(*options); });
}

}  // namespace

void add_instructor_verbs(CLI::App& app, int& result) {
  add_grade(app, result);
  add_handout(app, result);
  add_collect(app, result);
  add_autograder(app, result);
  add_similarity(app, result);
}

}  // namespace runner
