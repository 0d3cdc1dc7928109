// The graded cases of exercise 08: masks, tiles and their lists, the walk along a row, and the
// gradient of a score modifier.
#include <cmath>
#include <set>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/nn/flex_attention.hpp"

using exercise::AnyMask;
using exercise::expect;
using exercise::Kind;
using exercise::Lists;
using exercise::Run;
using exercise::Sizes;
using exercise::solution;
using exercise::Tensor;

namespace {

const char* name(Kind kind) {
  return kind == Kind::empty ? "empty" : kind == Kind::partial ? "partial" : "full";
}

// What the cases measure by: the lists as the page describes them.
int rows_of(const Sizes& s) { return (s.queries + s.BQ - 1) / s.BQ; }
int columns_of(const Sizes& s) { return (s.keys + s.BK - 1) / s.BK; }
Kind kind_at(const AnyMask& mask, const Sizes& s, int b, int h, int row, int column) {
  int seen = 0, all = 0;
  for (int q = row * s.BQ; q < std::min((row + 1) * s.BQ, s.queries); ++q)
    for (int kv = column * s.BK; kv < std::min((column + 1) * s.BK, s.keys); ++kv, ++all)
      seen += mask(b, h, q, kv) ? 1 : 0;
  return seen == 0 ? Kind::empty : seen == all ? Kind::full : Kind::partial;
}
Lists expected_by_row(const AnyMask& mask, const Sizes& s, bool columns_first = false) {
  Lists lists{{0}, {}, {}};
  const int lines = columns_first ? columns_of(s) : rows_of(s),
            along = columns_first ? rows_of(s) : columns_of(s);
  for (int b = 0; b < s.B; ++b)
    for (int h = 0; h < s.H; ++h)
      for (int line = 0; line < lines; ++line) {
        for (int i = 0; i < along; ++i) {
          const Kind kind =
              columns_first ? kind_at(mask, s, b, h, i, line) : kind_at(mask, s, b, h, line, i);
          if (kind == Kind::empty) continue;
          lists.at.push_back(i);
          lists.kind.push_back(kind);
        }
        lists.first.push_back(static_cast<int>(lists.at.size()));
      }
  return lists;
}

bool causal(int, int, int q, int kv) { return kv <= q; }
AnyMask window(int size) {
  return [size](int, int, int q, int kv) { return kv <= q && q - kv < size; };
}
const int narrow = exercise::size("window", 5, 3, 12);
// Each sequence and head has another mask.
bool many(int b, int h, int q, int kv) { return kv <= q + 3 * b && q - kv < 4 + 3 * h; }

bool same(const Lists& a, const Lists& b) {
  return a.first == b.first && a.at == b.at && a.kind == b.kind;
}
std::string shown(const std::vector<int>& numbers) {
  std::string text;
  for (const int each : numbers) text += fmt::format("{}{}", text.empty() ? "" : " ", each);
  return text;
}
// The first line in which two lists differ.
std::string difference(const Lists& got, const Lists& wanted, const char* along) {
  const auto line = [](const Lists& lists, size_t i) {
    std::string text;
    if (i + 1 >= lists.first.size()) return std::string("is not there");
    for (int at = lists.first[i]; at < lists.first[i + 1]; ++at) {
      if (at < 0 || at >= static_cast<int>(lists.at.size()) ||
          at >= static_cast<int>(lists.kind.size()))
        return fmt::format("goes beyond the {} tiles that are listed", lists.at.size());
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", lists.at[at], name(lists.kind[at]));
    }
    return "has " + (text.empty() ? "none" : text);
  };
  if (got.first.size() != wanted.first.size())
    return fmt::format("`first` has {} numbers, expected {}: where each line begins, and the end",
                       got.first.size(), wanted.first.size());
  for (size_t i = 0; i + 1 < wanted.first.size(); ++i)
    if (line(got, i) != line(wanted, i))
      return fmt::format("line {} {}; expected: it {} ({} of its tiles, and their kinds)", i,
                         line(got, i), line(wanted, i), along);
  return "the lists differ behind their last line";
}

const Sizes whole{.queries = 24, .keys = 24, .BQ = 4, .BK = 4};
const Sizes tall{.queries = 20, .keys = 8, .BQ = 4, .BK = 4};
const Sizes wide{.queries = 7, .keys = 20, .BQ = 4, .BK = 4};
// The last query sees the last key of `wide`.
bool decoding(int, int, int q, int kv) { return kv <= q + 13; }
const Sizes ragged{.queries = exercise::size("queries", 10, 9, 23),
                   .keys = exercise::size("keys", 13, 11, 24),
                   .BQ = 4,
                   .BK = 5};

std::string shown(const std::vector<Run>& runs) {
  std::string text;
  for (const Run& each : runs)
    text += fmt::format("{}[{}, {}){}", text.empty() ? "" : " ", each.key, each.key + each.n,
                        each.whole ? " full" : " partial");
  return text.empty() ? "nothing" : text;
}
bool operator==(const Run& a, const Run& b) {
  return a.key == b.key && a.n == b.n && a.whole == b.whole;
}

// ---- attention: what lesson 07's loop makes of a solution --------------------------------------

// Two sequences of packed documents. Head 0 has a window in them, head 1 a prefix.
const Sizes packed{.B = 2, .H = 2, .queries = 22, .keys = 30, .BQ = 4, .BK = 4};
constexpr int head_d = 8, piece = 8;  // queries of a piece: two rows of tiles
double packed_slopes[] = {0.5, 0.125};
const std::vector<int> packed_documents = [] {
  std::vector<int> document;
  const int first = exercise::size("first document", 7, 3, 16),
            other = exercise::size("document of b = 1", 16, 3, 16);
  for (const int length : {first, 19 - first, 11, other, 19 - other, 11})
    document.insert(document.end(), length, static_cast<int>(document.size()));
  return document;
}();

const int packed_prefix = exercise::size("prefix of h = 1", 6, 2, 7);
bool packed_mask(int b, int h, int q, int kv) {
  if (h == 1) return solution.prefix(packed_prefix, q, kv);
  return solution.window(9, q, kv) &&
         solution.same_document(packed_documents.data(), packed.keys, b, q, kv);
}
bool packed_right(int b, int h, int q, int kv) {
  const yotta::SameDocument documents{packed_documents.data(), packed.keys};
  if (h == 1) return yotta::PrefixLm{packed_prefix}(b, h, q, kv);
  return yotta::SlidingWindow{9}(b, h, q, kv) && documents(b, h, q, kv);
}

struct Attended {
  std::vector<double> o;            // (B, T, H, d)
  int64_t computed = 0, asked = 0;  // scores
};

// The mask and the score_mod of a piece, and what they cost.
struct Told {
  const Lists& rows;
  Attended& sum;
  int b, h, first_query, first_key, end_key;

  int64_t queries() const { return packed.BQ; }
  int query(int64_t t) const { return first_query + static_cast<int>(t); }
  int key(int64_t j) const { return first_key + static_cast<int>(j); }
  bool operator()(int64_t t, int64_t j) const {
    ++sum.asked;
    return packed_mask(b, h, query(t), key(j));
  }
  double operator()(double score, int64_t t, int64_t j) const {
    return solution.alibi(packed_slopes, score, h, query(t), key(j));
  }
  template <class Visit>
  void runs(int64_t begin, int64_t end, Visit&& visit) const {
    for (const Run& run : solution.runs(rows, packed, b, h, first_query, first_key, end_key,
                                        static_cast<int>(begin))) {
      expect(run.key >= 0 && run.n > 0 && run.key + run.n <= end_key - first_key,
             fmt::format("a piece has {} keys, and the run [{}, {}) is not in it",
                         end_key - first_key, run.key, run.key + run.n));
      sum.computed += (end - begin) * run.n;
      visit(run.key, run.n, run.whole);
    }
  }
};

Tensor drawn(int rows, int seed) {
  Tensor x = Tensor::empty({packed.B, rows, packed.H, head_d}, yotta::DType::f64);
  for (int i = seed; double& each : x.span<double>()) each = std::sin(7.0 * i++ * seed);
  return x;
}

// Each piece of queries gets the keys that a window of 9 may reach, or all up to its end.
Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Lists& rows) {
  Tensor o = Tensor::zeros(q.shape(), yotta::DType::f64);
  Attended sum;
  std::array<double, piece> L = {};
  const auto part = [](auto* x, int T, int b, int h, int begin, int end) {
    return yotta::row_major(x + ((b * T + begin) * packed.H + h) * head_d, end - begin, head_d,
                            packed.H * head_d);
  };
  for (int b = 0; b < packed.B; ++b)
    for (int h = 0; h < packed.H; ++h)
      for (int begin = 0; begin < packed.queries; begin += piece) {
        const int end = std::min(begin + piece, packed.queries);
        const Told told{rows, sum, b, h, begin, h == 1 ? 0 : std::max(begin - 8, 0), begin + piece};
        const auto queries = [&](auto* x) { return part(x, packed.queries, b, h, begin, end); };
        const auto keys = [&](const double* x) {
          return part(x, packed.keys, b, h, told.first_key, told.end_key);
        };
        const yotta::FlashHead<double> head{queries(q.data<double>()), keys(k.data<double>()),
                                            keys(v.data<double>()), queries(o.data<double>()),
                                            L.data()};
        yotta::flash_forward(head, 0, end - begin, told, told);
      }
  sum.o = o.values();
  return sum;
}

// Scores of the tiles that are listed, and of the partial ones.
std::pair<int64_t, int64_t> scores_of(const Lists& rows) {
  int64_t computed = 0, asked = 0;
  for (int line = 0; line + 1 < static_cast<int>(rows.first.size()); ++line)
    for (int i = rows.first[line]; i < rows.first[line + 1]; ++i) {
      const int row = line % rows_of(packed), height = std::min(4, packed.queries - 4 * row);
      const int scores = height * std::min(4, packed.keys - 4 * rows.at[i]);
      computed += scores;
      asked += rows.kind[i] == Kind::partial ? scores : 0;
    }
  return {computed, asked};
}

}  // namespace

TEST_CASE("08.1: so many keys, and none that is later") {
  for (const int size : exercise::and_one_more({3, 1, 8}, "window", 2, 5))
    for (int q = 0; q < 6; ++q) {
      int seen = 0;
      for (int kv = 0; kv < 12; ++kv) {
        const bool is_seen = solution.window(size, q, kv);
        expect(
            !is_seen || kv <= q,
            fmt::format("with a window of {}, query {} sees key {}, which is later", size, q, kv));
        seen += is_seen ? 1 : 0;
      }
      expect(
          seen == std::min(size, q + 1),
          fmt::format("with a window of {}, query {} sees {} keys, expected {}: its own position "
                      "counts as one of them",
                      size, q, seen, std::min(size, q + 1)));
      for (int kv = q; kv > q - size && kv >= 0; --kv)
        expect(solution.window(size, q, kv),
               fmt::format("with a window of {}, query {} does not see key {}", size, q, kv));
    }
}

TEST_CASE("08.2: those of one document see each other, in both directions") {
  const int document[] = {0, 0, 5, 5, 5, 2};
  for (int q = 0; q < 6; ++q)
    for (int kv = 0; kv < 6; ++kv)
      expect(
          solution.same_document(document, 6, 0, q, kv) == (document[q] == document[kv]),
          fmt::format("query {} is in document {}, key {} in {}; the mask says {}", q, document[q],
                      kv, document[kv], solution.same_document(document, 6, 0, q, kv)));
}

TEST_CASE("08.2: each sequence has documents of its own") {
  int document[] = {0, 0, 0, 1, /* b = 1 */ 0, 1, 1, 1, /* b = 2 */ 4, 4, 4, 4};
  for (int i = 0; int& each : document)
    each = exercise::size(fmt::format("document {}", i++), each, 0, 2);
  for (int b = 0; b < 3; ++b)
    for (int q = 0; q < 4; ++q)
      for (int kv = 0; kv < 4; ++kv) {
        const bool got = solution.same_document(document, 4, b, q, kv);
        const bool first = document[q] == document[kv];
        expect(
            got == (document[4 * b + q] == document[4 * b + kv]),
            fmt::format("sequence {}, query {}, key {}: the mask says {}{}; `document` is (B, T), "
                        "so a sequence's row begins at b * T",
                        b, q, kv, got,
                        got == first ? ", as the documents are, those of sequence 0" : ""));
      }
}

TEST_CASE("08.3: all see the prefix, and it sees no more than itself") {
  for (const int size : exercise::and_one_more({0, 3, 6}, "prefix", 1, 5))
    for (int q = 0; q < 6; ++q)
      for (int kv = 0; kv < 6; ++kv) {
        const bool got = solution.prefix(size, q, kv), wanted = kv < size || kv <= q;
        expect(
            got == wanted,
            fmt::format("a prefix of {}, query {}, key {}: the mask says {}{}", size, q, kv, got,
                        got == (q < size || q <= kv) || got == (q < size || kv <= q)
                            ? ", as if q and kv are exchanged: it is the key that is in the prefix"
                            : ""));
      }
}

TEST_CASE("08.4: far keys weigh less, by their own head's slope") {
  const double slopes[] = {exercise::size("slope 0", 8, 1, 15) / 16.0,
                           exercise::size("slope 1", 2, 1, 15) / 16.0};
  for (int h = 0; h < 2; ++h)
    for (const int kv : {9, 4, 0}) {
      const double got = solution.alibi(slopes, 2.0, h, 9, kv), wanted = 2 - slopes[h] * (9 - kv);
      expect(std::abs(got - wanted) <= 1e-12,
             fmt::format("score 2, slope {}, the key {} positions before the query: {}, expected "
                         "{}{}",
                         slopes[h], 9 - kv, got, wanted,
                         got > 2 ? "; far keys weigh more: the distance is q - kv" : ""));
    }
}

TEST_CASE("08.4: the slope's derivative is not lost") {
  const double slopes[] = {0.5, 0.125};
  const auto y = solution.alibi_dual(slopes, 2.0, 1, 9, 4);
  expect(y.by_score == 1, fmt::format("the derivative by the score is {}, expected 1", y.by_score));
  expect(
      y.by_slope == -5,
      fmt::format("the key is 5 positions back; the derivative by the slope is {}, expected -5: "
                  "read it by Score(slopes[h]), which keeps the derivative where .value does not",
                  y.by_slope));
}

TEST_CASE("08.4: the distance has a sign") {
  const double slopes[] = {0.5, 0.125};
  const double got = solution.alibi(slopes, 2.0, 0, 4, 9);
  expect(std::abs(got - 4.5) <= 1e-12,
         fmt::format("score 2, slope 0.5, the key 5 positions after the query: {}, expected 4.5; "
                     "the distance is q - kv, here -5 (a causal mask hides such keys)",
                     got));
}

TEST_CASE("08.5: a tile is what all of its scores say") {
  const int last = exercise::size("rows", 8, 8, 20), row = last - 2;
  const auto check = [&](const AnyMask& mask, Kind wanted, const char* what) {
    const Kind got = solution.kind_of_tile(mask, 1, 2, 4, last, 8, 13);
    expect(got == wanted,
           fmt::format("{}: the tile is {}, expected {}{}", what, name(got), name(wanted),
                       got == Kind::full ? "; a full tile shows what the mask hides" : ""));
  };
  check([](int, int, int, int) { return false; }, Kind::empty, "no score is seen");
  check([](int, int, int, int) { return true; }, Kind::full, "each score is seen");
  check([&](int, int, int q, int kv) { return q == row && kv == 10; }, Kind::partial,
        "one score in the middle is seen");
  check([&](int, int, int q, int kv) { return q != row || kv != 10; }, Kind::partial,
        "all but one score in the middle are seen");
  check([](int, int, int q, int kv) { return kv - q == 8; }, Kind::partial,
        "one score at the edge is seen");
}

TEST_CASE("08.5: it asks for its own sequence and head, within its ends") {
  std::set<std::pair<int, int>> asked;
  solution.kind_of_tile(
      [&](int b, int h, int q, int kv) {
        expect(b == 1 && h == 2, fmt::format("asked for b {} and h {}, expected 1 and 2", b, h));
        expect(q >= 4 && q < 7 && kv >= 8 && kv < 10,
               fmt::format("asked for query {} and key {}: the tile is [4, 7) by [8, 10)", q, kv));
        asked.insert({q, kv});
        return true;
      },
      1, 2, 4, 7, 8, 10);
  expect(asked.size() == 6,
         fmt::format("asked for {} of 6 scores, and all were seen", asked.size()));
}

TEST_CASE("08.5: it asks once for each score") {
  int asked = 0;
  solution.kind_of_tile([&](int, int, int, int) { return ++asked > 0; }, 0, 0, 4, 7, 8, 10);
  expect(asked <= 6, fmt::format("the mask was asked {} times for 6 scores: keep the answer, or "
                                 "count those that are seen",
                                 asked));
}

TEST_CASE("08.6: the lists of a causal mask and of a window") {
  for (const AnyMask& mask : {AnyMask(causal), window(narrow), window(9)}) {
    const Lists got = solution.by_row(mask, whole), wanted = expected_by_row(mask, whole);
    expect(same(got, wanted), difference(got, wanted, "the columns"));
  }
}

TEST_CASE("08.6: empty tiles are in no list") {
  const Lists got = solution.by_row(window(narrow), whole),
              wanted = expected_by_row(window(narrow), whole);
  expect(got.at.size() <= wanted.at.size(),
         fmt::format("{} tiles are listed, and {} are not empty: what is listed is computed, so "
                     "nothing is saved",
                     got.at.size(), wanted.at.size()));
  const Lists none = solution.by_row([](int, int, int, int) { return false; }, whole);
  expect(none.at.empty() && none.first == std::vector<int>(7, 0),
         fmt::format("of a mask that hides all, {} tiles are listed, and `first` is {}",
                     none.at.size(), shown(none.first)));
}

TEST_CASE("08.6: the last tiles may be smaller") {
  const AnyMask inside = [](int, int, int q, int kv) {
    expect(q < ragged.queries && kv < ragged.keys,
           fmt::format("the mask was asked for query {} and key {}, and there are {} and {}: cut "
                       "the last tiles at t.queries and t.keys",
                       q, kv, ragged.queries, ragged.keys));
    return kv <= q + 3;
  };
  const Lists got = solution.by_row(inside, ragged);
  const Lists wanted = expected_by_row([](int, int, int q, int kv) { return kv <= q + 3; }, ragged);
  expect(same(got, wanted), difference(got, wanted, "the columns"));
}

TEST_CASE("08.6: as many lines as rows, whatever the columns") {
  for (const Sizes& sizes : {tall, wide}) {
    const Lists got = solution.by_row(decoding, sizes), wanted = expected_by_row(decoding, sizes);
    const bool exchanged = static_cast<int>(got.first.size()) == columns_of(sizes) + 1;
    expect(same(got, wanted), fmt::format("{} rows of tiles, {} columns: {}{}", rows_of(sizes),
                                          columns_of(sizes), difference(got, wanted, "the columns"),
                                          exchanged ? "; rows() and columns() are exchanged" : ""));
  }
}

TEST_CASE("08.6: each sequence and head has lines of its own") {
  Sizes sizes = whole;
  sizes.B = 2, sizes.H = 3;
  const Lists got = solution.by_row(many, sizes), wanted = expected_by_row(many, sizes);
  const Lists of_first =
      expected_by_row([](int, int, int q, int kv) { return many(0, 0, q, kv); }, sizes);
  expect(same(got, wanted), same(got, of_first) ? "all lines are those of sequence 0 and head 0"
                                                : difference(got, wanted, "the columns"));
}

TEST_CASE("08.7: a line has the rows of its column") {
  for (const AnyMask& mask : {AnyMask(causal), window(narrow)})
    for (const Sizes& sizes : {whole, ragged}) {
      const Lists rows = expected_by_row(mask, sizes);
      const Lists got = solution.by_column(rows, 1, rows_of(sizes), columns_of(sizes)),
                  wanted = expected_by_row(mask, sizes, true);
      bool own_number = got.at.size() == wanted.at.size();
      for (size_t line = 0; own_number && line + 1 < got.first.size(); ++line)
        for (int i = got.first[line]; i < got.first[line + 1]; ++i)
          own_number = own_number && got.at[i] == static_cast<int>(line);
      expect(same(got, wanted),
             own_number ? "each line holds its own number: a line is a column, and lists rows"
                        : difference(got, wanted, "the rows"));
    }
}

TEST_CASE("08.7: as many lines as columns, whatever the rows") {
  const Lists rows = expected_by_row(decoding, tall);
  const Lists got = solution.by_column(rows, 1, rows_of(tall), columns_of(tall)),
              wanted = expected_by_row(decoding, tall, true);
  const bool exchanged = static_cast<int>(got.first.size()) == rows_of(tall) + 1;
  expect(same(got, wanted),
         fmt::format("5 rows of tiles, 2 columns: {}{}", difference(got, wanted, "the rows"),
                     exchanged ? "; rows and columns are exchanged" : ""));
}

TEST_CASE("08.7: each mask has its own columns") {
  Sizes sizes = whole;
  sizes.H = 2;
  const Lists rows = expected_by_row(many, sizes);
  const Lists got = solution.by_column(rows, 2, rows_of(sizes), columns_of(sizes)),
              wanted = expected_by_row(many, sizes, true);
  expect(same(got, wanted), "with 2 masks: " + difference(got, wanted, "the rows"));
}

TEST_CASE("08.8: what is listed is visited, and nothing else") {
  for (const AnyMask& mask : {AnyMask(causal), window(narrow + 4)})
    for (const Sizes& sizes : {whole, ragged})
      for (int line = 0; line < rows_of(sizes); ++line) {
        std::set<int> wanted, got;
        const Lists rows = expected_by_row(mask, sizes);
        for (int i = rows.first[line]; i < rows.first[line + 1]; ++i)
          for (int kv = rows.at[i] * sizes.BK;
               kv < std::min((rows.at[i] + 1) * sizes.BK, sizes.keys); ++kv)
            wanted.insert(kv);
        const std::vector<Run> runs = solution.each_run(rows, sizes, line, 0, sizes.keys, 64);
        for (const Run& run : runs)
          for (int kv = run.key; kv < run.key + run.n; ++kv)
            expect(got.insert(kv).second,
                   fmt::format("line {}: key {} is visited twice", line, kv));
        expect(got == wanted,
               fmt::format("line {} of a block mask for {} keys, tiles of {}: visited "
                           "are {}",
                           line, sizes.keys, sizes.BK, shown(runs)));
      }
}

TEST_CASE("08.8: only full neighbours are joined") {
  const Lists rows = expected_by_row(window(9), whole);
  for (int line = 0; line < 6; ++line)
    for (const Run& run : solution.each_run(rows, whole, line, 0, 24, 64))
      for (int column = run.key / 4; column < (run.key + run.n) / 4; ++column)
        expect(run.whole == (kind_at(window(9), whole, 0, 0, line, column) == Kind::full) &&
                   (run.whole || run.n == 4),
               fmt::format("line {}: [{}, {}) is {}, a run that holds {} tile in column {}", line,
                           run.key, run.key + run.n, run.whole ? "full" : "partial",
                           run.whole ? "a partial" : "another", column));
}

TEST_CASE("08.8: full neighbours are one product, up to the limit") {
  const Lists rows = expected_by_row(causal, whole);
  const std::vector<Run> runs = solution.each_run(rows, whole, 5, 0, 24, 64);
  expect(runs.size() == 2,
         fmt::format("right, but the five full tiles of a causal row are {} products "
                     "of few keys, and one of 20 is faster: {}",
                     runs.size() - 1, shown(runs)));
  for (const int begin : {0, 4})
    for (const Run& run : solution.each_run(rows, whole, 5, begin, 24, 8))
      expect((run.key - begin) / 8 == (run.key + run.n - 1 - begin) / 8,
             fmt::format("[{}, {}) crosses {} + a multiple of 8, which `most` forbids", run.key,
                         run.key + run.n, begin));
}

TEST_CASE("08.8: a gap ends a run") {
  const AnyMask pages = [](int, int, int, int kv) { return kv / 4 == 0 || kv / 4 == 2; };
  const std::vector<Run> runs =
      solution.each_run(expected_by_row(pages, whole), whole, 0, 0, 24, 64);
  expect(
      runs.size() == 2 && runs[0] == Run{0, 4, true} && runs[1] == Run{8, 4, true},
      fmt::format("full tiles in columns 0 and 2, as pages of keys lie: visited are {}, expected "
                  "[0, 4) full [8, 12) full; the tile between them is not listed: its keys are "
                  "another text's",
                  shown(runs)));
}

TEST_CASE("08.8: only what lies between begin and end") {
  const Lists rows = expected_by_row(causal, whole);
  const std::vector<Run> runs = solution.each_run(rows, whole, 5, 4, 16, 64);
  expect(runs.size() == 1 && runs[0] == Run{4, 12, true},
         fmt::format("the row's keys in [4, 16): visited are {}", shown(runs)));
}

TEST_CASE("08.9: the loop counts keys from its first one") {
  const Lists rows = expected_by_row(window(5), whole);
  for (const int row : {3, 5}) {
    const std::vector<Run> local = solution.runs(rows, whole, 0, 0, 8, 4, 24, 4 * row - 8);
    const int key = 4 * row - 4;
    expect(
        local.size() == 2 && local[0] == Run{key - 4, 4, false} && local[1] == Run{key, 4, false},
        fmt::format("a piece has queries from 8 and keys from 4 on; for query {} of it the runs "
                    "are {}, expected {}: the loop's key 0 is key 4, so hand it a place in the "
                    "piece and not a position in the sequence",
                    4 * row - 8, shown(local), shown({{key - 4, 4, false}, {key, 4, false}})));
  }
}

TEST_CASE("08.9: whole means full") {
  const Lists rows = expected_by_row(causal, whole);
  const std::vector<Run> runs = solution.runs(rows, whole, 0, 0, 0, 0, 24, 8);
  int asked = 0, unasked = 0;
  for (const Run& run : runs) (run.whole ? unasked : asked) += run.n;
  expect(asked == 4,
         fmt::format("{} keys are partial, expected 4: {}. In a whole run the mask is not "
                     "asked",
                     asked, shown(runs)));
  expect(unasked == 8,
         fmt::format("{} keys are in whole runs, expected 8: {}", unasked, shown(runs)));
}

TEST_CASE("08.9: each head has its own lines") {
  Sizes sizes = whole;
  sizes.B = 2, sizes.H = 2;
  const Lists rows = expected_by_row(many, sizes);
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 2; ++h) {
      std::set<int> wanted, got;
      for (int column = 0; column < 6; ++column)
        if (kind_at(many, sizes, b, h, 3, column) != Kind::empty) wanted.insert(column);
      for (const Run& run : solution.runs(rows, sizes, b, h, 0, 0, 24, 12))
        for (int kv = run.key; kv < run.key + run.n; kv += 4) got.insert(kv / 4);
      expect(got == wanted,
             fmt::format("sequence {}, head {}: the tiles of another line are visited; "
                         "tiles.mask_of(b, h) says which mask it is, and each has rows() lines",
                         b, h));
    }
  sizes.B = sizes.H = 1;  // one mask for all
  const Lists one = expected_by_row(causal, sizes);
  expect(solution.runs(one, sizes, 3, 5, 0, 0, 24, 12).size() == 2,
         "a block mask with B 1 and H 1 is that of every sequence and head: tiles.mask_of");
}

TEST_CASE("08.9: no run is longer than the buffers") {
  const Sizes sizes{.queries = 512, .keys = 512, .BQ = 64, .BK = 64};
  const Lists rows = expected_by_row(causal, sizes);
  for (const Run& run : solution.runs(rows, sizes, 0, 0, 0, 0, 512, 448))
    expect(run.n <= yotta::flash_BK,
           fmt::format("the run [{}, {}) has {} keys, and the loop's buffers hold flash_BK = {}",
                       run.key, run.key + run.n, run.n, yotta::flash_BK));
}

TEST_CASE("08.9: no key of another piece") {
  const Lists rows = expected_by_row(causal, whole);
  const std::vector<Run> runs = solution.runs(rows, whole, 0, 0, 0, 4, 16, 20);
  for (const Run& run : runs) {
    expect(run.key >= 0, fmt::format("a piece has keys [4, 16), and its runs are {}: negative is "
                                     "what lies before at.first_key",
                                     shown(runs)));
    expect(run.key + run.n <= 12,
           fmt::format("a piece has the keys [4, 16), and its runs are {}: it has 12 keys, and "
                       "at.end_key says where they end",
                       shown(runs)));
  }
}

TEST_CASE("08.9: attention with your masks, lists and runs") {
  const Lists rows = solution.by_row(packed_mask, packed),
              wanted = expected_by_row(packed_right, packed);
  expect(rows.first.size() == wanted.first.size(), difference(rows, wanted, "the columns"));
  const Tensor q = drawn(packed.queries, 1), k = drawn(packed.keys, 2), v = drawn(packed.keys, 3);
  const Attended got = attend(q, k, v, rows);
  const std::vector<double> dense =
      yotta::flex_attention_dense(q, k, v, yotta::Alibi<double>{{packed_slopes}}, packed_right)
          .o.values();
  for (int i = 0; i < static_cast<int>(dense.size()); ++i) {
    const int h = i / head_d % 2, t = i / head_d / 2 % packed.queries,
              b = i / head_d / 2 / packed.queries;
    expect(std::abs(got.o[i] - dense[i]) <= 1e-12,
           fmt::format("sequence {}, head {}, query {}: number {} of the output is {}, dense "
                       "attention gives {}; the mask of head 0 is a window of 9 in documents, of "
                       "head 1 a prefix of {}, and the queries come in pieces of 8",
                       b, h, t, i % head_d, got.o[i], dense[i], packed_prefix));
  }
  const auto [computed, asked] = scores_of(wanted);
  expect(got.computed == computed && got.asked == asked,
         fmt::format("the output is right; {} scores were computed, expected {} (tiles that are "
                     "not empty), and the mask was asked {} times, expected {} (partial tiles)",
                     got.computed, computed, got.asked, asked));
}

TEST_CASE("08.10: the score's gradient has score_mod's slope in it") {
  const double slopes[] = {0.5, 0.25};
  const int d = exercise::size("gradient", 3, 2, 9);
  const auto shares = solution.backward(slopes, d, 0.7, 1, 9, 5);
  expect(
      std::abs(shares.score - d * 2 * 0.7) <= 1e-12,
      fmt::format("score_mod squares the score 0.7 and the gradient of its result is {0}: the "
                  "score gets {1}, expected {0} * 1.4 = {2}{3}",
                  d, shares.score, d * 1.4,
                  shares.score == d ? "; multiply by y.slope, the derivative by the score" : ""));
}

TEST_CASE("08.10: captured numbers get their share") {
  const double slopes[] = {0.5, 0.25};
  const int d = exercise::size("gradient", 3, 2, 9);
  const auto shares = solution.backward(slopes, d, 0.7, 1, 9, 5);
  expect(
      shares.slopes[0] == 0 && std::abs(shares.slopes[1] + 4 * d) <= 1e-12,
      fmt::format("head 1, 4 keys back, gradient {}: the slopes get {} and {}, expected 0 and {}; "
                  "captured->add(y, d) hands them out",
                  d, shares.slopes[0], shares.slopes[1], -4 * d));
}
