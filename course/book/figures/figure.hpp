// A figure of the book: settings that a reader moves, and the plain data with which the library's
// pages answer.
//
//     settings ──► data(values) ──► numbers    what the figure says: shown, read aloud, tested
//                                   rows       what it is drawn from
//                                   code       lines of C++ that give the same numbers
//
// The same functions are compiled twice: to WebAssembly, for the reader's browser, and for this
// machine, for pictures that stand still and for tests.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

namespace book {

struct Setting {
  std::string name, unit;
  std::vector<double> values;           // where its slider can stand
  size_t start = 0;                     // and where it stands first
  std::vector<std::string> words = {};  // of each value, if it is no number
};
struct Number {
  std::string name, unit;
  double value;
  int digits = 3;  // significant ones
};
struct Row {
  std::string name;
  std::vector<double> values = {};
  std::vector<std::string> words = {};
};
struct Data {
  std::vector<Number> numbers;
  std::vector<Row> rows;
  std::string code;
};
struct Figure {
  std::string name;      // "02_roofline": its lesson, and its file
  std::string question;  // what dragging answers
  std::vector<Setting> settings;
  std::function<Data(const std::vector<double>&)> data;
};

// least, ..., most, each `times` the one before.
std::vector<double> multiplied(double least, double most, double times);
// least, least + step, ..., most.
std::vector<double> counted(double least, double most, double step = 1);
// 0, 1, 2, ...: which of some words.
Setting choice(std::string name, std::vector<std::string> words, size_t start = 0);
// A curve, or some over the same x: each x, and what `values` has there, one point after the other.
Row curve(std::string name, const std::vector<double>& x,
          const std::function<std::vector<double>(double)>& values);

// In JSON. A number that is not finite is null.
std::string described(const Figure& figure);
std::string text_of(const Data& data);

// One function for each figure, in the file of its name.
Figure bits_figure();
Figure roofline_figure();
Figure tiles_figure();
Figure lanes_figure();
Figure banks_figure();
Figure fusion_figure();
Figure launches_figure();
Figure flash_figure();
Figure mask_figure();
Figure paint_figure();
Figure links_figure();
Figure zoom_figure();
Figure crossover_figure();
Figure reshard_figure();
Figure model_figure();
Figure memory_figure();
Figure fsdp_figure();
Figure hsdp_figure();
Figure revolve_figure();
Figure schedule_figure();
Figure game_figure();
Figure zero_bubble_figure();
Figure pieces_figure();
Figure ring_figure();
Figure heads_figure();
Figure experts_figure();
Figure mesh_figure();
Figure budget_figure();
Figure failures_figure();
Figure kill_figure();
Figure ocean_figure();

const std::vector<Figure>& all_figures();

// "02_roofline": what it is; "02_roofline 0 12 12 12 1": its data at these places of the settings'
// values; "": the names of all. Errors: no such figure, or place.
std::string answer(const std::string& request);

}  // namespace book
