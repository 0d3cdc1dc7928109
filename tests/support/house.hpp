// What the checks of the house's layout share: its floors and files, what they include, and a small
// house to be wrong in. Paths are relative to the root of a tree.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace house {

namespace fs = std::filesystem;
using Complaints = std::vector<std::string>;

inline const std::vector<std::string> floors = {"core",       "machine", "device",   "comm",
                                                "sharding",   "nn",      "parallel", "model",
                                                "resilience", "plan"};
inline const fs::path project = YOTTA_SOURCE_DIR;

// 0 for core; -1 for what is no floor.
inline int height(const std::string& floor) {
  const auto at = std::find(floors.begin(), floors.end(), floor);
  return at == floors.end() ? -1 : static_cast<int>(at - floors.begin());
}

// All files below root/folder with one of these endings, sorted, relative to root.
inline std::vector<fs::path> files(const fs::path& root, const std::string& folder,
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

inline std::vector<fs::path> headers(const fs::path& root) {
  return files(root, "include", {".hpp", ".cuh"});
}
// impl/x.ipp: the bodies of x.hpp in the folder above.
inline std::vector<fs::path> bodies(const fs::path& root) {
  return files(root, "include", {".ipp"});
}

// The header whose bodies a file holds: "comm/work.hpp" of "comm/impl/work.ipp".
inline fs::path header_of(const fs::path& ipp) {
  return ipp.parent_path().parent_path() / (ipp.stem().string() + ".hpp");
}
// The other way round.
inline fs::path bodies_of(const fs::path& header) {
  return header.parent_path() / "impl" / (header.stem().string() + ".ipp");
}

// The folder below include/yotta or tests: "comm" for include/yotta/comm/work.hpp, "comm/mpi" for
// an engine room.
inline std::string folder_of(const fs::path& path) {
  const fs::path top = *path.begin() == "include" ? "include/yotta" : "tests";
  return path.parent_path().lexically_relative(top);
}
// The floor: "comm" for both.
inline std::string floor_of(const fs::path& path) {
  const std::string folder = folder_of(path);
  return folder.substr(0, folder.find('/'));
}
// Does it stand at the top of its floor, where students read?
inline bool is_book(const fs::path& path) { return folder_of(path) == floor_of(path); }

// Calls visit(line number, line) for each line of a file.
template <class Visit>
void each_line(const fs::path& path, Visit visit) {
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) visit(++number, line);
}

struct Include {
  int line;
  std::string text;

  // The file that it includes, if that is one of ours: "comm/work.hpp"; otherwise nothing.
  std::string ours() const {
    const std::string start = "#include \"yotta/";
    return text.starts_with(start) ? text.substr(start.size(), text.rfind('"') - start.size()) : "";
  }
};

inline std::vector<Include> includes(const fs::path& path) {
  std::vector<Include> found;
  each_line(path, [&](int number, const std::string& line) {
    if (line.starts_with("#include")) found.push_back({number, line});
  });
  return found;
}

// Calls visit(file, the include, the file that it includes) for headers and bodies: paths below
// include/yotta.
template <class Visit>
void each_include(const fs::path& root, Visit visit) {
  for (const fs::path& file : files(root, "include", {".hpp", ".cuh", ".ipp"}))
    for (const Include& include : includes(root / file))
      if (!include.ours().empty())
        visit(file.lexically_relative("include/yotta"), include, fs::path(include.ours()));
}

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
  fs::path root_ = fs::path(YOTTA_BUILD_DIR) / fmt::format("house_sketch_{}", getpid());
};

// One complaint, and it contains these words.
inline bool complains(const Complaints& complaints, const std::string& words) {
  INFO("expected one complaint: " << words
                                  << "; got: " << fmt::format("{}", fmt::join(complaints, "; ")));
  CHECK(complaints.size() == 1);
  return !complaints.empty() && complaints[0].find(words) != std::string::npos;
}

// Fails with the list when there is one.
inline void check_none(const Complaints& complaints) {
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}

}  // namespace house
