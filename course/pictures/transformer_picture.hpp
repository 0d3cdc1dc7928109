// The picture of the whole course: a transformer as a box with four axes, as SVG.
//
//     layers ^   [====] [====] [====]     a slab: one layer's output for one sequence,
//            |   [====] [====] [====]     T tokens (into the page), each C numbers wide
//            |   [====] [====] [====]
//                ---------------------> batch
//
// Lesson 12 draws it with all four axes; lessons 13 to 25 begin with one axis lit: what its
// technique cuts, and which rank holds which part. The files in course/pictures/ are what `./yotta
// lesson 12 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

namespace yotta {

enum class LitAxis { all, batch, weights, memory, layers, width, tokens, sequence, experts };

struct TransformerPicture {
  LitAxis lit;
  std::string file;                  // "transformer_batch.svg"
  std::string title, caption;        // the picture's two lines
  std::vector<std::string> lessons;  // the numbers of those that begin with it: "13"

  // The line of a lesson's README that shows it.
  std::string markdown() const;
};

// All of them, in the order of the lessons.
std::vector<TransformerPicture> transformer_pictures();

std::string transformer_svg(const TransformerPicture& picture);

}  // namespace yotta
