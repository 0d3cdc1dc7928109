// The bodies of device/compile/nvrtc.hpp.
#pragma once

#include "yotta/device/compile/nvrtc.hpp"
//
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "yotta/device/compile/shared_object.hpp"

namespace yotta {

namespace detail {

// The functions of NVRTC that are called here, as nvrtc.h declares them: a program is a pointer,
// and 0 is success.
struct Nvrtc {
  std::unique_ptr<SharedObject> library;
  int (*create)(void** program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names) = nullptr;
  int (*destroy)(void** program) = nullptr;
  int (*compile)(void* program, int count, const char* const* options) = nullptr;
  int (*log_size)(void* program, size_t* size) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
  int (*cubin_size)(void* program, size_t* size) = nullptr;
  int (*cubin)(void* program, char* bytes) = nullptr;
  int (*ptx_size)(void* program, size_t* size) = nullptr;
  int (*ptx)(void* program, char* text) = nullptr;
  const char* (*error)(int code) = nullptr;
  std::string missing;  // why the library is not there
};

inline std::vector<std::string> nvrtc_files() {
  if (const char* wanted = std::getenv("YOTTA_NVRTC")) return {wanted};
  std::vector<std::string> files = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                    "libnvrtc.so.11.2"};
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string folder : {home == nullptr ? "/usr/local/cuda" : home, "/usr/local/cuda"})
    for (const char* part : {"/lib64/", "/lib/"}) files.push_back(folder + part + "libnvrtc.so");
  return files;
}

inline Nvrtc open_nvrtc() {
  Nvrtc nvrtc;
  nvrtc.missing = "NVRTC is not installed (it comes with the CUDA Toolkit; $YOTTA_NVRTC names it)";
  for (const std::string& file : nvrtc_files()) {
    try {
      nvrtc.library = std::make_unique<SharedObject>(file);
      break;
    } catch (const Error&) {  // the next one
    }
  }
  if (nvrtc.library == nullptr) return nvrtc;
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(nvrtc.library->function(name));
  };
  find(nvrtc.create, "nvrtcCreateProgram");
  find(nvrtc.destroy, "nvrtcDestroyProgram");
  find(nvrtc.compile, "nvrtcCompileProgram");
  find(nvrtc.log_size, "nvrtcGetProgramLogSize");
  find(nvrtc.log, "nvrtcGetProgramLog");
  find(nvrtc.cubin_size, "nvrtcGetCUBINSize");
  find(nvrtc.cubin, "nvrtcGetCUBIN");
  find(nvrtc.ptx_size, "nvrtcGetPTXSize");
  find(nvrtc.ptx, "nvrtcGetPTX");
  find(nvrtc.error, "nvrtcGetErrorString");
  nvrtc.missing.clear();
  return nvrtc;
}
// Never unloaded: it has threads and handlers of its own.
inline const Nvrtc& nvrtc_here() {
  static const Nvrtc& opened = *new Nvrtc(open_nvrtc());
  return opened;
}

// What one of NVRTC's pairs of functions, a size and the bytes, returns.
inline std::string nvrtc_bytes(int (*size)(void*, size_t*), int (*bytes)(void*, char*),
                               void* program) {
  size_t count = 0;
  if (size(program, &count) != 0) return "";
  std::string all(count, '\0');
  return bytes(program, all.data()) == 0 ? all : "";
}

// The log, and under each line of it that names a line of the source, that line.
inline std::string with_source_lines(const std::string& log, const std::string& source) {
  std::vector<std::string> lines;
  std::stringstream text(source), said(log.c_str());  // without the log's last zero
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  std::string all;
  for (std::string line; std::getline(said, line);) {
    all += line + "\n";
    const size_t open = line.find("fused.cu(");
    if (open == line.npos) continue;
    const size_t number = std::strtoul(line.c_str() + open + 9, nullptr, 10);
    if (number >= 1 && number <= lines.size())
      all += fmt::format("{:>5} | {}\n", number, lines[number - 1]);
  }
  return all;
}

}  // namespace detail

YOTTA_INLINE std::string why_no_nvrtc() { return detail::nvrtc_here().missing; }

YOTTA_INLINE std::string compile_cuda(const std::string& source, const std::string& target,
                                      Where where) {
  const detail::Nvrtc& nvrtc = detail::nvrtc_here();
  if (!nvrtc.missing.empty()) fail(where, "{}", nvrtc.missing);
  void* program = nullptr;
  const int made = nvrtc.create(&program, source.c_str(), "fused.cu", 0, nullptr, nullptr);
  if (made != 0) fail(where, "nvrtcCreateProgram: {}", nvrtc.error(made));
  const std::string architecture = "--gpu-architecture=" + target;
  const std::vector<const char*> options = {architecture.c_str(), "--std=c++17"};
  const int code = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  const bool real = target.starts_with("sm_");
  const std::string log = detail::nvrtc_bytes(nvrtc.log_size, nvrtc.log, program);
  const std::string result = code != 0
                                 ? ""
                                 : detail::nvrtc_bytes(real ? nvrtc.cubin_size : nvrtc.ptx_size,
                                                       real ? nvrtc.cubin : nvrtc.ptx, program);
  nvrtc.destroy(&program);
  if (result.empty())
    fail(where, "NVRTC does not compile a generated source for {} ({}); it says:\n{}", target,
         nvrtc.error(code), detail::with_source_lines(log, source));
  return result;
}

}  // namespace yotta
