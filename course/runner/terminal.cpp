#include "runner/terminal.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>

#include "course/options/console.hpp"

namespace runner {
namespace {

// Of the only terminal there is; handlers of signals read these.
termios usual_mode, raw_mode;
volatile std::sig_atomic_t group_to_end = 0;

constexpr int leaving_signals[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGSEGV,
                                   SIGABRT, SIGBUS,  SIGFPE, SIGILL};
constexpr char enter_screen[] = "\033[?1049h\033[?25l", leave_screen[] = "\033[?25h\033[?1049l";

void say(const char* text) {
  if (write(STDOUT_FILENO, text, std::strlen(text)) < 0) return;  // nobody is there
}

void enter() {
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw_mode);
  say(enter_screen);
}
void leave() {
  say(leave_screen);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &usual_mode);
}

void end_by(int number) {
  leave();
  if (group_to_end > 0) kill(-static_cast<pid_t>(group_to_end), SIGTERM);
  std::signal(number, SIG_DFL);
  raise(number);
}

void stop_for_a_while(int) {
  leave();
  raise(SIGSTOP);
  enter();
}

void nothing(int) {}

// Without SA_RESTART: a wait for keys ends, and the window is drawn again.
void on(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

std::string painted(const std::string& line) {
  if (!yotta::console::colored()) return line;
  static const std::map<std::string, std::string> colors = {
      {"✓", "32"}, {"✗", "31"}, {"▸", "1"}, {"█", "36"}};
  std::string text = line;
  for (const auto& [sign, color] : colors)
    for (size_t at = text.find(sign); at != std::string::npos;) {
      const std::string with = fmt::format("\033[{}m{}\033[0m", color, sign);
      text.replace(at, sign.size(), with);
      at = text.find(sign, at + with.size());
    }
  return text;
}

}  // namespace

std::vector<std::string> keys_of(const std::string& bytes) {
  static const std::map<std::string, std::string> sequences = {
      {"\033[A", "up"},   {"\033[B", "down"},    {"\033OA", "up"},
      {"\033OB", "down"}, {"\033[5~", "pageup"}, {"\033[6~", "pagedown"}};
  std::vector<std::string> keys;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\033' && i + 1 < bytes.size() && (bytes[i + 1] == '[' || bytes[i + 1] == 'O')) {
      size_t end = i + 2;
      while (end < bytes.size() && bytes[end] < '@') ++end;
      const auto known = sequences.find(bytes.substr(i, end - i + 1));
      if (known != sequences.end()) keys.push_back(known->second);
      i = end;
    } else if (c == '\033') {
      keys.push_back("escape");
    } else if (c == '\r' || c == '\n') {
      keys.push_back("enter");
    } else if (c == '\177' || c == '\b') {
      keys.push_back("backspace");
    } else if (c >= ' ' && c < '\177') {
      keys.emplace_back(1, c);
    }
  }
  return keys;
}

Terminal::Terminal() {
  tcgetattr(STDIN_FILENO, &usual_mode);
  raw_mode = usual_mode;
  raw_mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw_mode.c_cc[VMIN] = 0, raw_mode.c_cc[VTIME] = 0;
  for (const int number : leaving_signals) on(number, end_by);
  on(SIGTSTP, stop_for_a_while);
  on(SIGWINCH, nothing);
  on(SIGPIPE, SIG_IGN);
  enter();
}

Terminal::~Terminal() {
  for (const int number : leaving_signals) std::signal(number, SIG_DFL);
  for (const int number : {SIGTSTP, SIGWINCH}) std::signal(number, SIG_DFL);
  leave();
}

Terminal::Size Terminal::size() {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {};
  return {window.ws_col, window.ws_row};
}

void Terminal::draw(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i)
    text += (i > 0 ? "\r\n" : "") + painted(lines[i]) + "\033[K";
  text += "\033[J";
  say(text.c_str());
}

std::vector<std::string> Terminal::keys(bool& ended) {
  char bytes[256];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  ended = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
  return keys_of(count > 0 ? std::string(bytes, static_cast<size_t>(count)) : "");
}

void Terminal::set_group_to_end(pid_t group) { group_to_end = group; }

}  // namespace runner
