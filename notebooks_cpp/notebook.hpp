// What the first cell of every notebook includes. It loads the libraries that Yotta's headers use,
// shows pictures, and runs programs of the course.
//
//     show(svg)                                   the picture, below the cell
//     show_page(html, "sliders.html")             the page, below the cell
//     run_program("lessons/lesson_03_matmul")     what it prints; throws if it fails
//
// In Jupyter pictures and pages go through xeus-cpp's display; elsewhere (clang-repl, a compiled
// notebook) pictures are printed between two marks, and a page is a file in the build folder, which
// stderr names.
#pragma once

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#if __has_include(<xcpp/xdisplay.hpp>)
#include <nlohmann/json.hpp>
#include <xcpp/xdisplay.hpp>
#define YOTTA_NOTEBOOK_DISPLAY 1
#else
#define YOTTA_NOTEBOOK_DISPLAY 0
#endif

namespace notebook {

// Loads the first of these names that is there. A notebook is compiled as it runs, so nobody links
// it.
inline bool load(const char* package, std::initializer_list<const char*> names) {
  const char* conda = std::getenv("CONDA_PREFIX");
  for (const std::string name : names) {
    if (conda != nullptr &&
        dlopen((std::string(conda) + "/lib/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr)
      return true;
    if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  }
  throw std::runtime_error(std::string("a library is missing: apt-get install ") + package);
}
inline const bool loaded =
    load("libfmt-dev", {"libfmt.so", "libfmt.so.9", "libfmt.so.10"}) &&
    load("libboost-context-dev",
         {"libboost_context.so", "libboost_context.so.1.74.0", "libboost_context.so.1.83.0"})
// yotta::compiled as a shared library: a cell then compiles only what is its own.
#ifdef YOTTA_COMPILED
    && load("nothing: build the target yotta_notebook", {YOTTA_NOTEBOOK_LIBRARY})
#endif
    ;

struct Picture {
  std::string svg;
};
#if YOTTA_NOTEBOOK_DISPLAY
inline nlohmann::json mime_bundle_repr(const Picture& picture) {
  return {{"image/svg+xml", picture.svg}};
}
inline void show(const std::string& svg) { xcpp::display(Picture{svg}); }

struct Page {
  std::string html;
};
// A frame of its own: its styles and names do not meet those of Jupyter.
inline nlohmann::json mime_bundle_repr(const Page& page) {
  std::string quoted;
  for (const char c : page.html)
    quoted += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return {{"text/html", "<iframe style=\"width:100%;height:640px;border:0\" srcdoc=\"" + quoted +
                            "\"></iframe>"}};
}
inline void show_page(const std::string& html, const std::string&) { xcpp::display(Page{html}); }
#else
inline void show(const std::string& svg) {
  std::printf("<<picture>>\n%s\n<<end of picture>>\n", svg.c_str());
}
inline void show_page(const std::string& html, const std::string& name) {
  const char* build = std::getenv("YOTTA_BUILD");
  const std::string path = std::string(build != nullptr ? build : "../build/release") + "/" + name;
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + path);
  const bool written = std::fputs(html.c_str(), file) >= 0;
  if (std::fclose(file) != 0 || !written) throw std::runtime_error("cannot write " + path);
  std::fprintf(stderr, "the page: %s\n", path.c_str());
}
#endif

// Runs a program that `./yotta` has built, by its path in build/release, and shows what it prints;
// with a `heading` only the section below it. Throws if the program fails, or has no such section.
inline void run_program(const std::string& program, const std::string& arguments = "",
                        const std::string& heading = "") {
  const char* build = std::getenv("YOTTA_BUILD");
  const std::string path =
      std::string(build != nullptr ? build : "../build/release") + "/" + program;
  const std::string command = "'" + path + "' " + arguments + " 2>&1 </dev/null";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("cannot start " + path);
  bool found = heading.empty(), inside = found;
  char line[4096];
  while (std::fgets(line, sizeof line, output) != nullptr) {
    const std::string text = line;
    if (!heading.empty() && text.starts_with("== ")) inside = text.find(heading) != text.npos;
    found |= inside;
    if (inside) std::fputs(line, stdout);
  }
  const int status = pclose(output);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw std::runtime_error(path + " is not there: `./yotta lesson NN` builds a lesson's program");
  if (status != 0) throw std::runtime_error(path + " failed");
  if (!found) throw std::runtime_error(path + " prints nothing under '" + heading + "'");
}

}  // namespace notebook

using notebook::run_program;
using notebook::show;
using notebook::show_page;
