// cuda_source IN OUT: writes a CUDA file as g++ and clang can read it
// (include/yotta/device/unchanged/source_step.hpp), and OUT.d, the files that it was made from.
// Headers that the file includes by "name", and that lie beside it, are written beside OUT.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "yotta/device/unchanged/source_step.hpp"

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

class Rewriter {
 public:
  explicit Rewriter(fs::path out) : out_(std::move(out)) {}

  void run(const fs::path& in) {
    write(in, out_);
    std::ofstream dependencies(out_.string() + ".d");
    dependencies << escaped(out_) << ":";
    for (const auto& [path, written] : written_) dependencies << " \\\n  " << escaped(path);
    dependencies << "\n";
  }

 private:
  // As make reads a path.
  static std::string escaped(const fs::path& path) {
    std::string text;
    for (const char each : path.string()) {
      if (each == ' ' || each == '#') text += '\\';
      if (each == '$') text += '$';
      text += each;
    }
    return text;
  }
  void write(const fs::path& in, const fs::path& out) {
    written_[in] = out;
    // Includes first: their names matter here.
    const std::string included = with_includes(read(in), in.parent_path());
    const std::string text = yotta::emulator_source(included, names_);
    std::ofstream file(out, std::ios::binary);
    if (in.extension() == ".cu") file << "#include <cuda_runtime.h>\n";
    file << "#line 1 \"" << in.string() << "\"\n" << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + out.string());
  }
  // Names of files that lie in this folder become those of what is written for them.
  std::string with_includes(std::string text, const fs::path& folder) {
    for (size_t at = 0;;) {
      const yotta::QuotedInclude found = yotta::next_quoted_include(text, at);
      if (found.end == 0) return text;
      at = found.end;
      const fs::path in = folder / text.substr(found.begin, found.end - found.begin);
      if (!fs::exists(in)) continue;
      const std::string name = header(fs::canonical(in)).string();
      text.replace(found.begin, found.end - found.begin, name);
      at = found.begin + name.size();
    }
  }
  fs::path header(const fs::path& in) {
    if (const auto known = written_.find(in); known != written_.end()) return known->second;
    const fs::path out = fs::absolute(out_).string() + "." + std::to_string(written_.size()) + "." +
                         in.filename().string();
    write(in, out);
    return out;
  }

  fs::path out_;
  yotta::SourceNames names_;
  std::map<fs::path, fs::path> written_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: cuda_source IN OUT\n";
    return 2;
  }
  try {
    Rewriter(arguments[2]).run(fs::canonical(arguments[1]));
  } catch (const std::exception& error) {
    std::cerr << "cuda_source: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
