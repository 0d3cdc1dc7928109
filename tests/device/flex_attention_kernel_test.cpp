// nvcc compiles this file too: on a GPU it tests the same kernels. Here they are checked.
#include "yotta/device/flex_attention_kernel.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

// The lists of a mask's tiles, by row or by column, and how many there are.
struct Lists {
  std::vector<int> first{0}, at;
  std::vector<uint8_t> partial;
};
template <class Mask>
Lists listed(const Mask& mask, const AttentionShape& s, int side_q, int side_kv, bool by_column) {
  Lists lists;
  const int rows = static_cast<int>(tiles_along(s.Tq, side_q)),
            columns = static_cast<int>(tiles_along(s.Tk, side_kv));
  for (int line = 0; line < s.B * (by_column ? columns : rows); ++line) {
    const int b = line / (by_column ? columns : rows), own = line % (by_column ? columns : rows);
    for (int other = 0; other < (by_column ? rows : columns); ++other) {
      const int row = by_column ? other : own, column = by_column ? own : other;
      int seen = 0, all = 0;
      for (int q = row * side_q; q < std::min((row + 1) * side_q, s.Tq); ++q)
        for (int kv = column * side_kv; kv < std::min((column + 1) * side_kv, s.Tk); ++kv, ++all)
          seen += mask(b, 0, q, kv) ? 1 : 0;
      if (seen == 0) continue;
      lists.at.push_back(other);
      lists.partial.push_back(seen < all);
    }
    lists.first.push_back(static_cast<int>(lists.at.size()));
  }
  return lists;
}

// Replaces the problem's results by those under a mask and a score_mod, in double: dS = P (dP - D)
// times the derivative of score_mod.
template <class ScoreMod, class Mask>
void solve(AttentionProblem& x, const ScoreMod& mod, const Mask& mask) {
  const AttentionShape& s = x.shape;
  const double scale = 1 / std::sqrt(static_cast<double>(s.d));
  for (Doubles* each : {&x.o, &x.dq, &x.dk, &x.dv}) std::fill(each->begin(), each->end(), 0);
  Doubles dq_sizes(x.dq.size()), dk_sizes(x.dk.size());
  for (int64_t i = 0; i < s.query_rows(); ++i) {
    const int t = static_cast<int>(i % s.Tq), h = static_cast<int>(i / s.Tq % s.H),
              b = static_cast<int>(i / s.Tq / s.H);
    const int64_t row = s.query_at(b, t, h);
    const auto dot = [&](const Doubles& a, int64_t from, const Doubles& c, int64_t to) {
      double sum = 0;
      for (int j = 0; j < s.d; ++j) sum += a[from + j] * c[to + j];
      return sum;
    };
    std::vector<Dual<double>> score(s.Tk);
    double sum = 0;
    for (int kv = 0; kv < s.Tk; ++kv) {
      score[kv] =
          mod(Dual<double>::score(scale * dot(x.q, row, x.k, s.key_at(b, kv, h / s.group()))), b, h,
              t, kv);
      if (mask(b, h, t, kv)) sum += std::exp(score[kv].value);
    }
    x.L[i] = std::log(sum);
    const auto p = [&](int kv) {
      return mask(b, h, t, kv) ? std::exp(score[kv].value - x.L[i]) : 0;
    };
    for (int kv = 0; kv < s.Tk; ++kv)
      for (int j = 0; j < s.d; ++j) x.o[row + j] += p(kv) * x.v[s.key_at(b, kv, h / s.group()) + j];
    const double D = dot(x.dout, row, x.o, row);
    for (int kv = 0; kv < s.Tk; ++kv) {
      const int64_t key = s.key_at(b, kv, h / s.group());
      const double ds = scale * p(kv) * (dot(x.dout, row, x.v, key) - D) * score[kv].slope;
      for (int j = 0; j < s.d; ++j) {
        x.dq[row + j] += ds * x.k[key + j];
        x.dk[key + j] += ds * x.q[row + j];
        dq_sizes[row + j] += std::abs(ds * x.k[key + j]);
        dk_sizes[key + j] += std::abs(ds * x.q[row + j]);
        x.dv[key + j] += p(kv) * x.dout[row + j];
      }
    }
  }
  x.dq_size = *std::max_element(dq_sizes.begin(), dq_sizes.end());
  x.dk_size = *std::max_element(dk_sizes.begin(), dk_sizes.end());
}

constexpr AttentionShape shape = {.B = 2, .Tq = 70, .Tk = 70, .H = 2, .Hkv = 1, .d = 32};

// What the kernel is told: without a score_mod it has a path of its own.
template <class ScoreMod>
auto for_kernel(const ScoreMod& mod) {
  if constexpr (std::is_same_v<ScoreMod, NoScoreMod>)
    return ScoreAsIs{};
  else
    return mod;
}

// Forward: the numbers, and one kernel's worth of instructions for each tile that is listed.
template <class ScoreMod, class Mask>
void check_forward(const ScoreMod& mod, const Mask& mask) {
  using T = FlashWarps<32, 32, 16, 16>;
  AttentionProblem problem(shape);
  solve(problem, mod, mask);
  const Lists rows = listed(mask, shape, T::BQ, T::BK, false);
  const TileListOnDevice tiles(rows.first, rows.at, rows.partial);
  const int lines = static_cast<int>(tiles_along(shape.Tq, T::BQ));
  const Profile profile;
  check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
    run_flash_attention<T>(x, shape, tiles.asking(mask, shape.B, 1, lines), for_kernel(mod),
                           KeyRows{shape});
  });
  CHECK(profile.instructions("mma_m16n8k16_bf16()") ==
        static_cast<int64_t>(rows.at.size()) * shape.H * mma_of_tile<T>());
}

template <class ScoreMod, class Mask>
void check_gradients(const ScoreMod& mod, const Mask& mask) {
  using T = FlashSquare<32, 32>;
  AttentionProblem problem(shape);
  solve(problem, mod, mask);
  const Lists rows = listed(mask, shape, 32, 32, false),
              columns = listed(mask, shape, 32, 32, true);
  const TileListOnDevice by_row(rows.first, rows.at, rows.partial),
      by_column(columns.first, columns.at, columns.partial);
  check_backward(problem, [&](const auto& x) {
    run_flash_backward<T>(x, shape, SumOrder::fixed, by_column.asking(mask, shape.B, 1, 3),
                          by_row.asking(mask, shape.B, 1, 3), DualScore<ScoreMod>{mod});
  });
}

}  // namespace

TEST_CASE("listed tiles: a window, documents of each sequence, a prefix; with a score_mod") {
  const DeviceArray<float> slopes(std::vector<float>{0.5f, 0.1f}), cap(std::vector<float>{1.5f});
  const Alibi<float> alibi{{slopes.data()}};
  check_forward(NoScoreMod{}, SlidingWindow{20});
  check_forward(alibi, SlidingWindow{20});
  std::vector<int> ids(140);
  for (int i = 0; i < 140; ++i) ids[i] = i < 70 ? i / 30 : i / 50;
  const DeviceArray<int> document(ids);
  const auto packed = and_masks(Causal{}, SameDocument{document.data(), 70});
  check_forward(in_turn(alibi, SoftCap<float>{{cap.data(), 2}}), packed);
  check_forward(NoScoreMod{}, PrefixLm{40});
}

TEST_CASE("backward: dq by row, dk and dv by column, the derivative by a Dual") {
  const DeviceArray<float> cap(std::vector<float>{1.5f});
  check_gradients(SoftCap<float>{{cap.data()}}, SlidingWindow{20});
  check_gradients(
      [](auto score, int, int h, int, int) { return score * score * decltype(score)(0.2 + h); },
      and_masks(Causal{}, PrefixLm{10}));
}

TEST_CASE("keys in pages that lie in any order") {
  using T = FlashWarps<32, 16, 16, 16>;
  constexpr AttentionShape decode = {.B = 2, .Tq = 3, .Tk = 32, .H = 2, .Hkv = 1, .d = 32};
  AttentionProblem problem(decode);
  const std::vector<int> lengths = {29, 11}, table = {5, 0, 3, 7, /* b = 1 */ 2, 6, 0, 0};
  const DeviceArray<int> length(lengths), pages(table);
  // Query q of sequence b is at length - 3 + q; keys are positions.
  const int* const length_of = length.data();
  const auto mask = [length_of](int b, int, int q, int kv) { return kv <= length_of[b] - 3 + q; };
  solve(problem, NoScoreMod{}, mask);
  Doubles k(8 * 8 * 32), v(k.size());  // 8 pages of 8 keys
  for (int b = 0; b < 2; ++b)
    for (int kv = 0; kv < lengths[b]; ++kv)
      for (int j = 0; j < 32; ++j) {
        const int64_t to = (table[4 * b + kv / 8] * 8 + kv % 8) * 32 + j;
        k[to] = problem.k[decode.key_at(b, kv, 0) + j];
        v[to] = problem.v[decode.key_at(b, kv, 0) + j];
      }
  problem.k = k;
  problem.v = v;
  const Lists rows = listed(mask, decode, T::BQ, T::BK, false);
  CHECK(rows.at.size() == 2 + 1);  // 29 keys are two tiles of 16, 11 are one
  const TileListOnDevice tiles(rows.first, rows.at, rows.partial);
  check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
    run_flash_attention<T>(x, decode, tiles.asking(mask, 2, 1, 1), ScoreAsIs{},
                           PagedRows{decode, pages.data(), length_of, 4, 8});
  });
}
