// One solution of exercise 08 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using namespace exercise;

student::BlockTiles sizes_of(const Sizes& s) {
  return {s.B, s.H, s.queries, s.keys, s.BQ, s.BK, {}, {}};
}
Lists as_lists(const student::TileList& list) {
  Lists mine{list.first, list.at, {}};
  for (const student::TileKind each : list.kind) mine.kind.push_back(static_cast<Kind>(each));
  return mine;
}
student::TileList as_theirs(const Lists& list) {
  student::TileList theirs{list.first, list.at, {}};
  for (const Kind each : list.kind) theirs.kind.push_back(static_cast<student::TileKind>(each));
  return theirs;
}

bool window(int size, int q, int kv) { return student::SlidingWindow{size}(0, 0, q, kv); }
bool same_document(const int* document, int T, int b, int q, int kv) {
  return student::SameDocument{document, T}(b, 0, q, kv);
}
bool prefix(int size, int q, int kv) { return student::PrefixLm{size}(0, 0, q, kv); }

double alibi(const double* slopes, double score, int h, int q, int kv) {
  return student::Alibi<double>{{slopes}}(score, 0, h, q, kv);
}
Changed alibi_dual(const double* slopes, double score, int h, int q, int kv) {
  using Score = yotta::Dual<double, 1>;
  const Score y = student::Alibi<double>{{slopes}}(Score::score(score), 0, h, q, kv);
  return {y.value, y.slope, y.used == 1 && y.index[0] == h ? y.partial[0] : 0};
}

Kind kind_of_tile(const AnyMask& mask, int b, int h, int q_begin, int q_end, int kv_begin,
                  int kv_end) {
  return static_cast<Kind>(student::kind_of_tile(mask, b, h, q_begin, q_end, kv_begin, kv_end));
}
Lists by_row(const AnyMask& mask, const Sizes& sizes) {
  return as_lists(student::tiles_by_row(mask, sizes_of(sizes)));
}
Lists by_column(const Lists& rows_first, int masks, int rows, int columns) {
  return as_lists(student::tiles_by_column(as_theirs(rows_first), masks, rows, columns));
}
std::vector<Run> each_run(const Lists& rows_first, const Sizes& sizes, int line, int begin, int end,
                          int most) {
  student::BlockTiles tiles = sizes_of(sizes);
  tiles.by_row = as_theirs(rows_first);
  std::vector<Run> runs;
  student::each_run(tiles, line, begin, end, most, [&](int key, int n, student::TileKind kind) {
    runs.push_back({key, n, kind == student::TileKind::full});
  });
  return runs;
}
std::vector<Run> runs(const Lists& rows_first, const Sizes& sizes, int b, int h, int first_query,
                      int first_key, int end_key, int begin) {
  student::BlockMask<student::NoMask> tiles{sizes_of(sizes), {}};
  tiles.by_row = as_theirs(rows_first);
  const student::FlexMask<student::NoMask> mask{tiles, {b, h, first_query, first_key, end_key}};
  std::vector<Run> found;
  mask.runs(begin, begin + sizes.BQ, [&](int64_t key, int64_t n, bool whole) {
    found.push_back({static_cast<int>(key), static_cast<int>(n), whole});
  });
  return found;
}

// ALiBi that is right, whatever the student's is.
struct Slopes {
  static constexpr int reads = 1;
  yotta::Captured<double> slopes;
  template <class Score>
  Score operator()(Score score, int, int h, int q, int kv) const {
    return score * score - Score(slopes[h]) * Score(q - kv);
  }
};
Shares backward(const double* slopes, double d, double score, int h, int q, int kv) {
  const Slopes mod{{slopes}};
  student::CapturedSums captured{std::vector<double>(2)};
  const student::FlexScore<Slopes> own{mod, {0, h, 0, 0, 0}, &captured};
  const double dscore = own.backward(d, score, q, kv);
  return {dscore, {captured.sums[0], captured.sums[1]}};
}

}  // namespace

const Solution exercise::solution = {window,     same_document, prefix,  alibi,
                                     alibi_dual, kind_of_tile,  by_row,  by_column,
                                     each_run,   runs,          backward};
