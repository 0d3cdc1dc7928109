// What the course's programs print: colours on a terminal only, tables, bars, a progress line.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yotta::console {

enum class Color { none, bold, dim, red, green, yellow, blue, cyan };

// Whether somebody at a terminal reads a stream: directly, or through mpirun, which gives us a
// terminal of its own, whoever reads what it passes on (hand_on_terminals).
bool is_terminal(std::FILE* stream);
// Tells the programs that this one starts which of its streams, whose output it passes on, are
// terminals.
void hand_on_terminals();

// Of several processes that run the same program one is heard; the others are mute. (What goes
// wrong below us, in MPI or in the C library, is still seen on stderr.)
bool& muted();
void mute();

// Whether a stream may be coloured: a terminal, and the user has not said NO_COLOR.
bool colored(std::FILE* stream = stdout);

std::string paint(Color color, std::string_view text, std::FILE* stream = stdout);

// "error: ..." on stderr.
void error(std::string_view text);

// Throws if something that was printed could not be written: the disk is full, or the output was
// closed.
void expect_printed();

// A bar of `width` cells, filled to value / most: "██████▌   ".
std::string bar(double value, double most, int width = 30);

// 1234567 -> "1.18 MiB"
std::string bytes(double count);

// Rows of cells, printed with columns as wide as their widest cell; numbers are aligned to the
// right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void row(std::vector<std::string> cells);
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// What an error says, without the places in our own sources where it was found.
std::string without_place(std::string_view text);

// One line that is rewritten on a terminal; elsewhere a plain line each tenth of the way.
class Progress {
 public:
  Progress(std::string title, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is computed until the first update: said if that does not come within a second.
  void begin(const std::string& what);
  void update(int64_t done, std::string_view note = {});
  void finish();

 private:
  struct Waiting;

  std::unique_ptr<Waiting> waiting_;
  std::string title_;
  int64_t total_, tenth_ = -1;
  std::chrono::steady_clock::time_point shown_{};
  bool open_ = false;
};

}  // namespace yotta::console
