#include <algorithm>

#include "course/book/figures/figure.hpp"
#include "yotta/parallel/ring_attention.hpp"

namespace book {
namespace {

// In half blocks of a chunk of queries and one of keys: 2 if all is seen, 1 on the diagonal.
double seen(int64_t queries, int64_t keys) { return queries > keys ? 2 : queries == keys ? 1 : 0; }

Data data(const std::vector<double>& at) {
  const int ranks = static_cast<int>(at[0]);
  const auto order = at[1] > 0 ? yotta::ChunkOrder::contiguous : yotta::ChunkOrder::zigzag;
  const int step = std::min(static_cast<int>(at[2]), ranks - 1);
  const int64_t each = yotta::chunks_each(ranks);
  Row work{"work"}, blocks{"blocks"};  // of each rank and step; row, column, rank, step of a block
  double all = 0, longest = 0;
  for (int s = 0; s < ranks; ++s) {
    double most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      double sum = 0;
      for (int64_t i = 0; i < each; ++i)
        for (int64_t j = 0; j < each; ++j) {
          const int64_t queries = yotta::chunk_of(ranks, rank, i, order);
          const int64_t keys = yotta::chunk_of(ranks, yotta::wrap(rank - s, ranks), j, order);
          const double part = seen(queries, keys);
          sum += part;
          if (part > 0)
            blocks.values.insert(blocks.values.end(),
                                 {double(queries), double(keys), double(rank), double(s), part});
        }
      work.values.push_back(sum);
      most = std::max(most, sum);
      all += sum;
    }
    longest += most;
  }
  Data made;
  made.numbers = {{"ranks are busy", "%", 100 * all / (longest * ranks)},
                  {"the last rank computes", "scores of 64 x 64",
                   double(yotta::ring_twice_seen(ranks, ranks - 1, 64, order)) / 2, 6},
                  {"the first rank computes", "scores of 64 x 64",
                   double(yotta::ring_twice_seen(ranks, 0, 64, order)) / 2, 6},
                  {"messages of a rank", "", double(yotta::ring_messages(ranks)), 6}};
  made.rows = {{"sizes", {at[0], double(each), double(step)}, {}}, work, blocks};
  made.code = fmt::format(
      "for (const int rank : {{0, {0} - 1}})\n"
      "  fmt::print(\"rank {{}}: {{}} scores\\n\", rank,\n"
      "             yotta::ring_twice_seen({0}, rank, 64, yotta::ChunkOrder::{1}) / 2);",
      ranks, at[1] > 0 ? "contiguous" : "zigzag");
  return made;
}

}  // namespace

Figure ring_figure() {
  return {"23_ring",
          "Keys travel around a ring and queries stay. Step by step the triangle fills: who waits "
          "if each rank has a piece in a row, and who with zigzag?",
          {{"cp, ranks", "", {2, 4, 8}, 1},
           choice("chunks of a rank", {"zigzag", "in a row"}, 1),
           {"step", "", counted(0, 7), 1}},
          data};
}

}  // namespace book
