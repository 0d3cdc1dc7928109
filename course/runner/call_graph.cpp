#include "runner/call_graph.hpp"

#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "runner/exercise.hpp"

namespace runner {
namespace {

using Callers = std::map<std::string, std::set<std::string>>;  // by what they call

// One object of an archive. Its own symbols are known by their names; those that only it sees by
// their place, too.
class Object {
 public:
  Object(std::string_view bytes, std::string label) : bytes_(bytes), label_(std::move(label)) {
    if (bytes_.size() < sizeof(Elf64_Ehdr) || !bytes_.starts_with(ELFMAG)) return;
    const auto header = at<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return;
    for (size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == SHT_SYMTAB) read_symbols(section);
  }

  void add_to(Callers& callers) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA) continue;
      for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Rela); ++i) {
        const auto one = at<Elf64_Rela>(section.sh_offset + i * sizeof(Elf64_Rela));
        const std::string from = name_at(section.sh_info, one.r_offset), to = target(one);
        if (!from.empty() && !to.empty() && from != to) callers[to].insert(from);
      }
    }
  }

 private:
  struct Place {
    uint64_t size;
    std::string name;
  };

  template <class T>
  T at(uint64_t offset) const {
    T value = {};
    if (offset + sizeof(T) <= bytes_.size()) std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  void read_symbols(const Elf64_Shdr& table) {
    const uint64_t texts = sections_.at(table.sh_link).sh_offset;
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
      std::string name = bytes_.data() + texts + symbol.st_name;
      if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) name += label_;
      symbols_.push_back(symbol);
      names_.push_back(name);
      if (symbol.st_size > 0 && symbol.st_shndx < sections_.size())
        places_[symbol.st_shndx][symbol.st_value] = {symbol.st_size, name};
    }
  }

  // What lies at an offset of a section; empty: nothing that has a name.
  std::string name_at(uint64_t section, uint64_t offset) const {
    const auto found = places_.find(section);
    if (found == places_.end()) return "";
    auto after = found->second.upper_bound(offset);
    if (after == found->second.begin()) return "";
    --after;
    return offset < after->first + after->second.size ? after->second.name : "";
  }

  std::string target(const Elf64_Rela& one) const {
    const size_t i = ELF64_R_SYM(one.r_info);
    if (i >= symbols_.size()) return "";
    if (ELF64_ST_TYPE(symbols_[i].st_info) != STT_SECTION) return names_[i];
    const auto type = ELF64_R_TYPE(one.r_info);
    const bool from_next = type == R_X86_64_PC32 || type == R_X86_64_PLT32;  // of x86: 4 bytes on
    return name_at(symbols_[i].st_shndx, static_cast<uint64_t>(one.r_addend + (from_next ? 4 : 0)));
  }

  std::string_view bytes_;
  std::string label_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<std::string> names_;
  std::map<uint64_t, std::map<uint64_t, Place>> places_;  // by section and offset
};

// An archive is "!<arch>\n", and then for each member 60 characters, of which 48 to 57 are its
// size.
void add_archive(const std::string& path, Callers& callers) {
  const std::string bytes = read_text(path);
  const std::string_view all = bytes;
  if (!all.starts_with("!<arch>\n")) return;
  for (size_t start = 8; start + 60 <= all.size();) {
    const size_t size = std::strtoul(bytes.substr(start + 48, 10).c_str(), nullptr, 10);
    Object(all.substr(start + 60, size), " of " + path + std::to_string(start)).add_to(callers);
    start += 60 + size + size % 2;
  }
}

}  // namespace

std::set<std::string> symbols_leading_to(const std::vector<std::string>& archives,
                                         const std::function<bool(const std::string&)>& wanted) {
  Callers callers;
  for (const std::string& archive : archives) add_archive(archive, callers);
  std::set<std::string> found;
  std::vector<std::string> open;
  const auto add = [&](const std::string& name) {
    if (found.insert(name).second) open.push_back(name);
  };
  for (const auto& [called, by] : callers) {
    if (wanted(called)) add(called);
    for (const std::string& caller : by)
      if (wanted(caller)) add(caller);
  }
  while (!open.empty()) {
    const std::string called = open.back();
    open.pop_back();
    if (const auto by = callers.find(called); by != callers.end())
      for (const std::string& caller : by->second) add(caller);
  }
  return found;
}

}  // namespace runner
