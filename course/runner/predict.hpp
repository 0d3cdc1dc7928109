// The verb `predict`: you answer first, then the lesson runs, and you see how far off you were.
//
// lessons/NN_topic/predictions.json is a list. The answer is no text of ours but a figure that the
// lesson prints: it stands in a block that the lesson's page quotes, and a regular expression finds
// it there.
//
//     {"question": "What do 4 ranks send each, if a ring takes the place of the root?", "unit":
//     "bytes",
//      "kind": "number", "answer": {"block": "10.ring", "find": "rank 0 sent (\\d+)"},
//      "within": 0.01, "why": "Each rank sends 2 (p-1)/p of the array."}
//
// kind: "number", the figure; "times", the figure over that of "before"; "change", whether it
// grows, stays or shrinks from "before".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace runner {

struct Figure {
  std::string block, find;
};

struct Prediction {
  std::string question, kind, unit, why;
  Figure answer;
  std::optional<Figure> before;
  double within = 0;  // an answer is right if it is off by this share at most
};

// Throws std::runtime_error that names the file and what is wrong in it.
std::vector<Prediction> read_predictions(const std::string& file);

// The number that a page's block has. Throws std::runtime_error if there is no such block, or not
// exactly one match.
double figure_of(const std::string& page, const Figure& figure);

// "6000", "1.75" times, "grows".
std::string right_answer(const Prediction& prediction, const std::string& page);
// Throws std::runtime_error that says what an answer may be.
bool is_right(const Prediction& prediction, const std::string& page, const std::string& answer);

struct PredictOptions {
  std::string name;  // a lesson's number or name; empty: lists those with predictions
};
int predict(const PredictOptions& options);

}  // namespace runner
