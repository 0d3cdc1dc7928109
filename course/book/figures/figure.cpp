#include "course/book/figures/figure.hpp"

#include <cmath>

namespace book {
namespace {

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return all + "\"";
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

template <class Items, class Text>
std::string list(const Items& items, Text text) {
  std::string all;
  for (const auto& each : items) all += (all.empty() ? "" : ",") + text(each);
  return "[" + all + "]";
}

std::string numbers(const std::vector<double>& values) { return list(values, number); }
std::string words(const std::vector<std::string>& texts) { return list(texts, quoted); }

}  // namespace

std::vector<double> multiplied(double least, double most, double times) {
  std::vector<double> values;
  for (double each = least; each <= most * (1 + 1e-9); each *= times) values.push_back(each);
  return values;
}

std::vector<double> counted(double least, double most, double step) {
  std::vector<double> values;
  for (double each = least; each <= most + step * 1e-9; each += step) values.push_back(each);
  return values;
}

Setting choice(std::string name, std::vector<std::string> words, size_t start) {
  std::vector<double> values = counted(0, static_cast<double>(words.size()) - 1);
  return {std::move(name), "", std::move(values), start, std::move(words)};
}

Row curve(std::string name, const std::vector<double>& x,
          const std::function<std::vector<double>(double)>& values) {
  Row row{std::move(name)};
  for (const double each : x) {
    row.values.push_back(each);
    for (const double value : values(each)) row.values.push_back(value);
  }
  return row;
}

std::string described(const Figure& figure) {
  const auto setting = [](const Setting& s) {
    return fmt::format("{{\"name\":{},\"unit\":{},\"values\":{},\"start\":{},\"words\":{}}}",
                       quoted(s.name), quoted(s.unit), numbers(s.values), s.start, words(s.words));
  };
  return fmt::format("{{\"name\":{},\"question\":{},\"settings\":{}}}", quoted(figure.name),
                     quoted(figure.question), list(figure.settings, setting));
}

std::string text_of(const Data& data) {
  const auto said = [](const Number& n) {
    return fmt::format("{{\"name\":{},\"unit\":{},\"value\":{},\"digits\":{}}}", quoted(n.name),
                       quoted(n.unit), number(n.value), n.digits);
  };
  const auto row = [](const Row& r) {
    return fmt::format("{{\"name\":{},\"values\":{},\"words\":{}}}", quoted(r.name),
                       numbers(r.values), words(r.words));
  };
  return fmt::format("{{\"numbers\":{},\"rows\":{},\"code\":{}}}", list(data.numbers, said),
                     list(data.rows, row), quoted(data.code));
}

}  // namespace book
