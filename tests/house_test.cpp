// The layout of the house: one stem per topic everywhere, no floor looks the wrong way, the book
// reaches engine rooms through named doors only, every comment names files that are there.
//
// Each check is a function from a folder to a list of complaints. It is run twice: on the project,
// where it must find nothing, and on a small wrong house built for it, where it must find what is
// wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/not_run.hpp"

namespace fs = std::filesystem;
using Complaints = std::vector<std::string>;

namespace {

const std::vector<std::string> floors = {"core", "machine",  "device", "comm", "sharding",
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
  for (const char* folder :
       {"include", "tests", "course", "bench", "lessons", "exercises", "docs"}) {
    const auto some = files(root, folder, {".hpp", ".cpp", ".cuh", ".cu"});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// The folder below include/yotta or tests: "comm" for include/yotta/comm/work.hpp, "comm/tcp" for
// an engine room.
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

// A preprocessor directive, and the #if lines that it stands under; after #else: "#else of #if
// ...".
struct Directive {
  int line;
  std::string text;
  std::vector<std::string> conditions;

  // The file that it includes, if that is one of ours: "comm/work.hpp"; otherwise nothing.
  std::string ours() const {
    const std::string start = "#include \"yotta/";
    return text.starts_with(start) ? text.substr(start.size(), text.rfind('"') - start.size()) : "";
  }
  bool in_bodies() const {
    return std::any_of(conditions.begin(), conditions.end(), [](const std::string& condition) {
      return condition.starts_with("#if") && condition.find("_BODIES") != std::string::npos;
    });
  }
};

// The #if and #include lines of a file, in its order.
std::vector<Directive> directives(const fs::path& path) {
  std::vector<Directive> found;
  std::vector<std::string> conditions;
  each_line(path, [&](int number, const std::string& line) {
    if (line.starts_with("#endif") && !conditions.empty()) conditions.pop_back();
    if (line.starts_with("#el") && !conditions.empty()) conditions.back().insert(0, "#else of ");
    if (line.starts_with("#include")) found.push_back({number, line, conditions});
    if (!line.starts_with("#if")) return;
    conditions.push_back(line);
    found.push_back({number, line, conditions});
  });
  return found;
}

// Calls visit(header, the directive, the header that it includes): paths below include/yotta.
template <class Visit>
void each_include(const fs::path& root, Visit visit) {
  for (const fs::path& header : headers(root))
    for (const Directive& directive : directives(root / header))
      if (!directive.ours().empty())
        visit(header.lexically_relative("include/yotta"), directive, fs::path(directive.ours()));
}

// Every header has its test, and every test of a floor its header.
Complaints missing_mirrors(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    const auto test =
        fmt::format("tests/{}/{}_test.cpp", folder_of(header), header.stem().string());
    if (header.stem().string().ends_with("_bodies")) continue;  // the test of its page
    if (!fs::exists(root / test)) complaints.push_back(header.string() + " has no " + test);
  }
  for (const fs::path& test : files(root, "tests", {".cpp"})) {
    std::string stem = test.stem();
    if (height(floor_of(test)) < 0 || !stem.ends_with("_test")) continue;
    // collectives_ring_bytes_test.cpp may be a second test of collectives_ring.hpp.
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
    if (header.stem().string().ends_with("_bodies")) continue;
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
      if (fs::exists(entry.path() / "solution"))
        continue;  // an exercise of its own, with its header
      if (header_of.count(name) == 0) complaints.push_back(where + " has no header");
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

// A floor includes only itself and the floors below it. What is slow to compile stands in bodies
// sections and in rooms about files, whose headers are included by such rooms and bodies sections
// alone.
Complaints wrong_includes(const fs::path& root) {
  Complaints complaints;
  const std::regex slow("#include <(iostream|regex|random|CLI/.*|nlohmann/.*)>.*");
  const auto about_files = [](const fs::path& path) {
    return path.parent_path().filename() == "files";
  };
  for (const fs::path& header : headers(root)) {
    const int floor = height(floor_of(header));
    if (floor < 0) complaints.push_back(header.string() + " stands on no floor");
    for (const Directive& include : directives(root / header)) {
      const auto complain = [&](const char* why) {
        complaints.push_back(
            fmt::format("{}:{}: {}: {}", header.string(), include.line, why, include.text));
      };
      const fs::path ours = include.ours();
      const int other = ours.empty() ? 0 : height(*ours.begin());
      if (other < 0 || other > floor) complain("looks upwards");
      if (about_files(header) || include.in_bodies()) continue;
      if (about_files(ours) || std::regex_match(include.text, slow)) complain("slow to compile");
    }
  }
  return complaints;
}

using Doors = std::map<std::string, std::string>;

// What the book may include of engine rooms outside of its bodies sections, and what a page needs
// it for.
const Doors doors = {
    {"core/system/build.hpp", "YOTTA_API and YOTTA_BODIES_OF"},
    {"core/system/accelerator.hpp", "a body's launch on Device::cuda, a word of its functions"},
    {"core/cpu/thread_pool.hpp", "parallel_for and matmul call helper threads in"},
    {"core/cpu/matmul_packing.hpp", "matmul packs blocks of A and B"},
    {"core/cpu/matmul_rounds.hpp", "matmul hands out its tasks"},
    {"core/cpu/mismatch_diagnosis.hpp", "Clues: what compare() is told"},
    {"device/emulator/device_build.hpp", "the namespace of a build of kernels"},
    {"device/emulator/cuda_builtins.hpp", "CUDA's words: threadIdx, __syncthreads, shuffles"},
    {"device/emulator/scheduler.hpp", "launch"},
    {"device/emulator/global_memory.hpp", "cudaMalloc, cudaMemcpy, cudaFree"},
    {"device/emulator/mma_arithmetic.hpp", "the shapes and registers of mma instructions"},
    {"comm/engine/engine_options.hpp", "what RunOptions adds to"},
    {"comm/layouts/torus_shape.hpp", "TorusShape: what TorusRings is told"},
    {"nn/cpu/body.hpp", "run_elementwise, run_rows, add_column_sums, and what bodies call"},
    {"nn/cpu/math.hpp", "exponential and logistic, for bodies"},
};

// A header at the top of a floor, where students read, reaches engine rooms through a door or in
// bodies only.
Complaints walls_passed(const fs::path& root, const Doors& open) {
  Complaints complaints;
  std::set<std::string> used;
  each_include(root, [&](const fs::path& header, const Directive& include, const fs::path& other) {
    if (!is_book("include/yotta" / header) || is_book("include/yotta" / other)) return;
    if (include.in_bodies()) return;
    if (open.count(other) == 0)
      complaints.push_back(
          fmt::format("{}:{}: {} is no door", header.string(), include.line, other.string()));
    used.insert(other);
  });
  for (const auto& [door, reason] : open)
    if (used.count(door) == 0) complaints.push_back(door + " is a door that nobody uses");
  return complaints;
}

// The rooms that others may include: what several of them share.
const std::set<std::string> shared_rooms = {
    "core/system", "core/cpu",     "core/files",    "device/emulator", "device/cuda",
    "comm/engine", "comm/waiting", "comm/matching", "comm/processes",  "nn/cpu"};
// And these may, each for its reason.
const std::set<std::pair<std::string, std::string>> neighbours = {
    {"comm/engine", "comm/threads"},  // ranks are threads unless told otherwise
    {"parallel/cuda", "nn/cuda"},     // one .cu file compiles the kernels of both floors
};

// An engine room includes no other room's insides.
Complaints rooms_entered(const fs::path& root) {
  Complaints complaints;
  each_include(root, [&](const fs::path& header, const Directive& include, const fs::path& other) {
    const std::string from = header.parent_path(), to = other.parent_path();
    const bool rooms = !is_book("include/yotta" / header) && !is_book("include/yotta" / other);
    if (!rooms || from == to || shared_rooms.count(to) + neighbours.count({from, to}) > 0) return;
    complaints.push_back(fmt::format("{}:{}: {} is no room that others share: {}", header.string(),
                                     include.line, to, other.string()));
  });
  return complaints;
}

// Circles of includes. One is allowed: work.hpp includes work_bodies.hpp in its bodies section, and
// that includes work.hpp. Any other header in a circle would find, when it is included first,
// bodies that need what it has yet to declare. So a header that ends in _bodies.hpp is included in
// a bodies section only, and a circle has one other header.
Complaints include_circles(const fs::path& root) {
  Complaints complaints;
  std::map<std::string, std::set<std::string>> reach;  // what a header includes, directly or not
  const auto is_bodies = [](const std::string& name) { return name.ends_with("_bodies.hpp"); };
  each_include(root, [&](const fs::path& header, const Directive& include, const fs::path& other) {
    reach[header].insert(other);
    if (is_bodies(other) && !include.in_bodies())
      complaints.push_back(fmt::format("{}:{}: {} outside of a bodies section", header.string(),
                                       include.line, other.string()));
  });
  for (bool grown = true; grown;) {
    grown = false;
    for (auto& [header, others] : reach)
      for (const std::string& other : std::set<std::string>(others)) {
        const size_t before = others.size();
        if (reach.count(other) > 0) others.insert(reach[other].begin(), reach[other].end());
        grown |= others.size() > before;
      }
  }
  for (const auto& [header, others] : reach)
    for (const std::string& other : others)
      if (header < other && !is_bodies(header) && !is_bodies(other) &&
          reach[other].count(header) > 0)
        complaints.push_back(fmt::format("{} and {} include each other", header, other));
  return complaints;
}

// The pages of comm/ and device/ that may have a single reader, each for its reason.
const Doors single_readers = {
    {"comm/collectives.hpp", "the umbrella of all families, for users"},
    {"device/cp_async.hpp", "one of CUDA's words, for kernels that users write"},
    {"device/ldmatrix.hpp", "one of CUDA's words, for kernels that users write"},
    {"device/matmul_pipelined.hpp",
     "a rung of lesson 03; matmul_rungs.hpp is the ladder's umbrella"},
    {"device/tensor_cores_pipeline.hpp", "a rung of lesson 04, as above"},
};

// At the top of comm/ and device/ stands what several headers, a program, README's table of topics
// or an umbrella lead to: what only one other header includes belongs into that header, or into an
// engine room.
Complaints lonely_headers(const fs::path& root, const Doors& allowed) {
  Complaints complaints;
  std::map<std::string, std::set<std::string>> readers;
  std::vector<fs::path> programs = sources(root);
  std::erase_if(programs, [](const fs::path& path) { return *path.begin() == "tests"; });
  std::set<std::string> umbrella;  // the members of comm/collectives.hpp
  for (const fs::path& source : programs)
    for (const Directive& include : directives(root / source)) {
      readers[include.ours()].insert(source);
      if (source == "include/yotta/comm/collectives.hpp") umbrella.insert(include.ours());
    }
  const std::vector<fs::path> all = headers(root);
  each_line(root / "README.md", [&](int, const std::string& line) {
    for (const fs::path& header : all)
      if (line.starts_with("| ") && line.find("(" + header.string() + ")") != std::string::npos)
        umbrella.insert(header.lexically_relative("include/yotta"));
  });
  for (const fs::path& header : all) {
    const std::string name = header.lexically_relative("include/yotta"), floor = floor_of(header);
    if (!is_book(header) || (floor != "comm" && floor != "device")) continue;
    if (umbrella.count(name) + allowed.count(name) > 0 || readers[name].size() != 1) continue;
    if (readers[name].begin()->starts_with("include/"))
      complaints.push_back(
          fmt::format("{} is read by {} alone", header.string(), *readers[name].begin()));
  }
  return complaints;
}

// A page of the book has at most 300 lines, a component of an engine room 600.
Complaints long_headers(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    int lines = 0;
    each_line(root / header, [&](int number, const std::string&) { lines = number; });
    if (lines > (is_book(header) ? 300 : 600))
      complaints.push_back(fmt::format("{} has {} lines", header.string(), lines));
  }
  return complaints;
}

// How many pages the top of a floor may have: what a reader meets who opens the folder. A new page
// takes the place of another, or what is a subject of its own gets a floor.
const std::map<std::string, int> most_pages = {{"comm", 24}, {"device", 20}};

Complaints crowded_floors(const fs::path& root, const std::map<std::string, int>& most) {
  Complaints complaints;
  std::map<std::string, int> pages;
  for (const fs::path& header : headers(root)) pages[floor_of(header)] += is_book(header);
  for (const auto& [floor, limit] : most)
    if (pages[floor] > limit)
      complaints.push_back(
          fmt::format("{} has {} pages, more than {}", floor, pages[floor], limit));
  return complaints;
}

// How many lines of the book a reader of a page may have to know: those of all pages at the top of
// a floor that it reaches by the includes outside of its bodies.
const std::map<std::string, int> closures = {
    {"comm/communicator.hpp", 1500}, {"parallel/ddp.hpp", 2000}, {"parallel/fsdp.hpp", 3000}};

Complaints long_closures(const fs::path& root, const std::map<std::string, int>& most) {
  Complaints complaints;
  for (const auto& [page, limit] : most) {
    std::set<std::string> reached;
    int lines = 0;
    const auto walk = [&](const auto& self, const std::string& name) -> void {
      if (!reached.insert(name).second) return;
      const fs::path header = root / "include/yotta" / name;
      each_line(header, [&](int, const std::string&) {
        lines += is_book("include/yotta" / fs::path(name));
      });
      for (const Directive& include : directives(header))
        if (!include.ours().empty() && !include.in_bodies()) self(self, include.ours());
    };
    walk(walk, page);
    if (lines > limit)
      complaints.push_back(
          fmt::format("{} reaches {} lines of the book, more than {}", page, lines, limit));
  }
  return complaints;
}

// The part of a line that is a comment; of a string that holds "//", that part.
std::string comment_of(const fs::path& path, const std::string& line) {
  const bool script = path.extension() == ".cmake" || path.extension() == ".txt";
  const size_t start = line.find(script ? "#" : "//");
  return start == std::string::npos ? "" : line.substr(start);
}

// Every include is written in one of two ways, so that the checks above see all of them.
Complaints odd_includes(const fs::path& root) {
  Complaints complaints;
  const std::regex include("\\s*#\\s*include.*");
  const std::regex usual("#include (\"yotta/[^\"]+\"|<(?!yotta/)[^>]+>).*");
  for (const fs::path& header : headers(root))
    each_line(root / header, [&](int number, const std::string& line) {
      if (line.find("include") == std::string::npos || !std::regex_match(line, include)) return;
      if (!std::regex_match(line, usual))
        complaints.push_back(
            fmt::format("{}:{}: {}: write #include \"yotta/...\" at the line's beginning",
                        header.string(), number, line));
    });
  return complaints;
}

// What a header includes stands above its namespace, or the other file's names would lie in it.
Complaints includes_inside(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& header : headers(root)) {
    bool inside = false;
    each_line(root / header, [&](int number, const std::string& line) {
      if (line.starts_with("namespace yotta")) inside = true;
      if (line.starts_with("}  // namespace yotta")) inside = false;
      if (inside && line.starts_with("#include"))
        complaints.push_back(
            fmt::format("{}:{}: {} stands in namespace yotta", header.string(), number, line));
    });
  }
  return complaints;
}

// The scripts of the build.
std::vector<fs::path> scripts(const fs::path& root) {
  std::vector<fs::path> all;
  for (const char* folder : {"cmake", "tests", "course", "lessons", "bench", "exercises"}) {
    const auto some = files(root, folder, {".cmake", ".txt"});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Comments have at most 100 columns, in wrong solutions and CMake's scripts too; the widths of code
// are clang-format's.
Complaints wide_comments(const fs::path& root) {
  Complaints complaints;
  std::vector<fs::path> all = sources(root);
  for (const auto& more :
       {scripts(root), files(root, "cmake", {".cpp", ".hpp"}), files(root, "exercises", {".inc"}),
        files(root, "notebooks_cpp", {".hpp"})})
    all.insert(all.end(), more.begin(), more.end());
  for (const fs::path& header : all)
    each_line(root / header, [&](int number, const std::string& line) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not the rest of a character
      });
      if (columns > 100 && !comment_of(header, line).empty())
        complaints.push_back(fmt::format("{}:{}: {} columns", header.string(), number, columns));
    });
  return complaints;
}

// The starters of exercises, which are cut from the library: its checks are theirs.
bool is_cut(const fs::path& root, const fs::path& source) {
  std::string first;
  each_line(root / source, [&](int number, const std::string& line) {
    if (number == 1) first = line;
  });
  return source.string().find("exercises/") != std::string::npos &&
         first.starts_with("// Cut from include/yotta");
}

// Where a file's readers look for a bare name: on its floor, include and tests alike, or in its top
// folder.
std::string part_of(const fs::path& path) {
  const std::string top = *path.begin();
  const bool on_floor = (top == "include" || top == "tests") && height(floor_of(path)) >= 0;
  return on_floor ? floor_of(path) : top;
}

// The names of the files of each part.
using Names = std::map<std::string, std::set<std::string>>;

// Whether a comment in `path` may mean a file by `name`: one of its folder, its floor,
// include/yotta or the tree.
bool names_a_file(const fs::path& root, const fs::path& path, const std::string& name,
                  const Names& names) {
  for (const fs::path& folder :
       {fs::path(), fs::path("include"), fs::path("include/yotta"), path.parent_path(),
        "include/yotta" / fs::path(part_of(path)), "tests" / fs::path(part_of(path))})
    if (fs::exists(root / folder / name) || fs::exists(root / folder / (name + ".in"))) return true;
  return names.at(part_of(path)).count(name) > 0;
}

// Names in comments that stand for any file.
const std::set<std::string> any_file = {"x_test.cpp", "tests/x_test.cpp", "my_kernels.cpp",
                                        "student.hpp", "lessons/NN_topic/lesson.cpp"};

// Comments name files that are there: "nn/layer.hpp", or, on nn's own floor, layer.hpp. Examples
// are what stands in quotes, "a.cpp", and places of messages, a.cpp:7.
Complaints stale_paths(const fs::path& root) {
  Complaints complaints;
  std::vector<fs::path> all = sources(root);
  for (const fs::path& script : scripts(root)) all.push_back(script);
  Names names;
  for (const fs::path& source : all) names[part_of(source)].insert(source.filename());
  const std::regex path("[A-Za-z0-9_][A-Za-z0-9_./-]*\\.(hpp|cpp|cuh|cu|cmake)(?![A-Za-z0-9_.:-])");
  for (const fs::path& source : all) {
    if (is_cut(root, source) || source == "tests/house_test.cpp") continue;
    each_line(root / source, [&](int number, const std::string& line) {
      const std::string comment = comment_of(source, line);
      if (comment.find('.') == std::string::npos) return;
      for (std::sregex_iterator at(comment.begin(), comment.end(), path), end; at != end; ++at) {
        const char before = comment[static_cast<size_t>(at->position()) - 1];
        if (before == '"' || before == '*' || before == '/' || any_file.count(at->str()) > 0)
          continue;
        if (!names_a_file(root, source, at->str(), names))
          complaints.push_back(
              fmt::format("{}:{}: there is no {}", source.string(), number, at->str()));
      }
    });
  }
  return complaints;
}

// The file that compiles each unit: "nn" -> cmake/compiled/nn.cpp. Files of sub-folders define
// theirs.
std::map<std::string, fs::path> unit_files(const fs::path& root) {
  std::map<std::string, fs::path> found;
  const std::string macro = "#define YOTTA_COMPILING_";
  for (const fs::path& source : files(root, "cmake/compiled", {".cpp"})) {
    if (source.parent_path().filename() == "compiled") found[source.stem()] = source;
    each_line(root / source, [&](int, const std::string& line) {
      if (line.starts_with(macro))
        found[line.substr(macro.size(), line.rfind(' ') - macro.size())] = source;
    });
  }
  return found;
}

// The units that a condition of the preprocessor holds for; nothing: for all.
// YOTTA_DEVICE_BODIES: device/emulator/device_build.hpp.
std::set<std::string> units_of(const std::string& condition) {
  std::set<std::string> units;
  const std::string macro = "YOTTA_BODIES_OF(";
  for (size_t at = condition.find(macro); at != std::string::npos;
       at = condition.find(macro, at + 1))
    units.insert(condition.substr(at + macro.size(), condition.find(')', at) - at - macro.size()));
  const bool negated = condition.find("!defined(YOTTA_CHECKED)") != std::string::npos;
  const bool checked = condition.find("defined(YOTTA_CHECKED)") != std::string::npos &&
                       negated == condition.starts_with("#else");
  if (condition.find("YOTTA_DEVICE_BODIES") != std::string::npos) units = {"device", "checked"};
  return checked ? std::set<std::string>{"checked"} : units;
}

// The headers that a unit's file reaches, directly or through others: below include/yotta.
std::set<std::string> reached(const fs::path& root, const std::string& unit, const fs::path& file) {
  std::set<std::string> found;
  const auto walk = [&](const auto& self, const fs::path& source) -> void {
    for (const Directive& include : directives(root / source)) {
      const bool compiled = std::all_of(include.conditions.begin(), include.conditions.end(),
                                        [&](const std::string& condition) {
                                          const std::set<std::string> units = units_of(condition);
                                          return units.empty() || units.count(unit) > 0;
                                        });
      if (compiled && !include.ours().empty() && found.insert(include.ours()).second)
        self(self, "include/yotta/" + include.ours());
    }
  };
  walk(walk, file);
  return found;
}

// Every bodies section is compiled: its unit has a file in cmake/compiled, and that file reaches
// the header.
Complaints bodies_left_out(const fs::path& root) {
  Complaints complaints;
  const std::map<std::string, fs::path> unit_file = unit_files(root);
  std::map<std::string, std::set<std::string>> reached_by;
  for (const auto& [unit, file] : unit_file) reached_by[unit] = reached(root, unit, file);
  const std::set<std::string> checked_only = {
      "checked"};  // bodies that the unchecked build has not
  for (const fs::path& header : headers(root)) {
    const std::string name = header.lexically_relative("include/yotta");
    std::set<std::string> units;
    for (const Directive& directive : directives(root / header)) {
      if (!directive.text.starts_with("#if") || directive.text.find("_BODIES") == std::string::npos)
        continue;
      std::set<std::string> of = units_of(directive.text);
      for (const std::string& outer : directive.conditions)
        if (units_of(outer) == checked_only) of = checked_only;
      if (header.filename() == "compiler_hooks.hpp")
        of = checked_only;  // included under such a condition
      units.merge(of);
    }
    for (const std::string& unit : units) {
      if (unit_file.count(unit) == 0)
        complaints.push_back(
            fmt::format("{}: no file compiles the unit {}", header.string(), unit));
      else if (reached_by[unit].count(name) == 0)
        complaints.push_back(fmt::format("{}: {} does not reach its bodies", header.string(),
                                         unit_file.at(unit).string()));
    }
  }
  return complaints;
}

// The library never ends the program, and nothing is left to be done later. Two headers may: a
// process that waits for the dead in MPI_Finalize would never end; and a forked process that does
// not become the program which it should start must not go on as a second copy of its parent.
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
  const auto has = [](const std::string& line, std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) {
      return line.find(word) != std::string::npos;  // much faster than a regular expression
    });
  };
  for (const fs::path& source : sources(root)) {
    const bool library = *source.begin() == "include" && source.filename() != "mpi_ranks.hpp" &&
                         source.filename() != "job_start.hpp";
    each_line(root / source, [&](int number, const std::string& line) {
      const std::string code = line.substr(0, line.find("//"));
      const bool ends = library && has(code, {"xit", "abort", "terminate", "assert"}) &&
                        std::regex_search(code, ending);
      const bool left = has(line, {"DO", "FIX", "XX", "CK"}) && std::regex_search(line, left_over);
      if (!ends && !left) return;
      complaints.push_back(fmt::format("{}:{}: {}", source.string(), number, line));
    });
  }
  return complaints;
}

// The files that clang-format would change. Versions differ in small things, so only version 14 is
// asked.
Complaints unformatted(const fs::path& root, const std::string& clang_format) {
  std::string command =
      fmt::format("{} --style='file:{}/.clang-format' --dry-run", clang_format, YOTTA_SOURCE_DIR);
  for (const fs::path& source : sources(root))
    if (!is_cut(root, source)) command += fmt::format(" '{}'", (root / source).string());
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

// Parts of exercises that stand outside of every bodies section: no compiled unit has them.
std::set<std::string> parts_in_no_unit(const fs::path& root) {
  std::set<std::string> parts;
  const std::regex part("^ *// exercise (\\d\\d\\.\\d+):.*");
  for (const fs::path& header : headers(root)) {
    std::vector<bool> in_bodies = {false};
    each_line(root / header, [&](int, const std::string& line) {
      std::smatch found;
      if (line.starts_with("#if"))
        in_bodies.push_back(in_bodies.back() || line.find("_BODIES") != std::string::npos);
      if (line.starts_with("#endif") && in_bodies.size() > 1) in_bodies.pop_back();
      if (!in_bodies.back() && std::regex_match(line, found, part)) parts.insert(found[1]);
    });
  }
  return parts;
}

// The parts that docs/architecture.md lists under "cannot hide": "03.1 to 03.3" names three.
std::set<std::string> parts_listed(const fs::path& root) {
  std::set<std::string> parts;
  bool listed = false;
  const std::regex names("(\\d\\d)\\.(\\d+)(?: to \\d\\d\\.(\\d+))?");
  each_line(root / "docs/architecture.md", [&](int, const std::string& line) {
    if (line.starts_with("#")) listed = line.find("cannot hide") != std::string::npos;
    if (!listed) return;
    for (std::sregex_iterator at(line.begin(), line.end(), names), end; at != end; ++at) {
      const int first = std::stoi((*at)[2]), last = (*at)[3].matched ? std::stoi((*at)[3]) : first;
      for (int i = first; i <= last; ++i) parts.insert(fmt::format("{}.{}", (*at)[1].str(), i));
    }
  });
  return parts;
}

Complaints parts_told_wrongly(const fs::path& root) {
  Complaints complaints;
  const std::set<std::string> there = parts_in_no_unit(root), listed = parts_listed(root);
  for (const std::string& part : there)
    if (listed.count(part) == 0)
      complaints.push_back(part + " is in no compiled unit, and docs/architecture.md lacks it");
  for (const std::string& part : listed)
    if (there.count(part) == 0)
      complaints.push_back("docs/architecture.md lists " + part + ", which a unit compiles");
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
                  "collectives_ring.hpp has no tests/comm/collectives_ring_test.cpp"));
  house.write("tests/comm/collectives_ring_test.cpp");
  house.write("tests/comm/collectives_ring_bytes_test.cpp");
  house.write("include/yotta/comm/engine/work_bodies.hpp");  // work_test.cpp is its test
  house.write("tests/papers/megatron_test.cpp");             // not a floor: no header is expected
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
  SUBCASE("upwards in a bodies section") {
    house.write("include/yotta/nn/linear.hpp",
                "#if YOTTA_BODIES_OF(nn)\n#include \"yotta/parallel/ddp.hpp\"\n#endif\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:2: looks upwards"));
  }
  SUBCASE("slow") {
    house.write("include/yotta/nn/linear.hpp", "#pragma once\n#include <iostream>\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:2: slow to compile"));
  }
  SUBCASE("slow after a bodies section") {
    house.write("include/yotta/nn/linear.hpp",
                "#if YOTTA_BODIES_OF(nn)\n#include <regex>\n#endif\n#include <regex>\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:4: slow to compile"));
  }
  SUBCASE("a room about files may, but then only bodies include it") {
    house.write("include/yotta/machine/files/cluster_file.hpp", "#include <nlohmann/json.hpp>\n");
    house.write(
        "include/yotta/nn/layer.hpp",
        "#if YOTTA_BODIES_OF(nn)\n#include \"yotta/machine/files/cluster_file.hpp\"\n#endif\n");
    CHECK(wrong_includes(house.root()).empty());
    house.write("include/yotta/nn/linear.hpp",
                "#include \"yotta/machine/files/cluster_file.hpp\"\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:1: slow to compile"));
  }
  SUBCASE("no floor") {
    house.write("include/yotta/attic/trunk.hpp");
    CHECK(complains(wrong_includes(house.root()), "stands on no floor"));
  }
}

TEST_CASE("the book reaches engine rooms through named doors, or in its bodies") {
  check_none(walls_passed(project, doors));
  Sketch house;
  const Doors door = {{"core/system/build.hpp", "YOTTA_API"}};
  const std::string build = "#include \"yotta/core/system/build.hpp\"\n";
  const std::string tcp = "#include \"yotta/comm/tcp/sockets.hpp\"\n";
  house.write("include/yotta/comm/tcp/sockets.hpp");
  house.write("include/yotta/comm/tcp/launch.hpp", tcp);  // a room may, and may be no door
  house.write("include/yotta/comm/work.hpp",
              build + "#if YOTTA_BODIES_OF(comm)\n" + tcp + "#endif\n");
  CHECK(walls_passed(house.root(), door).empty());
  SUBCASE("a wall") {
    house.write("include/yotta/comm/work.hpp", build + tcp);
    CHECK(
        complains(walls_passed(house.root(), door), "work.hpp:2: comm/tcp/sockets.hpp is no door"));
  }
  SUBCASE("the other side of a bodies section") {
    house.write("include/yotta/comm/work.hpp",
                build + "#if YOTTA_BODIES_OF(comm)\n#else\n" + tcp + "#endif\n");
    CHECK(
        complains(walls_passed(house.root(), door), "work.hpp:4: comm/tcp/sockets.hpp is no door"));
  }
  SUBCASE("a door too many") {
    house.write("include/yotta/comm/work.hpp", "");
    CHECK(complains(walls_passed(house.root(), door), "build.hpp is a door that nobody uses"));
  }
}

TEST_CASE("an engine room includes no other room's insides") {
  check_none(rooms_entered(project));
  Sketch house;
  house.write("include/yotta/comm/tcp/sockets.hpp",
              "#include \"yotta/comm/tcp/launch.hpp\"\n#include \"yotta/comm/engine/engine.hpp\"\n"
              "#include \"yotta/comm/work.hpp\"\n");
  CHECK(rooms_entered(house.root()).empty());
  house.write("include/yotta/comm/mpi/ranks.hpp", "#include \"yotta/comm/tcp/sockets.hpp\"\n");
  CHECK(
      complains(rooms_entered(house.root()), "ranks.hpp:1: comm/tcp is no room that others share"));
}

TEST_CASE("includes do not run in circles") {
  check_none(include_circles(project));
  Sketch house;
  const std::string bodies = "#include \"yotta/comm/engine/work_bodies.hpp\"\n";
  house.write("include/yotta/comm/work.hpp", "#if YOTTA_BODIES_OF(comm)\n" + bodies + "#endif\n");
  house.write("include/yotta/comm/engine/work_bodies.hpp", "#include \"yotta/comm/work.hpp\"\n");
  CHECK(include_circles(house.root()).empty());
  SUBCASE("of two, through a third") {
    house.write("include/yotta/comm/a.hpp", "#include \"yotta/comm/b.hpp\"\n");
    house.write("include/yotta/comm/b.hpp",
                "#if YOTTA_BODIES_OF(comm)\n#include \"yotta/comm/engine/c_bodies.hpp\"\n#endif\n");
    CHECK(include_circles(house.root()).empty());
    house.write("include/yotta/comm/engine/c_bodies.hpp", "#include \"yotta/comm/a.hpp\"\n");
    CHECK(complains(include_circles(house.root()), "comm/a.hpp and comm/b.hpp include each other"));
  }
  SUBCASE("bodies outside of their section") {
    house.write("include/yotta/comm/data.hpp", bodies);
    CHECK(complains(include_circles(house.root()),
                    "data.hpp:1: comm/engine/work_bodies.hpp outside"));
  }
}

TEST_CASE("what stands at the top of comm/ and device/ has several readers or a topic") {
  check_none(lonely_headers(project, single_readers));
  Sketch house;
  house.write("include/yotta/comm/ring.hpp");
  house.write("include/yotta/comm/collectives.hpp", "#include \"yotta/comm/ring.hpp\"\n");
  house.write("course/a.cpp", "#include \"yotta/comm/collectives.hpp\"\n");
  house.write("course/b.cpp", "#include \"yotta/comm/collectives.hpp\"\n");
  CHECK(lonely_headers(house.root(), {}).empty());
  house.write("include/yotta/device/mma.hpp");
  CHECK(lonely_headers(house.root(), {}).empty());  // for users
  house.write("include/yotta/nn/op.hpp", "#include \"yotta/device/mma.hpp\"\n");
  CHECK(complains(lonely_headers(house.root(), {}),
                  "mma.hpp is read by include/yotta/nn/op.hpp alone"));
  CHECK(lonely_headers(house.root(), {{"device/mma.hpp", "a reason"}}).empty());
  house.write("README.md", "| 04 | [mma](include/yotta/device/mma.hpp) |\n");
  CHECK(lonely_headers(house.root(), {}).empty());
}

TEST_CASE("the top of a floor has few pages") {
  check_none(crowded_floors(project, most_pages));
  Sketch house;
  house.write("include/yotta/comm/work.hpp");
  house.write("include/yotta/comm/mesh.hpp");
  house.write("include/yotta/comm/tcp/sockets.hpp");  // an engine room
  house.write("include/yotta/nn/linear.hpp");         // another floor
  CHECK(crowded_floors(house.root(), {{"comm", 2}}).empty());
  CHECK(complains(crowded_floors(house.root(), {{"comm", 1}}), "comm has 2 pages, more than 1"));
}

TEST_CASE("who reads DDP, FSDP or the communicator meets few other pages of the book") {
  check_none(long_closures(project, closures));
  Sketch house;
  house.write("include/yotta/core/tensor.hpp", std::string(10, '\n'));
  house.write("include/yotta/core/cpu/packing.hpp", std::string(100, '\n'));
  house.write("include/yotta/comm/work.hpp",
              "#include \"yotta/core/cpu/packing.hpp\"\n#include \"yotta/core/tensor.hpp\"\n");
  house.write("include/yotta/parallel/ddp.hpp",
              "#include \"yotta/comm/work.hpp\"\n#include \"yotta/core/tensor.hpp\"\n"
              "#if YOTTA_BODIES_OF(parallel)\n#include \"yotta/core/long.hpp\"\n#endif\n");
  house.write("include/yotta/core/long.hpp", std::string(1000, '\n'));
  CHECK(long_closures(house.root(), {{"parallel/ddp.hpp", 17}}).empty());
  CHECK(complains(long_closures(house.root(), {{"parallel/ddp.hpp", 16}}),
                  "parallel/ddp.hpp reaches 17 lines of the book, more than 16"));
}

TEST_CASE("no page of the book is longer than 300 lines, no component of an engine room than 600") {
  check_none(long_headers(project));
  Sketch house;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "//\n";
  house.write("include/yotta/core/long.hpp", text);
  house.write("include/yotta/core/cpu/longer.hpp", text + text);
  CHECK(long_headers(house.root()).empty());
  SUBCASE("book") {
    house.write("include/yotta/core/long.hpp", text + "//\n");
    CHECK(complains(long_headers(house.root()), "long.hpp has 301 lines"));
  }
  SUBCASE("engine room") {
    house.write("include/yotta/core/cpu/longer.hpp", text + text + "//\n");
    CHECK(complains(long_headers(house.root()), "longer.hpp has 601 lines"));
  }
}

TEST_CASE("includes are written in the two ways that the checks know") {
  check_none(odd_includes(project));
  Sketch house;
  house.write("include/yotta/core/fine.hpp",
              "// to include\n#include <vector>\n#include \"yotta/core/a.hpp\"  // why\n");
  CHECK(odd_includes(house.root()).empty());
  for (const char* line :
       {"#include <yotta/comm/tcp/sockets.hpp>", "  #include \"yotta/core/a.hpp\"",
        "# include \"yotta/core/a.hpp\"", "#include \"cpu/a.hpp\""}) {
    house.write("include/yotta/core/fine.hpp", line);
    CHECK(complains(odd_includes(house.root()), "fine.hpp:1: "));
  }
}

TEST_CASE("headers include nothing inside of namespace yotta") {
  check_none(includes_inside(project));
  Sketch house;
  house.write("include/yotta/core/out.hpp",
              "namespace yotta {\n}  // namespace yotta\n#include <a>\n");
  CHECK(includes_inside(house.root()).empty());
  house.write("include/yotta/core/in.hpp", "namespace yotta {\n#include <a>\n");
  CHECK(
      complains(includes_inside(house.root()), "in.hpp:2: #include <a> stands in namespace yotta"));
}

TEST_CASE("comments have at most 100 columns") {
  check_none(wide_comments(project));
  Sketch house;
  std::string text = "//";
  for (int i = 0; i < 98; ++i) text += "─";  // three bytes, one column
  house.write("include/yotta/core/wide.hpp", text + "\n");
  CHECK(wide_comments(house.root()).empty());
  house.write("include/yotta/core/wide.hpp", "\n" + text + "─\n");
  CHECK(complains(wide_comments(house.root()), "wide.hpp:2: 101 columns"));
  house.write("include/yotta/core/wide.hpp");
  for (const char* file : {"course/wide.cpp", "tests/comm/wide.hpp", "lessons/13_ddp/lesson.cpp",
                           "exercises/13_ddp/wrong/wide.inc"}) {
    house.write(file, text + "─\n");
    CHECK(complains(wide_comments(house.root()), "101 columns"));
    house.write(file);
  }
  house.write("cmake/wide.cmake", "#" + std::string(100, '-') + "\n");
  CHECK(complains(wide_comments(house.root()), "wide.cmake:1: 101 columns"));
}

TEST_CASE("comments name files that are there") {
  check_none(stale_paths(project));
  Sketch house;
  house.write("include/yotta/comm/tcp/tcp_ranks.hpp");
  house.write(
      "include/yotta/nn/linear.hpp",
      "// nn/linear.hpp, linear.hpp, yotta/comm/tcp/tcp_ranks.hpp, comm/tcp/tcp_ranks.hpp.\n"
      "// a.cpp:7 is an example.\nconst char* name = \"no_comment.hpp\";\n");
  house.write("tests/nn/linear_test.cpp", "// linear.hpp, tests/nn/linear_test.cpp\n");
  house.write("include/yotta/comm/work.hpp", "// on one floor: tcp_ranks.hpp\n");
  house.write("cmake/library.cmake", "# include/yotta/comm/work.hpp\n");
  CHECK(stale_paths(house.root()).empty());
  SUBCASE("gone") {
    house.write("include/yotta/comm/work.hpp", "int x;\nint y;  // see comm/lookout.hpp\n");
    CHECK(complains(stale_paths(house.root()), "work.hpp:2: there is no comm/lookout.hpp"));
  }
  SUBCASE("of another floor") {
    house.write("include/yotta/nn/linear.hpp", "// (tcp_ranks.hpp)\n");
    CHECK(complains(stale_paths(house.root()), "linear.hpp:1: there is no tcp_ranks.hpp"));
  }
  SUBCASE("in a script") {
    house.write("cmake/library.cmake", "# lookout.hpp\n");
    CHECK(complains(stale_paths(house.root()), "library.cmake:1: there is no lookout.hpp"));
  }
}

TEST_CASE("every bodies section is compiled by the file of its unit") {
  check_none(bodies_left_out(project));
  Sketch house;
  house.write("include/yotta/nn/op.hpp", "#if YOTTA_BODIES_OF(nn)\n#endif\n");
  house.write("include/yotta/nn/linear.hpp", "#include \"yotta/nn/op.hpp\"\n");
  house.write("include/yotta/comm/mpi/mpi.hpp", "#if YOTTA_BODIES_OF(mpi)\n#endif\n");
  house.write("cmake/compiled/nn.cpp", "#include \"yotta/nn/linear.hpp\"\n");
  house.write("cmake/compiled/mpi/mpi.cpp",
              "#define YOTTA_COMPILING_mpi 1\n#include \"yotta/comm/mpi/mpi.hpp\"\n");
  CHECK(bodies_left_out(house.root()).empty());
  SUBCASE("no such unit") {
    house.write("include/yotta/core/tensor.hpp", "#if YOTTA_BODIES_OF(core)\n#endif\n");
    CHECK(complains(bodies_left_out(house.root()), "tensor.hpp: no file compiles the unit core"));
  }
  SUBCASE("not reached") {
    house.write("include/yotta/nn/linear.hpp", "");
    CHECK(complains(bodies_left_out(house.root()), "op.hpp: cmake/compiled/nn.cpp does not reach"));
  }
  SUBCASE("reached in the bodies of another unit only") {
    house.write("include/yotta/nn/linear.hpp",
                "#if YOTTA_BODIES_OF(other)\n#include \"yotta/nn/op.hpp\"\n#endif\n");
    house.write("cmake/compiled/other.cpp", "#include \"yotta/nn/linear.hpp\"\n");
    CHECK(complains(bodies_left_out(house.root()), "op.hpp: cmake/compiled/nn.cpp does not reach"));
  }
}

TEST_CASE("docs/architecture.md lists the parts of exercises that no unit compiles") {
  check_none(parts_told_wrongly(project));
  Sketch house;
  house.write("include/yotta/comm/gossip.hpp",
              "// exercise 32.1: a\n// end of exercise 32.1\n// exercise 32.2: b\n"
              "#if YOTTA_BODIES_OF(comm)\n// exercise 32.3: c\n#endif\n");
  const std::string title = "### What a tree without its source cannot hide\n";
  house.write("docs/architecture.md", title + "- parts: 32.1 to 32.2;\n## More\n33.1\n");
  CHECK(parts_told_wrongly(house.root()).empty());
  SUBCASE("one too few") {
    house.write("docs/architecture.md", title + "- 32.1.\n");
    CHECK(complains(parts_told_wrongly(house.root()), "32.2 is in no compiled unit"));
  }
  SUBCASE("one too many") {
    house.write("docs/architecture.md", title + "- 32.1, 32.2, 32.3\n");
    CHECK(complains(parts_told_wrongly(house.root()), "lists 32.3, which a unit compiles"));
  }
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
