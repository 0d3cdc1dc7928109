#include "runner/solution.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "runner/hidden_cases.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double build_seconds = 3600;  // a slow machine builds the library for half an hour
constexpr double compile_seconds = 120;
constexpr rlim_t largest_program = 512 << 20;        // bytes; one of the asan tier has 100 MB
constexpr rlim_t largest_object = 64 << 20;          // those of our own solutions have 6 MB
constexpr rlim_t compiler_memory = rlim_t{4} << 30;  // bytes
constexpr long most_errors = 16 << 20;  // bytes: the first error counts, and thousands may follow

// A name as Ninja has it: in the build folder, unless it is a whole path.
std::string in_build(const std::string& name) { return fs::path(YOTTA_BUILD_DIR) / name; }

constexpr long longest_list = 1 << 24;  // bytes; commands are longer than what a program may print

Words cmake_words(const Words& targets) {
  Words words = {"cmake", "--build", YOTTA_BUILD_DIR, "--target"};
  words.insert(words.end(), targets.begin(), targets.end());
  return words;
}

// By whoever holds build_lock(): others read meanwhile how far it is.
Ending build_targets(const Words& targets) {
  Watched watched{build_seconds, longest_list};
  watched.output_file = build_output();
  return run_watched(cmake_words(targets), watched);
}

// The commands that build a target. Nobody needs the lock for it, so nothing that is shared is
// written.
Ending list_commands(const std::string& target) {
  Words words = cmake_words({target});
  words.insert(words.end(), {"--", "-t", "commands"});
  return run_limited(words, build_seconds, longest_list);
}

bool says(const Ending& ending, const char* words) {
  return ending.output.find(words) != std::string::npos;
}

// Did the compiler fail rather than what it compiles?
bool broke_down(const Ending& ending) {
  return ending.status == 127 || says(ending, "internal compiler error") ||
         says(ending, "No space left on device") || says(ending, "invalid linker name") ||
         says(ending, "cannot find 'ld");
}

// It came to no end of the file, which another one of the same exercise has just come to.
bool has_no_end(const Ending& ending) {
  return ending.signal != 0 || ending.too_late || says(ending, " terminated program ") ||
         says(ending, "out of memory allocating");
}

// Its result was about to be larger than it may be.
bool is_too_large(const Ending& ending) {
  return ending.signal == SIGXFSZ || ending.status == 128 + SIGXFSZ ||
         says(ending, "File size limit exceeded") || says(ending, "File too large");
}

constexpr const char* large_array =
    "what the compiler makes of your file is larger than 64 MB: a global or static array with "
    "initial values? Each of its bytes would stand in the program";

// In the build folder and in English, which readable_errors reads.
Ending compile(const Words& command) {
  Words words = {"env", "-C", YOTTA_BUILD_DIR, "LC_ALL=C.UTF-8", "LANGUAGE="};
  words.insert(words.end(), command.begin(), command.end());
  Watched watched{compile_seconds, most_errors};
  const rlim_t largest = has(command, "-c") ? largest_object : largest_program;
  watched.before = [largest] {
    const rlimit most = {largest, largest};  // an array may be of any size
    const rlimit memory = {compiler_memory, compiler_memory};
    setrlimit(RLIMIT_FSIZE, &most), setrlimit(RLIMIT_DATA, &memory);
  };
  Ending ending = run_watched(words, watched);
  if (broke_down(ending) && !is_too_large(ending))
    throw CouldNotGrade(fmt::format(
        "the compiler or the linker itself failed. Is the disk full? It said:\n{}", ending.output));
  return ending;
}

// "-o", "place": the words where a command's result goes.
void set_result(Words& words, const std::string& place) {
  const auto option = std::find(words.begin(), words.end(), "-o");
  if (option != words.end() && option + 1 != words.end()) *(option + 1) = place;
}

// Without the file of dependencies, which is Ninja's.
Words without_dependencies(const Words& words) {
  Words kept;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-MT" || words[i] == "-MF")
      ++i;
    else if (words[i] != "-MD")
      kept.push_back(words[i]);
  }
  return kept;
}

// passed_by_nothing of a program, found out once and kept beside it.
std::vector<std::string> known_by_nothing(const std::string& starter) {
  const std::string list = starter + ".passed_by_nothing";
  if (!fs::exists(list) || fs::last_write_time(list) < fs::last_write_time(starter)) {
    fs::remove(list);  // or nothing is written when nothing changes
    std::string text;
    for (const std::string& name : passed_by_nothing(starter)) text += name + "\n";
    write_text(list, text);
  }
  return lines_of(read_text(list));
}

// The symbols of the solutions that are right: the library's, and the starter.
std::vector<Symbol> reference_symbols(const Exercise& exercise) {
  std::vector<Symbol> all;
  for (const char* const variant : {"library", "starter"}) {
    const std::string built = in_build(fmt::format(
        "exercises/CMakeFiles/exercise_{0}_{1}.dir/{0}/adapter.cpp.o", exercise.id, variant));
    const std::string handed_out =
        fmt::format("{}/handout/exercise_{}_{}.o", YOTTA_SOURCE_DIR, exercise.id, variant);
    for (const std::string& object : {built, handed_out}) {
      if (!fs::exists(object)) continue;
      const std::vector<Symbol> symbols = symbols_of(object);
      all.insert(all.end(), symbols.begin(), symbols.end());
    }
  }
  return all;
}

bool instrumented(const Exercise& exercise) { return exercise.asan && can_instrument(); }

// Of the target exercise_NN_topic_VARIANT, for this file.
BuildCommands own_commands(const Exercise& exercise, const std::string& variant,
                           const std::string& file, const RunFolder& folder) {
  const std::string target = fmt::format("exercise_{}_{}", exercise.id, variant);
  const Ending listed = list_commands(target);
  return commands_for(
      listed.output,
      fmt::format("exercises/CMakeFiles/{}.dir/{}/adapter.cpp.o", target, exercise.id),
      "exercises/" + target, file, folder.path());
}

// After the file was vetted as it is.
Built build_instrumented(const Exercise& exercise, const std::string& file,
                         const RunFolder& folder) {
  const BuildCommands commands = own_commands(exercise, "asan", file, folder);
  const Ending compiled = compile(commands.compile);
  const Ending linked = compiled.well() ? compile(commands.link) : Ending{};
  if (!compiled.well() || !linked.well())
    throw CouldNotGrade("what compiles does not under AddressSanitizer:\n" + compiled.output +
                        linked.output);
  return {folder.path() + "/program", compiled.output, ""};
}

}  // namespace

Words shell_words(const std::string& command) {
  Words words;
  std::string word;
  char quote = 0;
  bool open = false;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i], open = true;
    } else if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c, open = true;
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (open) words.push_back(word);
      word.clear(), open = false;
    } else {
      word += c, open = true;
    }
  }
  if (open) words.push_back(word);
  return words;
}

BuildCommands commands_for(const std::string& listed, const std::string& object,
                           const std::string& program, const std::string& solution,
                           const std::string& folder) {
  const std::string defines = "-DYOTTA_SOLUTION=", own_object = folder + "/solution.o";
  BuildCommands commands;
  for (const std::string& line : lines_of(listed)) {
    Words words = shell_words(line);
    std::erase_if(words, [](const std::string& word) { return word == ":" || word == "&&"; });
    if (!has(words, object)) continue;
    (has(words, "-c") ? commands.compile : commands.link) = words;
  }
  if (commands.compile.empty() || !has(commands.link, program))
    throw CouldNotGrade("Ninja does not list the commands that build " + program +
                        ". Was the build folder made by ./yotta? `./yotta clean` removes it");
  commands.compile = without_dependencies(commands.compile);
  for (std::string& word : commands.compile)
    if (word.starts_with(defines)) word = fmt::format("{}\"{}\"", defines, solution);
  std::replace(commands.link.begin(), commands.link.end(), object, own_object);
  set_result(commands.compile, own_object);
  set_result(commands.link, folder + "/program");
  return commands;
}

std::string why_unbuilt(const Ending& ending) {
  if (ending.too_late)
    return fmt::format(
        "were not built within {:.0f} minutes. Try once more, with nothing else running: it goes "
        "on where it stopped",
        build_seconds / 60);
  const size_t first = ending.output.find("FAILED: ");  // Ninja's; before it stands what went well
  const std::string said = ending.output.substr(first == std::string::npos ? 0 : first);
  return "cannot be built:\n" +
         (said.empty() ? "cmake cannot be started, or it said nothing" : said);
}

Grader build_grader(const Exercise& exercise) {
  const std::string library = fmt::format("exercise_{}_library", exercise.id);
  const std::string starter = fmt::format("exercise_{}_starter", exercise.id);
  const Grader grader{in_build("exercises/" + library), {}};
  remove_left_hidden_cases();
  if (!fs::exists(grader.library))
    fmt::print(stderr, "Building the tests of {}: half a minute, once{} ...\n", exercise.id,
               fs::exists(YOTTA_SOURCE_DIR "/handout")
                   ? ""
                   : ". The first exercise builds the library too, which takes some minutes");
  const FileLock lock(build_lock());
  Words targets = {library, starter};
  if (instrumented(exercise)) targets.push_back("yotta_precompiled_asan");
  const Ending ending = build_targets(targets);
  if (!ending.well())
    throw CouldNotGrade(fmt::format("the graded cases of {} {}", exercise.id, why_unbuilt(ending)));
  return {grader.library, known_by_nothing(in_build("exercises/" + starter))};
}

bool can_instrument() {
#if defined(YOTTA_HAS_ASAN)
  return true;
#else
  return false;
#endif
}

std::string wrong_encoding(const std::string& text) {
  const bool marked = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  const auto zeros = std::count(text.begin(), text.end(), '\0');
  if (!marked && zeros * 4 < std::ssize(text)) return "";
  if (text.empty()) return "";
  return "your file is UTF-16, two bytes a letter, which compilers do not read. Save it as UTF-8: "
         "in "
         "VS Code by the name of the encoding at the bottom right, in Notepad under Save as; or "
         "`iconv -f UTF-16 -t UTF-8 FILE`";
}

Words archives_of(const Words& link) {
  Words archives;
  for (const std::string& word : link)
    if (word.find("yotta_compiled") != std::string::npos && word.ends_with(".a"))
      archives.push_back(in_build(word));
  return archives;
}

Built build_solution(const Exercise& exercise, const std::string& file, const RunFolder& folder) {
  if (file.find_first_of("\"\n") != std::string::npos)
    throw CouldNotGrade(
        "C++ cannot include a file with a quotation mark or a line end in its name: " + file);
  const std::string text = read_text(file);
  if (const std::string why = wrong_encoding(text); !why.empty()) return {"", "", why};
  const Measure measure = measure_of(exercise);
  std::vector<Refusal> refusals = vet_text(text, measure);
  if (at_once(refusals)) return {"", "", refusals_text(refusals)};
  const BuildCommands commands = own_commands(exercise, "student", file, folder);
  const Ending compiled = compile(commands.compile);
  if (is_too_large(compiled)) return {"", "", large_array};
  if (has_no_end(compiled))
    return {
        "", "",
        fmt::format("the compiler needs more than {:g} s or {} GB for your file: a template or a "
                    "constexpr that does not end?",
                    compile_seconds, compiler_memory >> 30)};
  if (!compiled.well()) return {"", compiled.output, ""};
  const std::vector<Symbol> object = symbols_of(folder.path() + "/solution.o"),
                            reference = reference_symbols(exercise);
  std::set<std::string> detours;
  if (calls_more_of_library(object, reference))
    detours = detours_to(measure.parts, archives_of(commands.link));
  for (const Refusal& one : vet_object(object, reference, measure.graded, detours))
    refusals.push_back(one);
  if (!refusals.empty()) return {"", "", refusals_text(refusals)};
  if (instrumented(exercise)) return build_instrumented(exercise, file, folder);
  const Ending linked = compile(commands.link);
  return {linked.well() ? folder.path() + "/program" : "", compiled.output + linked.output, ""};
}

}  // namespace runner
