// A training step of a model of any size, on a machine that is only described.
//
//     tp 8 x pp 16 x dp 128: 16,384 chips    16 threads: one live rank per stage, the others images
//     405e9 parameters                       Device::meta: shapes and costs, no numbers
//     989 TFLOP/s of bf16                    of which kernels reach a share that was measured
//
// The code that runs is that of any other run: NdParallel, its pipeline, its collectives, the
// trainer. The result is how long a step takes, how much the fullest rank holds, and what the ranks
// waited for:
//
//     seconds = computed + exposed["tp"] + exposed["cp"] + exposed["dp"] + ... + bubble
//
// The parts are averages over the stages. `exposed` is by a communicator's axes. The bubble is the
// rest: waiting for other stages, the time of their messages included, and for the last to end.
//
// Contract: all groups along an axis have the same network: as_seen_by(), gradient_groups.hpp.
#pragma once

#include <map>
#include <string>

#include "yotta/comm/run_on.hpp"
#include "yotta/machine/kernel_rates.hpp"
#include "yotta/model/layout_rules.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"

namespace yotta {

// On an H100, of 989.4 TFLOP/s in bf16: cuBLAS 798 on 8192 x 8192 x 8192; FlashAttention-3, causal,
// heads of 128 numbers, 16k tokens: forward 616, backward 561.
inline constexpr Efficiency h100_kernels = {798 / 989.4, 616 / 989.4, 561 / 989.4};

struct DescribedStep {
  TransformerConfig config = {};
  MeshShape shape = {};
  NdOptions options = {};
  int64_t batch = 1;  // sequences, over all ranks
  Efficiency efficiency = {};
  // What formulas have and no code here does: operators_again of plan/layer_figures.hpp; gradients
  // that are there before the first backward pass has made them; a loss from a copy of the logits
  // in f32; a mesh of which pp is the outermost axis; FSDP's units moved matrix by matrix, in turns
  // with kernels (take_turns of plan/plan_buckets.hpp); one ring through one card of a node
  // (plan/plan_groups.hpp); a technique that each recorded model is given after parallelize.
  bool operators_again = false, gradients_ahead = false, wide_loss = false, pp_outermost = false,
       by_matrix = false, one_ring = false;
  void (*technique)(Transformer&) = nullptr;
};

struct DescribedFigures {
  double seconds = 0, computed = 0, bubble = 0;
  std::map<std::string, double> exposed;  // by axes: "tp", "cp+dp"
  int64_t bytes = 0;                      // the most that a rank held
  std::map<std::string, double> sent;     // bytes of stage 0's rank, by axes
};

namespace detail {

inline constexpr double first_second = 1;  // when the step begins on all ranks: the model is built

// A clock on which FLOPs take as long as measured kernels do.
class KernelClock : public CostSink {
 public:
  KernelClock(CostSink& clock, const Kernels& kernels) : clock_(clock), kernels_(kernels) {}
  // The FLOPs that the chip could do meanwhile.
  void op(const OpCost& cost) override {
    const double seconds = kernels_.seconds(cost) - kernels_.chip.launch_overhead;
    clock_.op({cost.name, cost.dtype, seconds * peak(kernels_.chip, cost.dtype), 0, 0});
  }
  EventStamp send(const MessageCost& m) override { return clock_.send(m); }
  void receive(const MessageCost& m, const EventStamp& travel) override {
    clock_.receive(m, travel);
  }
  void receive_all(std::span<const Arrival> all) override { clock_.receive_all(all); }
  EventStamp now(int lane) override { return clock_.now(lane); }
  void wait(int lane, const EventStamp& done) override { clock_.wait(lane, done); }
  void mirror(std::span<const int> chips, Where where) override { clock_.mirror(chips, where); }
  std::shared_ptr<const GroupNetwork> network(std::span<const int> peers) override {
    return clock_.network(peers);
  }
  void reduce(int lane, int64_t bytes) override { clock_.reduce(lane, bytes); }

 private:
  CostSink& clock_;
  Kernels kernels_;
};

// One step of one live rank.
inline void step_once(Communicator& stages, const Chip& chip, const DescribedStep& step,
                      Where where) {
  const DeviceScope meta(Device::meta);
  Mesh mesh = Mesh::mirrored(stages, step.shape, where);
  NdParallel model(step.config, mesh, step.options, {}, where);
  AdamW optimizer(model.parameters());
  Trainer trainer(model.stack(), optimizer, {}, model.hooks());
  const BatchShard own = model.share(step.batch);
  const int64_t T = step.options.tokens(step.config);
  const Tensor ids = Tensor::empty({own.end - own.begin, T}, DType::i32);
  RankContext& self = context();
  self.ledger.reset();
  self.clock->wait(compute_lane, {0, first_second});
  KernelClock clock(*self.clock, {chip, step.efficiency});
  CostSink* const before = std::exchange(self.clock, &clock);
  trainer.step(0, model.microbatches(ids, ids, own.begin), step.batch * T);
  self.clock = before;
}

// The axes over which a message went. Between two ranks it went over pp if both are alive. If one
// is an image, it was a hop of a ring: of attention's over cp, or of Async-TP's over tp.
inline std::string axes_of(const Trace& trace, int rank, const TraceEvent& message) {
  if (message.lane <= compute_lane) return lane_name(trace, rank, message.lane);
  if (message.peer < first_image) return "pp";
  return std::string(*trace.lanes[static_cast<size_t>(rank)].at(message.lane).begin());
}

inline void add_waits(DescribedFigures& found, const Trace& trace, int rank, double share) {
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)]) {
    if (event.begin < first_second) continue;
    if (event.kind == EventKind::send && rank == 0)
      found.sent[axes_of(trace, rank, event)] += static_cast<double>(event.bytes);
    if (event.kind != EventKind::wait || event.lane != compute_lane || event.cause.rank < 0)
      continue;
    const std::string axes = axes_of(trace, event.cause.rank, trace.at(event.cause));
    if (axes != "pp") found.exposed[axes] += share * event.seconds();
  }
}

inline DescribedFigures figures_of(const Timed& run, int stages) {
  DescribedFigures found;
  found.bubble = found.seconds = run.seconds() - first_second;
  for (int rank = 0; rank < stages; ++rank) {
    const Ledger& ledger = run.reports[static_cast<size_t>(rank)].ledger();
    found.bytes = std::max(found.bytes, ledger.memory()->peak());
    found.computed += busy_seconds(run.trace, rank) / stages;
    add_waits(found, run.trace, rank, 1.0 / stages);
  }
  found.bubble -= found.computed;
  for (const auto& [axes, seconds] : found.exposed) found.bubble -= seconds;
  return found;
}

}  // namespace detail

// Errors: a layout, a batch or an efficiency that cannot be; too few chips; links that differ.
inline DescribedFigures run_described(const Cluster& cluster, const DescribedStep& step,
                                      Where where = Where::current()) {
  expect_layout(step.config, step.shape, step.batch, step.options, where);
  const Efficiency& e = step.efficiency;
  for (const double share : {e.matmul, e.attention, e.attention_backward})
    if (!(share > 0 && share <= 1))
      fail(where, "kernels reach a share of the peak above 0 and up to 1, not {}", share);
  if (step.operators_again || step.gradients_ahead || step.wide_loss || step.by_matrix ||
      step.one_ring || step.technique != nullptr)
    fail(where, "a step with what only formulas have: estimate_step() takes it");
  const int pp = step.shape.pp;
  ClockOptions clock;
  for (int stage = 0; stage < pp; ++stage)
    clock.chips.push_back(stage * stride(step.shape, Axis::pp));
  RunOptions run_options;
  run_options.threads = 1;
  run_options.timeout = 600;
  const Timed run = run_on(
      cluster, pp,
      [&](Communicator& stages) { detail::step_once(stages, cluster.chip, step, where); }, clock,
      run_options, where);
  return detail::figures_of(run, pp);
}

// Model FLOPs of a step, with attention counted as causal models need it: each token sees half of
// the others. step_flops() (nn/transformer_config.hpp) counts all of them.
constexpr double causal_step_flops(const TransformerConfig& c, int64_t batch, int64_t sequence) {
  const double tokens = static_cast<double>(batch * sequence);
  return step_flops(c, batch, sequence) -
         6.0 * static_cast<double>(c.layers * sequence) * head_numbers(c) * tokens;
}

}  // namespace yotta
