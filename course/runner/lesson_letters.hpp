// The letters of a lesson's page. Between the paragraph "You need" and the first section stands a
// folded table
//
//     <details><summary>Letters on this page</summary>
//
//     | letter | meaning |
//     |---|---|
//     | p | ranks in a group |
//
//     </details>
//
// with these empty lines; a page without letters needs none. Every single letter that the text or a
// formula uses as a symbol has its row. A meaning is one of those that docs/letters.md
// gives for that letter, word for word; several are separated by "; ".
//
// What is looked at: text and formulas ($...$), but no fenced block, `code`, link or picture. What
// is no symbol: the words a, A and I, units (3 s, 16 B, GB/s), C++, e.g., split-K, 2-D, the d of
// dx, and the T of a transposed matrix. A letter with an index, t_F, needs the row t_F or t.
//
// And the end of a page: its last section before "**Next:**" is "## What is left out", with two to
// five items.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace runner {

inline constexpr const char* letters_opening = "<details><summary>Letters on this page</summary>";

// The meanings of each letter: {"p", {"ranks in a group", "pipeline stages"}}.
using Letters = std::map<std::string, std::vector<std::string>>;

// The table of docs/letters.md. Throws std::runtime_error if a row has no meaning or a
// letter two rows.
Letters find_letters(const std::string& page);

// A letter that a text uses as a symbol, and the line of its first use.
struct Symbol {
  std::string letter;  // "p", "α"
  std::string index;   // "F" of t_F; mostly empty
  int line = 0;
};
std::vector<Symbol> find_symbols(const std::string& text);

// One complaint for each letter without its row, each row that is not that page's, and a lesson
// that does not end with what is left out.
std::vector<std::string> compare_letters(const std::string& text, const Letters& all);

}  // namespace runner
