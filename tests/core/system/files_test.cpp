#include "yotta/core/system/files.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;
namespace fs = std::filesystem;

TEST_CASE("what is written is read, whole and in pieces") {
  const TemporaryFolder folder;
  const std::string text(200'001, 'x');  // more than one piece
  for (const std::string& content : {std::string(), std::string("abc\0def", 7), text}) {
    write_file(folder / "a", content);
    CHECK(read_file(folder / "a") == content);
  }
  write_file(folder / "a", "0123456789");
  InputFile file(folder / "a");
  char some[3] = {};
  file.read(7, some, 3);
  CHECK(std::string(some, 3) == "789");
  CHECK(contains(message_of([&] { file.read(8, some, 3); }), "3 bytes were expected from byte 8"));
  file.read(0, some, 3);  // still usable
  CHECK(std::string(some, 3) == "012");
}

TEST_CASE("a file that is not committed leaves the old one as it was") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    CHECK(read_file(folder / "a") == "old");
  }
  CHECK(read_file(folder / "a") == "old");
  {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    file.commit();
  }
  CHECK(read_file(folder / "a") == "new");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);  // no partial file is left
}

TEST_CASE("wherever a save of two files is cut short, both are old or both are new") {
  for (const char* cut : {"before the list", "after the list", "after one name", "not at all"}) {
    CAPTURE(std::string(cut));
    const TemporaryFolder folder;
    write_file(folder / "a", "old");
    write_file(folder / "b", "old");
    const bool is_new = cut != std::string("before the list");
    if (cut == std::string("not at all")) {
      std::list<AtomicFile> files;
      files.emplace_back(folder / "a").write("new", 3);
      files.emplace_back(folder / "b").write("new", 3);
      commit_together(folder.path(), files);
    } else {
      write_file(folder / "a.partial", "new");
      write_file(folder / "b.partial", "new");
      if (is_new) write_file(folder / commit_list, "a\nb\n");
      if (cut == std::string("after one name")) fs::rename(folder / "a.partial", folder / "a");
    }
    finish_commit(folder.path());
    CHECK(read_file(folder / "a") == (is_new ? "new" : "old"));
    CHECK(read_file(folder / "b") == (is_new ? "new" : "old"));
    CHECK_FALSE(fs::exists(folder / commit_list));
    CHECK(fs::exists(folder / "b.partial") != is_new);  // a leftover: the next save overwrites it
  }
}

TEST_CASE("files that cannot be written together are not written at all") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  fs::create_directory(folder / commit_list);  // the list cannot be put there
  {
    std::list<AtomicFile> files;
    files.emplace_back(folder / "a").write("new", 3);
    CHECK(contains(message_of([&] { commit_together(folder.path(), files); }),
                   "cannot be put in place"));
  }
  CHECK(read_file(folder / "a") == "old");
  CHECK_FALSE(fs::exists(folder / "a.partial"));
}

TEST_CASE("a decided save waits for a name that is taken, and is ended later") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "b");
  {
    std::list<AtomicFile> files;
    files.emplace_back(folder / "a").write("new", 3);
    files.emplace_back(folder / "b").write("new", 3);
    CHECK(contains(message_of([&] { commit_together(folder.path(), files); }),
                   "not all files named in commit.list can be put in place"));
  }
  fs::remove(folder / "b");
  finish_commit(folder.path());
  CHECK(read_file(folder / "a") == "new");
  CHECK(read_file(folder / "b") == "new");
}

TEST_CASE("a folder has one lock, which a killed process gives back") {
  const TemporaryFolder folder;
  {
    const FolderLock first(folder.path());
    CHECK_FALSE(first.busy());
    const FolderLock second(folder.path());
    CHECK(second.busy());
    CHECK(second.holder() == getpid());
  }
  int ready[2] = {};
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock its(folder.path());
    static_cast<void>(!write(ready[1], "x", 1));
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(FolderLock(folder.path()).holder() == child);
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(FolderLock(folder.path()).busy());
  CHECK_FALSE(FolderLock(folder / "nowhere").busy());
  for (const int end : ready) close(end);
}

TEST_CASE("what another run is about to put in place is left to it") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  auto lock = std::make_unique<FolderLock>(folder.path());
  write_file(folder / "a.partial", "half of the next");  // as the other goes on
  write_file(folder / commit_list, "a\n");
  finish_commit(folder.path());
  CHECK(read_file(folder / "a") == "old");
  lock.reset();
  finish_commit(folder.path());
  CHECK(read_file(folder / "a") == "half of the next");
}

TEST_CASE("missing, folder, unreadable and unwritable are named") {
  const TemporaryFolder folder;
  CHECK(contains(message_of([&] { read_file(folder / "nowhere"); }), "there is no such file"));
  CHECK(contains(message_of([&] { read_file(folder / "nowhere"); }), "files_test.cpp:"));
  CHECK(contains(message_of([&] { read_file(folder.path()); }), "this is a folder"));
  CHECK(contains(message_of([&] { read_file("/dev/null"); }), "this is not a plain file"));
  CHECK(contains(message_of([&] { write_file(folder / "no/where", "x"); }), "cannot be created"));
  fs::create_directory(folder / "taken");
  CHECK(contains(message_of([&] { write_file(folder / "taken", "x"); }), "cannot be put in place"));
  CHECK_FALSE(fs::exists(folder / "taken.partial"));
}

TEST_CASE("what cannot be written is known before it is") {
  const TemporaryFolder folder;
  write_file(folder / "there", "old");
  for (const char* name : {"there", "new"}) CHECK_NOTHROW(expect_writable(folder / name));
  CHECK(read_file(folder / "there") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);  // nothing was left
  CHECK(contains(message_of([&] { expect_writable(folder / "no/where"); }), "cannot be created"));
  CHECK(contains(message_of([&] { expect_writable(folder.path()); }),
                 "is a folder: give the path of a file to write"));
}

TEST_CASE("a link stays a link, and the file that it leads to is replaced") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "there");
  write_file(folder / "there/old", "old");
  for (const char* name : {"old", "new"}) {  // the second leads to nothing yet
    const fs::path link = folder / name, target = folder / "there" / name;
    fs::create_symlink(fs::path("there") / name, link);
    CHECK_NOTHROW(expect_writable(link));
    write_file(link, "one");
    CHECK(fs::is_symlink(link));
    CHECK(read_file(target) == "one");
    std::list<AtomicFile> files;
    files.emplace_back(link).write("two", 3);
    commit_together(folder.path(), files);
    CHECK(fs::is_symlink(link));
    CHECK(read_file(target) == "two");
  }
  CHECK(std::distance(fs::directory_iterator(folder / "there"), {}) ==
        2);  // no partial file is left
  fs::create_symlink("round", folder / "round");
  CHECK(contains(message_of([&] { write_file(folder / "round", "x"); }), "cannot be created"));
}

TEST_CASE("a pipe stays a pipe: it is written into, and neither asked nor read in vain") {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_NOTHROW(expect_writable(pipe));  // nobody reads it yet, so opening it would wait
  CHECK(contains(message_of([&] { read_file(pipe); }),
                 "this is not a plain file; copy what it holds"));
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file(pipe, "through");
  char text[8] = {};
  CHECK(read(reader, text, sizeof text) == 7);
  CHECK(std::string(text) == "through");
  close(reader);
  CHECK(fs::is_fifo(pipe));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a file that cannot be read to its end is an error") {
  const char* unreadable = "/proc/self/mem";  // its first page is never mapped
  if (!fs::exists(unreadable)) return;
  CHECK(contains(message_of([&] { read_file(unreadable); }), "reading failed after 0 bytes"));
}

namespace {
// A link under this name that leads to a file of somebody else's, which is returned.
fs::path plant_link(const TemporaryFolder& elsewhere, const fs::path& name) {
  fs::path foreign = elsewhere / name.filename().string();
  write_file(foreign, "foreign");
  fs::create_symlink(foreign, name);
  return foreign;
}
}  // namespace

TEST_CASE("what is planted under a partial name is neither followed nor kept") {
  const TemporaryFolder folder, elsewhere;
  for (const char* name : {"a", "b"}) {
    const fs::path foreign = plant_link(elsewhere, folder / (std::string(name) + ".partial"));
    if (name == std::string("a")) {
      write_file(folder / name, "mine");
    } else {
      std::list<AtomicFile> files;
      files.emplace_back(folder / name).write("mine", 4);
      plant_link(elsewhere, folder / "commit.list.partial");
      commit_together(folder.path(), files);
      CHECK(read_file(elsewhere / "commit.list.partial") == "foreign");
    }
    CHECK(read_file(foreign) == "foreign");
    CHECK(read_file(folder / name) == "mine");
    CHECK_FALSE(fs::is_symlink(folder / name));
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
  fs::create_hard_link(elsewhere / "a.partial", folder / "c.partial");
  CHECK_NOTHROW(expect_writable(folder / "c"));
  CHECK(read_file(elsewhere / "a.partial") == "foreign");
}

TEST_CASE("a lock or a list that is a link is refused by name, and what it leads to stays") {
  const TemporaryFolder folder, elsewhere;
  const fs::path foreign = plant_link(elsewhere, folder / ".lock");
  const auto locking = [&] { return message_of([&] { FolderLock lock(folder.path()); }); };
  CHECK(contains(locking(), ".lock: this is a link"));
  CHECK(read_file(foreign) == "foreign");
  fs::remove(folder / ".lock");
  fs::create_hard_link(foreign, folder / ".lock");
  CHECK(contains(locking(), ".lock: this file has another name, too"));
  CHECK(read_file(foreign) == "foreign");
  fs::remove(folder / ".lock");
  REQUIRE(mkfifo((folder / ".lock").c_str(), 0600) == 0);
  CHECK(contains(locking(), ".lock: this is not a plain file"));
  fs::remove(folder / ".lock");
  fs::create_directory(folder / ".lock");
  CHECK(contains(locking(), ".lock: this is a folder"));

  plant_link(elsewhere, folder / commit_list);
  std::list<AtomicFile> files;
  files.emplace_back(folder / "a").write("new", 3);
  CHECK(contains(message_of([&] { commit_together(folder.path(), files); }),
                 "commit.list: this is a link"));
  CHECK(read_file(elsewhere / commit_list) == "foreign");
}

TEST_CASE("a decided save is read as it is meant, without a change to the folder") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) write_file(folder / name, "old");
  write_file(folder / "a.partial", "new");
  write_file(folder / "c.partial", "half of it");  // not on the list: a leftover
  CHECK(read_saved(folder / "a") == "old");
  write_file(folder / commit_list, "a\nb\nd\n");
  write_file(folder / "d.partial", "new");
  for (int again = 0; again < 2; ++again) {
    CHECK(read_saved(folder / "a") == "new");
    CHECK(read_saved(folder / "b") == "old");  // has its name already
    CHECK(read_saved(folder / "c") == "old");
    CHECK(read_saved(folder / "d") == "new");  // had no file before
    CHECK(read_file(folder / "a") == "old");
    CHECK(fs::exists(saved_path(folder / "d")));
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 7);
  }
  fs::remove(folder / commit_list);
  const TemporaryFolder elsewhere;
  write_file(elsewhere / "list", "a\n");
  fs::create_symlink(elsewhere / "list", folder / commit_list);
  CHECK(read_saved(folder / "a") == "old");  // nobody decides for us
}

TEST_CASE("links that lead in a circle, pipes and devices are refused by name at once") {
  const TemporaryFolder folder;
  fs::create_symlink("round", folder / "round");
  CHECK(contains(message_of([&] { read_file(folder / "round"); }), "round: its links lead in a"));
  CHECK(contains(message_of([&] { expect_plain(folder / "round"); }), "round: its links lead in"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(contains(message_of([&] { expect_plain(folder / "pipe"); }),
                 "pipe: this is not a plain file"));
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    CHECK(contains(message_of([&] { read_file(device); }), "this is not a plain file"));
    CHECK(contains(message_of([&] { expect_plain(device); }), "this is not a plain file"));
  }
  CHECK(contains(message_of([&] { expect_plain(folder.path()); }), "this is a folder"));
  CHECK_NOTHROW(expect_plain(folder / "not there yet"));
  write_file(folder / "a", "x");
  fs::create_symlink("a", folder / "link");
  CHECK_NOTHROW(expect_plain(folder / "link"));  // leads to a plain file
}

TEST_CASE("a file that would be longer than this process may write is an error, not the end") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  const pid_t child = fork();
  if (child == 0) {  // it alone has the limit
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto save = [&](size_t bytes) {
      return message_of([&] { write_file(folder / "a", std::string(bytes, 'x')); });
    };
    const std::string long_text = save(100000), buffered = save(4097);
    const bool told = contains(long_text, "a cannot be written: ") &&
                      contains(long_text, "ulimit -f") && contains(buffered, "ulimit -f");
    const bool kept = read_file(folder / "a") == "old";
    _exit(told && kept ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));  // the signal would have ended it
  CHECK(WEXITSTATUS(status) == 0);
}
