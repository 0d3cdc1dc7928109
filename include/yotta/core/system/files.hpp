// Files: read whole or in pieces, and written so that nobody ever sees half of one.
//
//     write   model.safetensors.partial  |#####.....|  a crash here leaves the old file as it was
//     fsync   model.safetensors.partial  |##########|  now the bytes are on the disk
//     rename  -> model.safetensors                     one step: either the old file or the new one
//
// A run that is killed while it saves must find a whole checkpoint when it starts again. POSIX
// promises that rename replaces a name at once; fsync before it keeps a power cut from leaving a
// new name on old blocks. For several files that belong together a list of their names is written
// last, in one step:
//
//     killed before the list is there    the old files count; partial ones are leftovers
//     killed after                       the new files count; whoever comes next renames the rest
//
// A symbolic link stays and what it leads to is replaced. What is no plain file (a pipe, a device)
// is never replaced: it is written into.
// Reference: Pillai et al., "All file systems are not created equal", OSDI 2014.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "yotta/core/error.hpp"
#include "yotta/core/system/file_size_signal.hpp"

namespace yotta {

// A file that is read at given places; every failure names the file.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path, Where where = Where::current())
      : path_(std::move(path)) {
    std::error_code error;
    const auto kind = std::filesystem::status(path_, error).type();
    if (kind == std::filesystem::file_type::not_found)
      fail(where, "{}: there is no such file; check the spelling and the current folder", name());
    if (kind == std::filesystem::file_type::directory)
      fail(where, "{}: this is a folder, and a file is expected", name());
    if (!error && kind != std::filesystem::file_type::regular)  // to open a pipe may wait forever
      fail(where, "{}: this is no plain file; copy what it holds into one", name());
    stream_.open(path_, std::ios::binary);
    if (error || !stream_)
      fail(where, "{}: this file cannot be opened for reading (ls -l shows its permissions)",
           name());
    size_ = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  }

  std::string name() const { return path_.string(); }
  int64_t size() const { return size_; }

  // Exactly `count` bytes, from byte `offset` on.
  void read(int64_t offset, void* to, int64_t count, Where where = Where::current()) {
    stream_.clear();
    stream_.seekg(offset);
    stream_.read(static_cast<char*>(to), count);
    if (stream_.gcount() != count)
      fail(where, "{}: {} bytes were expected from byte {} on, and {} could be read", name(), count,
           offset, stream_.gcount());
  }

  // The whole file from its beginning, whatever size the file system claims.
  std::string read_all(Where where = Where::current()) {
    constexpr size_t piece = 1 << 16;
    std::string text;
    stream_.clear();
    stream_.seekg(0);
    for (std::streamsize got = piece; got == static_cast<std::streamsize>(piece);) {
      const size_t before = text.size();
      text.resize(before + piece);
      stream_.read(text.data() + before, piece);
      got = stream_.gcount();
      text.resize(before + static_cast<size_t>(got));
    }
    if (stream_.bad()) fail(where, "{}: reading failed after {} bytes", name(), text.size());
    return text;
  }

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  int64_t size_ = 0;
};

// All bytes of a file. Errors: it is not there, or cannot be read.
inline std::string read_file(const std::filesystem::path& path, Where where = Where::current()) {
  return InputFile(path, where).read_all(where);
}

// ---- writing ------------------------------------------------------------------------------------

// Names last through a power cut only when their folder is synced too (where the system can do
// that).
inline void sync_folder(const std::filesystem::path& folder) {
  const int handle = open(folder.c_str(), O_RDONLY);
  if (handle < 0) return;
  static_cast<void>(fsync(handle));
  close(handle);
}

// What a file is called until it is complete.
inline std::filesystem::path partial_name(const std::filesystem::path& path) {
  return path.string() + ".partial";
}

// Where symbolic links lead, whether or not something is there.
inline std::filesystem::path behind_links(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path;
}

// Whether there is a pipe, a device, or whatever else a new file must not take the place of.
inline bool is_special(const std::filesystem::path& path) {
  using std::filesystem::file_type;
  std::error_code error;
  const file_type kind = std::filesystem::status(path, error).type();
  return kind != file_type::not_found && kind != file_type::regular && kind != file_type::directory;
}

// A file that appears under its name, whole, when commit() is called; dropped before, it never was.
// What is special gets the bytes as they come.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Where where = Where::current())
      : name_(path.filename().string()),
        special_(is_special(path)),
        path_(special_ ? path : behind_links(path)),
        partial_(special_ ? path : partial_name(path_)) {
    file_ = std::fopen(partial_.c_str(), "wb");
    if (file_ == nullptr) give_up("cannot be created", where);
  }
  ~AtomicFile() {
    const FileSizeSignal held;
    if (file_ != nullptr) std::fclose(file_);
    if (!special_ && !kept_) std::remove(partial_.c_str());
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& file_name() const { return name_; }

  void write(const void* from, int64_t count, Where where = Where::current()) {
    const FileSizeSignal held;
    const size_t bytes = static_cast<size_t>(count);
    if (bytes > 0 && std::fwrite(from, 1, bytes, file_) != bytes)
      give_up("cannot be written", where);
  }
  // All bytes are on the disk, under the partial name.
  void finish(Where where = Where::current()) {
    const FileSizeSignal held;
    const bool synced = std::fflush(file_) == 0 && (special_ || fsync(fileno(file_)) == 0);
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!synced || !closed) give_up("cannot be written", where);
  }
  void commit(Where where = Where::current()) {
    finish(where);
    if (special_) return;
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) give_up("cannot be put in place", where);
    keep();
    sync_folder(std::filesystem::absolute(path_).parent_path());
  }
  // The partial file stays when this is dropped.
  void keep() { kept_ = true; }

 private:
  [[noreturn]] void give_up(const char* what, Where where) const {
    if (errno == EFBIG)
      fail(where, "{} {}: it is longer than this process may write; raise the limit (ulimit -f)",
           path_.string(), what);
    const std::string reason = std::strerror(errno);
    fail(where, "{} {}: {}; is there space, and may you write there?", path_.string(), what,
         reason);
  }

  std::string name_;
  bool special_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::FILE* file_ = nullptr;
  bool kept_ = false;
};

// The whole text, or the file stays as it was. Errors: it cannot be written.
inline void write_file(const std::filesystem::path& path, const std::string& text,
                       Where where = Where::current()) {
  AtomicFile file(path, where);
  file.write(text.data(), static_cast<int64_t>(text.size()), where);
  file.commit(where);
}

// Throws now, and not after hours of work, if no file can be written at this path. Nothing is left
// there.
inline void expect_writable(const std::filesystem::path& path, Where where = Where::current()) {
  if (is_special(path)) {  // to open a pipe may wait forever
    if (access(path.c_str(), W_OK) != 0)
      fail(where, "{} cannot be written: {}", path.string(), std::strerror(errno));
    return;
  }
  if (std::filesystem::is_directory(path))
    fail(where, "{}: this is a folder, and a file is to be written", path.string());
  const AtomicFile probe(path, where);
}

// ---- several files that change together ---------------------------------------------------------

// Keeps others from saving to a folder for as long as it lives. The system takes the lock (flock)
// away with the process, however that ends. A folder that has no locks (read-only, some network
// disks) is never busy.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : handle_(open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (handle_ < 0) return;
    if (flock(handle_, LOCK_EX | LOCK_NB) == 0) {
      holder_ = getpid();
      const std::string mine = std::to_string(holder_) + "\n";
      if (ftruncate(handle_, 0) == 0) static_cast<void>(!write(handle_, mine.data(), mine.size()));
    } else if (errno == EWOULDBLOCK) {
      char text[20] = {};
      static_cast<void>(!read(handle_, text, sizeof text - 1));
      holder_ = std::atol(text);
      busy_ = true;
    }
  }
  ~FolderLock() {
    if (handle_ >= 0) close(handle_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool busy() const { return busy_; }      // another has it
  long holder() const { return holder_; }  // the number of the process that has it

 private:
  int handle_;
  bool busy_ = false;
  long holder_ = 0;
};

// Which partial files are complete and count from now on; gone when all have their names.
inline constexpr const char* commit_list = "commit.list";

namespace detail {
// Give the files of a commit list their names. The folder's lock is held.
inline void put_in_place(const std::filesystem::path& folder) {
  std::ifstream list(folder / commit_list);
  if (!list) return;
  std::error_code error;
  bool done = true;
  for (std::string name; std::getline(list, name);) {
    const std::filesystem::path path =
        behind_links(folder / std::filesystem::path(name).filename());
    std::filesystem::rename(partial_name(path), path, error);
    done = done && !std::filesystem::exists(partial_name(path));
    sync_folder(std::filesystem::absolute(path).parent_path());
  }
  if (done) std::filesystem::remove(folder / commit_list, error);
}
}  // namespace detail

// Call it before reading or writing such a folder: if a save was cut short after its list was
// written, this ends it. Several threads and processes may; whoever has the lock is about to do it,
// and is waited for.
inline void finish_commit(const std::filesystem::path& folder) {
  for (int wait = 0; wait < 1000 && std::filesystem::exists(folder / commit_list); ++wait) {
    if (const FolderLock lock(folder); !lock.busy()) return detail::put_in_place(folder);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Put all files of a folder in place, or none: the list is the one step that decides. One run at a
// time: FolderLock.
inline void commit_together(const std::filesystem::path& folder, std::list<AtomicFile>& files,
                            Where where = Where::current()) {
  std::string names;
  for (AtomicFile& file : files) {
    file.finish(where);
    names += file.file_name() + "\n";
  }
  write_file(folder / commit_list, names, where);
  for (AtomicFile& file : files) file.keep();
  detail::put_in_place(folder);
  if (std::filesystem::exists(folder / commit_list))
    fail(where,
         "{}: not all files named in {} can be put in place; make way for them, and the next "
         "load or save will end this one",
         folder.string(), commit_list);
}

}  // namespace yotta
