// A terminal for a program that draws the whole window and reads single keys. However the program
// ends (return, exception, Ctrl-C, SIGTERM, a crash), the terminal is as it was before; after
// Ctrl-Z and `fg` it is drawn again.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace runner {

// Keys in what a terminal sends: "n", "up", "down", "pageup", "pagedown", "enter", "escape",
// "backspace". Others are left out.
std::vector<std::string> keys_of(const std::string& bytes);

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    int width = 80, height = 24;
  };
  static Size size();

  void draw(const std::vector<std::string>& lines);
  // What was typed. `ended`: nobody can type any more.
  std::vector<std::string> keys(bool& ended);

  // A group of processes that a signal which ends us ends too; 0: none.
  static void set_group_to_end(pid_t group);
};

}  // namespace runner
