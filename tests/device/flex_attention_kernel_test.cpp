// nvcc compiles this file too: on a GPU it tests the same kernels. Here they are checked.
#include "yotta/device/flex_attention_kernel.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"
#include "yotta/nn/cuda/block_mask_on_device.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/profile.hpp"
#endif

using namespace yotta;

namespace {

// A mask or a score_mod as the host calls it, and as the kernels do: each reads its own memory.
template <class Function>
struct Sides {
  Function host, device;
};
template <class Function>
Sides<Function> as_it_is(const Function& function) {
  return {function, function};
}
// Numbers that a mask or a score_mod reads, in both memories.
template <class Number>
struct Copies {
  std::vector<Number> host;
  DeviceArray<Number> device{host};
  template <class Make>
  auto read_by(Make make) const {
    return Sides<decltype(make(host.data()))>{make(host.data()), make(device.data())};
  }
};

// Replaces the problem's results by those under a mask and a score_mod, in double: dS = P (dP - D)
// times the derivative of score_mod.
template <class ScoreMod, class Mask>
void solve(AttentionProblem& x, const ScoreMod& mod, const Mask& mask) {
  const AttentionShape& s = x.shape;
  const double scale = 1 / std::sqrt(static_cast<double>(s.d));
  for (Doubles* each : {&x.o, &x.dq, &x.dk, &x.dv}) std::fill(each->begin(), each->end(), 0);
  Doubles dq_sizes(x.dq.size()), dk_sizes(x.dk.size()), dv_sizes(x.dv.size());
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
        dv_sizes[key + j] += std::abs(p(kv) * x.dout[row + j]);
      }
    }
  }
  x.dq_size = *std::max_element(dq_sizes.begin(), dq_sizes.end());
  x.dk_size = *std::max_element(dk_sizes.begin(), dk_sizes.end());
  x.dv_size = *std::max_element(dv_sizes.begin(), dv_sizes.end());
}

constexpr AttentionShape shape = {.B = 2, .Tq = 70, .Tk = 70, .H = 2, .Hkv = 1, .d = 32};

// The tiles of a kernel's own size. The mask may differ from sequence to sequence, not by heads.
template <class T, class Mask>
BlockMask<Mask> tiles_for(const Mask& mask, const AttentionShape& s) {
  return create_block_mask(mask, {.B = s.B,
                                  .queries = s.Tq,
                                  .keys = s.Tk,
                                  .BQ = queries_of_tile<T>(),
                                  .BK = keys_of_tile<T>()});
}

// What the kernel is told: without a score_mod it has a path of its own.
template <class ScoreMod>
auto for_kernel(const ScoreMod& mod) {
  if constexpr (std::is_same_v<ScoreMod, NoScoreMod>)
    return ScoreAsIs{};
  else
    return mod;
}

// Calls run(), which launches a kernel. In the emulator it multiplies each tile that is listed
// once, and nothing else.
template <class T, class Run>
void check_tiles([[maybe_unused]] int64_t tiles, Run run) {
#if defined(__CUDACC__)
  run();
#else
  const Profile profile;
  run();
  CHECK(profile.instructions("mma_m16n8k16_bf16()") == tiles * mma_of_tile<T>());
#endif
}

template <int d = 32, class ScoreMod, class Mask>
void check_forward(const Sides<ScoreMod>& mod, const Sides<Mask>& mask) {
  using T = FlashWarps<d, 32, 16, 16>;
  AttentionShape s = shape;
  s.d = d;
  AttentionProblem problem(s);
  solve(problem, mod.host, mask.host);
  const auto tiles = tiles_for<T>(mask.host, s);
  const BlockMaskOnDevice<T> there(tiles, s);
  check_tiles<T>(count_tiles(tiles) * s.H, [&] {
    check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
      run_flash_attention<T>(x, s, there.by_row(mask.device), for_kernel(mod.device), KeyRows{s});
    });
  });
}

template <int d = 32, class ScoreMod, class Mask>
void check_gradients(const Sides<ScoreMod>& mod, const Sides<Mask>& mask) {
  using T = FlashSquare<d, 32>;
  AttentionShape s = shape;
  s.d = d;
  AttentionProblem problem(s);
  solve(problem, mod.host, mask.host);
  const BlockMaskOnDevice<T> there(tiles_for<T>(mask.host, s), s);
  check_backward(problem, [&](const auto& x) {
    run_flash_backward<T>(x, s, SumOrder::fixed, there.by_column(mask.device),
                          there.by_row(mask.device), DualScore<ScoreMod>{mod.device});
  });
}

const auto no_mod = as_it_is(NoScoreMod{});
const auto window = as_it_is(SlidingWindow{20});

// Slopes of ALiBi for two heads, and a cap.
Copies<float> bends() { return {{0.5f, 0.1f, 1.5f}}; }
Alibi<float> alibi_of(const float* bends) { return {{bends}}; }

// Documents of 30, 30 and 10 tokens, then of 30, 50 and so on: each sequence has its own.
Copies<int> documents() {
  std::vector<int> ids(140);
  for (int i = 0; i < 140; ++i) ids[i] = i < 70 ? i / 30 : i / 50;
  return {ids};
}
constexpr auto causal_documents = [](const int* document) {
  return and_masks(Causal{}, SameDocument{document, 70});
};

// A score_mod without a name in the library; of head h.
struct SquareByHead {
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int, int h, int, int) const {
    return score * score * Score(0.2 + h);
  }
};

// Query q of sequence b is at length - 3 + q; keys are positions.
struct LastThree {
  const int* length;
  YOTTA_HOST_DEVICE bool operator()(int b, int, int q, int kv) const {
    return kv <= length[b] - 3 + q;
  }
};

}  // namespace

TEST_CASE("listed tiles: a window, documents of each sequence, a prefix; with a score_mod") {
  const auto numbers = bends();
  const auto alibi = numbers.read_by(alibi_of);
  check_forward(no_mod, window);
  check_forward(alibi, window);
  const auto ids = documents();
  const auto capped = numbers.read_by([](const float* x) {
    return in_turn(alibi_of(x), SoftCap<float>{{x + 2, 2}});
  });
  check_forward(capped, ids.read_by(causal_documents));
  check_forward(no_mod, as_it_is(PrefixLm{40}));
}

TEST_CASE("listed tiles: a tree, a neighbourhood, either of two masks; relative positions") {
  std::vector<int> last(70);  // nodes in preorder: 0 has all, its children 10 each
  for (int i = 0; i < 70; ++i) last[i] = i == 0 ? 69 : i % 10 == 1 ? std::min(i + 9, 69) : i;
  const Copies<int> tree{last};
  check_forward(no_mod, tree.read_by([](const int* x) { return TreePath{x}; }));
  check_forward(no_mod, as_it_is(Neighbourhood{10, 2}));
  check_forward(no_mod, as_it_is(or_masks(SlidingWindow{9}, Neighbourhood{7, 1})));
  std::vector<float> table(2 * 9);
  for (size_t i = 0; i < table.size(); ++i) table[i] = 0.3f * static_cast<float>(i % 5) - 0.5f;
  const Copies<float> by_distance{table};
  check_forward(by_distance.read_by([](const float* x) {
    return RelativePositions<float>{{x}, 4};
  }),
                window);
}

TEST_CASE("heads of 64 numbers, forward and backward") {
  const auto ids = documents();
  check_forward<64>(no_mod, ids.read_by(causal_documents));
  check_gradients<64>(no_mod, ids.read_by(causal_documents));
}

TEST_CASE("backward: dq by row, dk and dv by column, the derivative by a Dual") {
  const auto numbers = bends();
  check_gradients(numbers.read_by([](const float* x) { return SoftCap<float>{{x + 2}}; }), window);
  check_gradients(as_it_is(SquareByHead{}), as_it_is(and_masks(Causal{}, PrefixLm{10})));
}

TEST_CASE("backward: ALiBi on the documents of each sequence") {
  const auto numbers = bends();
  const auto ids = documents();
  check_gradients(numbers.read_by(alibi_of), ids.read_by(causal_documents));
}

TEST_CASE("keys in pages that lie in any order") {
  using T = FlashWarps<32, 16, 16, 16>;
  constexpr AttentionShape decode = {.B = 2, .Tq = 3, .Tk = 32, .H = 2, .Hkv = 1, .d = 32};
  AttentionProblem problem(decode);
  const Copies<int> lengths{{29, 11}}, table{{5, 0, 3, 7, /* b = 1 */ 2, 6, 0, 0}};
  const auto mask = lengths.read_by([](const int* x) { return LastThree{x}; });
  solve(problem, NoScoreMod{}, mask.host);
  Doubles k(8 * 8 * 32), v(k.size());  // 8 pages of 8 keys
  for (int b = 0; b < 2; ++b)
    for (int kv = 0; kv < lengths.host[b]; ++kv)
      for (int j = 0; j < 32; ++j) {
        const int64_t to = (table.host[4 * b + kv / 8] * 8 + kv % 8) * 32 + j;
        k[to] = problem.k[decode.key_at(b, kv, 0) + j];
        v[to] = problem.v[decode.key_at(b, kv, 0) + j];
      }
  problem.k = k;
  problem.v = v;
  const auto tiles = tiles_for<T>(mask.host, decode);
  CHECK(count_tiles(tiles) == 2 + 1);  // 29 keys are two tiles of 16, 11 are one
  const BlockMaskOnDevice<T> there(tiles, decode);
  check_attention<bfloat16, float>(problem, 0x1p-9, [&](const auto& x) {
    run_flash_attention<T>(x, decode, there.by_row(mask.device), ScoreAsIs{},
                           PagedRows{decode, table.device.data(), lengths.device.data(), 4, 8});
  });
}
