// The runner: what `./yotta lesson`, `bench`, `check` and `test` hand over to. This file reads the command
// line and nothing else, because CLI11 takes long to compile; each verb has files of its own.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "runner/suite.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Yotta's lessons, exercises, benchmarks and tests", "./yotta"};
  app.require_subcommand(1);
  int result = 0;

  runner::SuiteOptions suite;
  CLI::App* test =
      app.add_subcommand("test", "Build and test everything, and count what became of it");
  test->add_option("tier", suite.tier, "release, clang, asan or tsan")
      ->check(CLI::IsMember({"release", "clang", "asan", "tsan"}));
  test->add_option("--only", suite.only, "Only the tests whose names match this expression");
  test->add_option("--json", suite.json, "Write the counts and every outcome to this file");
  test->callback([&] { result = runner::test_everything(suite); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 1;
  }
  return result;
}
