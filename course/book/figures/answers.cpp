#include <charconv>

#include "course/book/figures/figure.hpp"
#include "yotta/core/error.hpp"

namespace book {
namespace {

const Figure& figure_named(const std::string& name) {
  std::string known;
  for (const Figure& each : all_figures()) {
    if (each.name == name) return each;
    known += " " + each.name;
  }
  yotta::fail(yotta::Where::current(), "there is no figure '{}'; there are{}", name, known);
}

// The words of a request; without a stream, whose locales would be a quarter of the module.
std::vector<std::string> words_of(const std::string& request) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : request) {
    if (c != ' ' && !inside) words.emplace_back();
    inside = c != ' ';
    if (inside) words.back() += c;
  }
  return words;
}

// The place that a word names, if it is one of `count` from 0 on; else count.
size_t place_of(const std::string& word, size_t count) {
  size_t place = count;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), place);
  return error == std::errc() && end == word.data() + word.size() && place < count ? place : count;
}

// The settings' values at the places that follow the figure's name.
std::vector<double> values_at(const Figure& figure, const std::vector<std::string>& words) {
  const size_t settings = figure.settings.size();
  if (words.size() != settings + 1)
    yotta::fail(yotta::Where::current(), "{}: expected {} places, one for each setting, found {}",
                figure.name, settings, words.size() - 1);
  std::vector<double> values;
  for (size_t i = 0; i < settings; ++i) {
    const std::vector<double>& all = figure.settings[i].values;
    const size_t place = place_of(words[i + 1], all.size());
    if (place == all.size())
      yotta::fail(yotta::Where::current(), "{}: the setting '{}' has the places 0 to {}, not '{}'",
                  figure.name, figure.settings[i].name, all.size() - 1, words[i + 1]);
    values.push_back(all[place]);
  }
  return values;
}

std::string names() {
  std::string all;
  for (const Figure& each : all_figures())
    all += fmt::format("{}\"{}\"", all.empty() ? "" : ",", each.name);
  return "[" + all + "]";
}

}  // namespace

const std::vector<Figure>& all_figures() {
  static const std::vector<Figure> all = {
      bits_figure(),      roofline_figure(),    tiles_figure(),    lanes_figure(),
      banks_figure(),     fusion_figure(),      launches_figure(), flash_figure(),
      mask_figure(),      paint_figure(),       links_figure(),    zoom_figure(),
      crossover_figure(), reshard_figure(),     model_figure(),    memory_figure(),
      fsdp_figure(),      hsdp_figure(),        revolve_figure(),  schedule_figure(),
      game_figure(),      zero_bubble_figure(), pieces_figure(),   ring_figure(),
      heads_figure(),     experts_figure(),     mesh_figure(),     budget_figure(),
      failures_figure(),  kill_figure(),        ocean_figure()};
  return all;
}

std::string answer(const std::string& request) {
  const std::vector<std::string> words = words_of(request);
  if (words.empty()) return names();
  const Figure& figure = figure_named(words[0]);
  if (words.size() == 1) return described(figure);
  return text_of(figure.data(values_at(figure, words)));
}

}  // namespace book
