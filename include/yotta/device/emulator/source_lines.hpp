// Sites: the lines of a kernel that access memory, as numbers while it runs and as "tile.hpp:17" in messages.
//
//     a load of the kernel         return address of its hook, less the program's beginning        0x1a2f4
//     a wrapped instruction        its source_location, by its place in a list                     0x80000003
//
// A return address becomes a line by the program's debug information (-g1 is enough), read by addr2line, which comes
// with every Linux linker. Of functions inlined into each other the innermost outside of the emulator's own headers
// is meant: the line that the student wrote.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/simt_build.hpp"
#include "yotta/device/emulator/simt_shared_arrays.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// A line of source.
struct Line {
  std::string file;  // without folders
  int number = 0;
  std::string text() const {
    return number > 0 ? fmt::format("{}:{}", file, number) : std::string("a line unknown");
  }
  auto operator<=>(const Line&) const = default;
};

class Sites {
 public:
  static constexpr uint32_t by_where = 0x80000000u;  // else by address

  explicit Sites(const Image& image) : image_(image) {}

  YOTTA_UNSEEN uint32_t of(const void* return_address) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(return_address) - image_.base);
  }
  uint32_t of(Where where) {
    const auto same = [&](const Where& each) {
      return each.file_name() == where.file_name() && each.line() == where.line() &&
             each.column() == where.column();
    };
    const auto found = std::find_if(wheres_.begin(), wheres_.end(), same);
    const auto index = static_cast<uint32_t>(found - wheres_.begin());
    if (found == wheres_.end()) wheres_.push_back(where);
    return by_where | index;
  }

  // The lines of some sites; asks addr2line once for those not known yet.
  void look_up(std::vector<uint32_t> sites) {
    std::erase_if(sites,
                  [&](uint32_t site) { return (site & by_where) != 0 || lines_.count(site) > 0; });
    constexpr size_t at_once = 200;  // a command line has its limits
    for (size_t begin = 0; begin < sites.size(); begin += at_once)
      ask({sites.begin() + static_cast<std::ptrdiff_t>(begin),
           sites.begin() + static_cast<std::ptrdiff_t>(std::min(begin + at_once, sites.size()))});
  }
  Line line(uint32_t site) {
    if ((site & by_where) != 0) {
      const std::string text = at(wheres_[site & ~by_where]);
      const size_t colon = text.rfind(':');
      return {text.substr(0, colon), std::stoi(text.substr(colon + 1))};
    }
    look_up({site});
    if (lines_[site].number == 0) lines_[site] = nearby(site);
    return lines_[site];
  }
  // The line of an instruction, no call.
  Line line_of(uintptr_t instruction) {
    return line(of(reinterpret_cast<const void*>(instruction + 1)));
  }

 private:
  // An instruction that the compiler has moved has no line: that of the instructions before it, then.
  Line nearby(uint32_t site) {
    std::vector<uint32_t> before;
    for (uint32_t bytes = 1; bytes <= 64 && bytes < site; ++bytes) before.push_back(site - bytes);
    look_up(before);
    for (const uint32_t each : before)
      if (lines_[each].number > 0) return lines_[each];
    return {};
  }

  // addr2line -a -i: for each address a line "0x...", then file:line for each inlined function, innermost first.
  void ask(const std::vector<uint32_t>& sites) {
    std::string command = fmt::format("addr2line -a -i -e '{}'", image_.file);
    if (image_.file == "/proc/self/exe")
      command = fmt::format("addr2line -a -i -e /proc/{}/exe", ::getpid());
    for (const uint32_t site : sites) {
      lines_[site] = {};
      command += fmt::format(" {:#x}", site - 1);  // the call itself, not what follows it
    }
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        ::popen((command + " 2>/dev/null").c_str(), "r"), ::pclose);
    char row[4096];
    Line* current = nullptr;
    while (pipe && std::fgets(row, sizeof row, pipe.get()) != nullptr) {
      const std::string text = row;
      if (text.starts_with("0x")) {
        current = &lines_[static_cast<uint32_t>(std::stoull(text, nullptr, 16)) + 1];
      } else if (current != nullptr && current->number == 0) {
        *current = parse(text);
      }
    }
  }

  // "/home/me/tile.hpp:17 (discriminator 3)"; nothing for the emulator's own headers, the library's and "??:0".
  static Line parse(const std::string& text) {
    static constexpr const char* not_meant[] = {"/yotta/device/check_",
                                                "/yotta/device/simt_",
                                                "/device/vector_types.hpp",
                                                "/device/atomics.hpp",
                                                "/device/counted.hpp",
                                                "/device/half.hpp",
                                                "/bits/"};
    const size_t colon = text.rfind(':'), slash = text.rfind('/', colon);
    if (colon == std::string::npos) return {};
    for (const char* each : not_meant)
      if (text.find(each) != std::string::npos && text.find("_test.cpp") == std::string::npos)
        return {};
    const size_t begin = slash == std::string::npos ? 0 : slash + 1;
    return {text.substr(begin, colon - begin), std::atoi(text.c_str() + colon + 1)};
  }

  Image image_;
  std::vector<Where> wheres_;
  std::map<uint32_t, Line> lines_;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
