// Lesson 08: masks as tiles, what they cost, derivatives of any score_mod, and pages.
#include <chrono>
#include <fstream>
#include <map>

#include "course/lesson/lesson.hpp"
#include "course/pictures/mask_picture.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/flex_core.hpp"
#include "yotta/nn/paged_attention.hpp"

using namespace yotta;

namespace {

struct Options {
  int64_t tile = 64, window = 256, page = 16, measure = 0, draw = 0;
};

int as_int(int64_t x) { return static_cast<int>(x); }

// A sequence of T positions, cut into documents of these lengths, in turn, to its end.
std::vector<int> cut_into(int T, std::vector<int> lengths) {
  std::vector<int> document;
  for (int d = 0; static_cast<int>(document.size()) < T; ++d)
    document.insert(document.end(), lengths[d % lengths.size()], d);
  document.resize(T);
  return document;
}

template <class Mask>
std::vector<std::string> drawn_rows_of(const Mask& mask, int T, int tile) {
  const auto tiles = create_block_mask(mask, {.queries = T, .keys = T, .BQ = tile, .BK = tile});
  std::vector<std::string> rows(tiles.rows(), std::string(tiles.columns(), '.'));
  for (int row = 0; row < tiles.rows(); ++row)
    for (int i = tiles.by_row.first[row]; i < tiles.by_row.first[row + 1]; ++i)
      rows[row][tiles.by_row.at[i]] = tiles.by_row.kind[i] == TileKind::full ? 'f' : 'p';
  return rows;
}

void drawn(Lesson& lesson) {
  const int T = 512, tile = 64;
  const std::vector<int> document = cut_into(T, {150, 200, 162});
  const auto a = drawn_rows_of(Causal{}, T, tile), b = drawn_rows_of(SlidingWindow{129}, T, tile),
             c = drawn_rows_of(and_masks(Causal{}, SameDocument{document.data(), T}), T, tile),
             d = drawn_rows_of(PrefixLm{128}, T, tile);
  lesson.section("512 tokens in tiles of 64 x 64: f full, p partial, . empty");
  lesson.say("{:<12}{:<12}{:<12}{:<12}", "causal", "window 129", "documents", "prefix 128");
  for (int row = 0; row < T / tile; ++row)
    lesson.say("{:<12}{:<12}{:<12}{:<12}", a[row], b[row], c[row], d[row]);
}

// How many scores a mask lets through.
template <class Mask>
int64_t seen_by(const Mask& mask, int T) {
  int64_t seen = 0;
  for (int q = 0; q < T; ++q)
    for (int kv = 0; kv < T; ++kv) seen += mask(0, 0, q, kv) ? 1 : 0;
  return seen;
}

template <class Mask>
void tile_row(Lesson& lesson, const char* name, const Mask& mask, int T, int tile) {
  const auto tiles = create_block_mask(mask, {.queries = T, .keys = T, .BQ = tile, .BK = tile});
  const int64_t computed = computed_scores(tiles), seen = seen_by(mask, T);
  const double causal = static_cast<double>(computed_scores(
      create_block_mask(Causal{}, {.queries = T, .keys = T, .BQ = tile, .BK = tile})));
  lesson.say("{:<22}{:>7}{:>9}{:>11}{:>11}{:>10.2f}", name, count_tiles(tiles),
             count_tiles(tiles, TileKind::partial), computed, seen,
             static_cast<double>(computed) / causal);
  lesson.number(fmt::format("tiles.{}.of_causal", name), static_cast<double>(computed) / causal);
}

void tiles(Lesson& lesson, const Options& options) {
  const int T = 2048, tile = as_int(options.tile), window = as_int(options.window);
  const std::vector<int> document = cut_into(T, {300, 700, 150, 400});
  const SameDocument same{document.data(), T};
  lesson.section(fmt::format("What is computed: {} tokens, tiles of {} x {}", T, tile, tile));
  lesson.say("{:<22}{:>7}{:>9}{:>11}{:>11}{:>10}", "mask", "tiles", "partial", "computed", "seen",
             "of causal");
  tile_row(lesson, "none", NoMask{}, T, tile);
  tile_row(lesson, "causal", Causal{}, T, tile);
  tile_row(lesson, "window", SlidingWindow{window}, T, tile);
  tile_row(lesson, "documents", and_masks(Causal{}, same), T, tile);
  tile_row(lesson, "documents and window", and_masks(same, SlidingWindow{window}), T, tile);
  tile_row(lesson, "prefix of 512", PrefixLm{512}, T, tile);
  tile_row(lesson, "neighbours 64 x 32", Neighbourhood{64, 2}, T, tile);
}

// The ledger of one call, without numbers.
OpCount charged(const Tensor& x, const BlockMask<SlidingWindow>& mask) {
  RankContext self;
  const ContextScope scope(self);
  flex_attention(x, x, x, NoScoreMod{}, mask);
  return self.ledger.op("flex_attention");
}

void work(Lesson& lesson) {
  const int T = 4096, tile = 64;
  const DeviceScope meta(Device::meta);
  const Tensor x = Tensor::empty({1, T, 8, 64}, DType::bf16);
  lesson.section("What is counted: 4096 tokens, 8 heads of 64, bf16, a window");
  lesson.say("{:>8}{:>8}{:>12}{:>12}{:>18}", "window", "tiles", "GFLOP", "MB read", "FLOP a score");
  std::map<int, double> flops;
  std::map<int, int64_t> tiles;
  for (const int window : {128, 256, 512, 1024, 4096}) {
    const auto mask =
        create_block_mask(SlidingWindow{window}, {.queries = T, .keys = T, .BQ = tile, .BK = tile});
    const OpCount count = charged(x, mask);
    lesson.say("{:>8}{:>8}{:>12.2f}{:>12.1f}{:>18.0f}", window, count_tiles(mask),
               1e-9 * count.flops, 1e-6 * count.bytes_read,
               count.flops / 8 / static_cast<double>(computed_scores(mask)));
    lesson.number(fmt::format("work.{}.flops", window), flops[window] = count.flops);
    tiles[window] = count_tiles(mask);
  }
  lesson.say("twice the window, 512 for 256: {} tiles for {}, {:.2f} times the FLOPs", tiles[512],
             tiles[256], flops[512] / flops[256]);
}

void dual(Lesson& lesson) {
  double captured[] = {0.25, 2};  // a slope, a cap
  const auto both = in_turn(Alibi<double>{{captured}}, SoftCap<double>{{captured + 1, 1}});
  const auto f = [&](double score) { return both(score, 0, 0, 7, 4); };
  const auto y = both(Dual<double, 2>::score(1.5), 0, 0, 7, 4);
  const auto by_number = [&](int i) {
    const double h = 1e-6, kept = captured[i];
    captured[i] = kept + h;
    const double above = f(1.5);
    captured[i] = kept - h;
    const double below = f(1.5);
    captured[i] = kept;
    return (above - below) / (2 * h);
  };
  lesson.section("A score of 1.5, three keys back: ALiBi of slope 0.25, then a cap of 2");
  lesson.say("the score becomes    {:.6f}", y.value);
  lesson.say("{:<21}{:>9}{:>21}", "derivative by", "Dual", "finite difference");
  lesson.say("{:<21}{:>9.6f}{:>21.6f}", "the score", y.slope,
             (f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6);
  for (int i = 0; i < 2; ++i)
    lesson.say("{:<21}{:>9.6f}{:>21.6f}", y.index[i] == 0 ? "the slope" : "the cap", y.partial[i],
               by_number(y.index[i]));
}

Tensor drawn_heads(int64_t T, int64_t heads, int64_t d, const char* name) {
  Tensor x = Tensor::empty({1, T, heads, d}, DType::f64);
  const Random random(8, name);
  for (uint64_t i = 0; double& value : x.span<double>()) value = random.normal(i++);
  return x;
}

// ALiBi's slopes, found again by gradient descent from outputs that were made with them.
void slopes(Lesson& lesson) {
  const int64_t T = 48, H = 4;
  const Tensor q = drawn_heads(T, H, 8, "q"), k = drawn_heads(T, H, 8, "k"),
               v = drawn_heads(T, H, 8, "v");
  const auto mask = create_block_mask(Causal{}, {.queries = as_int(T), .keys = as_int(T)});
  std::vector<double> wanted, found(H, 0.0);
  for (int h = 0; h < H; ++h) wanted.push_back(alibi_slope(h, H));
  const Tensor target = flex_attention(q, k, v, Alibi<double>{{wanted.data()}}, mask).o;
  lesson.section("ALiBi's slopes, learned from outputs: no derivative was written");
  lesson.say("{:>6}{:>12}   slopes", "step", "loss");
  for (int step = 0; step <= 50; ++step) {
    const Alibi<double> alibi{{found.data()}};
    const FlashAttention out = flex_attention(q, k, v, alibi, mask);
    Tensor dout = out.o.clone();
    double loss = 0;
    for (size_t i = 0; double& each : dout.span<double>()) {
      each -= target.span<double>()[i++];
      loss += each * each / 2;
    }
    if (step == 0 || step == 5 || step == 20 || step == 50)
      lesson.say("{:>6}{:>12.6f}   {:.4f} {:.4f} {:.4f} {:.4f}", step, loss, found[0], found[1],
                 found[2], found[3]);
    const Tensor d = flex_attention_backward(dout, q, k, v, out, alibi, mask, H).dcaptured;
    for (int h = 0; h < H; ++h) found[h] -= 3e-4 * d.item({h});
  }
  lesson.say("{:>6}{:>12}   {:.4f} {:.4f} {:.4f} {:.4f}", "made", "with", wanted[0], wanted[1],
             wanted[2], wanted[3]);
}

void paged(Lesson& lesson, const Options& options) {
  const std::vector<int> lengths = {37, 5, 64, 18};
  const int page = as_int(options.page), pages = 256 / page;
  PagedCache cache(4, pages, page, 1, 8, DType::f64);
  for (int t = 0; t < 64; ++t)
    for (int b = 0; b < 4; ++b)
      if (t < lengths[b]) {
        const Tensor one = drawn_heads(1, 1, 8, fmt::format("{} {}", b, t).c_str());
        cache.append(b, one.reshape({1, 1, 8}), one.reshape({1, 1, 8}));
      }
  lesson.section(fmt::format("Four texts in one store of {} pages of {} tokens", pages, page));
  for (int b = 0; b < 4; ++b) {
    std::string held;
    for (const int each : cache.held(b)) held += fmt::format(" {}", each);
    lesson.say("text {}: {:>2} tokens, pages{}", b, cache.length(b), held);
  }
  const auto tiles = paged_block_mask(cache, Causal{}, 1);
  const int64_t held = pages_held(lengths, page) * page, padded = padded_slots(lengths);
  lesson.say("tokens {}, slots held {}; a row of the longest for each: {}", 37 + 5 + 64 + 18, held,
             padded);
  lesson.say("a decode step computes {} tiles of {}: {} scores a head, and not {}",
             count_tiles(tiles), page, computed_scores(tiles), padded);
  lesson.number("paged.slots", static_cast<double>(held));
}

// Tokens of three short documents; and how many slots some longer ones take, packed or padded.
void packed(Lesson& lesson) {
  const std::vector<int> short_ones = cut_into(11, {4, 2, 5});
  const Packing row = packing_of(short_ones, 11);
  lesson.section("Packed documents");
  const auto line = [&](const char* name, const std::vector<int32_t>& numbers) {
    std::string text;
    for (const int32_t each : numbers) text += fmt::format("{:>3}", each);
    lesson.say("{:<10}{}", name, text);
  };
  line("place", row.places);
  line("document", row.documents);
  line("position", row.positions);
  const int T = 4096, tile = 64;
  const std::vector<int> documents = cut_into(T, {300, 700, 150, 400});
  const int count = documents.back() + 1, longest = 700;
  const auto tiles = whole_tiles({.document = true}, documents, T);
  const double apart = static_cast<double>(count * causal_tiles(ceil_div(longest, tile)));
  lesson.say("{} documents, padded to the longest: {} slots, {:.0f} tiles", count, count * longest,
             apart);
  lesson.say("packed:                            {:>5} slots,  {} tiles of {} causal ones", T,
             count_tiles(tiles->tiles()), causal_tiles(T / tile));
}

template <class Run>
double seconds_of(Run run) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void measured(Lesson& lesson, const Options& options) {
  const int T = 4096, tile = 64;
  const Tensor q = drawn_heads(T, 1, 64, "q").to(DType::f32),
               k = drawn_heads(T, 1, 64, "k").to(DType::f32),
               v = drawn_heads(T, 1, 64, "v").to(DType::f32);
  lesson.section("Measured here: one head of 64, 4096 tokens");
  lesson.say("{:<22}{:>10}{:>12}{:>14}", "", "ms", "computed", "ns a 1000");
  const std::vector<int> document = cut_into(T, {300, 700, 150, 400});
  const auto row = [&](const char* name, const auto& score_mod, const auto& mask) {
    const auto tiles = create_block_mask(mask, {.queries = T, .keys = T, .BQ = tile, .BK = tile});
    const double seconds = seconds_of([&] { flex_attention(q, k, v, score_mod, tiles); });
    const double scores = static_cast<double>(computed_scores(tiles));
    lesson.say("{:<22}{:>10.2f}{:>12.0f}{:>14.0f}", name, 1e3 * seconds, scores,
               1e12 * seconds / scores);
  };
  const std::vector<float> numbers(1000, 0.1f);
  row("causal", NoScoreMod{}, Causal{});
  row("window", NoScoreMod{}, SlidingWindow{as_int(options.window)});
  row("documents", NoScoreMod{}, and_masks(Causal{}, SameDocument{document.data(), T}));
  row("causal, ALiBi", Alibi<float>{{numbers.data()}}, Causal{});
  row("causal, relative", RelativePositions<float>{{numbers.data()}, 100}, Causal{});
  row("causal, soft cap", SoftCap<float>{{numbers.data()}}, Causal{});
}

void draw(Lesson& lesson) {
  std::ofstream("mask_tiles.svg") << mask_tiles_svg();
  lesson.say("drawn in mask_tiles.svg");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson_without_ranks(
      argc, argv,
      {"08", "Flex attention", "masks and score modifiers as functions, tiles that are skipped"},
      [&](Lesson& lesson) {
        if (options.draw != 0) return draw(lesson);
        drawn(lesson);
        tiles(lesson, options);
        work(lesson);
        dual(lesson);
        slopes(lesson);
        packed(lesson);
        paged(lesson, options);
        if (options.measure != 0) measured(lesson, options);
      },
      {{"tile", "the side of a tile in what is computed", &options.tile, 4, 256},
       {"window", "keys that a query of a window sees", &options.window, 1, 2048},
       {"page", "tokens of a page", &options.page, 1, 64},
       {"measure", "1: measure a few variants on this computer", &options.measure, 0, 1},
       {"draw", "1: write mask_tiles.svg into this folder", &options.draw, 0, 1}});
}
