// The notebooks' own tools: what is wrong is noticed, and what is right is left alone.
#include "runner/exercise.hpp"
#include "support.hpp"

using namespace runner;

namespace {

const std::string small = R"({"cells": [
 {"cell_type": "markdown", "metadata": {"collapsed": true}, "source": "# A notebook\nwith two lines"},
 {"cell_type": "code", "metadata": {"tags": ["programs"]}, "source": ["int x  =  3;\n", "x"], "outputs": [
  {"output_type": "stream", "name": "stdout", "text": "loss 2.3456, 3.2 ms\n"},
  {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": ["<svg>\n", "</svg>"]}}]}],
 "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 4})";

std::string write_small(const std::string& text) {
  const std::string path = fmt::format("{}/notebooks/10_small.ipynb", YOTTA_BUILD_DIR);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_text(path, text);
  return path;
}

bool says(const std::vector<std::string>& complaints, const std::string& words) {
  for (const std::string& complaint : complaints)
    if (complaint.find(words) != complaint.npos) return true;
  return false;
}

}  // namespace

TEST_CASE("what a cell prints is cut into text and pictures") {
  const std::vector<Piece> pieces =
      pieces_of("one\n<<picture>>\n<svg>\n</svg>\n<<end of picture>>\ntwo\n");
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0] == Piece{false, "one\n"});
  CHECK(pieces[1] == Piece{true, "<svg>\n</svg>"});
  CHECK(pieces[2] == Piece{false, "two\n"});
  CHECK(pieces_of("").empty());
  CHECK_THROWS(pieces_of("<<picture>>\n<svg>"));
}

TEST_CASE("stored outputs are compared: times do not count, words and numbers do") {
  const std::vector<CodeCell> cells = read_code_cells(write_small(small));
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].number == 2);
  CHECK(cells[0].source == "int x  =  3;\nx");
  CHECK(cells[0].needs_programs);
  const std::string picture = "<<picture>>\n<svg>\n</svg>\n<<end of picture>>\n";
  CHECK(compare_outputs(cells, {{2, "loss 2.3459, 9.9 ms\n" + picture}}).empty());
  CHECK(says(compare_outputs(cells, {{2, "loss 2.4456, 3.2 ms\n" + picture}}), "cell 2"));
  CHECK(says(compare_outputs(cells, {{2, "loss 2.3456, 3.2 ms\n"}}), "in place of a picture"));
  CHECK(says(compare_outputs(cells, {{2, picture}}), "in place of"));
  CHECK(
      says(compare_outputs(
               cells,
               {{2, "loss 2.3456, 3.2 ms\n<<picture>>\n<svg>\n<a/></svg>\n<<end of picture>>\n"}}),
           "<a/>"));
}

TEST_CASE("outputs are stored, and what Jupyter adds on its own is dropped") {
  const std::string formatted = format_notebook(small, "", "");
  CHECK(formatted == format_notebook(formatted, "", ""));
  CHECK(formatted.find("collapsed") == formatted.npos);
  CHECK(formatted.find("xcpp20") != formatted.npos);
  CHECK(formatted.find("    \"loss 2.3456, 3.2 ms\\n\"") != formatted.npos);  // a line a line
  const std::string changed = with_outputs(formatted, {{2, "nothing\n"}});
  CHECK(changed.find("2.3456") == changed.npos);
  CHECK(changed.find("\"execution_count\": 1") != changed.npos);
  CHECK(format_notebook(changed, "", "") == changed);
  CHECK_THROWS_AS(format_notebook("{", "", ""), std::runtime_error);
}

TEST_CASE("a notebook without kernel, links, picture or a cell to change is told so") {
  const std::string path = write_small(small);
  const std::vector<std::string> complaints = check_notebook(path, YOTTA_SOURCE_DIR);
  for (const char* words :
       {"not xcpp20", "no link to a header", "notebook.hpp", "no cell to change"}) {
    INFO(words);
    CHECK(says(complaints, words));
  }
  std::string linked = small;
  linked.replace(linked.find("# A"), 3, "[a](b.md)");
  CHECK(says(check_notebook(write_small(linked), YOTTA_SOURCE_DIR), "dead link: b.md"));
}

TEST_CASE("a cell with an error, a throw, a crash or an endless loop is noticed both ways") {
  if (!have("clang-repl-19")) YOTTA_NOT_RUN(how_to_install);
  NotebookTools quick = notebook_tools("broken");
  quick.seconds = 60;
  const CodeCell good = {
      1, "int x = 3;\nint twice() {\n  return 2 * x;\n}\nstd::printf(\"%d\\n\", twice());"};
  for (const auto run : {run_natively, run_in_repl}) {
    const NotebookRun fine = run({good, {3, "x = 4; std::puts(\"four\");"}}, quick);
    CHECK_MESSAGE(fine.error.empty(), fine.error);
    REQUIRE(fine.cells.size() == 2);
    CHECK(fine.cells[0].printed == "6\n");
    CHECK(fine.cells[1].printed == "four\n");
    for (const char* bad : {"int y = nothing;", "void f() { throw 1; }\nf();",
                            "*static_cast<volatile int*>(nullptr) = 1;"}) {
      INFO(bad);
      CHECK_FALSE(run({good, {2, bad}}, quick).error.empty());
    }
    NotebookTools impatient = quick;
    impatient.seconds = 3;
    const std::string endless = "void f() { for (volatile int i = 0;; i = i + 1) {} }\nf();";
    CHECK_FALSE(run({{1, endless}}, impatient).error.empty());
  }
}

TEST_CASE("in Jupyter a picture goes through xeus-cpp's display; a failing program throws") {
  if (!have("clang++-19")) YOTTA_NOT_RUN(how_to_install);
  NotebookTools tools = notebook_tools("display");
  tools.flags.push_back(fmt::format("-I{}/tests/notebooks", YOTTA_SOURCE_DIR));
  setenv("YOTTA_BUILD", "/usr", 1);
  const NotebookRun run =
      run_natively({{1, "#include \"notebook.hpp\"\nshow(\"<svg/>\");"},
                    {2,
                     "void f() {\n  run_program(\"bin/env\", \"echo it ran\");\n"
                     "  try { run_program(\"nowhere\"); } catch (const std::runtime_error& e) "
                     "{ std::puts(e.what()); }\n}\nf();"}},
                   tools);
  CHECK_MESSAGE(run.error.empty(), run.error);
  REQUIRE(run.cells.size() == 2);
  CHECK(run.cells[0].printed == "display: image/svg+xml <svg/>\n");
  CHECK(run.cells[1].printed.find("nowhere is not there") != std::string::npos);
}

TEST_CASE("our kernel is the installed one with release flags and the course's folders") {
  if (!have("python3")) YOTTA_NOT_RUN("python3 is not installed");
  const std::string folder = fmt::format("{}/notebooks/kernel", YOTTA_BUILD_DIR);
  std::filesystem::create_directories(folder + "/stock");
  write_text(folder + "/stock/kernel.json",
             R"({"argv": ["/opt/xcpp", "-std=c++20"], "language": "cpp"})");
  write_text(folder + "/jupyter", fmt::format("#!/bin/sh\necho '{{\"kernelspecs\": {{\"xcpp20\": "
                                              "{{\"resource_dir\": \"{}/stock\"}}}}}}'\n",
                                              folder));
  std::filesystem::permissions(folder + "/jupyter", std::filesystem::perms::owner_all);
  const std::string command =
      fmt::format("PATH='{0}':$PATH python3 '{1}/notebooks_cpp/kernel.py' '{0}/ours'", folder,
                  YOTTA_SOURCE_DIR);
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string spec = read_text(folder + "/ours/kernels/xcpp20/kernel.json");
  for (const std::string words :
       {"/opt/xcpp", "-O2", "-march=native", "/include\"", "/notebooks_cpp\""}) {
    INFO(words);
    CHECK(spec.find(words) != spec.npos);
  }
}
