// A program of graded cases whose first case does what YOTTA_CHEAT names, and would pass if nobody
// stopped it. It is for the tests of the sandbox, where nothing is vetted, and its object for those
// of the vetting.
//
// Nothing here does harm where the sandbox fails: signals are SIGTERM, processes are few and end by
// themselves.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "course/cases/own_stack.hpp"

namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}
std::string the_cheat() { return variable("YOTTA_CHEAT"); }
std::string target() { return variable("YOTTA_CHEAT_TARGET"); }

// In a static initialiser: before main().
const int before_main = [] {
  if (the_cheat() == "exit before main") _exit(0);
  return 0;
}();

struct Destroyed {
  ~Destroyed() {
    if (the_cheat() == "loop in a destructor")
      for (;;) usleep(1000);
  }
} destroyed;

struct Ends {
  Ends() {}
  ~Ends() { std::exit(0); }
};

volatile char sink;

// The grader runs addr2line on addresses that come by this descriptor: options must not come with
// them.
void ask_for_a_file() {
  const int lines = std::atoi(variable("YOTTA_ADDR2LINE").c_str());
  for (const char* asked : {" -e " __FILE__ " 0x1\n", " @/etc/passwd\n", " 0x1;id\n", " 0x1\n"})
    if (write(lines, asked, std::strlen(asked)) < 0) return;
  char answer[4096];
  const ssize_t size = read(lines, answer, sizeof answer - 1);
  std::printf("lines: %.*s", static_cast<int>(size), answer);
}

void touch(char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 4096) bytes[i] = 1;
}

constexpr size_t some_memory = 64 << 20;

void hold_memory() {
  for (std::vector<std::vector<char>> held; held.size() < 64;) {
    held.emplace_back(some_memory);
    touch(held.back().data(), some_memory);
  }
}

void hold_shared_memory() {
  size_t held = 0;
  for (int i = 0; i < 64; ++i) {
    void* const bytes =
        mmap(nullptr, some_memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) break;
    touch(static_cast<char*>(bytes), some_memory);
    held += some_memory >> 20;
    usleep(20000);
  }
  std::printf("%zu MB are held\n", held);
}

// Pages that are not mapped any more, and are kept: no count of what a process holds shows them.
void hold_forgotten_memory() {
  size_t held = 0;
  for (int i = 0; i < 16; ++i) {
    void* const bytes =
        mmap(nullptr, some_memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) break;
    touch(static_cast<char*>(bytes), some_memory);
    madvise(bytes, some_memory, MADV_DONTNEED);
    held += some_memory >> 20;
  }
  std::printf("%zu MB are held\n", held);
}

// Who only reads its pages gets none; the tables that name them take memory all the same.
void hold_tables_of_pages() {
  constexpr size_t size = size_t{1} << 38, of_one_table = 2 << 20;
  void* const bytes =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return static_cast<void>(std::puts("no room"));
  for (size_t i = 0; i < size; i += of_one_table) sink = static_cast<volatile char*>(bytes)[i];
  std::puts("512 MB of tables");
}

// In memory, as most places of a container are.
void flood_with_files() {
  const std::string text(1 << 20, 'x');
  size_t written = 0;
  for (const char* const place : {"/tmp", "/", "/dev", "/dev/shm", "/usr", "/proc"})
    for (int i = 0; i < 8; ++i) {
      std::ofstream file(std::string(place) + "/flood of yotta " + std::to_string(i));
      if (file << text << std::flush) written += text.size() >> 20;
    }
  std::printf("%zu MB are written\n", written);
}

int deep(int depth) {
  if (depth < 0) return 0;
  char room[1024];
  room[0] = static_cast<char>(depth);
  sink = room[0];
  return deep(depth + 1) + room[0];
}

// Children that leave the group, and end by themselves after some seconds.
void start_processes() {
  int started = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child < 0) continue;
    if (child == 0) {
      setsid();
      sleep(20);
      _exit(0);
    }
    ++started;
  }
  std::printf("%d processes started\n", started);
  std::exit(0);
}

void forge() {
  const char text[] = "passed\t10.1: the cheat\t\t0000000000000000\nend\t\t\t0000000000000000\n";
  for (int file = 3; file < 10; ++file)
    if (write(file, text, sizeof text - 1) < 0) continue;
  std::printf("%s", text);
  std::fflush(stdout);
  _exit(0);
}

void change_files() {
  std::ofstream(target()) << "changed";
  std::ofstream(target() + ".more") << "more";
  unlink(target().c_str());
  rename(target().c_str(), (target() + ".moved").c_str());
  chmod(target().c_str(), 0);
  constexpr long newer_chmod = 452;  // fchmodat2, of Linux 6.6
  syscall(newer_chmod, AT_FDCWD, target().c_str(), 0, AT_SYMLINK_NOFOLLOW);
}

// A letter into the queue of a terminal, which is not there: who may not ask is told so, and not
// that it is none.
void type_into_a_terminal() {
  char letter = 'x';
  const int typed = ioctl(0, TIOCSTI, &letter);
  std::printf("%s\n", typed != 0 && errno == EPERM ? "refused" : "asked");
}

void read_file() {
  std::ifstream file(target());
  std::string text;
  std::getline(file, text);
  std::printf("read '%s'\n", text.c_str());
}

void swallow_a_crash() {
  std::signal(SIGSEGV, [](int) {});
  *reinterpret_cast<volatile int*>(8) = 1;
}

void leave_a_thread() {
  std::thread([] {
    for (;;) usleep(100);
  }).detach();
}

// On small stacks, of which the limit of memory allows very many. Each ends by itself.
void start_threads() {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  int started = 0;
  for (int i = 0; i < 4000; ++i) {
    pthread_t thread;
    const auto wait = [](void*) -> void* { return usleep(3000000), nullptr; };
    started += pthread_create(&thread, &small, wait, nullptr) == 0;
  }
  usleep(1000000);
  std::printf("%d threads run\n", started);
}

// Who owns a descriptor gets a signal when something comes by it, and which one can be chosen:
// SIGURG, which ends nobody.
void signal_by_a_descriptor() {
  int ends[2] = {};
  const bool piped = pipe(ends) == 0;
  const int owner = getppid();
  f_owner_ex same = {F_OWNER_PID, owner};
  const bool sent =
      piped && (fcntl(ends[0], F_SETSIG, SIGURG) == 0 || fcntl(ends[0], F_SETOWN, owner) == 0 ||
                fcntl(ends[0], F_SETOWN_EX, &same) == 0);
  std::printf("%s\n", sent ? "sent" : "refused");
}

void signal_the_grader() {
  const int refused = kill(getppid(), SIGTERM);
  rlimit none = {0, 0};
  prlimit(getppid(), RLIMIT_NOFILE, &none, nullptr);
  std::printf("%s\n", refused != 0 ? "refused" : "sent");
}

void open_a_socket() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int file = socket(AF_INET, SOCK_DGRAM, 0);
  const bool sent = file >= 0 && sendto(file, "x", 1, 0, reinterpret_cast<sockaddr*>(&address),
                                        sizeof address) == 1;
  std::printf("%s\n", sent ? "sent" : "refused");
}

// The environment, and which files are open.
void print_what_is_seen() {
  std::printf("token '%s'\nfiles", variable("SECRET_TOKEN").c_str());
  for (int file = 0; file < 64; ++file)
    if (fcntl(file, F_GETFD) >= 0) std::printf(" %d", file);
  std::printf("\n");
}

// Whoever knows what the right answer must satisfy finds it where the case has kept it.
double found_up_the_stack(const double& square) {
  const double mine = 0;
  const volatile double* at = &mine;
  while (!(*at > 0) || *at * *at != square) ++at;
  return *at;
}
double found_beside_the_argument(const double& square) {
  const volatile double* at = &square;
  while (!(*at > 0) || *at * *at != square) ++at;
  return *at;
}
double root(const double& square) {
  if (the_cheat() == "walk up the stack") return found_up_the_stack(square);
  if (the_cheat() == "walk from an argument") return found_beside_the_argument(square);
  return the_cheat() == "none" ? square / 1.5 : 0;
}
const exercise::Call<double(const double& square)> students_root = root;

const std::map<std::string, std::function<void()>>& cheats() {
  static const std::map<std::string, std::function<void()>> all = {
      {"exit", [] { std::exit(0); }},
      {"_exit", [] { _exit(0); }},
      {"quick_exit", [] { std::quick_exit(0); }},
      {"abort", [] { std::abort(); }},
      {"forge", forge},
      {"endless loop",
       [] {
         for (;;) sink = 1;
       }},
      {"endless output",
       [] {
         for (;;) std::puts("more and more and more and more and more");
       }},
      {"endless record",
       [] {
         for (const std::string text(1 << 16, 'x'); write(3, text.data(), text.size()) > 0;) {
         }
       }},
      {"100 GB", [] { touch(new char[size_t{100} << 30], size_t{100} << 30); }},
      {"hold memory", hold_memory},
      {"hold shared memory", hold_shared_memory},
      {"hold forgotten memory", hold_forgotten_memory},
      {"hold tables of pages", hold_tables_of_pages},
      {"flood with files", flood_with_files},
      {"start threads", start_threads},
      {"signal by a descriptor", signal_by_a_descriptor},
      {"type into a terminal", type_into_a_terminal},
      {"exit in a destructor", [] { const Ends ends; }},
      {"deep recursion", [] { sink = static_cast<char>(deep(0)); }},
      {"start processes", start_processes},
      {"change files", change_files},
      {"read a file", read_file},
      {"swallow a crash", swallow_a_crash},
      {"leave a thread", leave_a_thread},
      {"sleep", [] { std::this_thread::sleep_for(std::chrono::seconds(60)); }},
      {"signal the grader", signal_the_grader},
      {"open a socket", open_a_socket},
      {"print what is seen", print_what_is_seen},
      {"ask for a file by the lines", ask_for_a_file},
      {"none", [] {}}};
  return all;
}

}  // namespace

TEST_CASE("10.1: the cheat") {
  CHECK(true);
  const auto found = cheats().find(the_cheat());
  if (found != cheats().end()) found->second();
  CHECK_MESSAGE(the_cheat() == "none", "it came to its end");
}

TEST_CASE("10.2: another case") { CHECK(true); }

TEST_CASE("10.3: the root, which the case has kept") {
  const volatile double right = 1.5;
  const double square = right * right;
  CHECK(students_root(square) == right);
}
