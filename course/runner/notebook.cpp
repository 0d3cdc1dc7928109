#include "runner/notebook.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/lesson_text.hpp"

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace runner {
namespace {

// As notebooks_cpp/notebook.hpp prints them.
constexpr std::string_view picture_begins = "<<picture>>\n",
                           picture_ends = "\n<<end of picture>>\n";

// Jupyter keeps a text as one string or as a list of lines.
std::string joined(const Json& text) {
  if (text.is_string()) return text;
  std::string all;
  for (const std::string line : text) all += line;
  return all;
}

// The list of lines, each with its line end but perhaps the last.
Json split(const std::string& text) {
  Json lines = Json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

Json parse(const std::string& text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

bool has_tag(const Json& cell, const std::string& tag) {
  for (const Json& each : cell["metadata"].value("tags", Json::array()))
    if (each == tag) return true;
  return false;
}

std::vector<Piece> stored_pieces(const Json& outputs) {
  std::vector<Piece> pieces;
  for (const Json& output : outputs) {
    if (output.at("output_type") == "stream")
      pieces.push_back({false, joined(output.at("text"))});
    else if (output.value("data", Json::object()).contains("image/svg+xml"))
      pieces.push_back({true, joined(output["data"]["image/svg+xml"])});
  }
  return pieces;
}

Json output_of(const Piece& piece) {
  if (!piece.is_picture)
    return {{"name", "stdout"}, {"output_type", "stream"}, {"text", split(piece.text)}};
  return {{"data", {{"image/svg+xml", split(piece.text)}}},
          {"metadata", Json::object()},
          {"output_type", "display_data"}};
}

// Formats each of the sources with one call of the program.
void format_sources(std::vector<std::string>& sources, const std::string& clang_format,
                    const std::string& folder) {
  if (clang_format.empty() || sources.empty()) return;
  fs::create_directories(folder);
  std::string command =
      fmt::format("{} -i '--style=file:{}/.clang-format'", clang_format, YOTTA_SOURCE_DIR);
  const auto file = [&](size_t i) { return fmt::format("{}/source_{}.cpp", folder, i); };
  for (size_t i = 0; i < sources.size(); ++i) {
    write_text(file(i), sources[i]);
    command += fmt::format(" '{}'", file(i));
  }
  if (std::system(command.c_str()) != 0) throw std::runtime_error("clang-format failed");
  for (size_t i = 0; i < sources.size(); ++i) sources[i] = read_text(file(i));
}

std::string without_last_line_ends(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Of the many things a cell may carry only these are kept.
Json plain_cell(const Json& cell, size_t number, const std::string& source) {
  Json plain = {{"cell_type", cell.at("cell_type")},
                {"id", cell.value("id", fmt::format("cell-{:02}", number))},
                {"metadata", Json::object()},
                {"source", split(without_last_line_ends(source))}};
  if (cell["metadata"].contains("tags")) plain["metadata"]["tags"] = cell["metadata"]["tags"];
  if (cell.at("cell_type") != "code") return plain;
  plain["execution_count"] = cell.value("execution_count", Json());
  plain["outputs"] = Json::array();
  for (const Piece& piece : stored_pieces(cell.value("outputs", Json::array())))
    plain["outputs"].push_back(output_of(piece));
  return plain;
}

const Json notebook_metadata = {
    {"kernelspec", {{"display_name", "C++20"}, {"language", "cpp"}, {"name", "xcpp20"}}},
    {"language_info",
     {{"codemirror_mode", "text/x-c++src"},
      {"file_extension", ".cpp"},
      {"mimetype", "text/x-c++src"},
      {"name", "C++"}}}};

std::vector<std::string> dead_links(const std::string& text, const fs::path& folder) {
  std::vector<std::string> complaints;
  const std::regex link("\\]\\(([^)#\\s]+)[^)]*\\)");
  for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
    const std::string target = (*it)[1];
    if (target.find("://") == target.npos && !fs::exists(folder / target))
      complaints.push_back("dead link: " + target);
  }
  return complaints;
}

// The first line that differs, by the rules of lessons' measured quotes; empty when the pieces are
// the same.
std::string difference(const std::vector<Piece>& stored, const std::vector<Piece>& shown) {
  const size_t count = std::max(stored.size(), shown.size());
  for (size_t i = 0; i < count; ++i) {
    const Piece a = i < stored.size() ? stored[i] : Piece(),
                b = i < shown.size() ? shown[i] : Piece();
    if (a.is_picture != b.is_picture)
      return "text in place of a picture, or a picture in place of text";
    const Lines left = lines_of(a.text), right = lines_of(b.text);
    for (size_t line = 0; line < std::max(left.size(), right.size()); ++line) {
      const std::string was = line < left.size() ? left[line] : "(nothing)";
      const std::string is = line < right.size() ? right[line] : "(nothing)";
      if (!same_line(was, is, /*measured=*/true))
        return fmt::format("stored:  {}\nprinted: {}", was, is);
    }
  }
  return "";
}

}  // namespace

std::vector<Piece> pieces_of(const std::string& printed) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < printed.size();) {
    const size_t begin = std::min(printed.find(picture_begins, at), printed.size());
    if (begin > at) pieces.push_back({false, printed.substr(at, begin - at)});
    if (begin == printed.size()) break;
    const size_t picture = begin + picture_begins.size(), end = printed.find(picture_ends, picture);
    if (end == printed.npos)
      throw std::runtime_error("the program printed the beginning of a picture and not its end");
    pieces.push_back({true, printed.substr(picture, end - picture)});
    at = end + picture_ends.size();
  }
  return pieces;
}

std::vector<CodeCell> read_code_cells(const std::string& path) {
  const Json json = parse(read_text(path), path);
  std::vector<CodeCell> cells;
  try {
    int number = 0;
    for (Json cell : json.at("cells")) {
      ++number;
      if (cell.at("cell_type") != "code") continue;
      cells.push_back({number, joined(cell.at("source")), stored_pieces(cell.at("outputs")),
                       has_tag(cell, "programs"), has_tag(cell, "mpi")});
    }
  } catch (const Json::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  return cells;
}

std::vector<std::string> read_texts(const std::string& path) {
  std::vector<std::string> texts;
  const Json json = parse(read_text(path), path);
  for (const Json& cell : json.value("cells", Json::array()))
    if (cell.value("cell_type", "") != "code") texts.push_back(joined(cell.at("source")));
  return texts;
}

std::vector<std::string> compare_stored(const std::vector<CodeCell>& cells,
                                        const std::vector<CodeCell>& others) {
  std::vector<std::string> complaints;
  for (const CodeCell& cell : cells)
    for (const CodeCell& other : others) {
      if (other.number != cell.number) continue;
      const std::string what = difference(cell.stored, other.stored);
      if (!what.empty()) complaints.push_back(fmt::format("cell {}:\n{}", cell.number, what));
    }
  return complaints;
}

std::vector<std::string> compare_outputs(const std::vector<CodeCell>& cells,
                                         const std::vector<CellRun>& runs) {
  std::vector<CodeCell> shown;
  for (const CellRun& run : runs) shown.push_back({run.cell, "", pieces_of(run.printed)});
  return compare_stored(cells, shown);
}

std::string with_outputs(const std::string& json, const std::vector<CellRun>& runs) {
  Json notebook = parse(json, "notebook");
  int count = 0;
  for (const CellRun& run : runs) {
    Json& cell = notebook.at("cells").at(static_cast<size_t>(run.cell - 1));
    cell["execution_count"] = ++count;
    cell["outputs"] = Json::array();
    for (const Piece& piece : pieces_of(run.printed)) cell["outputs"].push_back(output_of(piece));
  }
  return notebook.dump(1) + "\n";
}

std::string format_notebook(const std::string& json, const std::string& clang_format,
                            const std::string& folder) {
  Json notebook = parse(json, "notebook");
  std::vector<std::string> code;
  for (const Json& cell : notebook.at("cells"))
    if (cell.at("cell_type") == "code") code.push_back(joined(cell.at("source")));
  format_sources(code, clang_format, folder);

  Json plain = {{"cells", Json::array()},
                {"metadata", notebook_metadata},
                {"nbformat", 4},
                {"nbformat_minor", 5}};
  size_t next = 0;
  for (Json cell : notebook.at("cells"))
    plain["cells"].push_back(
        plain_cell(cell, plain["cells"].size() + 1,
                   cell.at("cell_type") == "code" ? code[next++] : joined(cell.at("source"))));
  return plain.dump(1) + "\n";
}

std::string find_clang_format() {
  for (const std::string name : {"clang-format-14", "clang-format"}) {
    const std::string command = name + " --version 2>/dev/null | grep -q 'version 14'";
    if (std::system(command.c_str()) == 0) return name;
  }
  return "";
}

std::vector<std::string> check_notebook(const std::string& path, const std::string& root) {
  std::vector<std::string> complaints;
  const std::string stem = fs::path(path).stem();
  const Json json = parse(read_text(path), path);
  if (json.at("metadata").at("kernelspec").value("name", "") != "xcpp20")
    complaints.push_back("its kernel is not xcpp20");
  std::string text;
  for (const std::string& each : read_texts(path)) text += each + "\n";
  for (const std::string& dead : dead_links(text, fs::path(path).parent_path()))
    complaints.push_back(dead);

  const auto wants = [&](const std::string& folder, const std::string& link) {
    if (fs::exists(fmt::format("{}/{}/{}/README.md", root, folder, stem)) &&
        text.find(link) == text.npos)
      complaints.push_back("no link to " + link);
  };
  wants("lessons", fmt::format("../lessons/{}/README.md", stem));
  wants("exercises", fmt::format("../exercises/{}/README.md", stem));
  if (text.find("](../include/yotta/") == text.npos) complaints.push_back("no link to a header");

  bool picture = false, words = false;
  const std::vector<CodeCell> cells = read_code_cells(path);
  for (const CodeCell& cell : cells)
    for (const Piece& piece : cell.stored) (piece.is_picture ? picture : words) = true;
  if (cells.empty() || cells[0].source.find("#include \"notebook.hpp\"") == std::string::npos)
    complaints.push_back("its first code cell does not include notebook.hpp");
  if (!words) complaints.push_back("no output is stored: ./yotta notebook --refresh");
  if (!picture) complaints.push_back("it shows no picture");
  if (text.find("Change") == text.npos) complaints.push_back("no cell to change");
  if (fs::file_size(path) > 150'000) complaints.push_back("it is larger than 150 kB");
  return complaints;
}

}  // namespace runner
