// A program of graded cases whose first case does what YOTTA_CHEAT names, and would pass if nobody stopped it. It is for the
// tests of the sandbox, where nothing is vetted, and its object for those of the vetting.
//
// Nothing here does harm where the sandbox fails: signals are SIGTERM, processes are few and end by themselves.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

volatile char sink;

// The grader runs addr2line on addresses that come by this descriptor: options must not come with them.
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
  for (int i = 0; i < 64; ++i) {
    void* const bytes =
        mmap(nullptr, some_memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) break;
    touch(static_cast<char*>(bytes), some_memory);
    usleep(20000);
  }
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
