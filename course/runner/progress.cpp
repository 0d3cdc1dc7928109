#include "runner/progress.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "runner/json_output.hpp"
#include "runner/verdict.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

nlohmann::json read_json(const std::string& path) {
  return fs::is_regular_file(path)
             ? nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false)
             : nlohmann::json();
}

nlohmann::json object(const nlohmann::json& json) {
  return json.is_object() ? json : nlohmann::json::object();
}

// The entry of an exercise in the progress.json of a work folder.
nlohmann::json entry_in(const std::string& work, const std::string& id) {
  return object(object(object(read_json(work + "/progress.json"))["exercises"])[id]);
}

std::string old_state(const fs::path& folder) { return folder / ".state.json"; }

// As older versions kept it: the whole starter, and "hints 10.1" for each task.
nlohmann::json from_old(const nlohmann::json& old) {
  nlohmann::json entry = nlohmann::json::object();
  const nlohmann::json fields = object(old);
  const std::string hints = "hints ";
  for (const auto& [key, value] : fields.items()) {
    if (key.starts_with(hints))
      entry["hints"][key.substr(hints.size())] = value;
    else if (key == "starter" && value.is_string())
      entry[key] = print_of(value.get<std::string>());
    else
      entry[key] = value;
  }
  return entry;
}

[[noreturn]] void cannot_write(const std::string& path) {
  throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

// Whoever reads `path` finds the old text or the new one, also when the machine stops meanwhile.
void write_whole(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(fresh);
  size_t done = 0;
  for (ssize_t more = 0; done < text.size(); done += static_cast<size_t>(more)) {
    more = write(file, text.data() + done, text.size() - done);
    if (more < 0 && errno == EINTR) more = 0;
    if (more < 0) break;
  }
  const bool well = done == text.size() && fsync(file) == 0;
  if (close(file) != 0 || !well || rename(fresh.c_str(), path.c_str()) != 0) cannot_write(path);
}

std::string progress_file() { return work_folder() + "/progress.json"; }

std::string lock_file() {
  std::error_code error;
  fs::create_directories(work_folder(), error);
  if (error)
    throw std::runtime_error(fmt::format(
        "cannot make the folder {} for your work: {}. The variable YOTTA_WORK names another one",
        work_folder(), error.message()));
  const std::string lock = work_folder() + "/.progress.lock";
  if (!fs::exists(lock) ? access(work_folder().c_str(), W_OK) != 0
                        : access(lock.c_str(), W_OK) != 0)
    throw std::runtime_error(fmt::format(
        "cannot write to {}, where your work and its points are kept: {}. The variable YOTTA_WORK "
        "names another folder",
        work_folder(), std::strerror(errno)));
  return lock;
}

// Under the lock. A file that is no JSON is kept beside it, and a new one is begun.
void change(const std::function<void(nlohmann::json&)>& by) {
  nlohmann::json all = read_json(progress_file());
  if (!all.is_object() && fs::exists(progress_file()))
    fmt::print(stderr, "yotta: {} is damaged; it was kept as {}, and a new one is begun\n",
               relative(progress_file()), relative(keep_copy(progress_file())));
  all = object(all);
  by(all);
  write_whole(progress_file(), json_text(all));
}

}  // namespace

std::string last_compiled() {
  const char* const key = std::getenv("YOTTA_VARIANT");
  const bool none = key == nullptr || *key == '\0';
  return none ? "last compiled" : "last compiled by " + print_of(key);
}

std::string print_of(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

Progress::Progress(const nlohmann::json& entry) : json_(object(entry)) {}

std::string Progress::text(const char* key) const {
  return json_.contains(key) && json_[key].is_string() ? json_[key].get<std::string>() : "";
}

int Progress::hints(const std::string& task) const {
  const nlohmann::json count = object(value("hints")).value(task, nlohmann::json());
  return count.is_number_unsigned()
             ? static_cast<int>(std::min(count.get<uint64_t>(), uint64_t{99}))
             : 0;
}

std::string Progress::open_task(const Exercise& exercise) const {
  const std::string task = text("open task");
  const bool known =
      task == no_open_task || std::any_of(exercise.tasks.begin(), exercise.tasks.end(),
                                          [&](const Task& one) { return one.id == task; });
  return known || exercise.tasks.empty() ? task : exercise.tasks.front().id;
}

std::optional<Grade> Progress::grade(const Exercise& exercise) const {
  return grade_of_kept(exercise,
                       object(value(last_compiled().c_str())).value("tasks", nlohmann::json()));
}

std::string Progress::graded_when() const {
  const nlohmann::json when =
      object(value(last_compiled().c_str())).value("when", nlohmann::json());
  return when.is_string() ? printable(when) : "";
}

std::string work_folder() {
  const char* const elsewhere = std::getenv("YOTTA_WORK");
  const bool named = elsewhere != nullptr && *elsewhere != '\0';
  return fs::absolute(named ? elsewhere : YOTTA_SOURCE_DIR "/work").string();
}

Progress read_progress(const Exercise& exercise) {
  const fs::path folder = fs::path(exercise.work_copy()).parent_path();
  const nlohmann::json old = read_json(old_state(folder));
  return Progress(old.is_object() ? from_old(old) : entry_in(work_folder(), exercise.id));
}

std::optional<Progress> progress_beside(const Exercise& exercise, const std::string& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (fs::is_regular_file(old_state(folder)))
    return Progress(from_old(read_json(old_state(folder))));
  const nlohmann::json entry = entry_in(folder.parent_path(), exercise.id);
  if (folder.filename() != exercise.id || entry.empty()) return {};
  return Progress(entry);
}

OwnProgress::OwnProgress(const Exercise& exercise)
    : FileLock(lock_file()),
      Progress(entry_in(work_folder(), exercise.id)),
      id_(exercise.id),
      old_file_(old_state(fs::path(exercise.work_copy()).parent_path())) {
  if (fs::is_regular_file(old_file_)) take_over();
}

// The file of an older version is gone once what it held is written here.
void OwnProgress::take_over() {
  json_.update(from_old(read_json(old_file_)));
  save();
  fs::remove(old_file_);
}

void OwnProgress::save() {
  change([&](nlohmann::json& all) {
    all["exercises"] = object(all["exercises"]);
    all["exercises"][id_] = json_;
  });
}

void OwnProgress::set(const std::string& key, const nlohmann::json& value) {
  json_[key] = value;
  save();
}

void OwnProgress::set_hints(const std::string& task, int count) {
  nlohmann::json hints = object(value("hints"));
  hints[task] = count;
  set("hints", hints);
}

std::string current_exercise() {
  const nlohmann::json current =
      object(read_json(progress_file())).value("current", nlohmann::json());
  return current.is_string() ? current.get<std::string>() : "";
}

void set_current_exercise(const std::string& id) {
  const FileLock lock(lock_file());
  change([&](nlohmann::json& all) { all["current"] = id; });
}

}  // namespace runner
