#include "course/pictures/ulysses_picture.hpp"

#include "course/pictures/svg.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::rank_colors;
using svg::text;

constexpr int ranks = 4;
constexpr int64_t T = 8, H = 4;
constexpr double side = 34, top = 116, lefts[] = {72, 382, 692};

// x (1, T, H, 1): every number names its token and its head.
Tensor labelled() {
  Tensor x = Tensor::empty({1, T, H, 1}, DType::f64);
  for (int64_t i = 0; i < T * H; ++i) x.data<double>()[i] = static_cast<double>(i);
  return x;
}

void mark(const Tensor& held, int rank, Holders& holders) {
  for (const double label : held.values()) {
    const auto at = static_cast<size_t>(label);
    holders[at / H][at % H] = rank;
  }
}

std::string grid(const Holders& holders, double left, const char* title, const char* below) {
  const double middle = left + side * H / 2, bottom = top + side * T;
  std::string svg = text(middle, top - 38, title, "middle", ink, 13, true);
  for (int64_t head = 0; head < H; ++head)
    svg += text(left + side * (static_cast<double>(head) + 0.5), top - 8, fmt::format("h{}", head),
                "middle", ink, 11);
  for (int64_t token = 0; token < T; ++token) {
    const double y = top + side * static_cast<double>(token);
    svg += text(left - 8, y + 21, fmt::format("t{}", token), "end", ink, 11);
    for (int64_t head = 0; head < H; ++head) {
      const int rank = holders[static_cast<size_t>(token)][static_cast<size_t>(head)];
      const double x = left + side * static_cast<double>(head);
      svg += box(x, y, side, side, rank_colors[rank], "#fff") +
             text(x + side / 2, y + 21, std::to_string(rank), "middle");
    }
  }
  return svg + text(middle, bottom + 20, below, "middle");
}

std::string exchange(double left, const char* what) {
  const double from = left + side * H + 14, to = from + 118, y = top + side * T / 2;
  return arrow(from, y, to, y, true) +
         text((from + to) / 2, y - 28, "all_to_all", "middle", svg::lit, 13, true) +
         text((from + to) / 2, y - 12, what, "middle");
}

}  // namespace

std::vector<Holders> ulysses_holders() {
  const Holders nobody(T, std::vector<int>(H, -1));
  std::vector<Holders> all(3, nobody);
  run_ranks(ranks, [&](Communicator& cp) {
    const Tensor before = context_shard(labelled(), cp), during = to_heads(before, cp),
                 after = to_tokens(during, cp);
    mark(before, cp.rank(), all[0]);  // ranks mark different numbers
    mark(during, cp.rank(), all[1]);
    mark(after, cp.rank(), all[2]);
  });
  return all;
}

std::string ulysses_svg() {
  const char* const title = "Tokens for heads, and back";
  const std::vector<Holders> holders = ulysses_holders();
  std::string svg = svg::paper(900, 460, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg += text(
      20, 48,
      fmt::format("{} ranks, {} tokens (t) in zig-zag order, {} heads (h). Of each array a rank "
                  "keeps a quarter of its part and sends the rest.",
                  ranks, T, H));
  svg += grid(holders[0], lefts[0], "before attention", "all heads of some tokens");
  svg += exchange(lefts[0], "q, k, v");
  svg += grid(holders[1], lefts[1], "attention", "all tokens of some heads");
  svg += exchange(lefts[1], "o");
  svg += grid(holders[2], lefts[2], "after attention", "all heads of some tokens");
  svg += svg::rank_legend(72, 436, ranks);
  return svg + text(440, 436, "number: the rank that holds this head of this token") + "</svg>\n";
}

}  // namespace yotta
