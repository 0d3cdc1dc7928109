// What runs of the runner share, and what each has of its own.
#pragma once

#include <memory>
#include <string>

namespace runner {

// Waits for a file's lock and holds it to the end of the object. Programs that are started
// meanwhile hold it too: so when this one is killed, what it has been building is still waited for.
// Where files have no locks it does nothing.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  static bool is_free(const std::string& path);
  // Waits for nobody. Null: somebody else holds it.
  static std::unique_ptr<FileLock> if_free(const std::string& path);

 private:
  struct Held {
    int file;
  };
  explicit FileLock(Held held) : file_(held.file) {}
  int file_;
};

// Held by whoever builds in the build folder; ./yotta takes the same. Two Ninjas in one folder
// spoil it.
std::string build_lock();
// What Ninja says meanwhile.
std::string build_output();
// "building, 12 of 340" from what Ninja has said so far; empty before its first step.
std::string building(const std::string& ninja_said);
// The same of whoever builds in the build folder now; empty: nobody does.
std::string building_now();

// A folder of its own for one run, gone at the object's end. Removes what killed runs have left
// beside it.
class RunFolder {
 public:
  explicit RunFolder(const std::string& parent);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<FileLock> alive_;
};

// Copies a file to FILE.before, FILE.before.2, ...: the first name that is free. Returns the copy's
// path.
std::string keep_copy(const std::string& file);

}  // namespace runner
