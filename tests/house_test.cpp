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

#include "support/house.hpp"
#include "support/not_run.hpp"

using namespace house;

namespace {

std::vector<fs::path> sources(const fs::path& root) {
  std::vector<fs::path> all;
  for (const char* folder :
       {"include", "tests", "course", "bench", "lessons", "exercises", "docs"}) {
    const auto some = files(root, folder, {".hpp", ".ipp", ".cpp", ".cuh", ".cu"});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
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

// A test that says that it runs on a GPU is in nvcc_tests, the list that becomes gpu_tests.
Complaints false_gpu_tests(const fs::path& root) {
  Complaints complaints;
  bool inside = false;
  std::set<std::string> listed;
  each_line(root / "tests/device/gpu.cmake", [&](int, const std::string& line) {
    inside =
        inside || line.starts_with("set(nvcc_tests ") || line.starts_with("set(nvcc_nn_tests ");
    static const std::regex word("[a-z0-9_/]+");
    for (std::sregex_iterator at(line.begin(), line.end(), word), end; inside && at != end; ++at)
      listed.insert(at->str());
    if (line.ends_with(")")) inside = false;
  });
  for (const fs::path& test : files(root, "tests", {".cpp"})) {
    std::string name = test.lexically_relative("tests");
    if (!name.ends_with("_test.cpp")) continue;
    name.resize(name.size() - std::string("_test.cpp").size());
    each_line(root / test, [&](int line, const std::string& text) {
      if (text.starts_with("//") && text.find("on a GPU it tests") != std::string::npos &&
          listed.count(name) == 0)
        complaints.push_back(fmt::format("{}:{}: {} is not in nvcc_tests of tests/device/gpu.cmake",
                                         test.string(), line, name));
    });
  }
  return complaints;
}

// Kernels of the matmul ladders that do not tell nvcc how large their blocks are, and that C is no
// part of A or B.
Complaints unbounded_rungs(const fs::path& root) {
  Complaints complaints;
  const std::regex ladder("(matmul_|roofline_matmul|tensor_cores).*");
  for (const fs::path& header : files(root, "include/yotta/device", {".hpp"})) {
    if (!is_book(header) || !std::regex_match(header.stem().string(), ladder)) continue;
    std::string kernel;  // from __global__ on, to its body
    each_line(root / header, [&](int line, const std::string& text) {
      if (text.starts_with("__global__")) kernel = " ";
      if (!kernel.empty()) kernel += text;
      if (kernel.find('{') == std::string::npos) return;
      static const std::regex bare("(float|bfloat16)\\* (?!__restrict__)");
      if (kernel.find("__launch_bounds__") == std::string::npos || std::regex_search(kernel, bare))
        complaints.push_back(fmt::format("{}:{}:{}", header.string(), line, kernel));
      kernel.clear();
    });
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
      if (fs::exists(entry.path() / "solution"))
        continue;  // an exercise of its own, with its header
      if (header_of.count(name) == 0) complaints.push_back(where + " has no header");
      if (!fs::exists(root / "lessons" / id)) complaints.push_back(where + " has no lesson");
    }
  }
  return complaints;
}

// The first header of {fmt} that a file comes to before core/error.hpp, which makes {fmt} 9 such
// that nvcc compiles it; "": none. `seen`: headers that it has come to.
std::string first_plain_fmt(const fs::path& root, const fs::path& file, std::set<fs::path>& seen) {
  std::string found;
  each_line(root / file, [&](int number, const std::string& line) {
    if (!found.empty() || seen.contains("include/yotta/core/error.hpp")) return;
    if (line.starts_with("#include <fmt/")) found = fmt::format("{}:{}", file.string(), number);
    if (!line.starts_with("#include \"")) return;
    const std::string name = line.substr(10, line.find('"', 10) - 10);
    for (const fs::path& path :
         {file.parent_path() / name, fs::path(name), "include" / fs::path(name)})
      if (fs::exists(root / path)) {
        if (seen.insert(path.lexically_normal()).second)
          found = first_plain_fmt(root, path.lexically_normal(), seen);
        break;
      }
  });
  return found;
}
Complaints unreadable_for_nvcc(const fs::path& root) {
  Complaints complaints;
  for (const fs::path& file : sources(root)) {
    if (file.extension() != ".cu") continue;
    std::set<fs::path> seen;
    if (const std::string found = first_plain_fmt(root, file, seen); !found.empty())
      complaints.push_back(
          fmt::format("{}: {} comes before yotta/core/error.hpp", file.string(), found));
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

// Every lesson has its technique in one short program, on the library's headers alone.
Complaints wrong_screens(const fs::path& root) {
  constexpr int most = 40;  // lines of code
  Complaints complaints;
  for (const auto& entry : fs::directory_iterator(root / "lessons")) {
    if (!entry.is_directory()) continue;
    const fs::path path = entry.path() / "one_screen.cpp";
    const std::string name = fs::relative(path, root).string();
    if (!fs::exists(path)) {
      complaints.push_back(name + " is missing: the technique in 20 to 40 lines");
      continue;
    }
    int lines = 0;
    each_line(path, [&](int number, const std::string& line) {
      const size_t begin = line.find_first_not_of(' ');
      lines += begin != line.npos && !line.substr(begin).starts_with("//") ? 1 : 0;
      if (line.starts_with("#include \"") && !line.starts_with("#include \"yotta/"))
        complaints.push_back(
            fmt::format("{}:{}: includes what is no header of the library", name, number));
      if (number <= 2 && !line.starts_with("// "))
        complaints.push_back(name + " does not begin with two lines that say what it shows");
    });
    if (lines > most)
      complaints.push_back(
          fmt::format("{} has {} lines of code: {} are a screen", name, lines, most));
  }
  return complaints;
}

// A floor includes only itself and the floors below it. What is slow to compile stands in bodies
// (impl/x.ipp) and in rooms about files, whose headers only these include.
Complaints wrong_includes(const fs::path& root) {
  Complaints complaints;
  const std::regex slow("#include <(iostream|regex|random|CLI/.*|nlohmann/.*)>.*");
  const auto about_files = [](const fs::path& path) {
    return path.parent_path().filename() == "files";
  };
  for (const fs::path& file : files(root, "include", {".hpp", ".cuh", ".ipp"})) {
    const int floor = height(floor_of(file));
    if (floor < 0) complaints.push_back(file.string() + " stands on no floor");
    for (const Include& include : includes(root / file)) {
      const auto complain = [&](const char* why) {
        complaints.push_back(
            fmt::format("{}:{}: {}: {}", file.string(), include.line, why, include.text));
      };
      const fs::path ours = include.ours();
      const int other = ours.empty() ? 0 : height(*ours.begin());
      if (other < 0 || other > floor) complain("looks upwards");
      if (about_files(file) || file.extension() == ".ipp") continue;
      if (about_files(ours) || std::regex_match(include.text, slow)) complain("slow to compile");
    }
  }
  return complaints;
}

using Doors = std::map<std::string, std::string>;

// What the book may include of engine rooms, and what a page needs it for.
const Doors doors = {
    {"core/system/build.hpp", "YOTTA_FORM, and words that differ between compilers"},
    {"core/system/accelerator.hpp", "a body's launch on Device::cuda, a word of its functions"},
    {"core/system/kernel_batch.hpp", "layers that a GPU runs by one launch"},
    {"core/cpu/thread_pool.hpp", "parallel_for and matmul call helper threads in"},
    {"core/cpu/matmul_packing.hpp", "matmul packs blocks of A and B"},
    {"core/cpu/bf16_tiles.hpp", "matmul's kernels of bf16"},
    {"core/cpu/convert.hpp", "matmul rounds its sums to bf16"},
    {"core/cpu/few_rows.hpp", "matmul of few rows packs nothing"},
    {"core/cpu/matmul_rounds.hpp", "matmul hands out its tasks"},
    {"core/cpu/mismatch_diagnosis.hpp", "Clues: what compare() is told"},
    {"device/emulator/device_build.hpp", "the namespace of a build of kernels"},
    {"device/emulator/cuda_builtins.hpp", "CUDA's words: threadIdx, __syncthreads, shuffles"},
    {"device/emulator/scheduler.hpp", "launch"},
    {"device/emulator/global_memory.hpp", "cudaMalloc, cudaFree"},
    {"device/emulator/cuda_errors.hpp", "cudaError_t: what calls of the runtime return"},
    {"device/emulator/stream_words.hpp", "streams, events, cudaMemcpyAsync"},
    {"device/emulator/graph_words.hpp", "cudaGraphLaunch"},
    {"device/emulator/mma_arithmetic.hpp", "the shapes and registers of mma instructions"},
    {"device/unchanged/half_types.hpp", "CUDA's 16-bit floats and their arithmetic"},
    {"device/emulator/compiler_hooks.hpp", "what the compiler calls in checked kernels"},
    {"device/cuda/wgmma_instructions.hpp", "the PTX of wgmma, of every width"},
    {"device/compile/tiles.hpp", "one operation of a graph, run at once"},
    {"device/compile/lanes.hpp", "the text at the top of generated C++"},
    {"device/compile/cuda_functions.hpp", "the text at the top of generated CUDA"},
    {"device/compile/kernel_code.hpp", "a launch of fused kernels, compiled or interpreted"},
    {"sharding/spreads/boxes.hpp", "Box: which part of a tensor a rank holds"},
    {"sharding/spreads/spread_graph.hpp", "the graph in which plans are found"},
    {"comm/engine/engine_options.hpp", "what RunOptions adds to"},
    {"comm/layouts/torus_shape.hpp", "TorusShape: what TorusRings is told"},
    {"nn/cpu/body.hpp", "run_elementwise, run_rows, add_column_sums, and what bodies call"},
    {"nn/cpu/step_gate.hpp", "StepNumbers: a step that a device decides on"},
    {"nn/cpu/math.hpp", "exponential and logistic, for bodies"},
    {"nn/cpu/softmax_rows.hpp", "online_softmax_rows, of all rows of a tile of scores"},
    {"nn/cpu/tile_matmul.hpp", "tile_matmul, for the loops of flash attention"},
    {"resilience/faults/faults.hpp", "FaultPlan: who dies when in a survivor's run"},
    {"resilience/snapshots/epoch_log.hpp", "what a survivor keeps, and the log that it shows"},
};

// A header at the top of a floor, where students read, reaches engine rooms through a door only.
Complaints walls_passed(const fs::path& root, const Doors& open) {
  Complaints complaints;
  std::set<std::string> used;
  each_include(root, [&](const fs::path& file, const Include& include, const fs::path& other) {
    if (!is_book("include/yotta" / file) || is_book("include/yotta" / other)) return;
    if (other.extension() == ".ipp") return;  // its own: see bodies_elsewhere
    if (open.count(other) == 0)
      complaints.push_back(
          fmt::format("{}:{}: {} is no door", file.string(), include.line, other.string()));
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

// An engine room includes no other room's insides. The bodies of a face may: they are what it
// shows.
Complaints rooms_entered(const fs::path& root) {
  Complaints complaints;
  each_include(root, [&](const fs::path& file, const Include& include, const fs::path& other) {
    const auto room = [](const fs::path& path) {
      const std::string folder = path.parent_path();
      return folder.ends_with("/impl") ? folder.substr(0, folder.rfind('/')) : folder;
    };
    const std::string from = room(file), to = room(other);
    const bool rooms = from.find('/') != std::string::npos && to.find('/') != std::string::npos;
    if (!rooms || from == to || shared_rooms.count(to) + neighbours.count({from, to}) > 0) return;
    complaints.push_back(fmt::format("{}:{}: {} is no room that others share: {}", file.string(),
                                     include.line, to, other.string()));
  });
  return complaints;
}

// Circles of includes. One is allowed: work.hpp includes impl/work.ipp at its end, and that
// includes work.hpp. Any other header in a circle would find, when it is included first, bodies
// that need what it has yet to declare.
Complaints include_circles(const fs::path& root) {
  Complaints complaints;
  std::map<std::string, std::set<std::string>> reach;  // what a file includes, directly or not
  const auto is_bodies = [](const std::string& name) { return name.ends_with(".ipp"); };
  each_include(root, [&](const fs::path& file, const Include&, const fs::path& other) {
    reach[file].insert(other);
  });
  for (bool grown = true; grown;) {
    grown = false;
    for (auto& [file, others] : reach)
      for (const std::string& other : std::set<std::string>(others)) {
        const size_t before = others.size();
        if (reach.count(other) > 0) others.insert(reach[other].begin(), reach[other].end());
        grown |= others.size() > before;
      }
  }
  for (const auto& [file, others] : reach)
    for (const std::string& other : others)
      if (file < other && !is_bodies(file) && !is_bodies(other) && reach[other].count(file) > 0)
        complaints.push_back(fmt::format("{} and {} include each other", file, other));
  return complaints;
}

// One form: a header whose bodies are compiled once says so in its last lines, and nowhere else;
// each file of bodies has such a header, includes it first, and marks what it defines.
Complaints bodies_elsewhere(const fs::path& root) {
  Complaints complaints;
  const auto complain = [&](const fs::path& file, const std::string& why) {
    complaints.push_back(fmt::format("{}: {}", file.string(), why));
  };
  for (const fs::path& ipp : bodies(root)) {
    const fs::path header = header_of(ipp);
    if (!fs::exists(root / header)) complain(ipp, "there is no " + header.string());
    const std::vector<Include> all = includes(root / ipp);
    if (all.empty() || all[0].ours() != header.lexically_relative("include/yotta"))
      complain(ipp, "does not include its header first");
    bool marked = false;
    each_line(root / ipp, [&](int, const std::string& line) {
      marked = marked || line.find("YOTTA_INLINE ") != std::string::npos ||
               line.find("YOTTA_CALLED ") != std::string::npos ||
               line.find("YOTTA_HOOK") != std::string::npos;
    });
    if (!marked) complain(ipp, "defines nothing with YOTTA_INLINE");
  }
  each_include(root, [&](const fs::path& file, const Include& include, const fs::path& other) {
    if (other.extension() != ".ipp" || file.extension() == ".ipp" || bodies_of(file) == other)
      return;
    complain("include/yotta" / file, include.text + " holds another header's bodies");
  });
  for (const fs::path& header : headers(root)) {
    std::vector<std::string> lines;
    each_line(root / header, [&](int, const std::string& line) { lines.push_back(line); });
    const std::string own = fmt::format(
        "#include \"yotta/{}\"", bodies_of(header.lexically_relative("include/yotta")).string());
    const auto at = std::find(lines.begin(), lines.end(), own);
    const bool has = fs::exists(root / bodies_of(header));
    if (has != (at != lines.end()))
      complain(header, has ? "does not include its bodies" : "includes bodies that are not there");
    else if (has && (at == lines.begin() || (at - 1)->find("YOTTA_COMPILED") == std::string::npos ||
                     lines.end() - at > 4))
      complain(header, "must end with its bodies: #ifndef YOTTA_COMPILED, " + own + ", #endif");
    for (const std::string& line : lines)
      if (line.find("YOTTA_INLINE") != std::string::npos && !line.starts_with("//") &&
          header.filename() != "build.hpp")
        complain(header, "YOTTA_INLINE belongs into impl/" + bodies_of(header).filename().string());
  }
  return complaints;
}

// Every file of bodies is compiled once for yotta::compiled: one file of cmake/compiled includes
// it; what the emulator's checked build compiles too stands in cmake/compiled/checked.
Complaints bodies_left_out(const fs::path& root) {
  Complaints complaints;
  std::map<std::string, std::vector<std::string>> compiled_by, checked_by;
  for (const fs::path& unit : files(root, "cmake/compiled", {".cpp"}))
    for (const Include& include : includes(root / unit)) {
      auto& by = unit.parent_path().filename() == "checked" ? checked_by : compiled_by;
      by[include.ours()].push_back(unit);
    }
  for (const fs::path& ipp : bodies(root)) {
    const std::string name = ipp.lexically_relative("include/yotta");
    const std::vector<std::string>& units = compiled_by[name];
    if (units.size() > 1)
      complaints.push_back(fmt::format("{} is compiled by {}", name, fmt::join(units, " and ")));
    if (units.empty() && checked_by[name].empty())
      complaints.push_back(name + ": no file of cmake/compiled includes it");
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
  for (const fs::path& header : files(root, "include", {".hpp", ".cuh", ".ipp"}))
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
  for (const fs::path& header : files(root, "include", {".hpp", ".cuh", ".ipp"})) {
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

// Names in comments that stand for any file, and a project's that looks like one.
const std::set<std::string> any_file = {"llama.cpp",
                                        "x_test.cpp",
                                        "tests/x_test.cpp",
                                        "my_kernels.cpp",
                                        "student.hpp",
                                        "x.hpp",
                                        "one_screen.cpp",
                                        "lessons/NN_topic/lesson.cpp",
                                        "lessons/NN_topic/one_screen.cpp"};

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
    if (source == "tests/house_test.cpp") continue;
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
    const bool library = *source.begin() == "include" && source.filename() != "mpi_ranks.ipp" &&
                         source.filename() != "job_start.ipp";
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
    command += fmt::format(" '{}'", (root / source).string());
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

}  // namespace

TEST_CASE("every header has a test beside it, and every test a header") {
  check_none(missing_mirrors(project));
  Sketch house;
  house.write("include/yotta/comm/collectives_ring.hpp");
  CHECK(complains(missing_mirrors(house.root()),
                  "collectives_ring.hpp has no tests/comm/collectives_ring_test.cpp"));
  house.write("tests/comm/collectives_ring_test.cpp");
  house.write("tests/comm/collectives_ring_bytes_test.cpp");
  house.write("include/yotta/comm/impl/collectives_ring.ipp");  // the test of its header
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

TEST_CASE("a test that says that it runs on a GPU is among those that do") {
  check_none(false_gpu_tests(project));
  Sketch house;
  house.write("tests/device/gpu.cmake",
              "set(nvcc_tests device/a\n    nn/room/b)\nset(others device/c)\n");
  const std::string says = "// nvcc compiles this file too: on a GPU it tests the same kernels.\n";
  house.write("tests/device/a_test.cpp", says);
  house.write("tests/nn/room/b_test.cpp", says);
  house.write("tests/device/c_test.cpp");
  CHECK(false_gpu_tests(house.root()).empty());
  house.write("tests/device/c_test.cpp", says);
  CHECK(complains(false_gpu_tests(house.root()), "c_test.cpp:1: device/c is not in nvcc_tests"));
}

TEST_CASE("every rung of the matmul ladders has launch bounds, and pointers that share nothing") {
  check_none(unbounded_rungs(project));
  Sketch house;
  const std::string bounds = "__global__ void __launch_bounds__(32)\n    ";
  const auto rungs = [&](const std::string& kernel) {
    house.write("include/yotta/device/matmul_new.hpp", kernel);
    return unbounded_rungs(house.root());
  };
  CHECK(rungs(bounds + "x(const float* __restrict__ a, int m) {\n").empty());
  CHECK(complains(rungs(bounds + "x(const float* a, int m) {\n"), "matmul_new.hpp:2"));
  CHECK(complains(rungs("__global__ void x(float* __restrict__ a) {\n"), "matmul_new.hpp:1"));
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

TEST_CASE("every lesson has its technique on one screen") {
  check_none(wrong_screens(project));
  Sketch house;
  house.write("lessons/CMakeLists.txt");
  const std::string path = "lessons/13_ddp/one_screen.cpp";
  house.write("lessons/13_ddp/README.md");
  CHECK(complains(wrong_screens(house.root()), path + " is missing"));
  const std::string good = "// DDP.\n// The same loss.\n#include \"yotta/parallel/ddp.hpp\"\n";
  house.write(path, good);
  CHECK(wrong_screens(house.root()).empty());
  house.write(path, good + "#include \"course/lesson/lesson.hpp\"\n");
  CHECK(complains(wrong_screens(house.root()), "one_screen.cpp:4: includes what is no header"));
  house.write(path, "// DDP.\nint x;\n");
  CHECK(complains(wrong_screens(house.root()), "does not begin with two lines"));
  std::string long_one = good;
  for (int line = 0; line < 50; ++line) long_one += "int x;\n";
  house.write(path, long_one);
  CHECK(complains(wrong_screens(house.root()), "has 51 lines"));
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
  SUBCASE("upwards in bodies") {
    house.write("include/yotta/nn/impl/linear.ipp", "#include \"yotta/parallel/ddp.hpp\"\n");
    CHECK(complains(wrong_includes(house.root()), "linear.ipp:1: looks upwards"));
  }
  SUBCASE("slow") {
    house.write("include/yotta/nn/impl/linear.ipp", "#include <regex>\n");
    CHECK(wrong_includes(house.root()).empty());
    house.write("include/yotta/nn/linear.hpp", "#pragma once\n#include <iostream>\n");
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:2: slow to compile"));
  }
  SUBCASE("a room about files may, but then only bodies include it") {
    house.write("include/yotta/machine/files/cluster_file.hpp", "#include <nlohmann/json.hpp>\n");
    const std::string file = "#include \"yotta/machine/files/cluster_file.hpp\"\n";
    house.write("include/yotta/nn/impl/layer.ipp", file);
    CHECK(wrong_includes(house.root()).empty());
    house.write("include/yotta/nn/linear.hpp", file);
    CHECK(complains(wrong_includes(house.root()), "linear.hpp:1: slow to compile"));
  }
  SUBCASE("no floor") {
    house.write("include/yotta/attic/trunk.hpp");
    CHECK(complains(wrong_includes(house.root()), "stands on no floor"));
  }
}

TEST_CASE("the book reaches engine rooms through named doors") {
  check_none(walls_passed(project, doors));
  Sketch house;
  const Doors door = {{"core/system/build.hpp", "YOTTA_FORM"}};
  const std::string build = "#include \"yotta/core/system/build.hpp\"\n";
  const std::string far = "#include \"yotta/comm/far/sockets.hpp\"\n";
  house.write("include/yotta/comm/far/sockets.hpp");
  house.write("include/yotta/comm/far/launch.hpp", far);  // a room may, and may be no door
  house.write("include/yotta/comm/impl/work.ipp", far);   // and so may bodies
  house.write("include/yotta/comm/work.hpp", build + "#include \"yotta/comm/impl/work.ipp\"\n");
  CHECK(walls_passed(house.root(), door).empty());
  SUBCASE("a wall") {
    house.write("include/yotta/comm/work.hpp", build + far);
    CHECK(
        complains(walls_passed(house.root(), door), "work.hpp:2: comm/far/sockets.hpp is no door"));
  }
  SUBCASE("a door too many") {
    house.write("include/yotta/comm/work.hpp", "");
    CHECK(complains(walls_passed(house.root(), door), "build.hpp is a door that nobody uses"));
  }
}

TEST_CASE("an engine room includes no other room's insides") {
  check_none(rooms_entered(project));
  Sketch house;
  house.write("include/yotta/comm/far/sockets.hpp",
              "#include \"yotta/comm/far/launch.hpp\"\n#include \"yotta/comm/engine/engine.hpp\"\n"
              "#include \"yotta/comm/work.hpp\"\n");
  CHECK(rooms_entered(house.root()).empty());
  house.write("include/yotta/comm/mpi/ranks.hpp", "#include \"yotta/comm/far/sockets.hpp\"\n");
  CHECK(
      complains(rooms_entered(house.root()), "ranks.hpp:1: comm/far is no room that others share"));
  house.write("include/yotta/comm/mpi/ranks.hpp");
  house.write("include/yotta/comm/impl/work.ipp", "#include \"yotta/comm/far/sockets.hpp\"\n");
  CHECK(rooms_entered(house.root()).empty());
  house.write("include/yotta/comm/mpi/impl/ranks.ipp", "#include \"yotta/comm/far/sockets.hpp\"\n");
  CHECK(complains(rooms_entered(house.root()), "ranks.ipp:1: comm/far is no room"));
}

TEST_CASE("includes do not run in circles") {
  check_none(include_circles(project));
  Sketch house;
  house.write("include/yotta/comm/work.hpp", "#include \"yotta/comm/impl/work.ipp\"\n");
  house.write("include/yotta/comm/impl/work.ipp", "#include \"yotta/comm/work.hpp\"\n");
  CHECK(include_circles(house.root()).empty());
  house.write("include/yotta/comm/a.hpp", "#include \"yotta/comm/b.hpp\"\n");
  house.write("include/yotta/comm/b.hpp", "#include \"yotta/comm/impl/b.ipp\"\n");
  CHECK(include_circles(house.root()).empty());
  house.write("include/yotta/comm/impl/b.ipp", "#include \"yotta/comm/a.hpp\"\n");
  CHECK(complains(include_circles(house.root()), "comm/a.hpp and comm/b.hpp include each other"));
}

TEST_CASE("headers and the bodies that are compiled once have one form") {
  check_none(bodies_elsewhere(project));
  Sketch house;
  const std::string end = "#ifndef YOTTA_COMPILED\n#include \"yotta/comm/impl/work.ipp\"\n#endif\n";
  const std::string ipp = "#include \"yotta/comm/work.hpp\"\nYOTTA_INLINE void f() {}\n";
  house.write("include/yotta/comm/work.hpp", "void f();\n\n" + end);
  house.write("include/yotta/comm/impl/work.ipp", ipp);
  CHECK(bodies_elsewhere(house.root()).empty());
  SUBCASE("not included") {
    house.write("include/yotta/comm/work.hpp", "void f();\n");
    CHECK(complains(bodies_elsewhere(house.root()), "work.hpp: does not include its bodies"));
  }
  SUBCASE("not at the end") {
    house.write("include/yotta/comm/work.hpp", end + "\nvoid f();\nvoid g();\n");
    CHECK(complains(bodies_elsewhere(house.root()), "work.hpp: must end with its bodies"));
  }
  SUBCASE("in the compiled form too") {
    house.write("include/yotta/comm/work.hpp", "\n#include \"yotta/comm/impl/work.ipp\"\n");
    CHECK(complains(bodies_elsewhere(house.root()), "work.hpp: must end with its bodies"));
  }
  SUBCASE("of another header") {
    house.write("include/yotta/comm/data.hpp", "#include \"yotta/comm/impl/work.ipp\"\n");
    CHECK(complains(bodies_elsewhere(house.root()), "holds another header's bodies"));
  }
  SUBCASE("without a mark") {
    house.write("include/yotta/comm/impl/work.ipp",
                "#include \"yotta/comm/work.hpp\"\nvoid f() {}\n");
    CHECK(complains(bodies_elsewhere(house.root()), "work.ipp: defines nothing"));
  }
  SUBCASE("its header not first") {
    house.write("include/yotta/comm/impl/work.ipp", "#include <a>\n" + ipp);
    CHECK(complains(bodies_elsewhere(house.root()), "does not include its header first"));
  }
  SUBCASE("a mark in a header") {
    house.write("include/yotta/comm/data.hpp", "YOTTA_INLINE void f() {}\n");
    CHECK(complains(bodies_elsewhere(house.root()), "data.hpp: YOTTA_INLINE belongs into"));
  }
}

TEST_CASE("includes are written in the two ways that the checks know") {
  check_none(odd_includes(project));
  Sketch house;
  house.write("include/yotta/core/fine.hpp",
              "// to include\n#include <vector>\n#include \"yotta/core/a.hpp\"  // why\n");
  CHECK(odd_includes(house.root()).empty());
  for (const char* line :
       {"#include <yotta/comm/far/sockets.hpp>", "  #include \"yotta/core/a.hpp\"",
        "# include \"yotta/core/a.hpp\"", "#include \"cpu/a.hpp\""}) {
    house.write("include/yotta/core/fine.hpp", line);
    CHECK(complains(odd_includes(house.root()), "fine.hpp:1: "));
  }
}

TEST_CASE("nvcc comes to {fmt} through core/error.hpp") {
  check_none(unreadable_for_nvcc(project));
  Sketch house;
  house.write("include/yotta/core/error.hpp", "#include <fmt/core.h>\n");
  house.write("bench/a.cu", "#include \"a.hpp\"\n");
  house.write("bench/a.hpp", "#include \"yotta/core/error.hpp\"\n#include <fmt/format.h>\n");
  CHECK(unreadable_for_nvcc(house.root()).empty());
  house.write("bench/a.hpp", "#include <fmt/core.h>\n#include \"yotta/core/error.hpp\"\n");
  CHECK(complains(unreadable_for_nvcc(house.root()), "bench/a.cu: bench/a.hpp:1 comes before"));
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
  house.write("include/yotta/comm/far/far_ranks.hpp");
  house.write(
      "include/yotta/nn/linear.hpp",
      "// nn/linear.hpp, linear.hpp, yotta/comm/far/far_ranks.hpp, comm/far/far_ranks.hpp.\n"
      "// a.cpp:7 is an example.\nconst char* name = \"no_comment.hpp\";\n");
  house.write("tests/nn/linear_test.cpp", "// linear.hpp, tests/nn/linear_test.cpp\n");
  house.write("include/yotta/comm/work.hpp", "// on one floor: far_ranks.hpp\n");
  house.write("cmake/library.cmake", "# include/yotta/comm/work.hpp\n");
  CHECK(stale_paths(house.root()).empty());
  SUBCASE("gone") {
    house.write("include/yotta/comm/work.hpp", "int x;\nint y;  // see comm/lookout.hpp\n");
    CHECK(complains(stale_paths(house.root()), "work.hpp:2: there is no comm/lookout.hpp"));
  }
  SUBCASE("of another floor") {
    house.write("include/yotta/nn/linear.hpp", "// (far_ranks.hpp)\n");
    CHECK(complains(stale_paths(house.root()), "linear.hpp:1: there is no far_ranks.hpp"));
  }
  SUBCASE("in a script") {
    house.write("cmake/library.cmake", "# lookout.hpp\n");
    CHECK(complains(stale_paths(house.root()), "library.cmake:1: there is no lookout.hpp"));
  }
}

TEST_CASE("bodies are compiled once") {
  check_none(bodies_left_out(project));
  Sketch house;
  house.write("include/yotta/nn/impl/op.ipp");
  house.write("include/yotta/device/impl/counted.ipp");
  const std::string op = "#include \"yotta/nn/impl/op.ipp\"\n";
  house.write("cmake/compiled/nn.cpp", op);
  house.write("cmake/compiled/checked/device.cpp", "#include \"yotta/device/impl/counted.ipp\"\n");
  CHECK(bodies_left_out(house.root()).empty());
  SUBCASE("never") {
    house.write("cmake/compiled/nn.cpp");
    CHECK(complains(bodies_left_out(house.root()), "nn/impl/op.ipp: no file of cmake/compiled"));
  }
  SUBCASE("twice") {
    house.write("cmake/compiled/other.cpp", op);
    CHECK(complains(bodies_left_out(house.root()), "nn/impl/op.ipp is compiled by"));
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
