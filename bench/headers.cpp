// What a header costs whoever includes it: lines for the compiler, and its seconds, header-only and
// in the compiled form.
//
// Each page that a lesson begins with is included by a program of one line, main(). A file of yours
// costs this and what it uses. Times are the compiler's own CPU time at -O0, the least of a few.
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "bench.hpp"
#include "course/options/console.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json, compiler = "g++";
  std::vector<std::string> headers;
  int runs = 2;
};

std::vector<std::string> pages_of_lessons() {
  std::ifstream file(YOTTA_SOURCE_DIR "/lessons/pages.json");
  std::vector<std::string> pages;
  for (const auto& lesson : bench::Json::parse(file)["lessons"])
    for (const auto& page : lesson["read_first"]) pages.push_back(page);
  return pages;
}

double seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What the compiler says to a program that includes the header.
std::string compile(const Options& options, const std::string& header, const std::string& words) {
  const std::string command = fmt::format(
      "printf '#include \"yotta/{}\"\\nint main() {{}}\\n' | {} -std=c++20 -I'{}' {} -x c++ - 2>&1",
      header, options.compiler, YOTTA_SOURCE_DIR "/include", words);
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("cannot start a shell");
  std::string said;
  char text[4096];
  while (std::fgets(text, sizeof text, output) != nullptr) said += text;
  if (pclose(output) != 0)
    throw std::runtime_error(fmt::format("{} does not compile:\n{}", header, said));
  return said;
}

double seconds_to_compile(const Options& options, const std::string& header,
                          const std::string& words) {
  double least = INFINITY;
  for (int run = 0; run < options.runs; ++run) {
    const double before = seconds_of_children();
    compile(options, header, words + " -O0 -c -o /dev/null");
    least = std::min(least, seconds_of_children() - before);
  }
  return least;
}

bench::Json measure(const Options& options, const std::string& header) {
  const std::string text = compile(options, header, "-E -P");
  return {{"header", header},
          {"lines", std::count(text.begin(), text.end(), '\n')},
          {"header_only_seconds", seconds_to_compile(options, header, "")},
          {"compiled_seconds", seconds_to_compile(options, header, "-DYOTTA_COMPILED")}};
}

void print(const bench::Json& rows) {
  console::Table table({"header", "lines", "header-only, s", "compiled, s"});
  for (const auto& row : rows)
    table.row({row["header"], fmt::format("{}", row["lines"].get<int64_t>()),
               fmt::format("{:.1f}", row["header_only_seconds"].get<double>()),
               fmt::format("{:.1f}", row["compiled_seconds"].get<double>())});
  fmt::print("{}", table.text());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What it costs to include a header: lines, and seconds of the compiler.");
  Options options;
  app.add_option("headers", options.headers, "as parallel/ddp.hpp; without one, each lesson's own");
  app.add_option("--compiler", options.compiler, "that compiles");
  app.add_option("--runs", options.runs, "of which the least counts")->check(CLI::Range(1, 100));
  app.add_option("--json", options.json, "write the figures to this file");
  return bench::run_benchmark(app, argc, argv, [&] {
    if (options.headers.empty()) options.headers = pages_of_lessons();
    console::Progress progress("headers", std::ssize(options.headers));
    bench::Json rows = bench::Json::array();
    for (const std::string& header : options.headers) {
      progress.update(std::ssize(rows), header);
      rows.push_back(measure(options, header));
    }
    progress.finish();
    print(rows);
    return options.json.empty()
               ? 0
               : bench::write_json(options.json, {{"compiler", options.compiler}, {"rows", rows}});
  });
}
