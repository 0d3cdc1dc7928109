#include "course/pictures/mfu_run.hpp"

#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"

namespace yotta {

namespace {

void train(const MfuRun& run, const TransformerConfig& config, Communicator& world, int steps) {
  const DeviceScope meta(Device::meta);
  Mesh mesh(world, run.layout);
  NdParallel model(config, mesh, run.options);
  AdamW optimizer(model.parameters());
  Trainer trainer(model.stack(), optimizer, {}, model.hooks());
  const BatchShard mine = model.share(run.batch);
  const Tensor ids = Tensor::empty({mine.end - mine.begin, run.sequence}, DType::i32);
  const std::vector<Microbatch> parts = model.microbatches(ids, ids, mine.begin);
  for (int step = 0; step < steps; ++step) trainer.step(step, parts, run.batch * run.sequence);
}

}  // namespace

MfuReport mfu_of(const MfuRun& run, const Cluster& machine) {
  TransformerConfig config = run.model;
  config.dtype = DType::bf16;
  const auto ranks = static_cast<int>(run.layout.ranks());
  Stragglers stragglers;
  for (int rank = 0; rank < ranks; ++rank) stragglers.slow_ranks.push_back({rank, 1 / run.kernels});
  stragglers.slow_ranks.insert(stragglers.slow_ranks.end(), run.slow.begin(), run.slow.end());
  constexpr int steps = 2;
  const Timed timed =
      run_on(machine, ranks, [&](Communicator& world) { train(run, config, world, steps); },
             {.chips = run.chips, .stragglers = stragglers});
  const std::vector<double> ends = step_ends(timed.trace, steps);
  const auto tokens = static_cast<double>(run.batch * run.sequence);
  const double needed = needed_flops(config, run.batch, run.sequence);
  MfuReport report;
  report.waterfall =
      waterfall_of(timed.trace, mfu_machine(machine.chip, DType::bf16), needed, ends[0], ends[1]);
  report.step_seconds = ends[1] - ends[0];
  report.tokens_a_second = tokens / report.step_seconds;
  return report;
}

MfuRun first_mfu_run() {
  MfuRun run;
  run.options.microbatches = 4;
  run.options.sequence = run.sequence;
  run.options.checkpoint = {Recompute::all};
  run.options.sequence_parallel = true;
  run.slow = {{5, 1.1}};
  return run;
}

}  // namespace yotta
