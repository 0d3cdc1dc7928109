// The pictures of lesson 31. The first shows the runs of diloco_runs.hpp: the loss on text that was
// kept, over tokens, over bytes sent, and over seconds between cities. The second shows the largest
// run that the latency of a step allows (parallel/latency_wall.hpp), over the latency. The third
// shows what `./yotta bench diloco_grid` has measured.
//
// The files in course/pictures/ are what `./yotta lesson 31 -- --draw 1` writes.
#pragma once

#include <string>

#include "course/pictures/diloco_runs.hpp"
#include "yotta/parallel/latency_wall.hpp"

namespace yotta {

// bench/results/diloco_curves.json.
std::vector<DilocoCurve> stored_diloco_curves();

// bench/results/hogwild.json: threads that raced for 1000 weights.
struct HogwildRow {
  int64_t touched, threads, cores;
  double lost;  // share of the writes
  double loss_overwrite, loss_add;
};
std::vector<HogwildRow> stored_hogwild();

std::string diloco_svg(const std::vector<DilocoCurve>& curves, const DilocoSizes& sizes = {});

// bench/results/diloco_grid.json: the losses of all seeds for k workers and H inner steps.
struct DilocoCell {
  int64_t workers, inner;  // workers 0: one rank, plain training
  double mean, deviation;  // of the runs that were not stopped; 0: all were
  int64_t stopped;
};
std::vector<DilocoCell> stored_diloco_grid();
std::string diloco_grid_svg(const std::vector<DilocoCell>& cells);

// The ways through the wall that picture and lesson show.
struct WallWay {
  std::string name;
  LatencyWall wall;
};
std::vector<WallWay> wall_ways();
std::string latency_wall_svg();

}  // namespace yotta
