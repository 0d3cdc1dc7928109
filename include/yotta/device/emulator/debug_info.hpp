// What a program's own file says about its kernels: names, sizes and places of static __shared__
// arrays, from its symbol table, and the source lines of instructions, from its debug information.
//
//     __global__ void smooth(float* x) {
//       __shared__ float tile[32][33]; _ZZ6smoothB12yotta_kernelPfE4tileB12yotta_shared: 4224 bytes
//                                      in smooth, a kernel        tile, shared
//
// __global__ and __shared__ put these tags into the names (abi_tag), and an array is thread_local.
// So each array lies at a fixed distance from the beginning of its OS thread's block of such
// variables, and belongs to the kernel whose name it carries. The list serves to poison the arrays
// when a block starts, to enforce the limit of 48 KiB, and to say "tile" in messages. Without a
// symbol table (a stripped program, a notebook's just-in-time code) there is no list, and kernels
// still run. Variables of the program (__device__, __constant__, statics of the host) are in the
// same table, by name, place and size.
//
// A line of a kernel that accesses memory is a number, its site, while the kernel runs, and
// "tile.hpp:17" in messages:
//
//     a load of the kernel    return address of its hook, less the program's base       0x1a2f4
//     a wrapped instruction   its source_location, by its position in a list            0x80000003
//
// A return address becomes a line through the program's debug information (-g1 is enough), read by
// addr2line, which comes with every Linux linker. Of functions inlined into each other, the
// innermost outside of the emulator's own headers is reported: the line that the student wrote.
// References: System V ABI, "Symbol Table", "Thread-Local Storage"; addr2line(1).
#pragma once

#include <cxxabi.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/device_build.hpp"

namespace yotta {

// One array.
struct SharedArray {
  std::string name;      // "tile"
  std::string function;  // the symbol of the function that declares it
  size_t offset = 0;     // in a thread's block of thread_local variables
  size_t bytes = 0;
};

// A variable of the program.
struct ProgramVariable {
  size_t offset = 0, bytes = 0;  // from the image's base
  std::string symbol;

  // Without its namespace: "table".
  std::string name() const;
  bool is_constant() const { return symbol.find("B14yotta_constant") != std::string::npos; }
};

// A loaded program or library: its addresses, its file, and the thread's variables.
struct Image {
  uintptr_t base = 0, begin = 0,
            end = 0;  // what the linker called 0; the addresses that it occupies
  uintptr_t writable_begin = 0, writable_end = 0;  // of these
  std::string file;
  std::byte* thread_variables = nullptr;  // of the thread that asks
};

// The image that an address belongs to.
inline Image image_of(const void* address) {
  struct Search {
    uintptr_t address;
    Image found;
  } search{reinterpret_cast<uintptr_t>(address), {}};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    uintptr_t begin[2] = {UINTPTR_MAX, UINTPTR_MAX}, end[2] = {};  // of all, of the writable ones
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      for (int which = 0; which <= ((segment.p_flags & PF_W) != 0 ? 1 : 0); ++which) {
        const uintptr_t first = info->dlpi_addr + segment.p_vaddr;
        begin[which] = std::min<uintptr_t>(begin[which], first);
        end[which] = std::max<uintptr_t>(end[which], first + segment.p_memsz);
      }
    }
    if (wanted.address < begin[0] || wanted.address >= end[0]) return 0;
    const std::string file = info->dlpi_name;
    wanted.found = {info->dlpi_addr,
                    begin[0],
                    end[0],
                    begin[1],
                    end[1],
                    file.empty() ? "/proc/self/exe" : file,
                    static_cast<std::byte*>(info->dlpi_tls_data)};
    return 1;
  };
  ::dl_iterate_phdr(visit, &search);
  return search.found;
}

inline std::string demangled(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

inline std::string ProgramVariable::name() const {
  if (!symbol.starts_with("_Z")) return symbol;
  std::string text = demangled(symbol);
  text = text.substr(0, text.find("[abi:"));
  const size_t colons = text.find('<') == std::string::npos ? text.rfind("::") : std::string::npos;
  return colons == std::string::npos ? text : text.substr(colons + 2);
}

// The symbols of an image that the emulator asks for.
class SharedArrays {
 public:
  // Those of this image; read once.
  static const SharedArrays& of(const Image& image) {
    static auto* known = new std::map<std::string, SharedArrays>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const auto [at, is_new] = known->try_emplace(image.file);
    if (is_new) at->second.read(image.file);
    return at->second;
  }

  const std::vector<SharedArray>& all() const { return arrays_; }

  // The last variable of the program that begins at or before this offset; null if none is known.
  const ProgramVariable* variable_at_or_before(size_t offset) const {
    const auto after = std::upper_bound(
        variables_.begin(), variables_.end(), offset,
        [](size_t wanted, const ProgramVariable& each) { return wanted < each.offset; });
    return after == variables_.begin() ? nullptr : &*std::prev(after);
  }

  // The symbol of a kernel; empty if it is not known.
  std::string symbol_of(const Image& image, const void* kernel) const {
    const auto found = kernels_.find(reinterpret_cast<uintptr_t>(kernel) - image.base);
    return found == kernels_.end() ? "" : found->second.name;
  }
  // The kernel whose code holds this instruction; the instruction itself if none is known.
  const void* kernel_at(const Image& image, const void* instruction) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(instruction) - image.base;
    const auto next = kernels_.upper_bound(offset);
    if (next == kernels_.begin()) return instruction;
    const auto& [begin, code] = *std::prev(next);
    if (offset - begin >= code.bytes) return instruction;
    return reinterpret_cast<const void*>(image.base + begin);
  }
  // Those that this kernel declares.
  std::vector<SharedArray> of_kernel(const Image& image, const void* kernel) const {
    return chosen(
        [own = symbol_of(image, kernel)](const SharedArray& each) { return each.function == own; });
  }
  // Those that it may use: its own, and those of device functions.
  std::vector<SharedArray> for_kernel(const Image& image, const void* kernel) const {
    return chosen([own = symbol_of(image, kernel)](const SharedArray& each) {
      return each.function == own || each.function.find("B12yotta_kernel") == std::string::npos;
    });
  }

 private:
  // Reads the symbol table and its names.
  void read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const auto header = part<ElfW(Ehdr)>(file, 0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return;
    const auto sections = part<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
    for (const ElfW(Shdr) & section : sections) {
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
      const auto& strings = sections[section.sh_link];
      const auto names = part<char>(file, strings.sh_offset, strings.sh_size);
      const auto symbols =
          part<ElfW(Sym)>(file, section.sh_offset, section.sh_size / sizeof(ElfW(Sym)));
      for (const ElfW(Sym) & symbol : symbols)
        if (symbol.st_name < names.size()) add(symbol, names.data() + symbol.st_name);
    }
    std::sort(variables_.begin(), variables_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
    });
  }
  template <class T>
  static std::vector<T> part(std::ifstream& file, size_t offset, size_t count) {
    std::vector<T> items(count);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(items.data()),
              static_cast<std::streamsize>(count * sizeof(T)));
    if (!file) items.clear();
    return items;
  }

  // An array: "_ZZ6smoothB12yotta_kernelPfE4tileB12yotta_shared". Or a kernel, by its address, or a
  // variable.
  void add(const ElfW(Sym) & symbol, const std::string& name) {
    const int kind = ELF64_ST_TYPE(symbol.st_info);
    if (kind == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        (name.find("B12yotta_kernel") != std::string::npos || is_global_template(name)))
      kernels_.emplace(symbol.st_value, Code{name, symbol.st_size});
    if (kind == STT_OBJECT && symbol.st_shndx != SHN_UNDEF && symbol.st_size > 0)
      variables_.push_back({symbol.st_value, symbol.st_size, name});
    const size_t tag = name.find("B12yotta_shared");
    if (kind != STT_TLS || tag == std::string::npos) return;
    const std::string plain = demangled(name.substr(0, tag));
    const std::string array = plain.substr(plain.rfind("::") + 2);
    const size_t end = name.rfind("E" + std::to_string(array.size()) + array, tag);
    arrays_.push_back({array, "_Z" + name.substr(3, end - 3), symbol.st_value, symbol.st_size});
  }

  // "_Z6smoothILi32EEvPf": g++ 12 leaves the tag out of a template's name that is in no namespace.
  static bool is_global_template(const std::string& name) {
    if (!name.starts_with("_Z")) return false;
    size_t digits = 2, length = 0;
    for (; digits < name.size() && name[digits] >= '0' && name[digits] <= '9'; ++digits)
      length = 10 * length + static_cast<size_t>(name[digits] - '0');
    return digits > 2 && digits + length < name.size() && name[digits + length] == 'I';
  }

  template <class Wanted>
  std::vector<SharedArray> chosen(Wanted wanted) const {
    std::vector<SharedArray> some;
    std::copy_if(arrays_.begin(), arrays_.end(), std::back_inserter(some), wanted);
    return some;
  }

  std::vector<SharedArray> arrays_;
  std::vector<ProgramVariable> variables_;  // by offset
  struct Code {
    std::string name;  // of the symbol
    size_t bytes = 0;
  };
  std::map<uintptr_t, Code> kernels_;
};

inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// A line of source.
struct Line {
  std::string file;  // without folders
  int number = 0;
  std::string text() const {
    return number > 0 ? fmt::format("{}:{}", file, number) : std::string("an unknown line");
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
  uint32_t of(Where where) const {
    Wheres& known = Wheres::instance();
    const std::lock_guard lock(known.mutex);
    const auto index = static_cast<uint32_t>(known.all.size());
    const auto [at, is_new] =
        known.indices.try_emplace({where.file_name(), where.line(), where.column()}, index);
    if (is_new) known.all.push_back(where);
    return by_where | at->second;
  }

  // The lines of some sites; asks addr2line once for those that are not known yet.
  void look_up(std::vector<uint32_t> sites) {
    std::erase_if(sites,
                  [&](uint32_t site) { return (site & by_where) != 0 || lines_.count(site) > 0; });
    constexpr size_t at_once = 200;  // the length of a command line is limited
    for (size_t begin = 0; begin < sites.size(); begin += at_once)
      ask({sites.begin() + static_cast<std::ptrdiff_t>(begin),
           sites.begin() + static_cast<std::ptrdiff_t>(std::min(begin + at_once, sites.size()))});
  }
  Line line(uint32_t site) {
    if ((site & by_where) != 0) {
      const std::string text = at(Wheres::instance().of(site & ~by_where));
      const size_t colon = text.rfind(':');
      return {text.substr(0, colon), std::stoi(text.substr(colon + 1))};
    }
    look_up({site});
    if (lines_[site].number == 0) lines_[site] = nearby(site);
    return lines_[site];
  }
  // The line of an instruction that is not a call; none for one of another library, as abort()'s.
  Line line_of(uintptr_t instruction) {
    if (instruction - image_.base >= by_where) return {};
    return line(of(reinterpret_cast<const void*>(instruction + 1)));
  }

 private:
  // The source locations that are sites: the same in every launch, since shadows outlive one.
  struct Wheres {
    static Wheres& instance() {
      static auto* one = new Wheres;
      return *one;
    }
    Where of(uint32_t index) {
      const std::lock_guard lock(mutex);
      return all[index];
    }
    std::mutex mutex;
    std::vector<Where> all;
    std::map<std::tuple<const char*, uint32_t, uint32_t>, uint32_t> indices;
  };

  // An instruction that the compiler has moved has no line: it gets that of the instructions before
  // it.
  Line nearby(uint32_t site) {
    std::vector<uint32_t> before;
    for (uint32_t bytes = 1; bytes <= 64 && bytes < site; ++bytes) before.push_back(site - bytes);
    look_up(before);
    for (const uint32_t each : before)
      if (lines_[each].number > 0) return lines_[each];
    return {};
  }

  void ask(const std::vector<uint32_t>& sites) {
    std::string addresses;
    for (const uint32_t site : sites) {
      lines_[site] = {};
      addresses += fmt::format(" {:#x}", site - 1);  // the call itself, not what follows it
    }
    Line* current = nullptr;
    for (const std::string& text : said_of(addresses)) {
      if (text.starts_with("0x")) {
        current = &lines_[static_cast<uint32_t>(std::stoull(text, nullptr, 16)) + 1];
      } else if (current != nullptr && current->number == 0) {
        *current = parse(text);
      }
    }
  }

  // addr2line -a -i: for each address a line "0x...", then file:line for each inlined function,
  // innermost first. A program that may start no other is answered by who has started it, on the
  // descriptor that YOTTA_ADDR2LINE names: it asks in one line, and the answer ends with an empty
  // one.
  std::vector<std::string> said_of(const std::string& addresses) const {
    if (const char* const given = std::getenv("YOTTA_ADDR2LINE"); given != nullptr) {
      const std::unique_ptr<std::FILE, int (*)(std::FILE*)> talk(
          ::fdopen(::dup(std::atoi(given)), "r+"), std::fclose);
      if (talk == nullptr || std::fputs((addresses + "\n").c_str(), talk.get()) < 0) return {};
      std::fflush(talk.get());
      return read_lines(talk.get());
    }
    const std::string file =
        image_.file == "/proc/self/exe" ? fmt::format("/proc/{}/exe", ::getpid()) : image_.file;
    const std::string command =
        fmt::format("addr2line -a -i -e '{}'{} 2>/dev/null", file, addresses);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                               ::pclose);
    return read_lines(pipe.get());
  }
  static std::vector<std::string> read_lines(std::FILE* file) {
    std::vector<std::string> lines;
    char row[4096];
    while (file != nullptr && std::fgets(row, sizeof row, file) != nullptr && row[0] != '\n')
      lines.emplace_back(row);
    return lines;
  }

  // "/home/me/tile.hpp:17 (discriminator 3)"; nothing for the emulator's own headers, the standard
  // library's and "??:0".
  static Line parse(const std::string& text) {
    static constexpr const char* skipped[] = {
        "/yotta/device/emulator/",  "/yotta/device/unchanged/",
        "/device/vector_types.hpp", "/device/atomics.hpp",
        "/device/counted.hpp",      "/device/half.hpp",
        "/device/fp8.hpp",          "/c++/"};
    const size_t colon = text.rfind(':'), slash = text.rfind('/', colon);
    if (colon == std::string::npos) return {};
    for (const char* each : skipped)
      if (text.find(each) != std::string::npos && text.find("_test.cpp") == std::string::npos)
        return {};
    const size_t begin = slash == std::string::npos ? 0 : slash + 1;
    return {text.substr(begin, colon - begin), std::atoi(text.c_str() + colon + 1)};
  }

  Image image_;
  std::map<uint32_t, Line> lines_;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
