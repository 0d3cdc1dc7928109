// Notices that a file was saved: by the system's events where there are some (inotify), and by
// looking at it now and then, for network folders and containers have none. Editors write in
// several steps, so a change counts once the file has been left alone for a moment, and only if it
// holds something else.
#pragma once

#include <chrono>
#include <string>

namespace runner {

class Watch {
 public:
  // `look`: no events, it looks twice a second.
  explicit Watch(bool look);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // From now on it is this file, as it is now. It need not exist yet.
  void follow(const std::string& file);

  // To wait on with poll(), -1: there are no events; and for how long at most, in milliseconds.
  int events() const { return events_; }
  int patience() const;
  // To be called after that. True once for each change.
  bool saved();

 private:
  using Clock = std::chrono::steady_clock;
  std::string stamp() const;  // of the file: changes when somebody writes it
  std::string print() const;  // of what it holds; empty: it cannot be read

  int events_ = -1, folder_ = -1;
  std::string file_, stamp_, print_;
  bool settling_ = false;
  Clock::time_point calm_{};  // while it settles: when that is over
};

}  // namespace runner
