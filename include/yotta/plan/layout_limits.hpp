// Layout limits: by hand, what a layout holds, how many chips it can feed, how long a run takes.
//
//     a GPU holds        weights     2 N / (tp pp)              bf16
//                        gradients   4 N / (tp pp)              f32
//                        optimizer  12 N / (tp pp)              f32: the weights and two moments
//                        activations of the first stage, for each microbatch in flight
//     fsdp               divides the first three, and ZeRO-1 the third alone
//
//     limits             p chips share B tokens
//     of the batch       a chip has a sequence of its own         B / p >= T
//     of communication   FSDP's trips hide behind computing       B / p >= P / W
//
//     p is above              B W / P no          B W / P yes
//       B / T no              neither limit       the communication limit
//       B / T yes             the batch limit     both
//
//     more axes               p <= tp cp B / T     p <= tp pp B W / P
//
// tp chips share sequences and weights alike. cp chips share a sequence; each still needs all
// weights. A pipeline needs pp sequences at once, one per stage; each of its chips gathers 1/pp of
// the weights. So cp moves the first limit, pp the second, tp both. In a node of GPUs tp moves the
// first alone: its chips gather different arrays over the cards of one node, so W falls with tp.
//
// A message has a latency too. An all_gather over p ranks hides behind n tokens of a chip if
// alpha log2 p <= (n / P - beta) bytes: there are 2 FLOPs for each 2 bytes and token.
//
// Contract: overlap is perfect and kernels reach the peak, so each limit is the largest there can
// be. A pipeline has pp microbatches at the limit, so its bubble is nearly half of a step. FSDP
// keeps what it has gathered until the last microbatch. Sizes, batches and rates are more than 0.
// Letters: N parameters, p chips, B tokens of a batch, T of a sequence, P FLOP/s of a chip, W
// bytes/s that a chip sends.
// References: Austin et al. (2025), "How to scale your model", on training; planner.hpp has the
// same by the cost of every operation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/sharding/torus_times.hpp"

namespace yotta {

// ---- what a layout holds ----

struct HandLayout {
  MeshShape shape = {};     // tp is with sequence parallelism
  int64_t batch = 1;        // sequences, over all ranks
  int64_t sequence = 1;     // T
  int64_t microbatch = 1;   // sequences
  int chunks = 1;           // stages of a rank; with more than one the schedule is interleaved
  bool zero = false;        // ZeRO-1: optimizer state is cut over cp and dp
  bool recomputed = false;  // blocks keep their input alone
};

// Of each data-parallel rank.
constexpr int64_t microbatches(const HandLayout& l) {
  return l.batch / l.shape.data_ranks() / l.microbatch;
}

struct HandMemory {  // bytes of a chip
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;

  constexpr double states() const { return weights + gradients + optimizer; }
  constexpr double bytes() const { return states() + activations; }
};

// What stays from step to step, in bf16 with f32 gradients and AdamW. tp and pp cut it. FSDP, which
// is on where dp_shard is above 1, cuts all of it over cp and dp_shard; ZeRO-1 cuts the optimizer
// state over what is left of cp and dp_replicate. The ends of a pipeline hold a table more than
// this mean.
constexpr HandMemory states_by_hand(const CountedModel& m, const HandLayout& l) {
  HandMemory held;
  const MeshShape& shape = l.shape;
  const double own = all_weights(m) / (shape.tp * shape.pp);
  const bool fsdp = shape.dp_shard > 1;
  const double shards = fsdp ? shape.cp * shape.dp_shard : 1;
  const double zero = l.zero ? shape.dp_replicate * (fsdp ? 1 : shape.cp) : 1;
  held.weights = 2 * own / shards;
  held.gradients = 4 * own / shards;
  held.optimizer = 12 * own / shards / zero;
  return held;
}

// Bytes that a block keeps of a token for backward, in bf16 with blockwise attention: inputs and
// what norms make of them, q and o, k and v, and what stands between the matrices of feed-forward.
constexpr double kept_bytes(const CountedModel& m) {
  return 2.0 * static_cast<double>(4 * m.width +
                                   (m.query_size() + m.value_size()) * (m.heads + m.kv_heads) +
                                   (m.active + m.shared) * m.matrices * m.feed_forward);
}

// Of the first stage, whose microbatches wait longest for their backward pass. Where layers do not
// divide, a stage counts with its mean: of 3 layers on 2 stages 1.5.
constexpr double activations_by_hand(const CountedModel& m, const HandLayout& l) {
  const MeshShape& shape = l.shape;
  const auto tokens = static_cast<double>(l.microbatch * l.sequence) / (shape.cp * shape.tp);
  const double block = tokens * (l.recomputed ? 2.0 * static_cast<double>(m.width) : kept_bytes(m));
  const double blocks = static_cast<double>(m.layers) / (shape.pp * l.chunks);
  const int64_t stages = in_flight_interleaved(0, shape.pp, microbatches(l), l.chunks);
  return static_cast<double>(stages) * blocks * block;
}

constexpr HandMemory memory_by_hand(const CountedModel& m, const HandLayout& l) {
  HandMemory held = states_by_hand(m, l);
  held.activations = activations_by_hand(m, l);
  return held;
}

// The share of a step that a pipeline idles.
constexpr double bubble_by_hand(const HandLayout& l) {
  const int64_t count = microbatches(l);
  return bubble_of_total(l.shape.pp, count, l.chunks);
}

// ---- how many chips a batch can feed ----

struct BatchLimits {
  double batch = 1;             // B
  double sequence = 1;          // T
  double flops = 1, sends = 1;  // P, W
  bool tp_shares_links = true;  // as in a node of GPUs; on a torus tp has an axis of its own
  double critical = no_limit;   // tokens: a larger batch than this helps training no more
};
constexpr double usable_batch(const BatchLimits& l) { return std::min(l.batch, l.critical); }

// Chips up to which each has a sequence, and up to which FSDP's trips are hidden.
constexpr double chips_with_sequence(const BatchLimits& l) { return usable_batch(l) / l.sequence; }
constexpr double chips_hidden(const BatchLimits& l) {
  return usable_batch(l) / flops_per_sent_byte(l.flops, l.sends);
}

enum class LimitCase : uint8_t { neither, batch, communication, both };
constexpr const char* name(LimitCase reached) {
  constexpr const char* names[] = {"neither limit", "the batch limit", "the communication limit",
                                   "both limits"};
  return names[static_cast<int>(reached)];
}
// The axes that move a limit that was passed (fed_chips), and a batch that may still grow. HSDP is
// none of them: with gradients in f32 and one microbatch it sends as much between nodes as FSDP.
inline std::string what_helps(const BatchLimits& l, LimitCase reached) {
  if (reached == LimitCase::neither) return "nothing is needed: FSDP, or HSDP where latency shows";
  std::string help = reached == LimitCase::batch ? "cut sequences: cp or tp"
                     : l.tp_shares_links         ? "send less: pp"
                                                 : "send less: pp or tp";
  if (reached == LimitCase::both)
    help = l.tp_shares_links ? "cp or tp, with pp" : "tp, or cp with pp";
  return help + (l.batch < l.critical ? "; or a larger batch" : "");
}

// Which limits FSDP over so many chips has passed.
constexpr LimitCase limit_case(const BatchLimits& l, double chips) {
  const double tokens = usable_batch(l) / chips;
  const bool batch = tokens < l.sequence;
  const bool communication = tokens < flops_per_sent_byte(l.flops, l.sends);
  if (communication) return batch ? LimitCase::both : LimitCase::communication;
  return batch ? LimitCase::batch : LimitCase::neither;
}

// The most chips with such axes; data parallelism fills the rest.
struct FedChips {
  double by_batch = 0, by_communication = 0;

  constexpr double most() const { return std::min(by_batch, by_communication); }
};
constexpr FedChips fed_chips(const BatchLimits& l, const MeshShape& shape) {
  FedChips fed;
  const int gathering = l.tp_shares_links ? 1 : shape.tp;
  fed.by_batch = shape.tp * shape.cp * chips_with_sequence(l);
  fed.by_communication = gathering * shape.pp * chips_hidden(l);
  return fed;
}

// Sizes that axes can have: tp in a node and as long as it is bound by its products, cp as long as
// its ring is hidden, pp as there are blocks.
struct MostRanks {
  int tp = 1, cp = 1, pp = 1;
};
// Axes, doubled one by one, with which `chips` chips are fed. Next is the axis that moves the lower
// limit, of two equal ones the batch limit: tp if it does, else cp or pp. Where that axis has
// reached its most, all stay as they are, and fed_chips says how far they go.
constexpr MeshShape axes_to_feed(const BatchLimits& l, double chips, MostRanks most) {
  MeshShape shape;
  for (FedChips now = fed_chips(l, shape); now.most() < chips; now = fed_chips(l, shape)) {
    const bool by_batch = now.by_batch <= now.by_communication;
    const bool tp_helps = by_batch || !l.tp_shares_links;
    if (tp_helps && shape.tp <= most.tp / 2)
      shape.tp *= 2;
    else if (by_batch && shape.cp <= most.cp / 2)
      shape.cp *= 2;
    else if (!by_batch && shape.pp <= most.pp / 2)
      shape.pp *= 2;
    else
      break;
  }
  return shape;
}

// The most ranks over which an all_gather of `bytes` hides behind `tokens`: 2 to the power of what
// stands on the right of the inequality, over alpha. 0: not even the bytes alone are hidden.
inline double most_ranks_by_latency(AlphaBeta link, double bytes, double tokens, double flops) {
  const double hidden = (tokens / flops - link.beta) * bytes;
  return hidden > 0 ? std::exp2(hidden / link.alpha) : 0;
}

// ---- how long a run takes ----

struct TrainingRun {
  double parameters = 1, tokens = 1;        // N, and tokens of the whole run
  double chips = 1, flops = 1, memory = 1;  // of a chip: P, bytes
  double mfu = 1;
};
struct RunAnswer {
  double flops = 0;  // 6 N for each token
  double days = 0;
  double least_chips = 0;  // that hold weights, gradients and optimizer state, 18 bytes each
  double month_chips = 0;  // with which it takes 30 days
};
inline RunAnswer run_answer(const TrainingRun& run) {
  RunAnswer answer;
  const double day = 86400 * run.flops * run.mfu;  // FLOPs of a chip
  answer.flops = 6 * run.parameters * run.tokens;
  answer.days = answer.flops / (run.chips * day);
  answer.least_chips = std::ceil(18 * run.parameters / run.memory);
  answer.month_chips = std::ceil(answer.flops / (30 * day));
  return answer;
}
// The other way round: MFU of a run that took so many days.
constexpr double mfu_of_days(const TrainingRun& run, double days) {
  return 6 * run.parameters * run.tokens / (run.chips * run.flops * 86400 * days);
}

}  // namespace yotta
