#include "runner/collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/json_output.hpp"
#include "runner/progress.hpp"
#include "runner/student_folder.hpp"
#include "runner/submissions.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double unpack_seconds = 60;
constexpr size_t most_files = 1000;    // of one archive; a student's work has two for each exercise
constexpr long most_listed = 1 << 24;  // bytes of names in one archive
constexpr uintmax_t most_unpacked_bytes = most_source_bytes + 512;

// "work/10_collectives/collectives_ring.hpp", and what tells of hints.
std::vector<std::string> wanted_files(const std::string& prefix) {
  std::vector<std::string> files;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    for (const std::string& name : {exercise.file_name(), std::string(".state.json")})
      files.push_back(fmt::format("{}{}/{}", prefix, id, name));
  }
  files.push_back(prefix + "progress.json");
  return files;
}

nlohmann::json pack(const std::string& archive) {
  const fs::path work = fs::absolute(work_folder()).lexically_normal();
  std::vector<std::string> command = {"tar", "-czf", fs::absolute(archive), "-C", work};
  const size_t words = command.size();
  for (const std::string& file : wanted_files(""))
    if (fs::is_regular_file(work / file)) command.push_back(file);
  if (command.size() == words) throw std::runtime_error("there is no work yet in " + work.string());
  const Ending ending = run_limited(command, unpack_seconds);
  if (!ending.well()) throw std::runtime_error("tar could not write it: " + ending.output);
  fmt::print("{} holds {} files; hand it in.\n", archive, command.size() - words);
  return {
      {"archive", archive},
      {"files", std::vector<std::string>(command.begin() + std::ptrdiff_t(words), command.end())}};
}

// An archive that is unpacked here. "ann.tar.gz" -> "ann"; empty: it is none.
std::string stem_of_archive(const std::string& name) {
  for (const char* end : {".tar.gz", ".tgz", ".tar", ".zip"})
    if (name.ends_with(end)) return name.substr(0, name.size() - std::string(end).size());
  return "";
}

bool is_zip(const fs::path& archive) { return archive.extension() == ".zip"; }

bool is_wanted(const fs::path& name) {
  return is_source(name) || name.filename() == "progress.json" || name.filename() == ".state.json";
}

// A name in a zip that may become a file below a folder, and that unzip does not take for a
// pattern.
bool is_harmless(const fs::path& name) {
  const bool leads_out = std::find(name.begin(), name.end(), "..") != name.end();
  return !leads_out && !name.is_absolute() &&
         name.string().find_first_of("*?[]\\") == std::string::npos &&
         !name.string().starts_with("-");
}

std::vector<std::string> wanted_in_zip(const fs::path& archive) {
  const Ending listed = run_limited({"unzip", "-Z1", archive}, unpack_seconds, most_listed);
  if (listed.status == 127)
    throw std::runtime_error("unzip is not installed: apt-get install unzip");
  std::vector<std::string> names = lines_of(listed.output);
  std::erase_if(names,
                [](const std::string& name) { return !is_wanted(name) || !is_harmless(name); });
  return names;
}

// unzip writes no file itself: what a member holds comes through a pipe, and a link is then no
// link.
void unpack_zip(const fs::path& archive, const fs::path& folder) {
  const std::vector<std::string> names = wanted_in_zip(archive);
  if (names.size() > most_files)
    throw std::runtime_error(fmt::format("it has more than {} files", most_files));
  for (const std::string& name : names) {
    const fs::path file = folder / name;
    fs::create_directories(file.parent_path());
    const Ending ending = run_limited(
        {"sh", "-c",
         fmt::format("{{ {{ unzip -p \"$0\" \"$1\"; echo $? >&3; }} | head -c {} >\"$2\"; }} 3>&1 "
                     "2>/dev/null",
                     most_unpacked_bytes),
         archive, name, file},
        unpack_seconds);
    if (trimmed(ending.output) != "0" && fs::file_size(file) < most_unpacked_bytes)
      throw std::runtime_error(fmt::format("it is damaged: {} cannot be read to its end", name));
  }
}

// The names that is_wanted takes, as tar's options.
const Command& wanted_by_tar() {
  static const Command words = {"--wildcards", "--no-anchored", "--ignore-case", "*.hpp",
                                "*.h",         "*.hh",          "*.hxx",         "*.cpp",
                                "*.cc",        "*.cxx",         "*.hpp.txt",     "*.h.txt",
                                "*.cpp.txt",   "progress.json", ".state.json"};
  return words;
}

// Counted before they are unpacked, and no further than needed: a small archive may hold millions.
void expect_few_files(const fs::path& archive) {
  Command command = {
      "sh", "-c",
      fmt::format("tar -tf \"$0\" \"$@\" 2>/dev/null | head -n {} | wc -l", most_files + 1),
      archive};
  command.insert(command.end(), wanted_by_tar().begin(), wanted_by_tar().end());
  const Ending ending = run_limited(command, unpack_seconds);
  if (std::strtoul(ending.output.c_str(), nullptr, 10) > most_files)
    throw std::runtime_error(fmt::format("it has more than {} files", most_files));
}

// What is left of a damaged archive must not be graded as if it were all.
void expect_whole(const fs::path& archive) {
  const Ending ending =
      run_limited({"sh", "-c", "exec tar -tf \"$0\" >/dev/null", archive}, unpack_seconds);
  const std::string said = trimmed(ending.output);
  if (!ending.well()) throw std::runtime_error("it is damaged: " + said.substr(0, said.find('\n')));
}

// Of a file that is too large one block more comes than `grade` takes, which says so; the others
// come whole. Links in an archive stay links, which `grade` refuses if they lead out; tar itself
// follows none and drops "..".
void unpack(const fs::path& archive, const fs::path& folder) {
  fs::create_directories(folder);
  Command command = {"sh", "-c",
                     fmt::format("trap '' XFSZ; ulimit -f {}; a=$0; p=$1; shift; exec tar -xf "
                                 "\"$a\" -C \"$p\" --no-same-owner --warning=none \"$@\"",
                                 most_unpacked_bytes / 512),
                     archive, folder};
  command.insert(command.end(), wanted_by_tar().begin(), wanted_by_tar().end());
  run_limited(command, unpack_seconds);  // which complains of each name that is not there
}

bool holds_work(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_symlink() || !entry.is_directory()) return true;
  return false;
}

// An archive may be of the tree, of work/ or of what is in it: the folder with the exercises
// becomes the student's work/.
void straighten(const fs::path& folder) {
  const std::vector<std::string> ids = find_exercises(YOTTA_SOURCE_DIR);
  const fs::path usual = folder / "work";
  const auto is_exercise = [&](const std::string& id) { return fs::is_directory(usual / id); };
  if (std::any_of(ids.begin(), ids.end(), is_exercise)) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || std::find(ids.begin(), ids.end(), name) == ids.end()) continue;
    const fs::path holds = entry.path().parent_path();
    if (holds == folder) return;
    // Of the course's tree, not the student's work.
    if (holds.filename() == "exercises" || holds.filename() == "lessons") continue;
    if (fs::exists(fs::symlink_status(usual)))
      throw std::runtime_error(fmt::format("it has {} beside work/: which of the two counts?",
                                           holds.lexically_relative(folder).string()));
    return fs::rename(holds, usual);
  }
}

// One archive that is wrong stops no other. Empty, or why nothing was taken.
std::string unpack_one(const fs::path& archive, const fs::path& place) {
  std::string why;
  try {
    if (is_zip(archive)) {
      unpack_zip(archive, place);
    } else {
      expect_whole(archive);
      expect_few_files(archive);
      unpack(archive, place);
    }
    if (holds_work(place)) return straighten(place), "";
  } catch (const std::exception& error) {
    why = fmt::format(": {}", error.what());
  }
  std::error_code ignored;
  fs::remove_all(place, ignored);
  return fmt::format("nothing could be taken from {}{}", archive.string(), why);
}

// What somebody has handed in.
struct Item {
  fs::path file;  // where it lies
  fs::path own;   // its name, or path, without what the platform adds
  bool is_readable_archive() const { return !stem_of_archive(own.filename()).empty(); }
};
using Items = std::vector<Item>;

// "anna" of anna.tar.xz and of anna.hpp.txt.
std::string without_endings(const fs::path& name) {
  const fs::path stem = name.stem();
  return is_archive(stem) || is_source(stem) ? stem.stem() : stem;
}

// Those that lie in the folder are named after the student; of those further down the folder in it
// is.
std::map<std::string, Items> items_in(const std::string& folder, const std::string& out) {
  std::map<std::string, Items> all;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (is_system_file(name) || fs::equivalent(entry.path(), out, ignored)) continue;
    PlatformName parts = platform_name(name);
    if (entry.is_symlink() || !entry.is_directory()) {
      if (parts.student == name) parts.student = without_endings(name);
      if (!is_source(parts.own) && stem_of_archive(parts.own).empty()) parts.own = name;
      all[parts.student].push_back({entry.path(), parts.own});
      continue;
    }
    for (auto at = fs::recursive_directory_iterator(entry.path());
         at != fs::recursive_directory_iterator(); ++at) {
      const bool folder_there = !at->is_symlink() && at->is_directory();
      if (is_system_file(at->path().filename())) {
        if (folder_there) at.disable_recursion_pending();
      } else if (!folder_there) {
        all[parts.student].push_back({at->path(), at->path().lexically_relative(entry.path())});
      }
    }
  }
  if (all.empty())
    throw std::runtime_error(folder +
                             " holds nothing; expected STUDENT.tar.gz, .tgz, .tar or .zip, "
                             "STUDENT_45_678_header.hpp, or STUDENT/ with one of them in it");
  for (auto& [student, items] : all)
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.file < b.file; });
  return all;
}

// "yotta-work-2.zip" was handed in after "yotta-work.zip"; else the file's time tells.
bool is_older(const Item& a, const Item& b) {
  const auto key = [](const Item& item) {
    static const std::regex number(R"([-_ (](\d{1,6})\)?$)");
    std::smatch found;
    const std::string stem = stem_of_archive(item.own.filename());
    const int which = std::regex_search(stem, found, number) ? std::stoi(found[1]) : 0;
    return std::tuple(which, fs::last_write_time(item.file), item.file);
  };
  return key(a) < key(b);
}

// Takes in what one student has handed in, and keeps a row of each thing.
class Taking {
 public:
  Taking(const std::string& student, const Items& items, const fs::path& out)
      : student_(student), items_(items), place_(out / student) {}

  void run() {
    if (is_there_already()) {
      for (const Item& item : items_)
        refuse(item, fmt::format("{} is there already, and {} was left alone", place_.string(),
                                 item.file.string()));
      return;
    }
    std::error_code ignored;
    fs::remove_all(place_, ignored);
    take_archives();
    for (const Item& item : items_)
      if (!item.is_readable_archive()) take_file(item);
    if (!fs::exists(place_)) say_there_why();
  }
  nlohmann::json taken = nlohmann::json::array(), refused = taken, left = taken;

 private:
  // What an earlier call could not take is no work.
  bool is_there_already() const {
    if (!fs::exists(place_)) return false;
    const auto entries = fs::directory_iterator(place_);
    return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
      return entry.path().filename() != not_taken_file;
    });
  }
  nlohmann::json row(const Item& item) const {
    return {{"student", student_}, {"archive", item.file.string()}};
  }
  void refuse(const Item& item, const std::string& why) {
    fmt::print(stderr, "yotta: {}\n", why);
    refused.push_back(row(item));
    refused.back()["why"] = why;
    whys_ += why + "\n";
  }
  void leave(const Item& item, const std::string& why) {
    fmt::print("{}: {}\n", item.file.string(), why);
    left.push_back(row(item));
    left.back()["why"] = why;
    whys_ += item.file.string() + ": " + why + "\n";
  }

  // The last that was handed in; of those before it is said that they were not taken.
  void take_archives() {
    Items archives;
    std::copy_if(items_.begin(), items_.end(), std::back_inserter(archives),
                 [](const Item& item) { return item.is_readable_archive(); });
    std::sort(archives.begin(), archives.end(), is_older);
    for (; !archives.empty(); archives.pop_back()) {
      const Item& last = archives.back();
      const std::string why = fs::exists(place_) ? "" : unpack_one(fs::absolute(last.file), place_);
      if (!why.empty()) {
        refuse(last, why);
      } else if (taken.empty()) {
        taken.push_back(row(last));
      } else {
        leave(last, fmt::format("an older version; {} was taken",
                                taken[0].at("archive").get<std::string>()));
      }
    }
  }

  void take_file(const Item& item) {
    const bool regular = !fs::is_symlink(item.file) && fs::is_regular_file(item.file);
    if (regular && is_wanted(item.own)) {
      fs::path to = place_ / item.own;
      for (int i = 2; fs::exists(to); ++i)  // handed in twice: both are there
        to = place_ / fmt::format("version {}", i) / item.own;
      fs::create_directories(to.parent_path());
      fs::copy_file(item.file, to);
      fs::last_write_time(to, fs::last_write_time(item.file));
      if (fs::file_size(to) > most_unpacked_bytes) fs::resize_file(to, most_unpacked_bytes);
      taken.push_back(row(item));
    } else if (is_archive(item.own)) {
      refuse(item, item.file.string() +
                       " cannot be unpacked here: ask for a .zip or a .tar.gz, or unpack it to " +
                       place_.string());
    } else if (!regular) {
      refuse(item, item.file.string() + " is not a regular file");
    } else if (fs::exists(place_)) {
      leave(item, "not taken: it is no C++");
    } else {
      refuse(item, item.file.string() + " was not taken: it is neither C++ nor an archive");
    }
  }

  // So that `grade` has a row of this student, which nobody takes for a 0.
  void say_there_why() {
    fs::create_directories(place_);
    write_text((place_ / not_taken_file).string(), whys_);
  }

  std::string student_;
  const Items& items_;
  fs::path place_;
  std::string whys_;
};

void append(nlohmann::json& all, const nlohmann::json& more) {
  all.insert(all.end(), more.begin(), more.end());
}

bool names_archive(const nlohmann::json& row) {
  return !stem_of_archive(row.at("archive").get<std::string>()).empty();
}

nlohmann::json take_in(const std::string& folder, const std::string& out) {
  nlohmann::json taken = nlohmann::json::array(), refused = taken, left = taken;
  for (const auto& [student, items] : items_in(folder, out)) {
    Taking taking(student, items, fs::absolute(out));
    taking.run();
    append(taken, taking.taken), append(refused, taking.refused), append(left, taking.left);
  }
  const auto archives = std::count_if(taken.begin(), taken.end(), names_archive);
  const auto files = std::ssize(taken) - archives;
  fmt::print("{} of {} archives unpacked to {}{}\n", archives,
             archives + std::count_if(refused.begin(), refused.end(), names_archive), out,
             files == 0 ? "" : fmt::format(", and {} files copied", files));
  return {{"folder", out}, {"taken", taken}, {"refused", refused}, {"left", left}};
}

}  // namespace

int collect(const CollectOptions& options) {
  try {
    if (!options.folder.empty() && !fs::is_directory(options.folder))
      throw std::runtime_error("there is no folder " + options.folder);
    if (!options.folder.empty() && options.out.empty())
      throw std::runtime_error("--out must name the class's folder, which gets the work");
    JsonOutput json(options.json);
    const nlohmann::json done = options.folder.empty()
                                    ? pack(options.out.empty() ? "yotta-work.tar.gz" : options.out)
                                    : take_in(options.folder, options.out);
    json.write(done);
    return done.value("refused", nlohmann::json::array()).empty() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 2;
  }
}

}  // namespace runner
