#include "course/book/figures/recorded/record.hpp"

#include "yotta/core/system/files.hpp"

namespace book {
namespace {

// The next places of the settings, the last counts fastest; false after the last.
bool next(std::vector<size_t>& places, const std::vector<Setting>& settings) {
  for (size_t i = places.size(); i-- > 0;) {
    if (++places[i] < settings[i].values.size()) return true;
    places[i] = 0;
  }
  return false;
}

}  // namespace

std::string record(const Figure& figure) {
  std::string answers;
  std::vector<size_t> places(figure.settings.size(), 0);
  do {
    std::string request = figure.name;
    std::vector<double> at;
    for (size_t i = 0; i < places.size(); ++i) {
      request += fmt::format(" {}", places[i]);
      at.push_back(figure.settings[i].values[places[i]]);
    }
    answers +=
        fmt::format("{}\"{}\":{}", answers.empty() ? "" : ",", request, text_of(figure.data(at)));
  } while (next(places, figure.settings));
  return fmt::format("{{\"about\":{},\"answers\":{{{}}}}}", described(figure), answers);
}

}  // namespace book

// book_records NAME FILE: all settings of a figure, as JSON.
int main(int count, char** words) {
  for (const auto& figure :
       {book::steps_figure(), book::buckets_figure(), book::breathing_figure(), book::cuts_figure(),
        book::tokens_figure(), book::waterfall_figure(), book::measured_figure()})
    if (count == 3 && figure.name == words[1]) {
      yotta::write_file(words[2], book::record(figure));
      return 0;
    }
  fmt::print(stderr, "book_records NAME FILE: NAME is a file of course/book/figures/recorded\n");
  return 2;
}
