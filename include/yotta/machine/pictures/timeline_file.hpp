// Timelines as files: the ending of the name says which kind.
//
//     run.html   a page with zoom and hover          run.svg   a picture
//     run.json   for Perfetto (ui.perfetto.dev)      run.txt   letters
//
// All show the rows of timeline.hpp, with the steps and passes of rank 0 on the axis; a picture and
// the page have its colours and patterns.
//
// The JSON is Chrome's trace event format:
//
//     rank   -> process            X     a complete event: ts, dur in microseconds
//     lane   -> thread             s, f  an arrow from a message's send to its receive
//     kind   -> category           M     names of processes and threads
//
// Above the lanes each process has a thread of its steps and one of their passes.
//
// Events of one thread must not overlap, so what arrives on a communicator's lane is a thread of
// its own, and so is what a collective sends or receives at once: "world", "world (2)", ...
// Reference: "Trace Event Format", Google, 2016 (Perfetto: "Open trace file").
//
// In the SVG the upper half of a communicator's lane is what is sent, the lower half what is
// received. A dark line lies over what is on the critical path; a grey one is a wait. A bar that
// would be thinner than a third of a pixel is drawn together with the one before, so files of long
// runs stay small.
//
// The page is one self-contained file: wheel to zoom, drag to move, point at a bar to read what it
// is, click on it to see what it waited for, and what that had waited for: the chain of causes.
//
//     page = frame + rows as JSON + a script that draws what is in view on a canvas
//
// It loads nothing, so it can be mailed, and opened without a network. Beside a book that has been
// made it links to the lessons that explain it.
#pragma once

#include "yotta/machine/pictures/timeline.hpp"

namespace yotta {

// The whole trace, for Perfetto.
std::string timeline_json(const Trace& trace);
// A picture about 1000 pixels wide. Ranks beyond `most_ranks` are left out.
std::string timeline_svg(const Trace& trace, int most_ranks = 8);
// The page. Ranks beyond `most_ranks` are left out. `book` is where the book lies, seen from the
// page; empty if there is none.
std::string timeline_page(const Trace& trace, int most_ranks = 64, const std::string& book = "");

// Throws unless a timeline can be written under this name: call it before a long run. Errors: the
// ending names no kind; the folder does not exist or cannot be written in.
void check_timeline_name(const std::string& path, Where where = Where::current());
// Writes the trace in the kind that the name ends in, whole or not at all; a page links into
// `book`. Errors: as check_timeline_name; a full disk.
void write_timeline(const std::string& path, const Trace& trace, const std::string& book = "",
                    Where where = Where::current());

// Text inside the quotes of a JSON string; text between the tags of XML or HTML.
std::string json_escaped(std::string_view text);
std::string xml_escaped(std::string_view text);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/pictures/impl/timeline_file.ipp"
#endif
