// Source text to callable function: the system's compiler, a cache of what it made, and dlopen.
//
//     source ──> key ──> ~/.cache/yotta/KEY.so there, whole, and of this source?  ──yes──> dlopen
//                              │ no
//                              └──> c++ -shared ──> KEY.PROCESS.so ──rename──> KEY.so ──> dlopen
//
// The key is a hash of the source, the command and this processor's features. Behind a cached
// file's own bytes stand the source and a hash of it all, so a damaged file, or one of another
// source with the same key, is made again. Two processes that race write files of their own, and
// each rename puts a whole one in place.
// Contract: the cache is the user's own folder ($XDG_CACHE_HOME or ~/.cache, or $YOTTA_CACHE); the
// compiler is $YOTTA_CXX, else the first of c++, g++ and clang++ that is installed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

struct CompilerOptions {
  std::string compiler;                     // a program; empty: none is installed
  std::vector<std::string> flags;           // beside those that make a shared object
  std::filesystem::path cache;              // a folder, made if it is not there
  std::vector<std::string> libraries = {};  // what it links
};

// This machine's compiler, flags for fast code for this processor, the user's cache.
CompilerOptions compiler_here();

// A shared object that is loaded, for as long as this lives.
class SharedObject {
 public:
  explicit SharedObject(const std::filesystem::path& path, Where where = Where::current());
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  // Errors: it has no function of this name.
  void* function(const char* name, Where where = Where::current()) const;

 private:
  void* handle_;
};

struct Compiled {
  std::shared_ptr<SharedObject> object;
  std::filesystem::path file;
  bool from_cache = false;
};

// Errors: there is no compiler, or it does not take the source; the message has what it said.
Compiled compile_source(const std::string& source, const CompilerOptions& options,
                        Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/shared_object.ipp"
#endif
