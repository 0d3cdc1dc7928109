// Flex attention against flash attention, whose loops it runs, side by side in one run.
//
// f32. A round measures causal flash attention, then each variant, forward and backward. `as fast`
// is flash attention's time over the variant's; `a score` compares the times divided by the scores
// that are computed: 1 where the time follows the area of the tiles. Tiles are 64 x 64 where
// nothing else is said; smaller ones compute fewer scores that the mask hides. Both are medians
// over the rounds' quotients. With --cpu-time processor time is counted, for one thread, where
// other programs share the machine.
#include <fmt/core.h>

#include <functional>
#include <string>
#include <vector>

#include "../course/options/console.hpp"
#include "attention_options.hpp"
#include "yotta/core/context.hpp"
#include "yotta/nn/flex_attention.hpp"

namespace {

using namespace yotta;
using bench::Json;
using bench::median;

struct Options : bench::AttentionOptions {
  int threads = 1, window = 256;
};

struct Inputs {
  Tensor q, k, v, dout;
};
// One variant, ready to run; causal scores are those that flash attention computes.
struct Variant {
  std::string name;
  double scores;
  std::function<void()> forward, backward;
  std::vector<double> as_fast[2], a_score[2];
};
template <class ScoreMod, class Mask>
Variant variant(const std::string& name, const Inputs& x, const ScoreMod& score_mod,
                const Mask& mask, int64_t captured = 0, int side = 64) {
  const int T = static_cast<int>(x.q.dim(1));
  const auto tiles = create_block_mask(mask, {.queries = T, .keys = T, .BQ = side, .BK = side});
  const FlashAttention out = flex_attention(x.q, x.k, x.v, score_mod, tiles);
  return {name,
          static_cast<double>(computed_scores(tiles)),
          [=] { flex_attention(x.q, x.k, x.v, score_mod, tiles); },
          [=] { flex_attention_backward(x.dout, x.q, x.k, x.v, out, score_mod, tiles, captured); },
          {},
          {}};
}

std::vector<int> documents(int T) {  // of 300, 700, 150 and 400 tokens, in turn
  std::vector<int> document;
  for (int d = 0; static_cast<int>(document.size()) < T; ++d)
    document.insert(document.end(), std::array{300, 700, 150, 400}[d % 4], d);
  return document;
}

std::vector<Variant> variants(const Options& options, const Inputs& x,
                              const std::vector<int>& document, const std::vector<float>& numbers) {
  const auto same = [](auto score, int, int, int, int) { return score; };
  const auto documents =
      and_masks(Causal{}, SameDocument{document.data(), static_cast<int>(options.tokens)});
  const SlidingWindow window{options.window};
  const std::string window_name = fmt::format("window of {}", options.window);
  return {variant("causal", x, NoScoreMod{}, Causal{}),
          variant("causal, no-op score_mod", x, same, Causal{}),
          variant(window_name, x, NoScoreMod{}, window),
          variant(window_name + ", tiles of 32", x, NoScoreMod{}, window, 0, 32),
          variant("documents", x, NoScoreMod{}, documents),
          variant("documents, tiles of 32", x, NoScoreMod{}, documents, 0, 32),
          variant("causal, ALiBi", x, Alibi<float>{{numbers.data()}}, Causal{}, 256),
          variant("causal, relative positions", x,
                  RelativePositions<float>{{numbers.data()}, 63 / static_cast<int>(options.heads)},
                  Causal{}, 256),
          variant("causal, soft cap", x, SoftCap<float>{{numbers.data()}}, Causal{}, 256)};
}

int run(const Options& options) {
  context().threads = options.threads;
  const auto input = [&](const char* name) { return bench::attention_input(options, name); };
  const Inputs x{input("q"), input("k"), input("v"), input("dout")};
  const std::vector<int> document = documents(static_cast<int>(options.tokens));
  const std::vector<float> numbers(256, 0.1f);
  std::vector<Variant> all = variants(options, x, document, numbers);
  const FlashAttention out = flash_attention(x.q, x.k, x.v);
  for (int round = 0; round <= options.rounds; ++round) {  // the first warms up
    const double flash[] = {
        bench::seconds_of(options.cpu_time, [&] { flash_attention(x.q, x.k, x.v); }),
        bench::seconds_of(options.cpu_time,
                          [&] { flash_attention_backward(x.dout, x.q, x.k, x.v, out); })};
    for (Variant& each : all)
      for (int pass = 0; pass < 2; ++pass) {
        const double seconds =
            bench::seconds_of(options.cpu_time, pass == 0 ? each.forward : each.backward);
        if (round == 0) continue;
        each.as_fast[pass].push_back(flash[pass] / seconds);
        each.a_score[pass].push_back(seconds / flash[pass] * all[0].scores / each.scores);
      }
  }
  fmt::print("{} tokens, {} heads of {}, f32, {} threads; flash attention, causal: 1\n",
             options.tokens, options.heads, options.d, options.threads);
  console::Table table({"variant", "pass", "as fast", "a score"});
  Json report = {{"benchmark", "flex"}, {"rows", Json::array()}};
  for (const Variant& each : all)
    for (int pass = 0; pass < 2; ++pass) {
      const double as_fast = median(each.as_fast[pass]), a_score = median(each.a_score[pass]);
      const char* const name = pass == 0 ? "forward" : "backward";
      table.row({each.name, name, fmt::format("{:.2f}", as_fast), fmt::format("{:.2f}", a_score)});
      report["rows"].push_back({{"variant", each.name},
                                {"pass", name},
                                {"as_fast", as_fast},
                                {"time_a_score", a_score}});
    }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Flex attention's variants against flash attention"};
  Options options;
  options.heads = 2;
  bench::add_attention_options(app, options);
  app.add_option("--threads", options.threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--window", options.window, "keys of the window")->check(CLI::Range(1, 1 << 16));
  return bench::run_benchmark(app, argc, argv, [&] {
    make_quick(options);
    return run(options);
  });
}
