#include "runner/slides.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/json_output.hpp"
#include "runner/lesson_text.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

[[noreturn]] void outline_fails(size_t line, const std::string& what) {
  throw std::runtime_error(fmt::format("slides.outline, line {}: {}", line, what));
}

void check_slide(const Slide& slide, size_t line) {
  if (slide.points.empty() && slide.figures.empty())
    outline_fails(line, fmt::format("the slide \"{}\" is empty: give it lines that begin with "
                                    "\"- \", or a figure",
                                    slide.title));
  if (slide.notes.empty())
    outline_fails(line, fmt::format("the slide \"{}\" has no notes: end it with \"Notes: ...\"",
                                    slide.title));
}

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text)
    all += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return all;
}

// `code`, **bold**, *italic*.
std::string inline_html(const std::string& text) {
  static const std::regex code("`([^`]+)`"), bold(R"(\*\*([^*]+)\*\*)"), italic(R"(\*([^*]+)\*)");
  std::string html = std::regex_replace(escaped(text), code, "<code>$1</code>");
  html = std::regex_replace(html, bold, "<b>$1</b>");
  return std::regex_replace(html, italic, "<i>$1</i>");
}

std::string percent_encoded(const std::string& svg) {
  std::string all;
  for (const char c : svg) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view(" -_.:/=;,()").find(c) != std::string_view::npos;
    all += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return all;
}

std::string preformatted(const std::string& text) { return "<pre>" + escaped(text) + "</pre>\n"; }

std::string quoted_output(const std::string& name, const std::string& page) {
  std::string text;
  for (const Quote& quote : find_quotes(page))
    if (quote.name == name)
      for (const std::string& line : quote.lines) text += line + "\n";
  if (text.empty())
    throw std::runtime_error(fmt::format("slides.outline: the page quotes no output {}", name));
  return text;
}

std::string file_of(const std::string& path) {
  if (!fs::exists(path))
    throw std::runtime_error(fmt::format("slides.outline: there is no {}", path));
  return read_text(path);
}

std::string figure_html(const std::string& figure, const std::string& page,
                        const std::string& folder) {
  const size_t blank = figure.find(' ');
  const std::string kind = figure.substr(0, blank), name = figure.substr(blank + 1);
  if (kind == "@output") return preformatted(quoted_output(name, page));
  if (kind == "@code") return preformatted(file_of(folder + "/" + name));
  const std::string svg = file_of(YOTTA_SOURCE_DIR "/course/pictures/" + name);
  return fmt::format("<img alt=\"\" src=\"data:image/svg+xml,{}\">\n", percent_encoded(svg));
}

// The template has $title$ and $body$.
std::string filled(std::string html, const std::string& word, const std::string& with) {
  for (size_t at = html.find(word); at != html.npos; at = html.find(word, at + with.size()))
    html.replace(at, word.size(), with);
  return html;
}

}  // namespace

std::vector<Slide> read_outline(const std::string& outline) {
  std::vector<Slide> slides;
  size_t line_number = 0;
  bool in_notes = false;
  for (const std::string& line : lines_of(outline)) {
    ++line_number;
    if (line.starts_with("## ")) {
      if (!slides.empty()) check_slide(slides.back(), line_number);
      slides.push_back({line.substr(3), {}, {}, {}});
      in_notes = false;
    } else if (line.empty()) {
      continue;
    } else if (slides.empty()) {
      outline_fails(line_number, "a slide begins with \"## Its title\"");
    } else if (in_notes || line.starts_with("Notes: ")) {
      slides.back().notes += in_notes ? " " + line : line.substr(7);
      in_notes = true;
    } else if (line.starts_with("- ")) {
      slides.back().points.push_back(line.substr(2));
    } else if (line.starts_with("@picture ") || line.starts_with("@output ") ||
               line.starts_with("@code ")) {
      slides.back().figures.push_back(line);
    } else {
      outline_fails(line_number, "expected \"- ...\", @picture, @output, @code or Notes:");
    }
  }
  if (slides.empty()) outline_fails(line_number, "it has no slide");
  check_slide(slides.back(), line_number);
  return slides;
}

std::string html_of(const std::vector<Slide>& slides, const std::string& page,
                    const std::string& folder) {
  std::string body;
  for (const Slide& slide : slides) {
    body += fmt::format("<section>\n<h2>{}</h2>\n", inline_html(slide.title));
    if (!slide.points.empty()) body += "<ul>\n";
    for (const std::string& point : slide.points)
      body += fmt::format("<li>{}</li>\n", inline_html(point));
    if (!slide.points.empty()) body += "</ul>\n";
    for (const std::string& figure : slide.figures) body += figure_html(figure, page, folder);
    body += fmt::format("<aside>{}</aside>\n</section>\n", inline_html(slide.notes));
  }
  return body;
}

int slides(const SlidesOptions& options) {
  const std::string root = YOTTA_SOURCE_DIR;
  const Topic lesson = choose(find_lessons(root), options.name, "lesson");
  const std::string folder = root + "/lessons/" + lesson.id;
  const std::string body = html_of(read_outline(file_of(folder + "/slides.outline")),
                                   read_text(folder + "/README.md"), folder);
  const std::string out = options.out.empty() ? lesson.id + ".html" : options.out;
  JsonOutput json(options.json);
  const std::string deck = read_text(root + "/course/slides/deck.html");
  write_text(out, filled(filled(deck, "$title$", escaped(lesson.title)), "$body$", body));
  fmt::print("{}\n", out);
  json.write({{"lesson", lesson.id}, {"file", out}});
  return 0;
}

}  // namespace runner
