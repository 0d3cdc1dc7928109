// The verb `slides`: a deck of one lesson, from the outline beside its page.
//
//     lessons/13_ddp/slides.outline ──► one HTML file, with its pictures inside
//
// An outline has a block for each slide:
//
//     ## Many small messages, or few large ones
//     - Each message pays its latency
//     - So gradients travel in **buckets**
//     @picture ddp_overlap.svg        of course/pictures
//     @output 13.buckets              what the lesson's page quotes under this name
//     @code one_screen.cpp            a file of the lesson's folder
//     Notes: what the speaker says, to the end of the block.
//
// In a line `code`, **bold** and *italic* are Markdown's. The HTML needs no network and no other
// program; the arrow keys turn the pages, and n shows the notes.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct Slide {
  std::string title;
  std::vector<std::string> points;
  std::vector<std::string> figures;  // "@output 13.buckets"
  std::string notes;
};

// Errors: a line of no kind, a slide without points and figures, or without notes.
std::vector<Slide> read_outline(const std::string& outline);

// The slides in HTML. `page` is the lesson's README.md, `folder` where it lies. Errors: a figure
// that is not there; the message names it.
std::string html_of(const std::vector<Slide>& slides, const std::string& page,
                    const std::string& folder);

struct SlidesOptions {
  std::string name;  // a lesson's number or name
  std::string out;   // the HTML file; empty: NN_topic.html here
  std::string json;  // where it lies, for programs
};

int slides(const SlidesOptions& options);

}  // namespace runner
