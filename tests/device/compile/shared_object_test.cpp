#include "yotta/device/compile/shared_object.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <thread>

#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const std::string source = "extern \"C\" int answer() { return 42; }\n";

CompilerOptions quick(const std::filesystem::path& cache) {
  CompilerOptions options = compiler_here();
  options.flags = {"-O0"};
  options.cache = cache;
  return options;
}
int answer_of(const Compiled& compiled) {
  return reinterpret_cast<int (*)()>(compiled.object->function("answer"))();
}

}  // namespace

TEST_CASE("a source is compiled once, and found in the cache from then on") {
  const TemporaryFolder folder;
  const CompilerOptions options = quick(folder / "new" / "cache");
  if (options.compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  const Compiled first = compile_source(source, options);
  CHECK(answer_of(first) == 42);
  CHECK_FALSE(first.from_cache);
  CHECK(compile_source(source, options).from_cache);
  CHECK_FALSE(compile_source(source + " ", options).from_cache);
  // No other files are left.
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator(options.cache))
    files += each.path().extension() == ".so" ? 1 : 100;
  CHECK(files == 2);
}

TEST_CASE("a damaged file, or one of another source, is made again") {
  const TemporaryFolder folder;
  const CompilerOptions options = quick(folder.path());
  if (options.compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  const std::filesystem::path file = compile_source(source, options).file;
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size / 2);
  CHECK_FALSE(compile_source(source, options).from_cache);
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(1000);
    damaged.put('x');
    damaged.put('y');
  }
  CHECK_FALSE(compile_source(source, options).from_cache);
  const std::filesystem::path other = compile_source(source + "//", options).file;
  std::filesystem::copy_file(other, file, std::filesystem::copy_options::overwrite_existing);
  const Compiled again = compile_source(source, options);
  CHECK_FALSE(again.from_cache);
  CHECK(answer_of(again) == 42);
}

TEST_CASE("several that race for one file all get a whole one") {
  const TemporaryFolder folder;
  const CompilerOptions options = quick(folder.path());
  if (options.compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] { right += answer_of(compile_source(source, options)) == 42; });
  for (std::thread& each : threads) each.join();
  CHECK(right == 3);
}

TEST_CASE("what does not compile, and what is not there, is said") {
  const TemporaryFolder folder;
  CompilerOptions options = quick(folder.path());
  if (options.compiler.empty()) YOTTA_NOT_RUN("no C++ compiler is installed");
  CHECK(contains(message_of([&] { compile_source("int x = ;", options); }), "expected"));
  const Compiled compiled = compile_source(source, options);
  CHECK(contains(message_of([&] { compiled.object->function("question"); }),
                 "has no function question"));
  options.compiler = "";
  CHECK(contains(message_of([&] { compile_source(source, options); }), "no C++ compiler"));
}
