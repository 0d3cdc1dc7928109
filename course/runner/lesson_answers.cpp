#include "runner/lesson_answers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "runner/exercise.hpp"
#include "runner/lesson_letters.hpp"

namespace runner {
namespace {

constexpr std::string_view opening = "<details><summary>Answer</summary>";
constexpr std::string_view closing = "</details>";

// "<details><summary>The derivation, step by step</summary>": an aside, which answers nothing.
bool opens_aside(const std::string& line) {
  constexpr std::string_view begin = "<details><summary>", end = "</summary>";
  return line != opening && line != letters_opening && line.starts_with(begin) &&
         line.ends_with(end) && line.size() > begin.size() + end.size();
}

// "3. `--ranks 8`: how many messages?"
bool begins_item(const std::string& line) {
  const size_t end = line.find_first_not_of("0123456789");
  return end != 0 && end != line.npos && line.compare(end, 2, ". ") == 0;
}

// Reads a text line by line.
class AnswerReader {
 public:
  explicit AnswerReader(const Lines& lines) : lines_(lines) {}

  std::vector<std::string> complaints() {
    for (at_ = 0; at_ < lines_.size(); ++at_) {
      fenced_ ^= lines_[at_].starts_with("```");
      if (!fenced_) read(lines_[at_]);
    }
    if (folded_) complain("the last answer does not end: </details> is missing");
    begin_item("");
    return complaints_;
  }

 private:
  void read(const std::string& line) {
    if (letters_ || line == letters_opening) {
      letters_ = line != closing;
    } else if (line.starts_with("## ")) {
      begin_item("");
      asks_ = line == "## Try" || line == "## Questions";
    } else if (asks_ && !folded_ && begins_item(line)) {
      begin_item(line);
    } else if (line == opening || opens_aside(line)) {
      if (folded_) complain("an answer begins before the last one has ended");
      check_empty_lines();
      folded_ = true;
      aside_ = line != opening;
    } else if (line == closing) {
      if (!folded_) complain("</details> without an answer that has begun");
      check_empty_lines();
      folded_ = false;
      if (!aside_) unanswered_.clear();
    } else if (line.find("<details") != line.npos || line.find(closing) != line.npos) {
      complain("an answer begins with the line " + std::string(opening) +
               " and ends with </details>; another text begins with its own words in <summary>");
    }
  }

  void begin_item(const std::string& item) {
    if (!unanswered_.empty()) complain("no folded answer above this line for: " + unanswered_);
    unanswered_ = item;
  }

  void check_empty_lines() {
    const bool above = at_ == 0 || lines_[at_ - 1].empty();
    const bool below = at_ + 1 == lines_.size() || lines_[at_ + 1].empty();
    if (!above || !below) complain("leave the lines above and below " + lines_[at_] + " empty");
  }

  void complain(const std::string& what) {
    complaints_.push_back(fmt::format("line {}: {}", std::min(at_ + 1, lines_.size()), what));
  }

  const Lines& lines_;
  size_t at_ = 0;
  std::string unanswered_;  // the item that waits for its answer
  bool asks_ = false;       // in a section with items to answer
  bool folded_ = false, fenced_ = false;
  bool aside_ = false;    // what is folded answers nothing
  bool letters_ = false;  // in the folded table of letters, which is no answer
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> compare_answers(const std::string& text) {
  return AnswerReader(lines_of(text)).complaints();
}

}  // namespace runner
