#include "course/shared/live_picture.hpp"

#include <fmt/ranges.h>

#include "course/shared/console.hpp"
#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

// Columns of the terminal's picture.
constexpr size_t most_columns = 70;

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
  write_file(page_, live_html(run_, live_words(now, steps_), true));
}

void LivePicture::end(const TrainingFigures& figures) const {
  if (page_.empty() || figures.epochs.empty()) return;
  const std::string words = fmt::format(
      "{} of {} steps are done; {}", figures.first_step + std::ssize(figures.loss), steps_,
      describe_losses(figures.epochs, figures.dropped_sequences, figures.deaths));
  write_file(page_, live_html(survival_of(figures.epochs, figures.loss, figures.first_step), words,
                              false));
}

void LivePicture::end(const std::string& error) const {
  if (page_.empty() || run_.places == 0) return;
  write_file(page_, live_html(run_, "an error has ended the run: " + error, false));
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
