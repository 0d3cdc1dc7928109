// The tour's chart: one model, trained with each technique on four ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "course/training/training.hpp"
#include "yotta/machine/cluster.hpp"

namespace yotta {

// A technique's run, of the rank that sent or held the most.
struct TechniqueFigures {
  std::string name, layout;  // "FSDP", "--layout fsdp=4"
  std::string lesson;        // "15_fsdp"
  double loss = 0;           // after the last step
  double bytes_per_step = 0, peak_bytes = 0;
  double step_seconds = 0;  // on the described machine
};

// How many there are.
int technique_count();

// Trains the plan's model for a few steps with each technique; calls on_run before each.
std::vector<TechniqueFigures> compare_techniques(
    TrainingPlan plan, const Cluster& cluster,
    const std::function<void(int run, const std::string& name)>& on_run);

// As text: a row a technique, with bars.
std::string techniques_text(const std::vector<TechniqueFigures>& techniques);
// The same as a table of HTML, each technique linked to its lesson in the book.
std::string techniques_html(const std::vector<TechniqueFigures>& techniques,
                            const std::string& book);

// Words that lead to a lesson of the book at this address; the words alone if it is empty.
std::string book_link(const std::string& book, const std::string& lesson, const std::string& words);

}  // namespace yotta
