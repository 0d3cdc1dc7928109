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
//     killed after                       the new files count; the next save renames the rest, and
//                                        until then a load reads the partial files
//
// A symbolic link stays and what it leads to is replaced. Another kind of file (a pipe, a device)
// is never replaced: it is written into. Under the names that only this file makes (partial ones,
// the list, the lock) no link is followed: it could lead to a file of somebody else's.
// Reference: Pillai et al., "All file systems are not created equal", OSDI 2014.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/file_size_signal.hpp"

namespace yotta {

// ---- reading ------------------------------------------------------------------------------------

// An open file's number, closed when this is dropped; below 0 if it could not be opened.
class FileHandle {
 public:
  explicit FileHandle(int number = -1) : number_(number) {}
  ~FileHandle() {
    if (number_ >= 0) close(number_);
  }
  FileHandle(FileHandle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

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

// Which partial files are complete and count from now on; gone when all have their names.
inline constexpr const char* commit_list = "commit.list";

namespace detail {
// What is at a path instead of a plain file, and what to do; empty if one is, or nothing.
inline std::string not_plain(const std::filesystem::path& path) {
  using std::filesystem::file_type;
  std::error_code error;
  const file_type kind = std::filesystem::status(path, error).type();
  if (error == std::errc::too_many_symbolic_link_levels)
    return "its links lead in a circle; delete one of them";
  if (kind == file_type::directory) return "this is a folder, and a file is expected";
  if (error || kind == file_type::regular || kind == file_type::not_found) return "";
  // To open a pipe may wait forever.
  return "this is not a plain file; copy what it holds into one";
}

inline bool is_plain(const FileHandle& handle) {
  struct stat about = {};
  return fstat(handle.number(), &about) == 0 && S_ISREG(about.st_mode);
}

// As many bytes as there are from `offset` on, `count` at most; below 0 if reading fails.
inline int64_t read_at(const FileHandle& handle, int64_t offset, void* to, int64_t count) {
  int64_t done = 0;
  while (done < count) {
    const ssize_t got = pread(handle.number(), static_cast<char*>(to) + done,
                              static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return done > 0 ? done : -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

// The names in a folder's commit list; none if there is no list of ours.
inline std::vector<std::string> names_to_commit(const std::filesystem::path& folder) {
  const FileHandle list(
      open((folder / commit_list).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!list.is_open() || !is_plain(list)) return {};
  std::string text(1 << 16, ' ');  // some names of files
  text.resize(static_cast<size_t>(
      std::max(int64_t{0}, read_at(list, 0, text.data(), static_cast<int64_t>(text.size())))));
  std::vector<std::string> names;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    names.push_back(std::filesystem::path(text.substr(begin, end - begin)).filename());
  return names;
}
}  // namespace detail

// Where the bytes lie that count under this path: at its partial name if a save was decided and cut
// short before it was put in place, else at the path. Changes nothing on the disk.
inline std::filesystem::path saved_path(const std::filesystem::path& path) {
  std::error_code error;
  for (const std::string& name : detail::names_to_commit(path.parent_path())) {
    const std::filesystem::path partial = partial_name(behind_links(path));
    if (name == path.filename() && std::filesystem::symlink_status(partial, error).type() ==
                                       std::filesystem::file_type::regular)
      return partial;
  }
  return path;
}

// A file that is read at given places; every failure names the file. Opening it changes nothing.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path, Where where = Where::current())
      : path_(std::move(path)) {
    expect_something_plain(where);
    handle_ = FileHandle(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!handle_.is_open() || !detail::is_plain(handle_)) {
      expect_something_plain(where);  // it may have changed meanwhile
      fail(where, "{}: this file cannot be opened for reading (ls -l shows its permissions)",
           name());
    }
    std::error_code error;
    size_ = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  }
  // The bytes that count under a name of a folder of saves (saved_path), also while another run
  // puts them in place.
  static InputFile saved(const std::filesystem::path& path, Where where = Where::current()) {
    for (int tries = 0; tries < 100; ++tries) {
      const std::filesystem::path from = saved_path(path);
      if (from == path) break;
      const FileHandle probe(open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (!probe.is_open()) continue;
      InputFile file(from, where);
      if (saved_path(path) == from) return file;  // complete, and not one of the next save
    }
    return InputFile(path, where);
  }

  std::string name() const { return path_.string(); }
  int64_t size() const { return size_; }

  // Exactly `count` bytes, from byte `offset` on.
  void read(int64_t offset, void* to, int64_t count, Where where = Where::current()) {
    const int64_t got = detail::read_at(handle_, offset, to, count);
    if (got != count)
      fail(where, "{}: {} bytes were expected from byte {} on, and {} could be read", name(), count,
           offset, std::max(int64_t{0}, got));
  }

  // The whole file from its beginning, whatever size the file system claims.
  std::string read_all(Where where = Where::current()) {
    constexpr int64_t piece = 1 << 16;
    std::string text;
    for (int64_t got = piece; got == piece;) {
      const size_t before = text.size();
      text.resize(before + static_cast<size_t>(piece));
      got = detail::read_at(handle_, static_cast<int64_t>(before), text.data() + before, piece);
      if (got < 0) fail(where, "{}: reading failed after {} bytes", name(), before);
      text.resize(before + static_cast<size_t>(got));
    }
    return text;
  }

 private:
  void expect_something_plain(Where where) const {
    std::error_code error;
    if (std::filesystem::status(path_, error).type() == std::filesystem::file_type::not_found)
      fail(where, "{}: there is no such file; check the spelling and the current folder", name());
    const std::string problem = detail::not_plain(path_);
    if (!problem.empty()) fail(where, "{}: {}", name(), problem);
  }

  std::filesystem::path path_;
  FileHandle handle_;
  int64_t size_ = 0;
};

// All bytes of a file. Errors: it is not there, or cannot be read.
inline std::string read_file(const std::filesystem::path& path, Where where = Where::current()) {
  return InputFile(path, where).read_all(where);
}

// The same of a file in a folder of saves: the bytes that count.
inline std::string read_saved(const std::filesystem::path& path, Where where = Where::current()) {
  return InputFile::saved(path, where).read_all(where);
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
    file_ = special_ ? std::fopen(partial_.c_str(), "wb") : create_partial();
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
  // A new file, whatever has its name: what a killed run left, or a link that somebody planted.
  std::FILE* create_partial() const {
    if (unlink(partial_.c_str()) != 0 && errno != ENOENT) return nullptr;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int handle = open(partial_.c_str(), flags, 0666);
    return handle < 0 ? nullptr : fdopen(handle, "wb");
  }
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
    fail(where, "{} is a folder: give the path of a file to write", path.string());
  const AtomicFile probe(path, where);
}

// Throws unless a plain file is at a path, or a link that leads to one, or nothing yet.
inline void expect_plain(const std::filesystem::path& path, Where where = Where::current()) {
  const std::string problem = detail::not_plain(path);
  if (!problem.empty()) fail(where, "{}: {}", path.string(), problem);
}

// ---- several files that change together ---------------------------------------------------------

namespace detail {
inline void expect_no_link(const std::filesystem::path& path, Where where) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error))
    fail(where, "{}: this is a link, which is not followed; delete it", path.string());
}
}  // namespace detail

// Keeps others from saving to a folder for as long as it lives. The system takes the lock (flock)
// away with the process, however that ends. A folder that has no locks (read-only, some network
// disks) is never busy. Errors: the lock's name is taken by something that is not ours.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder, Where where = Where::current())
      : handle_(open((folder / ".lock").c_str(),
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)) {
    expect_own(folder / ".lock", where);
    if (!handle_.is_open()) return;
    const int number = handle_.number();
    if (flock(number, LOCK_EX | LOCK_NB) == 0) {
      holder_ = getpid();
      const std::string mine = std::to_string(holder_) + "\n";
      if (ftruncate(number, 0) == 0) static_cast<void>(!write(number, mine.data(), mine.size()));
    } else if (errno == EWOULDBLOCK) {
      char text[20] = {};
      static_cast<void>(!read(number, text, sizeof text - 1));
      holder_ = std::atol(text);
      busy_ = true;
    }
  }

  bool busy() const { return busy_; }      // another has it
  long holder() const { return holder_; }  // the number of the process that has it

 private:
  void expect_own(const std::filesystem::path& lock, Where where) const {
    detail::expect_no_link(lock, where);
    expect_plain(lock, where);
    struct stat about = {};
    if (handle_.is_open() && fstat(handle_.number(), &about) == 0 && about.st_nlink > 1)
      fail(where, "{}: this file has another name, too, and is not written; delete this one",
           lock.string());
  }

  FileHandle handle_;
  bool busy_ = false;
  long holder_ = 0;
};

namespace detail {
// Give the files of a commit list their names. The folder's lock is held.
inline void put_in_place(const std::filesystem::path& folder) {
  const std::vector<std::string> names = names_to_commit(folder);
  std::error_code error;
  bool done = !names.empty();
  for (const std::string& name : names) {
    const std::filesystem::path path = behind_links(folder / name), partial = partial_name(path);
    if (std::filesystem::is_symlink(partial, error)) std::filesystem::remove(partial, error);
    std::filesystem::rename(partial, path, error);
    done = done && !std::filesystem::exists(partial);
    sync_folder(std::filesystem::absolute(path).parent_path());
  }
  if (done) std::filesystem::remove(folder / commit_list, error);
}
}  // namespace detail

// Call it before writing such a folder: if a save was cut short after its list was written, this
// ends it. Several threads and processes may call it: one holds the lock and does it, and the
// others wait. A load calls saved_path instead, and writes nothing.
inline void finish_commit(const std::filesystem::path& folder, Where where = Where::current()) {
  for (int wait = 0; wait < 1000 && !detail::names_to_commit(folder).empty(); ++wait) {
    if (const FolderLock lock(folder, where); !lock.busy()) return detail::put_in_place(folder);
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
  detail::expect_no_link(folder / commit_list, where);
  write_file(folder / commit_list, names, where);
  for (AtomicFile& file : files) file.keep();
  detail::put_in_place(folder);
  if (std::filesystem::exists(folder / commit_list))
    fail(where,
         "{}: not all files named in {} can be put in place; make way for them, and the next "
         "save will end this one",
         folder.string(), commit_list);
}

}  // namespace yotta
