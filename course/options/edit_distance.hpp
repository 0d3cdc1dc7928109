// How far two words lie apart, for "did you mean".
#pragma once

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace yotta {

// How many characters must be changed, added or removed to turn a into b.
inline int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() +
                       1);  // distances from the start of a read so far to each start of b
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace yotta
