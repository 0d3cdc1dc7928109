// Timelines as files: the ending of the name says which kind.
//
//     run.html   a page with zoom and hover          run.svg   a picture
//     run.json   for Perfetto (ui.perfetto.dev)      run.txt   letters
#pragma once

#include "yotta/core/system/files.hpp"
#include "yotta/machine/timelines/timeline_page.hpp"
#include "yotta/machine/timelines/timeline_svg.hpp"

namespace yotta {

// Throws unless a timeline can be written under this name; to be asked before a long run. Errors: no such kind;
// a folder that is not there, or may not be written in.
inline void check_timeline_name(const std::string& path, Where where = Where::current()) {
  bool known = false;
  for (const std::string_view ending : {".html", ".json", ".svg", ".txt"})
    known = known || path.ends_with(ending);
  if (!known)
    fail(
        where,
        "'{}' does not say what kind of timeline it shall be: end it in .html (a page), .json (for "
        "Perfetto), .svg (a picture) or .txt",
        path);
  expect_writable(path, where);
}

// Writes the trace in the kind that the name ends in, whole or not at all. Errors: as check_timeline_name; a full disk.
inline void write_timeline(const std::string& path, const Trace& trace,
                           Where where = Where::current()) {
  check_timeline_name(path, where);
  std::string text;
  if (path.ends_with(".html")) text = timeline_page(trace);
  if (path.ends_with(".json")) text = timeline_json(trace);
  if (path.ends_with(".svg")) text = timeline_svg(trace);
  if (path.ends_with(".txt")) text = timeline_text(make_timeline(trace), 100);
  write_file(path, text, where);
}

}  // namespace yotta
