// Static __shared__ arrays of a program: their names, sizes and places, read from the program's own symbol table.
//
//     __global__ void smooth(float* x) {
//       __shared__ float tile[32][33];      symbol _ZZ6smoothB12yotta_kernelPfE4tileB12yotta_shared, 4224 bytes
//                                                  in smooth, a kernel            tile, shared
//
// __global__ and __shared__ put these tags into the names (abi_tag), and an array is thread_local. So each array lies at a fixed
// distance from the beginning of its OS thread's block of such variables, and belongs to the kernel whose name it
// carries. What this serves: poisoning the arrays when a block starts, the limit of 48 KiB, and messages that say
// "tile". Without a symbol table (a stripped program, a notebook's just-in-time code) there is no list; kernels then
// still run.
// Reference: System V ABI, "Symbol Table", "Thread-Local Storage".
#pragma once

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace yotta {

// One array.
struct SharedArray {
  std::string name;      // "tile"
  std::string function;  // the symbol of the function that declares it
  size_t offset = 0;     // in a thread's block of thread_local variables
  size_t bytes = 0;
};

// A loaded program or library: where it lies, what file it is, and the thread's variables.
struct Image {
  uintptr_t base = 0, begin = 0, end = 0;  // what the linker called 0; the addresses it takes
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
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      begin = std::min<uintptr_t>(begin, info->dlpi_addr + segment.p_vaddr);
      end = std::max<uintptr_t>(end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
    }
    if (wanted.address < begin || wanted.address >= end) return 0;
    const std::string file = info->dlpi_name;
    wanted.found = {info->dlpi_addr, begin, end, file.empty() ? "/proc/self/exe" : file,
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

// The symbols of an image that the emulator asks for.
class SharedArrays {
 public:
  // Of the image that holds this address; read once.
  static const SharedArrays& of(const Image& image) {
    static auto* known = new std::map<std::string, SharedArrays>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const auto [at, is_new] = known->try_emplace(image.file);
    if (is_new) at->second.read(image.file);
    return at->second;
  }

  const std::vector<SharedArray>& all() const { return arrays_; }

  // The symbol of a kernel; empty if it is not known.
  std::string symbol_of(const Image& image, const void* kernel) const {
    const auto found = kernels_.find(reinterpret_cast<uintptr_t>(kernel) - image.base);
    return found == kernels_.end() ? "" : found->second;
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

  // An array: "_ZZ6smoothB12yotta_kernelPfE4tileB12yotta_shared". Or a kernel, by its address.
  void add(const ElfW(Sym) & symbol, const std::string& name) {
    const int kind = ELF64_ST_TYPE(symbol.st_info);
    if (kind == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        name.find("B12yotta_kernel") != std::string::npos)
      kernels_.emplace(symbol.st_value, name);
    const size_t tag = name.find("B12yotta_shared");
    if (kind != STT_TLS || tag == std::string::npos) return;
    const std::string plain = demangled(name.substr(0, tag));
    const std::string array = plain.substr(plain.rfind("::") + 2);
    const size_t end = name.rfind("E" + std::to_string(array.size()) + array, tag);
    arrays_.push_back({array, "_Z" + name.substr(3, end - 3), symbol.st_value, symbol.st_size});
  }

  template <class Wanted>
  std::vector<SharedArray> chosen(Wanted wanted) const {
    std::vector<SharedArray> some;
    std::copy_if(arrays_.begin(), arrays_.end(), std::back_inserter(some), wanted);
    return some;
  }

  std::vector<SharedArray> arrays_;
  std::map<uintptr_t, std::string> kernels_;
};

}  // namespace yotta
