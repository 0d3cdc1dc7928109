#include "runner/mutate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runner/json_output.hpp"
#include "runner/mutants.hpp"
#include "runner/process_pool.hpp"
#include "runner/solution.hpp"
#include "runner/submission.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double build_seconds = 1800, compile_seconds = 600;
constexpr size_t in_a_program = 60;
constexpr int most_memory = 2 << 20;  // KB, as the sandbox allows

enum class Fate { untried, does_not_compile, noticed, survives };

struct Tried {
  const Task* task = nullptr;
  Mutant mutant;
  std::string id;  // its namespace and its file
  Fate fate = Fate::untried;
};

std::string program_of(const Exercise& exercise, const char* variant) {
  return fmt::format("{}/exercises/exercise_{}_{}", YOTTA_BUILD_DIR, exercise.id, variant);
}

// The lines of each part of a text.
std::map<std::string, std::string> bodies_of(const std::string& text) {
  std::map<std::string, std::string> bodies;
  const Lines lines = lines_of(text);
  const std::vector<std::string> parts = part_of_lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool inside = i > 0 && i + 1 < lines.size() && !parts[i].empty() &&
                        parts[i - 1] == parts[i] && parts[i + 1] == parts[i];
    if (inside) bodies[parts[i]] += lines[i] + "\n";
  }
  return bodies;
}

std::string part_with(const Tried& one) {
  return fmt::format("// exercise {0}\n{1}// end of exercise {0}\n", one.task->id, one.mutant.text);
}

// One program of many solutions, as exercises/CMakeLists.txt writes it for wrong ones.
std::string unit_of(const Exercise& exercise, const std::vector<Tried*>& batch,
                    const std::string& folder) {
  const std::string adapter = exercise.folder + "/adapter.cpp";
  std::string text, choice;
  for (const std::string& line : lines_of(read_text(adapter)))
    if (line.starts_with("#include \"") || line.starts_with("#include <")) text += line + "\n";
  text += variant_of(exercise, "includes") + "#include <cstdlib>\n#include <string>\n";
  for (const Tried* one : batch) {
    text += fmt::format(
        "namespace {0} {{\nnamespace yotta {{ using namespace ::yotta; namespace student {{}} }}\n"
        "namespace exercise {{ using namespace ::exercise; extern const Solution solution; }}\n"
        "#define YOTTA_SOLUTION \"{1}/{0}.hpp\"\n#include \"{2}\"\n#undef YOTTA_SOLUTION\n}}\n",
        one->id, folder, adapter);
    choice += fmt::format("  if (name == \"{0}\") return {0}::exercise::solution;\n", one->id);
  }
  return text +
         "const exercise::Solution exercise::solution = [] {\n  const std::string name = "
         "std::getenv(\"YOTTA_WRONG\");\n" +
         choice + "  std::exit(99);\n}();\n";
}

// The commands for wrong solutions, for another unit and with other places of the results.
BuildCommands commands_of(const Exercise& exercise, const std::string& unit) {
  const std::string target = fmt::format("exercise_{}_wrong", exercise.id);
  const Ending listed =
      run_limited({"cmake", "--build", YOTTA_BUILD_DIR, "--target", target, "--", "-t", "commands"},
                  build_seconds, 1 << 24);
  BuildCommands commands = commands_for(
      listed.output, fmt::format("exercises/CMakeFiles/{}.dir/{}/wrong.cpp.o", target, exercise.id),
      "exercises/" + target, unit, unit + ".run");
  for (std::string& word : commands.compile)
    if (word.ends_with("/wrong.cpp")) word = unit;
  return commands;
}

// "mutant_17" of a line that names its file, or empty.
std::string mutant_in(const std::string& line) {
  const size_t at = line.find("/mutant_"), end = line.find(".hpp", at);
  return at == line.npos || end == line.npos ? "" : line.substr(at + 1, end - at - 1);
}

// The mutants that the compiler's errors are about. An error says so itself, or in its notes, which
// follow it, or in the list of includes before it.
std::set<std::string> with_errors(const std::string& said) {
  std::set<std::string> ids;
  std::string before;
  bool open = false;  // an error that has named none yet
  for (const std::string& line : lines_of(said)) {
    const std::string id = mutant_in(line);
    const bool error = line.find(" error: ") != line.npos;
    if (error && id.empty()) open = true;
    if (line.starts_with("In file included from"))
      before = id.empty() ? before : id;
    else if (!id.empty() && (error || open))
      ids.insert(id), open = error ? open : false;
    else if (error && !before.empty())
      ids.insert(before), open = false;
    if (error) before.clear();
  }
  return ids;
}

class Mutation {
 public:
  Mutation(const Exercise& exercise, const std::string& task)
      : exercise_(exercise), folder_(YOTTA_BUILD_DIR "/mutants") {
    const std::map<std::string, std::string> bodies = bodies_of(exercise.library_text());
    for (const Task& one : exercise.tasks) {
      if (!task.empty() && one.id != task) continue;
      for (const Mutant& mutant : mutants_of(bodies.at(one.id)))
        all_.push_back({&one, mutant, fmt::format("mutant_{}", all_.size())});
    }
  }

  const std::vector<Tried>& run() {
    build_library();
    const std::string solution = variant_of(exercise_, "library");
    for (const Tried& one : all_)
      write_text(fmt::format("{}/{}.hpp", folder_.path(), one.id),
                 replace_parts(solution, part_with(one)));
    make_batches();
    for (size_t times = 0; times < 4 && leave_out_errors(); ++times) {
    }
    build();
    try_all();
    return all_;
  }

 private:
  struct Batch {
    std::vector<Tried*> mutants;
    std::string unit;
    BuildCommands commands;
  };

  void build_library() const {
    const FileLock lock(build_lock());
    const Ending built = run_limited({"cmake", "--build", YOTTA_BUILD_DIR, "--target",
                                      fmt::format("exercise_{}_library", exercise_.id),
                                      fmt::format("exercise_{}_wrong", exercise_.id)},
                                     build_seconds);
    if (!built.well()) throw std::runtime_error("its programs cannot be built:\n" + built.output);
  }

  void make_batches() {
    for (size_t begin = 0; begin < all_.size(); begin += in_a_program) {
      Batch batch;
      for (size_t i = begin; i < std::min(begin + in_a_program, all_.size()); ++i)
        batch.mutants.push_back(&all_[i]);
      batch.unit = fmt::format("{}/unit_{}.cpp", folder_.path(), batches_.size());
      batch.commands = commands_of(exercise_, batch.unit);
      fs::create_directories(batch.unit + ".run");
      batches_.push_back(batch);
    }
  }

  static PoolJob job(const Words& command, const std::string& log, double seconds,
                     std::function<void(int)> ended) {
    Words words = {"env", "-C", YOTTA_BUILD_DIR, "LC_ALL=C.UTF-8"};
    words.insert(words.end(), command.begin(), command.end());
    return {words, log, seconds, std::move(ended)};
  }
  static void run_jobs(const std::vector<PoolJob>& jobs) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (!run_pool(jobs, cores)) throw std::runtime_error("stopped");
  }

  // True: there were some, and with them others may have gone unnoticed.
  bool leave_out_errors() {
    std::vector<PoolJob> jobs;
    bool found = false;
    for (Batch& batch : batches_) {
      write_text(batch.unit, unit_of(exercise_, batch.mutants, folder_.path()));
      Words command = batch.commands.compile;
      command.insert(command.end(), {"-w", "-fsyntax-only"});
      jobs.push_back(job(command, batch.unit + ".log", compile_seconds, [&](int status) {
        if (status == 0) return;
        const std::set<std::string> wrong = with_errors(read_text(batch.unit + ".log"));
        if (wrong.empty())
          throw std::runtime_error("its mutants cannot be compiled:\n" +
                                   read_text(batch.unit + ".log"));
        for (Tried* one : batch.mutants)
          if (wrong.count(one->id) > 0) one->fate = Fate::does_not_compile, found = true;
        std::erase_if(batch.mutants, [](const Tried* one) { return one->fate != Fate::untried; });
      }));
    }
    run_jobs(jobs);
    std::erase_if(batches_, [](const Batch& batch) { return batch.mutants.empty(); });
    return found;
  }

  void build() {
    std::vector<PoolJob> compiles, links;
    const auto well = [](const Batch& batch) {
      return [&batch](int status) {
        if (status != 0)
          throw std::runtime_error("its mutants cannot be built:\n" +
                                   read_text(batch.unit + ".log"));
      };
    };
    for (const Batch& batch : batches_) {
      Words command = batch.commands.compile;
      command.push_back("-w");
      compiles.push_back(job(command, batch.unit + ".log", compile_seconds, well(batch)));
      links.push_back(job(batch.commands.link, batch.unit + ".log", compile_seconds, well(batch)));
    }
    run_jobs(compiles);
    run_jobs(links);
  }

  // A task's cases, up to the first that fails, in a process that may hold as much as a student's.
  // Remarks take no points, so they notice nothing.
  static Words trial(const std::string& program, const Task& task, const std::string& id) {
    std::string without;
    for (const auto& [name, weight] : task.weights)
      if (weight == 0) without += (without.empty() ? "" : ",") + pattern(name);
    return {"env",
            "YOTTA_WRONG=" + id,
            fmt::format("YOTTA_CASES={}:*", task.id),
            "YOTTA_OTHER_CASES=" + without,
            "sh",
            "-c",
            fmt::format("ulimit -d {}; exec '{}'", most_memory, program)};
  }

  // The library's own time for each task's cases tells how long its mutants may take.
  std::map<const Task*, double> seconds_allowed() const {
    std::map<const Task*, double> allowed;
    for (const Tried& one : all_) {
      if (allowed.count(one.task) > 0) continue;
      const auto begin = std::chrono::steady_clock::now();
      const Ending ending = run_limited(trial(program_of(exercise_, "library"), *one.task, ""), 60);
      if (!ending.well())
        throw std::runtime_error(
            fmt::format("the library fails the cases of {}:\n{}", one.task->id, ending.output));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      allowed[one.task] = 5 + 10 * took.count();
    }
    return allowed;
  }

  void try_all() {
    const std::map<const Task*, double> allowed = seconds_allowed();
    std::vector<PoolJob> jobs;
    for (const Batch& batch : batches_)
      for (Tried* one : batch.mutants)
        jobs.push_back(
            job(trial(batch.unit + ".run/program", *one->task, one->id),
                fmt::format("{}/{}.log", folder_.path(), one->id), allowed.at(one->task),
                [one](int status) { one->fate = status == 0 ? Fate::survives : Fate::noticed; }));
    run_jobs(jobs);
  }

  const Exercise& exercise_;
  RunFolder folder_;
  std::vector<Tried> all_;
  std::vector<Batch> batches_;
};

struct Counts {
  int changes = 0, equivalent = 0, noticed = 0;
  int survivors() const { return changes - equivalent - noticed; }
  double share() const {
    return changes == equivalent ? 1.0 : double(noticed) / (changes - equivalent);
  }
};

// Prints what survives, and what exercise.json says that is not so. `wrong`: the second kind.
Counts judge(const std::vector<Tried>& all, bool& wrong) {
  Counts counts;
  std::map<const Task*, std::set<std::string>> found;
  for (const Tried& one : all) {
    if (one.fate == Fate::does_not_compile) continue;
    ++counts.changes;
    const bool equivalent = one.task->equivalent.count(one.mutant.name()) > 0;
    if (equivalent) found[one.task].insert(one.mutant.name());
    if (one.fate == Fate::noticed && equivalent)
      fmt::print("  {} calls equivalent what a case notices: {}\n", one.task->id,
                 one.mutant.name()),
          wrong = true;
    counts.noticed += one.fate == Fate::noticed;
    counts.equivalent += one.fate == Fate::survives && equivalent;
    if (one.fate == Fate::survives && !equivalent)
      fmt::print("  {} survives, {}: {}\n", one.task->id, one.mutant.kind, one.mutant.name());
  }
  for (const Tried& one : all)
    for (const auto& [name, why] : one.task->equivalent)
      if (found[one.task].insert(name).second)
        fmt::print("  {} calls equivalent what is no change of it: {}\n", one.task->id, name),
            wrong = true;
  return counts;
}

std::string row_of(const Exercise& exercise, const Counts& counts) {
  return fmt::format("| {} | {} | {} | {} | {} | {:.1f}% |", exercise.id, counts.changes,
                     counts.equivalent, counts.noticed, counts.survivors(), 100 * counts.share());
}

// Of the table's rows, that of this exercise; a new one goes to its place in the order.
void write_row(const std::string& file, const std::string& id, const std::string& row) {
  Lines lines = lines_of(read_text(file));
  const std::string begin = "| " + id.substr(0, 3);
  const auto is_row = [](const std::string& line) {
    return line.size() > 4 && line.starts_with("| ") && std::isdigit(line[2]) != 0;
  };
  auto place = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return is_row(line) && line.substr(0, begin.size()) >= begin;
  });
  if (place == lines.end()) {  // behind the last row
    place = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
              return line.starts_with("| ") || line.starts_with("|--");
            }).base();
    lines.insert(place, row);
  } else if (place->starts_with("| " + id + " ")) {
    *place = row;
  } else {
    lines.insert(place, row);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  write_text(file, text);
}

bool mutate_one(const Exercise& exercise, const std::string& task, const MutateOptions& options,
                nlohmann::json& list) {
  fmt::print("{}: {}\n", exercise.id, exercise.title);
  std::fflush(stdout);
  bool wrong = false;
  Mutation mutation(exercise, task);
  const std::vector<Tried>& all = mutation.run();
  const Counts counts = judge(all, wrong);
  fmt::print("{} of {} changes noticed ({:.1f}%), {} equivalent, {} survive\n\n", counts.noticed,
             counts.changes - counts.equivalent, 100 * counts.share(), counts.equivalent,
             counts.survivors());
  std::fflush(stdout);
  if (!options.table.empty() && task.empty())
    write_row(options.table, exercise.id, row_of(exercise, counts));
  nlohmann::json survivors = nlohmann::json::array();
  for (const Tried& one : all)
    if (one.fate == Fate::survives && one.task->equivalent.count(one.mutant.name()) == 0)
      survivors.push_back({{"task", one.task->id},
                           {"kind", one.mutant.kind},
                           {"before", one.mutant.before},
                           {"after", one.mutant.after}});
  list.push_back({{"exercise", exercise.id},
                  {"changes", counts.changes},
                  {"equivalent", counts.equivalent},
                  {"noticed", counts.noticed},
                  {"survivors", survivors}});
  return !wrong && counts.share() >= enough_noticed;
}

}  // namespace

int mutate(const MutateOptions& options) {
  if (fs::exists(YOTTA_SOURCE_DIR "/handout"))
    throw UsageError("this tree was handed out: it has no solutions to change");
  JsonOutput output(options.json);
  nlohmann::json list = nlohmann::json::array();
  bool all = true;
  if (options.name.empty()) {
    for (const Exercise& exercise : all_exercises())
      all = mutate_one(exercise, "", options, list) && all;
  } else {
    const Chosen chosen = choose_exercise(options.name);
    all = mutate_one(chosen.exercise, chosen.task, options, list);
  }
  output.write({{"exercises", list}, {"enough_noticed", all}});
  return all ? 0 : 1;
}

}  // namespace runner
