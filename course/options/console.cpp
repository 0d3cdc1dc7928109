// See console.hpp.
#include "course/options/console.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace yotta::console {

bool is_terminal(std::FILE* stream) {
  const char* const handed_on = std::getenv("YOTTA_TERMINALS");
  if (handed_on == nullptr) {
    const int before = errno;  // expect_printed() tells what a write has left there
    const bool is = isatty(fileno(stream)) != 0;
    errno = before;
    return is;
  }
  return std::strchr(handed_on, '0' + fileno(stream)) != nullptr;
}

void hand_on_terminals() {
  std::string numbers;
  for (std::FILE* stream : {stdout, stderr})
    if (is_terminal(stream)) numbers += static_cast<char>('0' + fileno(stream));
  setenv("YOTTA_TERMINALS", numbers.c_str(), 0);
}

namespace {
bool is_muted = false;

// Characters, not bytes: UTF-8's continuation bytes take no room.
size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool is_numeric(std::string_view text) {
  return !text.empty() && std::string_view("0123456789+-").find(text[0]) != std::string_view::npos;
}

}  // namespace

// They tell nothing to who runs a program: "main.cpp:7: rank 0 failed: training.cpp:41: why" is
// "rank 0 failed: why".
std::string without_place(std::string_view text) {
  for (const std::string_view middle : {" failed: ", ": "})
    if (const size_t at = text.find(middle); at < 12 && text.starts_with("rank ")) {
      const size_t end = at + middle.size();
      return std::string(text.substr(0, end)) + without_place(text.substr(end));
    }
  const size_t end = text.find(": ");
  if (end == text.npos) return std::string(text);
  const std::string_view place = text.substr(0, end), file = place.substr(0, place.rfind(':'));
  const size_t digits = place.find_last_not_of("0123456789");
  const bool is_place =
      file.size() < place.size() && digits == file.size() &&
      (file.ends_with(".cpp") || file.ends_with(".hpp") || file.ends_with(".ipp")) &&
      file.find(' ') == file.npos;
  return is_place ? without_place(text.substr(end + 2)) : std::string(text);
}

bool& muted() { return is_muted; }
void mute() {
  is_muted = true;
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::fclose(stdout);
}

bool colored(std::FILE* stream) {
  return is_terminal(stream) && std::getenv("NO_COLOR") == nullptr;
}

std::string paint(Color color, std::string_view text, std::FILE* stream) {
  constexpr const char* codes[] = {"", "1", "2", "31", "32", "33", "34", "36"};
  if (color == Color::none || !colored(stream)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", codes[static_cast<int>(color)], text);
}

void error(std::string_view text) {
  std::fflush(stdout);
  if (!muted())
    fmt::print(stderr, "{} {}\n", paint(Color::red, "error:", stderr), without_place(text));
}

void expect_printed() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw std::runtime_error(
        fmt::format("the output could not be written: {}", std::strerror(errno)));
}

std::string bar(double value, double most, int width) {
  constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double share = most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
  const int cells = static_cast<int>(share * width * 8 + 0.5);
  std::string text;
  for (int i = 0; i < cells / 8; ++i) text += "█";
  text += eighths[cells % 8];
  const int used = cells / 8 + (cells % 8 != 0);
  return text + std::string(static_cast<size_t>(width - used), ' ');
}

std::string bytes(double count) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return fmt::format("{:.{}f} {}", count, unit == 0 ? 0 : 2, units[unit]);
}

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent);
    for (size_t i = 0; i < rows_[r].size() && i < widths.size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string pad(widths[i] - display_width(cell), ' ');
      const bool right = r > 0 ? is_numeric(cell)
                               : rows_.size() > 1 && i < rows_[1].size() && is_numeric(rows_[1][i]);
      line += right ? pad + cell : cell + pad;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 ? paint(Color::bold, line) : line) + "\n";
  }
  return out;
}

// A thread that says what is computed, on a terminal again and again with the seconds that it has
// taken.
struct Progress::Waiting {
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false, has_said = false;
  std::thread thread;

  explicit Waiting(const std::string& what) {
    sigset_t all, before;  // signals are the program's
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    thread = std::thread([this, what] { say(what); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Waiting() {
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    over.notify_one();
    thread.join();
    if (has_said && is_terminal(stderr)) std::fputs("\r\033[K", stderr);
  }
  void say(const std::string& what) {
    const bool terminal = is_terminal(stderr);
    std::unique_lock lock(mutex);
    for (int seconds = 1; !over.wait_for(lock, std::chrono::seconds(1), [this] { return is_over; });
         ++seconds) {
      if (has_said && !terminal) continue;
      const std::string line =
          terminal ? fmt::format("\r\033[K{} ({} s)", what, seconds) : what + "\n";
      std::fputs(line.c_str(), stderr);
      has_said = true;
    }
  }
};

Progress::Progress(std::string title, int64_t total) : title_(std::move(title)), total_(total) {}
Progress::~Progress() { finish(); }

void Progress::begin(const std::string& what) {
  if (!muted()) waiting_ = std::make_unique<Waiting>(title_ + ": " + what);
}

void Progress::update(int64_t done, std::string_view note) {
  waiting_.reset();
  if (muted()) return;
  const bool terminal = is_terminal(stderr);
  const auto now = std::chrono::steady_clock::now();
  if (terminal && done < total_ && now - shown_ < std::chrono::milliseconds(50)) return;
  const int64_t tenth = total_ > 0 ? 10 * done / total_ : 10;
  if (!terminal && tenth == tenth_) return;
  tenth_ = tenth;
  shown_ = now;
  const std::string line = fmt::format(
      "{} {} {}/{}  {}", title_, bar(static_cast<double>(done), static_cast<double>(total_), 24),
      done, total_, note);
  std::fputs(terminal ? fmt::format("\r\033[K{}", line).c_str() : (line + "\n").c_str(), stderr);
  open_ = terminal;
}

void Progress::finish() {
  waiting_.reset();
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace yotta::console
