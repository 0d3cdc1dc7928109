#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "course/lesson/lesson.hpp"
#include "runner/exercise.hpp"
#include "runner/lesson_answers.hpp"
#include "runner/lesson_letters.hpp"
#include "runner/lesson_text.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"

using namespace runner;

namespace {
const std::string text =
    "# A lesson\n\n```output 10.ring\nring:  rank 0 sent 6000 bytes\nring:  rank 1 sent 6,000 "
    "bytes\n```\n\n"
    "```cpp\nint x;\n```\n\n```output 10.loss\nloss 2.3456 after 10 steps\n```\n";
const std::string output =
    "== The ring\nring: rank 0 sent 6000 bytes\nring: rank 1 sent 6,000 bytes\n\nloss 2.3460 after "
    "10 steps\n";

std::string replaced(std::string where, const std::string& what, const std::string& with) {
  return where.replace(where.find(what), what.size(), with);
}
}  // namespace

TEST_CASE("at a terminal a lesson says that it computes, elsewhere nothing; nor while it asks") {
  const auto stderr_at = [](const char* terminals, const std::string& shown) {
    setenv("YOTTA_TERMINALS", terminals, 1);
    const std::string said = yotta_test::stderr_of([&] {
      yotta::Lesson lesson;
      lesson.show(shown);
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      lesson.show("");
    });
    unsetenv("YOTTA_TERMINALS");
    return said;
  };
  CHECK(stderr_at("12", "\n").starts_with("\r\033[Kcomputing: what comes next (1 s)"));
  CHECK(stderr_at("12", "your prediction: ").empty());
  CHECK(stderr_at("1", "\n").empty());
}

TEST_CASE("quotes are found with their names and places") {
  const auto quotes = find_quotes(text);
  REQUIRE(quotes.size() == 2);
  CHECK(quotes[0].name == "10.ring");
  CHECK(quotes[0].line == 4);
  CHECK(quotes[0].lines.size() == 2);
  CHECK(quotes[1].lines[0] == "loss 2.3456 after 10 steps");
  CHECK_THROWS_AS(find_quotes("```output a\nx\n"), std::runtime_error);
  CHECK_THROWS_AS(find_quotes("```output a\n```\n"), std::runtime_error);
  CHECK_THROWS_AS(find_quotes("```output a\nx\n```\n```output a\ny\n```\n"), std::runtime_error);
}

TEST_CASE(
    "counts are compared exactly, losses and times to three digits, measured times not at all") {
  CHECK(same_line("sent 6000  bytes", "  sent 6000 bytes"));
  CHECK_FALSE(same_line("sent 6000 bytes", "sent 6001 bytes"));
  CHECK_FALSE(same_line("sent 6000 bytes", "sent 6000 Bytes"));
  CHECK_FALSE(same_line("sent 6,000", "sent 6,001"));
  CHECK(same_line("loss 2.3456", "loss 2.3460"));
  CHECK_FALSE(same_line("loss 2.3456", "loss 2.3560"));
  CHECK_FALSE(same_line("loss 2.345", "loss nan"));
  CHECK_FALSE(same_line("loss 2.5", "loss 2"));
  CHECK(same_line("1.5e-3 off", "1.5004e-3 off"));
  CHECK(same_line("took 1.5 ms", "took 1.501 ms"));
  for (const auto& [quoted, printed] :
       {std::pair("took 1.5 ms, 12 tokens/s", "took 9.5 ms, 12 tokens/s"),
        {"took 1.5 ms, 12 tokens/s", "took 1.5 ms, 99 tokens/s"},
        {"in 3 s", "in 4 s"},
        {"... in 3 s", "it ran in 4 s"}}) {
    CHECK_FALSE(same_line(quoted, printed));
    CHECK(same_line(quoted, printed, /*measured=*/true));
  }
  CHECK_FALSE(same_line("after 3 steps", "after 4 steps", /*measured=*/true));
  CHECK(same_line("... 0 waits for 1", "lesson.cpp:12: deadlock: rank 0 waits for 1"));
  CHECK_FALSE(same_line("... 0 waits for 1", "rank 0 waits for 1 or 2"));
  CHECK_FALSE(same_line("3 min ago", "3 max ago"));
}

TEST_CASE("a quote that the program does not print is named with what it prints instead") {
  CHECK(compare_quotes(text, output).empty());
  CHECK(compare_quotes(text, "\033[1m" + output + "\033[0m").empty());
  const auto complaints =
      compare_quotes(text, replaced(output, "rank 1 sent 6,000", "rank 1 sent 7,000"));
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0] ==
        "line 5: 10.ring\n    quoted:  ring:  rank 1 sent 6,000 bytes\n    printed: ring: rank 1 "
        "sent 7,000 bytes");
  const auto apart = compare_quotes(text, replaced(output, "bytes\nring", "bytes\n\nring"));
  REQUIRE(apart.size() == 1);
  CHECK(apart[0].find("not one after the other") != std::string::npos);
  CHECK(compare_quotes(text, "").size() == 2);
}

TEST_CASE("refreshing replaces what has changed and leaves the rest as it was") {
  CHECK(refresh_quotes(text, output) == text);
  const std::string now =
      replaced(replaced(output, "1 sent 6,000", "1 sent 7,000"), "2.3460", "1.2");
  const std::string fresh = refresh_quotes(text, now);
  CHECK(compare_quotes(fresh, now).empty());
  CHECK(fresh.find("ring: rank 1 sent 7,000 bytes\n```") != std::string::npos);
  CHECK(fresh.find("loss 1.2 after 10 steps") != std::string::npos);
  CHECK(fresh.find("```cpp\nint x;\n```") != std::string::npos);
  CHECK(refresh_quotes(text, "something else\n") == text);
}

TEST_CASE("a quote of a header is compared with the header, but for how far it is indented") {
  const yotta_test::TemporaryFolder library;
  write_text((library / "nn/norm.hpp").string(), "int a;\n  int b;\n    c = a + b;\nint d;\n");
  const auto complaints = [&](const std::string& lines) {
    return compare_header_quotes("text\n```cpp nn/norm.hpp\n" + lines + "```\n",
                                 library.path().string());
  };
  CHECK(complaints("int b;\nc = a + b;\n").empty());
  CHECK(find_quotes("```cpp nn/norm.hpp\nint b;\n```\n").empty());  // is none of the program's
  CHECK(find_header_quotes(text).empty());                          // ```cpp alone names no header

  const auto stale = complaints("int b;\nc = a + 2;\n");
  REQUIRE(stale.size() == 1);
  CHECK(stale[0] ==
        "line 4: nn/norm.hpp has no such line\n    quoted: c = a + 2;\n    it has: c = a + b;");
  const auto apart = complaints("int a;\nc = a + b;\n");
  REQUIRE(apart.size() == 1);
  CHECK(apart[0].find("not one after the other") != std::string::npos);
  CHECK_THROWS_AS(
      compare_header_quotes("```cpp nn/none.hpp\nint b;\n```\n", library.path().string()),
      std::runtime_error);
}

TEST_CASE("a whole program is quoted line by line, and refreshed") {
  const yotta_test::TemporaryFolder folder;
  const std::string path = folder.path().string();
  write_text((folder / "one_screen.cpp").string(), "int a;\n  int b;\n");
  const auto page = [](const std::string& program) {
    return "text\n```cpp one_screen.cpp\n" + program + "```\nmore\n";
  };
  CHECK(compare_program_quotes(page("int a;\n  int b;\n"), path).empty());
  CHECK(find_header_quotes(page("int a;\n")).empty());
  CHECK(find_program_quotes("```cpp nn/norm.hpp\nint b;\n```\n").empty());

  const auto other = compare_program_quotes(page("int a;\nint b;\n"), path);
  REQUIRE(other.size() == 1);
  CHECK(other[0] ==
        "line 4: one_screen.cpp is quoted whole, and differs here\n    quoted: int b;\n    it has: "
        "  int b;");
  const auto part = compare_program_quotes(page("int a;\n"), path);
  REQUIRE(part.size() == 1);
  CHECK(part[0].find("quoted: (nothing more)") != std::string::npos);
  CHECK(compare_program_quotes(page("int a;\n  int b;\n\n"), path).size() == 1);

  const std::string both = page("int a;\n") + page("other\n");
  CHECK(refresh_program_quotes(both, path) ==
        page("int a;\n  int b;\n") + page("int a;\n  int b;\n"));
}

namespace {
const std::string with_options =
    "```output a\none 1\n```\n```output b --ranks 8\nranks 8\n```\n"
    "```output c --ranks 8\nsent 14\n```\n```output d  --ranks 2 --svg 1\nranks 2\n```\n";
}

TEST_CASE("a quote names the options of its run") {
  const auto quotes = find_quotes(with_options);
  REQUIRE(quotes.size() == 4);
  CHECK(quotes[0].options.empty());
  CHECK(quotes[1].name == "b");
  CHECK(quotes[1].options == "--ranks 8");
  CHECK(quotes[3].options == "--ranks 2 --svg 1");
  CHECK(option_sets(with_options) ==
        std::vector<std::string>{"", "--ranks 8", "--ranks 2 --svg 1"});
  CHECK(other_programs(with_options).empty());
  CHECK(other_programs(with_options + "```output e train --steps 2\nx\n```\n") ==
        std::vector<std::string>{"train"});
  CHECK(option_sets("no quote") == std::vector<std::string>{""});

  CHECK(command_of("/lesson", "") == std::vector<std::string>{"/lesson"});
  CHECK(command_of("/lesson", "--ranks 8") == std::vector<std::string>{"/lesson", "--ranks", "8"});
  CHECK(command_of("/lesson", "train --steps 2") ==
        std::vector<std::string>{YOTTA_BUILD_DIR "/course/train", "--steps", "2"});
  CHECK(command_of("/build/lesson_13_ddp", "one_screen") ==
        std::vector<std::string>{"/build/one_screen_13_ddp"});
  CHECK(other_programs("```output f one_screen\nx\n```\n").empty());
}

TEST_CASE("only a quote that says so may differ in its times") {
  const std::string virtual_time = "```output a\nrank 0: 5 ms\n```\n",
                    real = replaced(virtual_time, "output a", "output a measured");
  CHECK(compare_quotes(virtual_time, "rank 0: 5 ms\n").empty());
  REQUIRE(compare_quotes(virtual_time, "rank 0: 6 ms\n").size() == 1);
  CHECK(compare_quotes(real, "rank 0: 6 ms\n").empty());
  CHECK(compare_quotes(real, "rank 1: 6 ms\n").size() == 1);
  CHECK(refresh_quotes(virtual_time, "rank 0: 6 ms\n").find("rank 0: 6 ms\n") != std::string::npos);
  CHECK(refresh_quotes(real, "rank 0: 6 ms\n") == real);

  const auto quotes = find_quotes(
      "```output a measured --ranks  8\nx\n```\n```output b measured\nx\n```\n"
      "```output c measured_runs\nx\n```\n");
  CHECK((quotes[0].measured && quotes[0].options == "--ranks  8"));
  CHECK((quotes[1].measured && quotes[1].options.empty()));
  CHECK((!quotes[2].measured && quotes[2].options == "measured_runs"));
}

TEST_CASE("a quote is compared with the run that has its options, and with no other") {
  CHECK(compare_quotes(with_options, "one 1\n").empty());
  CHECK(compare_quotes(with_options, "ranks 8\nsent 14\n", "--ranks 8").empty());
  const auto complaints = compare_quotes(with_options, "ranks 8\nsent 6\n", "--ranks 8");
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].find("line 8: c\n    quoted:  sent 14\n    printed: sent 6") == 0);
  const std::string fresh = refresh_quotes(with_options, "one 2\nsent 6\n", "--ranks 8");
  CHECK(fresh == replaced(with_options, "sent 14", "sent 6"));  // "one 1" is of another run
}

TEST_CASE("a program is run once for each set of options, and a run that fails is a complaint") {
  const yotta_test::TemporaryFolder folder;
  const std::string program = (folder / "program").string(), runs = (folder / "runs").string();
  write_text(program, "#!/bin/sh\necho run >> " + runs +
                          "\n[ \"$1\" = --fail ] && exit 3\necho \"ranks ${2:-4}\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::string quoting = "```output a\nranks 4\n```\n```output b --ranks 8\nranks 7\n```\n";
  const auto complaints = compare_with_runs(quoting, program);
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].find("line 5: b\n    quoted:  ranks 7\n    printed: ranks 8") == 0);
  CHECK(lines_of(read_text(runs)).size() == 2);

  CHECK(compare_with_runs(quoting, program, /*refresh=*/true).empty());
  CHECK(quoting == "```output a\nranks 4\n```\n```output b --ranks 8\nranks 8\n```\n");

  quoting = "```output a --fail\nranks 4\n```\n";
  const auto failed = compare_with_runs(quoting, program);
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].find(program + " --fail failed") == 0);
}

namespace {
const std::string answered =
    "# A lesson\n\n1. not asked\n\n## Try\n\n1. Do it.\n   Look at it.\n\n"
    "<details><summary>Answer</summary>\n\n2. is a number in an answer.\n\n</details>\n\n"
    "2. Do more.\n\n<details><summary>Answer</summary>\n\n```\n3. fenced\n```\n\n</details>\n\n"
    "## Questions\n\n1. *Why?*\n\n<details><summary>Answer</summary>\n\nSo.\n\n</details>\n\n"
    "**Next:** more.\n";

bool complains(const std::string& lesson, const std::string& words) {
  const auto complaints = compare_answers(lesson);
  return std::any_of(complaints.begin(), complaints.end(), [&](const std::string& complaint) {
    return complaint.find(words) != complaint.npos;
  });
}
}  // namespace

TEST_CASE("a text that folds one answer folds all, in the form that Markdown renders") {
  CHECK(compare_answers(answered).empty());
  CHECK(complains("## Try\n\n1. Do it.\n", "no folded answer above this line for: 1. Do it."));
  const std::string opening = "<details><summary>Answer</summary>\n\n";

  CHECK(complains(replaced(answered, opening + "So.\n\n</details>\n", "So.\n"),
                  "line 32: no folded answer above this line for: 1. *Why?*"));
  CHECK(complains(replaced(answered, "2. Do more.", "2. Do more.\n3. And more."),
                  "no folded answer above this line for: 2. Do more."));
  CHECK(complains(replaced(answered, opening + "So.", "<details><summary>Answer</summary>\nSo."),
                  "leave the lines above and below <details>"));
  CHECK(complains(replaced(answered, "So.\n\n</details>", "So.\n</details>"),
                  "leave the lines above and below </details>"));
  CHECK(complains(replaced(answered, "So.\n\n</details>\n", "So.\n"), "is missing"));
  CHECK(complains(replaced(answered, "an answer.\n\n</details>\n", "an answer.\n"),
                  "before the last one has ended"));
  CHECK(complains(replaced(answered, "So.", "</details>\n\nSo."),
                  "without an answer that has begun"));
  CHECK(complains(replaced(answered, opening + "So.", "<details>\n\nSo."), "begins with the line"));
}

TEST_CASE("a folded aside has words of its own, and answers nothing") {
  const std::string aside = "<details><summary>Why</summary>\n\nBecause.\n\n</details>\n\n";
  CHECK(compare_answers(replaced(answered, "## Try", aside + "## Try")).empty());
  CHECK(compare_answers(replaced(answered, "2. Do more.", aside + "2. Do more.")).empty());
  CHECK(complains(replaced(answered, "<details><summary>Answer", "<details><summary>Why"),
                  "no folded answer above this line for: 1. Do it."));
  CHECK(complains(replaced(answered, "## Try", replaced(aside, "Why", "") + "## Try"),
                  "begins with the line"));
  CHECK(complains(replaced(answered, "## Try", replaced(aside, "\n\nBec", "\nBec") + "## Try"),
                  "leave the lines above and below"));
}

namespace {
// A page of all letters, and a lesson that is right.
const std::string all_letters =
    "# Letters\n\n| letter | meaning here | elsewhere |\n|---|---|---|\n"
    "| p | ranks in a group; pipeline stages | t |\n| n | elements of an array | |\n"
    "| α (alpha) | seconds per message | a |\n| t | time | |\n\n**Words.** Mesh.\n";
const std::string page =
    "# A lesson\n\n**You need:** nothing.\n\n<details><summary>Letters on this page</summary>\n\n"
    "| letter | meaning |\n|---|---|\n| p | ranks in a group |\n"
    "| n | elements of an array |\n| α | seconds per message |\n\n</details>\n\n## A ring\n\n"
    "The p ranks send n numbers: 2(p-1)/p n.\n\n## What is left out\n\n- Trees.\n"
    "- Links, in [lesson 09](q).\n\n**Next:** more.\n";

// The complaints about the page with one change.
std::string about(const std::string& what, const std::string& with) {
  return fmt::format(
      "{}",
      fmt::join(compare_letters(replaced(page, what, with), find_letters(all_letters)), "\n"));
}

// "p n t_F"
std::string symbols_in(const std::string& lesson) {
  std::string all;
  for (const Symbol& symbol : find_symbols(lesson))
    all +=
        (all.empty() ? "" : " ") + symbol.letter + (symbol.index.empty() ? "" : "_") + symbol.index;
  return all;
}
}  // namespace

TEST_CASE("single letters of a text and its formulas are found") {
  CHECK(symbols_in("p ranks send (p-1)/p n; α + n β.") == "p n α β");
  CHECK(symbols_in("A rank, a rank's, I don't: F0, 2mnk, T5, Müller, p², q's, **r**") == "p q r");
  CHECK(symbols_in("3 s, 16 B, 5 GB/s, 3 B/s, 7 tokens/s, 5 µs, C++, e.g. this, 2-D, i.e.") == "");
  CHECK(symbols_in("split-K, top-p, the k-th, g s, p-1, sum of s") == "k g p s");
  CHECK(symbols_in("`q` [r](s) ![t](u.svg) <b>v</b>\n```\nw\n```\nx") == "v x");
  CHECK(symbols_in("$\\frac{p-1}{m}\\ \\text{of the time}$ and $$\\alpha\n+ k^T e^{-z}$$ q") ==
        "p m α k z q");
  CHECK(symbols_in("t_F and $t_B + r_{i,j} + dx + \\max(a, b)$") == "t_F t_B r_i,j x a b");
  CHECK(find_symbols("one\n\ntwo p\n").at(0).line == 3);
}

TEST_CASE("every letter of a page has its row, and the row is that of docs/letters.md") {
  CHECK(
      fmt::format("{}", fmt::join(compare_letters("## A lesson without the table\n\nq\n", {}), " "))
          .find("the letter q is not in the table") != std::string::npos);
  CHECK(about("The p", "The p") == "");
  CHECK(about("The p ranks", "The p and t ranks") ==
        "line 17: the letter t is not in the table \"Letters on this page\"; write the row | t | "
        "... |; in docs/letters.md t is: time");
  CHECK(about("send n", "send q n").find("docs/letters.md has no q: add it there") !=
        std::string::npos);
  CHECK(about("The p", "$t_F$ of the p").find("line 17: the letter t ") == 0);
  CHECK(about("| p | ranks in a group |", "| p | ranks |") ==
        "line 9: p is \"ranks\" here; in docs/letters.md p is: ranks in a group; pipeline stages");
  CHECK(about("| p | ranks in a group |", "| p | pipeline stages; ranks in a group |") == "");
  CHECK(about("| n |", "| p |").find("line 10: the letter p has two rows") == 0);
  CHECK(about("elements of an array", " ").find("line 10: the letter n has no meaning") == 0);
  CHECK(about("page</summary>\n\n", "page</summary>\n").find("lines above and below") !=
        std::string::npos);
  CHECK(about("**You need:**", "## Before\n\n**You need:**").find("before the first section") !=
        std::string::npos);
  CHECK_THROWS_AS(find_letters("# Start\n"), std::runtime_error);
  CHECK_THROWS_AS(find_letters(replaced(all_letters, "| t | time", "| p | time")),
                  std::runtime_error);
}

TEST_CASE("a page ends with what is left out, in two to five items") {
  CHECK(about("## What is left out", "## More") ==
        "line 19: the last section before **Next:** is \"## More\"; end the page with \"## What is "
        "left out\"");
  CHECK(about("- Trees.\n", "") ==
        "line 19: \"## What is left out\" has 1 items (- ...); two to five are right");
  CHECK(about("**Next:**", "Next:").find("does not end") != std::string::npos);
}

TEST_CASE("the folded table of letters is no answer") {
  const std::string letters = page.substr(page.find("<details>"), page.find("## A ring") - 28);
  CHECK(compare_answers(replaced(answered, "## Try", letters + "\n## Try")).empty());
}

TEST_CASE(
    "the lessons' letters are those of docs/letters.md, and each ends with what is left out") {
  namespace fs = std::filesystem;
  const std::string root = YOTTA_SOURCE_DIR;
  const Letters letters = find_letters(read_text(root + "/docs/letters.md"));
  int lessons = 0;
  for (const std::string& folder : {root + "/lessons", root + "/docs/example/lessons"})
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      ++lessons;
      for (const std::string& each : texts_of_lesson(entry.path() / "README.md"))
        for (const std::string& complaint : compare_letters(read_text(each), letters))
          FAIL_CHECK(fmt::format("{}: {}", each, complaint));
    }
  CHECK(lessons >= 17);
}
