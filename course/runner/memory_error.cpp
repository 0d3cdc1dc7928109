#include "runner/memory_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "runner/exercise.hpp"
#include "runner/process.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double lookup_seconds = 20;

// A place in the student's file.
struct Place {
  std::string file;
  size_t line = 0;  // 0: none
  bool innermost = false;
};

std::string kind_in(const std::string& line) {
  static const std::regex error(R"(ERROR: AddressSanitizer: (?:attempting )?([A-Za-z-]+))");
  std::smatch found;
  return std::regex_search(line, found, error) ? found[1].str() : "";
}

std::string beside_in(const std::string& line) {
  static const std::regex located(
      R"(is located (\d+) bytes (to the right of|after|to the left of|before) (\d+)-byte region)");
  std::smatch found;
  if (!std::regex_search(line, found, located)) return "";
  const std::string where =
      found[2] == "after" || found[2] == "to the right of" ? "behind" : "before";
  const std::string far = found[1] == "0" ? "right" : found[1].str() + " bytes";
  return fmt::format("{} {} a block of {} bytes", far, where, found[3].str());
}

void read_access(const std::string& line, MemoryReport& report) {
  static const std::regex access(R"(^(READ|WRITE) of size (\d+) )"),
      signal(R"(caused by a (READ|WRITE) memory access)");
  std::smatch found;
  const bool sized = std::regex_search(line, found, access);
  if (!sized && !std::regex_search(line, found, signal)) return;
  report.access = found[1] == "READ" ? "reads" : "writes";
  if (sized) report.bytes = std::strtol(found[2].str().c_str(), nullptr, 10);
}

// Of `    #1 0x55d0c8 (/RUN/program+0x29f2)`; false: the line is no place.
bool read_place(const std::string& line, MemoryReport::Stack& stack) {
  static const std::regex place(R"(^ +#\d+ 0x[0-9a-f]+ )"),
      own(R"(\(/.*/program\+(0x[0-9a-f]+)\))");
  std::smatch found;
  if (!std::regex_search(line, place)) return false;
  stack.push_back(std::regex_search(line, found, own) ? found[1].str() : "");
  return true;
}

// The files and lines of addresses, from the inside out where functions were inlined.
std::map<std::string, std::vector<Place>> places_of(const MemoryReport& report,
                                                    const std::string& program) {
  Command command = {"addr2line", "-a", "-i", "-e", program};
  for (const auto* stack : {&report.here, &report.freed, &report.allocated})
    for (const std::string& address : *stack)
      if (!address.empty()) command.push_back(address);
  std::map<std::string, std::vector<Place>> places;
  std::string address;
  for (const std::string& line : lines_of(run_limited(command, lookup_seconds, 1 << 20).output)) {
    const size_t colon = line.find(':');
    if (line.starts_with("0x"))  // with zeros before it
      address = "0x" + line.substr(std::min(line.size(), line.find_first_not_of('0', 2)));
    else if (colon != std::string::npos)
      places[address].push_back(
          {line.substr(0, colon), std::strtoul(line.c_str() + colon + 1, nullptr, 10)});
  }
  return places;
}

// Only the unit of the student's file has lines: its file, the adapter, and what they include.
bool is_students(const Place& place) {
  return place.line > 0 && !place.file.starts_with(YOTTA_SOURCE_DIR "/include/") &&
         !place.file.starts_with("/usr/") &&
         place.file.find("/../include/c++/") == place.file.npos &&
         fs::path(place.file).filename() != "adapter.cpp" && fs::is_regular_file(place.file);
}

Place students_place(const MemoryReport::Stack& stack,
                     const std::map<std::string, std::vector<Place>>& places) {
  bool innermost = true;
  for (const std::string& address : stack) {
    const auto found = places.find(address);
    for (const Place& one : found == places.end() ? std::vector<Place>{} : found->second) {
      if (is_students(one)) return {one.file, one.line, innermost};
      innermost = false;
    }
    innermost = innermost && !address.empty() && found != places.end();
  }
  return {};
}

std::string source_line(const Place& place) {
  const Lines lines = lines_of(read_text(place.file));
  return place.line <= lines.size() ? trimmed(lines[place.line - 1]) : "";
}

// "line 52 (in 10.1)"
std::string named(const Place& place) {
  const Lines parts = part_of_lines(read_text(place.file));
  const std::string part = place.line <= parts.size() ? parts[place.line - 1] : "";
  return fmt::format("line {}{}", place.line, part.empty() ? "" : " (in " + part + ")");
}

std::string who(const Place& place) {
  if (place.line == 0) return "the library or a test";
  return place.innermost ? named(place) : "what " + named(place) + " calls";
}

// Where the memory came from or went; empty: in none of the student's lines.
std::string story(const std::string& what, const Place& place) {
  if (place.line == 0) return "";
  return fmt::format("\n{} in {}:\n  {}", what, named(place), source_line(place));
}

std::string what_it_does(const MemoryReport& report) {
  static const std::map<std::string, const char*> others = {
      {"double-free", "frees memory that was freed before"},
      {"free", "frees what was not allocated"},
      {"alloc-dealloc-mismatch", "frees memory in another way than it was allocated"},
      {"negative-size-param", "copies or fills a number of bytes below 0"},
      {"stack-overflow", "fills its stack: a function that calls itself without end?"}};
  const std::string does = report.access.empty() ? "uses" : report.access;
  const std::string bytes = report.bytes == 1  ? "1 byte"
                            : report.bytes > 0 ? fmt::format("{} bytes", report.bytes)
                                               : "memory";
  if (report.kind == "heap-use-after-free")
    return fmt::format("{} {} of memory that was freed", does, bytes);
  if (!report.beside.empty()) return fmt::format("{} {}, {}", does, bytes, report.beside);
  if (const auto other = others.find(report.kind); other != others.end()) return other->second;
  if (report.kind == "SEGV")
    return does + " an address that is nobody's: a null pointer, or an index far past the end?";
  return fmt::format("{} {} in a way that memory is not to be used", does, bytes);
}

}  // namespace

MemoryReport memory_report(const std::string& output) {
  MemoryReport report;
  MemoryReport::Stack* stack = nullptr;
  for (const std::string& line : lines_of(output)) {
    if (report.kind.empty() && !(report.kind = kind_in(line)).empty()) stack = &report.here;
    if (stack == nullptr || read_place(line, *stack)) continue;
    if (line.starts_with("freed by thread")) stack = &report.freed;
    if (line.find("allocated by thread") == 0 || line.starts_with("previously allocated by"))
      stack = &report.allocated;
    if (line.starts_with("Thread ") || line.starts_with("SUMMARY:")) break;
    read_access(line, report);
    if (report.beside.empty()) report.beside = beside_in(line);
  }
  return report;
}

std::string memory_error(const std::string& output, const std::string& program) {
  const MemoryReport report = memory_report(output);
  if (report.kind.empty()) return "";
  const auto places = places_of(report, program);
  const Place here = students_place(report.here, places);
  std::string text = who(here) + " " + what_it_does(report);
  if (here.line > 0) text += ":\n  " + source_line(here);
  text += story("freed", students_place(report.freed, places)) +
          story("allocated", students_place(report.allocated, places));
  return fmt::format("{}\n(AddressSanitizer: {})", text, report.kind);
}

std::string without_report(const std::string& output) {
  static const std::regex fibers(
      "==\\d+==WARNING: ASan is ignoring requested [^\n]*\n[^\n]*False "
      "positive[^\n]*\n[^\n]*issues/189\n");
  static const std::regex begins("(=+\n)?==\\d+==ERROR: AddressSanitizer: ");
  const std::string text = std::regex_replace(output, fibers, "");
  std::smatch report;
  return std::regex_search(text, report, begins) ? report.prefix().str() : text;
}

}  // namespace runner
