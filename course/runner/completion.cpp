#include "runner/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runner/exercise.hpp"

namespace runner {
namespace {

// What may follow a verb besides its options: one of the shell functions of `lists`.
std::string follows(const std::string& verb) {
  static const std::map<std::string, std::string> follow = {
      {"check", "tasks"},     {"hint", "tasks"},     {"learn", "exercises"},
      {"reset", "exercises"}, {"lesson", "lessons"}, {"notebook", "lessons"},
      {"predict", "lessons"}, {"slides", "lessons"}, {"bench", "benchmarks"},
      {"train", "options"},   {"plan", "options"},   {"tour", "options"}};
  const auto found = follow.find(verb);
  if (found != follow.end() && found->second == "tasks")
    return "$(_yotta_tasks \"$root\" \"$word\")";
  if (found != follow.end()) return fmt::format("$(_yotta_{} \"$root\" {})", found->second, verb);
  if (verb == "exercise") return "new verify";
  return verb == "test" ? "release gcc asan tsan book" : "";
}

// The same in both shells. Tasks are offered where a number was begun: all of them would fill the
// screen.
constexpr const char* lists = R"shell(
_yotta_folders() { (cd "$1/$2" 2>/dev/null && for each in [0-9][0-9]_*/; do echo "${each%%_*}" "${each%/}"; done); }
_yotta_exercises() { _yotta_folders "$1" exercises; }
_yotta_lessons() { _yotta_folders "$1" lessons; }
_yotta_tasks() {
  _yotta_exercises "$1"
  case $2 in [0-9]*) sed -n 's/.*"id": "\([0-9.]*\)".*/\1/p' "$1"/exercises/*/exercise.json ;; esac
}
_yotta_benchmarks() { (cd "$1/bench" && for each in *.cpp; do echo "${each%.cpp}"; done); }
_yotta_takes_a_file() { case $1 in --file | --json | --out | --html | --hidden | --against) true ;; *) false ;; esac; }
_yotta_options() { "$1/build/release/course/$2" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u; }
)shell";

constexpr const char* bash_script =
    R"shell(# Completion of ./yotta for bash: source course/completion/yotta.bash
# Written by build/release/course/runner completion.
@lists@
_yotta() {
  local word=${COMP_WORDS[COMP_CWORD]} words= root
  root=$(dirname "$(readlink -f "${COMP_WORDS[0]}")")
  if [ "$COMP_CWORD" = 1 ]; then words="@names@"; else
    case ${COMP_WORDS[1]} in
@cases@    esac
  fi
  if _yotta_takes_a_file "${COMP_WORDS[COMP_CWORD - 1]}"; then words=; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _yotta yotta ./yotta
)shell";

constexpr const char* zsh_script =
    R"shell(#compdef yotta
# Completion of ./yotta for zsh: put course/completion into fpath before compinit.
# Written by build/release/course/runner completion.
@lists@
_yotta() {
  local root=${${~words[1]}:A:h} word=$words[CURRENT] list=
  local -a verbs=(
@names@  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  case $words[2] in
@cases@  esac
  if _yotta_takes_a_file "$words[CURRENT-1]"; then list=; fi
  compadd -- ${=list} || _files
}
_yotta "$@"
)shell";

std::string filled(std::string script, const std::string& names, const std::string& cases) {
  const std::map<std::string, std::string> blanks = {
      {"@lists@", std::string(lists).substr(1)}, {"@names@", names}, {"@cases@", cases}};
  for (const auto& [blank, text] : blanks) script.replace(script.find(blank), blank.size(), text);
  return script;
}

// The lines of `case` that put a verb's words into a variable.
std::string cases_of(const std::vector<VerbWords>& verbs, const std::string& variable) {
  std::string cases;
  for (const VerbWords& verb : verbs) {
    const std::string more = follows(verb.name),
                      options = fmt::format("{}", fmt::join(verb.options, " "));
    cases += fmt::format("    {}) {}=\"{}{}{}\" ;;\n", verb.name, variable, options,
                         options.empty() || more.empty() ? "" : " ", more);
  }
  return cases;
}

}  // namespace

std::vector<VerbWords> all_verbs(std::vector<VerbWords> of_the_runner) {
  std::vector<VerbWords> all = std::move(of_the_runner);
  all.push_back({"tour", "Start here: train a transformer on one rank and on four", {}});
  all.push_back({"train", "Train the transformer on your own text", {}});
  all.push_back({"plan", "Which layout trains a model fastest on a cluster", {}});
  all.push_back({"clean", "Remove what was built", {"--help"}});
  all.push_back({"doctor", "Say what works on this machine", {"--help", "--json", "--packages"}});
  all.push_back({"book", "Read the course in a browser", {"--help", "--build", "--json"}});
  all.push_back({"docs", "Make the API reference of the library", {"--help", "--json"}});
  all.push_back({"help", "List the verbs", {}});
  std::sort(all.begin(), all.end(),
            [](const VerbWords& a, const VerbWords& b) { return a.name < b.name; });
  return all;
}

std::string bash_completion(const std::vector<VerbWords>& verbs) {
  std::string names;
  for (const VerbWords& verb : verbs) names += (names.empty() ? "" : " ") + verb.name;
  return filled(bash_script, names, cases_of(verbs, "words"));
}

std::string zsh_completion(const std::vector<VerbWords>& verbs) {
  std::string names;
  for (const VerbWords& verb : verbs) {
    names += fmt::format("    \"{}:{}\"\n", verb.name, verb.about);
  }
  return filled(zsh_script, names, cases_of(verbs, "list"));
}

int write_completion(const std::vector<VerbWords>& verbs, const std::string& folder) {
  write_text(folder + "/yotta.bash", bash_completion(verbs));
  write_text(folder + "/_yotta", zsh_completion(verbs));
  fmt::print("{0}/yotta.bash and {0}/_yotta are written\n", relative(folder));
  return 0;
}

}  // namespace runner
