// The verb `slides`: a deck of one lesson, made from its pictures, numbers and formulas.
//
//     lessons/13_ddp/README.md ── slides_of ──► Markdown, a "##" a slide ── pandoc ──► one HTML
//     file
//
// A section of the lesson gives one slide of its first words, and one of each picture, output,
// listing, table and formula with the sentence before it. What is folded away (letters, answers)
// stays out. The HTML holds its pictures and needs no network; the arrow keys turn the pages.
#pragma once

#include <string>

namespace runner {

struct SlidesOptions {
  std::string name;       // a lesson's number or name
  std::string out;        // the HTML file; empty: NN_topic.html here
  std::string json;       // where it lies, for programs
  bool markdown = false;  // print the deck's Markdown, which needs no pandoc
};

// The Markdown of a lesson's deck.
std::string slides_of(const std::string& readme);

int slides(const SlidesOptions& options);

}  // namespace runner
