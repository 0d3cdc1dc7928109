// What `./yotta learn` shows: a function from its state and the size of the window to lines of
// text.
//
//     Yotta  ███▌        3 of 28 exercises   245 of 2800 points   ...
//     10 Write the ring   90 minutes, medium   45 of 100 points
//       ✓ 10.1 reduce_scatter: partial sums go round             45 of 45
//     ▸ ✗ 10.2 all_gather: chunks go round                        0 of 35
//     Edit work/10_collectives/...
//     ── the verdict ─────────────────────────────────
//     ...                                              as much as there is room for
//     n next  h hint  l list  ...
#pragma once

#include <string>
#include <vector>

#include "runner/learn_state.hpp"

namespace runner::study {

// At most `height` lines of at most `width` letters each, without colours and line ends.
std::vector<std::string> screen(const State& state, int width, int height);

// How far the page can be scrolled in such a window.
int last_scroll(const State& state, int width, int height);

// The page alone, whole: for where there is no terminal.
std::string page_text(const State& state, int width);

// A Markdown text as plain lines: links by their words, no marks for code and bold, tables without
// their frames. A paragraph and an item of a list are one line each.
std::string plain_markdown(const std::string& text);

}  // namespace runner::study
