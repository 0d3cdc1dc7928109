// The bodies of device/compile/shared_object.hpp.
#pragma once

#include "yotta/device/compile/shared_object.hpp"
//
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"

extern "C" char** environ;

namespace yotta {

namespace detail {

inline bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::stringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  if (program.find('/') != program.npos) return access(program.c_str(), X_OK) == 0;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

inline std::filesystem::path users_cache() {
  if (const char* ours = std::getenv("YOTTA_CACHE")) return ours;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"))
    return std::filesystem::path(cache) / "yotta";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "/tmp" : home) / ".cache" / "yotta";
}

// What the processor can do: code for one may not run on another that shares the folder.
inline std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  return "";
}

// Runs a program; what it wrote to stderr goes to `said`. Whether it succeeded.
inline bool run_program(const std::vector<std::string>& words, const std::filesystem::path& said) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  const int failed =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  while (failed == 0 && waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What stands behind the bytes of a cached file: the source, and a hash of all before.
inline std::string trailer_of(const std::string& object, const std::string& source) {
  return source + fmt::format("{:016x}", hash_name(object + source));
}

// Whether a file is whole and was made from this source.
inline bool is_whole(const std::filesystem::path& path, const std::string& source) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::string bytes = read_file(path);
  const size_t behind = source.size() + 16;
  if (bytes.size() < behind) return false;
  const std::string object = bytes.substr(0, bytes.size() - behind);
  return bytes.substr(object.size()) == trailer_of(object, source);
}

// Compiles into the file, which appears whole or not at all.
inline void compile_into(const std::filesystem::path& path, const std::string& source,
                         const CompilerOptions& options, Where where) {
  static std::atomic<int> count = 0;
  const std::string own = fmt::format("{}.{}.{}", path.string(), getpid(), count++);
  const std::string text = own + ".cpp", made = own + ".so", said = own + ".txt";
  const auto remove = [&] {
    for (const std::string& each : {text, made, said}) std::remove(each.c_str());
  };
  write_file(text, source, where);
  std::vector<std::string> words = {options.compiler};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  for (const std::string& word :
       {std::string("-shared"), std::string("-fPIC"), text, std::string("-o"), made})
    words.push_back(word);
  words.insert(words.end(), options.libraries.begin(), options.libraries.end());
  if (!run_program(words, said)) {
    std::error_code error;
    const std::string message = std::filesystem::exists(said, error) ? read_file(said) : "";
    remove();
    fail(where, "{} does not compile a generated source; it says: {}", options.compiler, message);
  }
  const std::string object = read_file(made);
  write_file(made, object + trailer_of(object, source), where);
  std::filesystem::rename(made, path);
  remove();
}

}  // namespace detail

YOTTA_INLINE CompilerOptions compiler_here() {
  CompilerOptions options{
      "", {"-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-w"}, detail::users_cache()};
  if (const char* wanted = std::getenv("YOTTA_CXX")) {
    if (detail::is_installed(wanted)) options.compiler = wanted;
    return options;
  }
  for (const char* each : {"c++", "g++", "clang++"})
    if (options.compiler.empty() && detail::is_installed(each)) options.compiler = each;
  return options;
}

YOTTA_INLINE SharedObject::SharedObject(const std::filesystem::path& path, Where where)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) fail(where, "{} cannot be loaded: {}", path.string(), dlerror());
}
YOTTA_INLINE SharedObject::~SharedObject() { dlclose(handle_); }
YOTTA_INLINE void* SharedObject::function(const char* name, Where where) const {
  void* found = dlsym(handle_, name);
  if (found == nullptr) fail(where, "a shared object has no function {}", name);
  return found;
}

YOTTA_INLINE Compiled compile_source(const std::string& source, const CompilerOptions& options,
                                     Where where) {
  if (options.compiler.empty())
    fail(where, "there is no C++ compiler (c++, g++ or clang++, or the one in $YOTTA_CXX)");
  std::string all = options.compiler + detail::processor();
  for (const std::string& flag : options.flags) all += " " + flag;
  std::error_code error;
  std::filesystem::create_directories(options.cache, error);
  if (error)
    fail(where, "{}: no folder can be made there ({}); name another in $YOTTA_CACHE",
         options.cache.string(), error.message());
  Compiled made;
  made.file = options.cache / fmt::format("{:016x}.so", hash_name(all + source));
  made.from_cache = detail::is_whole(made.file, source);
  if (!made.from_cache) detail::compile_into(made.file, source, options, where);
  made.object = std::make_shared<SharedObject>(made.file, where);
  return made;
}

}  // namespace yotta
