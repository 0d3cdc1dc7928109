// The layout of the house: one stem a topic everywhere, no floor looks the wrong way, no header too long.
//
// Each check is a function from a folder to a list of complaints. It is run twice: on the project, where it
// must find nothing, and on a small wrong house built for it, where it must find what is wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "support/not_run.hpp"

namespace fs = std::filesystem;
using Complaints = std::vector<std::string>;

namespace {

const std::vector<std::string> floors = {"core", "machine",  "device", "comm",
                                         "nn",   "parallel", "model",  "plan"};

// All files below root/folder with one of these endings, sorted, relative to root.
std::vector<fs::path> files(const fs::path& root, const std::string& folder,
                            const std::vector<std::string>& endings) {
  std::vector<fs::path> found;
  if (!fs::is_directory(root / folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const bool wanted = std::count(endings.begin(), endings.end(), entry.path().extension()) > 0;
    if (entry.is_regular_file() && wanted) found.push_back(fs::relative(entry.path(), root));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> headers(const fs::path& root) {
  return files(root, "include", {".hpp", ".cuh"});
}

std::vector<fs::path> sources(const fs::path& root) {
  std::vector<fs::path> all;
  for (const char* folder : {"include", "tests", "course", "bench", "lessons", "exercises"}) {
    const auto some = files(root, folder, {".hpp", ".cpp", ".cuh", ".cu"});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// The folder below include/yotta or tests: "comm" for include/yotta/comm/work.hpp, "comm/tcp" for an engine room.
std::string folder_of(const fs::path& path) {
  const fs::path top = *path.begin() == "include" ? "include/yotta" : "tests";
  return path.parent_path().lexically_relative(top);
}
// The floor: "comm" for both.
std::string floor_of(const fs::path& path) {
  const std::string folder = folder_of(path);
  return folder.substr(0, folder.find('/'));
}
// Does it stand at the top of its floor, where students read?
bool is_book(const fs::path& path) { return folder_of(path) == floor_of(path); }

int height(const std::string& floor) {
  const auto at = std::find(floors.begin(), floors.end(), floor);
  return at == floors.end() ? -1 : static_cast<int>(at - floors.begin());
}

// Calls visit(line number, line) for each line of a file.
template <class Visit>
void each_line(const fs::path& path, Visit visit) {
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) visit(++number, line);
}

// Every header has its test, and every test of a floor its header.
Complaints missing_mirrors(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    const auto test =
        fmt::format("tests/{}/{}_test.cpp", folder_of(header), header.stem().string());
    if (!fs::exists(root / test)) complaints.push_back(header.string() + " has no " + test);
  }
  for (const fs::path& test : files(root, "tests", {".cpp"})) {
    std::string stem = test.stem();
    if (height(floor_of(test)) < 0 || !stem.ends_with("_test")) continue;
    // collectives_bytes_test.cpp may be a second test of collectives_ring.hpp.
    bool found = false;
    while (!found && stem.find('_') != std::string::npos) {
      stem.resize(stem.rfind('_'));
      found = fs::exists(root / "include/yotta" / folder_of(test) / (stem + ".hpp"));
    }
    if (!found) complaints.push_back(test.string() + " tests no header of its floor");
  }
  return complaints;
}

// The test of a header includes it before anything else: so the header compiles alone.
Complaints late_includes(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    const fs::path test =
        root / "tests" / folder_of(header) / (header.stem().string() + "_test.cpp");
    const std::string wanted =
        fmt::format("#include \"yotta/{}/{}\"", folder_of(header), header.filename().string());
    std::string first;
    each_line(test, [&](int, const std::string& line) {
      if (first.empty() && line.starts_with("#include")) first = line;
    });
    if (first != wanted)
      complaints.push_back(test.filename().string() + " does not begin with " + wanted);
  }
  return complaints;
}

// A number and a name belong together wherever a topic has something, and the topic has a header.
Complaints torn_topics(const fs::path& root) {
  Complaints complaints;
  std::map<std::string, std::string> name_of;  // "10" -> "collectives"
  std::map<std::string, fs::path> header_of;   // "collectives" -> its header
  for (const fs::path& header : headers(root)) {
    if (!is_book(header)) continue;
    const auto [known, is_new] = header_of.emplace(header.stem(), header);
    if (!is_new)
      complaints.push_back(header.string() + " has the name of " + known->second.string());
  }
  for (const char* folder : {"lessons", "exercises", "notebooks_cpp"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::directory_iterator(root / folder)) {
      const std::string id = entry.path().stem(), where = fmt::format("{}/{}", folder, id);
      if (!entry.is_directory() && entry.path().extension() != ".ipynb") continue;
      if (!std::regex_match(id, std::regex("[0-9][0-9]_[a-z0-9_]+"))) {
        if (!id.starts_with(".")) complaints.push_back(where + " is not called NN_topic");
        continue;
      }
      const std::string number = id.substr(0, 2), name = id.substr(3);
      const auto known = name_of.emplace(number, name).first;
      if (known->second != name) {
        complaints.push_back(fmt::format("{}: elsewhere {} is {}", where, number, known->second));
      }
      if (number != "00" && header_of.count(name) == 0)
        complaints.push_back(where + " has no header");
      if (!fs::exists(root / "lessons" / id)) complaints.push_back(where + " has no lesson");
    }
  }
  return complaints;
}

// Every lesson has a notebook of its name.
Complaints missing_notebooks(const fs::path& root) {
  Complaints complaints;
  for (const auto& entry : fs::directory_iterator(root / "lessons")) {
    const std::string id = entry.path().filename();
    if (entry.is_directory() && !fs::exists(root / "notebooks_cpp" / (id + ".ipynb")))
      complaints.push_back(fmt::format("lessons/{} has no notebook", id));
  }
  return complaints;
}

// A floor includes only itself and the floors below it, and nothing that is slow to compile: that is for headers
// about files (x_file.hpp), which no other header includes.
Complaints wrong_includes(const fs::path& root) {
  Complaints complaints;
  const std::regex ours("^\\s*#\\s*include\\s*[<\"]yotta/([a-z_]+)/.*");
  const std::regex slow("^\\s*#\\s*include\\s*<(iostream|regex|random|CLI/.*|nlohmann/.*)>.*");
  const std::regex file(".*_file\\.hpp.*");
  for (const fs::path& header : headers(root)) {
    const std::string floor = floor_of(header);
    const bool lean = height(floor) < height("model") && !std::regex_match(header.string(), file);
    if (height(floor) < 0) complaints.push_back(header.string() + " stands on no floor");
    each_line(root / header, [&](int number, const std::string& line) {
      std::smatch match;
      const auto complain = [&](const char* why) {
        complaints.push_back(fmt::format("{}:{}: {}: {}", header.string(), number, why, line));
      };
      if (std::regex_match(line, match, ours)) {
        if (height(match[1]) < 0 || height(match[1]) > height(floor)) complain("looks upwards");
        if (lean && std::regex_match(line, file)) complain("slow to compile");
      } else if (lean && std::regex_match(line, slow)) {
        complain("slow to compile");
      }
    });
  }
  return complaints;
}

Complaints long_headers(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    int lines = 0;
    each_line(root / header, [&](int number, const std::string&) { lines = number; });
    if (lines > 300) complaints.push_back(fmt::format("{} has {} lines", header.string(), lines));
  }
  return complaints;
}

// The library never ends the program, and nothing is left to be done later. One header may: a process that waits for
// the dead in MPI_Finalize would never end.
Complaints forbidden_words(const fs::path& root) {
  Complaints complaints;
  const std::regex ending(
      "(^|[^a-z_.>])(std::|::)?(quick_|_)?(exit|_Exit|abort|terminate|assert)\\s*\\(.*");
  const std::regex left_over(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|HA"
      "CK)\\b");
  for (const fs::path& source : sources(root)) {
    const bool library = *source.begin() == "include" && source.filename() != "mpi_ranks.hpp";
    each_line(root / source, [&](int number, const std::string& line) {
      const std::string code = line.substr(0, line.find("//"));
      const bool ends = library && std::regex_search(code, ending);
      if (!ends && !std::regex_search(line, left_over)) return;
      complaints.push_back(fmt::format("{}:{}: {}", source.string(), number, line));
    });
  }
  return complaints;
}

// The files that clang-format would change. Versions differ in small things, so only version 14 is asked.
Complaints unformatted(const fs::path& root, const std::string& clang_format) {
  std::string command =
      fmt::format("{} --style='file:{}/.clang-format' --dry-run", clang_format, YOTTA_SOURCE_DIR);
  for (const fs::path& source : sources(root)) {
    command += fmt::format(" '{}'", (root / source).string());
  }
  const fs::path output = fs::path(YOTTA_BUILD_DIR) / "unformatted.txt";
  const int status = std::system(fmt::format("{} 2>'{}'", command, output.string()).c_str());
  Complaints complaints;
  if (status != 0) complaints.push_back("clang-format could not be run");
  each_line(output, [&](int, const std::string& line) {
    const size_t end = line.find(": warning: code should be clang-formatted");
    if (end == std::string::npos) return;
    const std::string place = line.substr(0, end);  // "/path/x.hpp:12:3"
    const std::string file = place.substr(0, place.find(':'));
    if (complaints.empty() || complaints.back() != file) complaints.push_back(file);
  });
  return complaints;
}

std::string find_clang_format() {
  for (const std::string name : {"clang-format-14", "clang-format"}) {
    const std::string command = name + " --version 2>/dev/null | grep -q 'version 14'";
    if (std::system(command.c_str()) == 0) return name;
  }
  return "";
}

const fs::path project = YOTTA_SOURCE_DIR;

// A small house to be wrong in: write("include/yotta/nn/x.hpp", "...").
class Sketch {
 public:
  Sketch() { fs::remove_all(root_); }
  ~Sketch() { fs::remove_all(root_); }
  Sketch(const Sketch&) = delete;
  Sketch& operator=(const Sketch&) = delete;

  void write(const std::string& path, const std::string& text = "") {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_ = fs::path(YOTTA_BUILD_DIR) / "house_sketch";
};

// One complaint, and it contains these words.
bool complains(const Complaints& complaints, const std::string& words) {
  INFO("expected one complaint: " << words
                                  << "; got: " << fmt::format("{}", fmt::join(complaints, "; ")));
  CHECK(complaints.size() == 1);
  return !complaints.empty() && complaints[0].find(words) != std::string::npos;
}

// Fails with the list when there is one.
void check_none(const Complaints& complaints) {
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}

}  // namespace

TEST_CASE("every header has a test beside it, and every test a header") {
  check_none(missing_mirrors(project));
  Sketch house;
  house.write("include/yotta/comm/collectives_ring.hpp");
  CHECK(complains(missing_mirrors(house.root()),
                  "collectives_ring.hpp has no tests/comm/collectives_test.cpp"));
  house.write("tests/comm/collectives_test.cpp");
  house.write("tests/comm/collectives_bytes_test.cpp");
  house.write("tests/papers/megatron_test.cpp");  // not a floor: no header is expected
  CHECK(missing_mirrors(house.root()).empty());
  house.write("tests/comm/gossip_test.cpp");
  CHECK(complains(missing_mirrors(house.root()), "gossip_test.cpp tests no header"));
}

TEST_CASE("a test includes its own header first, so that each header is compiled alone") {
  check_none(late_includes(project));
  Sketch house;
  house.write("include/yotta/nn/linear.hpp");
  house.write("tests/nn/linear_test.cpp", "// Linear.\n#include \"yotta/nn/linear.hpp\"\n");
  CHECK(late_includes(house.root()).empty());
  house.write("tests/nn/linear_test.cpp",
              "#include <vector>\n\n#include \"yotta/nn/linear.hpp\"\n");
  CHECK(complains(late_includes(house.root()), "linear_test.cpp does not begin with #include"));
}

TEST_CASE("a topic has one number and one name everywhere") {
  check_none(torn_topics(project));
  Sketch house;
  house.write("include/yotta/parallel/ddp.hpp");
  house.write("lessons/13_ddp/README.md");
  house.write("lessons/00_start/README.md");  // the start has no header
  house.write("notebooks_cpp/13_ddp.ipynb");
  CHECK(torn_topics(house.root()).empty());
  SUBCASE("two headers of one name") {
    house.write("include/yotta/nn/ddp.hpp");
    CHECK(complains(torn_topics(house.root()), "has the name of"));
  }
  SUBCASE("an exercise without a lesson") {
    house.write("exercises/14_ddp/README.md");
    CHECK(complains(torn_topics(house.root()), "exercises/14_ddp has no lesson"));
  }
  SUBCASE("a lesson without a header") {
    house.write("lessons/14_zero/README.md");
    CHECK(complains(torn_topics(house.root()), "lessons/14_zero has no header"));
  }
  SUBCASE("a name without a number") {
    house.write("lessons/ddp/README.md");
    CHECK(complains(torn_topics(house.root()), "lessons/ddp is not called NN_topic"));
  }
  SUBCASE("one number for two topics") {
    house.write("include/yotta/parallel/zero.hpp");
    house.write("lessons/13_zero/README.md");
    CHECK(torn_topics(house.root()).size() >= 1);
  }
}

TEST_CASE("every lesson has a notebook") {
  check_none(missing_notebooks(project));
  Sketch house;
  house.write("lessons/CMakeLists.txt");
  house.write("lessons/13_ddp/README.md");
  house.write("notebooks_cpp/13_ddp.ipynb");
  CHECK(missing_notebooks(house.root()).empty());
  house.write("lessons/14_zero/README.md");
  CHECK(complains(missing_notebooks(house.root()), "lessons/14_zero has no notebook"));
}

TEST_CASE("no floor looks upwards or includes what is slow to compile") {
  check_none(wrong_includes(project));
  Sketch house;
  house.write("include/yotta/nn/linear.hpp",
              "#include \"yotta/nn/layer.hpp\"\n#include \"yotta/core/a.hpp\"\n");
  CHECK(wrong_includes(house.root()).empty());
  SUBCASE("upwards") {
    house.write("include/yotta/nn/linear.hpp", "#include \"yotta/parallel/ddp.hpp\"\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:1: looks upwards"));
  }
  SUBCASE("slow") {
    house.write("include/yotta/nn/linear.hpp", "#pragma once\n#include <iostream>\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:2: slow to compile"));
  }
  SUBCASE("a header about files may, but then nobody includes it") {
    house.write("include/yotta/machine/files/cluster_file.hpp", "#include <nlohmann/json.hpp>\n");
    CHECK(wrong_includes(house.root()).empty());
    house.write("include/yotta/nn/linear.hpp", "#include \"yotta/machine/files/cluster_file.hpp\"\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:1: slow to compile"));
  }
  SUBCASE("no floor") {
    house.write("include/yotta/attic/trunk.hpp");
    CHECK(complains(wrong_includes(house.root()), "stands on no floor"));
  }
}

TEST_CASE("no header is longer than 300 lines") {
  check_none(long_headers(project));
  Sketch house;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "//\n";
  house.write("include/yotta/core/long.hpp", text);
  CHECK(long_headers(house.root()).empty());
  house.write("include/yotta/core/long.hpp", text + "//\n");
  CHECK(complains(long_headers(house.root()), "long.hpp has 301 lines"));
}

TEST_CASE("the library never ends the program, and nothing is left for later") {
  check_none(forbidden_words(project));
  Sketch house;
  house.write("include/yotta/core/fine.hpp",
              "static_assert(true);\nscope.exit();\nint on_exit(int);\n// never calls exit(1)\n");
  house.write("course/fine.cpp", "int main() { std::exit(0); }\n");  // a program may
  CHECK(forbidden_words(house.root()).empty());
  for (const char* line :
       {"  exit(1);", "std::abort();", "  assert(x > 0);", "if (x) ::_exit(1);"}) {
    house.write("include/yotta/core/fine.hpp", line);
    CHECK(complains(forbidden_words(house.root()), "fine.hpp:1"));
  }
  house.write("include/yotta/core/fine.hpp", "");
  house.write("course/fine.cpp",
              "// TO"
              "DO: later\n");
  CHECK(complains(forbidden_words(house.root()), "fine.cpp:1"));
}

TEST_CASE("every source file is as clang-format writes it") {
  const std::string clang_format = find_clang_format();
  if (clang_format.empty())
    YOTTA_NOT_RUN("clang-format 14 is not installed (apt-get install clang-format-14)");
  Sketch house;
  house.write("course/fine.cpp", "int main() { return 0; }\n");
  CHECK(unformatted(house.root(), clang_format).empty());
  house.write("course/fine.cpp", "int main( ){ return 0; }\n");
  CHECK(complains(unformatted(house.root(), clang_format), "fine.cpp"));
  check_none(unformatted(project, clang_format));
}
