// Lesson 07: what attention moves, the online softmax, tiles under a mask, backward, and parts.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/flash_picture.hpp"
#include "ladder.hpp"
#include "yotta/machine/chip.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/flash_decoding.hpp"

using namespace yotta;

namespace {

struct Options {
  int64_t tokens = 8192, keys = 16, kernels = 0, draw = 0;
};

double mega(double bytes) { return bytes * 1e-6; }

// One head of 128 numbers in bf16, every query sees every key.
void moved(Lesson& lesson) {
  lesson.section("One head of d = 128 in bf16: what forward moves, and what an H100 would need");
  const Chip& h100 = chip_named("h100");
  lesson.say("{:>6} {:>9} {:>12} {:>12} {:>12} {:>14} {:>33}", "tokens", "GFLOPs", "plain moves",
             "FLOPs a byte", "flash moves", "FLOPs a byte", "plain: memory over compute time");
  for (const int64_t T : {1024, 4096, 16384}) {
    const OpCost plain = attention_plain_cost(DType::bf16, {1, T, 1, 1, 128});
    const double bytes = plain.bytes_read + plain.bytes_written;
    const double flash = 2 * static_cast<double>(flash_numbers_moved(T, 128, 128));
    const double waits = bytes / h100.bandwidth / (plain.flops / h100.bf16);
    lesson.say("{:>6} {:>9.1f} {:>9.1f} MB {:>12.0f} {:>9.1f} MB {:>14.0f} {:>32.1f}x", T,
               plain.flops * 1e-9, mega(bytes), plain.flops / bytes, mega(flash),
               plain.flops / flash, waits);
    lesson.number(fmt::format("plain_bytes.{}", T), bytes);
  }
}

void kept(Lesson& lesson) {
  lesson.section("What is kept for backward beside q, k, v and o: 32 heads, bf16");
  lesson.say("{:>6} {:>16} {:>16}", "tokens", "plain: P", "flash: L");
  for (const int64_t T : {1024, 4096, 16384}) {
    const DeviceScope meta(Device::meta);
    const Tensor q = Tensor::empty({1, T, 32, 128}, DType::bf16);
    const double P = static_cast<double>(attention_plain(q, q, q).probabilities.nbytes());
    const double L = static_cast<double>(flash_attention(q, q, q).log_sum_exp.nbytes());
    lesson.say("{:>6} {:>13.1f} MB {:>13.3f} MB", T, mega(P), mega(L));
    lesson.number(fmt::format("kept.{}", T), L);
  }
}

// o of one query, two keys at a time; `right`: what was summed is rescaled when m moves.
double attend(const std::vector<double>& scores, bool right) {
  OnlineSums<double> sums;
  double o = 0, left_alone = 0, all = 0;
  for (size_t j = 0; j < scores.size(); j += 2) {
    std::vector<double> two(scores.begin() + static_cast<int64_t>(j),
                            scores.begin() + static_cast<int64_t>(j) + 2);
    online_softmax_row(two.data(), 2, 1.0, sums, &o, 1);
    for (size_t i = 0; i < 2; ++i) {
      o += two[i] * static_cast<double>(10 * (j + i + 1));
      left_alone += two[i] * static_cast<double>(10 * (j + i + 1));
      all += two[i];
    }
  }
  return right ? o / sums.l : left_alone / all;
}

void online(Lesson& lesson) {
  lesson.section("Online softmax of six keys, two at a time; their values are 10, 20, ..., 60");
  lesson.say("{:<34} {:>9} {:>11} {:>12}", "scores", "at once", "online", "not rescaled");
  for (const auto& [name, scores] :
       {std::pair{"falling: 6 5 4 3 2 1", std::vector<double>{6, 5, 4, 3, 2, 1}},
        {"rising: 1 2 3 4 5 6", {1, 2, 3, 4, 5, 6}},
        {"large: 9995 to 10000", {9995, 9996, 9997, 9998, 9999, 10000}}}) {
    double sum = 0, o = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      sum += std::exp(scores[j]);
      o += std::exp(scores[j]) * static_cast<double>(10 * (j + 1));
    }
    lesson.say("{:<34} {:>9} {:>11.4f} {:>12.4f}", name,
               std::isnan(o / sum) ? "inf / inf" : fmt::format("{:.4f}", o / sum),
               attend(scores, true), attend(scores, false));
  }
}

void tiles(Lesson& lesson, const Options& options) {
  lesson.section("Tiles under a causal mask: 64 queries by 256 keys, cut at the diagonal");
  lesson.say("{:>6} {:>8} {:>16} {:>20} {:>22}", "tokens", "runs", "scores computed", "of all T^2",
             "with the mask asked");
  for (const int64_t T : {64, 256, 1024, 4096, 16384}) {
    const ComputedScores count = computed_scores(T);
    const double all = static_cast<double>(T * T);
    lesson.say("{:>6} {:>8} {:>16} {:>19.1f}% {:>21.1f}%", T, count.runs, count.computed,
               100 * static_cast<double>(count.computed) / all,
               100 * static_cast<double>(count.asked) / all);
    lesson.number(fmt::format("computed.{}", T), static_cast<double>(count.computed) / all);
  }
  if (options.draw == 0) return;
  std::ofstream("flash_attention.svg") << flash_attention_svg();
  std::ofstream("flash_bytes.svg") << flash_bytes_svg(count_traffic());
  lesson.say("drawn: flash_attention.svg and flash_bytes.svg in {}",
             std::filesystem::current_path().string());
}

// Of a tile of BQ queries, k and v of `keys` keys, the scores between them, and o.
void tile_size(Lesson& lesson, const Options& options) {
  const int64_t T = options.tokens, d = 128;
  lesson.section(
      fmt::format("Bytes against the tile: {} tokens, d = {}, bf16, all keys seen", T, d));
  lesson.say("{:>6} {:>14} {:>12} {:>14} {:>18}", "BQ", "fast memory", "moved", "FLOPs a byte",
             "moved x memory");
  for (const int64_t BQ : {16, 32, 64, 128, 256}) {
    const double fast =
        2 * static_cast<double>((2 * BQ + 2 * options.keys) * d + BQ * options.keys);
    const double bytes = 2 * static_cast<double>(flash_numbers_moved(T, d, BQ));
    const double flops = 4 * static_cast<double>(T * T * d);
    lesson.say("{:>6} {:>11.1f} kB {:>9.1f} MB {:>14.1f} {:>14.2f} MB^2", BQ, fast * 1e-3,
               mega(bytes), flops / bytes, mega(fast) * mega(bytes));
    lesson.number(fmt::format("moved.{}", BQ), bytes);
  }
}

void backward_flops(Lesson& lesson) {
  lesson.section("FLOPs of one head, counted: 4096 tokens, d = 64, causal");
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Tensor q = Tensor::empty({1, 4096, 1, 64});
  attention_plain_backward(q, q, q, q, attention_plain(q, q, q));
  flash_attention_backward(q, q, q, q, flash_attention(q, q, q));
  for (const char* op : {"attention_plain", "attention_plain_backward", "flash_attention",
                         "flash_attention_backward"})
    lesson.say("{:<26} {:>6.2f} GFLOPs {:>12.1f} MB read and written", op,
               rank.ledger.op(op).flops * 1e-9,
               mega(rank.ledger.op(op).bytes_read + rank.ledger.op(op).bytes_written));
}

void parts(Lesson& lesson) {
  lesson.section("Four keys in two parts: scores 1, 3 and 2, 4, values 10, 20 and 30, 40");
  const auto part = [](std::vector<double> scores, double first, double second, double& L) {
    OnlineSums<double> sums;
    double o = 0;
    online_softmax_row(scores.data(), 2, 1.0, sums, &o, 1);
    o += scores[0] * first + scores[1] * second;
    L = sums.m + std::log(sums.l);
    return o / sums.l;
  };
  double La, Lb;
  const double a = part({1, 3}, 10, 20, La), b = part({2, 4}, 30, 40, Lb);
  const MergeWeights<double> w = merge_weights(La, Lb);
  lesson.say("first part:   o {:.3f}  L {:.3f}  weighs {:.3f}", a, La, w.first);
  lesson.say("second part:  o {:.3f}  L {:.3f}  weighs {:.3f}", b, Lb, w.second);
  lesson.say("merged:       o {:.3f}  L {:.3f}", w.first * a + w.second * b, w.log_sum_exp);
}

// One new token against a cache: Llama 3 70B's heads, 80 layers.
void decode(Lesson& lesson, const Options& options) {
  const int64_t H = 64, d = 128, layers = 80, T = options.tokens;
  lesson.section(fmt::format("One step of decoding: {} heads of {}, {} layers, {} tokens, bf16", H,
                             d, layers, T));
  const Chip& h100 = chip_named("h100");
  lesson.say("{:<14} {:>5} {:>16} {:>14} {:>28}", "", "Hkv", "cache a sequence", "FLOPs a byte",
             "sequences on 80 GB, at most");
  for (const auto& [name, Hkv] :
       {std::pair{"multi-head", H}, {"grouped", int64_t{8}}, {"multi-query", int64_t{1}}}) {
    const double bytes = static_cast<double>(layers * cache_bytes(DType::bf16, T, Hkv, d));
    const OpCost cost = flash_decode_cost(DType::bf16, {1, T, H, Hkv, d}, 1);
    lesson.say("{:<14} {:>5} {:>13.3f} GB {:>14.1f} {:>28.0f}", name, Hkv, bytes * 1e-9,
               cost.flops / (cost.bytes_read + cost.bytes_written),
               std::floor(h100.memory / bytes));
    lesson.number(fmt::format("cache.{}", Hkv), bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson_without_ranks(
      argc, argv,
      {"07", "Flash attention", "exact attention, tile by tile, without the T x T matrix"},
      [&](Lesson& lesson) {
        if (options.kernels == 1) return count_kernels(lesson);
        moved(lesson);
        kept(lesson);
        online(lesson);
        tiles(lesson, options);
        backward_flops(lesson);
        tile_size(lesson, options);
        parts(lesson);
        decode(lesson, options);
        lesson.say("\nNext: write it yourself, ./yotta check 07");
      },
      {{"tokens", "of the tables by tile and of decoding", &options.tokens, 1, 1 << 20},
       {"keys", "in a tile, of the table by tile", &options.keys, 1, 4096},
       {"kernels", "1: run the CUDA kernels in the emulator, and count", &options.kernels, 0, 1},
       {"draw", "1: write the pictures into this folder", &options.draw, 0, 1}});
}
