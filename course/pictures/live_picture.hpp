// The live picture of `train`: who takes part in a run, dying and healing, with the loss on top. It
// is drawn anew after each step and whenever an epoch begins.
//
//     --live               in the terminal, in place; nothing where stderr is none
//     --live-page FILE     a page that a browser loads again every second, until the run has ended
//
// Whoever is rank 0 draws: when its process dies, the next one goes on. While all wait for others,
// and when the job is stopped, the process that has started them says so on the page. The page is
// written by rename, so a browser never sees half of one.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "course/pictures/survival_picture.hpp"
#include "course/training/training.hpp"

namespace yotta {

class LivePicture {
 public:
  // page: a file; empty: none.
  LivePicture(bool in_terminal, std::string page, int64_t steps)
      : in_terminal_(in_terminal), page_(std::move(page)), steps_(steps) {}

  void show(const StepFigures& now);
  // The last page: what was lost.
  void end(const TrainingFigures& figures) const;
  // The same for a run that an error has ended, of whoever has drawn it.
  void end(const std::string& error) const;

 private:
  bool in_terminal_;
  std::string page_;
  int64_t steps_;
  Survival run_;  // as it was drawn last
  std::chrono::steady_clock::time_point written_{};
};

// Other words on a page that a browser still loads again, above the same picture; nothing where
// there is no such page.
void say_on_page(const std::string& page, const std::string& words, bool goes_on);
// "the run was stopped by Ctrl-C"
std::string stop_words(int signal);

// In its scope Ctrl-C, SIGTERM and SIGHUP end this process as ever, and the page says so before.
// Make it before threads are started: they inherit that these signals are blocked.
class StopsOnPage {
 public:
  explicit StopsOnPage(std::string page);  // empty: nothing is changed
  ~StopsOnPage();
  StopsOnPage(const StopsOnPage&) = delete;
  StopsOnPage& operator=(const StopsOnPage&) = delete;

 private:
  sigset_t before_{};
  std::jthread waits_;
};

// The terminal's picture; empty: no step was done.
std::string live_text(const Survival& run);
// "step 7 of 60, loss 3.214; epoch 2: places 0 1 3 take part, 2 is away"
std::string live_words(const StepFigures& now, int64_t steps);

}  // namespace yotta
