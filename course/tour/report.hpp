// The tour's report: one HTML file with everything in it, pictures included. Opens anywhere,
// offline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "course/tour/techniques.hpp"
#include "course/training/training.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

struct TourFigures {
  int64_t parameters = 0, steps = 0, tokens_per_step = 0;
  std::string model;  // "GPT-2 dialect, 4 layers, width 128"
  std::string text;   // "this course's own prose and headers, 312 KiB"
  double matmul_gflops = 0, memory_gbps = 0;
  int cores = 0;
  std::vector<double> serial_loss, parallel_loss;
  double serial_tokens_per_second = 0, parallel_tokens_per_second = 0;
  double mfu = 0;                 // of the serial run
  double largest_difference = 0;  // between the two loss lists, relative
  std::vector<RankFigures> serial, parallel;
  std::string sample_before, sample_after, prompt;
  std::string book;     // its address from where the report lies; empty if it has not been made
  std::string cluster;  // on which the techniques are timed
  std::vector<TechniqueFigures> techniques;
  Trace step;  // of the parallel run, on that machine
};

// The page; write it to report.html.
std::string report_html(const TourFigures& figures);

}  // namespace yotta
