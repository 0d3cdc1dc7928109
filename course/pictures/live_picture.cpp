#include "course/pictures/live_picture.hpp"

#include <fmt/ranges.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "course/options/console.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

// Columns of the terminal's picture.
constexpr size_t most_columns = 70;

// Held while a page is written, and by whoever ends this process, until it has ended.
std::mutex page_mutex;

// Over what was drawn before: each line ends in the removal of what it had.
std::string in_place(const std::string& picture) {
  std::string text = "\x1b[H";
  for (const char each : picture) {
    if (each == '\n') text += "\x1b[K";
    text += each;
  }
  return text + "\x1b[J";
}

}  // namespace

void LivePicture::show(const StepFigures& now) {
  const bool in_terminal = in_terminal_ && console::is_terminal(stderr);
  const auto time = std::chrono::steady_clock::now();
  const bool is_due = !page_.empty() && (now.begins || now.step == steps_ ||
                                         time - written_ >= std::chrono::milliseconds(200));
  run_ = survival_of(*now.epochs, *now.losses, now.first);
  if (in_terminal) fmt::print(stderr, "{}", in_place(live_text(run_)));
  if (!is_due) return;
  written_ = time;
  const std::scoped_lock lock(page_mutex);
  write_file(page_, live_html(run_, live_words(now, steps_), true));
}

void LivePicture::end(const TrainingFigures& figures) const {
  if (page_.empty() || figures.epochs.empty()) return;
  const std::scoped_lock lock(page_mutex);
  const std::string words = fmt::format(
      "{} of {} steps are done; {}", figures.first_step + std::ssize(figures.loss), steps_,
      describe_losses(figures.epochs, figures.dropped_sequences, figures.deaths));
  write_file(page_, live_html(survival_of(figures.epochs, figures.loss, figures.first_step), words,
                              false));
}

void LivePicture::end(const std::string& error) const {
  if (page_.empty() || run_.places == 0) return;
  const std::scoped_lock lock(page_mutex);
  write_file(page_, live_html(run_, "an error has ended the run: " + error, false));
}

void say_on_page(const std::string& page, const std::string& words, bool goes_on) {
  if (page.empty() || !std::filesystem::exists(page)) return;
  const std::string text = read_file(page), end = "</pre>\n";
  const size_t picture = text.find(end);
  if (text.find(live_refresh) == std::string::npos || picture == std::string::npos) return;
  write_file(page, live_html(text.substr(picture + end.size()), words, goes_on));
}

std::string stop_words(int signal) {
  return fmt::format("the run was stopped by {}",
                     signal == SIGINT ? "Ctrl-C" : std::string(strsignal(signal)));
}

namespace {
sigset_t stop_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&all, each);
  return all;
}

// The page is written, and then the signal does what it does by default.
void say_and_stop(const std::string& page, int signal) {
  const std::scoped_lock lock(page_mutex);
  try {
    say_on_page(page, stop_words(signal), false);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  std::signal(signal, SIG_DFL);
  const sigset_t all = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  std::raise(signal);
}
}  // namespace

StopsOnPage::StopsOnPage(std::string page) {
  const sigset_t all = stop_signals();
  pthread_sigmask(page.empty() ? SIG_SETMASK : SIG_BLOCK, page.empty() ? nullptr : &all, &before_);
  if (page.empty()) return;
  waits_ = std::jthread([page = std::move(page), all](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const timespec wait{0, 100'000'000};
      const int signal = sigtimedwait(&all, nullptr, &wait);
      if (signal > 0) say_and_stop(page, signal);
    }
  });
}
StopsOnPage::~StopsOnPage() {
  if (waits_.joinable()) waits_.request_stop(), waits_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::string live_text(const Survival& run) {
  if (run.columns.empty()) return "";
  const Survival drawn = shortened(run, most_columns);
  return survival_text(drawn, drawn.columns.size());
}

std::string live_words(const StepFigures& now, int64_t steps) {
  const EpochRecord& epoch = now.epochs->back();
  uint64_t all = 0;
  for (const EpochRecord& each : *now.epochs) all |= each.places;
  std::vector<int> here, away;
  for (int place = 0; place < 64; ++place)
    if ((all >> place & 1) != 0) ((epoch.places >> place & 1) != 0 ? here : away).push_back(place);
  std::string words = fmt::format("step {} of {}", now.step, steps);
  if (!now.losses->empty()) words += fmt::format(", loss {:.3f}", now.losses->back());
  words +=
      fmt::format("; epoch {}: place{} {} take{} part", epoch.epoch, here.size() == 1 ? "" : "s",
                  fmt::join(here, " "), here.size() == 1 ? "s" : "");
  if (!away.empty())
    words += fmt::format(", {} {} away", fmt::join(away, " "), away.size() == 1 ? "is" : "are");
  return words;
}

}  // namespace yotta
