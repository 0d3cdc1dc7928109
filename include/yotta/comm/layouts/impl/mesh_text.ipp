// The bodies of comm/layouts/mesh_text.hpp.
#pragma once

#include "yotta/comm/layouts/mesh_text.hpp"

#include <algorithm>
#include <limits>

namespace yotta {

YOTTA_INLINE MeshShape parse_mesh(const std::string& text, Where where) {
  MeshShape shape;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::string word = item.substr(0, item.find('='));
    const std::string number = item.substr(std::min(word.size() + 1, item.size()));
    const auto known = std::find_if(all_axes.begin(), all_axes.end(), [&](Axis each) {
      return word == name(each) || word == short_name(each);
    });
    const bool is_number = !number.empty() && number.size() < 7 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (known == all_axes.end() || !is_number || std::stoi(number) < 1)
      fail(where,
           "'{}' is not an axis and its size; a layout is written as in pp=2,tp=2, with the axes "
           "pp, dp, fsdp, ep, cp, tp",
           item);
    if (shape[*known] != 1) fail(where, "{} is given twice in '{}'", word, text);
    shape[*known] = std::stoi(number);
    if (shape.ranks() > std::numeric_limits<int>::max())
      fail(where, "'{}' makes more than {} ranks", text, std::numeric_limits<int>::max());
    begin = end + 1;
  }
  return shape;
}

YOTTA_INLINE std::string picture(const MeshShape& shape, const char* (*word)(Axis)) {
  const auto label = [&](int rank, bool inside) {
    std::string text;
    for (size_t i = all_axes.size(); i-- > 0;)
      if (const Axis axis = all_axes[i]; shape[axis] > 1 && (axis < Axis::pp) == inside)
        text += fmt::format("   {} {}", word(axis), coordinate(shape, rank, axis));
    return text;
  };
  const int columns = shape.tp * shape.cp, rows = static_cast<int>(shape.ranks()) / columns;
  const size_t left = label((rows - 1) * columns, false).size();
  const size_t wide = std::max<size_t>(label(columns - 1, true).size(), 7);
  std::string text(columns > 1 ? left : 0, ' ');  // a heading, if there are columns to tell apart
  for (int c = 0; c < columns && columns > 1; ++c)
    text += fmt::format("{:>{}}", label(c, true), wide);
  for (int r = 0; r < rows; ++r) {
    text += fmt::format("{}{:<{}}", text.empty() ? "" : "\n", label(r * columns, false), left);
    for (int c = 0; c < columns; ++c) text += fmt::format("{:>{}}", r * columns + c, wide);
  }
  return text + "\n";
}

}  // namespace yotta
