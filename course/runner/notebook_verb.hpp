// `yotta notebook`: opens the notebooks, runs them, refreshes what they show.
#pragma once

#include <string>

namespace runner {

struct NotebookOptions {
  std::string name;      // its number or name; empty: all of them
  bool execute = false;  // run it and compare with what is stored
  bool refresh = false;  // for authors: run it, store what it shows, format it
  bool format = false;   // for authors: format it
};
int notebook(const NotebookOptions& options);

}  // namespace runner
