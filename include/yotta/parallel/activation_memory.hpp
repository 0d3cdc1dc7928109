// Activation memory of a transformer layer: a formula for the bytes that its Saved holds, by term.
//
//     one layer of GPT-2, plain attention: width h, a heads, b sequences of s tokens;
//     2 bytes per number, 1 byte per number of a mask
//
//     norm 1     x                       2 sbh      norm 2     x                        2 sbh
//     q, k, v    their shared input      2 sbh      up         input                    2 sbh
//     QK'        q, k                    4 sbh      gelu       input (4h wide)          8 sbh
//     softmax    probabilities           2 as^2b    down       input (4h wide)          8 sbh
//     dropout    mask                      as^2b    dropout    mask                       sbh
//                dropped probabilities   2 as^2b
//     PV         v                       2 sbh
//     o          input                   2 sbh
//     dropout    mask                      sbh      together   34 sbh + 5 as^2b = sbh (34 + 5 as/h)
//
// Tensor parallelism over t ranks cuts everything but the norms' and the two products' inputs and
// the last masks (10 of the 34); sequence parallelism cuts those too. Selective recomputation drops
// the as^2b terms, full recomputation all but the layer's input, 2 sbh.
//
// What our layers keep (saved_bytes) differs in two places: the dropped probabilities are made
// again from probabilities and mask (2 as^2b less), and norms keep two numbers per row, mean and
// 1/deviation. In a bf16 model these two are f32, and all else is bf16; in an f32 model all is f32.
//
// Letters are the paper's: s sequence, b microbatch, h width, a heads, L layers, t tensor-parallel
// ranks, p pipeline ranks, m model chunks per rank, v vocabulary.
// Reference: Korthikanti et al. (2022), Reducing Activation Recomputation in Large Transformer
// Models, sections 4, 5 and appendix A (FLOPs).
#pragma once

#include <cstdint>

namespace yotta {

struct ActivationSizes {
  double s = 1, b = 1, h = 1, a = 1;  // sequence, microbatch, width, heads
  double t = 1;                       // tensor-parallel ranks
};

enum class Recomputed : uint8_t { none, attention, all };

// Bytes a layer keeps on each rank, as the paper counts (its table 2). Without sequence parallelism
// full recomputation keeps the whole input on every rank; the paper's last row leaves it whole with
// it, too.
constexpr double activation_bytes_per_layer(const ActivationSizes& z, bool sequence_parallel,
                                            Recomputed what) {
  const double sbh = z.s * z.b * z.h;
  if (what == Recomputed::all) return 2 * sbh;
  const double whole = sequence_parallel ? 10 / z.t : 10;
  const double squares = what == Recomputed::attention ? 0 : 5 * z.a * z.s / (z.h * z.t);
  return sbh * (whole + 24 / z.t + squares);
}

// Bytes of L layers on the first pipeline stage under 1F1B: p microbatches of L / p layers;
// interleaved in m chunks, more.
constexpr double activation_bytes_first_stage(const ActivationSizes& z, bool sequence_parallel,
                                              Recomputed what, double L, double p = 1,
                                              double m = 1) {
  const double interleaved = m > 1 ? 1 + (p - 1) / (p * m) : 1;
  return L * interleaved * activation_bytes_per_layer(z, sequence_parallel, what);
}

// What a rank of tp keeps of the tokens outside attention and MLP: all of them; its own, but all of
// what g has gathered; its own.
enum class TokensKept : uint8_t { all, gathered, own };

// Bytes that a GPT-2 layer of this library keeps: plain attention, dropout in all three places.
// `number` is 4 for f32; with 2, bf16, the terms are the paper's but for 2 as^2b and the norms' 4
// numbers per row, which are f32.
constexpr double saved_bytes(const ActivationSizes& z, Recomputed what, double number,
                             TokensKept tokens = TokensKept::all) {
  const double sbh = z.s * z.b * z.h, squares = z.a * z.s * z.s * z.b, rows = z.s * z.b;
  const double outside = tokens == TokensKept::all ? 1 : 1 / z.t;
  const double gathered = tokens == TokensKept::own ? 1 / z.t : 1;
  if (what == Recomputed::all) return number * sbh * outside;
  const double statistic = number < 4 ? 4 : number;
  const double kept = number * sbh * (2 * outside + 2 * gathered + 12 / z.t) +
                      (statistic * 4 * rows + 2 * sbh) * outside;
  return what == Recomputed::attention ? kept : kept + (number + 1) * squares / z.t;
}

// ---- FLOPs of a step on b sequences (appendix A) ----

// What the model needs: forward and backward of L layers and the logits.
constexpr double model_flops(const ActivationSizes& z, double L, double v) {
  return 72 * z.b * L * z.s * z.h * z.h * (1 + z.s / (6 * z.h) + v / (12 * z.h * L));
}
// What the hardware does with selective recomputation: attention's two products once more.
constexpr double selective_flops(const ActivationSizes& z, double L, double v) {
  return 72 * z.b * L * z.s * z.h * z.h * (1 + z.s / (3 * z.h) + v / (12 * z.h * L));
}

}  // namespace yotta
