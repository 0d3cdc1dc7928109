// `check` as a process of its own, so that keys are read while it grades; and this program once
// more for other verbs.
#pragma once

#include <string>

#include "runner/learn_state.hpp"
#include "runner/places.hpp"
#include "runner/process.hpp"

namespace runner {

std::string own_program();
// What /proc says of a running program, without the mark of one that was built again since.
std::string program_at(const std::string& link);
// What this program says when it is given these words.
std::string run_here(Command words);

// Begins at once. At the object's end it is ended, with all that it has started.
class Background {
 public:
  // The words end in --json; the name of its file is added.
  explicit Background(Command words);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  int output() const { return output_; }  // to wait on with poll()
  bool ended();                           // reads what was said so far
  std::string said() const;               // so far
  study::Event verdict() const;           // when it has ended

 private:
  RunFolder folder_;
  int output_ = -1;
  pid_t process_ = 0;
  std::string said_;
};

}  // namespace runner
