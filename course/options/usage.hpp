// How a program ends whose command line CLI11 refuses: 0 after --help, 2 after a wrong option, with
// the option that was probably meant.
//
//     error: there is no option --laers; did you mean --layers?
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "course/options/edit_distance.hpp"

namespace yotta {

// The option of a program, or of the subcommand that was given, whose name is nearest to `word`;
// empty: none is near.
inline std::string nearest_option(const CLI::App& app, const std::string& word) {
  std::string nearest;
  int best = 3 + static_cast<int>(word.size()) / 8;
  const auto try_those_of = [&](const CLI::App& each) {
    for (const CLI::Option* const option : each.get_options())
      for (const std::string& name : option->get_lnames()) {
        const int distance = edit_distance(word, "--" + name);
        if (distance < best) best = distance, nearest = "--" + name;
      }
  };
  try_those_of(app);
  for (const CLI::App* const sub : app.get_subcommands()) try_those_of(*sub);
  return nearest;
}

// What is wrong with the command line, in words.
inline std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (const size_t at = text.find(": 1 required "); at != text.npos)
    return text.substr(0, at) + ": a value is missing behind it";
  if (const size_t at = text.find(": At Most 1 required "); at != text.npos)
    return text.substr(0, at) + " stands there more than once";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return text;
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("-") || word == "--") continue;
    const std::string name = word.substr(0, word.find('='));
    const std::string nearest = nearest_option(app, name);
    return fmt::format("there is no option {}{}", name,
                       nearest.empty() ? "" : "; did you mean " + nearest + "?");
  }
  return text;
}

// Prints the help, or on stderr what is wrong. Returns the exit status.
inline int end_by_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "error: {}\nRun with --help for more information.\n",
             usage_problem(app, error));
  return 2;
}

// For a main(): the status to exit with, if it is not to go on.
inline std::optional<int> parse_or_end(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_by_usage(app, error);
  }
  return std::nullopt;
}

}  // namespace yotta
