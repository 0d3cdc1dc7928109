#include "course/shared/diloco_runs.hpp"

#include <functional>
#include <memory>
#include <optional>

#include "yotta/comm/run_on.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/async_diloco.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/gossip_diloco.hpp"

namespace yotta {

namespace {

// What one rank does around its steps.
struct Agreement {
  std::unique_ptr<Ddp> ddp;
  std::unique_ptr<Diloco> diloco;
  std::unique_ptr<GossipDiloco> gossip;
  std::unique_ptr<AsyncWorker> async;
  int64_t inner;

  Agreement(const DilocoWay& way, Optimizer& optimizer, const std::vector<ParameterPtr>& all,
            Communicator& world)
      : inner(way.options.inner) {
    if (way.kind == DilocoWay::async) async = std::make_unique<AsyncWorker>(optimizer, world);
    if (way.kind == DilocoWay::ddp) ddp = std::make_unique<Ddp>(all, world);
    if (way.kind == DilocoWay::diloco)
      diloco = std::make_unique<Diloco>(optimizer, world, way.options);
    if (way.kind == DilocoWay::gossip)
      gossip = std::make_unique<GossipDiloco>(optimizer, world,
                                              GossipOptions{.inner = way.options.inner});
  }
  void after_step(int64_t done) const {
    if (diloco) diloco->after_step();
    if (gossip) gossip->after_step();
    if (async && done % inner == 0) async->exchange();
  }
  void finish() const {
    if (diloco) diloco->synchronise();
    if (gossip) gossip->mean_of_workers();
  }
};

// One worker's steps. `note` is called before them, after each, and once more when all have the same
// weights.
void train_worker(const DilocoWay& way, const DilocoRun& run, const std::string& text,
                  Communicator& world, std::vector<double>& losses,
                  const std::function<void()>& note) {
  const Transformer model(run.model);
  const std::vector<ParameterPtr> all = parameters(model.stack());
  AdamW optimizer(all);
  const Agreement agreement(way, optimizer, all, world);
  const bool sums = way.kind == DilocoWay::ddp;
  TrainHooks hooks;
  if (sums) hooks.after_backward = [&] { agreement.ddp->finish(); };
  const double rate = run.learning_rate;
  Trainer trainer(model.stack(), optimizer, {.schedule = {rate, rate / 10, 10, run.steps}}, hooks);
  const Batches batches(text, run.model.context, 1);
  const BatchShard mine = batch_shard(run.batch, run.workers, world.rank());
  // DDP's gradients are those of the mean over all tokens, a worker's over its own.
  const int64_t rows = mine.end - mine.begin,
                tokens = (sums ? run.batch : rows) * run.model.context;
  context().ledger.reset();
  note();
  for (int64_t step = 0; step < run.steps; ++step) {
    const Batch batch = batches.draw(step, mine.begin, rows);
    const auto parts = microbatches(batch.inputs, batch.targets, 1, mine.begin);
    const double loss = trainer.step(step, parts, tokens).loss;
    losses.push_back(sums ? loss * run.workers : loss);
    agreement.after_step(step + 1);
    note();
  }
  agreement.finish();
  note();
}

// The server of asynchronous workers of one speed: momentum joins once a round.
void serve_workers(const DilocoWay& way, const DilocoRun& run, Communicator& world) {
  const Transformer model(run.model);
  AdamW optimizer(parameters(model.stack()));
  AsyncOuter outer(AsyncWorker(optimizer, world).weights().clone(), {.delay = run.workers});
  const std::vector<double> seconds(static_cast<size_t>(run.workers), 1);
  serve(world, async_arrivals(seconds, run.workers * (run.steps / way.options.inner)), outer);
}

}  // namespace

std::vector<DilocoWay> diloco_ways() {
  return {{"DDP", DilocoWay::ddp, {}},
          {"DiLoCo, H = 10", DilocoWay::diloco, {.inner = 10}},
          {"DiLoCo, H = 50", DilocoWay::diloco, {.inner = 50}},
          {"streaming, 4 bits, H = 50",
           DilocoWay::diloco,
           {.inner = 50, .fragments = 4, .overlap = 5, .keep = 0.5, .bits = 4}},
          {"gossip, H = 10", DilocoWay::gossip, {.inner = 10}},
          {"asynchronous, H = 10", DilocoWay::async, {.inner = 10}}};
}

DilocoCurve run_diloco(const DilocoWay& way, const DilocoRun& run, const std::string& text) {
  DilocoCurve curve{way.name, std::vector<double>(static_cast<size_t>(run.steps)), {}, {}};
  std::vector<std::vector<double>> losses(static_cast<size_t>(run.workers));
  std::optional<double> begin;
  const auto note = [&] {
    if (context().rank != 0) return;
    const double now = context().clock->now(compute_lane).end;
    if (!begin) return static_cast<void>(begin = now);
    curve.bytes.push_back(static_cast<double>(context().ledger.total_traffic().bytes_sent));
    curve.seconds.push_back(now - *begin);
  };
  ClockOptions options{.trace = false};
  for (int worker = 0; worker < run.workers; ++worker) options.chips.push_back(2 * worker);
  const bool serves = way.kind == DilocoWay::async;
  if (serves) options.chips.push_back(2 * run.workers - 1);  // in the last worker's city
  const auto rank = [&](Communicator& world) {
    if (world.rank() == run.workers) return serve_workers(way, run, world);
    train_worker(way, run, text, world, losses[static_cast<size_t>(world.rank())], note);
  };
  run_on(cities(run.workers, 2), run.workers + (serves ? 1 : 0), rank, options);
  for (const std::vector<double>& worker : losses)
    for (size_t i = 0; i < worker.size(); ++i) curve.loss[i] += worker[i] / run.workers;
  return curve;
}

}  // namespace yotta
