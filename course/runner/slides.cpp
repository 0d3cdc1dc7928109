#include "runner/slides.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/json_output.hpp"
#include "runner/process.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

enum class Kind { heading, text, items, figure, folded };

// Lines of a page that belong together: a paragraph, a list, a fenced block, a table, a formula, a
// picture.
struct Block {
  Kind kind;
  std::string text;
};

bool is_item(const std::string& line) {
  static const std::regex item(R"((- |[0-9]+\. ).*)");
  return std::regex_match(line, item);
}

Kind kind_of(const std::string& line) {
  if (line.starts_with("#")) return Kind::heading;
  if (line.starts_with("<details")) return Kind::folded;
  if (is_item(line)) return Kind::items;
  for (const char* mark : {"```", "|", "$$", "!["})
    if (line.starts_with(mark)) return Kind::figure;
  return Kind::text;
}

// The line that ends a block whose inside may hold empty lines.
std::string closing_of(const std::string& line) {
  if (line.starts_with("```")) return "```";
  return line.starts_with("<details") ? "</details>" : "";
}

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::string closing;  // of the block that we are in
  bool inside = false;
  for (const std::string& line : lines_of(page)) {
    if (!inside && line.empty()) continue;
    const bool first = !inside;
    if (first) {
      blocks.push_back({kind_of(line), ""});
      closing = closing_of(line);
      inside = true;
    }
    const bool ends = closing.empty() ? line.empty() : !first && line.starts_with(closing);
    blocks.back().text += line + "\n";
    if (ends || blocks.back().kind == Kind::heading) inside = false;
  }
  return blocks;
}

// Links lead nowhere on a slide: their words stay.
std::string without_links(const std::string& text) {
  static const std::regex link(R"(([^!]|^)\[([^\]]*)\]\([^)]*\))");
  return std::regex_replace(text, link, "$1$2");
}

std::string in_one_line(const std::string& text) {
  static const std::regex gap(R"(\s+)");
  const std::string line = std::regex_replace(without_links(text), gap, " ");
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// A paragraph's sentences. One ends at a full stop, a question mark or a colon with a capital
// behind it.
std::vector<std::string> sentences_of(const std::string& paragraph) {
  static const std::regex end(R"([.?:!][)\*"`]*( )(?=[A-Z`\*]))");
  std::string text = in_one_line(paragraph);
  std::vector<std::string> sentences;
  for (std::smatch found; std::regex_search(text, found, end);) {
    sentences.push_back(text.substr(0, static_cast<size_t>(found.position(1))));
    text = found.suffix();
  }
  sentences.push_back(text);
  return sentences;
}

// Items of a list, the long ones cut at the end of a sentence.
std::string short_items(const std::string& items) {
  constexpr size_t enough = 160;
  std::vector<std::string> all;
  for (const std::string& line : lines_of(items)) {
    if (is_item(line) || all.empty()) all.push_back("");
    all.back() += line + "\n";
  }
  std::string text;
  for (const std::string& item : all) {
    std::string words;
    for (const std::string& sentence : sentences_of(item))
      if (words.size() < enough) words += (words.empty() ? "" : " ") + sentence;
    text += words + "\n";
  }
  return text;
}

// "```output 13.loss --ranks 8" is for the suite: pandoc gets a plain fence.
std::string plain_fence(const std::string& figure) {
  static const std::regex fence(R"(^```(output|cpp)[^\n]*)");
  return std::regex_replace(figure, fence, "```{.$1}", std::regex_constants::format_first_only);
}

// The slides of one section, which has this heading. Its first words wait for what follows: a
// figure stands below them.
class Section {
 public:
  explicit Section(std::string heading) : heading_(std::move(heading)) {}

  std::string add(const Block& block) {
    const bool goes_on = list_ && words_.empty();  // what stands between the items is folded
    list_ = block.kind == Kind::items;
    if (list_) return goes_on ? short_items(block.text) : slide(short_items(block.text));
    if (block.kind == Kind::figure) return slide(plain_fence(block.text));
    const std::string before = waiting_ ? slide("") : "";
    const std::vector<std::string> sentences = sentences_of(block.text);
    waiting_ = !begun_;
    words_ = sentences.back();
    if (waiting_ && sentences.size() > 1) words_ = sentences[0] + " " + sentences[1];
    if (waiting_ && sentences.size() > 2) words_ += "\n\n" + sentences.back();
    begun_ = true;
    return before;
  }
  std::string end() { return waiting_ ? slide("") : ""; }

 private:
  std::string slide(const std::string& figure) {
    const std::string text = fmt::format("\n{}\n{}\n\n{}\n", heading_, words_, figure);
    waiting_ = false, begun_ = true;
    words_.clear();
    return text;
  }

  std::string heading_, words_;
  bool begun_ = false, waiting_ = false, list_ = false;
};

// Pictures lie beside the lesson's page; the deck's template in course/slides.
void make_deck(const Topic& lesson, const std::string& deck, const std::string& out) {
  const std::string root = YOTTA_SOURCE_DIR, folder = root + "/lessons/" + lesson.id;
  const std::string page = fmt::format("{}/slides/{}.md", YOTTA_BUILD_DIR, lesson.id);
  fs::create_directories(fs::path(page).parent_path());
  write_text(page, deck);
  const int status =
      run({"pandoc", page, "--from=markdown-implicit_figures", "--to=html5", "--standalone",
           "--self-contained", "--section-divs", "--mathml",
           "--template=" + root + "/course/slides/deck.html", "--metadata=title:" + lesson.title,
           "--resource-path=" + folder, "--output=" + out});
  if (status == 127)
    throw std::runtime_error(
        "slides are made by pandoc, which is not installed: apt-get install pandoc\n"
        "(`--markdown` prints the deck's text without it)");
  if (status != 0) throw std::runtime_error(fmt::format("pandoc ended with status {}", status));
  fmt::print("{}\n", out);
}

}  // namespace

std::string slides_of(const std::string& readme) {
  std::string deck;
  Section section("");
  for (const Block& block : blocks_of(readme)) {
    if (block.kind == Kind::heading) {
      deck += section.end();
      section = Section(block.text.starts_with("# ") ? "#" + block.text : block.text);
    } else if (block.kind != Kind::folded) {
      deck += section.add(block);
    }
  }
  return deck + section.end();
}

int slides(const SlidesOptions& options) {
  const std::vector<Topic> lessons = find_lessons(YOTTA_SOURCE_DIR);
  const Topic lesson = choose(lessons, options.name, "lesson");
  const std::string deck =
      slides_of(read_text(fmt::format("{}/lessons/{}/README.md", YOTTA_SOURCE_DIR, lesson.id)));
  if (options.markdown) {
    fmt::print("{}", deck);
    return 0;
  }
  const std::string out = options.out.empty() ? lesson.id + ".html" : options.out;
  JsonOutput json(options.json);
  make_deck(lesson, deck, out);
  json.write({{"lesson", lesson.id}, {"file", out}});
  return 0;
}

}  // namespace runner
